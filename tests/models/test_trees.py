"""Cuts, logical graphs and packed trees: bounds against brute force and known values, packings against their definition."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fabric_plan
from fabric_plan.models.schedule.cuts import broadcast_cut, gather_cut
from fabric_plan.models.schedule.forest import packing_of
from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.logical import logical
from fabric_plan.models.schedule.packing import Packing, pack, seconds_of
from fabric_plan.models.schedule.symmetry import free_group
from fabric_plan.planner import interface
from fabric_plan.planner.catalog import build
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.fabric import Fabric, Link, Node
from fabric_plan.planner.files import load_fabric
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.schedule import SchedulePlan

FABRICS = Path(__file__).parents[2] / "instances" / "fabrics"

# All-gather algorithm bandwidth in GB/s by exact max-flow, broadcast from rank 0, and the greatest height allowed.
KNOWN = {
    "a100_2box": ("346.667", 200, 10),
    "dgx1": ("171.429", 150, 5),
    "dgx2_2chassis": ("129.032", 100, 15),
    "h100_2box": ("533.333", 400, 8),
    "hier_4x8_oversub4": ("103.226", 100, 16),
    "hypercube3": ("171.429", 150, 3),
    "mesh2d_4x4": ("106.667", 100, 8),
    "mi250_1box": ("342.857", 300, 12),
    "ndv2_2chassis": ("25.000", 12.5, 8),
    "nvl72_1hub": ("912.676", 900, 1),
    "torus2d_4x4": ("213.333", 200, 8),
}


def group_of(fabric: Fabric, pattern: str = "all-gather", ranks: int | None = None) -> Group:
    many = len(fabric.seats) if ranks is None else ranks
    return Group(fabric, ScheduleProblem.of(fabric, pattern, Fraction(1 << 30), group=range(many)).jobs[0])


@pytest.mark.parametrize("name", KNOWN)
def test_bounds_and_trees_of_the_projects_fabrics(name: str) -> None:
    fabric = load_fabric(str(FABRICS / f"{name}.json"))
    group = group_of(fabric)
    rate, broadcast, height = KNOWN[name]
    cut = gather_cut(fabric, group.nodes.tolist())
    assert f"{float(group.size / cut.seconds) / 1e9:.3f}" == rate
    assert broadcast_cut(fabric, group.nodes.tolist(), int(group.nodes[0])).bandwidth == broadcast * 1e9
    graph = logical(group, cut.seconds)
    packing = packing_of(group)
    check_packing(packing)
    assert seconds_of(packing, graph.width) == cut.seconds
    assert packing.height <= height


def check_packing(packing: Packing) -> None:
    """Every tree spans all ranks once from its root; every root's copies make its whole shard."""
    each = dict.fromkeys(range(packing.ranks), 0)
    for tree in packing.trees:
        reached = {tree.root}
        for a, b in tree.edges:
            assert a in reached and b not in reached
            reached.add(b)
        assert reached == set(range(packing.ranks))
        each[tree.root] += tree.copies
    assert set(each.values()) == {packing.each}


def random_fabric(seed: int) -> Fabric:
    source = random.Random(seed)
    ranks, switches = source.randint(2, 5), source.randint(0, 2)
    nodes = [Node("npu", f"n{k}") for k in range(ranks)] + [Node("switch", f"s{k}") for k in range(switches)]
    links = []
    for a, b in itertools.combinations(range(len(nodes)), 2):
        if source.random() < 0.7 or b == a + 1:
            wide = source.randint(1, 4)
            links += [Link(a, b, wide, Fraction(1, 10)), Link(b, a, wide, Fraction(1, 10))]
    return Fabric("random", nodes, links)


def worst(fabric: Fabric, ranks: list[int], *, reverse: bool = False) -> Fraction:
    """The worst cut by trying all."""
    best = Fraction(0)
    every = range(len(fabric.nodes))
    for many in range(1, len(fabric.nodes)):
        for side in itertools.combinations(every, many):
            inside = sum(rank in side for rank in ranks)
            if inside == len(ranks) or inside == 0:
                continue
            out = sum(
                link.bandwidth
                for link in fabric.links
                if ((link.target if reverse else link.source) in side)
                and ((link.source if reverse else link.target) not in side)
            )
            best = max(best, Fraction(inside, out))
    return best


@pytest.mark.parametrize("seed", range(60))
def test_cuts_against_all_cuts(seed: int) -> None:
    fabric = random_fabric(seed)
    ranks = list(fabric.seats)
    try:
        found = gather_cut(fabric, ranks)
    except InvalidProblem:
        return
    assert found.seconds == worst(fabric, ranks)
    assert gather_cut(fabric, ranks, reverse=True).seconds == worst(fabric, ranks, reverse=True)
    graph = logical(group_of(fabric), found.seconds)
    assert graph.seconds >= found.seconds
    packing = pack(graph)
    check_packing(packing)
    assert seconds_of(packing, graph.width) == graph.seconds


def test_symmetries_move_every_rank_and_keep_the_graph() -> None:
    for name, size in (
        ("torus2d_4x4", 16),
        ("hypercube3", 8),
        ("nvl72_1hub", 72),
        ("h100_2box", 16),
        ("mesh2d_4x4", 1),
    ):
        group = group_of(load_fabric(str(FABRICS / f"{name}.json")))
        graph = logical(group, gather_cut(group.fabric, group.nodes.tolist()).seconds)
        weights = np.zeros((group.size, group.size))
        for (a, b), wide in graph.width.items():
            weights[a, b] = float(wide)
        found = free_group(weights)
        assert len(found) >= size
        identity = np.arange(group.size)
        for one in found[1:]:
            assert (weights[np.ix_(one, one)] == weights).all() and (one != identity).all()
        assert len({one.tobytes() for one in found}) == len(found)


@pytest.mark.parametrize("name", ["torus2d_4x4", "dgx1", "h100_2box", "ndv2_2chassis"])
@pytest.mark.parametrize("pattern", ["all-gather", "reduce-scatter", "all-reduce"])
def test_schedules_along_trees(name: str, pattern: str) -> None:
    fabric = load_fabric(str(FABRICS / f"{name}.json"))
    problem = ScheduleProblem.of(fabric, pattern, Fraction(1 << 30), chunks=4)
    plan = fabric_plan.plan(problem, planner="trees", budget=Budget(seconds=60))
    assert isinstance(plan, SchedulePlan)
    assert interface.validate(plan)[1] == []
    key = plan.certificate.keys[0]
    assert key.bound is not None and key.bound <= key.value
    ring = fabric_plan.plan(problem, planner="ring", budget=Budget(seconds=60))
    assert key.value * 3 < ring.certificate.keys[0].value * 2


def test_more_pieces_come_closer_to_the_bound() -> None:
    fabric = build("hub:8")
    gaps = []
    for chunks in (1, 8, 64):
        problem = ScheduleProblem.of(fabric, "all-gather", Fraction(1 << 32), chunks=chunks)
        key = fabric_plan.plan(problem, planner="trees", budget=Budget(seconds=60)).certificate.keys[0]
        assert key.bound is not None
        gaps.append(float(key.value / key.bound) - 1)
    assert gaps[0] > gaps[1] > gaps[2] and gaps[2] < 0.01


def test_every_shared_fabric_is_packed_at_its_bound(topologies: Path) -> None:
    slow = {"h100_16box", "mi250_2box", "h100_4box", "torus2d_16x16", "torus3d_8x8x8", "nvl72_18plane", "mesh2d_10x10"}
    for path in sorted(topologies.glob("*.json")):
        if path.stem in slow:
            continue
        group = group_of(load_fabric(str(path)))
        cut = gather_cut(group.fabric, group.nodes.tolist())
        graph = logical(group, cut.seconds)
        assert graph.seconds == cut.seconds, path.stem
        packing = packing_of(group)
        check_packing(packing)
        assert seconds_of(packing, graph.width) == cut.seconds, path.stem
