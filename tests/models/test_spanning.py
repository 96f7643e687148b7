"""All-reduce along spanning trees, and the bound by partitions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from fabric_plan.models.schedule.bounds import time_bound
from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.planners import schedule_of
from fabric_plan.models.schedule.spanning import edges_of, from_centre, pack
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.fabric import Fabric, Link, Node
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.simulator.schedule import check

GI = 1 << 30


def group_of(fabric: Fabric, size: int = GI) -> Group:
    return Group(fabric, ScheduleProblem.of(fabric, "all-reduce", size).jobs[0])


def graph(ranks: int, pairs: list[tuple[int, int, int]]) -> Fabric:
    links = [Link(a, b, wide, Fraction(0)) for x, y, wide in pairs for a, b in ((x, y), (y, x))]
    return Fabric("graph", [Node("npu", f"n{k}") for k in range(ranks)], links)


def strength(ranks: int, pairs: list[tuple[int, int, int]]) -> Fraction:
    """Return the seconds of a byte by the worst of all partitions: what Nash-Williams and Tutte say that trees can reach."""
    best = Fraction(0)
    for colours in itertools.product(range(ranks), repeat=ranks):
        parts = len(set(colours))
        across = sum(wide for a, b, wide in pairs if colours[a] != colours[b])
        if parts > 1:
            best = max(best, Fraction(parts - 1, across))
    return best


@pytest.mark.parametrize(
    ("ranks", "pairs"),
    [
        (3, [(0, 1, 1), (1, 2, 1)]),
        (4, [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 0, 1)]),
        (4, [(0, 1, 3), (1, 2, 1), (2, 3, 3), (3, 0, 1), (0, 2, 2)]),
        (5, [(0, 1, 1), (1, 2, 1), (2, 0, 1), (2, 3, 1), (3, 4, 2), (4, 2, 1)]),
        (5, [(0, 1, 4), (0, 2, 4), (1, 2, 4), (2, 3, 1), (3, 4, 5), (0, 4, 1)]),
    ],
)
def test_trees_reach_the_strength(ranks: int, pairs: list[tuple[int, int, int]]) -> None:
    """Within 2 % of the worst of all partitions, which is what no trees can beat."""
    _, seconds = pack(edges_of(group_of(graph(ranks, pairs))), 512)
    worst = strength(ranks, pairs)
    assert float(worst) * (1 - 1e-9) <= seconds <= float(worst) * 1.02
    bound, _ = time_bound(group_of(graph(ranks, pairs)))
    assert bound <= worst * GI


@pytest.mark.parametrize("name", ["mesh:4x4", "torus:3x3", "ring:8", "dgx1"])
def test_within_five_percent(name: str) -> None:
    plan = schedule_of(ScheduleProblem.of(name, "all-reduce", GI), "spanning-trees")
    key = plan.certificate.keys[0]
    assert key.bound is not None and key.bound <= key.value <= key.bound * Fraction(105, 100)
    assert not check(plan)[1]


@pytest.mark.parametrize("name", ["mesh:3x3", "hub:5", "full:6", "nvl72"])
def test_small_data(name: str) -> None:
    """Few trees, down to one, are right too."""
    for chunks in (1, 3):
        problem = ScheduleProblem.of(name, "all-reduce", 1000, chunks=chunks)
        assert not check(schedule_of(problem, "spanning-trees"))[1]


def test_from_the_middle() -> None:
    assert sorted(from_centre(5, [(0, 1), (1, 2), (2, 3), (3, 4)])) == [(1, 0), (2, 1), (2, 3), (3, 4)]


def test_one_way_links() -> None:
    fabric = Fabric(
        "one-way", [Node("npu", str(k)) for k in range(3)], [Link(k, (k + 1) % 3, 1, Fraction(0)) for k in range(3)]
    )
    with pytest.raises(InvalidProblem, match="one way only"):
        edges_of(group_of(Fabric("dag", fabric.nodes, fabric.links[:2])))


def test_boxes_bound_more_than_ranks() -> None:
    """Four boxes of two on slow links in a ring: 2 (4 - 1) messages over 8 slow links."""
    pairs = [(2 * k, 2 * k + 1, 1000) for k in range(4)] + [(2 * k + 1, (2 * k + 2) % 8, 1) for k in range(4)]
    bound, why = time_bound(group_of(graph(8, pairs)))
    assert bound == Fraction(6, 8) * GI
    assert "4 boxes" in why
