"""Exports of operators' tools, their tables, and the story of a propagation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fabric_plan.planner.balance import BalanceProblem, Profile, Triples
from fabric_plan.planner.dsf_catalog import mini
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.dsf_export import read_export, tables_of
from fabric_plan.planner.simulator.balance_rows import device_name, rows
from fabric_plan.planner.simulator.balance_story import explain

ROOT = Path(__file__).parents[2]
KNOWN = json.loads((ROOT / "tests" / "data" / "balance_mini.json").read_text())
SCENARIOS = {
    "S1": ("x/rdsw3:fdsw1",),
    "S2": ("x/fdsw1:sdsw1",),
    "S3": ("x/fdsw1:sdsw1", "y/rdsw0:fdsw0"),
}
ALL = ((0, 0), (0, 1), (0, 2), (0, 3))
"""All interface nodes of X, as destinations of Y."""

# What the published text withdraws: (zone that sends, destinations, spines' links, fabric nodes' links).
FROM_FDSW1 = [(2, 1, 1)]
CHOICES: dict[
    str, list[tuple[int, tuple[tuple[int, int], ...], list[tuple[int, int, int]], list[tuple[int, int, int]]]]
] = {
    "S1": [
        (0, tuple((1, k) for k in range(4)), [], []),
        (1, ALL[:3], [], []),
        (1, ALL[3:], [(0, 0, 1), (1, 0, 1), (0, 1, 1), (1, 1, 1)], [(2, 0, 1), (3, 0, 1), (0, 1, 1), (1, 1, 1)]),
    ],
    "S2": [
        (0, tuple((1, k) for k in range(4)), [], FROM_FDSW1),
        (1, ALL, [(0, 1, 2)], [(1, 0, 1)]),
    ],
    "S3": [
        (0, ((1, 1), (1, 2), (1, 3)), [], FROM_FDSW1),
        (0, ((1, 0),), [(0, 0, 1), (1, 0, 1), (1, 1, 2)], [(0, 1, 1), (1, 1, 1), (2, 1, 1), (0, 0, 1)]),
        (1, ALL, [(0, 1, 2)], []),
    ],
}


def published(name: str) -> tuple[BalanceProblem, tuple[Profile, ...]]:
    problem = BalanceProblem(fabric=mini(), failed=SCENARIOS[name])
    chosen = [
        Profile(zone=zone, destinations=targets, upper=Triples(upper), lower=Triples(lower))
        for zone, targets, upper, lower in CHOICES[name]
    ]
    return problem, tuple(chosen)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_published_row(name: str) -> None:
    problem, profiles = published(name)
    found = {}
    for row in rows(problem, profiles, 0):
        device = device_name(problem, row).upper().replace("/", ".")
        target = f"{'XY'[row.home]}.RDSW{row.destination}"
        found[device, target, "XY"[row.zone]] = row
    assert len(found) == len(KNOWN[name]["rows"])
    for want in KNOWN[name]["rows"]:
        row = found[want["dev"], want["dst"], want["src_zone"]]
        mine = (
            row.before,
            row.input,
            row.output,
            row.input_failed,
            row.output_failed,
            row.feasible,
            row.operator_balanced,
        )
        keys = ("input_before", "input", "output", "inFail", "outFail", "le_ok", "fboss_balanced")
        assert mine == tuple(want[key] for key in keys), want


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_texts_capacities_when_its_own_choices_are_given(name: str) -> None:
    from fabric_plan.planner.simulator.balance import propagated

    problem, profiles = published(name)
    for pair in propagated(problem, profiles, 0):
        assert pair.capacity.tolist() == KNOWN[name]["caps"][f"{'XY'[pair.home]}.RDSW{pair.destination}"]


def test_the_operators_verdict_is_stricter_in_five_rows() -> None:
    problem, profiles = published("S3")
    found = list(rows(problem, profiles, 0))
    assert all(row.feasible for row in found)
    assert sum(not row.operator_balanced for row in found) == 5


def test_the_story_names_each_device_that_withdraws() -> None:
    problem, profiles = published("S3")
    story = "\n".join(explain(problem, profiles, 0))
    assert "links down: x/fdsw1:sdsw1, y/rdsw0:fdsw0" in story
    assert "x/fdsw1: input 4 over output 1: it stops advertising to rdsw0, rdsw1, rdsw2: 4 -> 1 (1)" in story
    assert "first-hop links of x's interface nodes: 0,1,1,2" in story


def test_a_healthy_fabric_has_no_story() -> None:
    from fabric_plan.planner.balance import destinations

    problem = BalanceProblem(fabric=mini())
    profiles = tuple(
        Profile(zone=zone, destinations=tuple(destinations(mini(), zone)), upper=Triples([]), lower=Triples([]))
        for zone in (0, 1)
    )
    story = explain(problem, profiles, 0)
    assert story == [
        "links down: none",
        "8 pairs of a zone and a destination: nothing is withdrawn, and nothing is missing",
    ]


def load(name: str) -> Any:
    return json.loads((ROOT / "instances" / "dsf" / name).read_text())


def test_an_export_is_the_fabric() -> None:
    found = read_export((ROOT / "instances" / "dsf" / "two_zones_export.json").read_bytes(), "x")
    assert set(found.failed) == {"x/fdsw1.x:sdsw1", "y/rdsw0.y:fdsw0.y"}
    assert [(zone.interfaces, zone.fabrics) for zone in found.fabric.zones] == [(4, 2), (4, 2)]
    assert found.fabric.links == mini().links


def test_virtual_devices_and_drains() -> None:
    found = read_export((ROOT / "instances" / "dsf" / "three_zones_export.json").read_bytes(), "x")
    assert found.fabric.devices == 2 and found.fabric.copies == 2
    assert found.failed == ("p/rdsw0.p:fdsw1.p@1",) and found.drained == ("q/fdsw0.q:sdsw1",)


def test_a_link_that_one_virtual_device_lacks_is_down() -> None:
    document = load("three_zones_export.json")
    for table in document["ports"].values():
        table[:] = [
            port
            for port in table
            if not (
                port["virtualDeviceId"] == 1 and {port["expectedNeighborReachability"][0]["remoteSystem"]} <= {"sdsw0"}
            )
        ]
    document["ports"]["sdsw0"] = [port for port in document["ports"]["sdsw0"] if port["virtualDeviceId"] == 0]
    found = read_export(json.dumps(document).encode(), "x")
    assert sum(name.endswith("sdsw0@1") for name in found.failed) == 6 and "6 links" in found.notes[0]


def test_tables() -> None:
    import fabric_plan
    from fabric_plan.planner.balance import BalancePlan

    plan = fabric_plan.plan(BalanceProblem(fabric=mini(), failed=SCENARIOS["S1"]))
    assert isinstance(plan, BalancePlan)
    tables = tables_of(plan)
    assert set(tables["devices"]) == {"sdsw0", "sdsw1", "x/fdsw0", "x/fdsw1", "y/fdsw0", "y/fdsw1"}
    entries = [one for table in tables["devices"].values() for one in table["inputBalanceEntry"]]
    assert len(entries) == 32 and all(one["inputWithinOutput"] for one in entries)
    towards = {one["from"]: one["numPorts"] for one in tables["reachabilityEntries"] if one["switchName"] == "x/rdsw3"}
    assert towards == {f"y/rdsw{k}": 1 for k in range(4)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("del d['nodes']", "has no 'nodes'"),
        ("d['nodes'][0]['type'] = 'SPINE'", r"nodes\[0\].type"),
        ("d['nodes'][1]['name'] = d['nodes'][0]['name']", "two nodes are called"),
        ("d['nodes'][0]['clusterId'] = ''", "no clusterId"),
        ("d['nodes'][0]['name'] = 'a b'", r"nodes\[0\].name"),
        ("d['ports']['rdsw9'] = []", "'rdsw9' is none of the nodes"),
        ("d['ports']['rdsw0.x'][0]['expectedNeighborReachability'][0]['remoteSystem'] = 'q'", "remoteSystem 'q'"),
        ("d['ports']['rdsw0.x'][0]['expectedNeighborReachability'][0]['remoteSystem'] = 'sdsw0'", "not to sdsw0"),
        (
            "d['ports']['rdsw0.x'][0]['expectedNeighborReachability'][0]['remoteSystem'] = 'fdsw0.y'",
            "in another cluster",
        ),
        ("d['ports']['rdsw0.x'][0]['virtualDeviceId'] = 10 ** 9", "virtualDeviceId"),
        ("d['ports']['rdsw0.x'][0]['isDrained'] = 'maybe'", "isDrained"),
        ("d['ports'] = 3", "ports: expected an object"),
    ],
)
def test_what_cannot_be_read(change: str, message: str) -> None:
    document = load("two_zones_export.json")
    exec(change, {"d": document})
    with pytest.raises(InvalidInput, match=message):
        read_export(json.dumps(document).encode(), "x")
    with pytest.raises(InvalidInput, match="not JSON"):
        read_export(b"{", "x")
