"""Messages that easily confuse TensorFlow's Merger once they are cut, built from TensorFlow's own descriptors.

Every name, string and number differs from its neighbors, so a changed order of elements is noticed.
"""

import struct
from dataclasses import dataclass
from typing import Callable

@dataclass
class Special:
    """A serialized message, and the chunks that a split at 1 KiB must contain."""

    name: str
    message: str
    data: bytes
    # Given the paths of all chunks, returns a description of the missing chunks; None if none is missing.
    expect: Callable[[list[str]], str | None] = lambda paths: None


def strings(label, count, size=90):
    return [f"{label}/{i:05}/".encode().ljust(size, b".") for i in range(count)]


def at_least(count, prefix, what):
    """Returns an `expect` that requires at least `count` chunks at or under `prefix`."""

    def expect(paths):
        found = sum(p.startswith(prefix) for p in paths)
        return None if found >= count else f"{found} chunks for {what}, not {count}"

    return expect


def each_at_least(count, prefixes):
    def expect(paths):
        for prefix in prefixes:
            problem = at_least(count, prefix, prefix)(paths)
            if problem:
                return problem
        return None

    return expect


def length_delimited(number, content):
    """Encodes a field that no message class would write."""
    out = bytearray()
    for value in (number << 3 | 2, len(content)):
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out) + content


def specials(new):
    """Returns all special messages. `new(name)` creates an empty message of a type."""
    found = []

    def add(name, message, expect=lambda paths: None):
        full_name = message.DESCRIPTOR.full_name
        found.append(Special(name, full_name, message.SerializeToString(deterministic=True), expect))

    # The Merger's sort by path stops comparing at a map key, so more than 16 fields with the same key are reordered.
    graph = new("tensorflow.GraphDef")
    for n in range(25):
        node = graph.node.add(name=f"vocabulary_{n}", op="Const")
        node.attr["value"].tensor.dtype = 7
        node.attr["value"].tensor.string_val.extend(strings(n, 40))
        node.attr["dtype"].type = 7
    prefixes = [f'node[{n}].attr["value"]' for n in range(25)]
    add("25_nodes_3_slices_of_string_val", graph, each_at_least(3, prefixes))

    tensor = new("tensorflow.TensorProto")
    tensor.dtype = 7
    tensor.tensor_shape.dim.add(size=1150)
    tensor.string_val.extend(strings("t", 1150))
    add("tensor_100_slices", tensor, at_least(101, "", "the tensor"))

    graph = new("tensorflow.GraphDef")
    graph.node.add(name="c", op="Const").attr["value"].tensor.CopyFrom(tensor)
    add("node_100_slices", graph, at_least(100, 'node[0].attr["value"]', "the tensor"))

    packed = new("tensorflow.TensorProto")
    packed.dtype = 1
    packed.float_val.extend(i + 0.5 for i in range(26_000))
    packed.int64_val.extend((-1) ** i * i * i for i in range(10_000))
    add("tensor_packed_slices", packed, at_least(100, "", "the tensor"))

    graph = new("tensorflow.GraphDef")
    graph.node.add(name="c", op="Const").attr["value"].tensor.CopyFrom(packed)
    add("node_packed_slices", graph, at_least(100, 'node[0].attr["value"]', "the tensor"))

    # An unpacked list of floats, and a list of doubles packed in many short runs.
    data = b"".join(b"\x2d" + struct.pack("<f", i + 0.5) for i in range(3000))
    data += b"".join(length_delimited(6, struct.pack("<3d", i, i + 0.25, i + 0.5)) for i in range(1000))
    expect = at_least(30, "", "the tensor")
    found.append(Special("tensor_unpacked_and_short_runs", "tensorflow.TensorProto", data, expect))

    # A map key below a map key, in the body of a function.
    graph = new("tensorflow.GraphDef")
    for f in range(3):
        function = graph.library.function.add()
        function.signature.name = f"f_{f}"
        for n in range(8):
            node = function.node_def.add(name=f"call_{n}", op="PartitionedCall")
            func = node.attr["f"].func
            func.name = "g"
            for key in ("a", "b"):
                func.attr[key].tensor.string_val.extend(strings(f"{f}.{n}.{key}", 40))
        for i in range(100):
            function.ret[f"out_{i}"] = f"call_{i}:output:0"
            function.arg_attr[i].attr["_user_specified_name"].s = f"argument_{i}".encode()
            function.resource_arg_unique_id[i] = i * i
    keys = [
        f'library.function[{f}].node_def[{n}].attr["f"].func.attr["{key}"]'
        for f in range(3)
        for n in range(8)
        for key in ("a", "b")
    ]
    add("nested_map_keys", graph, each_at_least(3, keys))

    # Maps with fixed64 keys beyond int32, which TensorFlow doesn't support in a path, and maps of scalars.
    graph = new("tensorflow.GraphDef")
    debug = graph.debug_info
    debug.files.extend(f"package/module_{i}.py" for i in range(200))
    for i in range(300):
        frame = debug.frames_by_id[(i << 40) + 7 * i]
        frame.file_index, frame.line, frame.func, frame.code = i, 3 * i, f"function_{i}", f"x = {i}"
        debug.traces_by_id[(i << 41) + i].frame_id.extend((j << 40) + 7 * j for j in range(i % 40))
        debug.name_to_trace_id[f"node_{i}"] = (i << 41) + i
        debug.traces[f"old_{i}"].file_line_cols.add(file_index=i, line=i)
    add("debug_info", graph)

    # Attributes that are lists: of tensors, strings, shapes, functions, numbers.
    graph = new("tensorflow.GraphDef")
    for n in range(20):
        node = graph.node.add(name=f"lists_{n}", op="Custom", input=[f"input_{i}" for i in range(120)])
        for i in range(20):
            node.attr["tensors"].list.tensor.add(dtype=4, tensor_content=f"{n}.{i}".encode() * 300)
            node.attr["functions"].list.func.add(name=f"f_{i}").attr["T"].type = i
            node.attr["shapes"].list.shape.add().dim.add(size=i)
        node.attr["strings"].list.s.extend(strings(n, 40))
        node.attr["numbers"].list.i.extend(range(-500, 500))
        node.attr["bytes"].s = bytes([n]) * 5000
    add("attribute_lists", graph)

    # Twenty equal constants, which become one record that several chunks share.
    graph = new("tensorflow.GraphDef")
    for n in range(20):
        node = graph.node.add(name=f"same_{n}", op="Const")
        node.attr["value"].tensor.dtype = 4
        node.attr["value"].tensor.tensor_content = bytes(range(256)) * 16
    add("equal_constants", graph, at_least(20, "node[", "twenty constants"))

    # Many small nodes, and a large one.
    graph = new("tensorflow.GraphDef")
    for n in range(2000):
        node = graph.node.add(name=f"node_{n}", op="Identity", input=[f"node_{max(n - 1, 0)}"])
        node.attr["T"].type = 1
    graph.node[1234].attr["value"].tensor.tensor_content = b"weights" * 1000
    graph.versions.producer = 1882
    add("many_nodes", graph)

    # All fields of a SavedModel, with several graphs.
    model = new("tensorflow.SavedModel")
    model.saved_model_schema_version = 1
    for m in range(2):
        meta = model.meta_graphs.add()
        meta.meta_info_def.tags.append(f"tag_{m}")
        meta.meta_info_def.tensorflow_version = "2.21.0"
        for i in range(40):
            meta.meta_info_def.stripped_op_list.op.add(name=f"Op{i}", description="d" * 40)
            meta.meta_info_def.function_aliases[f"alias_{i}"] = f"function_{i}"
            meta.asset_file_def.add(filename=f"vocabulary_{i}.txt").tensor_info.name = f"asset_{i}:0"
        graph = meta.graph_def
        for n in range(20):
            node = graph.node.add(name=f"node_{m}_{n}", op="Const")
            node.attr["value"].tensor.string_val.extend(strings(f"{m}.{n}", 40))
            function = graph.library.function.add()
            function.signature.name = f"inner_{m}_{n}"
            node = function.node_def.add(name="c", op="Const")
            node.attr["value"].tensor.tensor_content = bytes([m, n]) * 2000
        for name in ("variables", "train_op", "queue_runners"):
            meta.collection_def[name].bytes_list.value.extend(strings(name, 60))
        meta.collection_def["names"].node_list.value.extend(f"node_{i}" for i in range(300))
        meta.collection_def["steps"].int64_list.value.extend(range(1000))
        for s in range(3):
            signature = meta.signature_def[f"signature_{s}"]
            signature.method_name = "tensorflow/serving/predict"
            for i in range(30):
                signature.inputs[f"x_{i}"].name = f"serving_{i}:0"
                signature.outputs[f"y_{i}"].name = f"call_{i}:0"
            signature.defaults["x_0"].string_val.extend(strings(f"default_{s}", 40))
        objects = meta.object_graph_def
        for n in range(100):
            node = objects.nodes.add()
            node.children.add(node_id=n, local_name=f"child_{n}")
            node.user_object.identifier = "_tf_keras_layer"
            node.user_object.metadata = f'{{"name": "layer_{n}"}}'
            node.saveable_objects["VARIABLE_VALUE"].save_function = n
        objects.nodes[50].user_object.metadata = '{"name": "' + "k" * 5000 + '"}'
        for f in range(30):
            function = objects.concrete_functions[f"__inference_f_{f}"]
            function.bound_inputs.extend(range(100, 100 + f))
            values = function.canonicalized_input_signature.tuple_value.values
            values.add().dict_value.fields["x"].tensor_spec_value.name = f"x_{f}"
            values.add().tensor_value.tensor_content = bytes([f]) * 3000
    add("wide_saved_model", model)
    add("wide_meta_graph", model.meta_graphs[0])

    # Many occurrences of an unknown field, which must be kept in order.
    graph = new("tensorflow.GraphDef")
    graph.versions.producer = 1
    data = graph.SerializeToString()
    data += b"".join(length_delimited(5000, s) for s in strings("unknown", 60))
    node = length_delimited(1, b"node")
    node += b"".join(length_delimited(6000, s) for s in strings("unknown in a node", 60))
    found.append(Special("unknown_fields", "tensorflow.GraphDef", data + length_delimited(1, node)))

    # A oneof with two members and a map with a duplicate key. In each, the last one wins.
    def attr(key, value):
        return length_delimited(5, length_delimited(1, key) + length_delimited(2, value))

    small = length_delimited(8, length_delimited(4, b"displaced"))
    large = length_delimited(2, b"the string stays" * 200)
    node = length_delimited(1, b"oneof") + attr(b"value", small + large)
    data = length_delimited(1, node)
    tensor = length_delimited(8, length_delimited(4, b"the tensor stays" * 200))
    node = length_delimited(1, b"key twice") + attr(b"value", length_delimited(2, b"displaced")) + attr(b"value", tensor)
    data += length_delimited(1, node)
    found.append(Special("superseded_values", "tensorflow.GraphDef", data))

    # A singular message in two pieces, which a parser merges.
    def library(names):
        def function(name):
            constant = attr(b"value", length_delimited(8, length_delimited(4, name * 300)))
            signature = length_delimited(1, length_delimited(1, name))
            return signature + length_delimited(3, length_delimited(1, b"c") + constant)

        return length_delimited(2, b"".join(length_delimited(1, function(n)) for n in names))

    data = library([b"first", b"second"]) + length_delimited(1, length_delimited(1, b"between"))
    data += library([b"third", b"fourth"])
    found.append(Special("library_in_two_pieces", "tensorflow.GraphDef", data))

    return found
