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
from flat_graph import FlatGraph, FlatNode, FlatVariable, IntPair  # noqa: E402
from samediff import FlatArray, Graph, Operation, Variable  # noqa: E402

# Number, NumPy's type, the type's bits in shape information. bfloat16 is looked at as its bits.
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
    """What Nd4j says of an array."""
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
    """The bytes of an array. `values` is a NumPy array, or a list of texts."""
    if dtype == "UTF8":
        texts = [text.encode() for text in values]
        ends = np.cumsum([0, *map(len, texts)])
        return struct.pack(f"<{len(ends)}q", *ends) + b"".join(texts)
    kind = np.dtype(DTYPES[dtype][1]).newbyteorder(">" if big else "<")
    return np.asarray(values).astype(kind).tobytes(order="C" if order == "c" else "F")


def decode(array):
    """(type, shape, values) of a FlatArray of either schema: the values as a list, in C's order."""
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
    # As bits, so that a NaN is equal to itself.
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


def graph_file(variables, operations):
    """variables: (name, dtype, kind, shape); operations: (name, op, inputs, outputs, i_args)."""
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
    ops = []
    for name, op, inputs, outputs, i_args in operations:
        name, op = builder.CreateString(name), builder.CreateString(op)
        strings = []
        for start, names in (
            (Operation.OperationStartInputsVector, inputs),
            (Operation.OperationStartOutputsVector, outputs),
            (Operation.OperationStartIArgNamesVector, [key for key, _ in i_args]),
        ):
            offsets = [builder.CreateString(text) for text in names]
            strings.append(vector(builder, start, offsets, builder.PrependUOffsetTRelative))
        values = [value for _, value in i_args]
        values = vector(builder, Operation.OperationStartIArgsVector, values, builder.PrependInt64)
        Operation.OperationStart(builder)
        Operation.OperationAddName(builder, name)
        Operation.OperationAddOpName(builder, op)
        Operation.OperationAddInputs(builder, strings[0])
        Operation.OperationAddOutputs(builder, strings[1])
        Operation.OperationAddIArgNames(builder, strings[2])
        Operation.OperationAddIArgs(builder, values)
        ops.append(Operation.OperationEnd(builder))
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


def classic_file(variables, array_table=classic_array):
    """variables: (name, dtype, kind, shape, data or None, how)."""
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
    start = FlatGraph.FlatGraphStartVariablesVector
    tables = vector(builder, start, tables, builder.PrependUOffsetTRelative)
    FlatGraph.FlatGraphStart(builder)
    FlatGraph.FlatGraphAddVariables(builder, tables)
    builder.Finish(FlatGraph.FlatGraphEnd(builder))
    return bytes(builder.Output())


def sdnb_array(builder, dtype, shape, data, order, blob):
    """An array as SDNB has it: plain dimensions, and the order of elements where others say that of bytes."""
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
    """An SDNB file. variables: (name, dtype, kind, shape, data or None, order); large arrays go behind the graph."""
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
    """(variables by name, nodes) of a classic file."""
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
                [bool(node.ExtraBools(k)) for k in range(node.ExtraBoolsLength())],
                [node.Dimensions(k) for k in range(node.DimensionsLength())],
                [text(node.ControlDeps(k)) for k in range(node.ControlDepsLength())],
            )
        )
    return variables, nodes


def lines(archive, name):
    data = archive.read(name).decode()
    assert data == "" or data.endswith("\n"), name
    return data.splitlines()


def read_model(path):
    """{tag: (variables, operations, {name: array}, {name: [arrays]})} of a zip model, in order."""
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
                names = [text(op.IArgNames(k)) for k in range(op.IArgNamesLength())]
                operations.append(
                    (
                        text(op.Name()),
                        text(op.OpName()),
                        op.OpType(),
                        op.OpNum(),
                        [text(op.Inputs(k)) for k in range(op.InputsLength())],
                        [text(op.Outputs(k)) for k in range(op.OutputsLength())],
                        [(name, op.IArgs(k)) for k, name in enumerate(names)],
                        [op.TArgs(k) for k in range(op.TArgsLength())],
                        [bool(op.BArgs(k)) for k in range(op.BArgsLength())],
                        [(text(op.DArgNames(k)), op.DArgs(k)) for k in range(op.DArgsLength())],
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
    """The stored entries whose data doesn't begin at a multiple of 64."""
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
