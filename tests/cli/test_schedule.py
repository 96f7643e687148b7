"""The commands schedule, simulate, validate, compare and calibrate, as one would type them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fabric_plan.cli import main

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """A ring all-reduce of 8 MiB over 8 ranks."""
    path = tmp_path / "s.json"
    assert call("schedule", "all-reduce", "--planner", "ring", "-f", "ring:8", "--size", "8MiB", "-o", path)[0] == 0
    return path


def call(*arguments: object, stdin: str | bytes | None = None) -> tuple[int, str, str]:
    """Run a command as the installed script does; return (exit code, stdout, stderr)."""
    import sys

    def script() -> None:
        before = sys.argv
        sys.argv = ["fabric-plan", *map(str, arguments)]
        try:
            main.run()
        finally:
            sys.argv = before

    import click

    @click.command(context_settings={"ignore_unknown_options": True})
    def wrapper() -> None:
        script()

    found = CliRunner().invoke(wrapper, [], input=stdin)
    return found.exit_code, found.stdout, found.stderr


def document(*arguments: object) -> dict[str, Any]:
    code, out, error = call(*arguments, "--json")
    assert code == 0, error
    loaded: dict[str, Any] = json.loads(out)
    return loaded


def test_a_schedule_is_printed_and_written(tmp_path: Path) -> None:
    path = tmp_path / "s.json.gz"
    code, out, _ = call("schedule", "all-reduce", "--planner", "ring", "-f", "ring:8", "--size", "64MiB", "-o", path)
    assert code == 0
    assert "112 transfers of 8 chunks" in out
    assert "every order" in out
    assert "latency" in out
    stored = json.loads(gzip.decompress(path.read_bytes()))
    assert stored["family"] == "schedule"
    assert len(stored["transfers"]["source"]) == 112


def test_json_has_the_keys_of_every_family() -> None:
    placed = document("place", "-s", "MP2-DP2", "-f", "mesh:2x2")
    found = document("schedule", "all-gather", "-f", "full:4", "--size", "1MB")
    assert set(found) == set(placed)
    assert found["family"] == "schedule"
    assert found["objective"]["unit"] == "s"
    assert found["bound"] <= found["objective"]["value"]
    simulation = found["simulation"]
    assert simulation["busbw"] == pytest.approx(simulation["algbw"] * 3 / 4)
    assert sum(simulation["critical_path"].values()) == pytest.approx(simulation["seconds"])
    assert set(found["baselines"]) >= {"ring", "direct", "halving-doubling"}
    assert found["objective"]["value"] == min(found["baselines"].values())


def test_simulating_again_says_the_same(ring: Path) -> None:
    found = document("simulate", ring)
    assert found["simulation"]["seconds"] == found["objective"]["value"]
    assert found["findings"] == []
    assert found["simulation"]["discipline"] == "fifo, store-and-forward"
    fair = document("simulate", ring, "--discipline", "fair", "--switching", "cut-through")["simulation"]
    assert fair["discipline"] == "fair, cut-through"
    assert fair["seconds"] == pytest.approx(found["simulation"]["seconds"])


def test_stragglers_slow_links_and_flaps_cost_time(ring: Path) -> None:
    plain = document("simulate", ring)["simulation"]
    late = document("simulate", ring, "--late", "npu3=1ms")["simulation"]
    assert late["critical_path"]["release"] == pytest.approx(1e-3)
    assert late["seconds"] > plain["seconds"]
    slow = document("simulate", ring, "--slow", "(0)->(1)=0.5")["simulation"]
    assert slow["max_link_load"] == pytest.approx(2 * plain["max_link_load"])
    flap = document("simulate", ring, "--fail", "npu0->npu1@10us-1ms")["simulation"]
    assert flap["seconds"] > 1e-3
    small = document("simulate", ring, "--buffer", "4MiB")["simulation"]
    assert small["seconds"] == plain["seconds"]


def test_a_link_that_stays_down_hangs_the_schedule(ring: Path) -> None:
    code, out, error = call("simulate", ring, "--fail", "npu0->npu1@50us")
    assert code == 1
    assert "never finishes" in out
    assert "transfers never finish, first" in error
    assert call("simulate", ring, "--fail", "npu1->npu0@50us")[0] == 0  # nothing uses that direction


def test_a_trace_opens_where_traces_do(ring: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    assert call("simulate", ring, "--trace", path)[0] == 0
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    slices = [one for one in events if one["ph"] == "X"]
    assert len(slices) == 112
    seconds = document("simulate", ring)["simulation"]["seconds"]
    assert max(one["args"]["arrives"] for one in slices) == pytest.approx(seconds * 1e6)
    names = {one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert names == {f"npu{k}" for k in range(8)}
    starts = {one["id"]: one for one in events if one["ph"] == "s"}
    ends = {one["id"]: one for one in events if one["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == 104
    for flow, begin in starts.items():
        assert begin["ts"] < ends[flow]["ts"]
        for arrow in (begin, ends[flow]):
            assert any(
                one["pid"] == arrow["pid"]
                and one["tid"] == arrow["tid"]
                and one["ts"] <= arrow["ts"] <= one["ts"] + one["dur"]
                for one in slices
            )


def test_placements_take_the_same_options(tmp_path: Path) -> None:
    plan, trace = tmp_path / "p.json", tmp_path / "t.json"
    assert call("place", "-s", "MP2-DP2-PP2", "-f", "mesh:2x4", "--planner", "row-major", "-o", plan)[0] == 0
    plain = document("simulate", plan)["simulation"]
    fair = document("simulate", plan, "--discipline", "fair")["simulation"]
    assert fair["seconds"] > 0
    assert document("simulate", plan, "--slow", "0=0.5")["simulation"]["seconds"] >= plain["seconds"]
    assert call("simulate", plan, "--trace", trace)[0] == 0
    assert json.loads(trace.read_text())["traceEvents"]
    used = plain["links"][0]["link"]
    assert call("simulate", plan, "--fail", used)[0] == 1
    assert call("simulate", plan, "--late", "0=1ms")[0] == 2


def test_validate_tells_what_was_altered(ring: Path, tmp_path: Path) -> None:
    assert call("validate", ring)[0] == 0
    stored = json.loads(ring.read_text())
    changes: list[tuple[str, Any]] = [
        ("time", lambda plan: plan["certificate"]["keys"][0].update(value=1)),
        ("bound", lambda plan: plan["certificate"]["keys"][0].update(bound=1)),
        ("race", lambda plan: plan["transfers"]["first"].__setitem__(5, 0)),
        ("do not exist", lambda plan: plan["transfers"]["first"].__setitem__(5, 99)),
        ("does not exist", lambda plan: plan["transfers"]["target"].__setitem__(5, 99)),
        ("smaller numbers", lambda plan: plan["transfers"]["need"].__setitem__(0, 111)),
        ("report", lambda plan: plan["report"].update(transfers=3)),
        ("status", lambda plan: plan["certificate"].update(status="optimal")),
    ]
    for what, change in changes:
        plan = json.loads(json.dumps(stored))
        change(plan)
        path = tmp_path / "bad.json"
        path.write_text(json.dumps(plan))
        code, out, error = call("validate", path)
        assert code == 1, (what, error)
        assert "digest" in out
        assert what in out or (what == "time" and "are stated" in out), out


def test_a_race_is_named(tmp_path: Path, ring: Path) -> None:
    plan = json.loads(ring.read_text())
    # Without its needs, each rank sends what it began with.
    plan["transfers"].update(need=[], need_start=[0] * 113)
    path = tmp_path / "race.json"
    path.write_text(json.dumps(plan))
    code, out, _ = call("validate", path)
    assert code == 1
    assert "race: transfers" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["schedule", "all-reduce", "-f", "ring:8", "--size", "-5"], "'-5' is not a size"),
        (["schedule", "all-reduce", "-f", "ring:8", "--size", "nan"], "'nan' is not a size"),
        (["schedule", "all-reduce", "-f", "ring:8", "--size", "0"], "greater than zero"),
        (["schedule", "all-reduce", "-f", "rng:8"], "did you mean"),
        (["schedule", "all-reduce", "-f", "ring:8", "--planner", "rings"], "did you mean"),
        (["schedule", "all-reduce", "-f", "ring:8", "--group", "0-8"], "seat 8 does not exist"),
        (["schedule", "all-reduce", "-f", "ring:8", "--group", "0,0"], "different seats"),
        (["schedule", "all-reduce", "-f", "ring:8", "--group", "x"], "expected seats"),
        (["schedule", "all-reduce", "-f", "ring:8", "--chunks", "0"], "at least one chunk"),
        (["schedule", "all-reduce", "-f", "ring:32768", "--planner", "ring"], "would need some 320 GiB of memory"),
        (["schedule", "all-to-all", "-f", "hub:32000", "--planner", "direct"], "GiB of memory"),
        (["schedule", "all-reduce", "-f", "full:6", "--planner", "in-network"], "nothing says that the switches"),
        (["compare", "all-reduce", "-f", "ring:8", "--sizes", "1MiB:1KiB"], "must not be larger"),
        (["compare", "all-reduce", "-f", "ring:8", "--sizes", "1KiB:1GiB:1"], "factor greater than 1"),
        (["compare", "all-reduce", "-f", "ring:8", "-o", "x.doc"], "expected a file name that ends in"),
        (["calibrate", "missing.log", "-f", "nvl72"], "cannot be read"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str) -> None:
    code, _, error = call(*arguments)
    assert code == 2
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--late", "npu3", "expected a node and a time"),
        ("--late", "npu9=1ms", "does not exist"),
        ("--late", "npu3=-1ms", "is not a time"),
        ("--slow", "npu0->npu1", "expected a link and what is left"),
        ("--slow", "npu0->npu1=0", "greater than 0"),
        ("--slow", "npu0->npu4=0.5", "does not exist"),
        ("--fail", "99", "links 0 to 15"),
        ("--fail", "0@", "expected a link and a time"),
        ("--fail", "0@2ms-1ms", "end no earlier"),
        ("--buffer", "1KiB", "never fit into the buffer"),
        ("--buffer", "0", "greater than zero"),
    ],
)
def test_bad_disturbances_are_one_line(ring: Path, option: str, value: str, message: str) -> None:
    code, _, error = call("simulate", ring, option, value)
    assert code == 2
    assert message in error
    assert error.count("\n") == 1


def test_transfers_over_missing_links_and_cycles(ring: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    plan = json.loads(ring.read_text())
    plan["transfers"]["via"] = [99] * 112
    path.write_text(json.dumps(plan))
    code, _, error = call("simulate", path)
    assert code == 2
    assert "transfer 0: link 99 is missing from ring:8" in error
    plan = json.loads(ring.read_text())
    plan["transfers"]["need"][0] = 17  # which waits for transfer 8, whose need this is
    path.write_text(json.dumps(plan))
    code, _, error = call("simulate", path)
    assert code == 2
    assert "cycle: transfers" in error
    plan = json.loads(ring.read_text())
    plan["transfers"]["count"] = [1] * 5
    path.write_text(json.dumps(plan))
    code, _, error = call("simulate", path)
    assert code == 2
    assert "column count: it has 5 entries, source has 112" in error


def test_compare_prints_and_writes(tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    code, out, _ = call("compare", "all-reduce", "-f", "torus:4x4", "--sizes", "1KiB:64MiB:64", "-o", page)
    assert code == 0
    assert "dimension-wise" in out
    assert "12 alpha" in out
    assert "<svg" in page.read_text()
    found = document("compare", "all-reduce", "-f", "torus:4x4", "--sizes", "1KiB,1MiB")
    assert found["sizes"] == [1024, 2**20]
    assert found["winners"][-1] == "trees"


def test_calibrate_prints_writes_and_predicts(tmp_path: Path) -> None:
    log, mine = tmp_path / "log.csv", tmp_path / "mine.json"
    rows = [(2**k, 20 + 2**k * 1.75 / 40e3) for k in range(20, 28)]
    log.write_text("size,time_us\n" + "".join(f"{n},{t:.3f}\n" for n, t in rows))
    code, out, _ = call("calibrate", log, "-f", "ring:8", "-o", mine)
    assert code == 0
    assert "Largest error 0.0" in out
    found = document("calibrate", log, "-f", "ring:8")
    assert found["worst"] < 1e-3
    assert found["ranges"][0]["bandwidth"] == pytest.approx(40e9, rel=1e-3)
    predicted = document("schedule", "all-reduce", "-f", mine, "--planner", "ring", "--size", 2**24)
    assert predicted["simulation"]["seconds"] == pytest.approx(rows[4][1] * 1e-6, rel=1e-3)
    assert predicted["simulation"]["critical_path"]["fixed"] > 0
    assert call("calibrate", "-", "-f", "ring:8", stdin=log.read_text())[0] == 0


def test_a_slow_link_is_slower_than_its_protocol(tmp_path: Path) -> None:
    graph = document_of("ring:4")
    name = "50GB/s 500ns"
    slow = {"name": "slow", "classes": {name: {"bw_GBps": 40.0}}}
    graph["costs"] = {"protocols": [slow]}
    fabric, plan = tmp_path / "f.json", tmp_path / "s.json"
    fabric.write_text(json.dumps(graph))
    call("schedule", "all-reduce", "--planner", "ring", "-f", fabric, "--size", "8MB", "-o", plan)
    plain = document("simulate", plan)["simulation"]["max_link_load"]
    assert plain == pytest.approx(6 * 2e6 / 40e9)
    assert document("simulate", plan, "--slow", "npu0->npu1=0.5")["simulation"]["max_link_load"] == pytest.approx(
        2 * plain
    )


def document_of(name: str) -> dict[str, Any]:
    code, out, _ = call("fabric", "show", name, "-o", "-")
    assert code == 0
    loaded: dict[str, Any] = json.loads(out)
    return loaded
