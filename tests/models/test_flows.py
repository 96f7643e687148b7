"""All-to-all along the ways of a least flow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fabric_plan.models.schedule.flows import hops_of, rounded, seconds_of, ways_of
from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.metric import all_to_all_bound
from fabric_plan.models.schedule.planners import schedule_of
from fabric_plan.planner.catalog import build
from fabric_plan.planner.degraded import degraded
from fabric_plan.planner.fabric import Fabric, Link, Node
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.simulator.schedule import check

GI = 1 << 30


def group_of(fabric: Fabric) -> Group:
    return Group(fabric, ScheduleProblem.of(fabric, "all-to-all", GI).jobs[0])


@pytest.mark.parametrize(
    ("name", "rounds"),
    [
        ("ring:8", 8),
        ("full:4", 1),
        ("dgx1", Fraction(8, 3)),
        ("torus:3x3", 3),
        ("torus:4x4", 8),
        ("mesh:4x4", 16),
        ("hub:6", 5),
    ],
)
def test_the_known_values(name: str, rounds: Fraction | int) -> None:
    """Rounds of the slowest link a block, as the closed forms and published programs have them."""
    group = group_of(build(name))
    slowest = min(link.bandwidth for link in group.fabric.links)
    assert ways_of(hops_of(group)).seconds * slowest == pytest.approx(float(rounds), rel=1e-5)


@pytest.mark.parametrize("name", ["ring:8", "dgx1", "torus:3x3", "mesh:3x4", "hub:6", "torus:2x4"])
def test_within_two_percent(name: str) -> None:
    plan = schedule_of(ScheduleProblem.of(name, "all-to-all", GI), "flows")
    key = plan.certificate.keys[0]
    assert key.bound is not None and key.bound <= key.value <= key.bound * Fraction(102, 100)
    assert not check(plan)[1]


def test_a_mesh_without_a_chip() -> None:
    fabric, alive = degraded(build("mesh:4x4"), ["(1,1)"])
    plan = schedule_of(ScheduleProblem.of(fabric, "all-to-all", GI, group=alive), "flows")
    key = plan.certificate.keys[0]
    assert key.bound is not None and key.bound <= key.value <= key.bound * Fraction(105, 100)
    assert not check(plan)[1]


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    """The flow is never below the bound, meets it where every hop is a link, and its parts make whole blocks."""
    random = np.random.default_rng(seed)
    ranks = int(random.integers(3, 8))
    pairs = {(k, (k + 1) % ranks) for k in range(ranks)} | {
        (int(a), int(b)) for a, b in random.integers(0, ranks, (ranks, 2)) if a != b
    }
    links = [Link(a, b, int(random.integers(1, 5)) * 10**9, Fraction(0)) for a, b in sorted(pairs)]
    fabric = Fabric("random", [Node("npu", str(k)) for k in range(ranks)], links)
    group = group_of(fabric)
    hops = hops_of(group)
    ways = ways_of(hops)
    bound = float(all_to_all_bound(fabric, group.nodes.tolist()))
    assert bound * (1 - 1e-6) <= ways.seconds <= bound * 1.001
    for (a, b), parts in ways.parts.items():
        assert sum(part for _, part in parts) == pytest.approx(1)
        assert all(way[0] == a and way[-1] == b and len(set(way)) == len(way) for way, _ in parts)
    assert seconds_of(hops, rounded(ways, 64), 64) <= ways.seconds * 1.1
    plan = schedule_of(ScheduleProblem.of(fabric, "all-to-all", GI), "flows")
    assert not check(plan)[1]
