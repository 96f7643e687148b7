"""The examples of the README run, and print what it says they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()


def test_python_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    for said in re.findall(r"# (.+)$", code, re.MULTILINE):
        assert said.strip() in printed


def test_graph_example(tmp_path: Path) -> None:
    from fabric_plan.planner.files import load_fabric

    (graph,) = re.findall(r"```json\n(.*?)```", README, re.DOTALL)
    path = tmp_path / "graph.json"
    path.write_text(graph)
    assert len(load_fabric(str(path)).seats) == 2
