"""Rings, grids of rings, and rings of rings.

A ring of p ranks passes each of p chunks on p - 1 times: added up on the way (reduce-scatter), or copied (all-gather);
both for an all-reduce (Patarasuk and Yuan 2009). In step t the rank at place i sends chunk i - t.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabric_plan.models.schedule.group import Group
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.schedule import Columns, IntColumn, check_memory

Shards = list[int]


def around(
    columns: Columns,
    nodes: IntColumn,
    bases: IntColumn,
    count: int,
    steps: int,
    first: int,
    reduce: bool,
    after: IntColumn,
) -> IntColumn:
    """Run one kind of pass on several rings at once; return what each place waits for from then on.

    Parameters
    ----------
    nodes
        Node at each place of each ring; shape (rings, places).
    bases
        First chunk of the block of each ring and place: place i's own block; shape (rings, places), ``count`` chunks each.
    first
        Which block place i sends first: the one of place i + ``first``.
    after
        What each place must have received before: all steps add to that, where they reduce; the first step passes it on,
        where they copy. Shape (rings, places, needs), -1 for nothing.

    Returns
    -------
    Shape (rings, places, needs): the last arrival and ``after``, where they reduce; every arrival and ``after``, where they
    copy, since all of it may be passed on.
    """
    rings, places = nodes.shape
    index = np.arange(places)
    target = np.roll(nodes, -1, axis=1)
    before, arrived = after, []
    for step in range(steps):
        block = bases[:, (index + first - step) % places]
        sent = columns.add(
            nodes.ravel(), target.ravel(), block.ravel(), count, reduce=reduce, needs=before.reshape(rings * places, -1)
        )
        arrived.append(np.roll(sent.reshape(rings, places), 1, axis=1))
        before = arrived[-1][:, :, None]
        if reduce:
            before = np.concatenate([before, after], axis=-1)  # what it adds to is there since then
    if reduce:
        return before
    return np.concatenate([np.stack(arrived, axis=-1), after], axis=-1)


def _turns(pattern: str) -> list[tuple[int, bool]]:
    """Return the passes of a pattern: (first block relative to the sender's place, whether it reduces)."""
    if pattern == "all-reduce":
        return [(0, True), (1, False)]
    return [(-1, True)] if pattern == "reduce-scatter" else [(0, False)]


def ring(columns: Columns, group: Group, chunks: int) -> Shards:
    """One ring, along the grid where there is one."""
    return _rings(columns, group, [group.ring()])


def double_ring(columns: Columns, group: Group, chunks: int) -> Shards:
    """Two rings that run against one another, each with half of the data."""
    return _rings(columns, group, [group.ring(), group.ring()[::-1]])


def _rings(columns: Columns, group: Group, orders: Sequence[IntColumn]) -> Shards:
    size, pattern = group.size, group.job.pattern
    if pattern in ("broadcast", "reduce"):
        raise InvalidProblem(f"ring: a {pattern} along a ring is the planner chain")
    turns = _turns(pattern)
    check_memory(len(orders) * len(turns) * (size - 1) * size, "ring")
    nodes = np.stack([group.nodes[order] for order in orders])
    bases = np.arange(len(orders) * size).reshape(len(orders), size)
    before = np.full((len(orders), size, 1), -1)
    for first, reduce in turns:
        before = around(columns, nodes, bases, 1, size - 1, first, reduce, before)
    return [int(rank) for order in orders for rank in order]


def chain(columns: Columns, group: Group, chunks: int) -> Shards:
    """The data in chunks from rank to rank along the ring, away from the root (broadcast) or towards it (reduce)."""
    size, order = group.size, group.ring()
    check_memory(chunks * (size - 1), "chain")
    at = int(np.flatnonzero(order == 0)[0])
    nodes = group.nodes[np.roll(order, -at)]
    reduce = group.job.pattern == "reduce"
    if reduce:
        nodes = nodes[::-1]
    pieces = np.arange(chunks)
    before: IntColumn | None = None
    for place in range(size - 1):
        sent = columns.add(
            np.full(chunks, nodes[place]),
            nodes[place + 1],
            pieces,
            reduce=reduce,
            needs=None if before is None else before,
        )
        before = sent
    return [0] * chunks


def dimension_wise(columns: Columns, group: Group, chunks: int) -> Shards:
    """Rings along one axis after another, a part of the data starting on each axis in each direction.

    A part runs its reduce-scatter along its axes in turn, on ever smaller blocks, and its all-gather back (Ying et al.
    2018; Mikami et al. 2018); on d axes of a torus 2d parts keep every link busy.
    """
    sides = [side for side in group.shape if side > 1]
    if not sides or not group.wraps:
        raise InvalidProblem(f"dimension-wise: {group.fabric.name} is not a whole torus or ring")
    axes, size, pattern = len(sides), group.size, group.job.pattern
    directions = 2 if max(sides) > 2 else 1
    passes = (2 if pattern == "all-reduce" else 1) * sum(side - 1 for side in sides)
    check_memory(axes * directions * passes * size, "dimension-wise")
    ranks = np.arange(size).reshape(sides)
    shards: Shards = []
    plans = []
    for part in range(axes * directions):
        order = [(part + k) % axes for k in range(axes)]  # the first axis is reduced first
        grid = ranks.transpose(order)
        if part >= axes:
            grid = grid[tuple(slice(None, None, -1) for _ in range(axes))]
        plans.append(grid)
        # Chunks are numbered by place on the turned grid, so that what is left after an axis is in one piece.
        shards += [int(rank) for rank in grid.ravel()]
    for part, grid in enumerate(plans):
        lengths = grid.shape
        base = part * size
        before = np.full((*lengths, 1), -1)
        if pattern in ("all-reduce", "reduce-scatter"):
            for axis in range(axes):
                # Its own block comes last, so that it is what place i has in full at the end.
                before = _along(columns, group, grid, base, axis, -1, True, before)
        if pattern in ("all-reduce", "all-gather"):
            for axis in reversed(range(axes)):
                before = _along(columns, group, grid, base, axis, 0, False, before)
    return shards


def _along(
    columns: Columns, group: Group, grid: IntColumn, base: int, axis: int, first: int, reduce: bool, before: IntColumn
) -> IntColumn:
    """Run a pass along one axis of a turned grid; return what each place waits for afterwards, shape (*grid, needs)."""
    lengths = grid.shape
    length = lengths[axis]
    block = int(np.prod(lengths[axis + 1 :], dtype=np.int64))
    lines = np.moveaxis(grid, axis, -1).reshape(-1, length)
    place = np.arange(grid.size).reshape(lengths)
    starts = np.moveaxis(place, axis, -1).reshape(-1, length)
    # The block of a place: its index on this axis and the axes before, everything on the axes after.
    bases = base + starts // block * block
    waits = np.moveaxis(before, axis, -2).reshape(-1, length, before.shape[-1])
    arrivals = around(columns, group.nodes[lines], bases, block, length - 1, first, reduce, waits)
    shape = [lengths[k] for k in range(len(lengths)) if k != axis] + [length, arrivals.shape[-1]]
    return np.moveaxis(arrivals.reshape(shape), -2, axis)


def hierarchical(columns: Columns, group: Group, chunks: int) -> Shards:
    """Rings inside the boxes, rings between ranks of equal place in all boxes, rings inside the boxes again."""
    boxes = np.array(group.boxes())
    count, size = boxes.shape
    pattern = group.job.pattern
    nodes = group.nodes[boxes]
    check_memory((2 if pattern == "all-reduce" else 1) * (count * size * (size + count)), "hierarchical")
    # Chunk (place in the box, box): a rank's own has its own place and box.
    own = np.arange(size)[None, :] * count + np.arange(count)[:, None]
    inside = np.broadcast_to(np.arange(size) * count, (count, size))
    before = np.full((count, size, 1), -1)
    if pattern in ("all-reduce", "reduce-scatter"):
        before = around(columns, nodes, inside, count, size - 1, -1, True, before)
        waits = np.moveaxis(before, 0, 1)
        before = np.moveaxis(around(columns, nodes.T, own.T, 1, count - 1, -1, True, waits), 0, 1)
    if pattern in ("all-reduce", "all-gather"):
        waits = np.moveaxis(before, 0, 1)
        before = np.moveaxis(around(columns, nodes.T, own.T, 1, count - 1, 0, False, waits), 0, 1)
        around(columns, nodes, inside, count, size - 1, 0, False, before)
    return [int(boxes[box, place]) for place in range(size) for box in range(count)]
