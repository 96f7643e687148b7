"""Everyone to everyone at once: the right thing where every pair has a path of its own."""

from __future__ import annotations

import numpy as np

from fabric_plan.models.schedule.group import Group
from fabric_plan.planner.schedule import Columns, check_memory

Shards = list[int]


def direct(columns: Columns, group: Group, chunks: int) -> Shards:
    """Each rank sends to each other directly, nearest number first; an all-reduce scatters sums and gathers them."""
    nodes, size, pattern = group.nodes, group.size, group.job.pattern
    check_memory((2 if pattern == "all-reduce" else 1) * size * (size - 1), "direct")
    # Rank i's k-th partner is i + k, so that no receiver is everyone's partner at once.
    sender = np.tile(np.arange(size), size - 1)
    receiver = (sender + np.repeat(np.arange(1, size), size)) % size
    source, target = nodes[sender], nodes[receiver]
    if pattern == "all-to-all":
        columns.add(source, target, sender * size + receiver)
        return list(range(size * size))
    joined = None
    if pattern != "all-gather":
        sent = columns.add(source, target, receiver, reduce=True)
        # What arrives at rank j, by the step in which it was sent.
        arrived = np.stack([np.roll(row, k + 1) for k, row in enumerate(sent.reshape(size - 1, size))], axis=1)
        if pattern == "all-reduce":
            joined = columns.add(nodes, nodes, 0, 0, needs=arrived)[sender, None]
    if pattern != "reduce-scatter":
        columns.add(source, target, sender, needs=joined)
    return list(range(size))
