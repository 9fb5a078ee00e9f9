#!/usr/bin/env python3
"""Checks descriptors and files against TensorFlow 2.21's own library.

  descriptors  our schemas and the wheel's have the same messages, fields and enum values, with the same properties
  split        TensorFlow's Merger rebuilds every fixture that protosplit cut, at several maximum sizes and with every
               compression
  special      the same for messages that easily confuse TensorFlow's Merger (special.py)
  root         TensorFlow's Merger rebuilds every fixture that was cut with a Merkle root, also after compressing it again,
               and the root stays the same
  extended     TensorFlow's Merger refuses each file with the extended profile, with values and trailers in several chunks and
               in several files, and protosplit merges them to the source
  merge        protosplit merges every file in tests/data/tensorflow_cpb to a message that equals the source
  fingerprint  protosplit's fingerprint equals TensorFlow's for every SavedModel, in one piece and cut in many ways, and for
               models that no serializer writes (scrambled.py); both refuse the same models, and stored fingerprints agree
  canonical    protosplit's canonical form of messages with closed enums and groups, and of editions (canonical.py), equals
               the deterministic serialization of TensorFlow's protobuf
  load         TensorFlow's Python loads every SavedModel's folder after it was split and merged, and merged from
               TensorFlow's own .cpb files, and its signatures return the same bits as the original's (load.py)

Run by run.sh, which installs the dependencies. The exit code is 1 if anything failed.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import canonical
from scrambled import scrambled
from special import specials

ROOT = Path(__file__).resolve().parents[2]
INTEROP = ROOT / ".interop"
FIXTURES = ROOT / "tests/data/tensorflow"
FOREIGN = ROOT / "tests/data/tensorflow_cpb"

SIZES = {"1KiB": 1 << 10, "10KiB": 10 << 10, "100KiB": 100 << 10, "1GiB": 1 << 30}
COMPRESSIONS = ["auto", "none", "zstd", "brotli", "snappy"]
KINDS = {
    "tensorflow.SavedModel": "savedmodel",
    "tensorflow.GraphDef": "graphdef",
    "tensorflow.MetaGraphDef": "metagraphdef",
    "tensorflow.TensorProto": "tensorproto",
}
# Lowest field number of our additions to chunk.proto, which TensorFlow doesn't have.
FIRST_OWN_FIELD = 1000

DESCRIPTOR_SETS = [
    "crates/core/src/proto/descriptors.binpb",
    "crates/graph-def/src/proto/descriptors.binpb",
    "crates/saved-model/src/proto/descriptors.binpb",
]


class Report:
    def __init__(self):
        self.passed = Counter()
        self.failed = Counter()
        self.refused = []

    def check(self, group, name, problem=None):
        if problem:
            self.failed[group] += 1
            print(f"FAILED {group}: {name}: {problem}")
        else:
            self.passed[group] += 1

    def close(self):
        for group in sorted(self.passed.keys() | self.failed.keys()):
            print(f"{group}: {self.passed[group]} passed, {self.failed[group]} failed")
        if self.refused:
            print(f"{len(self.refused)} of these could not be cut to the maximum size, and were refused with an error:")
            for line in self.refused:
                print(f"  {line}")
        passed, failed = self.passed.total(), self.failed.total()
        print(f"{passed} passed, {failed} failed")
        return 1 if failed or not passed else 0


class TensorFlow:
    """A driver for TensorFlow's library."""

    def __init__(self, scratch):
        self.driver = INTEROP / "tf_read"
        self.scratch = scratch
        self.env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
        self.seconds = 0.0
        self.reads = 0

    def read(self, jobs):
        """Reads (prefix, kind) pairs. For each pair, returns the deterministically serialized bytes, or a string with the error."""
        jobs = list(jobs)
        results = []
        while len(results) < len(jobs):
            rest = range(len(results), len(jobs))
            lines = "".join(f"{jobs[i][0]}\t{jobs[i][1]}\t{self.scratch}/read.{i}\n" for i in rest)
            ran = subprocess.run([self.driver], input=lines, capture_output=True, text=True, env=self.env)
            for i, line in zip(rest, ran.stdout.splitlines()):
                what, seconds, detail, _ = line.split("\t")
                self.seconds += float(seconds)
                self.reads += 1
                out = self.scratch / f"read.{i}"
                if what == "ok":
                    results.append(out.read_bytes())
                    out.unlink()
                else:
                    results.append(f"TensorFlow refused: {detail}")
            # TensorFlow aborts the process on some files. The file that it was reading has failed; another process
            # reads the remaining files.
            if ran.returncode != 0 and len(results) < len(jobs):
                if ran.returncode > 0:
                    raise SystemExit(f"tf_read: {ran.stderr.strip()}")
                results.append(f"TensorFlow crashed: {signal.Signals(-ran.returncode).name}")
        return results

    def canonical(self, schema, name, messages):
        """Returns the deterministic serialization of each message of a type; None if TensorFlow's protobuf refuses it."""
        lines = "".join(f"{message.hex()}\n" for message in messages)
        ran = subprocess.run(
            [self.driver, "--canonical", schema, name], input=lines, capture_output=True, text=True, env=self.env, check=True
        )
        return [None if line == "refused" else bytes.fromhex(line) for line in ran.stdout.splitlines()]

    def descriptors(self, files):
        out = self.scratch / "descriptors"
        subprocess.run([self.driver, "--descriptors", out, *files], check=True, env=self.env, stderr=subprocess.DEVNULL)
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


# Descriptors


def facts(files):
    """Returns the relevant properties of each message and enum, by full name."""
    found = {}
    for file in files:
        syntax = file.syntax or "proto2"

        def enum(prefix, e):
            found[f"{prefix}.{e.name}"] = {
                "file": file.name,
                "syntax": syntax,
                "values": sorted((v.number, v.name, v.options.deprecated) for v in e.value),
                "reserved": sorted((r.start, r.end) for r in e.reserved_range),
                "alias": e.options.allow_alias,
            }

        def field(m, f):
            Field = descriptor_pb2.FieldDescriptorProto
            scalar = f.type not in (Field.TYPE_STRING, Field.TYPE_BYTES, Field.TYPE_MESSAGE, Field.TYPE_GROUP)
            packable = f.label == Field.LABEL_REPEATED and scalar
            packed = f.options.packed if f.options.HasField("packed") else syntax == "proto3"
            in_oneof = f.HasField("oneof_index") and not f.proto3_optional
            return {
                "name": f.name,
                "json name": f.json_name or None,
                "type": Field.Type.Name(f.type),
                "type name": f.type_name,
                "label": Field.Label.Name(f.label),
                "oneof": m.oneof_decl[f.oneof_index].name if in_oneof else None,
                "optional": f.proto3_optional,
                "packed": packable and packed,
                "default": f.default_value,
                "deprecated": f.options.deprecated,
            }

        def message(prefix, m):
            name = f"{prefix}.{m.name}"
            fields = {f.number: field(m, f) for f in m.field}
            if f"{file.package}." == "tensorflow.proto_splitter.":
                fields = {n: f for n, f in fields.items() if n < FIRST_OWN_FIELD}
            found[name] = {
                "file": file.name,
                "syntax": syntax,
                "map": m.options.map_entry,
                "fields": fields,
                "reserved": sorted((r.start, r.end) for r in m.reserved_range),
                "reserved names": sorted(m.reserved_name),
            }
            for e in m.enum_type:
                enum(name, e)
            for n in m.nested_type:
                # These types are ours, and only used by our own fields.
                own = ["ExternalFile", "MerkleTree"]
                if f"{name}.{n.name}" not in [f"tensorflow.proto_splitter.ChunkMetadata.{each}" for each in own]:
                    message(name, n)

        for e in file.enum_type:
            enum(file.package, e)
        for m in file.message_type:
            message(file.package, m)
    return found


def differences(ours, theirs, where=""):
    """Yields the places where two trees of facts differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys(), key=str):
            yield from differences(ours.get(key), theirs.get(key), f"{where}/{key}")
    elif ours != theirs:
        yield f"{where[1:] or 'all of it'}: ours {ours!r}, TensorFlow's {theirs!r}"


def check_descriptors(report, tensorflow):
    files = []
    for path in DESCRIPTOR_SETS:
        files += descriptor_pb2.FileDescriptorSet.FromString((ROOT / path).read_bytes()).file
    # Omits the files of our own messages, which TensorFlow doesn't have.
    files = [file for file in files if not file.package.startswith("proto_splitter.")]
    # TensorFlow has the splitter's files in a different folder; ours is named after the package.
    theirs = tensorflow.descriptors([f.name for f in files])
    for file in theirs.file:
        file.name = file.name.replace("tensorflow/tools/proto_splitter/", "tensorflow/proto_splitter/")
    ours, theirs = facts(files), facts(theirs.file)
    for side in (ours, theirs):
        for fact in side.values():
            for f in fact.get("fields", {}).values():
                # protoc omits the JSON name from compiled-in descriptors; in ours it is derived from the field's name.
                f.pop("json name")
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours:
            problem = "TensorFlow's, but not ours"
        elif name not in theirs:
            problem = "ours, but not TensorFlow's"
        else:
            problem = "; ".join(differences(ours[name], theirs[name]))
        report.check("descriptors", name, problem)
    fields = sum(len(f.get("fields", f.get("values"))) for f in ours.values())
    print(f"descriptors: {len(files)} files, {len(ours)} messages and enums, {fields} fields and values")


def message_maker(tensorflow):
    """Returns `new(name)`, which creates messages from TensorFlow's own descriptors."""
    pool = descriptor_pool.DescriptorPool()
    for file in tensorflow.descriptors(["tensorflow/core/protobuf/fingerprint.proto"]).file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()


# Splitting


@dataclass
class Source:
    name: str
    path: Path
    message: str
    # Size of the largest part that can't be cut, in bytes; 0 if negligible.
    largest_atom: int = 0

    @property
    def prefix(self):
        return self.path.with_suffix("")


def atoms(message):
    """Yields the sizes of all parts that cannot be cut: elements of repeated strings and bytes, map keys, scalars in maps."""

    def size(value):
        return len(value.encode()) if isinstance(value, str) else len(value) if isinstance(value, bytes) else 8

    for field, value in message.ListFields():
        entry = field.message_type and field.message_type.GetOptions().map_entry
        if entry:
            to_messages = field.message_type.fields_by_name["value"].message_type
            for key in value:
                if to_messages:
                    yield size(key)
                    yield from atoms(value[key])
                else:
                    yield size(key) + size(value[key])
        elif field.is_repeated:
            for element in value:
                if field.message_type:
                    yield from atoms(element)
                else:
                    yield size(element)
        elif field.message_type:
            yield from atoms(value)


def fixture_sources(new):
    for path in sorted(FIXTURES.glob("*/*.pb")):
        if path.stem == "fingerprint":
            continue
        name = "tensorflow.SavedModel" if path.name == "saved_model.pb" else "tensorflow.GraphDef"
        message = new(name)
        message.ParseFromString(path.read_bytes())
        yield Source(path.parent.name, path, name, max(atoms(message), default=0))


class Protosplit:
    def __init__(self, binary, report, tensorflow, scratch):
        self.binary = binary
        self.report = report
        self.tensorflow = tensorflow
        self.scratch = scratch
        self.written = []
        self.count = 0

    def run(self, *arguments):
        return subprocess.run([self.binary, *arguments], capture_output=True, text=True, errors="replace")

    def split(self, group, source, size, compression, value_size=None, expect=None, embed=False):
        """Splits, checks protosplit's report, and records the file so that TensorFlow reads it later."""
        label = f"{source.name}, {size}, {compression}" + (f", values from {value_size}" if value_size else "")
        self.count += 1
        folder = self.scratch / f"split.{self.count}"
        folder.mkdir()
        prefix = folder / source.prefix.name
        arguments = ["split", source.path, "-o", prefix, "--max-chunk-size", size, "--compression", compression, "--json"]
        if source.path.name != "saved_model.pb":
            arguments += ["--message", source.message]
        if value_size:
            arguments += ["--value-chunk-size", value_size]
        if embed:
            arguments += ["--embed-schema"]
        ran = self.run(*arguments)
        if ran.returncode == 1:
            self.report.check(group, label, self.refusal(ran, source, size, folder, label))
            return
        problem = self.problem_with(ran, source, prefix, SIZES[size], expect)
        if problem:
            self.report.check(group, label, problem)
        else:
            self.written.append((group, label, source, prefix))

    def split_with_root(self, source, size, compression):
        """Splits with a Merkle root, compresses again, and checks that both files have the root."""
        label = f"{source.name}, {size}, {compression}"
        self.count += 1
        first, again = (self.scratch / f"root.{self.count}.{part}" for part in ("split", "again"))
        first.mkdir()
        again.mkdir()
        message = [] if source.path.name == "saved_model.pb" else ["--message", source.message]
        cut = ["--max-chunk-size", size, "--compression", compression, "--merkle-root", "--json", *message]
        ran = self.run("split", source.path, "-o", first / source.prefix.name, *cut)
        if ran.returncode == 1 or (ran.returncode == 0 and not json.loads(ran.stdout)["split"]):
            return
        if ran.returncode != 0:
            self.report.check("root", label, f"exit {ran.returncode}: {ran.stderr.strip()}")
            return
        root = json.loads(ran.stdout)["merkle_root"]
        other = "none" if compression != "none" else "zstd"
        files = [Path(f"{folder / source.prefix.name}.cpb") for folder in (first, again)]
        self.run("recompress", files[0], "-o", files[1], "--compression", other)
        for file in files:
            ran = self.run("verify", file, "--root", root)
            self.report.check("root", f"{label}, {file.parent.name}", ran.stderr.strip() or None)
            self.written.append(("root", f"{label}, {file.parent.name}", source, file.with_suffix("")))

    def refusal(self, ran, source, size, folder, label):
        """Returns the problem with a refusal; None if there was a reason to refuse, and the error names it."""
        error = ran.stderr.strip()
        if not error.startswith("protosplit: ") or "\n" in error:
            return f"exit 1 without a one-line reason: {error!r}"
        # The first element of a field stays with its parent, so a part can be uncuttable below the maximum.
        if 2 * source.largest_atom < SIZES[size]:
            return f"refused, though nothing indivisible in it comes near the maximum: {error}"
        if not any(int(number) > SIZES[size] for number in re.findall(r"\d+", error)):
            return f"the error names no size over the maximum: {error}"
        if any(folder.iterdir()):
            return f"refused, but left files behind: {sorted(p.name for p in folder.iterdir())}"
        self.report.refused.append(f"{label}: {error}")
        return None

    def problem_with(self, ran, source, prefix, maximum, expect):
        if ran.returncode != 0:
            return f"exit {ran.returncode}: {ran.stderr.strip()}"
        try:
            answer = json.loads(ran.stdout)
            chunks = answer["chunks"]
            messages = [c for c in chunks if c["kind"].upper() == "MESSAGE"]
            if {c["kind"].upper() for c in chunks} - {"MESSAGE", "BYTES"}:
                return f"unknown kinds of chunks: {sorted({c['kind'] for c in chunks})}"
            split, exact = answer["split"], answer["byte_exact"]
            over = [c for c in messages if c["size"] > maximum]
            paths = [c["path"] for c in chunks]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return f"the output of --json is invalid: {error!r} in {ran.stdout[:300]!r}"
        cpb, pb = Path(f"{prefix}.cpb"), Path(f"{prefix}.pb")
        should_split = source.path.stat().st_size > maximum
        if split != should_split:
            return f"split is {split}, but the source has {source.path.stat().st_size} bytes"
        if (cpb.exists(), pb.exists()) != (should_split, not should_split):
            return f"wrote {sorted(p.name for p in prefix.parent.iterdir())}"
        if not split:
            return None if pb.read_bytes() == source.path.read_bytes() else "the .pb is not the source"
        if over:
            return f"a MESSAGE chunk over the maximum: {over[0]}"
        if not exact:
            return "byte_exact is false"
        return expect(paths) if expect else None

    def rewrite(self, source, size):
        """Splits, recompresses, and replaces the last chunk's value with itself. TensorFlow must read the source from each file."""
        self.count += 1
        folder = self.scratch / f"rewrite.{self.count}"
        folder.mkdir()
        message = ["--message", source.message]
        first = folder / source.prefix.name
        ran = self.run("split", source.path, "-o", first, "--max-chunk-size", size, "--json", *message)
        if ran.returncode != 0 or not json.loads(ran.stdout)["split"]:
            return
        # Selects a BYTES chunk, since a slice has the path of its parent, which can't be replaced with a value.
        path = next((c["path"] for c in json.loads(ran.stdout)["chunks"] if c["kind"].upper() == "BYTES"), None)
        steps = [("recompress", [f"{first}.cpb", "--compression", how]) for how in ("none", "zstd", "brotli")]
        if path:
            value = folder / "value"
            got = self.run("get", f"{first}.cpb", path, "-o", value, *message)
            self.report.check("rewrite", f"{source.name}, {size}, get", got.stderr.strip() or None)
            steps.append(("replace", [f"{first}.cpb", path, "--with", value, *message]))
        for at, (command, arguments) in enumerate(steps):
            out = folder / str(at)
            out.mkdir()
            prefix = out / source.prefix.name
            ran = self.run(command, *arguments, "-o", f"{prefix}.cpb")
            label = f"{source.name}, {size}, {command} {at}"
            if ran.returncode != 0:
                self.report.check("rewrite", label, f"exit {ran.returncode}: {ran.stderr.strip()}")
            else:
                self.written.append(("rewrite", label, source, prefix))

    def check_with_tensorflow(self):
        """Compares the messages that TensorFlow reads from all written files and from their sources."""
        sources = {s.path: s for _, _, s, _ in self.written}
        jobs = [(s.prefix, KINDS[s.message]) for s in sources.values()]
        jobs += [(prefix, KINDS[s.message]) for _, _, s, prefix in self.written]
        results = self.tensorflow.read(jobs)
        wanted = dict(zip(sources, results))
        for (group, label, source, _), got in zip(self.written, results[len(sources) :]):
            self.report.check(group, label, difference(got, wanted[source.path]))

        # TensorFlow computes fingerprints from parts of a chunked SavedModel. The values depend on the chunks, so this
        # only checks that there is a fingerprint.
        models = [(label, prefix) for _, label, s, prefix in self.written if s.message == "tensorflow.SavedModel"]
        models = [(label, prefix) for label, prefix in models if Path(f"{prefix}.cpb").exists()]
        fingerprints = self.tensorflow.read((prefix.parent, "fingerprint") for _, prefix in models)
        for (label, _), fingerprint in zip(models, fingerprints):
            self.report.check("fingerprints", label, fingerprint if isinstance(fingerprint, str) else None)
        self.written = []


def difference(got, wanted):
    """Returns the difference between two results from TensorFlow.read; None if they are equal."""
    if isinstance(wanted, str):
        return f"the source: {wanted}"
    if isinstance(got, str):
        return got
    if got == wanted:
        return None
    common = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
    return f"TensorFlow reads another message: {len(got)} bytes for {len(wanted)}, the first difference at {common}"


def check_split(protosplit, new):
    for source in fixture_sources(new):
        for size in SIZES:
            for compression in COMPRESSIONS:
                protosplit.split("split", source, size, compression)
        protosplit.split("split", source, "10KiB", "zstd", value_size="64")
        protosplit.split("split", source, "10KiB", "none", embed=True)
        protosplit.rewrite(source, "10KiB")
    protosplit.check_with_tensorflow()


CANONICAL_MESSAGES = 200


def check_canonical(protosplit, report, tensorflow):
    schema, source, out = (protosplit.scratch / f"canonical.{end}" for end in ("binpb", "in.pb", "out.pb"))
    messages = [canonical.Messages(seed).message() for seed in range(CANONICAL_MESSAGES)]
    for name, descriptors in canonical.schemas().items():
        schema.write_bytes(descriptors.SerializeToString())
        expected = tensorflow.canonical(schema, canonical.TYPE, messages)
        for seed, (message, expected) in enumerate(zip(messages, expected, strict=True)):
            source.write_bytes(message)
            ran = protosplit.run(
                *["merge", source, "-o", out, "--canonical", "--force", "--descriptor-set", schema, "--message", canonical.TYPE]
            )
            found = out.read_bytes() if ran.returncode == 0 else None
            problem = f"{message.hex()}: {found and found.hex()}, not {expected and expected.hex()}: {ran.stderr.strip()}"
            report.check("canonical", f"{name}: seed {seed}", problem if found != expected else None)


def check_special(protosplit, new):
    for special in specials(new):
        folder = protosplit.scratch / special.name
        folder.mkdir()
        name = "saved_model.pb" if special.message == "tensorflow.SavedModel" else "message.pb"
        source = Source(special.name, folder / name, special.message)
        source.path.write_bytes(special.data)
        for compression in COMPRESSIONS:
            protosplit.split("special", source, "1KiB", compression, expect=special.expect)
        # Without `expect`, which describes the chunks that are necessary at 1 KiB.
        protosplit.split("special", source, "10KiB", "none")
        protosplit.split("special", source, "1KiB", "none", value_size="64")
    protosplit.check_with_tensorflow()


def check_root(protosplit, new):
    for source in fixture_sources(new):
        for size in ("1KiB", "10KiB"):
            for compression in ("none", "zstd", "brotli"):
                protosplit.split_with_root(source, size, compression)
    protosplit.check_with_tensorflow()


# The extended profile

EXTENDED = {
    "as it is": [],
    "values in several chunks": ["--max-chunk-size", "2KiB", "--value-chunk-size", "none", "--max-value-size", "100"],
    "trailers in chunks": ["--max-chunk-size", "1KiB", "--value-chunk-size", "16"],
    "several files": ["--max-chunk-size", "4KiB", "--max-file-size", "16KiB"],
}
# The field number that TensorFlow's error reports for a file in the extended profile.
REFUSED_FIELD = "536870911"


def check_extended(protosplit, report, tensorflow, new):
    written = []
    for at, source in enumerate(fixture_sources(new)):
        for name, options in EXTENDED.items():
            label = f"{source.name}, {name}"
            folder = protosplit.scratch / f"extended.{at}.{name}"
            folder.mkdir()
            arguments = [source.path, "-o", folder / "m", "--message", source.message, "--profile", "extended", *options]
            if not options:
                # The maximum is below the message's size, since smaller messages aren't cut.
                arguments += ["--max-chunk-size", str(max(source.path.stat().st_size * 3 // 4, 1000))]
            ran = protosplit.run("split", *arguments)
            if ran.returncode != 0:
                report.check("extended", label, f"exit {ran.returncode}: {ran.stderr.strip()}")
                continue
            back = folder / "back.pb"
            ran = protosplit.run("merge", folder / "m.cpb", "-o", back)
            same = ran.returncode == 0 and back.read_bytes() == source.path.read_bytes()
            report.check("extended", f"{label}, merged", None if same else f"not the source: {ran.stderr.strip()}")
            # TensorFlow must also reject each of the other files separately.
            written += [(f"{label}, {file.name}", source, file) for file in sorted(folder.glob("*.cpb"))]
    results = tensorflow.read((file.with_suffix(""), KINDS[source.message]) for _, source, file in written)
    for (label, _, _), result in zip(written, results):
        refused = isinstance(result, str) and result.startswith("TensorFlow refused") and REFUSED_FIELD in result
        report.check("extended", label, None if refused else f"not refused: {result[:200]!r}")


# Merging


def check_merge(protosplit, report, tensorflow):
    merged = []
    for entry in json.loads((FOREIGN / "MANIFEST.json").read_text()):
        out = protosplit.scratch / (entry["file"] + ".merged.pb")
        ran = protosplit.run("merge", FOREIGN / entry["file"], "-o", out, "--message", entry["message"])
        if ran.returncode != 0:
            report.check("merge", entry["file"], f"exit {ran.returncode}: {ran.stderr.strip()}")
        elif not out.exists():
            report.check("merge", entry["file"], "nothing was written")
        else:
            merged.append((entry, out))
    sources = sorted({(e["source"], e["message"]) for e, _ in merged})
    jobs = [((FIXTURES / path).with_suffix(""), KINDS[message]) for path, message in sources]
    jobs += [(out.with_suffix(""), KINDS[e["message"]]) for e, out in merged]
    results = tensorflow.read(jobs)
    wanted = {path: result for (path, _), result in zip(sources, results)}
    for (entry, _), got in zip(merged, results[len(sources) :]):
        report.check("merge", entry["file"], difference(got, wanted[entry["source"]]))


# Fingerprints

HASHES = ["saved_model_checksum", "graph_def_program_hash", "signature_def_hash", "saved_object_graph_hash", "checkpoint_hash"]
SCRAMBLED_MODELS = 300


def fingerprint_folders(protosplit, report, new):
    """Yields the folders of fixtures, special and scrambled models, in one piece and cut, with labels."""
    models = [(folder.parent.name, folder.parent) for folder in sorted(FIXTURES.glob("*/saved_model.pb"))]
    contents = [(s.name, s.data) for s in specials(new) if s.message == "tensorflow.SavedModel"]
    descriptor = new("tensorflow.SavedModel").DESCRIPTOR
    contents += [(f"scrambled {seed}", scrambled(descriptor, seed)) for seed in range(SCRAMBLED_MODELS)]
    for at, (name, data) in enumerate(contents):
        folder = protosplit.scratch / f"model.{at}"
        folder.mkdir()
        (folder / "saved_model.pb").write_bytes(data)
        models.append((name, folder))
    for at, (name, folder) in enumerate(models):
        yield name, folder
        size = (folder / "saved_model.pb").stat().st_size
        for parts in (2, 10, 40):
            out = protosplit.scratch / f"cut.{at}.{parts}"
            options = ["--max-chunk-size", str(max(size // parts, 20)), "--value-chunk-size", "100"]
            ran = protosplit.run("convert", folder, out, "--to", "cpb", *options)
            if ran.returncode == 0 and (out / "saved_model.cpb").exists():
                yield f"{name}, cut by {parts}", out
            elif ran.returncode not in (0, 1):
                report.check("fingerprint", f"{name}, cut by {parts}", f"exit {ran.returncode}: {ran.stderr.strip()}")
    for file in sorted(FOREIGN.glob("*.cpb")):
        if not file.name.startswith("graphdef"):
            folder = protosplit.scratch / file.name
            folder.mkdir()
            (folder / "saved_model.cpb").write_bytes(file.read_bytes())
            yield file.name, folder


def check_fingerprint(protosplit, report, tensorflow, new):
    folders = list(fingerprint_folders(protosplit, report, new))
    results = tensorflow.read((folder, "fingerprint") for _, folder in folders)
    refused = 0
    for (label, folder), theirs in zip(folders, results):
        ran = protosplit.run("fingerprint", folder, "--json")
        problem = None
        if ran.returncode not in (0, 1) or not ran.stdout:
            problem = f"exit {ran.returncode}: {ran.stderr.strip()}" if not isinstance(theirs, str) else None
        elif isinstance(theirs, str):
            if json.loads(ran.stdout)["refused"] is None:
                problem = f"a fingerprint was computed, although {theirs}"
        else:
            problem = fingerprint_problem(json.loads(ran.stdout), theirs, new)
        refused += isinstance(theirs, str)
        report.check("fingerprint", label, problem)
    print(f"fingerprint: {len(folders)} models, {refused} of which have no fingerprint in TensorFlow")


def fingerprint_problem(answer, theirs, new):
    fingerprint = new("tensorflow.FingerprintDef")
    fingerprint.ParseFromString(theirs)
    wanted = {name: str(getattr(fingerprint, name)) for name in HASHES} | {"producer": fingerprint.version.producer}
    if answer["computed"] is None:
        return f"refused: {answer['refused']}"
    differing = [name for name, value in wanted.items() if answer["computed"][name] != value]
    if differing:
        return f"differs in {', '.join(differing)}"
    if answer["agrees"] is False:
        return f"the stored fingerprint differs in {', '.join(answer['differs_in'])}"
    return None


# Loading


def merged_folders(protosplit, report):
    """Splits and merges folders. Returns the merged folders with labels and the originals."""
    originals = [file.parent for file in sorted(FIXTURES.glob("*/saved_model.pb"))]
    chunked = []
    for original in originals:
        label = f"{original.name}, split"
        out = protosplit.scratch / f"{original.name}.split"
        ran = protosplit.run("split", original, "-o", out, "--max-chunk-size", "10KiB")
        if ran.returncode != 0:
            report.check("load", label, f"split: exit {ran.returncode}: {ran.stderr.strip()}")
        else:
            chunked.append((label, original, out))
    for entry in json.loads((FOREIGN / "MANIFEST.json").read_text()):
        if entry["message"] == "tensorflow.SavedModel":
            original = (FIXTURES / entry["source"]).parent
            folder = protosplit.scratch / f"{entry['file']}.whole"
            shutil.copytree(original, folder)
            (folder / "saved_model.pb").unlink()
            shutil.copy(FOREIGN / entry["file"], folder / "saved_model.cpb")
            chunked.append((entry["file"], original, folder))
    for label, original, folder in chunked:
        if [file.name for file in folder.glob("saved_model.*")] != ["saved_model.cpb"]:
            report.check("load", label, f"no saved_model.cpb alone, but {sorted(p.name for p in folder.iterdir())}")
            continue
        out = folder.with_name(f"{folder.name}.merged")
        ran = protosplit.run("merge", folder, "-o", out)
        # Removes the folder, so that the merged folder can't depend on it.
        shutil.rmtree(folder)
        if ran.returncode != 0:
            report.check("load", label, f"merge: exit {ran.returncode}: {ran.stderr.strip()}")
        elif [file.name for file in out.glob("saved_model.*")] != ["saved_model.pb"]:
            report.check("load", label, f"merged to {sorted(p.name for p in out.iterdir())}")
        else:
            yield label, original, out


def check_load(protosplit, report):
    jobs = list(merged_folders(protosplit, report))
    lines = json.dumps([[str(original), str(out)] for _, original, out in jobs])
    script = Path(__file__).with_name("load.py")
    ran = subprocess.run([sys.executable, script], input=lines, capture_output=True, text=True, errors="replace")
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    end = (ran.stderr.strip().splitlines() or [""])[-1]
    for at, (label, _, _) in enumerate(jobs):
        unanswered = f"load.py ended without a result: exit {ran.returncode}: {end}"
        report.check("load", label, answers[at]["problem"] if at < len(answers) else unanswered)
    print(f"load: {len(jobs)} models, {sum(answer['runs'] for answer in answers)} runs of signatures compared")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    groups = ["descriptors", "split", "special", "root", "extended", "merge", "fingerprint", "canonical", "load"]
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"checks to run; all by default: {', '.join(groups)}")
    parser.add_argument("--protosplit", type=Path, default=ROOT / "target/release/protosplit", help="the binary to check")
    parser.add_argument("--keep", type=Path, help="an empty or new folder to keep all written files in")
    options = parser.parse_args()
    chosen = options.groups or groups
    if set(chosen) - set(groups):
        parser.error(f"no such group: {', '.join(sorted(set(chosen) - set(groups)))}")
    if set(chosen) != {"descriptors"} and not options.protosplit.is_file():
        parser.error(f"no protosplit at {options.protosplit}")

    with tempfile.TemporaryDirectory(dir=INTEROP) as temporary:
        scratch = Path(temporary)
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            scratch = options.keep.resolve()
        report = Report()
        tensorflow = TensorFlow(scratch)
        protosplit = Protosplit(options.protosplit.resolve(), report, tensorflow, scratch)
        if "descriptors" in chosen:
            check_descriptors(report, tensorflow)
        if "split" in chosen:
            check_split(protosplit, message_maker(tensorflow))
        if "special" in chosen:
            check_special(protosplit, message_maker(tensorflow))
        if "root" in chosen:
            check_root(protosplit, message_maker(tensorflow))
        if "extended" in chosen:
            check_extended(protosplit, report, tensorflow, message_maker(tensorflow))
        if "merge" in chosen:
            check_merge(protosplit, report, tensorflow)
        if "fingerprint" in chosen:
            check_fingerprint(protosplit, report, tensorflow, message_maker(tensorflow))
        if "canonical" in chosen:
            check_canonical(protosplit, report, tensorflow)
        if "load" in chosen:
            check_load(protosplit, report)
        if tensorflow.reads:
            print(f"TensorFlow read {tensorflow.reads} files in {tensorflow.seconds:.2f} seconds")
        return report.close()


if __name__ == "__main__":
    sys.exit(main())
