"""List schedules: which of the transfers that wait for a link goes next, and needs that make a runtime keep to that order.

Each link serves one transfer at a time, of those that wait the one of the lowest rank. Going forward and backward in turn shortens a schedule:
backward, what ends last is first, so that every transfer moves as late as it can; forward again, what then begins first is first. It is kept by
needs that cost nothing: where a transfer would be ready before one that goes ahead of it, it waits for what that one waits for.

Source: Li and Willis, An iterative scheduling technique for resource-constrained project scheduling, EJOR 56 (1992), for the two directions.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabric_plan.models.schedule.group import Group
from fabric_plan.planner.schedule import Columns, IntColumn, Transfers
from fabric_plan.planner.simulator.compiled import compiled

PASSES = 4
"""How often to go forward."""

COMPILED_FROM = 20_000
"""Below so many transfers plain Python is done before the compiler is loaded."""

HORIZON = 2**61


@dataclass(frozen=True)
class Work:
    """Transfers as columns: the hops of each over links, one after another, and what each needs.

    Parameters
    ----------
    hop_start, need_start
        Shape (transfers + 1,).
    hop_link, hop_ticks, hop_wait
        By hop: its link, how long that is busy, and the latency after it, in ticks.
    need
        Numbers of transfers that must have arrived, all lower.
    cut_through
        Whether a hop begins once the first byte has arrived.
    """

    hop_start: IntColumn
    hop_link: IntColumn
    hop_ticks: IntColumn
    hop_wait: IntColumn
    need_start: IntColumn
    need: IntColumn
    cut_through: bool

    def __len__(self) -> int:
        """How many transfers."""
        return len(self.hop_start) - 1

    @property
    def reversed(self) -> Work:
        """The same work going back in time: hops in the other order, and each needs what needed it."""
        count = len(self)
        which = np.repeat(np.arange(count), np.diff(self.hop_start))
        turned = (self.hop_start[:-1] + self.hop_start[1:] - 1)[which] - np.arange(len(self.hop_link))
        owner = np.repeat(np.arange(count), np.diff(self.need_start))
        order = np.argsort(self.need, kind="stable")
        starts = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.need, minlength=count), out=starts[1:])
        hops = {name: getattr(self, name)[turned] for name in ("hop_link", "hop_ticks", "hop_wait")}
        return replace(self, need_start=starts, need=owner[order], **hops)


@dataclass(frozen=True)
class Times:
    """When each transfer is ready, begins and has arrived, in ticks; its place by rank, by which ties go."""

    place: IntColumn
    ready: IntColumn
    start: IntColumn
    end: IntColumn

    @property
    def whole(self) -> int:
        """When all have arrived."""
        return int(self.end.max(initial=0))


def work_of(group: Group, transfers: Transfers, chunk: Fraction) -> Work:
    """Return a schedule's transfers with ``chunk`` bytes a chunk; of striped ways the first stands for all.

    What a node sends to itself only waits: it has a queue of its own.
    """
    fabric = group.fabric
    nodes, links = len(fabric.nodes), len(fabric.links)
    code = (transfers.source.astype(np.int64) * nodes + transfers.target) * (links + 1) + transfers.via + 1
    kinds, sample, kind = np.unique(code, return_index=True, return_inverse=True)
    seat = {node: place for place, node in enumerate(fabric.seats)}
    hops: list[list[tuple[int, Fraction, Fraction]]] = []
    for row in sample.tolist():
        source, target, via = (int(column[row]) for column in (transfers.source, transfers.target, transfers.via))
        if source == target:
            hops.append([(links + source, Fraction(0), Fraction(0))])
            continue
        paths = [(via,)] if via >= 0 else fabric.route(seat[source], seat[target])
        hops.append(
            [(one, chunk / fabric.links[one].bandwidth / len(paths), fabric.links[one].latency) for one in paths[0]]
        )
    lengths = np.array([len(one) for one in hops])[kind.reshape(-1)]
    starts = np.zeros(len(transfers) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    first = np.zeros(len(kinds) + 1, dtype=np.int64)
    np.cumsum([len(one) for one in hops], out=first[1:])
    owner = np.repeat(np.arange(len(transfers)), lengths)
    flat = first[kind.reshape(-1)][owner] + np.arange(starts[-1]) - starts[owner]
    count = np.asarray(transfers.count, dtype=np.int64)[owner]
    served = [seconds for one in hops for _, seconds, _ in one]
    waits = [wait for one in hops for _, _, wait in one]
    most = float(sum(count * np.array([float(one) for one in served])[flat])) + float(sum(map(float, waits))) * len(
        owner
    )
    ticks = math.lcm(*(one.denominator for one in {*served, *waits}))
    if most * ticks >= HORIZON:
        ticks = int(HORIZON / 4 / max(most, 1e-300))
    whole = [np.array([round(one * ticks) for one in ones], dtype=np.int64) for ones in (served, waits)]
    return Work(
        starts,
        np.array([link for one in hops for link, _, _ in one])[flat],
        whole[0][flat] * count,
        whole[1][flat],
        transfers.need_start.astype(np.int64),
        transfers.need.astype(np.int64),
        fabric.costs.switching != "store-forward",
    )


def listed(work: Work, rank: NDArray[Any], *, back: bool = False) -> Times:
    """Return when a list schedule does the work; ``back``: links other than a transfer's first go by rank too, as going back they are first."""
    count = len(work)
    order = np.argsort(rank, kind="stable")
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    after = work.reversed
    columns = (work.hop_start, work.hop_link, work.hop_ticks, work.hop_wait, after.need_start, after.need)
    links = int(work.hop_link.max(initial=0)) + 1
    times = tuple(np.zeros(count, dtype=np.int64) for _ in range(3))
    left = np.diff(work.need_start)
    kernel: Any = _served
    if count >= COMPILED_FROM:
        compiled(kernel)(*columns, left, place, order, not back, work.cut_through, links, *times)
        return Times(place, *times)
    plain: list[Any] = [[0] * count for _ in range(3)]
    inputs = [one.tolist() for one in columns]
    kernel(*inputs, left.tolist(), place.tolist(), order.tolist(), not back, work.cut_through, links, *plain)
    return Times(place, *(np.array(one, dtype=np.int64) for one in plain))


def _served(
    hop_start: Any,
    hop_link: Any,
    hop_ticks: Any,
    hop_wait: Any,
    after_start: Any,
    after: Any,
    left: Any,
    place: Any,
    order: Any,
    come: bool,
    cut_through: bool,
    links: int,
    ready: Any,
    start: Any,
    end: Any,
) -> None:
    """Fill in the times. Transfers go by their place; ``come``: over links after their first as they come, ties by when they began.

    What waits for a link is a skew heap in arrays (Sleator and Tarjan 1986), so that plain Python and compiled code are one.
    """
    count = len(left)
    hop = [0] * count
    came, tied, low, high = [0] * count, [0] * count, [-1] * count, [-1] * count
    top, free = [-1] * links, [0] * links
    # Events: a transfer waits for its next link (0), a link is free (1), a transfer has arrived (2).
    events = [(0, 0, 0)]
    events.pop()
    for at in range(count):
        if left[order[at]] == 0:
            events.append((0, 0, at))
    while len(events):
        now, kind, what = heapq.heappop(events)
        if kind == 2:
            one = order[what]
            end[one] = now
            for k in range(after_start[one], after_start[one + 1]):
                other = after[k]
                left[other] -= 1
                if left[other] == 0:
                    ready[other] = now
                    heapq.heappush(events, (now, 0, place[other]))
            continue
        link = what
        a, b = -1, -1
        if kind == 0:
            one = order[what]
            link = hop_link[hop_start[one] + hop[one]]
            later = come and hop[one] > 0
            came[one] = now if later else 0
            tied[one] = start[one] if later else 0
            low[one] = high[one] = -1
            a, b = top[link], one
        goes = -1
        for turn in range(2):
            if turn == 1:
                if top[link] < 0 or free[link] > now:
                    break
                goes = top[link]
                a, b = low[goes], high[goes]
            elif kind != 0:
                continue
            # Two heaps become one: the lower of their tops goes on, and its children change sides.
            at = -1
            while True:
                swap = a < 0
                if a >= 0 and b >= 0:
                    swap = came[b] < came[a]
                    if came[b] == came[a]:
                        swap = tied[b] < tied[a] or (tied[b] == tied[a] and place[b] < place[a])
                if swap:
                    a, b = b, a
                if at < 0:
                    top[link] = a
                else:
                    low[at] = a
                if b < 0:
                    break
                at = a
                a = high[at]
                high[at] = low[at]
        if goes < 0:
            continue
        k = hop_start[goes] + hop[goes]
        if hop[goes] == 0:
            start[goes] = now
        free[link] = now + hop_ticks[k]
        heapq.heappush(events, (free[link], 1, link))
        hop[goes] += 1
        if k + 1 < hop_start[goes + 1]:
            heapq.heappush(events, ((now if cut_through else free[link]) + hop_wait[k], 0, place[goes]))
        else:
            heapq.heappush(events, (free[link] + hop_wait[k], 2, place[goes]))


def improved(work: Work, rank: NDArray[Any] | None = None, passes: int = PASSES) -> Iterator[Times]:
    """Yield list schedules, each shorter than those before it: by rank (by number where None), then by going back and forward."""
    going_back = work.reversed
    rank = np.arange(len(work)) if rank is None else rank
    best = None
    for turn in range(passes):
        times = listed(work, rank)
        if best is None or times.whole < best:
            best = times.whole
            yield times
        elif turn > 1:
            return
        if turn + 1 < passes:
            rank = -listed(going_back, -times.end, back=True).end


def relisted(
    group: Group, transfers: Transfers, chunk: Fraction, rank: NDArray[Any] | None = None, passes: int = PASSES
) -> Iterator[Columns]:
    """Yield the same transfers in the order of list schedules, each shorter than those before, with needs that keep to it.

    Parameters
    ----------
    chunk
        Bytes a chunk.
    rank
        Shape (transfers,): the lowest goes first; their numbers where None.
    """
    work = work_of(group, transfers, chunk)
    for times in improved(work, rank, passes):
        yield kept(transfers, work, times)


def kept(transfers: Transfers, work: Work, times: Times) -> Columns:
    """Return transfers in the order in which they begin; one that is ready before what goes ahead of it also needs what that one waited for."""
    order = np.lexsort((times.place, times.start))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    starts, need = work.need_start.tolist(), work.need.tolist()
    ready, end = times.ready.tolist(), times.end.tolist()
    link = work.hop_link[work.hop_start[:-1]].tolist()
    last: dict[int, tuple[int, int]] = {}
    extra = np.full(len(order), -1, dtype=np.int64)
    for row, one in enumerate(order.tolist()):
        mine = need[starts[one] : starts[one + 1]]
        latest, waited = last.get(link[one], (0, -1))
        if mine and ready[one] >= latest:
            last[link[one]] = ready[one], max(mine, key=end.__getitem__)
        elif waited >= 0 and ready[one] < latest:
            extra[row] = place[waited]
    columns = Columns()
    table = _table(work, order, place, extra)
    names = ("source", "target", "first", "count")
    rows = [np.asarray(getattr(transfers, name))[order] for name in names]
    columns.add(*rows, reduce=transfers.reduce[order], needs=table, via=transfers.via[order])
    return columns


def _table(work: Work, order: IntColumn, place: IntColumn, extra: IntColumn) -> IntColumn:
    """Return needs by row, shape (transfers, most + 1), -1 for none."""
    counts = np.diff(work.need_start)
    table = np.full((len(order), int(counts.max(initial=0)) + 1), -1, dtype=np.int32)
    owner = np.repeat(np.arange(len(counts)), counts)
    table[place[owner], np.arange(len(work.need)) - work.need_start[owner]] = place[work.need]
    table[:, -1] = extra
    return table
