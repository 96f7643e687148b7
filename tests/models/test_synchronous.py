"""Synchronous all-gathers: known least rounds with their proofs, brute force on small graphs, and what cannot be."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest

from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.planners import synchronous_plan
from fabric_plan.models.schedule.synchronous import Net, Synchronous, fewest_rounds, frontier, net_of
from fabric_plan.planner import interface
from fabric_plan.planner.catalog import build
from fabric_plan.planner.degraded import degraded
from fabric_plan.planner.errors import Infeasible, InvalidProblem
from fabric_plan.planner.files import load_fabric
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.problem import ScheduleProblem

FABRICS = Path(__file__).parents[2] / "instances" / "fabrics"

# (fabric, steps, chunks): fewest rounds, proved by others' models and by ours.
KNOWN = {
    ("dgx1", 2, 1): 2, ("dgx1", 2, 2): 3, ("dgx1", 2, 3): 5, ("dgx1", 2, 4): 6, ("dgx1", 2, 5): 8, ("dgx1", 2, 6): 9,
    ("dgx1", 3, 2): 3, ("dgx1", 3, 3): 4, ("dgx1", 3, 4): 5, ("dgx1", 3, 5): 6, ("dgx1", 3, 6): 7,
    ("ring:8", 4, 1): 4, ("ring:8", 4, 2): 7, ("ring:8", 5, 3): 11,
    ("hypercube3", 3, 1): 3, ("hypercube3", 3, 2): 5, ("hypercube3", 3, 3): 7,
    ("torus:3x3", 2, 1): 2, ("torus:3x3", 2, 2): 4, ("torus:4x4", 4, 1): 4, ("torus:4x4", 4, 2): 8, ("torus:4x4", 4, 4): 15,
    ("mesh:4x4", 6, 1): 8, ("mesh:4x4", 6, 2): 15, ("full:8", 1, 1): 1, ("full:8", 1, 2): 2, ("full:8", 2, 2): 2,
    ("torus:3x3x3", 5, 1): 5,
}  # fmt: skip


def problem_of(name: str, pattern: str = "all-gather", chunks: int | None = None) -> ScheduleProblem:
    path = FABRICS / f"{name}.json"
    fabric = load_fabric(str(path) if path.exists() else name)
    return ScheduleProblem.of(fabric, pattern, Fraction(1 << 20), chunks=chunks)


def net(name: str, *, reverse: bool = False) -> Net:
    problem = problem_of(name)
    return net_of(Group(problem.fabric, problem.jobs[0]), reverse=reverse)


def budget() -> Budget:
    return Budget(seconds=60, workers=2)


def check(graph: Net, found: Synchronous) -> None:
    """By definition: sent after it came, once to each rank, within each link's rounds."""
    arrives = {(root, chunk, root): -1 for root in range(graph.ranks) for chunk in range(found.chunks)}
    for one in found.sends:
        key = one.root, one.chunk, one.target
        assert key not in arrives
        arrives[key] = one.step
    assert len(arrives) == graph.ranks**2 * found.chunks
    load: Counter[tuple[int, int, int]] = Counter()
    for one in found.sends:
        assert arrives[one.root, one.chunk, one.source] < one.step
        load[one.source, one.target, one.step] += 1
    width = dict(zip(graph.edges, graph.width, strict=True))
    assert all(many <= width[a, b] * found.rounds[step] for (a, b, step), many in load.items())


@pytest.mark.parametrize("case", KNOWN, ids=str)
def test_known_cells(case: tuple[str, int, int]) -> None:
    name, steps, chunks = case
    graph = net(name)
    found = fewest_rounds(graph, steps, chunks, budget())
    check(graph, found)
    assert found.total == found.bound == KNOWN[case]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "chunks"), [("torus:8x8", 16, 1), ("torus:4x4x4", 11, 1), ("torus:4x4x4", 21, 2)]
)
def test_larger_tori(name: str, steps: int, chunks: int) -> None:
    graph = net(name)
    found = fewest_rounds(graph, steps, chunks, budget())
    check(graph, found)
    assert found.total == found.bound == steps


def smallest(graph: Net, steps: int) -> int | None:
    """Fewest rounds with one chunk, by trying all trees and all times (three ranks)."""
    best: int | None = None
    width = dict(zip(graph.edges, graph.width, strict=True))
    options: list[list[tuple[tuple[int, int, int], ...]]] = []
    for root in range(graph.ranks):
        others = [rank for rank in range(graph.ranks) if rank != root]
        found = []
        for choice in itertools.product(
            *([(a, b, s) for a, b in graph.edges if b == other for s in range(steps)] for other in others)
        ):
            when = {root: -1} | {b: s for _, b, s in choice}
            if all(when[a] < s for a, _, s in choice):
                found.append(choice)
        options.append(found)
    for chosen in itertools.product(*options):
        load = Counter(one for tree in chosen for one in tree)
        rounds = sum(
            max([1, *(-(-many // width[a, b]) for (a, b, step), many in load.items() if step == s)])
            for s in range(steps)
        )
        best = rounds if best is None else min(best, int(rounds))
    return None if best is None else int(best)


@pytest.mark.parametrize("seed", range(25))
def test_against_all_schedules_of_three_ranks(seed: int) -> None:
    source = random.Random(seed)
    edges = [(a, b) for a in range(3) for b in range(3) if a != b and source.random() < 0.8]
    width = tuple(Fraction(source.randint(1, 2)) for _ in edges)
    out = [[b for a, b in edges if a == k] for k in range(3)]
    distance = []
    for root in range(3):
        row = [-1] * 3
        row[root] = 0
        queue = [root]
        for node in queue:
            for other in out[node]:
                if row[other] < 0:
                    row[other] = row[node] + 1
                    queue.append(other)
        distance.append(tuple(row))
    if any(one < 0 for row in distance for one in row):
        return
    graph = Net(3, tuple(edges), width, tuple(distance), Fraction(0))
    for steps in (1, 2, 3):
        known = smallest(graph, steps)
        if known is None:
            with pytest.raises(Infeasible):
                fewest_rounds(graph, steps, 1, budget())
            continue
        found = fewest_rounds(graph, steps, 1, budget())
        check(graph, found)
        assert found.total == found.bound == known


def test_what_cannot_be_is_answered_with_the_reason() -> None:
    graph = net("dgx1")
    with pytest.raises(Infeasible, match="2 hops"):
        fewest_rounds(graph, 1, 1, budget())
    with pytest.raises(Infeasible, match="worst cut"):
        fewest_rounds(graph, 2, 6, budget(), rounds=6)
    with pytest.raises(Infeasible, match="the model proves"):
        fewest_rounds(graph, 2, 3, budget(), rounds=4)
    with pytest.raises(InvalidProblem, match="has switches"):
        net("nvl72_1hub")


def test_the_frontier_of_dgx1() -> None:
    points = [(one.steps, Fraction(one.total, one.chunks)) for one in frontier(net("dgx1"), budget())]
    assert points == [(2, Fraction(3, 2)), (3, Fraction(7, 6))]


@pytest.mark.parametrize("pattern", ["all-gather", "reduce-scatter"])
@pytest.mark.parametrize("name", ["dgx1", "torus:4x4", "hypercube3"])
def test_plans_pass_the_judge(name: str, pattern: str) -> None:
    plan, found = synchronous_plan(problem_of(name, pattern, chunks=2), 4, None, budget())
    assert interface.validate(plan)[1] == []
    assert any(f"{found.total} in 4 steps" in line for line in plan.certificate.proof)
    ranks = len(plan.problem.jobs[0].group)
    assert len(plan.transfers) == ranks * (ranks - 1) * 2


@pytest.mark.parametrize(
    ("name", "failed", "steps"),
    [
        ("torus:8x8", "(3,3)", 21),
        ("torus:4x4x4", "(1,1,1)", 13),
        ("torus:16x16", "(3,3)", 85),
        ("mesh:4x4", "(0,1)", 14),
    ],
)
def test_a_torus_without_a_chip(name: str, failed: str, steps: int) -> None:
    """The neighbours of a dead chip have a link less, and everything must reach them: the bound, and met."""
    fabric, alive = degraded(build(name), [failed])
    group = Group(fabric, ScheduleProblem.of(fabric, "all-gather", 1 << 20, group=alive).jobs[0])
    net = net_of(group)
    assert ceil(net.per_chunk) == steps
    found = fewest_rounds(net, steps, 1, Budget(seconds=60, workers=1))
    assert found.total == found.bound == steps
    held = {(rank, rank) for rank in range(net.ranks)}
    for step in range(steps):
        now = [one for one in found.sends if one.step == step]
        assert len({(one.source, one.target) for one in now}) == len(now)
        assert all((one.source, one.root) in held and (one.target, one.root) not in held for one in now)
        held |= {(one.target, one.root) for one in now}
    assert len(held) == net.ranks**2


@pytest.mark.parametrize("name", ["torus:4x8", "torus:2x4x4", "torus:3x5"])
def test_tori_of_unequal_sides(name: str) -> None:
    group = Group(build(name), ScheduleProblem.of(name, "all-gather", 1 << 20).jobs[0])
    net = net_of(group)
    steps = max(net.diameter, ceil(net.per_chunk))
    found = fewest_rounds(net, steps, 1, Budget(seconds=60, workers=1))
    assert found.total == found.bound == steps
