"""First come, first served with a queue a link: priorities that preempt, bounded buffers, outages.

Codes of events: the tail of hop h arrives: h; its head: H + h; transfer t finishes: 2H + t; it is released: 2H + T + t;
link l ends its service: 2H + 2T + l (void when the link was interrupted since).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Link
from fabric_plan.planner.simulator.compiled import compiled
from fabric_plan.planner.simulator.engine import Timeline, children_of, dependents_of
from fabric_plan.planner.simulator.program import HORIZON, Ints, Program, Timing
from fabric_plan.planner.simulator.service import Service

FROM_HOPS = 20_000
"""Below so many hops plain Python is quicker than loading the compiler."""


def run_queued(
    program: Program, ticks: Timing, service: Service, links: Sequence[Link], large: bool | None
) -> Timeline:
    """Simulate with a queue for each link and priority; see :func:`fabric_plan.planner.simulator.engine.run`."""
    hops, transfers, count = program.hops, len(program), len(links)
    large = hops >= FROM_HOPS if large is None else large
    room = np.full(count, -1, np.int64)
    for link, size in service.buffers.items():
        room[link] = min(int(size * program.scale), HORIZON)
    sizes = program.hop_size.astype(np.int64)
    tight = (room[program.hop_link] >= 0) & (sizes > room[program.hop_link])
    if tight.any():
        hop = int(np.flatnonzero(tight)[0])
        raise InvalidInput(
            f"transfer {program.owner(hop)}: {sizes[hop] / program.scale:g} bytes never fit into the buffer of link "
            f"{program.hop_link[hop]} ({room[program.hop_link[hop]] / program.scale:g} bytes): cut it into smaller chunks"
        )
    down, up = np.full(count, HORIZON, np.int64), np.full(count, HORIZON, np.int64)
    for link, (start, end) in service.outages.items():
        down[link] = ticks.ticks(start)
        up[link] = HORIZON if end is None else ticks.ticks(end)
    kinds = 1
    level = np.zeros(transfers, np.int64)
    if program.priority is not None:
        values, level = np.unique(program.priority, return_inverse=True)
        kinds = max(1, len(values))
    child, sibling = children_of(program, large)
    spread = np.diff(program.hop_start).astype(np.int64)
    parents = program.hop_parent[program.hop_parent >= 0]
    children = np.bincount(parents, minlength=hops) if hops else np.zeros(0, np.int64)
    dependent_start, dependent = dependents_of(program, large)
    most = 4 * hops + 2 * transfers + count + 1  # each ready hop interrupts at most one other
    columns: list[Any] = [
        program.hop_start,
        program.hop_link,
        program.hop_parent,
        sizes,
        (ticks.size * ticks.rate[program.hop_link] if hops else np.zeros(0, np.int64)).astype(np.int64),
        ticks.latency,
        child,
        sibling,
        children.astype(np.int64),
        np.diff(program.need_start).astype(np.int64),
        dependent_start,
        dependent,
        ticks.release,
        ticks.after,
        np.repeat(np.arange(transfers), spread),
        spread,
        level.astype(np.int64).reshape(-1),
        room,
        down,
        up,
        np.full(hops, -1, np.int64),  # start
        np.full(hops, HORIZON, np.int64),  # tail
        np.full(transfers, -1, np.int64),  # finish
        np.full(count * kinds, -1, np.int64),  # first in each queue
        np.full(count * kinds, -1, np.int64),  # last
        np.full(hops, -1, np.int64),  # next in the queue
        np.full(count, -1, np.int64),  # in service
        np.zeros(count, np.int64),  # since when
        np.zeros(count, np.int64),  # how often interrupted
        np.empty(most, np.int64),  # heap: times
        np.empty(most, np.int64),  # codes
        np.empty(most, np.int64),  # versions
        np.empty(most, np.int64),  # to be pushed: times
        np.empty(most, np.int64),  # codes
        np.empty(most, np.int64),  # versions
        np.empty(transfers + 1, np.int64),  # begun
        np.empty(2 * hops + 3 * count + 1, np.int64),  # links to look at
    ]
    ready = np.empty(hops + 1, np.int64)
    kernel: Callable[..., None] = queued_kernel
    if large:
        compiled(queued_kernel)(*columns, ready, service.cut_through, kinds)
    else:
        columns = [column.tolist() for column in columns]
        kernel(*columns, ready, service.cut_through, kinds)
    begins, tail, finish = (np.asarray(columns[k], dtype=np.int64) for k in (20, 21, 22))
    tail[tail >= HORIZON] = -1
    return Timeline(program, ticks, service, finish, begins, tail, "queued", _unsent(columns, tail, down, up))


def _unsent(columns: list[Any], tail: Ints, down: Ints, up: Ints) -> Ints:
    """Return by hop what it had not sent in the end: all of it, or what an outage for ever cut off."""
    left, serving, since = (np.array(columns[k], dtype=np.int64) for k in (4, 26, 27))
    left[tail >= 0] = 0
    for link in np.flatnonzero(serving >= 0).tolist():
        hop = int(serving[link])
        if tail[hop] < 0:
            # On a link that works again it only waits for its tail; on a dead one it got as far as the outage.
            sent = left[hop] if up[link] < HORIZON else max(0, min(int(left[hop]), int(down[link] - since[link])))
            left[hop] -= sent
    return left


def queued_kernel(
    hop_start: Any,
    hop_link: Any,
    hop_parent: Any,
    size: Any,
    work: Any,
    latency: Any,
    child: Any,
    sibling: Any,
    children: Any,
    waiting: Any,
    dependent_start: Any,
    dependent: Any,
    release: Any,
    after: Any,
    owner: Any,
    left: Any,
    level: Any,
    room: Any,
    down: Any,
    up: Any,
    start: Any,
    tail: Any,
    finish: Any,
    first: Any,
    last: Any,
    behind: Any,
    serving: Any,
    since: Any,
    version: Any,
    heap_time: Any,
    heap_code: Any,
    heap_version: Any,
    push_time: Any,
    push_code: Any,
    push_version: Any,
    begun: Any,
    look: Any,
    ready: Any,
    cut: bool,
    kinds: int,
) -> None:
    """Fill ``start``, ``tail`` (by hop) and ``finish`` (by transfer).

    ``work`` is what is left of each hop in ticks, ``room`` what is left of each buffer (-1: no limit), ``children`` how
    many hops still hold a hop's room.
    """
    never = 1 << 61
    hops, transfers = len(hop_link), len(finish)
    released, delayed = len(release) > 0, len(after) > 0
    now = 0
    heap, pushes, waits, looks = 0, 0, 0, 0
    count = 0  # of hops ready now
    served = False
    for transfer in range(transfers):
        if waiting[transfer] == 0:
            begun[waits] = transfer
            waits += 1
    while True:
        while pushes > 0:
            pushes -= 1
            time = push_time[pushes]
            place = heap
            heap += 1
            while place > 0:
                above = (place - 1) >> 1
                if heap_time[above] <= time:
                    break
                heap_time[place] = heap_time[above]
                heap_code[place] = heap_code[above]
                heap_version[place] = heap_version[above]
                place = above
            heap_time[place] = time
            heap_code[place] = push_code[pushes]
            heap_version[place] = push_version[pushes]
        if served:
            # All that happens at this time has happened: go on to the next.
            if heap == 0:
                return
            now, served = heap_time[0], False
        if heap > 0 and heap_time[0] == now:
            # 1. What happens now: ends of service, arrivals, ends of delays.
            code, mark = heap_code[0], heap_version[0]
            heap -= 1
            time, moved, moved_version = heap_time[heap], heap_code[heap], heap_version[heap]
            place = 0
            while True:
                below = 2 * place + 1
                if below >= heap:
                    break
                if below + 1 < heap and heap_time[below + 1] < heap_time[below]:
                    below += 1
                if heap_time[below] >= time:
                    break
                heap_time[place] = heap_time[below]
                heap_code[place] = heap_code[below]
                heap_version[place] = heap_version[below]
                place = below
            heap_time[place] = time
            heap_code[place] = moved
            heap_version[place] = moved_version
            done = -1
            if code < hops:
                hop = code
                link = hop_link[hop]
                if room[link] >= 0 and child[hop] < 0:
                    room[link] += size[hop]
                    look[looks] = link
                    looks += 1
                if not cut:
                    other = child[hop]
                    while other >= 0:
                        ready[count] = other
                        count += 1
                        other = sibling[other]
                transfer = owner[hop]
                left[transfer] -= 1
                if left[transfer] == 0:
                    if delayed and after[transfer] > 0:
                        push_time[pushes], push_code[pushes], push_version[pushes] = (
                            now + after[transfer],
                            2 * hops + transfer,
                            0,
                        )
                        pushes += 1
                    else:
                        done = transfer
            elif code < 2 * hops:
                other = child[code - hops]
                while other >= 0:
                    ready[count] = other
                    count += 1
                    other = sibling[other]
            elif code < 2 * hops + transfers:
                done = code - 2 * hops
            elif code < 2 * hops + 2 * transfers:
                begun[waits] = code - 2 * hops - transfers
                waits += 1
            else:
                link = code - 2 * hops - 2 * transfers
                if version[link] == mark:
                    hop = serving[link]
                    serving[link] = -1
                    look[looks] = link
                    looks += 1
                    tail[hop] = now + latency[link]
                    push_time[pushes], push_code[pushes], push_version[pushes] = tail[hop], hop, 0
                    pushes += 1
                    parent = hop_parent[hop]
                    if parent >= 0 and room[hop_link[parent]] >= 0:
                        children[parent] -= 1
                        if children[parent] == 0:
                            room[hop_link[parent]] += size[parent]
                            look[looks] = hop_link[parent]
                            looks += 1
            if done >= 0:
                finish[done] = now
                for k in range(dependent_start[done], dependent_start[done + 1]):
                    other = dependent[k]
                    waiting[other] -= 1
                    if waiting[other] == 0:
                        begun[waits] = other
                        waits += 1
            continue
        if waits > 0:
            # 2. Transfers whose needs are met.
            waits -= 1
            transfer = begun[waits]
            begin, end = hop_start[transfer], hop_start[transfer + 1]
            if released and release[transfer] > now:
                push_time[pushes], push_code[pushes], push_version[pushes] = (
                    release[transfer],
                    2 * hops + transfers + transfer,
                    0,
                )
                pushes += 1
            elif begin == end:
                wait = after[transfer] if delayed else 0
                push_time[pushes], push_code[pushes], push_version[pushes] = now + wait, 2 * hops + transfer, 0
                pushes += 1
            else:
                for hop in range(begin, end):
                    if hop_parent[hop] < 0:
                        ready[count] = hop
                        count += 1
            continue
        # 3. All that is ready now is known: queue it, in the order of numbers, and serve.
        if count > 1:
            ready[:count].sort()
        taken = 0
        while True:
            if looks == 0 or kinds > 1:
                # With one priority a link may serve at once: whatever comes later now has a larger number.
                if taken < count:
                    hop = ready[taken]
                    taken += 1
                    link = hop_link[hop]
                    queue = link * kinds + level[owner[hop]]
                    behind[hop] = -1
                    if first[queue] < 0:
                        first[queue] = hop
                    else:
                        behind[last[queue]] = hop
                    last[queue] = hop
                    look[looks] = link
                    looks += 1
                    continue
                if looks == 0:
                    break
            looks -= 1
            link = look[looks]
            top = 0
            while top < kinds and first[link * kinds + top] < 0:
                top += 1
            if top == kinds:
                continue
            queue = link * kinds + top
            current = serving[link]
            if current >= 0:
                if level[owner[current]] <= top:
                    continue
                # Interrupt: it goes back to the head of its queue with what is left.
                begin = since[link]
                paused = min(now, up[link]) - max(begin, down[link])
                work[current] -= now - begin - max(paused, 0)
                other = link * kinds + level[owner[current]]
                behind[current] = first[other]
                if first[other] < 0:
                    last[other] = current
                first[other] = current
                version[link] += 1
            hop = first[queue]
            if room[link] >= 0:
                if size[hop] > room[link]:
                    continue
                room[link] -= size[hop]
            first[queue] = behind[hop]
            if first[queue] < 0:
                last[queue] = -1
            serving[link] = hop
            since[link] = now
            if start[hop] < 0:
                start[hop] = now
            end = now + work[hop]
            if now < up[link] and end > down[link]:
                end = up[link] + work[hop] - max(down[link] - now, 0)
            parent = hop_parent[hop]
            if cut:
                if parent >= 0 and end < tail[parent]:
                    end = tail[parent]
                if end < never:
                    tail[hop] = end + latency[link]
                if child[hop] >= 0:
                    if latency[link] == 0:
                        other = child[hop]
                        while other >= 0:
                            place = count
                            count += 1
                            while place > taken and ready[place - 1] > other:
                                ready[place] = ready[place - 1]
                                place -= 1
                            ready[place] = other
                            other = sibling[other]
                    else:
                        push_time[pushes], push_code[pushes], push_version[pushes] = now + latency[link], hops + hop, 0
                        pushes += 1
            if end < never:
                push_time[pushes], push_code[pushes], push_version[pushes] = (
                    end,
                    2 * hops + 2 * transfers + link,
                    version[link],
                )
                pushes += 1
        count = 0
        served = True
