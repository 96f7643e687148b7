"""How long a tree from a root to many ends is at least: dual ascent over directed cuts (Wong 1984), in whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabric_plan.models.schedule.jobs.net import FAR, Whole


def least_tree(moves: Whole, root: int, ends: Sequence[int]) -> int:
    """Return a lower bound on the length of any tree from a root to all ends.

    A set of nodes that holds an end and not the root must be entered. Sets are raised one after another, by what the cheapest move into
    each has left of its length: no move gives more than its length, so that every tree is at least as long as all raises together.
    """
    left = moves.copy()
    np.fill_diagonal(left, FAR)
    total = 0
    waiting = list(ends)
    while waiting:
        end = waiting.pop(0)
        inside = np.zeros(len(left), dtype=bool)
        inside[end] = True
        front = inside
        while front.any():
            front = ((left == 0)[:, front].any(axis=1)) & ~inside
            inside |= front
        if inside[root]:
            continue
        block = left[np.ix_(~inside, inside)]
        step = int(block.min())
        if step >= FAR // 2:
            return FAR
        total += step
        left[np.ix_(~inside, inside)] = np.where(block >= FAR // 2, block, block - step)
        waiting.append(end)
    return total
