"""Schedules exported and drawn by the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fabric_plan.cli.main import command


@pytest.mark.parametrize("form", ["msccl-xml", "mscclpp-json", "chrome-trace"])
def test_schedule_and_export_write_the_same(tmp_path: Path, form: str) -> None:
    plan, one, other = (str(tmp_path / name) for name in ("plan.json", "one", "other"))
    ask = ["schedule", "all-gather", "--fabric", "ring:4", "--planner", "ring", "--deterministic", "-q"]
    for rest in (["-o", plan], ["--to", form, "-o", one]):
        done = CliRunner().invoke(command, [*ask, *rest])
        assert done.exit_code == 0, done.output
    done = CliRunner().invoke(command, ["export", plan, "--to", form, "-o", other])
    assert done.exit_code == 0, done.output
    assert Path(one).read_bytes() == Path(other).read_bytes()


@pytest.mark.parametrize(("suffix", "begins"), [("svg", b"<?xml"), ("html", b"<!doctype"), ("png", b"\x89PNG")])
def test_show_draws_a_schedule(tmp_path: Path, suffix: str, begins: bytes) -> None:
    plan, picture = tmp_path / "plan.json", tmp_path / f"p.{suffix}"
    ask = ["schedule", "all-reduce", "--fabric", "dgx1", "--planner", "ring", "-q", "-o", str(plan)]
    assert CliRunner().invoke(command, ask).exit_code == 0
    done = CliRunner().invoke(command, ["show", str(plan), "-o", str(picture)])
    assert done.exit_code == 0, done.output
    assert picture.read_bytes().startswith(begins)
