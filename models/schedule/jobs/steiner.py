"""Shortest trees between some nodes of a directed graph (Dreyfus and Wagner 1971), for one root or for all roots at once.

Up to :data:`EXACT` ends they are the shortest; with more, each end in turn is joined to the tree by the nearest of its nodes (Takahashi and
Matsuyama 1980).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

EXACT = 6

Number = TypeVar("Number", np.float64, np.int64)
Edges = list[tuple[int, int]]


class Ways:
    """All shortest ways of a graph.

    Parameters
    ----------
    table
        Length of the edge from node to node, inf (or a whole number larger than any way) for none; shape (nodes, nodes).
    """

    def __init__(self, table: NDArray[np.float64]) -> None:
        count = len(table)
        self.distance = table.copy()
        np.fill_diagonal(self.distance, 0)
        self.after = np.where(np.isfinite(table), np.arange(count)[None, :], -1)
        for k in range(count):
            through = self.distance[:, k, None] + self.distance[None, k, :]
            better = through < self.distance
            self.distance[better] = through[better]
            self.after = np.where(better, self.after[:, k, None], self.after)

    def path(self, a: int, b: int) -> Edges:
        """Return the edges of the shortest way."""
        found = []
        while a != b:
            step = int(self.after[a, b])
            found.append((a, step))
            a = step
        return found


def cheapest(distance: NDArray[Number], ends: Sequence[int]) -> dict[int, NDArray[Number]]:
    """Return by set of ends (as bits) the length of the shortest tree from each node to them; exact, for whole numbers too."""
    found: dict[int, NDArray[Number]] = {1 << k: distance[:, end].copy() for k, end in enumerate(ends)}
    for mask in range(1, 1 << len(ends)):
        if mask in found:
            continue
        best = None
        part = (mask - 1) & mask
        while part > mask ^ part:
            both = np.add(found[part], found[mask ^ part])
            best = both if best is None else np.minimum(best, both)
            part = (part - 1) & mask
        assert best is not None
        found[mask] = (distance + best[None, :]).min(axis=1)
    return found


def tree_from(ways: Ways, table: dict[int, NDArray[np.float64]], root: int, ends: Sequence[int]) -> Edges:
    """Return the edges of a shortest tree from a root, by the table of :func:`cheapest`; some may be there twice."""
    edges: Edges = []
    stack = [(root, (1 << len(ends)) - 1)]
    while stack:
        node, mask = stack.pop()
        if mask & (mask - 1) == 0:
            edges += ways.path(node, ends[mask.bit_length() - 1])
            continue
        best, split, at = np.inf, 0, node
        part = (mask - 1) & mask
        while part > mask ^ part:
            both = ways.distance[node] + table[part] + table[mask ^ part]
            here = int(both.argmin())
            if both[here] < best:
                best, split, at = both[here], part, here
            part = (part - 1) & mask
        edges += ways.path(node, at)
        stack += [(at, split), (at, mask ^ split)]
    return edges


def joined(ways: Ways, root: int, ends: Sequence[int]) -> Edges:
    """Return the edges of a short tree from a root to many ends, each joined by its nearest node of the tree."""
    nodes, edges = [root], []
    left = [end for end in ends if end != root]
    while left:
        block = ways.distance[np.ix_(nodes, left)]
        row, column = np.unravel_index(int(block.argmin()), block.shape)
        path = ways.path(nodes[int(row)], left[int(column)])
        edges += path
        nodes += [b for _, b in path]
        there = set(nodes)
        left = [end for end in left if end not in there]
    return edges


def pruned(edges: Edges, root: int, ends: Sequence[int]) -> Edges:
    """Return a tree within these edges, in the order from the root; what leads to no end is left out."""
    below: dict[int, list[int]] = {}
    for a, b in edges:
        below.setdefault(a, []).append(b)
    above: dict[int, int] = {root: -1}
    order = [root]
    for node in order:
        for b in below.get(node, ()):
            if b not in above:
                above[b] = node
                order.append(b)
    wanted: set[int] = set()
    for end in ends:
        node = end
        while node >= 0 and node not in wanted:
            wanted.add(node)
            node = above[node]
    return [(above[node], node) for node in order if node in wanted and above[node] >= 0]
