"""A list schedule: which of the transfers that wait for a link goes next, and needs that make a runtime keep to that order."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Served = Sequence[tuple[int, float]]
"""The links of a transfer and its seconds on each, one after another."""


def begun(served: Sequence[Served], needs: Sequence[Sequence[int]], rank: Sequence[float] | None = None) -> list[int]:
    """Return transfers in the order in which a list schedule begins them: each link takes the one of the lowest rank that waits for it.

    Parameters
    ----------
    served
        By transfer; a link serves one at a time, and what comes over other links is served as it comes.
    rank
        By transfer; its number where None.
    """
    count = len(served)
    place = list(range(count)) if rank is None else np.argsort(np.argsort(np.array(rank), kind="stable")).tolist()
    at_place = [0] * count
    for one, where in enumerate(place):
        at_place[where] = one
    left = [len(one) for one in needs]
    after: list[list[int]] = [[] for _ in range(count)]
    for one, mine in enumerate(needs):
        for other in mine:
            after[other].append(one)
    free: dict[int, float] = {}
    waiting: dict[int, list[int]] = {}
    # Events: a transfer is ready (0), a link is free (1), a transfer has arrived (2).
    events: list[tuple[float, int, int]] = [(0.0, 0, place[one]) for one in range(count) if left[one] == 0]
    heapq.heapify(events)
    order: list[int] = []
    while events:
        now, kind, what = heapq.heappop(events)
        if kind == 2:
            for other in after[what]:
                left[other] -= 1
                if left[other] == 0:
                    heapq.heappush(events, (now, 0, place[other]))
            continue
        link = served[at_place[what]][0][0] if kind == 0 else what
        queue = waiting.setdefault(link, [])
        if kind == 0:
            heapq.heappush(queue, what)
        if not queue or free.get(link, 0.0) > now:
            continue
        one = at_place[heapq.heappop(queue)]
        end = now
        for hop, seconds in served[one]:
            end = max(end, free.get(hop, 0.0)) + seconds
            free[hop] = end
        heapq.heappush(events, (free[link], 1, link))
        heapq.heappush(events, (end, 2, one))
        order.append(one)
    return order


def kept(
    order: Sequence[int], served: Sequence[Served], needs: Sequence[Sequence[int]], window: int, first: int
) -> NDArray[np.int32]:
    """Return needs by place in an order, shape (transfers, most): numbers counted from ``first``, -1 for none.

    Each transfer also needs the one ``window`` places before it on its first link, so that no more are under way.
    """
    place = np.empty(len(order), dtype=np.int64)
    place[list(order)] = np.arange(len(order)) + first
    table = np.full((len(order), max((len(one) for one in needs), default=0) + 1), -1, dtype=np.int32)
    under_way: dict[int, list[int]] = {}
    for row, one in enumerate(order):
        mine = list(needs[one])
        table[row, : len(mine)] = place[mine]
        before = under_way.setdefault(served[one][0][0], [])
        if len(before) >= window:
            table[row, -1] = before[-window]
        before.append(row + first)
    return table
