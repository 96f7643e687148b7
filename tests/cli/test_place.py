"""The command line as a person uses it: answers, files, exit codes, bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(sys.executable).with_name("fabric-plan")


def call(*arguments: str | Path, cwd: Path | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd, **options
    )


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    done = call("place", "-s", "MP2-DP2-PP2", "-f", "mesh:3x3", "--deterministic", "-q", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def test_the_first_run_shows_congestion_removed() -> None:
    done = call("place", "--strategy", "MP3-DP3-PP2")
    assert done.returncode == 0
    assert "optimal, proved" in done.stdout
    assert "Largest link load 2 instead of 5" in done.stdout
    assert "2.5 times faster" in done.stdout
    assert done.stderr == ""  # no terminal, no progress


def test_json_has_the_documented_keys_and_stdout_is_data_only() -> None:
    done = call("place", "-s", "MP2-DP2-PP2", "-f", "mesh:3x3", "--json")
    document = json.loads(done.stdout)
    keys = "schema family status objective bound gap further seconds planner seed baselines simulation explanation plan"
    assert list(document) == keys.split()
    assert document["schema"] == "fabric-plan/result/1"
    assert document["objective"].keys() == {"name", "value", "unit"}
    assert {"seconds", "max_link_load", "links"} <= document["simulation"].keys()
    assert document["baselines"].keys() == {"mp-pp-dp", "row-major", "megatron", "greedy"}
    assert all("objective" in json.loads(line) for line in done.stderr.splitlines())


def test_same_seed_same_bytes(tmp_path: Path, plan_file: Path) -> None:
    again = tmp_path / "again.json"
    call("place", "-s", "MP2-DP2-PP2", "-f", "mesh:3x3", "--deterministic", "-q", "-o", again)
    assert again.read_bytes() == plan_file.read_bytes()


def test_plan_files_validate_and_simulate(plan_file: Path) -> None:
    assert call("validate", plan_file).returncode == 0
    document = json.loads(call("validate", plan_file, "--json").stdout)
    assert document["verdict"] == "valid"
    assert document.keys() == {"schema", "verdict", "hangs_above_bytes", "findings", "simulation"}
    simulated = call("simulate", plan_file)
    assert simulated.returncode == 0 and "all together" in simulated.stdout
    proved = call("validate", plan_file, "--prove", "--time-limit", "20")
    assert proved.returncode == 0, proved.stderr


def test_plans_travel_through_pipes_and_gzip(tmp_path: Path, plan_file: Path) -> None:
    piped = call("validate", "-", input=plan_file.read_text())
    assert piped.returncode == 0
    done = call("place", "-s", "MP2", "-f", "mesh:1x2", "-q", "-o", "p.json.gz", cwd=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "p.json.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert call("validate", "p.json.gz", cwd=tmp_path).returncode == 0
    out = call("place", "-s", "MP2", "-f", "mesh:1x2", "-q", "-o", "-")
    assert json.loads(out.stdout)["schema"] == "fabric-plan/plan/1"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d["seats"].__setitem__(0, d["seats"][1]), "both sit on seat"),
        (lambda d: d["seats"].__setitem__(0, 99), "does not have"),
        (lambda d: d["report"]["together"]["loads"].__setitem__(0, 7), "is said to carry 7"),
        (lambda d: d["report"]["together"].__setitem__("max_load", 1), "largest load 1 is stated"),
        (lambda d: d["certificate"]["keys"][0].__setitem__("value", 1), "is stated as 1"),
        (lambda d: d["certificate"]["keys"][0].__setitem__("bound", 9), "above its value"),
        (lambda d: d["certificate"]["keys"][0].__setitem__("bound", 0), "altered after the plan was written"),
        (lambda d: d["baselines"][0].__setitem__("value", 99), "altered after the plan was written"),
    ],
)
def test_tampered_plans_are_refused_with_the_reason(tmp_path: Path, plan_file: Path, change: Any, reason: str) -> None:
    document = json.loads(plan_file.read_text())
    change(document)
    path = tmp_path / "tampered.json"
    path.write_text(json.dumps(document))
    done = call("validate", path)
    assert done.returncode == 1
    assert reason in done.stdout
    verdict = json.loads(call("validate", path, "--json").stdout)
    assert verdict["verdict"] == "invalid"
    assert any(finding["severity"] == "error" for finding in verdict["findings"])


def test_a_lowered_bound_is_refuted_by_proving_again(tmp_path: Path) -> None:
    """A plan with a right digest and a false bound: only solving again can tell."""
    import msgspec

    import fabric_plan
    from fabric_plan.planner import files
    from fabric_plan.planner.plan import Certificate, Key, Status

    problem = fabric_plan.PlacementProblem.of("mesh:4x5", "MP4-DP5")
    plan = fabric_plan.plan(problem, planner="megatron")
    key = Key(name="congestion", value=plan.certificate.objective, bound=plan.certificate.objective, unit="flows")
    certificate = Certificate(status=Status.OPTIMAL, keys=(key,))
    files.write_plan(msgspec.structs.replace(plan, certificate=certificate), tmp_path / "p.json")
    assert call("validate", tmp_path / "p.json").returncode == 0
    done = call("validate", tmp_path / "p.json", "--prove", "--time-limit", "10")
    assert done.returncode == 1 and "is false: a placement with" in done.stdout


BAD = [
    (["--strategy", "MP0"], "at least 1"),
    (["--strategy", "MP3-MP2"], "given twice"),
    (["--strategy", "MP3-XP2"], "unknown dimension 'XP'"),
    (["--strategy", ""], "no dimension is given"),
    (["--strategy", "MP5-DP5"], "MP5-DP4 would fit"),
    (["--strategy", "MP2", "--fabric", "mehs:4x5"], "did you mean mesh?"),
    (["--strategy", "MP2", "--fabric", "mesh:4"], "expected mesh:RxC"),
    (["--strategy", "MP2", "--fabric", "mesh:0x4"], "at least 1"),
    (["--strategy", "MP2", "--fabric", "mesh:100000x100000"], "10,000,000,000 NPUs are more"),
    (["--strategy", "MP2", "--fabric", "none.json"], "No such file"),
    (["--strategy", "MP2", "--workload", "gpt4"], "did you mean gpt3?"),
    (["--strategy", "MP2-EP2", "--workload", "gpt3"], "--volumes ep=SIZE"),
    (["--strategy", "MP2-DP2", "--volumes", "mp=1MiB"], "none given for dp"),
    (["--strategy", "MP2-DP2", "--volumes", "mp=-1,dp=1"], "not a size"),
    (["--strategy", "MP2-DP2", "--volumes", "mp=nan,dp=1"], "not a size"),
    (["--strategy", "MP2-DP2", "--volumes", "mp=1GBdp=1"], "not a size"),
    (["--strategy", "MP2-DP2", "--objective", "time"], "needs sizes"),
    (["--strategy", "MP2", "--planner", "exat"], "did you mean exact?"),
    (["--strategy", "MP2", "--ring", "loose"], "not one of"),
    (["--strategy", "MP2", "--time-limit", "0"], "greater than zero"),
    (["--strategy", "MP2", "--time-limit", "nan"], "greater than zero"),
    (["--strategy", "MP2", "--workers", "0"], "at least one"),
    (["--strategy", "MP2", "--seed", "-1"], "between 0 and"),
    (["--strategy", "MP2", "-o", "no/such/folder/p.json"], "there is no directory"),
    (["--strategy", "MP2", "-o", "."], "it is a directory"),
    (["--stratgy", "MP2"], "did you mean --strategy?"),
    ([], "Missing option"),
]


@pytest.mark.parametrize(("arguments", "reason"), BAD)
def test_bad_input_is_one_line_and_exit_2(tmp_path: Path, arguments: list[str], reason: str) -> None:
    done = call("place", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("fabric-plan: ") and done.stderr.count("\n") == 1
    assert reason in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "expected an object"),
        ("{}", "$.schema"),
        ('{"schema": "fabric-plan/plan/1"}', "family None"),
        ('{"schema": "fabric-plan/plan/1", "family": "placement"}', "$.digest"),
        ('{"schema": "fabric-plan/plan/1", "family": "placement", "digest": "x"}', "missing required field `problem`"),
        (
            '{"schema": "fabric-plan/plan/1", "family": "placement", "digest": "x", "problem": {"fabric": "mesh:4x5", '
            '"strategy": 3, "demands": []}}',
            "$.problem.strategy",
        ),
        ("[" * 100_000, "not JSON"),
        ("\x00", "not JSON"),
    ],
)
def test_files_that_are_no_plans(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(content)
    for name in ("validate", "simulate"):
        done = call(name, path)
        assert done.returncode == 2, done.stdout
        assert done.stderr.count("\n") == 1 and reason in done.stderr


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"name": "x", "nodes": [], "links": []}', "no NPU"),
        ('{"name": "x", "nodes": [{"id": 0, "kind": "cpu"}], "links": []}', "unknown kind 'cpu'"),
        ('{"name": "x", "nodes": [{"id": 0, "kind": "gpu"}, {"id": 0, "kind": "gpu"}], "links": []}', "given twice"),
        ('{"name": "x", "nodes": [{"id": 0, "kind": "gpu"}], "links": [{"src": 0, "dst": 1, "bw_GBps": 1}]}', "node 1"),
        (
            '{"name": "x", "nodes": [{"id": 0, "kind": "gpu"}], "links": [{"src": 0, "dst": 0, "bw_GBps": 1}]}',
            "two different",
        ),
        ('{"name": "x", "nodes": [{"id": 0, "kind": "gpu"}], "speed": 1, "links": []}', "unknown field `speed`"),
        (
            '{"name": "x", "nodes": [{"id": 0, "kind": "gpu"}], "routing": "magic", "links": []}',
            "unknown routing 'magic'",
        ),
    ],
)
def test_graph_files_that_make_no_sense(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "f.json"
    path.write_text(content)
    done = call("place", "-s", "MP1", "-f", path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and reason in done.stderr and str(path) in done.stderr


def test_nodes_without_a_path_are_infeasible_with_the_conflict(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    nodes = [{"id": k, "kind": "gpu"} for k in range(2)]
    path.write_text(json.dumps({"name": "apart", "nodes": nodes, "links": []}))
    done = call("place", "-s", "MP2", "-f", path)
    assert done.returncode == 1
    assert "infeasible" in done.stderr and "mp: all-reduce" in done.stderr


def test_islands_are_used_one_at_a_time(tmp_path: Path) -> None:
    """Two boxes without a link between them: groups must not be spread over both."""
    path = tmp_path / "f.json"
    nodes = [{"id": k, "kind": "gpu"} for k in range(4)]
    links = [{"src": a, "dst": b, "bw_GBps": 1} for a, b in ((0, 2), (2, 0), (1, 3), (3, 1))]
    path.write_text(json.dumps({"name": "islands", "nodes": nodes, "links": links}))
    done = call("place", "-s", "MP2", "-f", path, "--json")
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(done.stdout)["plan"]["seats"]) in ([0, 2], [1, 3])


def test_ctrl_c_prints_the_best_plan_and_exits_0(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "place", "-s", "MP3-DP4-PP3", "-f", "mesh:6x6", "--json", "-o", tmp_path / "p.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:  # the search has begun once progress is reported
        if json.loads(line)["progress"] == "counting":
            break
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(out)["status"] == "feasible"
    assert call("validate", tmp_path / "p.json").returncode == 0


def test_unknown_commands_are_suggested() -> None:
    done = call("plce")
    assert done.returncode == 2 and "did you mean place?" in done.stderr


def test_fabrics_are_listed_shown_and_written(tmp_path: Path) -> None:
    listed = call("fabric", "list")
    assert listed.returncode == 0 and "mesh:RxC" in listed.stdout
    shown = json.loads(call("fabric", "show", "torus:4x4x4", "--json").stdout)
    assert shown["diameter"] == 6 and shown["seat_classes"] == 1
    assert call("fabric", "show", "mesh:2x3", "-o", tmp_path / "m.json").returncode == 0
    placed = call("place", "-s", "MP3-DP2", "-f", tmp_path / "m.json", "--json")
    named = call("place", "-s", "MP3-DP2", "-f", "mesh:2x3", "--json")
    assert json.loads(placed.stdout)["bound"] == json.loads(named.stdout)["bound"]
