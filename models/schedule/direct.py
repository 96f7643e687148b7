"""Everyone to everyone at once: the right thing where every pair has a path of its own."""

from __future__ import annotations

import numpy as np

from fabric_plan.models.schedule.group import Group
from fabric_plan.planner.schedule import Columns, check_memory

Shards = list[int]

MOST_PIECES = 16
MOST_TRANSFERS = 100_000


def direct(columns: Columns, group: Group, chunks: int) -> Shards:
    """Each rank sends to each other directly, nearest number first; an all-reduce scatters sums and gathers them.

    All data go in ``chunks`` pieces one after another, so that a switch that stores and forwards delays one piece at the end, not all.
    """
    nodes, size, pattern = group.nodes, group.size, group.job.pattern
    if pattern in ("gather", "scatter"):
        root, rest = np.repeat(nodes[:1], size - 1), nodes[1:]
        source, target = (rest, root) if pattern == "gather" else (root, rest)
        for piece in range(chunks):
            columns.add(source, target, np.arange(1, size) * chunks + piece)
        return [shard for shard in range(size) for _ in range(chunks)]
    check_memory((2 if pattern == "all-reduce" else 1) * size * (size - 1) * chunks, "direct")
    # Rank i's k-th partner is i + k, so that no receiver is everyone's partner at once.
    sender = np.tile(np.arange(size), size - 1)
    receiver = (sender + np.repeat(np.arange(1, size), size)) % size
    source, target = nodes[sender], nodes[receiver]
    for piece in range(chunks):
        if pattern == "all-to-all":
            columns.add(source, target, (sender * size + receiver) * chunks + piece)
            continue
        joined = None
        if pattern != "all-gather":
            sent = columns.add(source, target, receiver * chunks + piece, reduce=True)
            # What arrives at rank j, by the step in which it was sent.
            arrived = np.stack([np.roll(row, k + 1) for k, row in enumerate(sent.reshape(size - 1, size))], axis=1)
            if pattern == "all-reduce":
                joined = columns.add(nodes, nodes, 0, 0, needs=arrived)[sender, None]
        if pattern != "reduce-scatter":
            columns.add(source, target, sender * chunks + piece, needs=joined)
    blocks = size * size if pattern == "all-to-all" else size
    return [block for block in range(blocks) for _ in range(chunks)]


def pieces_of(group: Group) -> int:
    """Return into how many pieces data are cut: one where pairs are neighbours, else as many as keep serialisation above latency."""
    if len(group.fabric.route(group.job.group[0], group.job.group[1])[0]) == 1:
        return 1
    part = float(group.job.size) / group.size
    wait = float(group.latency) * float(group.bandwidth)
    most = max(1, MOST_TRANSFERS // (group.size * (group.size - 1)))
    return int(max(1, min(most, MOST_PIECES, part / wait if wait else MOST_PIECES)))
