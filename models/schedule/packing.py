"""Spanning trees packed into a graph of ranks, as many from every root as its worst cut allows (Edmonds' branchings).

Trees grow edge by edge. An edge may be taken by m copies of a tree if what is left can still be completed: by the condition of Bang-Jensen
and of Berczi and Frank, if from a source that feeds every unfinished tree's ranks (and every root whose trees are not begun) all demand still reaches
the edge's head. One max-flow decides, and says how much less would do. Trees grow breadth first, so that they are low. With a
group that acts freely, a tree of one root is packed together with its images, which are the other roots' trees.

Source: Schrijver, Combinatorial Optimization, section 53.3; Zhao et al., ForestColl, section 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from fabric_plan.models.schedule.logical import Logical, Pair
from fabric_plan.models.schedule.symmetry import Permutation, free_group
from fabric_plan.planner.errors import InvalidProblem, LimitReached
from fabric_plan.planner.interface import Budget

SCALE = 48
"""Copies of every tree's share beyond what widths need, so that shares can be split."""

TRIED = 24
"""Edges of one depth that are tried for one that all copies can take."""


@dataclass
class Tree:
    """``copies`` equal trees: their root, and edges (parent, child) in the order in which they were added."""

    root: int
    copies: int
    edges: list[Pair] = field(default_factory=list)

    @property
    def height(self) -> int:
        """Edges from the root to the farthest rank."""
        depth = {self.root: 0}
        for a, b in self.edges:
            depth[b] = depth[a] + 1
        return max(depth.values())


@dataclass(frozen=True)
class Packing:
    """Trees: every root has copies that sum to ``each``, and each copy carries one part in ``each`` of its root's shard."""

    ranks: int
    each: int
    trees: tuple[Tree, ...]

    @property
    def height(self) -> int:
        """Of the highest tree."""
        return max(tree.height for tree in self.trees)


def pack(graph: Logical, budget: Budget | None = None) -> Packing:
    """Return trees that use no edge for more than its width in the time of the worst cut.

    Raises
    ------
    LimitReached
        When the budget ends before.
    InvalidProblem
        When shares would have to be split more finely than is sensible.
    """
    each = SCALE * lcm(1, *((one * graph.seconds).denominator for one in graph.width.values()))
    room = {pair: int(one * graph.seconds * each) for pair, one in graph.width.items() if one}
    weights = np.zeros((graph.ranks, graph.ranks), dtype=np.int64)
    for (a, b), many in room.items():
        weights[a, b] = many
    group = free_group(weights)
    packer = _Packer(graph.ranks, each, room, group)
    while packer.left.any():
        if budget is not None and budget.left == 0:
            raise LimitReached("trees: the budget ended before all were packed")
        packer.grow()
    trees = [
        Tree(int(image[tree.root]), tree.copies, [(int(image[a]), int(image[b])) for a, b in tree.edges])
        for tree in packer.trees
        for image in group
    ]
    shared = gcd(each, *(tree.copies for tree in trees))
    for tree in trees:
        tree.copies //= shared
    return Packing(graph.ranks, each // shared, tuple(trees))


class _Packer:
    def __init__(self, ranks: int, each: int, room: dict[Pair, int], group: list[Permutation]) -> None:
        self.ranks, self.each, self.group = ranks, each, group
        pairs = sorted(room)
        self.edge_of = {pair: k for k, pair in enumerate(pairs)}
        self.tails = np.array([a for a, _ in pairs], dtype=np.int32)
        self.heads = np.array([b for _, b in pairs], dtype=np.int32)
        self.room = np.array([room[pair] for pair in pairs], dtype=np.int64)
        number = np.full((ranks, ranks), -1, dtype=np.int64)
        number[self.tails, self.heads] = np.arange(len(pairs))
        self.images = np.stack([number[one[self.tails], one[self.heads]] for one in group])
        """Numbers of the edges' images, shape (permutations, edges)."""
        self.out: list[list[int]] = [[] for _ in range(ranks)]
        for k, (a, _) in enumerate(pairs):
            self.out[a].append(k)
        orbit = np.min(np.stack(group), axis=0)
        self.roots = sorted(set(orbit.tolist()))
        self.left = np.full(ranks, each, dtype=np.int64)
        """Copies of each root that no tree has yet."""
        self.trees: list[Tree] = []

    def grow(self) -> None:
        """Pack one more tree, of the root whose turn it is, and its images."""
        waiting = [root for root in self.roots if self.left[root]]
        root = max(waiting, key=lambda one: (self.left[one], -one))
        tree = Tree(root, int(self.left[root]))
        self._take_roots(tree.root, -tree.copies)
        depth = {root: 0}
        while len(depth) < self.ranks:
            edge, copies = self._choose(tree, depth)
            if copies == 0:
                raise InvalidProblem("trees: shares would have to be split too finely")
            if copies < tree.copies:
                self._give_back(tree, tree.copies - copies)
            a, b = int(self.tails[edge]), int(self.heads[edge])
            self._use(edge, tree.copies)
            tree.edges.append((a, b))
            depth[b] = depth[a] + 1
        self.trees.append(tree)

    def _take_roots(self, root: int, many: int) -> None:
        for image in self.group:
            self.left[image[root]] += many

    def _use(self, edge: int, many: int) -> None:
        self.room[self.images[:, edge]] -= many

    def _give_back(self, tree: Tree, many: int) -> None:
        """Let some copies of an unfinished tree begin anew."""
        for pair in tree.edges:
            self._use(self.edge_of[pair], -many)
        tree.copies -= many
        self._take_roots(tree.root, many)

    def _choose(self, tree: Tree, depth: dict[int, int]) -> tuple[int, int]:
        """Return an edge out of a tree, of the least depth, and how many copies can take it."""
        best, most = -1, 0
        by_depth: dict[int, list[int]] = {}
        for a, far in depth.items():
            for edge in self.out[a]:
                if int(self.heads[edge]) not in depth and self.room[edge] > 0:
                    by_depth.setdefault(far, []).append(edge)
        for far in sorted(by_depth):
            edges = sorted(by_depth[far], key=lambda edge: (-int(self.room[edge]), edge))
            for edge in edges[:TRIED] if most else edges:
                copies = self._copies(tree, depth, edge)
                if copies == tree.copies:
                    return edge, copies
                if copies > most:
                    best, most = edge, copies
            if most * 2 >= tree.copies:
                break
        return best, most

    def _copies(self, tree: Tree, depth: dict[int, int], edge: int) -> int:
        """Return how many copies of a tree can take an edge so that everything can still be completed."""
        copies = min(tree.copies, int(self.room[edge]))
        while copies > 0:
            lack = self._lack(tree, depth, edge, copies)
            if lack == 0:
                return copies
            copies = copies - lack if copies > lack else copies // 2
        return 0

    def _lack(self, tree: Tree, depth: dict[int, int], edge: int, copies: int) -> int:
        """Return what is missing at the head of an edge if so many copies take it, with their images."""
        from ortools.graph.python.max_flow import SimpleMaxFlow

        head = int(self.heads[edge])
        room = self.room.copy()
        room[self.images[:, edge]] -= copies
        if copies < tree.copies and tree.edges:
            taken = self.images[:, [self.edge_of[pair] for pair in tree.edges]]
            np.add.at(room, taken.ravel(), tree.copies - copies)
        if room.min() < 0:
            return copies
        left = self.left.copy()
        for one in self.group:
            left[one[tree.root]] += tree.copies - copies
        source = self.ranks
        network = SimpleMaxFlow()
        network.add_arcs_with_capacity(self.tails, self.heads, room)
        unbegun = np.flatnonzero(left).astype(np.int32)
        network.add_arcs_with_capacity(np.full(len(unbegun), source, dtype=np.int32), unbegun, left[unbegun])
        inside = np.array([*depth, head])
        hubs = np.arange(source + 1, source + 1 + len(self.group), dtype=np.int32)
        network.add_arcs_with_capacity(
            np.full(len(hubs), source, dtype=np.int32), hubs, np.full(len(hubs), copies, dtype=np.int64)
        )
        ends: NDArray[np.int32] = np.concatenate([one[inside] for one in self.group]).astype(np.int32)
        network.add_arcs_with_capacity(np.repeat(hubs, len(inside)), ends, np.full(len(ends), copies, dtype=np.int64))
        wanted = int(left.sum()) + copies * len(self.group)
        if network.solve(source, head) != network.OPTIMAL:
            raise InvalidProblem("trees: a flow is too large to compute")
        return wanted - int(network.optimal_flow())


def seconds_of(packing: Packing, width: dict[Pair, Fraction]) -> Fraction:
    """Return the seconds that the busiest edge needs for a byte of every shard: what the packing achieves, by counting alone."""
    load: dict[Pair, int] = {}
    for tree in packing.trees:
        for pair in tree.edges:
            load[pair] = load.get(pair, 0) + tree.copies
    return max(Fraction(many, packing.each) / width[pair] for pair, many in load.items())
