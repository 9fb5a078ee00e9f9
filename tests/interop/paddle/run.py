"""Checks our files with the Paddle that runs this script, and Paddle's files with our code.

Our example `rearrange` lists models that Paddle wrote, converts them to one file, and writes every arrangement from that file.
Paddle must load the results, and infer the same bytes as with the original. Layouts that Paddle refuses must be refused. Paddle
must also load the tensors of every type and kind that `rearrange` creates, with the same values. Prints a line for each failure,
and then the numbers of checks that passed and failed.
"""

import argparse
import contextlib
import glob
import json
import os
import shutil
import subprocess
import sys
import warnings
import zlib

os.environ.setdefault("GLOG_minloglevel", "3")
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import paddle  # noqa: E402
from paddle import inference, static  # noqa: E402
from paddle.base.proto import framework_pb2  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--rearrange", required=True)
parser.add_argument("--work", required=True)
parser.add_argument("--schema", required=True)
parser.add_argument("--fixtures", required=True)
args = parser.parse_args()

version = paddle.__version__
is_new = version.startswith("3")
work = os.path.join(args.work, version)
os.makedirs(work, exist_ok=True)
counts = {True: 0, False: 0}


def check(what, is_right, *more):
    counts[bool(is_right)] += 1
    if not is_right:
        print("FAILED", version, what, *more, flush=True)


def old_programs():
    """Returns a context in which Paddle 3 writes and reads programs as protobuf."""
    return paddle.pir_utils.OldIrGuard() if is_new else contextlib.nullcontext()


@contextlib.contextmanager
def dynamic(is_dynamic):
    """Makes layers run eagerly if `is_dynamic`, since saving layers requires it."""
    if is_dynamic:
        paddle.disable_static()
    yield
    paddle.enable_static()


def rearrange(*arguments):
    return subprocess.run([args.rearrange, *arguments], capture_output=True, text=True)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def tree(folder):
    paths = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
    return {os.path.relpath(path, folder): read(path) for path in paths}


# --- Models that Paddle writes --------------------------------------------------------------------------------------------


def write_static(folder, is_json=False):
    """Writes a net with a constant, convolutions and a normalization, with static.save_inference_model."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x = static.data("x", [None, 3, 8, 8], "float32")
        y = x
        if not is_json:
            # These layers only work in protobuf programs.
            y = static.nn.conv2d(x, 4, 3)
            y = paddle.nn.functional.relu(static.nn.batch_norm(y, is_test=True))
        y = static.nn.fc(paddle.flatten(y, 1), 16)
        y = y + paddle.assign(np.arange(16, dtype="float32"))
        z = static.nn.fc(y, 5)
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        static.save_inference_model(os.path.join(folder, "model"), [x], [z], executor, program=main)


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.embedding = paddle.nn.Embedding(11, 6)
        self.linear = paddle.nn.Linear(6, 3)
        self.register_buffer("mask", paddle.to_tensor(np.array([True, False, True])))
        self.register_buffer("steps", paddle.to_tensor(np.array([7], "int64")))
        self.register_buffer("halves", paddle.to_tensor(np.array([0.5, 2, 4], "float16")))
        self.eval()

    def forward(self, x):
        y = self.linear(self.embedding(x).mean(1))
        return y * paddle.cast(self.mask, "float32") + paddle.cast(self.halves, "float32") + paddle.cast(self.steps, "float32")


class Recurrent(paddle.nn.Layer):
    """A layer with state that each run creates: a parameter of a JSON program that is in no file."""

    def __init__(self, layer):
        super().__init__()
        self.embedding = paddle.nn.Embedding(11, 6)
        self.layer = layer(6, 3)
        self.eval()

    def forward(self, x):
        return self.layer(self.embedding(x))[0]


def write_jit(folder, net):
    spec = [static.InputSpec([None, 4], "int64", name="x")]
    paddle.jit.save(paddle.jit.to_static(net, input_spec=spec), os.path.join(folder, "model"))


# --- Inference with Paddle ------------------------------------------------------------------------------------------------


def feed(kind):
    if kind == "static":
        return np.sin(np.arange(2 * 3 * 64, dtype="float32")).reshape(2, 3, 8, 8)
    return np.arange(8, dtype="int64").reshape(2, 4)


def predict(program, parameters, kind):
    """Returns the bytes that the C++ predictor infers."""
    config = inference.Config(program, parameters)
    config.disable_gpu()
    config.disable_glog_info()
    config.switch_ir_optim(False)
    predictor = inference.create_predictor(config)
    x = feed(kind)
    handle = predictor.get_input_handle(predictor.get_input_names()[0])
    handle.reshape(list(x.shape))
    handle.copy_from_cpu(x)
    predictor.run()
    return predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu().tobytes()


def execute(prefix, kind):
    """Returns the bytes that the executor infers from a program and a file with all parameters."""
    executor = static.Executor(paddle.CPUPlace())
    with old_programs(), static.scope_guard(static.Scope()):
        program, feeds, fetches = static.load_inference_model(prefix, executor)
        return executor.run(program, feed={feeds[0]: feed(kind)}, fetch_list=fetches)[0].tobytes()


def load_separate(folder):
    """Returns the parameters that Paddle reads from a folder with one file for each, by name."""
    found = {}
    with old_programs(), static.scope_guard(static.Scope()):
        program = static.deserialize_program(read(os.path.join(folder, "__model__")))
        raw = paddle.base.core.VarDesc.VarType.RAW
        wanted = [v for v in program.list_vars() if paddle.framework.io_utils.is_persistable(v) and v.type != raw]
        static.load_vars(static.Executor(paddle.CPUPlace()), folder, main_program=program, vars=wanted)
        for variable in wanted:
            tensor = static.global_scope().find_var(variable.name).get_tensor()
            found[variable.name] = zlib.crc32(np.ascontiguousarray(np.array(tensor)).tobytes())
    return found


def refuses(prefix, kind):
    try:
        execute(prefix, kind)
    except Exception:
        return True
    return False


# --- The checks -----------------------------------------------------------------------------------------------------------


def listed(model):
    result = rearrange(model)
    check(f"list {model}", result.returncode == 0, result.stderr)
    return {row["name"]: row for row in map(json.loads, result.stdout.splitlines())}


def check_old(name, kind, write):
    """Checks a model with a ProgramDesc in all arrangements."""
    original = os.path.join(work, name)
    os.makedirs(original)
    with old_programs(), dynamic(kind == "jit"):
        write(original)
    check_model(original, name, kind)


def check_model(original, name, kind):
    prefix = os.path.join(original, "model")
    wanted = execute(prefix, kind)
    predicted = predict(prefix + ".pdmodel", prefix + ".pdiparams", kind)
    rows = listed(original)

    one = os.path.join(work, name + ".cpb")
    result = rearrange(original, one)
    check(f"{name} to one file", result.returncode == 0 and os.path.exists(one), result.stderr)

    # Converts the model to every arrangement, from its files and from the one file.
    for source, label in ((original, "files"), (one, "one file")):
        for how in ("files", "combined", "separate", "sized", "model-format"):
            what = f"{name}: {how} from {label}"
            folder = os.path.join(work, "out")
            shutil.rmtree(folder, ignore_errors=True)
            result = rearrange(source, folder, how)
            check(what, result.returncode == 0, result.stderr)
            if result.returncode:
                continue
            check(what + ": the same parameters", listed(folder) == rows)
            if how in ("files", "combined"):
                check(what + ": the same bytes", tree(folder) == tree(original))
                check(what + ": the executor infers the same", execute(os.path.join(folder, "model"), kind) == wanted)
                files = [os.path.join(folder, "model" + end) for end in (".pdmodel", ".pdiparams")]
                check(what + ": the predictor infers the same", predict(*files, kind) == predicted)
            elif how == "separate":
                loaded = load_separate(folder)
                check(what + ": Paddle loads the same", loaded == {n: row["crc32"] for n, row in rows.items()})
                # Converts back to one file, which must equal the original.
                back = os.path.join(work, "back")
                shutil.rmtree(back, ignore_errors=True)
                rearrange(folder, back, "combined")
                same = read(os.path.join(back, "__params__")) == read(prefix + ".pdiparams")
                check(what + ": and back", same)
                files = [os.path.join(back, end) for end in ("__model__", "__params__")]
                check(what + ": the predictor infers the same after renaming", predict(*files, kind) == predicted)
            else:
                check(what + ": Paddle refuses it", refuses(os.path.join(folder, "model"), kind))
                back = os.path.join(work, "back")
                shutil.rmtree(back, ignore_errors=True)
                rearrange(folder, back, "combined")
                same = tree(back).get("model.pdiparams") == read(prefix + ".pdiparams")
                check(what + ": and back", same)


def check_json(name, kind, write):
    """Checks a model with a JSON program, as Paddle 3 writes by default."""
    original = os.path.join(work, name)
    os.makedirs(original)
    with dynamic(kind == "jit"):
        write(original)
    prefix = os.path.join(original, "model")
    wanted = predict(prefix + ".json", prefix + ".pdiparams", kind)
    rows = listed(original)
    check(f"{name}: parameters are named", rows and all(rows))
    one = os.path.join(work, name + ".cpb")
    rearrange(original, one)
    folder = os.path.join(work, "out")
    shutil.rmtree(folder, ignore_errors=True)
    result = rearrange(one, folder, "files")
    check(f"{name}: back from one file", tree(folder) == tree(original), result.stderr)
    found = predict(os.path.join(folder, "model.json"), os.path.join(folder, "model.pdiparams"), kind)
    check(f"{name}: the predictor infers the same", found == wanted)


def check_schema():
    """Checks that our schema has all of Paddle's messages and enums, with the same numbers."""
    from google.protobuf import descriptor_pb2

    ours = descriptor_pb2.FileDescriptorSet.FromString(read(args.schema))
    ours = next(file for file in ours.file if file.name == "paddle/framework.proto")
    theirs = descriptor_pb2.FileDescriptorProto.FromString(framework_pb2.DESCRIPTOR.serialized_pb)

    def fields(around, messages, enums):
        for enum in enums:
            for value in enum.value:
                yield around, enum.name, value.number
        for message in messages:
            name = around + "." + message.name.replace("Dense", "LoD")
            for field in message.field:
                yield name, field.number, field.label, field.type, field.options.packed
            yield from fields(name, message.nested_type, message.enum_type)

    ours = set(fields("", ours.message_type, ours.enum_type))
    for field in fields("", theirs.message_type, theirs.enum_type):
        check(f"the schema has {field}", field in ours)


def type_name(dtype):
    """Returns the name of a tensor's type in the schema."""
    name = str(dtype).rsplit(".", 1)[-1].upper()
    return {"FLOAT16": "FP16", "FLOAT32": "FP32", "FLOAT64": "FP64", "BFLOAT16": "BF16",
            "FLOAT8_E4M3FN": "FP8_E4M3FN", "FLOAT8_E5M2": "FP8_E5M2"}.get(name, name)


def check_made():
    """Checks tensors written by `rearrange`: their values, types, dims, LoD levels and rows."""
    made = os.path.join(work, "made")
    result = rearrange("make", made)
    check("make", result.returncode == 0, result.stderr)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    for folder in ("combined", "separate", "newer"):
        wanted = {row["name"]: row for row in rows if row["folder"] == folder}
        check(f"{folder}: tensors were made", len(wanted) > 9)
        if folder == "newer" and not is_new:
            continue
        path = os.path.join(made, folder)
        ours = listed(path)
        check(f"{folder}: we list them", set(ours) == set(wanted))
        separate = folder == "separate"
        program = read(os.path.join(path, "__model__" if separate else "model.pdmodel"))
        with old_programs(), static.scope_guard(static.Scope()):
            program = static.deserialize_program(program)
            variables = [v for v in program.list_vars() if v.persistable]
            check(f"{folder}: Paddle knows them", {v.name for v in variables} == set(wanted))
            executor = static.Executor(paddle.CPUPlace())
            at_once = [[v] for v in variables] if separate else [variables]
            for some in at_once:
                try:
                    name = None if separate else "model.pdiparams"
                    static.load_vars(executor, path, main_program=program, vars=some, filename=name)
                except Exception as error:
                    check(f"{folder}: load {[v.name for v in some]}", False, repr(error)[-300:])
                    continue
                for variable in some:
                    row = wanted[variable.name]
                    found = static.global_scope().find_var(variable.name)
                    what = f"{folder}: {variable.name}"
                    if row["rows"] is not None:
                        found = found.get_selected_rows()
                        check(what + ": rows", list(found.rows()) == row["rows"], list(found.rows()))
                        check(what + ": height", found.height() == row["height"], found.height())
                    tensor = found.get_tensor()
                    if folder != "newer":
                        # The folder `newer` has types that Paddle 3 added, whose values Python can't access.
                        values = np.ascontiguousarray(np.array(tensor))
                        check(what + ": values", values.tobytes().hex() == row["data"], values)
                    check(what + ": dims", list(tensor.shape()) == row["dims"], tensor.shape())
                    check(what + ": type", type_name(tensor._dtype()) == row["dtype"], tensor._dtype())
                    if hasattr(tensor, "lod"):
                        check(what + ": LoD", tensor.lod() == row["lod"], tensor.lod())
            if not separate:
                again = os.path.join(work, "again")
                static.save_vars(executor, again, main_program=program, vars=variables, filename="all")
                same = read(os.path.join(again, "all")) == read(os.path.join(path, "model.pdiparams"))
                check(f"{folder}: Paddle writes the very file that it has read", same)


paddle.seed(7)
paddle.disable_static()
nets = [Net(), Net()]
recurrent = {layer.__name__: Recurrent(layer) for layer in (paddle.nn.LSTM, paddle.nn.GRU, paddle.nn.SimpleRNN)}
paddle.enable_static()
check_schema()
check_made()
check_old("static", "static", write_static)
check_old("jit", "jit", lambda folder: write_jit(folder, nets[0]))
if is_new:
    check_json("static_json", "static", lambda folder: write_static(folder, is_json=True))
    check_json("jit_json", "jit", lambda folder: write_jit(folder, nets[1]))
    for name, net in recurrent.items():
        check_json(name, "jit", lambda folder, net=net: write_jit(folder, net))
    # Checks models that the other version of Paddle wrote, after converting them back.
    for name, kind in (("static", "static"), ("jit", "jit")):
        for one in glob.glob(os.path.join(args.work, "2.6.2", name + ".cpb")):
            folder = os.path.join(work, "older")
            shutil.rmtree(folder, ignore_errors=True)
            rearrange(one, folder, "combined")
            files = [os.path.join(folder, "model" + end) for end in (".pdmodel", ".pdiparams")]
            theirs = [os.path.join(args.work, "2.6.2", name, "model" + end) for end in (".pdmodel", ".pdiparams")]
            check(f"{name} by 2.6.2", predict(*files, kind) == predict(*theirs, kind))

print(f"paddle {version}: {counts[True]} checks passed, {counts[False]} failed")
print("passed", counts[True])
print("failed", counts[False])
sys.exit(counts[False] > 0)
