"""The commands route, color and prove, as one would type them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(sys.executable).with_name("fabric-plan")
CONFLICT = "1,2;0,4;3,5;6,7"


def call(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *map(str, arguments)], capture_output=True, text=True, check=False, input=stdin, timeout=120
    )


def test_a_routing_is_printed_written_and_valid(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    done = call("route", "--switch", "fred3:12", "--groups", "0-2;3,4;5-7", "-v", "-o", path)
    assert done.returncode == 0, done.stderr
    assert "optimal, proved" in done.stdout
    assert "reduce" in done.stdout
    assert "outermost" in done.stdout
    assert call("validate", path).returncode == 0
    stored = json.loads(path.read_text())
    stored["words"][0] = stored["words"][1] = [0, 0, 0]
    path.write_text(json.dumps(stored))
    again = call("validate", path)
    assert again.returncode == 1
    assert "digest" in again.stdout
    assert "both take middle network" in again.stdout


def test_json_has_the_keys_of_every_family() -> None:
    found: dict[str, Any] = json.loads(call("route", "--switch", "fred3:8", "--groups", CONFLICT, "--json").stdout)
    keys = "schema family status objective bound gap further seconds planner seed baselines simulation explanation plan"
    assert list(found) == keys.split()
    assert found["simulation"]["micro_switches"] == 29
    assert found["baselines"].keys() == {"first-fit", "dsatur", "level-by-level"}


def test_infeasible_names_the_conflict_and_the_ways_out() -> None:
    done = call("route", "--switch", "fred2:8", "--groups", CONFLICT)
    assert done.returncode == 1
    assert "in conflict: flow 0 {1,2}, flow 1 {0,4}, flow 2 {3,5}" in done.stderr
    assert "--allow" in done.stderr
    for allow, text in (("block", "blocked"), ("phases", "round 1"), ("move", "moves"), ("middle", "fred3:8")):
        out = call("route", "--switch", "fred2:8", "--groups", CONFLICT, "--allow", allow)
        assert out.returncode == 0, out.stderr
        assert text in out.stdout


def test_flow_files_and_strategies() -> None:
    text = '{"switch": "fred2:8", "flows": [{"group": [0, 1]}, {"inputs": [2], "outputs": [3, 4]}]}'
    assert call("route", "-", stdin=text).returncode == 0
    done = call("route", "--switch", "fred3:18", "-s", "MP3-DP3-PP2", "--phase", "dp")
    assert done.returncode == 0
    assert "6 flows through fred3:18" in done.stdout
    assert call("route", "--switch", "fred2:6", "-s", "DP2-PP3", "--phase", "dp").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--switch", "fred2:8", "--groups", "0,1;1,2"], "port 1 is already among the inputs"),
        (["--switch", "fred2:8", "--groups", "0,8"], "port 8 does not exist"),
        (["--switch", "fred1:8", "--groups", "0,1"], "at least 2 middle networks"),
        (["--switch", "fred2:1", "--groups", "0,1"], "2 ports"),
        (["--switch", "fred2:8"], "give a file, --groups or --strategy"),
        (["--groups", "0,1"], "no switch"),
        (["--switch", "fred2:8", "--groups", ""], "give a file, --groups or --strategy"),
        (["--switch", "fred2:8", "--groups", "0,1", "--phase", "mp"], "is of a strategy"),
        (["--switch", "fred2:8", "missing.json"], "cannot be read"),
        (["--switch", "fred2:4", "-s", "MP8", "--phase", "mp"], "does not exist"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str) -> None:
    done = call("route", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_color(tmp_path: Path) -> None:
    path = tmp_path / "g.col"
    path.write_text("p edge 5 5\n" + "".join(f"e {k + 1} {(k + 1) % 5 + 1}\n" for k in range(5)))
    done = call("color", path)
    assert done.returncode == 0
    assert "3, proved" in done.stdout
    found = json.loads(call("color", path, "--json").stdout)
    assert (found["colours"], found["bound"], found["status"]) == (3, 3, "optimal")
    bad = call("color", "-", stdin="p edge 2 1\ne 1 3\n")
    assert bad.returncode == 2
    assert "line 2" in bad.stderr


def test_prove_placement(tmp_path: Path) -> None:
    path = tmp_path / "proof.json"
    done = call("prove", "placement", "--switch", "fred3:8", "--order", "all", "-o", path)
    assert done.returncode == 0, done.stderr
    proof = json.loads(path.read_text())
    assert proof["conflicts"] == proof["unknown"] == 0
    assert proof["cases"] == len(proof["results"]) == proof["routes"]
    done = call("prove", "placement", "--switch", "fred2:6")
    assert done.returncode == 1
    assert "MP1-DP2-PP3 mp-pp-dp DP: {0,3} {1,4} {2,5} conflict" in done.stdout
    assert call("prove", "placement", "--switch", "fred3:8", "--order", "dp-mp").returncode == 2


def test_the_two_level_fabric() -> None:
    done = call("route", "--fabric", "fred-20", "-s", "MP3-DP3-PP2", "--phase", "dp")
    assert done.returncode == 0, done.stderr
    assert "all flows route at once (each flow over one L2 chiplet a slice)" in done.stdout
    assert "l2.1" in done.stdout
    bad = call("route", "--fabric", "fred-20", "-s", "MP5-DP4", "--phase", "dp")
    assert bad.returncode == 1
    assert "proved" in bad.stderr
    assert call("route", "--fabric", "fred-20", "-s", "MP5-DP4", "--phase", "dp", "--order", "dp-mp-pp").returncode == 0
    assert call("prove", "placement").returncode == 2


def test_two_level_routings_are_plans(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    done = call("route", "--fabric", "fred-20", "-s", "MP5-DP4", "--phase", "dp", "--allow", "phases", "-v", "-o", path)
    assert done.returncode == 0, done.stderr
    assert "2 rounds, bound 2" in done.stdout
    assert "l1.0, fred3(12), round 1:" in done.stdout
    assert call("validate", path).returncode == 0
    stored = json.loads(path.read_text())
    stored["chiplets"][0][5], stored["chiplets"][0][6] = (
        {**stored["chiplets"][0][5], "flows": stored["chiplets"][0][6]["flows"]},
        {**stored["chiplets"][0][6], "flows": stored["chiplets"][0][5]["flows"]},
    )
    path.write_text(json.dumps(stored))
    assert call("validate", path).returncode == 1
    assert call("route", "--fabric", "fred-20", "--groups", "0,1", "--allow", "move").returncode == 2
    assert call("route", "--fabric", "fred-20", "--groups", "0,38").returncode == 2


def test_the_phases_of_a_job_and_their_memory() -> None:
    done = call("route", "--switch", "fred3:18", "-s", "MP3-DP3-PP2")
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines() if "flows through" in line] == ["mp", "pp", "dp"]
    assert "Memory for 3 configuration(s)" in done.stdout
    found = json.loads(call("route", "--switch", "fred3:18", "-s", "MP3-DP3-PP2", "--json").stdout)
    assert found["memory"]["bytes"] == -(-found["memory"]["bits"] * 3 // 8)
    assert call("route", "--switch", "fred3:18", "-s", "MP3-DP3-PP2", "-o", "r.json").returncode == 2


def test_compound_collectives_run_in_steps() -> None:
    done = call("route", "--switch", "fred2:8", "--groups", "0-2;3,4", "--collective", "reduce-scatter")
    assert done.returncode == 0, done.stderr
    assert "step 2: 1 flows" in done.stdout
    assert "{0,1,2} -> {1}" in done.stdout
    found = json.loads(
        call("route", "--switch", "fred2:8", "--groups", "0-3", "--collective", "all-to-all", "--json").stdout
    )
    assert len(found["routings"]) == 3
    assert all(step["status"] == "optimal" for step in found["routings"])
    bad = call("route", "--switch", "fred2:8", "--groups", "0>1", "--collective", "gather")
    assert bad.returncode == 2
    assert "needs groups" in bad.stderr


def test_a_routing_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    assert call("route", "--switch", "fred3:12", "--groups", "0-2;3,4;5-7", "-o", path).returncode == 0
    for name, start in (("r.svg", b"<?xml"), ("r.html", b"<!doctype html>"), ("r.png", b"\x89PNG")):
        assert call("show", path, "-o", tmp_path / name).returncode == 0
        assert (tmp_path / name).read_bytes().startswith(start)
    assert "reduce" in call("show", path).stdout
    bad = call("export", path, "--to", "rankfile")
    assert bad.returncode == 2
    assert bad.stderr.count("\n") == 1


def test_placements_anywhere() -> None:
    done = call("prove", "placement", "--switch", "fred2:6", "--arbitrary", "MP2-DP3")
    assert done.returncode == 1
    assert "MP: 8 of 15 ways" in done.stdout
    found = json.loads(call("prove", "placement", "--switch", "fred2:6", "--arbitrary", "MP2-DP3", "--json").stdout)
    assert found["phases"][0]["conflicts"] == 8
    assert call("prove", "placement", "--switch", "fred2:6", "--arbitrary", "MP8").returncode == 2
    assert call("prove", "placement", "--switch", "fred2:6", "--arbitrary", "PP6").returncode == 0
