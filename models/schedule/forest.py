"""Collectives along packed trees, in pieces that follow one another: as fast as the worst cut allows, but for the first pieces' way.

An all-gather sends every root's shard down its trees, a reduce-scatter adds up along the trees of the graph turned round, an all-reduce does
the one after the other: on a fabric that is equally wide both ways along the same trees, so that a piece goes down as soon as it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from fabric_plan.models.schedule.cuts import gather_cut
from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.listed import relisted
from fabric_plan.models.schedule.logical import logical
from fabric_plan.models.schedule.packing import Packing, Tree, pack
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.schedule import Columns, IntColumn, check_memory, padded

Shards = list[int]

MOST_EDGES = 6_000
"""Pairs of ranks above which packing takes minutes."""

MOST_CHUNKS = 120_000
MOST_TRANSFERS = 400_000
MOST_LISTED = 600_000

MOST_PIECES = 64


@lru_cache(maxsize=16)
def _packed(fabric: Fabric, job: object, reverse: bool) -> Packing:
    group = Group(fabric, job)  # type: ignore[arg-type]
    cut = gather_cut(fabric, group.nodes.tolist(), reverse=reverse)
    graph = logical(group, cut.seconds, reverse=reverse)
    if len(graph.width) > MOST_EDGES:
        raise InvalidProblem(
            f"trees: {len(graph.width):,} pairs of ranks are too many to pack (at most {MOST_EDGES:,})"
        )
    return pack(graph)


def packing_of(group: Group, *, reverse: bool = False) -> Packing:
    """Return the trees of a group; ``reverse``: those of a reduce-scatter, whose edges point away from the root all the same.

    Raises
    ------
    InvalidProblem
        When the ranks are not joined, or are too many.
    """
    return _packed(group.fabric, group.job, reverse)


def even(group: Group) -> bool:
    """Whether every link has one of equal width that leads back."""
    width: dict[tuple[int, int], int] = {}
    for link in group.fabric.links:
        width[link.source, link.target] = width.get((link.source, link.target), 0) + link.bandwidth
    return all(width.get((b, a)) == one for (a, b), one in width.items())


def pieces_of(group: Group) -> int:
    """Return into how many pieces each tree's part is cut: a piece is late once a level, a further piece is not.

    So as many as leave each on the narrowest link for half as long as under way, and not more transfers than are quick to judge.
    """
    packing = packing_of(group, reverse=group.job.pattern == "reduce-scatter")
    per_piece = sum(len(tree.edges) for tree in packing.trees) * (2 if group.job.pattern == "all-reduce" else 1)
    most = max(1, MOST_TRANSFERS // per_piece)
    part = float(group.job.size) / group.size / max(1, len(packing.trees) // group.size)
    wait = float(group.latency) * min(link.bandwidth for link in group.fabric.links)
    return int(max(1, min(most, MOST_PIECES, round(2 * part / wait) if wait > 0 else MOST_PIECES)))


def trees(group: Group, chunks: int) -> Iterator[tuple[Columns, Shards]]:
    """Yield collectives along packed trees, ``chunks`` pieces a tree: as they come, and in each order that list schedules find."""
    columns = Columns()
    shards = _written(columns, group, chunks)
    yield columns, shards
    transfers = columns.transfers()
    if len(transfers) <= MOST_LISTED:
        for one in relisted(group, transfers, group.job.size / len(shards)):
            yield one, shards


def _written(columns: Columns, group: Group, chunks: int) -> Shards:
    """Write an all-gather, reduce-scatter or all-reduce along packed trees, ``chunks`` pieces a tree."""
    pattern, size = group.job.pattern, group.size
    both = pattern == "all-reduce"
    down = None if pattern == "reduce-scatter" else _coarse(packing_of(group), chunks)
    same = both and even(group)
    up = down if same else _coarse(packing_of(group, reverse=True), chunks) if pattern != "all-gather" else None
    each = max(one.each for one in (down, up) if one is not None)
    if down is not None and up is not None and down.each != up.each:
        # Both cut shards alike: into the parts of the finer one of the two, of which the other takes several together.
        each = int(np.lcm(down.each, up.each))
        if each * size * chunks > 4 * MOST_CHUNKS:
            raise InvalidProblem("trees: the shares of the trees up and down have too little in common")
    total = sum(len(tree.edges) for one in (down, up) if one is not None for tree in one.trees) * chunks
    check_memory(total, "trees")
    ends: list[IntColumn] = []
    if up is not None:
        ends = _up(columns, group, _Edges(up, each, chunks), chunks)
    if down is not None:
        edges = _Edges(down, each, chunks)
        ready: list[IntColumn] | None = None
        if same:
            ready = ends
        elif ends:
            # The trees down are others than those up: a root waits for its whole shard.
            assert up is not None
            roots = np.array([tree.root for tree in up.trees])
            every = np.concatenate(ends, axis=1)
            joined = np.zeros(size, dtype=np.int64)
            for root in range(size):
                needs = every[roots == root].ravel()
                node = group.nodes[[root]]
                joined[root] = int(columns.add(node, node, 0, 0, needs=needs[needs >= 0][None, :])[0])
            ready = [joined[[tree.root for tree in down.trees]][:, None]] * chunks
        _down(columns, group, edges, chunks, ready)
    return [root for root in range(size) for _ in range(each * chunks)]


def _coarse(packing: Packing, chunks: int) -> Packing:
    """Return a packing whose shares are whole parts of few enough: rounded where the exact ones would be too many chunks."""
    most = max(1, MOST_CHUNKS // (packing.ranks * chunks))
    if packing.each <= most:
        return packing
    trees: list[Tree] = []
    each = max(most, 1)
    for root in range(packing.ranks):
        mine = [tree for tree in packing.trees if tree.root == root]
        shares = [tree.copies * each / packing.each for tree in mine]
        whole = [int(share) for share in shares]
        order = sorted(range(len(mine)), key=lambda k: whole[k] - shares[k])
        for k in order[: each - sum(whole)]:
            whole[k] += 1
        trees += [Tree(root, many, tree.edges) for tree, many in zip(mine, whole, strict=True) if many]
    return Packing(packing.ranks, each, tuple(trees))


class _Edges:
    """The edges of all trees as columns, in the order of their depth."""

    def __init__(self, packing: Packing, each: int, chunks: int) -> None:
        times = each // packing.each
        used: dict[int, int] = {}
        rows: list[tuple[int, int, int, int, int]] = []
        self.trees = len(packing.trees)
        first, count = np.zeros(self.trees, dtype=np.int64), np.zeros(self.trees, dtype=np.int64)
        for number, tree in enumerate(packing.trees):
            before = used.get(tree.root, 0)
            used[tree.root] = before + tree.copies
            # A root's parts lie one after the other, each in as many pieces as follow one another.
            first[number] = (tree.root * each + before * times) * chunks
            count[number] = tree.copies * times
            depth, edge_to = {tree.root: 0}, {tree.root: -1}
            base = len(rows)
            for k, (a, b) in enumerate(tree.edges):
                depth[b], edge_to[b] = depth[a] + 1, base + k
                rows.append((number, a, b, depth[b], edge_to[a]))
        table = np.array(rows, dtype=np.int64).reshape(-1, 5)
        self.tree, self.parent, self.child, self.depth, self.above = table.T
        self.first, self.count = first[self.tree], count[self.tree]
        self.levels = [np.flatnonzero(self.depth == d) for d in range(1, int(self.depth.max(initial=0)) + 1)]
        below: list[list[int]] = [[] for _ in rows]
        tops: list[list[int]] = [[] for _ in range(self.trees)]
        for k, (number, _, _, _, above) in enumerate(rows):
            (below[above] if above >= 0 else tops[number]).append(k)
        self.below, self.tops = padded(below), padded(tops)
        """Edges that lead on from each edge, and from each root; shape (edges or trees, most), -1 for none."""


def _down(columns: Columns, group: Group, edges: _Edges, chunks: int, ready: list[IntColumn] | None) -> None:
    """Send all parts from their roots, piece by piece; ``ready``: what each tree's root waits for, shape (trees, needs), a piece each."""
    number = np.full(len(edges.tree) + 1, -1, dtype=np.int64)
    for piece in range(chunks):
        for depth, rows in enumerate(edges.levels):
            needs: IntColumn | None = number[edges.above[rows]][:, None]
            if depth == 0:
                needs = None if ready is None else ready[piece][edges.tree[rows]]
            number[rows] = columns.add(
                group.nodes[edges.parent[rows]],
                group.nodes[edges.child[rows]],
                edges.first[rows] + piece * edges.count[rows],
                edges.count[rows],
                needs=needs,
            )


def _up(columns: Columns, group: Group, edges: _Edges, chunks: int) -> list[IntColumn]:
    """Add all parts up towards their roots, piece by piece; return what makes a root's piece complete, shape (trees, needs), a piece each."""
    found: list[IntColumn] = []
    for piece in range(chunks):
        number = np.full(len(edges.tree) + 1, -1, dtype=np.int64)
        for level in reversed(edges.levels):
            # Everyone begins with another receiver, so that no link is everyone's at once.
            rows = level[np.argsort((edges.parent[level] - edges.child[level]) % group.size, kind="stable")]
            number[rows] = columns.add(
                group.nodes[edges.child[rows]],
                group.nodes[edges.parent[rows]],
                edges.first[rows] + piece * edges.count[rows],
                edges.count[rows],
                reduce=True,
                needs=number[edges.below[rows]],
            )
        found.append(number[edges.tops])
    return found
