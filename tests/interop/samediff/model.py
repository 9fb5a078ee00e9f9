"""Reads and writes SameDiff models: zip archives, and classic files."""

import io
import struct
import sys
import zipfile
from pathlib import Path

import flatbuffers
import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "generated"))

from flat_graph import FlatArray as ClassicArray  # noqa: E402
from flat_graph import FlatGraph, FlatVariable, IntPair, UpdaterState  # noqa: E402
from samediff import FlatArray, Graph, Operation, TrainingConfig, Variable  # noqa: E402

# For each type: its number, its NumPy type, and its bits in shape information. bfloat16 is read as unsigned integers.
DTYPES = {
    "BOOL": (1, "u1", 524288),
    "HALF": (3, "f2", 4096),
    "FLOAT": (5, "f4", 8192),
    "DOUBLE": (6, "f8", 16384),
    "INT8": (7, "i1", 32768),
    "INT16": (8, "i2", 65536),
    "INT32": (9, "i4", 131072),
    "INT64": (10, "i8", 262144),
    "UINT8": (11, "u1", 32768 | 8388608),
    "UINT16": (12, "u2", 65536 | 8388608),
    "UINT32": (13, "u4", 131072 | 8388608),
    "UINT64": (14, "u8", 262144 | 8388608),
    "BFLOAT16": (17, "u2", 2048),
    "UTF8": (50, None, 1048576),
}
NAMES = {row[0]: name for name, row in DTYPES.items()}
VARIABLE, CONSTANT, ARRAY, PLACEHOLDER = range(4)


def shape_info(dtype, shape, order, empty=False):
    """Returns Nd4j's description of an array."""
    rank = len(shape)
    strides = [0] * rank
    if 0 not in shape:
        step = 1
        for i in reversed(range(rank)) if order == "c" else range(rank):
            strides[i] = step
            step *= shape[i]
    extras = DTYPES[dtype][2] | (8 if empty or 0 in shape else 0)
    return [rank, *shape, *strides, extras, 1, ord(order)]


def encode(dtype, values, order="c", big=False):
    """Returns the bytes of an array. `values` is a NumPy array, or a list of strings."""
    if dtype == "UTF8":
        texts = [text.encode() for text in values]
        ends = np.cumsum([0, *map(len, texts)])
        return struct.pack(f"<{len(ends)}q", *ends) + b"".join(texts)
    kind = np.dtype(DTYPES[dtype][1]).newbyteorder(">" if big else "<")
    return np.asarray(values).astype(kind).tobytes(order="C" if order == "c" else "F")


def decode(array):
    """Returns (type, shape, values) for a FlatArray of either schema. The values are a list in C order."""
    name = NAMES[array.Dtype()]
    info = array.ShapeAsNumpy().tolist()
    rank = info[0]
    assert len(info) == 2 * rank + 4, info
    shape, order = info[1 : 1 + rank], chr(info[-1])
    extras = info[-3]
    empty = bool(extras & 8)
    data = array.BufferAsNumpy() if array.BufferLength() else np.zeros(0, np.uint8)
    data = data.tobytes()
    if name == "UTF8":
        if empty:
            return name, shape, []
        count = int(np.prod(shape, dtype=np.int64))
        ends = struct.unpack_from(f"<{count + 1}q", data)
        texts = data[8 * (count + 1) :]
        return name, shape, [texts[a:b].decode() for a, b in zip(ends, ends[1:])]
    kind = np.dtype(DTYPES[name][1]).newbyteorder(">" if array.ByteOrder() else "<")
    values = np.frombuffer(data, kind)
    if not empty:
        values = values.reshape(shape, order="C" if order == "c" else "F")
    # Compares floats by their bits, so that a NaN is equal to itself.
    bits = np.ascontiguousarray(values.astype(kind.newbyteorder("=")))
    return name, shape, bits.view(f"u{kind.itemsize}").ravel().tolist()


def vector(builder, start, values, append):
    start(builder, len(values))
    for value in reversed(values):
        append(value)
    return builder.EndVector()


def write_array(builder, module, dtype, shape, data, order="c", big=False, empty=False):
    buffer = builder.CreateByteVector(data) if data else None
    info = shape_info(dtype, shape, order, empty)
    info = vector(builder, module.FlatArrayStartShapeVector, info, builder.PrependInt64)
    module.FlatArrayStart(builder)
    module.FlatArrayAddShape(builder, info)
    if buffer is not None:
        module.FlatArrayAddBuffer(builder, buffer)
    module.FlatArrayAddDtype(builder, DTYPES[dtype][0])
    module.FlatArrayAddByteOrder(builder, int(big))
    return module.FlatArrayEnd(builder)


def array_file(dtype, shape, data, **how):
    builder = flatbuffers.Builder(1024)
    builder.Finish(write_array(builder, FlatArray, dtype, shape, data, **how))
    return bytes(builder.Output())


def write_operation(builder, name, op, op_type, op_num, inputs, outputs, i_args, t_args, b_args, d_args):
    """Writes an operation. The arguments are (name, value) pairs; a type is given by its number."""
    name, op = builder.CreateString(name), builder.CreateString(op)
    o = Operation
    fields = []

    def add_texts(start, field, texts):
        offsets = [builder.CreateString(text) for text in texts]
        fields.append((field, vector(builder, start, offsets, builder.PrependUOffsetTRelative)))

    add_texts(o.OperationStartInputsVector, o.OperationAddInputs, inputs)
    add_texts(o.OperationStartOutputsVector, o.OperationAddOutputs, outputs)
    for pairs, start_names, add_names, start, add, append in (
        (i_args, o.OperationStartIArgNamesVector, o.OperationAddIArgNames,
         o.OperationStartIArgsVector, o.OperationAddIArgs, builder.PrependInt64),
        (t_args, o.OperationStartTArgNamesVector, o.OperationAddTArgNames,
         o.OperationStartTArgsVector, o.OperationAddTArgs, builder.PrependFloat64),
        (b_args, o.OperationStartBArgNamesVector, o.OperationAddBArgNames,
         o.OperationStartBArgsVector, o.OperationAddBArgs, builder.PrependBool),
        (d_args, o.OperationStartDArgNamesVector, o.OperationAddDArgNames,
         o.OperationStartDArgsVector, o.OperationAddDArgs, builder.PrependInt8),
    ):  # fmt: skip
        add_texts(start_names, add_names, [key for key, _ in pairs])
        fields.append((add, vector(builder, start, [value for _, value in pairs], append)))
    Operation.OperationStart(builder)
    Operation.OperationAddName(builder, name)
    Operation.OperationAddOpName(builder, op)
    Operation.OperationAddOpType(builder, op_type)
    Operation.OperationAddOpNum(builder, op_num)
    for add, offset in fields:
        add(builder, offset)
    return Operation.OperationEnd(builder)


def pairs(count, names, values):
    """Returns arguments as (name, value) pairs. There must be as many names as values."""
    assert count[0] == count[1], count
    return [(text(names(k)), values(k)) for k in range(count[0])]


def graph_file(variables, operations):
    """Returns a graph. variables: (name, dtype, kind, shape); operations: as in write_operation."""
    builder = flatbuffers.Builder(1024)
    tables = []
    for name, dtype, kind, shape in variables:
        name = builder.CreateString(name)
        shape = vector(builder, Variable.VariableStartShapeVector, shape, builder.PrependInt64)
        Variable.VariableStart(builder)
        Variable.VariableAddName(builder, name)
        Variable.VariableAddDtype(builder, DTYPES[dtype][0])
        Variable.VariableAddVarType(builder, kind)
        Variable.VariableAddShape(builder, shape)
        tables.append(Variable.VariableEnd(builder))
    ops = [write_operation(builder, *operation) for operation in operations]
    add = builder.PrependUOffsetTRelative
    tables = vector(builder, Graph.GraphStartVariablesVector, tables, add)
    ops = vector(builder, Graph.GraphStartOperationsVector, ops, add)
    Graph.GraphStart(builder)
    Graph.GraphAddVariables(builder, tables)
    Graph.GraphAddOperations(builder, ops)
    builder.Finish(Graph.GraphEnd(builder))
    return bytes(builder.Output())


def classic_array(builder, *what, **how):
    return write_array(builder, ClassicArray, *what, **how)


def classic_file(variables, array_table=classic_array, states=(), config=None):
    """Returns a classic file. variables: (name, dtype, kind, shape, data or None, how); states: (name, keys, [(dtype, shape, data, how)])."""
    builder = flatbuffers.Builder(1024)
    tables = []
    for index, (name, dtype, kind, shape, data, how) in enumerate(variables):
        array = None
        if data is not None:
            array = array_table(builder, dtype, shape, data, **how)
        IntPair.IntPairStart(builder)
        IntPair.IntPairAddFirst(builder, index + 1)
        pair = IntPair.IntPairEnd(builder)
        name = builder.CreateString(name)
        start = FlatVariable.FlatVariableStartShapeVector
        dims = vector(builder, start, shape, builder.PrependInt64)
        FlatVariable.FlatVariableStart(builder)
        FlatVariable.FlatVariableAddId(builder, pair)
        FlatVariable.FlatVariableAddName(builder, name)
        FlatVariable.FlatVariableAddDtype(builder, DTYPES[dtype][0])
        FlatVariable.FlatVariableAddShape(builder, dims)
        if array is not None:
            FlatVariable.FlatVariableAddNdarray(builder, array)
        FlatVariable.FlatVariableAddVariableType(builder, kind)
        tables.append(FlatVariable.FlatVariableEnd(builder))
    add = builder.PrependUOffsetTRelative
    tables = vector(builder, FlatGraph.FlatGraphStartVariablesVector, tables, add)
    if states:
        u, all_states = UpdaterState, []
        for name, keys, values in states:
            arrays = [array_table(builder, *what, **how) for *what, how in values]
            arrays = vector(builder, u.UpdaterStateStartUpdaterStateValuesVector, arrays, add)
            keys = [builder.CreateString(key) for key in keys]
            keys = vector(builder, u.UpdaterStateStartUpdaterStateKeysVector, keys, add)
            name = builder.CreateString(name)
            u.UpdaterStateStart(builder)
            u.UpdaterStateAddParamName(builder, name)
            u.UpdaterStateAddUpdaterStateKeys(builder, keys)
            u.UpdaterStateAddUpdaterStateValues(builder, arrays)
            all_states.append(u.UpdaterStateEnd(builder))
        states = vector(builder, FlatGraph.FlatGraphStartUpdaterStateVector, all_states, add)
    if config is not None:
        config = builder.CreateString(config)
    FlatGraph.FlatGraphStart(builder)
    FlatGraph.FlatGraphAddVariables(builder, tables)
    if states:
        FlatGraph.FlatGraphAddUpdaterState(builder, states)
    if config is not None:
        FlatGraph.FlatGraphAddTrainingConfig(builder, config)
    builder.Finish(FlatGraph.FlatGraphEnd(builder))
    return bytes(builder.Output())


def sdnb_array(builder, dtype, shape, data, order, blob):
    """Writes an array as SDNB does: with plain dimensions, and the order of elements in the field for the byte order."""
    module = ClassicArray
    buffer = builder.CreateByteVector(data) if blob is None else None
    dims = vector(builder, module.FlatArrayStartShapeVector, shape, builder.PrependInt64)
    module.FlatArrayStart(builder)
    module.FlatArrayAddShape(builder, dims)
    if buffer is not None:
        module.FlatArrayAddBuffer(builder, buffer)
    else:
        module.FlatArrayAddAppendedDataOffset(builder, blob)
        module.FlatArrayAddAppendedDataLength(builder, len(data))
    module.FlatArrayAddDtype(builder, DTYPES[dtype][0])
    module.FlatArrayAddByteOrder(builder, int(order == "f"))
    return module.FlatArrayEnd(builder)


def sdnb_file(variables, inline_below):
    """Returns an SDNB file, with large arrays after the graph. variables: (name, dtype, kind, shape, data or None, order)."""
    blobs = b""

    def array(builder, dtype, shape, data, order):
        nonlocal blobs
        blob = None
        if len(data) >= inline_below:
            blob, blobs = len(blobs), blobs + data
        return sdnb_array(builder, dtype, shape, data, order, blob)

    graph = classic_file([(*row[:5], {"order": row[5]}) for row in variables], array)
    manifest = b"\xac\xed\0\5" + b"what Java makes of a map"
    at = 32 + len(graph) + len(blobs)
    header = b"SDNB" + struct.pack(">iqqq", 1, at, len(manifest), 32)
    return header + graph + blobs + manifest


def text(value):
    return value.decode() if value is not None else ""


def read_classic(data):
    """Returns (variables by name, nodes) from a classic file."""
    graph = FlatGraph.FlatGraph.GetRootAs(data, 0)
    variables, ids = {}, {}
    for i in range(graph.VariablesLength()):
        variable = graph.Variables(i)
        array = variable.Ndarray()
        name = text(variable.Name())
        shape = [variable.Shape(k) for k in range(variable.ShapeLength())]
        ids[variable.Id().First(), variable.Id().Second()] = name
        variables[name] = (
            variable.Dtype(),
            variable.VariableType(),
            shape,
            decode(array) if array is not None else None,
        )
    nodes = []
    for i in range(graph.NodesLength()):
        node = graph.Nodes(i)
        pairs = [node.InputPaired(k) for k in range(node.InputPairedLength())]
        nodes.append(
            (
                text(node.Name()),
                text(node.OpName()),
                node.OpType(),
                node.OpNum(),
                [ids[pair.First(), pair.Second()] for pair in pairs],
                [text(node.OutputNames(k)) for k in range(node.OutputNamesLength())],
                [node.ExtraInteger(k) for k in range(node.ExtraIntegerLength())],
                [node.ExtraParams(k) for k in range(node.ExtraParamsLength())],
                [node.ExtraBools(k) for k in range(node.ExtraBoolsLength())],
                [node.ExtraTypes(k) for k in range(node.ExtraTypesLength())],
                [node.Dimensions(k) for k in range(node.DimensionsLength())],
                [text(node.ControlDeps(k)) for k in range(node.ControlDepsLength())],
            )
        )
    return variables, nodes


def read_training(data):
    """Returns ([(name, keys, arrays)], JSON) from a classic file: its updater's states, and its training configuration."""
    graph = FlatGraph.FlatGraph.GetRootAs(data, 0)
    states = []
    for i in range(graph.UpdaterStateLength()):
        state = graph.UpdaterState(i)
        keys = [text(state.UpdaterStateKeys(k)) for k in range(state.UpdaterStateKeysLength())]
        arrays = [decode(state.UpdaterStateValues(k)) for k in range(state.UpdaterStateValuesLength())]
        states.append((text(state.ParamName()), keys, arrays))
    return states, text(graph.TrainingConfig())


def read_config(path, tag):
    """Returns the JSON in a tag's trainingConfig.fb."""
    with zipfile.ZipFile(path) as archive:
        data = archive.read(f"{tag}/trainingConfig.fb")
    return text(TrainingConfig.TrainingConfig.GetRootAs(data, 0).Json())


def config_file(json):
    """Returns a trainingConfig.fb."""
    builder = flatbuffers.Builder(64)
    json = builder.CreateString(json)
    TrainingConfig.TrainingConfigStart(builder)
    TrainingConfig.TrainingConfigAddJson(builder, json)
    builder.Finish(TrainingConfig.TrainingConfigEnd(builder))
    return bytes(builder.Output())


def lines(archive, name):
    data = archive.read(name).decode()
    assert data == "" or data.endswith("\n"), name
    return data.splitlines()


def read_model(path):
    """Returns {tag: (variables, operations, {name: array}, {name: [arrays]})} from a zip model, in order."""
    tags = {}
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "tags.txt"

        def array(tag, folder, ref):
            other, slash, number = ref.rpartition("/")
            entry = f"{other if slash else tag}/{folder}/{number}.fb"
            return decode(FlatArray.FlatArray.GetRootAs(archive.read(entry), 0))

        for tag in lines(archive, "tags.txt"):
            graph = Graph.Graph.GetRootAs(archive.read(f"{tag}/graph.fb"), 0)
            variables = {}
            for i in range(graph.VariablesLength()):
                variable = graph.Variables(i)
                shape = [variable.Shape(k) for k in range(variable.ShapeLength())]
                variables[text(variable.Name())] = (variable.Dtype(), variable.VarType(), shape)
            operations = []
            for i in range(graph.OperationsLength()):
                op = graph.Operations(i)
                operations.append(
                    (
                        text(op.Name()),
                        text(op.OpName()),
                        op.OpType(),
                        op.OpNum(),
                        [text(op.Inputs(k)) for k in range(op.InputsLength())],
                        [text(op.Outputs(k)) for k in range(op.OutputsLength())],
                        pairs((op.IArgNamesLength(), op.IArgsLength()), op.IArgNames, op.IArgs),
                        pairs((op.TArgNamesLength(), op.TArgsLength()), op.TArgNames, op.TArgs),
                        pairs((op.BArgNamesLength(), op.BArgsLength()), op.BArgNames, op.BArgs),
                        pairs((op.DArgNamesLength(), op.DArgsLength()), op.DArgNames, op.DArgs),
                    )
                )
            parameters = {}
            for line in lines(archive, f"{tag}/params.txt"):
                name, ref = line.split(" ")
                parameters[name] = array(tag, "params", ref)
            states = {}
            if f"{tag}/updater.txt" in archive.namelist():
                for line in lines(archive, f"{tag}/updater.txt"):
                    name, *refs = line.split(" ")
                    states[name] = [array(tag, "updater", ref) for ref in refs]
            tags[tag] = (variables, operations, parameters, states)
    return tags


def misaligned(path):
    """Returns the stored entries whose data doesn't begin at a multiple of 64."""
    found = []
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for info in archive.infolist():
            file.seek(info.header_offset + 26)
            name, extra = struct.unpack("<HH", file.read(4))
            start = info.header_offset + 30 + name + extra
            if info.compress_type == zipfile.ZIP_STORED and start % 64:
                found.append(info.filename)
    return found


def read_safetensors(data):
    import json

    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length :]
    return {
        name: (row["dtype"], row["shape"], body[slice(*row["data_offsets"])])
        for name, row in header.items()
    }


def write_safetensors(tensors):
    import json

    header, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        offsets = [len(body), len(body) + len(data)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        body += data
    header = json.dumps(header).encode()
    return struct.pack("<Q", len(header)) + header + body


def zip_bytes(entries, deflated=()):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in entries.items():
            how = zipfile.ZIP_DEFLATED if name in deflated else zipfile.ZIP_STORED
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=how)
    return buffer.getvalue()


def write_zip(path, entries, deflated=()):
    Path(path).write_bytes(zip_bytes(entries, deflated))
