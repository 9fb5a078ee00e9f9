"""Tests for splitters in Python, whose names are TensorFlow's."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proto_splitter as ps
import pytest
from conftest import Tree
from proto_splitter import constants, util


class DataSplitter(ps.ComposableSplitter):
    """A splitter that cuts out the data of a tree and of its children."""

    def build_chunks(self) -> None:
        for number, child in enumerate(self._proto.children):
            DataSplitter(
                child, parent_splitter=self, fields_in_parent=["children", number]
            ).build_chunks()
        for key in self._proto.by_key:
            DataSplitter(
                self._proto.by_key[key], parent_splitter=self, fields_in_parent=["by_key", key]
            ).build_chunks()
        if self._proto.HasField("data"):
            self.add_chunk(self._proto.data, ["data"])
            self._proto.ClearField("data")


def copy_of(tree: Any) -> Any:
    copied = Tree()
    copied.CopyFrom(tree)
    return copied


def test_what_a_splitter_adds_is_merged_again(tree: Any, tmp_path: Path) -> None:
    path = DataSplitter(copy_of(tree)).write(tmp_path / "tree")
    assert path == str(tmp_path / "tree.cpb")
    assert ps.read(path, Tree) == tree
    chunks = ps.info(path)["chunks"]
    assert len(chunks) == 1 + 5 + 2


def test_the_same_chunks_come_in_memory(tree: Any) -> None:
    chunks, message = DataSplitter(copy_of(tree)).split()
    assert len(chunks) == 8
    tags = [list(field.field_tag) for field in message.chunked_fields]
    expected = util.get_field_tag(tree, ["children", 0, "data"])
    assert [tag.SerializeToString() for tag in tags[0]] == [
        tag.SerializeToString() for tag in expected
    ]
    index = message.chunked_fields[0].message.chunk_index
    assert chunks[index] == tree.children[0].data
    assert isinstance(chunks[0], Tree) and chunks[0].name == "root"


def test_a_message_may_be_a_chunk_and_the_first_may_be_left_out(
    tree: Any, tmp_path: Path
) -> None:
    class Parts(ps.ComposableSplitter):
        def build_chunks(self) -> None:
            self.add_chunk(self._proto.child, "child")
            self.add_chunk(b"\x00\xff", ["by_key", 'a "key" \\ \n', "data"], index=0)

    splitter = Parts(copy_of(tree), proto_as_initial_chunk=False)
    chunks, message = splitter.split()
    assert not message.HasField("chunk_index") and len(chunks) == 2
    path = splitter.write(tmp_path / "parts")
    assert [chunk["kind"] for chunk in ps.info(path)["chunks"]] == ["BYTES", "MESSAGE"]
    merged = ps.read(path, Tree)
    assert merged.child == tree.child
    assert dict(merged.by_key).keys() == {'a "key" \\ \n'}
    assert not merged.HasField("name")


def test_a_splitter_without_chunks_writes_the_message(tree: Any, tmp_path: Path) -> None:
    class Nothing(ps.ComposableSplitter):
        def build_chunks(self) -> None:
            pass

    path = Nothing(tree).write(tmp_path / "whole")
    assert path.endswith("whole.pb")
    assert Tree.FromString(Path(path).read_bytes()) == tree


def test_a_splitter_with_a_parent_is_not_written_by_itself(tree: Any, tmp_path: Path) -> None:
    parent = DataSplitter(tree)
    child = DataSplitter(tree.child, parent_splitter=parent, fields_in_parent="child")
    with pytest.raises(ValueError, match="parent"):
        child.write(tmp_path / "child")
    with pytest.raises(ValueError, match="both"):
        DataSplitter(tree, parent_splitter=parent)


def test_an_exception_of_build_chunks_comes_through(tree: Any, tmp_path: Path) -> None:
    class Broken(ps.ComposableSplitter):
        def build_chunks(self) -> None:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        Broken(tree).write(tmp_path / "broken")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        (["nothing"], "Unable to find field 'nothing' in test.Tree"),
        (["name", "name"], "Unable to find fields: .*name.* in proto of type test.Tree"),
        ([99], "Unable to find field number 99 in test.Tree"),
    ],
)
def test_field_tags_that_lead_nowhere_are_path_errors(
    tree: Any, tags: list[str | int], words: str
) -> None:
    for kind in (ps.PathError, KeyError, ValueError):
        with pytest.raises(kind, match=words):
            DataSplitter(tree).add_chunk(b"", tags)


def test_an_element_that_comes_after_a_gap_is_refused_when_it_is_written(
    tree: Any, tmp_path: Path
) -> None:
    for behind in (0, 1):
        splitter = DataSplitter(copy_of(tree))
        splitter.add_chunk(tree.children[0], ["children", len(tree.children) + behind])
        if behind == 0:
            splitter.write(tmp_path / "next")
            continue
        with pytest.raises(ps.PathError, match="leaves a gap"):
            splitter.write(tmp_path / "gap")


def test_field_tags_are_found_by_name_and_by_number(tree: Any) -> None:
    assert util.get_field(tree, ["children", 1, "name"])[0] == "element 1"
    assert util.get_field(tree, [4, 1, 1])[0] == "element 1"
    assert util.get_field(tree, "name")[1].name == "name"
    assert util.get_field(tree, ["by_key", "a", "data"])[0] == b"a" * 4000
    nowhere: list[util.FieldTypes] = [["children", 9], ["by_key", "none"]]
    for tags in nowhere:
        assert util.get_field(tree, tags)[0] is None
    assert "none" not in tree.by_key
    assert util.get_field(tree, ()) == (tree, None)
    assert util.get_field_tag(tree, ["counts", -1])[1].map_key.i32 == -1
    assert util.is_repeated(tree.DESCRIPTOR.fields_by_name["counts"])
    assert not util.is_repeated(tree.DESCRIPTOR.fields_by_name["name"])


def test_the_maximum_size_is_that_of_the_thread(tree: Any, tmp_path: Path) -> None:
    def small() -> None:
        with pytest.raises(ps.UncuttableError):
            DataSplitter(copy_of(tree)).write(tmp_path / "small")

    within(1000, small)
    assert constants.max_size() == 1 << 30
    with pytest.raises(ValueError, match="positive"):
        constants.debug_set_max_size(0)


def test_the_built_in_splitters_take_their_own_type_only(tree: Any) -> None:
    for splitter in (ps.GraphDefSplitter, ps.SavedModelSplitter):
        with pytest.raises(ps.SchemaError, match="expected a tensorflow"):
            splitter(tree)


class LeafSplitter(ps.SplitBasedOnSize):
    """A splitter that cuts out the data of large trees, and leaves small trees unchanged."""

    seen: list[int] = []

    def build_chunks(self) -> int:
        self.seen.append(self.proto_size)
        if self.proto_size <= 2000 or not self._proto.HasField("data"):
            return 0
        self.add_chunk(self._proto.data, ["data"])
        size = len(self._proto.data)
        self._proto.ClearField("data")
        return size


def within(limit: int, work: Callable[[], Any]) -> Any:
    """Calls a function with this maximum chunk size, and returns its result."""

    def run() -> Any:
        constants.debug_set_max_size(limit)
        return work()

    return contextvars.copy_context().run(run)


@pytest.mark.parametrize("tags", [["children"], ["child", "children"], ["by_key", "b", "children"]])
@pytest.mark.parametrize("limit", [600, 2500, 1 << 20])
@pytest.mark.parametrize("splitters", [[], [LeafSplitter], [LeafSplitter, ps.LargeMessageSplitter]])
def test_a_list_is_split_by_its_elements_and_then_in_runs(
    tags: list[str], limit: int, splitters: list[type[ps.SplitBasedOnSize]], tmp_path: Path
) -> None:
    whole = Tree(name="root")
    whole.by_key["b"].name = "b"
    *outer, _ = tags
    holder = util.get_field(whole, outer)[0] if outer else whole
    for number in range(12):
        large = number % 4 == 0 and splitters
        holder.children.add(name=f"{number}", data=bytes([number]) * (2400 if large else 100))
    cut = copy_of(whole)
    before = cut.ByteSize()
    LeafSplitter.seen.clear()
    splitter = ps.RepeatedMessageSplitter(cut, tags, splitters)
    taken = within(limit, splitter.build_chunks)
    # The lengths in the remaining message are encoded in fewer bytes.
    assert abs(before - cut.ByteSize() - taken) < 100
    assert len(LeafSplitter.seen) == (12 if splitters else 0)
    path = within(limit, lambda: splitter.write(tmp_path / "list"))
    assert ps.read(path, Tree) == whole
    if limit == 600:
        assert len(util.get_field(cut, tags)[0]) < 12


def test_a_list_in_a_list_is_split_by_its_own_splitter(tree: Any, tmp_path: Path) -> None:
    class Inner(ps.SplitBasedOnSize):
        def build_chunks(self) -> int:
            inner = ps.RepeatedMessageSplitter(
                self._proto,
                "children",
                [LeafSplitter],
                parent_splitter=self,
                fields_in_parent=[],
            )
            return inner.build_chunks()

    for child in tree.children:
        for number in range(3):
            child.children.add(name=f"inner {number}", data=b"i" * 2500)
    splitter = ps.RepeatedMessageSplitter(copy_of(tree), "children", [Inner, LeafSplitter])
    assert within(3000, splitter.build_chunks) > 5 * 3 * 2500
    assert ps.read(splitter.write(tmp_path / "lists"), Tree) == tree


@pytest.mark.parametrize("tags", ["name", "numbers", "by_key", "child", ["children", 0]])
def test_what_isnt_a_list_of_messages_is_a_path_error(tree: Any, tags: Any) -> None:
    with pytest.raises(ps.PathError, match="expected a list of messages"):
        ps.RepeatedMessageSplitter(tree, tags, [])


def test_a_splitter_may_number_its_versions(tree: Any, tmp_path: Path) -> None:
    class Seventh(DataSplitter):
        @property
        def version_def(self) -> Any:
            version = super().version_def
            version.splitter_version = 7
            return version

    for number, splitter in ((1, DataSplitter), (7, Seventh)):
        made = splitter(copy_of(tree))
        found = ps.info(made.write(tmp_path / f"version{number}"))
        assert found["splitter_version"] == made.version_def.splitter_version == number
        assert found["join_version"] == made.version_def.join_version
        assert not made.version_def.bad_consumers


def test_versions_that_no_reader_would_take_are_refused(tree: Any, tmp_path: Path) -> None:
    class Versioned(DataSplitter):
        join_version = 0
        bad_consumers: list[int] = []

        @property
        def version_def(self) -> Any:
            version = super().version_def
            version.join_version = self.join_version
            version.bad_consumers.extend(self.bad_consumers)
            return version

    splitter = Versioned(copy_of(tree))
    splitter.bad_consumers = [7, -1]
    path = splitter.write(tmp_path / "barred")
    assert ps.info(path)["bad_consumers"] == [7, -1]
    assert ps.read(path, Tree) == tree
    for name, value in (("join_version", 3), ("bad_consumers", [0]), ("bad_consumers", [1])):
        splitter = Versioned(copy_of(tree))
        setattr(splitter, name, value)
        with pytest.raises(ValueError, match="version"):
            splitter.write(tmp_path / "refused")
    assert not (tmp_path / "refused.cpb").exists()


@pytest.mark.parametrize("options", ["transpose,brotli:5", "zstd:3", "uncompressed", "none", "auto"])
def test_records_are_written_as_option_strings_say(
    options: str, tree: Any, tmp_path: Path
) -> None:
    path = DataSplitter(copy_of(tree)).write(tmp_path / "tree", options)
    assert ps.read(path, Tree) == tree
    kinds = {chunk["compression"] for chunk in ps.info(path)["chunks"]}
    wanted = {"transpose,brotli:5": {"brotli"}, "zstd:3": {"zstd"}, "auto": kinds}
    assert kinds == wanted.get(options, {"none"})
    written = ps.split(tree, tmp_path / "again", max_chunk_size=9000, records=options)
    assert ps.read(written.path, Tree) == tree
    assert ps.verify(written.path)["ok"]


def test_an_option_string_that_is_none_is_a_value_error(tree: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown option"):
        DataSplitter(tree).write(tmp_path / "tree", "sideways")
