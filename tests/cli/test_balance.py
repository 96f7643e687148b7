"""The command balance, as one would type it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

COMMAND = Path(sys.executable).with_name("fabric-plan")


def call(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), "balance", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=180
    )


def test_a_plan_is_printed_written_and_valid(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    done = call("--fail", "x/rdsw3:fdsw1", "-o", path)
    assert done.returncode == 0, done.stderr
    assert "optimal, proved" in done.stdout
    assert "zone y to x/rdsw3: 2,2,2,2 -> 1,1,1,1" in done.stdout
    assert "sdsw0 stops advertising x/rdsw3 to y/" in done.stdout
    assert "0,0,2,2 with 1/12, 0,1,1,2 with 2/3, 1,1,1,1 with 1/4" in done.stdout
    checked = subprocess.run([str(COMMAND), "validate", str(path)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0 and "valid" in checked.stdout, checked.stderr
    stored = json.loads(path.read_text())
    chosen = next(one for one in stored["copies"][0] if one["lower"])
    chosen["lower"] = []
    path.write_text(json.dumps(stored))
    checked = subprocess.run([str(COMMAND), "validate", str(path)], capture_output=True, text=True, check=False)
    assert checked.returncode == 1 and "digest" in checked.stdout
    shown = subprocess.run([str(COMMAND), "simulate", str(path)], capture_output=True, text=True, check=False)
    assert shown.returncode == 2 and shown.stderr.count("\n") == 1


def test_json_has_the_keys_of_every_family() -> None:
    found: dict[str, Any] = json.loads(
        call("--fail", "x/fdsw1:sdsw1", "--fail", "y/rdsw0:fdsw0", "--objective", "load", "--json").stdout
    )
    keys = "schema family status objective bound gap further seconds planner seed baselines simulation explanation plan"
    assert list(found) == keys.split()
    assert (found["objective"]["value"], found["bound"], found["status"]) == (53, 53, "optimal")
    assert {row["name"]: row["value"] for row in found["further"]}["load"] == 19 / 16
    assert set(found["baselines"]) == {"random", "class-wide", "aligned", "none"}
    assert found["simulation"]["capacities"] == {"1": 11, "2": 21}


@pytest.mark.parametrize("policy", ["class-wide", "random", "aligned", "none"])
def test_policies(policy: str) -> None:
    done = call("--fail", "x/rdsw3:fdsw1", "--policy", policy, "--seed", "3")
    assert done.returncode == 0, done.stderr
    assert f"policy {policy}" in done.stdout


def test_rates_devices_and_couplings() -> None:
    one = json.loads(call("--fail-rate", "10%", "--seed", "4", "--json").stdout)
    again = json.loads(call("--fail-rate", "10%", "--seed", "4", "--json").stdout)
    other = json.loads(call("--fail-rate", "10%", "--seed", "5", "--json").stdout)
    assert one["plan"]["problem"]["failed"] == again["plan"]["problem"]["failed"] != other["plan"]["problem"]["failed"]
    assert len(one["plan"]["problem"]["failed"]) == 3
    device = json.loads(call("--fail", "x/fdsw1", "--json").stdout)
    assert len(device["plan"]["problem"]["failed"]) == 8
    coupled = call("--fail", "x/rdsw3:fdsw1", "--profiles", "1")
    assert "44 links, bound 44" in coupled.stdout
    cut = call("--fail", "x/rdsw3")
    assert cut.returncode == 0 and "pairs that no selection can join" in cut.stdout


def test_rank_and_drain() -> None:
    done = call("rank", "--next", "1", "--fail", "x/rdsw3:fdsw1", "--top", "3")
    assert done.returncode == 0, done.stderr
    assert "30 changes tried" in done.stdout and "x/rdsw3:fdsw1     +8" in done.stdout
    found = json.loads(call("rank", "--fail", "x/rdsw3:fdsw1", "--kinds", "drain", "--json").stdout)
    assert found["complete"] and {row["kind"] for row in found["changes"]} == {"drain"}
    names = ["--drain", "x/fdsw0:sdsw0", "--drain", "x/fdsw0:sdsw0#1", "--drain", "y/fdsw0:sdsw1"]
    done = call(*names, "--floor", "50%")
    assert done.returncode == 0 and "proved fewest" in done.stdout, done.stderr
    assert call("--drain", "x/fdsw0", "--floor", "100%").returncode == 1


def test_compare_draws_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "c.svg"
    done = call("compare", "--fail", "x/fdsw1:sdsw1", "--size", "200kB", "--seeds", "2", "-o", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("scheduled") == 2 and "x/fdsw1:sdsw1 dies at 10us" in done.stdout
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    found = json.loads(call("compare", "--size", "200kB", "--seeds", "2", "--json").stdout)
    rows = {row["scheme"]: row for row in found["situations"][0]["schemes"]}
    assert rows["scheduled"]["reordered"] == rows["ecmp"]["reordered"] == 0
    assert rows["adaptive"]["reordered"] > 0
    assert rows["ecmp"]["skew"] > rows["scheduled"]["skew"]
    for kind in ("elephants", "permutation", "uniform", "incast", "hot-spot", "ring", "all-to-all"):
        assert call("compare", "--traffic", kind, "--size", "20kB", "--seeds", "1").returncode == 0, kind


def test_one_zone_alone() -> None:
    done = call("-f", "dsf:l1", "--planes", "1", "--devices", "1", "--fail", "a/rdsw3:fdsw1")
    assert done.returncode == 0, done.stderr
    assert "in zones" in done.stdout and "worst pair 39" in done.stdout


@pytest.mark.slow
def test_a_region() -> None:
    done = call("-f", "dsf:region", "--fail", "b2/edge/edsw5:ss1#2", "--fail", "b2/a/rdsw3:fdsw1")
    assert done.returncode == 0, done.stderr
    assert "4.5 : 1" in done.stdout and "zone b0 to b2/hosts: 2048 -> 2047" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fail", "x/rdsw9:fdsw1"], "no device 'rdsw9'"),
        (["--fail", "q/rdsw0:fdsw1"], "no zone 'q'"),
        (["--fail", "x/rdsw0:sdsw1"], "no link joins"),
        (["--fail", "x/fdsw0:sdsw1#2"], "numbered from 0"),
        (["--fail", "x/fdsw0:sdsw1@1"], "copies"),
        (["--fail", "rdsw0"], "expected zone/device"),
        (["--fail", "x/rdsw7"], "none in zone x"),
        (["--fail-rate", "101%"], "0 to 100 %"),
        (["--fail-rate", "a lot"], "as in 1%"),
        (["--fail-rate", "100%"], "nothing is left"),
        (["-f", "dsf:xl"], "unknown fabric"),
        (["-f", "missing.json"], "cannot be read"),
        (["-f", "dsf:region", "--fail", "a/rdsw0:fdsw0"], "expected a building first"),
        (["--policy", "random", "--profiles", "1"], "knows no couplings"),
        (["--drain", "x/rdsw0"], "takes its own traffic along"),
        (["rank", "--kinds", "luck"], "expected failure, drain, repair"),
        (["compare", "-f", "dsf:l2"], "million events"),
        (["compare", "-o", "x.doc"], "ends in .svg"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert message in done.stderr


def test_an_export_is_planned_and_told() -> None:
    path = Path(__file__).parents[2] / "instances" / "dsf" / "two_zones_export.json"
    done = call("-f", str(path), "--explain")
    assert done.returncode == 0, done.stderr
    assert "53 links, bound 53" in done.stdout and "x/fdsw1.x: input 4 over output 1" in done.stdout
