"""Tests for splits, verifications and merges in parts."""

from __future__ import annotations

import importlib
import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import proto_splitter
import pytest
from proto_splitter import _core
from proto_splitter.parts import Plan, commit, plan_merge, plan_split, plan_verify, run_part


def planned(tree: Any, folder: Path, **more: Any) -> Plan:
    message, schema = proto_splitter.schema_of(tree)
    source = folder / "source.pb"
    source.write_bytes(tree.SerializeToString())
    small: dict[str, Any] = {"max_chunk_size": 2000, "value_chunk_size": 1000, "parts": 4}
    arguments = {"plan": folder / "plan", **small, **more}
    return plan_split(source, folder / "small", message, schema, **arguments)


def run_all(plan: Plan) -> None:
    for part in reversed(range(plan.parts)):
        # Pickles the plan, as if it were sent to another host.
        run_part(pickle.loads(pickle.dumps(plan)), part)


def test_parts_split_verify_and_merge(tree: Any, tmp_path: Path) -> None:
    plan = planned(tree, tmp_path)
    assert (plan.verb, plan.parts) == ("split", 4)
    run_all(plan)
    assert not (tmp_path / "small.cpb").exists()
    done = commit(plan)
    assert done["byte_exact"] is True
    assert done["output"] == plan.output == os.fspath(tmp_path / "small.cpb")
    assert commit(plan)["was_there"] is True

    checks = plan_verify(tmp_path / "small.cpb", plan=tmp_path / "checks", parts=3)
    run_all(checks)
    assert commit(checks)["problems"] == []

    target = tmp_path / "merged.pb"
    merging = plan_merge(tmp_path / "small.cpb", target, plan=tmp_path / "merging", parts=3)
    run_all(merging)
    commit(merging)
    assert target.read_bytes() == (tmp_path / "source.pb").read_bytes()


def test_a_commit_has_the_merkle_root_of_a_split_in_one_go(tree: Any, tmp_path: Path) -> None:
    plan = planned(tree, tmp_path, merkle_root=True)
    run_all(plan)
    root = commit(plan)["merkle_root"]
    assert proto_splitter.verify(tmp_path / "small.cpb", root=root)["ok"]
    small: dict[str, Any] = {"max_chunk_size": 2000, "value_chunk_size": 1000}
    message, schema = proto_splitter.schema_of(tree)
    options = {"profile": "extended", "merkle_root": True, **small}
    source = tmp_path / "source.pb"
    alone = proto_splitter.split(source, tmp_path / "alone", message, schema, **options)
    assert alone.merkle_root == root


def test_a_missing_part_is_named_and_a_changed_source_refused(tree: Any, tmp_path: Path) -> None:
    plan = planned(tree, tmp_path)
    report = run_part(plan, 1, report=tmp_path / "one", threads=1)
    assert report == os.fspath(tmp_path / "one")
    with pytest.raises(ValueError, match="no report of part 0, 2, 3, of 4 parts"):
        commit(plan, [report])
    source = tmp_path / "source.pb"
    source.write_bytes(source.read_bytes() + b"\x0a\x00")
    with pytest.raises(ValueError, match="changed since the plan was made"):
        run_part(plan, 0)


def test_damage_is_listed_and_not_raised(tree: Any, tmp_path: Path) -> None:
    plan = planned(tree, tmp_path, parts=1, compression="none")
    run_all(plan)
    commit(plan)
    (file,) = tmp_path.glob("small.*.cpb")
    damaged = bytearray(file.read_bytes())
    damaged[damaged.index(b"c" * 100) + 50] ^= 1
    file.write_bytes(damaged)
    checks = plan_verify(tmp_path / "small.cpb", plan=tmp_path / "checks", parts=2)
    run_all(checks)
    # Two pieces of the value are equal, so they share a record.
    problems = commit(checks)["problems"]
    assert len(problems) == 2 and all("hash mismatch" in problem for problem in problems)


def test_what_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        plan_verify(tmp_path / "nothing.cpb", plan=tmp_path / "plan")


def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Records the library calls of work in parts, and answers them without making them."""
    seen: list[tuple[Any, ...]] = []

    def answering(name: str) -> Callable[..., dict[str, Any]]:
        def answer(*arguments: Any) -> dict[str, Any]:
            seen.append((name, *arguments))
            verb = name.removeprefix("plan_")
            return {"verb": verb, "parts": 2, "output": None, "report": "done"}

        return answer

    for name in ("plan_split", "plan_merge", "plan_verify", "run_part", "commit"):
        monkeypatch.setattr(_core, name, answering(name))
    return seen


def test_urls_of_parts_are_given_to_the_library_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = calls(monkeypatch)
    plan = plan_split("s3://b/a.pb", "gs://b/small", "my.Model", plan="s3://b/plan")
    assert plan.path == "s3://b/plan"
    run_part(plan, 1)
    commit(plan)
    plan_merge("s3://b/small.cpb", "s3://b/merged.pb", plan="plan")
    plan_verify("s3://b/small.cpb", plan="plan")
    assert seen[0][:4] == ("plan_split", "s3://b/a.pb", "gs://b/small", "s3://b/plan")
    assert seen[1][:3] == ("run_part", ("s3://b/plan", "split"), 1)
    assert seen[2][:2] == ("commit", ("s3://b/plan", "split"))
    assert seen[3][:4] == ("plan_merge", "s3://b/small.cpb", "s3://b/merged.pb", "plan")
    assert seen[4][:3] == ("plan_verify", "s3://b/small.cpb", "plan")


def test_a_wrong_argument_is_refused_with_its_name(tree: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="parts is 0"):
        planned(tree, tmp_path, parts=0)
    plan = planned(tree, tmp_path)
    with pytest.raises(ValueError, match="part is -1"):
        run_part(plan, -1)
    with pytest.raises(ValueError, match="threads must be at least 1"):
        run_part(plan, 0, threads=0)
    with pytest.raises(ValueError, match="counted from 0"):
        run_part(plan, 4)
    with pytest.raises(ValueError, match="the plan of a split, not of a merge"):
        run_part(replace(plan, verb="merge"), 0)
    with pytest.raises(FileNotFoundError) as raised:
        run_part(replace(plan, path=os.fspath(tmp_path / "gone")), 0)
    assert raised.value.filename == os.fspath(tmp_path / "gone")
    run_all(plan)
    (tmp_path / "small.cpb").touch()
    with pytest.raises(FileExistsError):
        commit(plan)
    with pytest.raises(FileExistsError):
        planned(tree, tmp_path)


def test_progress_is_told_and_can_stop_a_part(tree: Any, tmp_path: Path) -> None:
    plan = planned(tree, tmp_path, parts=1)
    told: list[tuple[int, int]] = []
    run_part(plan, 0, progress=lambda done, of: told.append((done, of)))
    assert told and told[-1][0] == told[-1][1] > 0

    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        commit(plan, progress=stop)


@pytest.mark.parametrize("scratch", [None, "s3://scratch/some", "folder"])
def test_ray_keeps_the_plan_of_an_object_in_the_store_or_in_scratch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scratch: str | None
) -> None:
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    monkeypatch.delitem(sys.modules, "proto_splitter.ray", raising=False)
    on_ray = importlib.import_module("proto_splitter.ray")
    removed: list[str] = []
    monkeypatch.setattr(on_ray, "_remove_objects", removed.append)
    monkeypatch.setattr(on_ray, "run", lambda plan, **_: {"plan": plan.path})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    calls(monkeypatch)
    around = {None: "s3://b/to", "folder": os.path.abspath("folder")}.get(scratch, scratch)
    for done in (
        on_ray.split("s3://b/a.pb", "s3://b/to/small", scratch=scratch),
        on_ray.merge("s3://b/to/small.cpb", "s3://b/to/merged.pb", scratch=scratch),
        on_ray.verify("s3://b/to/small.cpb", scratch=scratch),
    ):
        plan = str(done["plan"])
        assert os.path.dirname(os.path.dirname(plan)) == around
        if scratch != "folder":
            assert removed.pop(0) == os.path.dirname(plan)
    # No folder is named like a URL, and no temporary folder is left.
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]
