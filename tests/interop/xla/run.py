"""Checks split protos and profiles against JAX, jaxlib and XProf; see run.sh."""

import argparse
import os

# This implementation sorts map keys by value, as C++ does.
os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")

import gzip
import hashlib
import importlib.metadata
import json
import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from records import records

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
TOOLS = """overview_page trace_viewer trace_viewer@ input_pipeline_analyzer framework_op_stats kernel_stats memory_profile pod_viewer
op_profile hlo_stats roofline_model inference_profile perf_counters utilization_viewer smart_suggestion""".split()


def schema():
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString((ROOT / "crates/xla/src/schema.binpb").read_bytes())
    for file in files.file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def independent(file: bytes, kind, manifest_kind):
    """Returns the message of a split proto that only overrides top-level fields."""
    first, *rest = records(file)
    manifest = manifest_kind.FromString(first)
    message = kind()
    assert manifest.result_proto_type == kind.DESCRIPTOR.full_name and len(rest) == len(manifest.records)
    for entry, record in zip(manifest.records, rest):
        if entry.WhichOneof("record_type") == "proto_merge_record":
            message.MergeFromString(record)
        else:
            (part,) = entry.field_override_record.field_path
            field = kind.DESCRIPTOR.fields_by_number[part.field_number]
            setattr(message, field.name, record.decode() if field.type == field.TYPE_STRING else record)
    return message


def dumps(run, kinds, folder: pathlib.Path) -> int:
    module_kind, manifest_kind = kinds("xla.HloProto"), kinds("xla.SplitProtoManifest")
    names = subprocess.check_output([sys.executable, HERE / "programs.py", "list", folder], text=True).split()
    count = 0
    for name in names:
        place = folder / name
        subprocess.run([sys.executable, HERE / "programs.py", name, place], check=True, stdout=subprocess.DEVNULL)
        for split in sorted(place.glob("*.riegeli")):
            whole = split.with_suffix(".hlo.pb")
            expected = module_kind.FromString(whole.read_bytes())
            missing = "after_optimizations" in split.name
            said = run("verify", split)
            assert ("buffer_assignment" in said) == missing, f"{split.name}: {said}"
            run("merge", split, "-o", place / "merged.pb", "--force")
            merged = module_kind.FromString((place / "merged.pb").read_bytes())
            # Splits the whole module with the command.
            run("convert", whole, "-o", place / "ours.riegeli", "--to", "split-proto", "--force")
            ours = independent((place / "ours.riegeli").read_bytes(), module_kind, manifest_kind)
            assert ours.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True), split.name
            if missing:
                expected.ClearField("buffer_assignment")
            else:
                assert records((place / "ours.riegeli").read_bytes()) == records(split.read_bytes()), split.name
            assert merged.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True), split.name
            count += 1
    assert count >= 2 * len(names), count
    return count


def kept(run, kinds, folder: pathlib.Path) -> int:
    """Checks the dumps of tests/data. The hashes of the canonical bytes that XLA's own reader returns are known."""
    module_kind, manifest_kind = kinds("xla.HloProto"), kinds("xla.SplitProtoManifest")
    data = ROOT / "tests/data/xla"
    known = json.loads((data / "expected.json").read_text())
    for name, expected in known.items():
        run("merge", data / name, "-o", folder / "merged.pb", "--force")
        merged = module_kind.FromString((folder / "merged.pb").read_bytes()).SerializeToString(deterministic=True)
        assert hashlib.sha256(merged).hexdigest() == expected["merged_sha256"], name
        run("merge", data / name, "-o", folder / "merged.pb", "--canonical", "--force")
        assert (folder / "merged.pb").read_bytes() == merged, name
        whole = (data / name).with_name(expected["hlo_pb"]["file"])
        run("convert", whole, "-o", folder / "ours.riegeli", "--to", "split-proto", "--force")
        ours = independent((folder / "ours.riegeli").read_bytes(), module_kind, manifest_kind)
        assert ours.SerializeToString(deterministic=True) == whole.read_bytes(), name
    return len(known)


TREE = "xla.HumanReadableAotExecutable"


def executables(run, kinds, folder: pathlib.Path) -> int:
    """Checks how jaxlib reads executables that were split and reassembled, even after they were one message."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _thunky_ext

    def read(executable: bytes) -> str:
        context = ir.Context()
        _thunky_ext.register_dialect(context)
        return str(_thunky_ext.jax_executable_to_mlir(executable, context))

    count = 0
    for path in sorted((ROOT / "tests/data/xla/aot").glob("*.aot")):
        expected = read(path.read_bytes())
        for compression in ("none", "snappy", "zstd:3", "brotli:4"):
            ours = folder / "ours.riegeli"
            run("convert", path, "-o", ours, "--to", "split-proto", "--set", f"compression={compression}", "--force")
            # The zero byte is empty IFRT metadata, before the executable.
            assert read(b"\0" + ours.read_bytes()) == expected, f"{path.name}: {compression}"
            count += 1
        run("convert", path, "-o", folder / "tree.pb", "--to", "unpacked-aot", "--force")
        tree = kinds(TREE).FromString((folder / "tree.pb").read_bytes())
        assert tree.gpu_executable.thunks and tree.executable_and_options.pjrt_client_name, path.name
        run("convert", folder / "tree.pb", "-o", ours, "--message", TREE, "--to", "aot", "--force")
        assert read(b"\0" + ours.read_bytes()) == expected, path.name
        count += 1
    # An executable for a CPU isn't split. The result is the input without IFRT's metadata.
    subprocess.run([sys.executable, HERE / "programs.py", "executable", folder], check=True, stdout=subprocess.DEVNULL)
    made = (folder / "cpu.aot").read_bytes()
    run("convert", folder / "cpu.aot", "-o", folder / "tree.pb", "--to", "unpacked-aot", "--force")
    tree = kinds(TREE).FromString((folder / "tree.pb").read_bytes())
    assert tree.cpu_executable.hlo_module.hlo_module.computations
    run("convert", folder / "tree.pb", "-o", ours, "--message", TREE, "--to", "aot", "--force")
    assert made.endswith(ours.read_bytes()) and len(made) - len(ours.read_bytes()) < 1000
    # Reads an entry of JAX's compilation cache.
    (entry,) = (folder / "cache").glob("*-cache")
    said = run("info", entry)
    assert "compressed with" in said and "IFRT metadata" in said, said
    run("get", entry, "cpu_executable.hlo_module.hlo_module.name", "--message", TREE)
    return count + 1


def profiles(run, kinds, folder: pathlib.Path) -> int:
    from xprof.convert import raw_to_tool_data

    subprocess.run([sys.executable, HERE / "programs.py", "profile", folder / "made"], check=True, stdout=subprocess.DEVNULL)
    (made,) = (folder / "made").rglob("*.xplane.pb")

    def answer(path: pathlib.Path, tool: str) -> bytes:
        data, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], tool, {"use_saved_result": False})
        if data is None:
            return b"none"
        data = data if isinstance(data, bytes) else str(data).encode()
        return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data

    def asked(path: pathlib.Path, tool: str) -> str:
        return hashlib.sha256(answer(path, tool)).hexdigest()

    def asked_by_time(path: pathlib.Path, tool: str) -> str:
        """Returns the same as `asked`, but ignores the order of events in a trace.

        For a profile whose lines came from several records: XProf sorts their events, but a merge doesn't.
        """
        if not tool.startswith("trace_viewer"):
            return asked(path, tool)
        trace = json.loads(answer(path, tool))
        trace["traceEvents"].sort(key=lambda event: json.dumps(event, sort_keys=True))
        return hashlib.sha256(json.dumps(trace, sort_keys=True).encode()).hexdigest()

    # The file is named after the host.
    plain, split = folder / "pb" / "vm.xplane.pb", folder / "riegeli" / "vm.xplane.riegeli"
    for place in (plain, split):
        place.parent.mkdir()
    plain.write_bytes(made.read_bytes())
    run("convert", plain, "-o", split, "--to", "xplane-riegeli")
    run("convert", split, "-o", folder / "back.xplane.pb", "--to", "pb")
    assert (folder / "back.xplane.pb").read_bytes() == plain.read_bytes()
    for tool in TOOLS:
        assert asked(split, tool) == asked(plain, tool), tool

    # A profile in two parts, whose metadata have different IDs and times, as concatenated files.
    space_kind = kinds("tensorflow.profiler.XSpace")
    parts = [space_kind.FromString(made.read_bytes()) for _ in range(2)]
    for number, part in enumerate(parts):
        for plane in part.planes:
            for line in plane.lines:
                half = len(line.events) // 2
                del line.events[slice(half, None) if number == 0 else slice(0, half)]
                line.timestamp_ns += 1000 * number * (-1 if line.id % 2 else 1)
        if number == 1:
            renumber(part)
    foreign, ours = folder / "foreign" / "vm.xplane.riegeli", folder / "ours" / "vm.xplane.pb"
    for place in (foreign, ours):
        place.parent.mkdir()
    with foreign.open("wb") as file:
        for part in parts:
            (folder / "part.xplane.pb").write_bytes(part.SerializeToString())
            run("convert", folder / "part.xplane.pb", "-o", folder / "part.xplane.riegeli", "--to", "xplane-riegeli", "--force")
            file.write((folder / "part.xplane.riegeli").read_bytes())
    run("merge", foreign, "-o", ours)
    for tool in TOOLS:
        assert asked_by_time(ours, tool) == asked_by_time(foreign, tool), f"{tool}, two parts"
    return len(TOOLS)


def renumber(space) -> None:
    """Renumbers metadata, also in all references."""
    for plane in space.planes:

        def stats(of) -> None:
            for stat in of.stats:
                stat.metadata_id += 7
                if stat.WhichOneof("value") == "ref_value":
                    stat.ref_value += 7

        for line in plane.lines:
            for event in line.events:
                event.metadata_id += 1000
                stats(event)
        for field, by in (("event_metadata", 1000), ("stat_metadata", 7)):
            entries = getattr(plane, field)
            for number, metadata in sorted(entries.items(), reverse=True):
                metadata.id = number + by
                entries[number + by].CopyFrom(metadata)
                del entries[number]
        for metadata in plane.event_metadata.values():
            stats(metadata)
        stats(plane)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--protosplit", required=True)
    command = parser.parse_args().protosplit

    def run(*arguments) -> str:
        done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout + done.stderr

    kinds = schema()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print(f"{kept(run, kinds, folder)} dumps that are kept: merged, and cut for the independent reader", flush=True)
        if tuple(map(int, importlib.metadata.version("jaxlib").split(".")[:2])) >= (0, 12):
            print(f"{dumps(run, kinds, folder)} dumps: merged and cut as XLA does", flush=True)
            print(f"{executables(run, kinds, folder)} executables: read by jaxlib", flush=True)
        else:
            print("skipped: new dumps, and executables: jaxlib 0.12 needs Python 3.12", flush=True)
        print(f"{profiles(run, kinds, folder)} tools of XProf: the same of a profile in records", flush=True)


main()
