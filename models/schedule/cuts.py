"""Throughput bounds from cuts, exactly: how fast an all-gather, a reduce-scatter or a broadcast can be on any fabric.

All ranks' data has to cross every cut that leaves a rank behind. With ranks S on one side, |S| shards must leave over the links of
the cut, so a shard of one byte takes at least |S| / B(S) seconds; the largest such ratio over all cuts is the bound, and it is
reached (Edmonds' branchings; Zhao et al., ForestColl, section 5.1). It is found by max-flow, and by Newton's method on the ratio: a flow
problem at the ratio so far either shows that no cut is worse, or gives one that is, and whose own ratio is the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

import numpy as np

from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.fabric import Fabric


@dataclass(frozen=True)
class Cut:
    """A cut that bounds a collective.

    Parameters
    ----------
    seconds
        Of one byte of what each rank gives (a shard), at least.
    side
        Nodes on the side that the data must leave.
    ranks
        How many of them are ranks.
    bandwidth
        Bytes/s of the links that lead out of it.
    """

    seconds: Fraction
    side: frozenset[int]
    ranks: int
    bandwidth: int

    def told(self, fabric: Fabric, verb: str = "must leave") -> str:
        """Return the cut in words."""
        names = [fabric.nodes[node].name for node in sorted(self.side)]
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        return f"{self.ranks} shards {verb} {{{shown}}} over {self.bandwidth / 1e9:g} GB/s"


class Flows:
    """A fabric's links as a flow network with integer capacities: bandwidths over their greatest common divisor."""

    def __init__(self, fabric: Fabric, *, reverse: bool = False) -> None:
        self.nodes = len(fabric.nodes)
        merged: dict[tuple[int, int], int] = {}
        for link in fabric.links:
            ends = (link.target, link.source) if reverse else (link.source, link.target)
            if ends[0] != ends[1]:
                merged[ends] = merged.get(ends, 0) + link.bandwidth
        self.unit = gcd(*merged.values()) if merged else 1
        self.tails = np.array([a for a, _ in merged], dtype=np.int32)
        self.heads = np.array([b for _, b in merged], dtype=np.int32)
        self.width = np.array([one // self.unit for one in merged.values()], dtype=np.int64)

    def crossing(self, side: frozenset[int]) -> int:
        """Return the capacity of the links that leave a set of nodes, in units."""
        inside = np.zeros(self.nodes, dtype=bool)
        inside[list(side)] = True
        return int(self.width[inside[self.tails] & ~inside[self.heads]].sum())


def gather_cut(fabric: Fabric, nodes: Sequence[int], *, reverse: bool = False) -> Cut:
    """Return the worst cut of an all-gather among ``nodes``; of a reduce-scatter with ``reverse``.

    Raises
    ------
    InvalidProblem
        When some rank cannot be reached from another.
    """
    from ortools.graph.python.max_flow import SimpleMaxFlow

    flows = Flows(fabric, reverse=reverse)
    ranks = np.array(nodes, dtype=np.int32)
    count, source = len(ranks), flows.nodes
    best = _first_cut(fabric, flows, nodes)
    while True:
        # A unit of time per shard of best.seconds: links carry p, ranks give q, where the ratio is p / q in units of capacity.
        ratio = best.seconds * flows.unit
        p, q = ratio.numerator, ratio.denominator
        network = SimpleMaxFlow()
        network.add_arcs_with_capacity(flows.tails, flows.heads, flows.width * p)
        network.add_arcs_with_capacity(np.full(count, source, dtype=np.int32), ranks, np.full(count, q, dtype=np.int64))
        worst: Cut | None = None
        for target in nodes:
            if network.solve(source, target) != network.OPTIMAL:
                raise InvalidProblem(f"{fabric.name}: the flow through its links is too large to compute")
            if network.optimal_flow() < count * q:
                side = frozenset(node for node in network.get_source_side_min_cut() if node != source)
                found = _cut(flows, nodes, side)
                if worst is None or found.seconds > worst.seconds:
                    worst = found
                if worst.seconds > best.seconds * Fraction(11, 10):
                    break  # much worse already: begin again from there
        if worst is None or worst.seconds <= best.seconds:
            return best
        best = worst


def _first_cut(fabric: Fabric, flows: Flows, nodes: Sequence[int]) -> Cut:
    """Return the worst of the simplest cuts: all but one rank, and one rank alone."""
    everything = frozenset(range(flows.nodes))
    best: Cut | None = None
    for node in nodes:
        for side in (everything - {node}, frozenset({node})):
            width = flows.crossing(side)
            if width == 0:
                verb = "reaches" if len(side) > 1 else "leaves"
                raise InvalidProblem(f"{fabric.name}: no link {verb} {fabric.nodes[node].name}")
            found = _cut(flows, nodes, side)
            if best is None or found.seconds > best.seconds:
                best = found
    if best is None:
        raise InvalidProblem(f"{fabric.name}: no ranks")
    return best


def _cut(flows: Flows, nodes: Sequence[int], side: frozenset[int]) -> Cut:
    inside = sum(node in side for node in nodes)
    width = flows.crossing(side)
    if width == 0:
        raise InvalidProblem("some ranks cannot be reached from the others: no link joins them")
    return Cut(Fraction(inside, width * flows.unit), side, inside, width * flows.unit)


def broadcast_cut(fabric: Fabric, nodes: Sequence[int], root: int, *, reverse: bool = False) -> Cut:
    """Return the narrowest cut between a root and any of ``nodes``; towards the root, for a reduce, with ``reverse``.

    Raises
    ------
    InvalidProblem
        When some rank cannot be reached.
    """
    from ortools.graph.python.max_flow import SimpleMaxFlow

    flows = Flows(fabric, reverse=reverse)
    network = SimpleMaxFlow()
    network.add_arcs_with_capacity(flows.tails, flows.heads, flows.width)
    best: Cut | None = None
    for target in nodes:
        if target == root:
            continue
        network.solve(root, target)
        width = network.optimal_flow()
        if width == 0:
            raise InvalidProblem(f"{fabric.name}: {fabric.nodes[target].name} cannot be reached")
        if best is None or width * flows.unit < best.bandwidth:
            side = frozenset(network.get_source_side_min_cut())
            best = Cut(Fraction(1, width * flows.unit), side, 1, width * flows.unit)
    if best is None:
        raise InvalidProblem(f"{fabric.name}: no ranks beside the root")
    return best
