"""Runs the test scenarios of `tensorflow.tools.proto_splitter` with `proto_splitter.compat` and TensorFlow's messages.

The checks use the same names of modules and functions as those tests. TensorFlow's `Merger` (`tf_read`) merges the files.
Ends with one line, `N passed, 0 failed`.
"""

import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../externalize")]

from shim import Checks  # noqa: E402

import tensorflow as tf  # noqa: E402
from google.protobuf import descriptor_pb2, message, text_format  # noqa: E402
from tensorflow.core.framework import function_pb2, graph_pb2  # noqa: E402
from tensorflow.core.protobuf import saved_model_pb2  # noqa: E402

import proto_splitter as ps  # noqa: E402
from proto_splitter.compat import chunk_pb2, constants, split, split_graph_def, util, version, versions_pb2  # noqa: E402
from proto_splitter.compat.python import saved_model, test_util  # noqa: E402

Strings = descriptor_pb2.UninterpretedOption.NamePart  # A message with a required string.
TF_READ = os.path.join(HERE, "../../../.interop/tf_read")


class NoOp(split.ComposableSplitter):
    def build_chunks(self):
        pass


class Imports(split.ComposableSplitter):
    """A splitter that turns each import of a file, an element of a repeated string, into a chunk."""

    def __init__(self, proto, **options):
        super().__init__(proto, proto_as_initial_chunk=not proto.dependency, **options)

    def build_chunks(self):
        for at, name in enumerate(self._proto.dependency):
            self.add_chunk(name.encode(), ["dependency", at])
        self._proto.ClearField("dependency")


class Names(split.ComposableSplitter):
    """A splitter that turns the name of each message in a file into a chunk."""

    def build_chunks(self):
        for at, kind in enumerate(self._proto.message_type):
            self.add_chunk(kind.name.encode(), ["message_type", at, "name"])
            kind.ClearField("name")


def raises(kind, words, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def check_split(checks, work):
    file = descriptor_pb2.FileDescriptorProto
    with checks.check("a message without strings is its own chunk, and strings are chunks of bytes"):
        chunks, found = Imports(file()).split()
        assert len(chunks) == 1 and isinstance(chunks[0], file)
        chunks, found = Imports(file(dependency=["a", "b", "c"])).split()
        assert chunks == [b"a", b"b", b"c"] and len(found.chunked_fields) == 3
        assert not found.HasField("chunk_index")
    with checks.check("elements of repeated strings are not written, as TensorFlow's Merger ends the process at them"):
        raises(ps.UncuttableError, "profile `extended`", Imports(file(dependency=["a", "b"])).write, os.path.join(work, "repeat"))
    with checks.check("what is written has the chunks, in order, and their sizes and offsets"):
        given = file(name="f", message_type=[descriptor_pb2.DescriptorProto(name=name * 9) for name in "abc"])
        whole = file.FromString(given.SerializeToString())
        path = Names(given).write(os.path.join(work, "names"))
        assert path == os.path.join(work, "names.cpb")
        assert ps.read(path, file) == whole
        info = ps.info(path)
        assert [(one["kind"], one["size"]) for one in info["chunks"][1:]] == [("BYTES", 9)] * 3
    with checks.check("children add chunks to their parent, and can't be split alone"):
        given = file(name="f", message_type=[descriptor_pb2.DescriptorProto(name=name) for name in "ab"])
        whole = descriptor_pb2.FileDescriptorSet(file=[given, given])
        parent = NoOp(whole)
        assert len(parent.split()[0]) == 1
        parent.add_chunk("", [])
        assert len(parent.split()[0]) == 2
        for at in range(2):
            child = Names(whole.file[at], parent_splitter=parent, fields_in_parent=["file", at])
            child.build_chunks()
            assert len(parent.split()[0]) == 4 + 2 * at
        raises(ValueError, " `split` method should not be called directly", child.split)
        raises(ValueError, " `write` method should not be called directly", child.write, os.path.join(work, "child"))
    for options in (None, "uncompressed"):
        with checks.check(f"without chunks the message is written unchanged, with options {options}"):
            given = file(name="whole", dependency=["a", "bc"])
            path = NoOp(given).write(os.path.join(work, f"none{options}"), options)
            assert path == os.path.join(work, f"none{options}.pb")
            with open(path, "rb") as written:
                assert file.FromString(written.read()) == given
    with checks.check("a splitter has its versions"):
        assert isinstance(NoOp(file()).version_def, versions_pb2.VersionDef)
        assert (version.get_current_join_version(), list(version.get_bad_versions())) == (0, [])


def check_util(checks):
    graph = graph_pb2.GraphDef()
    node = graph.node.add(name="n", op="Const")
    node.attr["value"].tensor.tensor_content = b"content"
    graph.library.function.add().arg_attr[3].attr["_name"].s = b"of three"
    with checks.check("numbers of bytes are formatted as by TensorFlow"):
        for size, text in ((1024, "1KiB"), (5632, "5.5KiB"), (53432, "52.18KiB"), (76493281, "72.95MiB"), (5.977e7, "57MiB"),
                           (1.074e9, "1GiB"), (16493342281, "15.36GiB")):
            assert util.format_bytes(size) == text, (size, util.format_bytes(size))
    with checks.check("field tags are made of names and numbers, lists and tuples"):
        for tags in (["node", 15, "attr", "a", "tensor"], (1, 15, 5, "a", 8)):
            found = util.get_field_tag(graph, tags)
            assert [one.WhichOneof("kind") for one in found] == ["field", "index", "field", "map_key", "field"]
            assert (found[0].field, found[1].index, found[3].map_key.s, found[4].field) == (1, 15, "a", 8)
        found = util.get_field_tag(graph, ["library", "function", 0, "arg_attr", 3])
        assert found[-1].map_key.ui32 == 3 and not found[-1].map_key.HasField("i32")
    with checks.check("wrong field tags raise the same errors as in TensorFlow"):
        raises(KeyError, "Unable to find field 'not_a_field'", util.get_field_tag, graph, ["node", 0, "not_a_field"])
        raises(KeyError, "Unable to find field number 10000", util.get_field_tag, graph, [2, 10000])
        raises(ValueError, "Unable to find fields: ['node', 0, 'name', 1] in proto of type tensorflow.GraphDef",
               util.get_field_tag, graph, ["node", 0, "name", 1])
    with checks.check("fields are found, with their descriptors"):
        assert util.get_field(graph, []) == util.get_field(graph, ()) == (graph, None)
        assert util.get_field(graph, ["node", 0, 5, "value", "tensor", "tensor_content"])[0] == b"content"
        field, found = util.get_field(graph, ("library", "function"))
        assert len(field) == 1 and (found.name, found.number) == ("function", 1)
        assert util.get_field(graph, ["library", "function", 0, "arg_attr", 3, "attr", "_name", "s"])[0] == b"of three"
        assert util.is_repeated(found) and util.get_field(graph, ["node", 7])[0] is None


def made(sizes, **functions):
    return test_util.make_graph_def_with_constant_nodes(sizes, **functions)


def split_at(limit, graph):
    constants.debug_set_max_size(limit)
    copied = graph_pb2.GraphDef()
    copied.CopyFrom(graph)
    chunks, found = split_graph_def.GraphDefSplitter(copied).split()
    for chunk in chunks:
        assert not isinstance(chunk, message.Message) or chunk.ByteSize() <= limit
    return chunks, found


def tags(graph, *fields):
    return [[one.SerializeToString() for one in util.get_field_tag(graph, list(field))] for field in fields]


def found_tags(found):
    return [[one.SerializeToString() for one in field.field_tag] for field in found.chunked_fields]


def check_graphs(checks):
    with checks.check("graphs have about the requested sizes"):
        for dtype in (tf.float32, tf.float64):
            graph = test_util.make_graph_def_with_constant_nodes([75, 50, 100, 95, 120], dtype=dtype, fn=[121, 153, 250, 55])
            assert all(abs(node.ByteSize() - size) <= 5 for node, size in zip(graph.node, [75, 50, 100, 95, 120]))
            nodes = graph.library.function[0].node_def
            assert all(abs(node.ByteSize() - size) <= 10 for node, size in zip(nodes, [121, 153, 250, 55]))
    with checks.check("a small graph is one chunk"):
        graph = made([50, 100, 50, 50, 100])
        chunks, _ = split_at(500, graph)
        assert chunks == [graph]
    with checks.check("large constants are cut out"):
        graph = made([50, 50, 1000, 50, 1000])
        chunks, found = split_at(500, graph)
        assert chunks[1:] == [graph.node[at].attr["value"].tensor.tensor_content for at in (2, 4)]
        place = ["attr", "value", "tensor", "tensor_content"]
        assert found_tags(found) == tags(graph, ["node", 2, *place], ["node", 4, *place])
        assert [field.message.chunk_index for field in found.chunked_fields] == [1, 2]
    with checks.check("many nodes are cut in runs"):
        graph = made([95] * 15)
        chunks, found = split_at(500, graph)
        assert len(chunks) == 3 and [node for chunk in chunks for node in chunk.node] == list(graph.node)
        assert found_tags(found) == [[], []]
    with checks.check("large nodes are cut out, and empty ones stay"):
        graph = made([50, 95, 95, 95, 50, 95])
        chunks, found = split_at(200, graph)
        assert chunks[1:] == [graph.node[at] for at in (1, 2, 3, 5)]
        assert [node.ByteSize() for node in chunks[0].node] == [graph.node[0].ByteSize(), 0, 0, 0, graph.node[4].ByteSize(), 0]
        assert found_tags(found) == tags(graph, *(["node", at] for at in (1, 2, 3, 5)))
    with checks.check("the nodes of a function are cut in runs"):
        graph = made([], fn=[50] * 5)
        chunks, found = split_at(200, graph)
        assert [type(chunk) for chunk in chunks] == [graph_pb2.GraphDef, function_pb2.FunctionDef]
        assert [*chunks[0].library.function[0].node_def, *chunks[1].node_def] == list(graph.library.function[0].node_def)
        expected = "chunk_index: 0 chunked_fields {field_tag {field: 2} field_tag {field: 1} field_tag {index: 0} message {chunk_index: 1}}"
        assert found == text_format.Parse(expected, chunk_pb2.ChunkedMessage())
    with checks.check("large constants of a function are cut out"):
        graph = made([], fn=[500, 500, 50, 500])
        chunks, _ = split_at(200, graph)
        nodes = graph.library.function[0].node_def
        assert chunks[1:] == [nodes[at].attr["value"].tensor.tensor_content for at in (0, 1, 3)]
    with checks.check("a graph and its functions are cut"):
        chunks, _ = split_at(200, made([50] * 6, fn1=[50] * 3, fn2=[50], fn3=[50], fn4=[50]))
        assert len(chunks) == 4
    with checks.check("a node that is too large, but not a constant, is an error"):
        graph = made([50])
        graph.node.add(name="large", op="Other").attr["a"].s = b"s" * 1000
        raises(ValueError, "Currently only Const nodes can be further split", split_at, 500, graph)
        raises(TypeError, "Can only split GraphDef", split_graph_def.GraphDefSplitter(Strings()).split)
    with checks.check("constants of strings keep their elements"):
        graph = graph_pb2.GraphDef()
        words = [b"word %d" % at for at in range(200)]
        graph.node.add(name="words", op="Const").attr["value"].tensor.CopyFrom(tf.make_tensor_proto(words))
        graph.node[0].attr["dtype"].type = 7
        constants.debug_set_max_size(500)
        expected = [tf.make_ndarray(graph.node[0].attr["value"].tensor).tolist()]
        splitter = split_graph_def.GraphDefSplitter(graph)
        chunk = splitter.split()[0][1]
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            node = graph_pb2.GraphDef(node=splitter.split()[0][0].node)
            node.node[0].attr["value"].tensor.tensor_content = chunk
            words, = tf.import_graph_def(node, return_elements=["words:0"])
            assert [session.run(words).tolist()] == expected


def merged_by_tensorflow(path, kind):
    target = path + ".merged"
    line = "\t".join([path.removesuffix(".cpb"), kind, target])
    ran = subprocess.run([TF_READ], input=line, text=True, check=True, capture_output=True)
    assert ran.stdout.startswith("ok\t"), ran.stdout
    with open(target, "rb") as file:
        return file.read()


def check_models(checks, work):
    sizes, functions = [100, 100, 1000, 100, 1000, 500, 100, 100, 100], dict(fn1=[100] * 3, fn2=[100, 500], fn3=[100], fn4=[100] * 2)
    model = saved_model_pb2.SavedModel()
    model.meta_graphs.add().graph_def.CopyFrom(made(sizes, **functions))
    for limit in (300, 500, 1000):
        with checks.check(f"a SavedModel is split at {limit}, and restored by a merge"):
            constants.debug_set_max_size(limit)
            copied = saved_model_pb2.SavedModel.FromString(model.SerializeToString())
            chunks, _ = saved_model.SavedModelSplitter(copied).split()
            assert all(chunk.ByteSize() <= 500 for chunk in chunks if isinstance(chunk, message.Message)) or limit != 500
            for options in (None, "transpose,brotli:5"):
                copied = saved_model_pb2.SavedModel.FromString(model.SerializeToString())
                path = saved_model.SavedModelSplitter(copied).write(os.path.join(work, f"model{limit}"), options)
                assert path.endswith(".cpb")
                assert ps.read(path, saved_model_pb2.SavedModel) == model
                theirs = saved_model_pb2.SavedModel.FromString(merged_by_tensorflow(path, "savedmodel"))
                assert theirs == model
    constants.debug_set_max_size(1 << 30)


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="compat-") as work:
        check_split(checks, work)
        check_util(checks)
        check_graphs(checks)
        check_models(checks, work)
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(bool(checks.failed))


if __name__ == "__main__":
    main()
