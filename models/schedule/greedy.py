"""A greedy all-gather in synchronous steps of one round: every link that can bring something new does, the rarest first.

A rank takes over each of its links a chunk that the sender held before the step and that it lacks; links with the least choice choose first, and
two links never bring the same. Ties are broken at random, and runs repeated until one needs no more steps than asked.

Source: Won et al., TACOS, for matching links to chunks step by step; here nothing is sent before it is held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fabric_plan.models.schedule.synchronous import Net, Send
    from fabric_plan.planner.interface import Budget

MOST_SLOTS = 1 << 22
"""Ranks times chunks up to which a run takes seconds."""

Sent = list[tuple[int, int, int, int]]
"""Chunk, source, target, step."""


def greedy(net: Net, steps: int, chunks: int, budget: Budget, *, runs: int = 40) -> tuple[Send, ...] | None:
    """Return an all-gather in at most so many steps of one round each, None where no run finds one.

    Links carry as many chunks a step as their width, rounded down.
    """
    from fabric_plan.models.schedule.synchronous import Send

    random = np.random.default_rng(budget.seed)
    into: list[list[tuple[int, int]]] = [[] for _ in range(net.ranks)]
    for (a, b), width in zip(net.edges, net.width, strict=True):
        into[b].append((a, int(width)))
    if net.ranks**2 * chunks > MOST_SLOTS:
        return None
    for _ in range(runs):
        if budget.left == 0:
            return None
        sent = _run(net.ranks, into, steps, chunks, random)
        if sent is not None:
            return tuple(Send(chunk // chunks, chunk % chunks, a, b, step) for chunk, a, b, step in sent)
    return None


def _run(
    ranks: int, into: list[list[tuple[int, int]]], steps: int, chunks: int, random: np.random.Generator
) -> Sent | None:
    total = ranks * chunks
    held = np.zeros((ranks, total), dtype=bool)
    for rank in range(ranks):
        held[rank, rank * chunks : (rank + 1) * chunks] = True
    room = np.array([sum(width for _, width in links) for links in into])
    holders = held.sum(axis=0).astype(np.float64)
    sent: Sent = []
    for step in range(steps):
        before = held.copy()
        rarity = holders + random.random(total) * 0.9
        lacking = total - held.sum(axis=1)
        if not lacking.any():
            break
        if (lacking > room * (steps - step)).any():
            return None
        for rank in np.flatnonzero(lacking).tolist():
            lacks = ~held[rank]
            offers: list[tuple[int, int, int, NDArray[np.intp]]] = []
            for source, width in into[rank]:
                choice = np.flatnonzero(before[source] & lacks)
                offers.append((len(choice), source, width, choice))
            offers.sort(key=lambda one: one[0])
            for _, source, width, choice in offers:
                left = choice[lacks[choice]]
                for chunk in left[np.argsort(rarity[left])][:width].tolist():
                    lacks[chunk] = False
                    held[rank, chunk] = True
                    holders[chunk] += 1
                    rarity[chunk] += 1
                    sent.append((chunk, source, rank, step))
    return sent if held.all() else None
