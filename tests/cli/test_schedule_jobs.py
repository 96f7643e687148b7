"""``schedule --jobs`` and ``--placement``, as one would type them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fabric_plan.cli import main

JOBS = """
fabric = "ring:4"
[[job]]
pattern = "all-reduce"
groups = "0-1;2-3"
size = "8MiB"
name = "pairs"
[[job]]
pattern = "broadcast"
group = [3, 0, 1]
size = "1MiB"
release = "10us"
priority = 2
"""


def call(*arguments: object) -> tuple[int, str, str]:
    """Run a command as the installed script does; return (exit code, stdout, stderr)."""
    import sys

    import click

    @click.command(context_settings={"ignore_unknown_options": True})
    def script() -> None:
        before = sys.argv
        sys.argv = ["fabric-plan", *map(str, arguments)]
        try:
            main.run()
        finally:
            sys.argv = before

    found = CliRunner().invoke(script, [])
    return found.exit_code, found.stdout, found.stderr


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.toml"
    path.write_text(JOBS)
    return path


def test_jobs_are_packed_and_their_plan_validates(jobs: Path, tmp_path: Path) -> None:
    plan = tmp_path / "s.json"
    code, out, _ = call("schedule", "--jobs", jobs, "-o", plan, "--time-limit", "10")
    assert code == 0 and "3 collectives at once on ring:4" in out
    for word in ("one after another", "together", "by priority", "pairs 1", "broadcast 3,0,1", "done"):
        assert word in out
    assert call("validate", plan)[0] == 0
    assert "pairs 0" in call("simulate", plan)[1]
    assert "pairs 0" in call("show", plan)[1]
    drawn = tmp_path / "s.svg"
    assert call("show", plan, "-o", drawn)[0] == 0 and "3 collectives" in drawn.read_text()
    assert call("export", plan, "--to", "chrome-trace", "-o", tmp_path / "t.json")[0] == 0
    code, _, err = call("export", plan, "--to", "msccl-xml", "-o", tmp_path / "x.xml")
    assert code == 2 and len(err.strip().splitlines()) == 1
    document = json.loads(plan.read_text())
    document["job_chunks"][0] += 1
    plan.write_text(json.dumps(document))
    assert call("validate", plan)[0] == 2


def test_the_document_says_when_each_is_done(jobs: Path) -> None:
    code, out, _ = call("schedule", "--jobs", jobs, "--json", "-q", "--time-limit", "10", "-f", "ring:5")
    found = json.loads(out)
    assert code == 0 and found["plan"]["problem"]["fabric"] == "ring:5"
    rows = found["simulation"]["jobs"]
    assert [row["name"] for row in rows] == ["pairs 0", "pairs 1", "broadcast 3,0,1"]
    assert max(row["finish"] for row in rows) == found["objective"]["value"] and found["bound"] > 0
    assert set(found["baselines"]) == {"together", "one after another", "by priority"}
    assert found["simulation"]["algbw"] is None


def test_a_placement_is_scheduled(tmp_path: Path) -> None:
    place, plan = tmp_path / "p.json", tmp_path / "s.json"
    common = ("place", "-s", "MP2-DP2-PP2", "-f", "mesh:2x4", "--planner", "mp-pp-dp")
    assert call(*common, "--workload", "transformer-17b", "-o", place)[0] == 0
    code, out, _ = call("schedule", "--placement", place, "-o", plan, "--time-limit", "10")
    assert code == 0 and "16 collectives at once on mesh:2x4" in out and "mp 3" in out
    assert call("validate", plan)[0] == 0
    assert call(*common, "--pp", "multicast", "-o", place)[0] == 0
    code, _, err = call("schedule", "--placement", place)
    assert code == 2 and "no volumes for mp, dp, pp" in err
    code, out, _ = call("schedule", "--placement", place, "--volumes", "mp=8MiB,dp=4MiB,pp=1MiB", "--time-limit", "10")
    assert code == 0 and "broadcast" in out
    code, _, err = call("schedule", "--placement", place, "--volumes", "ep=8MiB")
    assert code == 2 and "ep does not communicate" in err
    assert call("schedule", "--placement", plan)[0] == 2


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('fabric = "ring:4"', "", "no fabric"),
        ('fabric = "ring:4"', 'fabrik = "ring:4"', "fabrik"),
        ('size = "8MiB"', "", "job 0: no size"),
        ('size = "8MiB"', 'size = "8 apples"', "job 0: size"),
        ('size = "8MiB"', "size = 1.5", "job 0: size 1.5"),
        ('size = "8MiB"', "size = 0", "greater than zero"),
        ('"all-reduce"', '"all-redcue"', "all-reduce"),
        ('groups = "0-1;2-3"', 'groups = "0-1;2-9"', "seat"),
        ('groups = "0-1;2-3"', 'groups = "0-x"', "cannot read"),
        ('groups = "0-1;2-3"', 'group = "1"', "two different"),
        ("group = [3, 0, 1]", 'group = "3"\ngroups = "0-1"', "job 1: expected either"),
        ("group = [3, 0, 1]", "group = [3, true]", "job 1: group"),
        ('"broadcast"', '"point-to-point"', "holds these two"),
        ("priority = 2", "priority = -1", "priority"),
        ("priority = 2", "priority = true", "priority"),
        ('release = "10us"', 'release = "-10us"', "release"),
        ('release = "10us"', "color = 1", "color"),
        ('name = "pairs"', 'name = ""', "name"),
        ("[[job]]", "[[jobs]]", "jobs"),
        ("[[job]]", "[job", "not TOML"),
    ],
)
def test_a_wrong_file_is_one_line(jobs: Path, old: str, new: str, told: str) -> None:
    jobs.write_text(JOBS.replace(old, new))
    code, out, err = call("schedule", "--jobs", jobs)
    assert code == 2 and not out and len(err.strip().splitlines()) == 1
    assert told in err and "jobs.toml" in err


@pytest.mark.parametrize(
    "rest",
    [
        ("all-reduce",),
        ("--size", "1MiB"),
        ("--steps", "3"),
        ("--frontier",),
        ("--volumes", "mp=1MiB"),
        ("--group", "0-1"),
        ("--to", "msccl-xml", "-o", "x.xml"),
        ("--placement", "p.json"),
        ("--planner", "ring"),
        ("--fail", "npu1"),
    ],
)
def test_what_is_of_one_collective_is_refused(jobs: Path, rest: tuple[str, ...]) -> None:
    code, _, err = call("schedule", "--jobs", jobs, *rest)
    assert code == 2 and len(err.strip().splitlines()) == 1


def test_without_jobs_a_collective_and_a_fabric_are_needed() -> None:
    assert "COLLECTIVE" in call("schedule", "-f", "ring:4")[2]
    assert "--fabric" in call("schedule", "all-reduce")[2]
