"""Checks value by value that `protosplit samediff` reads files written by Python, and vice versa."""

import argparse
import subprocess
import tempfile
import zipfile
from pathlib import Path

import numpy as np

import fixtures
import model as m

passed = failed = 0
# The command's note about names in args.zip that a classic file can't store.
LEFT_OUT = (
    "protosplit: a classic file can't store names of arguments; "
    'this leaves out those of the operation "mul" and of 1 more\n'
)


def check(what, found, expected):
    global passed, failed
    if found == expected:
        passed += 1
        return
    failed += 1
    print(f"FAILED {what}: {str(found)[:300]} is not {str(expected)[:300]}")


def numbers(dtype, shape):
    """Returns values of a type, all of them different if possible."""
    count = int(np.prod(shape, dtype=np.int64))
    kind = np.dtype(m.DTYPES[dtype][1])
    values = np.arange(count) * 37 + 11
    if dtype == "BOOL":
        values = values % 2
    if kind.kind == "f":
        values = values / 8 - 3
    return values.astype(kind).reshape(shape)


def all_kinds():
    """Yields (name, dtype, shape, values, order, big, empty) for arrays of every kind."""
    for dtype in m.DTYPES:
        if dtype == "UTF8":
            continue
        for shape in ([], [5], [2, 3, 4], [0], [3, 1, 2]):
            for order in "cf":
                for big in (False, True):
                    dims = "x".join(map(str, shape)) or "scalar"
                    name = f"{dtype}/{dims}:{order}{int(big)}"
                    yield name, dtype, shape, numbers(dtype, shape), order, big, False
    yield "empty", "INT32", [], np.zeros(0, "i4"), "c", True, True
    # String arrays are flagged big-endian, but their offsets are little-endian.
    yield "texts", "UTF8", [3], ["a", "", "näher & ähnlich"], "c", True, False
    yield "text", "UTF8", [], [""], "c", True, False


def expected(dtype, shape, values):
    if dtype == "UTF8":
        return dtype, shape, values
    width = np.dtype(m.DTYPES[dtype][1]).itemsize
    return dtype, shape, np.ascontiguousarray(values).view(f"u{width}").ravel().tolist()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--protosplit", required=True)
    parser.add_argument("--flatc", help="path of flatc, to let it read and write graphs too")
    args = parser.parse_args()

    def any_command(*words, said=""):
        command = list(map(str, words))
        done = subprocess.run(command, capture_output=True, text=True)
        check(" ".join(command[1:]), (done.returncode, done.stderr), (0, said))

    def protosplit(*words, said=""):
        any_command(args.protosplit, *words, said=said)

    def verify(path, *warnings):
        command = [args.protosplit, "verify", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        found = [line.split(f"{path.name}: ", 1)[-1] for line in done.stderr.splitlines()]
        check(f"verify {path.name}", (done.returncode, found), (0, list(warnings)))

    def run(*words, said=""):
        protosplit("samediff", *words, said=said)

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        classic(folder, run)
        archives(folder, run)
        training(folder, run)
        tensors(folder, run)
        forms(folder, protosplit, verify)
        real(folder, run)
        if args.flatc:
            graphs(folder, any_command, verify, args.protosplit, args.flatc)
    print(f"{passed} passed, {failed} failed")
    raise SystemExit(failed != 0)


def classic(folder, run):
    """Converts a classic file with arrays of every kind to a model and back."""
    kinds = list(all_kinds())
    variables = [("in", "FLOAT", m.PLACEHOLDER, [-1, 2], None, {})]
    for name, dtype, shape, values, order, big, empty in kinds:
        data = m.encode(dtype, values, order, big)
        how = {"order": order, "big": big, "empty": empty}
        variables.append((name, dtype, m.CONSTANT, shape, data, how))
    path = folder / "classic.fb"
    path.write_bytes(m.classic_file(variables))
    run("add", path, "--tag", "first", "-o", folder / "classic.zip")
    tags = m.read_model(folder / "classic.zip")
    check("the tags of a classic file", list(tags), ["first"])
    check("alignment", m.misaligned(folder / "classic.zip"), [])
    _, _, parameters, _ = tags["first"]
    for name, dtype, shape, values, *_ in kinds:
        check(name, parameters.get(name), expected(dtype, shape, values))
    run("extract", folder / "classic.zip", "-o", folder / "back.fb", "--to", "fb")
    check(
        "a classic file and back",
        m.read_classic((folder / "back.fb").read_bytes()),
        m.read_classic(path.read_bytes()),
    )


def archives(folder, run):
    """Reads and edits models that Python wrote, whose layouts differ from ours."""
    w, b = numbers("FLOAT", [4, 6]), numbers("INT16", [7])
    moment = numbers("DOUBLE", [4, 6])
    big = numbers("FLOAT", [300, 200])
    variables = [
        ("in", "FLOAT", m.PLACEHOLDER, [-1, 4]),
        ("layer/w:0", "FLOAT", m.VARIABLE, [4, 6]),
        ("b", "INT16", m.CONSTANT, [7]),
        ("big", "FLOAT", m.VARIABLE, [300, 200]),
        ("out", "FLOAT", m.ARRAY, []),
        ("mean", "FLOAT", m.ARRAY, []),
    ]
    operations = [
        (
            "mul", "matmul", 21, -(2**62), ["in", "layer/w:0"], ["out"],
            [("transpose", 1), ("z", -(2**63)), ("größe", 2**63 - 1)],
            [("alpha", 0.1), ("beta", -1e300), ("tiny", 5e-324)],
            [("transposeX", True), ("transposeY", False), ("fused", True)],
            [("out", m.DTYPES["DOUBLE"][0]), ("acc", m.DTYPES["UTF8"][0])],
        ),
        ("loss", "mean", 5, 0, ["out"], ["mean"], [], [("only", 0.0)], [("keepDims", False)], []),
    ]  # fmt: skip
    graph = m.graph_file(variables, operations)
    file = m.array_file
    entries = {
        "tags.txt": "One\ntwo",
        "one/graph.fb": graph,
        "one/params.txt": "layer/w:0 7\r\nb x\r\nbig 9\r\n",
        "one/params/7.fb": file("FLOAT", [4, 6], m.encode("FLOAT", w, "f", True), order="f", big=True),
        "one/params/x.fb": file("INT16", [7], m.encode("INT16", b)),
        "one/params/9.fb": file("FLOAT", [300, 200], m.encode("FLOAT", big)),
        "two/graph.fb": graph,
        "two/params.txt": "\ufeffb ONE/x\nlayer/w:0 0\nbig one/9\n",
        "two/params/0.fb": file("FLOAT", [4, 6], m.encode("FLOAT", w + 1, big=True), big=True),
        "two/updater.txt": "layer/w:0 0 1\n",
        "two/updater/0.fb": file("DOUBLE", [4, 6], m.encode("DOUBLE", moment)),
        "two/updater/1.fb": file("DOUBLE", [4, 6], m.encode("DOUBLE", -moment)),
        "two/trainingConfig.fb": b"opaque",
    }
    # flatc's JSON truncates numbers, so these have few digits.
    digits = [(*op[:7], [("alpha", 0.125), ("beta", -3.5)], *op[8:]) for op in operations]
    plain = {
        "tags.txt": "one\n",
        "one/graph.fb": m.graph_file(variables, digits),
        "one/params.txt": entries["one/params.txt"],
        **{name: data for name, data in entries.items() if name.startswith("one/params/")},
    }
    m.write_zip(folder / "args.zip", plain)
    deflated = {"one/params.txt", "one/params/9.fb", "two/params/0.fb", "two/graph.fb"}
    path = folder / "python.zip"
    m.write_zip(path, entries, deflated)
    one = {
        "layer/w:0": expected("FLOAT", [4, 6], w),
        "b": expected("INT16", [7], b),
        "big": expected("FLOAT", [300, 200], big),
    }
    two = {**one, "layer/w:0": expected("FLOAT", [4, 6], w + 1)}
    states = [expected("DOUBLE", [4, 6], moment), expected("DOUBLE", [4, 6], -moment)]
    for tag, values, updater in (("one", one, {}), ("TWO", two, {"layer/w:0": states})):
        out = folder / f"{tag}.zip"
        run("extract", path, tag, "-o", out)
        ((name, (read, ops, parameters, found)),) = m.read_model(out).items()
        check(f"{tag}: name", name, {"one": "One", "TWO": "two"}[tag])
        check(f"{tag}: parameters", parameters, values)
        check(f"{tag}: states", found, updater)
        kinds = {name: (m.DTYPES[dtype][0], kind, shape) for name, dtype, kind, shape in variables}
        check(f"{tag}: variables", read, kinds)
        check(f"{tag}: operations", ops, operations)
        check(f"{tag}: alignment", m.misaligned(out), [])
    with zipfile.ZipFile(folder / "TWO.zip") as archive:
        check("an opaque entry", archive.read("two/trainingConfig.fb"), b"opaque")
    # Renaming a variable makes the command read and rewrite the graph.
    run("rename", path, "one/layer/w:0", "weights", "-o", folder / "renamed.zip")
    renamed = m.read_model(folder / "renamed.zip")
    new = [
        (*op[:4], ["weights" if name == "layer/w:0" else name for name in op[4]], *op[5:]) for op in operations
    ]
    check("rewritten operations", renamed["One"][1], new)
    check("operations of the other tag", renamed["two"][1], operations)
    check("values of the renamed", renamed["One"][2]["weights"], one["layer/w:0"])
    # A classic file stores the values of arguments, but not their names.
    run("extract", folder / "renamed.zip", "one", "-o", folder / "named.fb", "--to", "fb", said=LEFT_OUT)
    _, nodes = m.read_classic((folder / "named.fb").read_bytes())
    check("arguments in a classic file", [node[:10] for node in nodes], [values_only(op) for op in new])
    run("drop", path, "one", "-o", folder / "dropped.zip")
    check("the remaining arrays", m.read_model(folder / "dropped.zip")["two"][2], two)
    run(
        "merge", folder / "one.zip", path, "--rename", "one=zero", "--deduplicate",
        "-o", folder / "merged.zip",
    )  # fmt: skip
    merged = m.read_model(folder / "merged.zip")
    check("merged tags", list(merged), ["zero", "One", "two"])
    check("merged values", [tag[2] for tag in merged.values()], [one, one, two])
    with zipfile.ZipFile(folder / "merged.zip") as archive:
        arrays = [name for name in archive.namelist() if "/params/" in name]
        check("deduplicated arrays", len(arrays), 4)
    run("extract", path, "one", "-o", folder / "one.safetensors", "--to", "safetensors")
    found = m.read_safetensors((folder / "one.safetensors").read_bytes())
    check("order of f", found["layer/w:0"], ("F32", [4, 6], w.tobytes()))
    check("a deflated array", found["big"], ("F32", [300, 200], big.tobytes()))


def values_only(operation):
    """Returns an operation without the names of its arguments."""
    return (*operation[:6], *([value for _, value in pairs] for pairs in operation[6:]))


def training(folder, run):
    """Converts an updater's states and a training configuration from a classic file to a model and back."""
    w, moment = numbers("FLOAT", [2, 3]), numbers("DOUBLE", [2, 3])
    json = '{"@class":"TrainingConfig","updater":{"name":"Adam","näher":1}}'

    def big(dtype, values, order="c"):
        return dtype, [2, 3], m.encode(dtype, values, order, True), {"order": order, "big": True}

    variables = [("w", "FLOAT", m.VARIABLE, [2, 3], *big("FLOAT", w)[2:])]
    variables.append(("plain", "FLOAT", m.VARIABLE, [2, 3], *big("FLOAT", -w)[2:]))
    states = [("plain", [], []), ("w", ["M", "V"], [big("DOUBLE", moment), big("DOUBLE", -moment, "f")])]
    path, out, back = folder / "training.fb", folder / "training.zip", folder / "training-back.fb"
    path.write_bytes(m.classic_file(variables, states=states, config=json))
    found = [expected("DOUBLE", [2, 3], moment), expected("DOUBLE", [2, 3], -moment)]
    run("add", path, "--tag", "only", "-o", out)
    check("states of a classic file", m.read_model(out)["only"][3], {"w": found})
    check("a training configuration", m.read_config(out, "only"), json)
    run("extract", out, "-o", back, "--to", "fb")
    there_and_back = [("plain", [], []), ("w", ["M", "V"], found)]
    for name in (path, back):
        check(f"{name.name}: training", m.read_training(name.read_bytes()), (there_and_back, json))
    # The reverse: the command reads a model that Python wrote, whose updater states have no names.
    entries = {
        "tags.txt": "t\n",
        "t/graph.fb": m.graph_file([("w", "FLOAT", m.VARIABLE, [2, 3])], []),
        "t/params.txt": "w 0\n",
        "t/params/0.fb": m.array_file("FLOAT", [2, 3], m.encode("FLOAT", w)),
        "t/updater.txt": "w 1 0\n",
        "t/updater/0.fb": m.array_file("DOUBLE", [2, 3], m.encode("DOUBLE", moment)),
        "t/updater/1.fb": m.array_file(*big("DOUBLE", -moment)[:3], big=True),
        "t/trainingConfig.fb": m.config_file(json),
    }
    m.write_zip(folder / "trained.zip", entries)
    run("extract", folder / "trained.zip", "-o", folder / "trained.fb", "--to", "fb")
    read = m.read_training((folder / "trained.fb").read_bytes())
    check("training of a model", read, ([("w", ["0", "1"], found[::-1])], json))
    run("add", folder / "trained.fb", "--tag", "t", "-o", folder / "again.zip")
    before, after = (m.read_model(folder / name)["t"] for name in ("trained.zip", "again.zip"))
    check("a model and back", after, before)
    check("its training configuration", m.read_config(folder / "again.zip", "t"), json)


def tensors(folder, run):
    """Adds a checkpoint in a safetensors file to a model."""
    start = {
        "w": ("F32", [2, 3], numbers("FLOAT", [2, 3]).tobytes()),
        "b": ("BF16", [3], numbers("BFLOAT16", [3]).tobytes()),
        "n": ("I64", [], b"\1" * 8),
    }
    step = {"w": ("F32", [2, 3], numbers("FLOAT", [3, 2]).tobytes()[::-1])}
    for name, content in (("start", start), ("step", step)):
        path = folder / f"{name}.safetensors"
        path.write_bytes(m.write_safetensors(content))
    out = folder / "steps.zip"
    run("add", folder / "start.safetensors", "--tag", "start", "-o", out)
    run(
        "add", folder / "step.safetensors", "--tag", "step", "--onto", out, "--like", "start",
        "-o", out, "--force",
    )  # fmt: skip
    with zipfile.ZipFile(out) as archive:
        check("the list of shared arrays", m.lines(archive, "step/params.txt")[1:], ["b start/1", "n start/2"])
    run("extract", out, "-o", folder / "last.safetensors", "--to", "safetensors")
    found = m.read_safetensors((folder / "last.safetensors").read_bytes())
    check("a step", found, {**start, **step})


def forms(folder, protosplit, verify):
    """Converts the files of tests/data/samediff, which all contain the same model."""
    root = Path(__file__).resolve().parents[3]
    expected_values = {"w": expected("FLOAT", [2, 3], fixtures.W), "b": expected("INT16", [3], fixtures.B)}
    for name, content in fixtures.files().items():
        stored = root / "tests/data/samediff" / name
        if not name.endswith(("zip", "sdz")):
            # Only stored entries are compared, since deflated bytes depend on the library's version.
            check(f"{name} equals the generated file", stored.read_bytes() == content, True)
        out = folder / f"{name}.zip"
        protosplit("convert", stored, "-o", out, "--to", "samediff")
        strays = ["one/params/9.fb: nothing refers to this file"] if name == "other.zip" else []
        verify(out, *strays)
        ((_, (_, _, parameters, _)),) = m.read_model(out).items()
        check(f"{name}: values", parameters, expected_values)
        protosplit("convert", out, "-o", folder / f"{name}.safetensors", "--to", "safetensors")
        found = m.read_safetensors((folder / f"{name}.safetensors").read_bytes())
        check(f"{name}: tensors", found, fixtures.TENSORS)
        npy = folder / "w.npy"
        protosplit("get", out, "w", "--format", "npy", "-o", npy, "--force")
        check(f"{name}: NumPy", np.load(npy).tolist(), fixtures.W.tolist())
        if name.startswith("tensors"):
            continue
        protosplit("convert", out, "-o", folder / f"{name}.fb", "--to", "fb")
        variables, _ = m.read_classic((folder / f"{name}.fb").read_bytes())
        values = {key: row[3] for key, row in variables.items() if row[3] is not None}
        check(f"{name}: classic", values, expected_values)


# The expected problem of a real model: the type of an empty array differs from its type in the graph.
ODD = {"scalar_float32.fb": 'only/params/3.fb: the empty array is of type DOUBLE, but "assert_equal/Const" is of another'}


def graphs(folder, command, verify, protosplit, flatc):
    """Converts our graphs and arrays to JSON and back with flatc, and checks that the results are read as equal."""
    root = Path(__file__).resolve().parents[3]
    schema = root / "crates/samediff/schemas/samediff.fbs"
    for name in ["classic.zip", "args.zip", *(path.name for path in folder.glob("real*.zip"))]:
        entries = {}
        with zipfile.ZipFile(folder / name) as archive:
            entries = {entry: archive.read(entry) for entry in archive.namelist()}
        for entry in [entry for entry in entries if entry.endswith("graph.fb")]:
            work = folder / "flatc"
            work.mkdir(exist_ok=True)
            (work / "graph.bin").write_bytes(entries[entry])
            options = ["-o", work, "--strict-json", "--defaults-json"]
            command(flatc, *options, "--json", "--raw-binary", schema, "--", work / "graph.bin")
            command(flatc, "-o", work, "--binary", schema, work / "graph.json")
            check(f"{name}: {entry} is rewritten", (work / "graph.bin").read_bytes() != entries[entry], True)
            entries[entry] = (work / "graph.bin").read_bytes()
        anew = folder / f"anew-{name}"
        m.write_zip(anew, entries)
        verify(anew, *(text for source, text in ODD.items() if name == f"real-{source}.zip"))
        before, after = folder / "before.fb", folder / "after.fb"
        for source, out in ((folder / name, before), (anew, after)):
            said = LEFT_OUT if name == "args.zip" else ""
            command(protosplit, "convert", source, "-o", out, "--to", "fb", "--force", said=said)
        check(f"{name}: graphs by flatc", after.read_bytes() == before.read_bytes(), True)


def real(folder, run):
    """Checks graphs from DL4J's own tests, if they are available."""
    root = Path(__file__).resolve().parents[3]
    paths = sorted((root / "../shared/fixtures/samediff").glob("*.fb"))
    if not paths:
        print("skipped: the real graphs are not available")
    for path in paths:
        out, back = folder / f"real-{path.name}.zip", folder / f"real-{path.name}"
        run("add", path, "--tag", "only", "-o", out)
        variables, nodes = m.read_classic(path.read_bytes())
        _, operations, parameters, _ = m.read_model(out)["only"]
        for name, (_, kind, _, array) in variables.items():
            # Skips placeholders, whose values, if any, stay in the graph.
            if array is not None and kind in (m.VARIABLE, m.CONSTANT):
                check(f"{path.name}: {name}", parameters.get(name), array)
        found = [values_only(op) for op in operations]
        check(f"{path.name}: operations", found, [node[:10] for node in nodes])
        # Arguments without names are named after their positions.
        names = [[key for key, _ in pairs] for op in operations for pairs in op[6:]]
        places = [[f"{kind}{k}" for k in range(len(pairs))] for op in operations for kind, pairs in zip("itbd", op[6:])]
        check(f"{path.name}: names of arguments", names, places)
        run("extract", out, "-o", back, "--to", "fb")
        check(f"{path.name}: back", m.read_classic(back.read_bytes()), (variables, nodes))


main()
