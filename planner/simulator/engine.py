"""The event simulation of transfers on links, in exact integer ticks.

A program is flat arrays, so that it can be handed to a compiled kernel as it is. A transfer is a set of hops; each hop
crosses one link once its parent hop has arrived, or, if it has none, once every transfer that its own depends on has
finished. A chain of hops is a route, a tree is a multicast, several chains are striped paths.

A link serves hops in the order in which they become ready, ties by transfer and hop number (FIFO). A hop holds its link
for size/bandwidth and arrives a latency later (store and forward).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Link

DISCIPLINE = "fifo, store-and-forward"

_ARRIVED, _READY = 0, 1


@dataclass(slots=True)
class Program:
    """Transfers in compressed rows.

    ``hop_link``, ``hop_parent`` and ``hop_size`` are indexed by hop, ``hop_start[t]:hop_start[t + 1]`` being the hops of
    transfer t; a parent is a hop's number, or -1. ``need`` with ``need_start`` lists the transfers that each depends on.
    Sizes are whole numbers of 1/``scale`` bytes.
    """

    scale: int = 1
    hop_start: list[int] = field(default_factory=lambda: [0])
    hop_link: list[int] = field(default_factory=list)
    hop_parent: list[int] = field(default_factory=list)
    hop_size: list[int] = field(default_factory=list)
    need_start: list[int] = field(default_factory=lambda: [0])
    need: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.hop_start) - 1

    def add(self, hops: Iterable[tuple[int, int]], size: int, needs: Sequence[int] = ()) -> int:
        """Append a transfer and return its number.

        ``hops`` are pairs (link, parent), parents counted from this transfer's first hop (-1 for none); every hop
        carries ``size``.
        """
        first = len(self.hop_link)
        for link, parent in hops:
            self.hop_link.append(link)
            self.hop_parent.append(parent if parent < 0 else first + parent)
            self.hop_size.append(size)
        self.hop_start.append(len(self.hop_link))
        self.need.extend(needs)
        self.need_start.append(len(self.need))
        return len(self) - 1


@dataclass(frozen=True, slots=True)
class Timeline:
    """When things happened, in ticks of 1/``ticks_per_second`` s.

    ``finish`` is indexed by transfer, ``busy`` by link.
    """

    ticks_per_second: int
    finish: list[int]
    busy: list[int]

    @property
    def seconds(self) -> Fraction:
        """When the last transfer finished."""
        return Fraction(max(self.finish, default=0), self.ticks_per_second)


def run(program: Program, links: Sequence[Link]) -> Timeline:
    """Simulate ``program`` on ``links``.

    Raises
    ------
    InvalidInput
        When dependencies form a cycle, naming a transfer on it.
    """
    used = set(program.hop_link)
    ticks = 1
    for link in used:
        ticks = math.lcm(ticks, program.scale * links[link].bandwidth, links[link].latency.denominator)
    per_unit = {link: ticks // (program.scale * links[link].bandwidth) for link in used}
    latency = {link: int(links[link].latency * ticks) for link in used}

    children: list[list[int]] = [[] for _ in program.hop_link]
    for hop, parent in enumerate(program.hop_parent):
        if parent >= 0:
            children[parent].append(hop)
    dependents: list[list[int]] = [[] for _ in range(len(program))]
    waiting = [0] * len(program)
    for transfer in range(len(program)):
        needs = program.need[program.need_start[transfer] : program.need_start[transfer + 1]]
        waiting[transfer] = len(needs)
        for need in needs:
            dependents[need].append(transfer)
    pending = [program.hop_start[t + 1] - program.hop_start[t] for t in range(len(program))]
    owner = [0] * len(program.hop_link)
    for transfer in range(len(program)):
        for hop in range(program.hop_start[transfer], program.hop_start[transfer + 1]):
            owner[hop] = transfer

    finish = [-1] * len(program)
    free = dict.fromkeys(used, 0)
    busy = [0] * len(links)
    # Events (time, kind, transfer, hop): first the transfers whose last hop has arrived, which may set others free at
    # the same time; then the hops that are ready, by number.
    queue: list[tuple[int, int, int, int]] = []

    def begin(transfer: int, now: int) -> None:
        if pending[transfer] == 0:
            heapq.heappush(queue, (now, _ARRIVED, transfer, -1))
        for hop in range(program.hop_start[transfer], program.hop_start[transfer + 1]):
            if program.hop_parent[hop] < 0:
                heapq.heappush(queue, (now, _READY, transfer, hop))

    last = [0] * len(program)
    for transfer in range(len(program)):
        if waiting[transfer] == 0:
            begin(transfer, 0)
    while queue:
        now, kind, transfer, hop = heapq.heappop(queue)
        if kind == _ARRIVED:
            finish[transfer] = now
            for after in dependents[transfer]:
                waiting[after] -= 1
                if waiting[after] == 0:
                    begin(after, now)
            continue
        link = program.hop_link[hop]
        length = program.hop_size[hop] * per_unit[link]
        start = max(now, free[link])
        free[link] = start + length
        busy[link] += length
        arrival = start + length + latency[link]
        for child in children[hop]:
            heapq.heappush(queue, (arrival, _READY, transfer, child))
        last[transfer] = max(last[transfer], arrival)
        pending[transfer] -= 1
        if pending[transfer] == 0:
            heapq.heappush(queue, (last[transfer], _ARRIVED, transfer, -1))
    stuck = next((transfer for transfer, end in enumerate(finish) if end < 0), None)
    if stuck is not None:
        raise InvalidInput(f"transfer {stuck} can never start: its dependencies form a cycle")
    return Timeline(ticks, finish, busy)
