"""Runs code of docs/python.md unchanged; shim.py and onnx_session.py run the remaining code."""

from __future__ import annotations

import re
from pathlib import Path

import proto_splitter
import pytest

PAGE = Path(__file__).parents[3] / "docs" / "python.md"


def test_the_page_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(block, names)
    assert capsys.readouterr().out == "100000 bytes\n"


def test_every_link_leads_to_a_section() -> None:
    text = PAGE.read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-") for one in headings}
    links = set(re.findall(r"\(#([^)]+)\)", text))
    assert links and links <= anchors, links - anchors


def test_the_version_is_that_of_the_crates() -> None:
    manifest = (PAGE.parents[1] / "Cargo.toml").read_text()
    section = manifest.partition("[workspace.package]")[2]
    found = re.search(r'version = "(.*?)"', section)
    assert found is not None and found[1] == proto_splitter.__version__
