"""Trees and recursive exchanges (Thakur, Rabenseifner and Gropp 2005; Sanders, Speck and Traeff 2009)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabric_plan.models.schedule.group import Group
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.schedule import Columns, IntColumn, check_memory

Shards = list[int]


class _Inbox:
    """Keeps, for each rank, what has arrived there: a send may need all of it."""

    def __init__(self, ranks: int) -> None:
        self._arrived: list[IntColumn] = []
        self._ranks = ranks

    def put(self, ranks: IntColumn, transfers: IntColumn) -> None:
        column = np.full(self._ranks, -1)
        column[ranks] = transfers
        self._arrived.append(column)

    def of(self, ranks: IntColumn) -> IntColumn | None:
        return np.stack(self._arrived, axis=1)[ranks] if self._arrived else None


def _fold(group: Group) -> tuple[IntColumn, IntColumn, IntColumn]:
    """Return (ranks that are folded away, those they fold into, the 2^k ranks that are left in order)."""
    size = group.size
    rest = size - (1 << (size.bit_length() - 1))
    gone = 2 * np.arange(rest)
    return gone, gone + 1, np.concatenate([gone + 1, np.arange(2 * rest, size)])


def _only_powers(name: str, group: Group) -> None:
    if group.size & (group.size - 1):
        raise InvalidProblem(
            f"{name}: a {group.job.pattern} needs a power of two of ranks, there are {group.size}: use ring or direct"
        )


def recursive_doubling(columns: Columns, group: Group, chunks: int) -> Shards:
    """Exchange everything with a partner twice as far each time; other numbers of ranks are folded to a power of two."""
    nodes, size = group.nodes, group.size
    inbox = _Inbox(size)
    if group.job.pattern == "all-gather":
        _only_powers("recursive-doubling", group)
        ranks = np.arange(size)
        for step in range(size.bit_length() - 1):
            _exchange(columns, nodes, inbox, ranks, ranks ^ (1 << step), ranks >> step << step, 1 << step, reduce=False)
        return list(range(size))
    gone, into, left = _fold(group)
    if len(gone):
        inbox.put(into, columns.add(nodes[gone], nodes[into], 0, reduce=True))
    for step in range(len(left).bit_length() - 1):
        partners = left[np.arange(len(left)) ^ (1 << step)]
        _exchange(columns, nodes, inbox, left, partners, 0, 1, reduce=True)
    if len(gone):
        columns.add(nodes[into], nodes[gone], 0, needs=inbox.of(into))
    return [0]


def _exchange(
    columns: Columns,
    nodes: IntColumn,
    inbox: _Inbox,
    ranks: IntColumn,
    partners: IntColumn,
    first: IntColumn | int,
    count: int,
    *,
    reduce: bool,
) -> None:
    sent = columns.add(nodes[ranks], nodes[partners], first, count, reduce=reduce, needs=inbox.of(ranks))
    inbox.put(partners, sent)


def halving_doubling(columns: Columns, group: Group, chunks: int) -> Shards:
    """Reduce-scatter by halves, with a partner twice as far each time, and the way back as all-gather (Rabenseifner).

    Other numbers of ranks are folded by whole buffers: two more steps, twice the size more bytes.
    """
    nodes, size, pattern = group.nodes, group.size, group.job.pattern
    if pattern != "all-reduce":
        _only_powers("halving-doubling", group)
    gone, into, left = _fold(group)
    power, levels = len(left), len(left).bit_length() - 1
    check_memory(2 * levels * power, "halving-doubling")
    inbox = _Inbox(size)
    if len(gone):
        inbox.put(into, columns.add(nodes[gone], nodes[into], 0, power, reduce=True))
    place = np.arange(power)
    # Chunk numbers have a place's bits from the first step downwards, so that each half is in one piece.
    turned = np.zeros(power, dtype=np.int64)
    for step in range(levels):
        turned |= (place >> step & 1) << (levels - 1 - step)
    for reduce, steps in ((True, range(levels)), (False, range(levels - 1, -1, -1))):
        if (pattern == "reduce-scatter" and not reduce) or (pattern == "all-gather" and reduce):
            continue
        for step in steps:
            half = power >> (step + 1)
            partner = place ^ (1 << step)
            # Reducing, it sends the half that its partner keeps; gathering, the half that it has.
            first = turned[partner if reduce else place] // half * half
            _exchange(columns, nodes, inbox, left, left[partner], first, half, reduce=reduce)
    if len(gone):
        columns.add(nodes[into], nodes[gone], 0, power, needs=inbox.of(into))
    shards = [0] * power
    for rank, chunk in zip(left.tolist(), turned.tolist(), strict=True):
        shards[chunk] = rank
    return shards


def binomial_tree(columns: Columns, group: Group, chunks: int) -> Shards:
    """Whole buffers along a binomial tree: towards rank 0 (reduce), away from it (broadcast), or both (all-reduce)."""
    nodes, size, pattern = group.nodes, group.size, group.job.pattern
    inbox = _Inbox(size)
    steps = [1 << k for k in range((size - 1).bit_length())]
    if pattern != "broadcast":
        for step in reversed(steps):
            ranks = np.arange(step, min(2 * step, size))
            inbox.put(
                ranks - step, columns.add(nodes[ranks], nodes[ranks - step], 0, reduce=True, needs=inbox.of(ranks))
            )
    if pattern != "reduce":
        for step in steps:
            ranks = np.arange(min(step, size - step))
            inbox.put(ranks + step, columns.add(nodes[ranks], nodes[ranks + step], 0, needs=inbox.of(ranks)))
    return [0]


def tree_parents(size: int) -> list[int]:
    """Return the parent of each rank in a binary tree whose inner nodes are even: the leaves are odd; -1 for the root 0.

    A rank's height is that of its lowest set bit; it hangs below the next even multiple of that bit, or, where there is
    no such rank, below the one before.
    """
    parents = [-1] * size
    for rank in range(1, size):
        bit = rank & -rank
        up = (rank ^ bit) | (bit << 1)
        parents[rank] = up if up < size else rank ^ bit
    return parents


def double_tree(size: int) -> list[list[int]]:
    """Return the parents of two trees in which no rank is an inner node of both, but for the roots."""
    one = tree_parents(size)
    other = [-1] * size
    for rank, parent in enumerate(one):
        # The mirror image swaps odd and even where the number of ranks is even, a shift by one where it is odd.
        image = [size - 1 - x if size % 2 == 0 else (x + 1) % size for x in (rank, parent)]
        other[image[0]] = image[1] if parent >= 0 else -1
    return [one, other]


def double_binary_tree(columns: Columns, group: Group, chunks: int) -> Shards:
    """Half of the chunks along each of two binary trees, one chunk after another: up for reducing, down for the result.

    A broadcast or reduce has the trees among the other ranks, each fed by (or feeding) rank 0.
    """
    nodes, size, pattern = group.nodes, group.size, group.job.pattern
    chunks += chunks % 2
    check_memory(2 * chunks * size, "double-binary-tree")
    rooted = pattern in ("broadcast", "reduce")
    members = np.arange(1, size) if rooted else np.arange(size)
    for tree, parents in enumerate(double_tree(len(members))):
        ranks, above = members.tolist(), [int(members[up]) if up >= 0 else -1 for up in parents]
        if rooted:
            ranks, above = [0, *ranks], [-1, *(0 if up < 0 else up for up in above)]
        up_of = dict(zip(ranks, above, strict=True))
        pieces = np.arange(tree * chunks // 2, (tree + 1) * chunks // 2)
        pipelined(columns, nodes, up_of, pieces, up=pattern != "broadcast", down=pattern != "reduce")
    return [0] * chunks


def pipelined(
    columns: Columns, nodes: IntColumn, up_of: dict[int, int], pieces: IntColumn, *, up: bool, down: bool
) -> None:
    """Send chunks one after another along a tree, given by the rank above each rank (-1: the root)."""
    below: dict[int, list[int]] = {rank: [] for rank in up_of}
    for rank, above in up_of.items():
        if above >= 0:
            below[above].append(rank)
    root = next(rank for rank, above in up_of.items() if above < 0)
    order = [root]
    for rank in order:
        order += below[rank]
    into: dict[int, list[IntColumn]] = {rank: [] for rank in up_of}
    if up:
        for rank in reversed(order[1:]):
            into[up_of[rank]].append(_send(columns, nodes, rank, up_of[rank], pieces, into[rank], reduce=True))
    if down:
        for rank in order[1:]:
            above = up_of[rank]
            waits = into[above] if above == root else into[above][-1:]
            into[rank].append(_send(columns, nodes, above, rank, pieces, waits, reduce=False))


def _send(
    columns: Columns,
    nodes: IntColumn,
    rank: int,
    other: int,
    pieces: IntColumn,
    waits: Sequence[IntColumn],
    *,
    reduce: bool,
) -> IntColumn:
    needs = np.stack(waits, axis=1) if waits else None
    return columns.add(np.full(len(pieces), nodes[rank]), nodes[other], pieces, reduce=reduce, needs=needs)
