"""All-reduce along spanning trees: each piece is added up along a tree and comes back down the same tree.

A tree takes every one of its edges once each way, whatever its root, so roots can lie in the middle, and ranks with few links be leaves of most
trees: on meshes this needs half the time of a reduce-scatter and an all-gather, whose busiest rank must take every other's shard. Trees
are packed one after another, each a least one for lengths that grow exponentially with what links have to carry so far; with many
trees the busiest link comes near what the strength of the graph allows (Nash-Williams and Tutte), which is also the bound by partitions.

A list schedule says which transfer goes next on each link; otherwise the leaves' transfers, all ready at once, would go before everyone else's.

Source: Plotkin, Shmoys and Tardos, Fast approximation algorithms for fractional packing and covering problems, for the lengths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.listed import relisted
from fabric_plan.models.schedule.logical import Pair, direct_links
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.schedule import Columns, check_memory, padded

MOST_RANKS = 512
MOST_TREES = 2048
MOST_TRANSFERS = 300_000

STEEP = 40.0
"""How steeply lengths grow: a link that carries a tenth less than the busiest is shorter by a factor of e^4."""

LOW = 0.02
"""What a level of depth costs a tree, as a part of a usual edge."""

FloatMatrix = NDArray[np.float64]


@dataclass(frozen=True)
class Edges:
    """Pairs of ranks that can send to each other, and the bytes that a byte each way puts on the links; shape (pairs, links)."""

    ranks: int
    pairs: tuple[Pair, ...]
    use: FloatMatrix
    bandwidth: NDArray[np.float64]


def edges_of(group: Group) -> Edges:
    """Return the pairs whose routes pass no other rank.

    Raises
    ------
    InvalidProblem
        When there are too many ranks, or some pair is joined one way only.
    """
    if group.size > MOST_RANKS:
        raise InvalidProblem(
            f"spanning-trees: {group.size:,} ranks are more than the {MOST_RANKS} that it packs trees for"
        )
    found = {}
    for a in range(group.size):
        for b in range(group.size):
            links = direct_links(group, a, b) if a != b else None
            if links:
                found[a, b] = links
    if any((b, a) not in found for a, b in found):
        raise InvalidProblem("spanning-trees: some ranks are joined one way only, so no tree serves both ways")
    pairs = tuple((a, b) for a, b in found if a < b)
    use = np.zeros((len(pairs), len(group.fabric.links)))
    for k, (a, b) in enumerate(pairs):
        for link, share in (*found[a, b], *found[b, a]):
            use[k, link] += float(share)
    return Edges(group.size, pairs, use, np.array([float(link.bandwidth) for link in group.fabric.links]))


def pack(edges: Edges, many: int) -> tuple[list[list[Pair]], float]:
    """Return so many spanning trees, and the seconds that a byte along all of them takes on the busiest link, in parts of a tree each.

    Raises
    ------
    InvalidProblem
        When the ranks are not joined.
    """
    ranks = edges.ranks
    number = np.full((ranks, ranks), -1)
    for k, (a, b) in enumerate(edges.pairs):
        number[a, b] = number[b, a] = k
    load = np.zeros(len(edges.bandwidth))
    trees = []
    for turn in range(many):
        relative = load / edges.bandwidth
        most = relative.max()
        lengths = np.exp(STEEP * (relative / most - 1 if most else relative)) / edges.bandwidth
        cost = edges.use @ lengths
        table = np.where(number >= 0, cost[number], np.inf)
        tree = _least_tree(table, turn % ranks, LOW * float(np.median(cost)))
        for a, b in tree:
            load += edges.use[number[a, b]]
        trees.append(tree)
    return trees, float((load / edges.bandwidth).max()) / many


def _least_tree(cost: FloatMatrix, start: int, level: float) -> list[Pair]:
    """Return a least spanning tree as pairs (inner, outer), grown from a rank; ``level``: what a level of depth adds."""
    ranks = len(cost)
    inside = np.zeros(ranks, dtype=bool)
    inside[start] = True
    depth = np.zeros(ranks)
    parent = np.full(ranks, start)
    key = cost[start].copy()
    key[start] = np.inf
    tree = []
    for _ in range(ranks - 1):
        new = int(np.argmin(key))
        if not np.isfinite(key[new]):
            raise InvalidProblem("spanning-trees: the ranks are not joined without going through others")
        old = int(parent[new])
        tree.append((old, new))
        inside[new] = True
        depth[new] = depth[old] + 1
        key[new] = np.inf
        offer = cost[new] + level * depth[new]
        better = (offer < key) & ~inside
        key[better] = offer[better]
        parent[better] = new
    return tree


def from_centre(ranks: int, tree: list[Pair]) -> list[Pair]:
    """Return a tree's pairs (parent, child) outwards from the middle of its longest path."""
    near: list[list[int]] = [[] for _ in range(ranks)]
    for a, b in tree:
        near[a].append(b)
        near[b].append(a)

    def outwards(root: int) -> tuple[list[int], dict[int, int]]:
        above = {root: -1}
        order = [root]
        for at in order:
            for other in near[at]:
                if other not in above:
                    above[other] = at
                    order.append(other)
        return order, above

    end = outwards(tree[0][0])[0][-1]
    order, above = outwards(end)
    path = [order[-1]]
    while above[path[-1]] >= 0:
        path.append(above[path[-1]])
    order, above = outwards(path[len(path) // 2])
    return [(above[at], at) for at in order[1:]]


def trees_of(group: Group) -> int:
    """Return how many trees to cut the data for: as many as leave a piece longer on a link than its latency."""
    wait = float(group.latency) * float(group.bandwidth)
    fine = float(group.job.size) / wait if wait else MOST_TREES
    most = MOST_TRANSFERS // (2 * (group.size - 1))
    return int(max(1, min(MOST_TREES, most, fine)))


def spanning_trees(group: Group, chunks: int) -> Iterator[tuple[Columns, list[int]]]:
    """Yield all-reduces in ``chunks`` pieces, each along a spanning tree of its own, for each order that a list schedule finds."""
    edges = edges_of(group)
    check_memory(2 * chunks * (group.size - 1), "spanning-trees")
    trees, _ = pack(edges, chunks)
    what: list[tuple[int, int, int, bool]] = []
    needs: list[list[int]] = []
    for piece, tree in enumerate(trees):
        _add(what, needs, piece, from_centre(group.size, tree))
    rows = np.array(what)
    columns = Columns()
    columns.add(group.nodes[rows[:, 1]], group.nodes[rows[:, 2]], rows[:, 0], reduce=rows[:, 3], needs=padded(needs))
    for one in relisted(group, columns.transfers(), group.job.size / chunks):
        yield one, [0] * chunks


def _add(what: list[tuple[int, int, int, bool]], needs: list[list[int]], piece: int, tree: list[Pair]) -> None:
    """Add a piece's transfers (piece, source, target, reduce) up and down a tree of pairs (parent, child), outwards from its root."""
    arrived: dict[int, list[int]] = {}
    for parent, child in reversed(tree):
        needs.append(arrived.pop(child, []))
        arrived.setdefault(parent, []).append(len(what))
        what.append((piece, child, parent, True))
    for parent, child in tree:
        needs.append(arrived[parent])
        arrived[child] = [len(what)]
        what.append((piece, parent, child, False))
