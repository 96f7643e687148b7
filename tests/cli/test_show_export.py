"""``show`` and ``export`` on plan files, good and bad."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from fabric_plan.cli import main
from fabric_plan.planner import files, interface
from fabric_plan.planner.errors import InvalidInput, InvalidPlan
from fabric_plan.planner.problem import PlacementProblem


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = interface.plan(PlacementProblem.of("mesh:4x5", "MP3-DP3-PP2"), planner="megatron")
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    files.write_plan(plan, path)
    return path


def call(*words: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main.command, [str(word) for word in words], input=stdin)


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["fabric-plan", *map(str, words)])
    with pytest.raises(SystemExit) as left:
        main.run()
    return int(left.value.code or 0)


def tampered(plan_file: Path, tmp_path: Path, *, honest_digest: bool) -> Path:
    """Return the plan with two workers on one seat."""
    document = json.loads(plan_file.read_text())
    document["seats"][0] = document["seats"][1]
    if honest_digest:
        document["digest"] = files.digest(document)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document))
    return path


def test_show_prints_title_and_grid(plan_file: Path) -> None:
    done = call("show", plan_file)
    assert done.exit_code == 0
    first, *rest = done.stdout.splitlines()
    assert first.startswith("MP3-DP3-PP2 on mesh:4x5: feasible: congestion")
    assert rest[0].startswith("000─")
    assert len(rest) == 8
    assert "\x1b" not in done.stdout
    assert call("show", plan_file, "-o", "-").stdout == done.stdout
    assert call("show", "-", stdin=plan_file.read_bytes()).stdout == done.stdout


def test_show_one_phase(plan_file: Path) -> None:
    drawn = {phase: call("show", plan_file, "--phase", phase).stdout for phase in ("all", "mp", "dp", "pp")}
    assert len(set(drawn.values())) == 4


@pytest.mark.parametrize(
    ("name", "start"), [("p.svg", b"<?xml"), ("p.html", b"<!DOCTYPE html>"), ("p.png", b"\x89PNG"), ("P.SVG", b"<?xml")]
)
def test_show_writes_the_form_of_the_suffix(plan_file: Path, tmp_path: Path, name: str, start: bytes) -> None:
    if name.endswith("png"):
        pytest.importorskip("matplotlib")
    done = call("show", plan_file, "-o", tmp_path / name)
    assert (done.exit_code, done.output) == (0, "")
    assert (tmp_path / name).read_bytes().startswith(start)
    other = call("show", plan_file, "-o", tmp_path / f"mp{name}", "--phase", "mp")
    assert other.exit_code == 0
    assert (tmp_path / name).read_bytes() != (tmp_path / f"mp{name}").read_bytes()


@pytest.mark.parametrize("name", ["p.pdf", "p", "svg"])
def test_show_refuses_unknown_suffixes(plan_file: Path, tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(main.command, ["show", str(plan_file), "-o", str(tmp_path / name)])
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == 2
    assert ".svg, .html, .png" in done.output
    assert not (tmp_path / name).exists()


def test_export_writes_stdout_or_a_file(plan_file: Path, tmp_path: Path) -> None:
    for form in ("csv", "megatron-order"):
        done = call("export", plan_file, "--to", form)
        assert done.exit_code == 0
        assert len([line for line in done.stdout.splitlines() if line[0].isdigit()]) == 18
        to_file = call("export", plan_file, "--to", form, "-o", tmp_path / form)
        assert to_file.output == ""
        assert (tmp_path / form).read_text() == done.stdout


def test_export_names_the_known_forms(plan_file: Path) -> None:
    done = call("export", plan_file, "--to", "xls")
    assert done.exit_code == 2
    assert "csv" in done.output
    assert "megatron-order" in done.output
    assert call("export", plan_file).exit_code == 2


@pytest.mark.parametrize("words", [("show",), ("export", "--to", "csv")])
def test_invalid_plans_are_refused(plan_file: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    done = call(*words, tampered(plan_file, tmp_path, honest_digest=True))
    assert isinstance(done.exception, InvalidPlan)
    assert "workers 000 and 100 both sit on seat" in str(done.exception)
    assert done.stdout == ""
    done = call(*words, tampered(plan_file, tmp_path, honest_digest=False))
    assert isinstance(done.exception, InvalidPlan)
    assert "digest" in str(done.exception)


@pytest.mark.parametrize("words", [("show",), ("export", "--to", "csv")])
def test_places_that_cannot_be_written_are_refused_before_the_plan_is_read(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = call(*words, tmp_path / "no-plan.json", "-o", tmp_path / "nowhere" / "p.svg")
    assert isinstance(done.exception, InvalidInput)
    assert "nowhere" in str(done.exception)


def test_errors_are_one_line(
    plan_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tampered(plan_file, tmp_path, honest_digest=True)
    for words in (
        ("show", bad),
        ("show", plan_file, "-o", tmp_path / "p.pdf"),
        ("show", plan_file, "--phase", "ep"),
        ("show", tmp_path / "none.json"),
        ("export", bad, "--to", "csv"),
        ("export", plan_file, "--to", "xls"),
    ):
        assert run(monkeypatch, *words) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("fabric-plan: ")
        assert said.err.count("\n") == 1


def test_commands_are_click_commands() -> None:
    from fabric_plan.cli import export, show

    assert isinstance(show.command, click.Command)
    assert isinstance(export.command, click.Command)


def test_help_is_quick_to_load() -> None:
    import subprocess

    for name in ("show", "export"):
        code = (
            f"import sys; from fabric_plan.cli.main import command; command(['{name}', '--help'], standalone_mode=False);"
            "print([name for name in ('ortools', 'numpy', 'matplotlib', 'msgspec') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"
