"""Splits, verifications and merges in parts."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import proto_splitter
import pytest
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
        # As it gets to another host.
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
    # Two pieces of the value are equal, and so are one record.
    problems = commit(checks)["problems"]
    assert len(problems) == 2 and all("hash mismatch" in problem for problem in problems)


def test_what_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        plan_verify(tmp_path / "nothing.cpb", plan=tmp_path / "plan")
