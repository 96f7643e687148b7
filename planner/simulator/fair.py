"""Max-min fair sharing: what is under way is a fluid, and no flow could have more without another, slower one having less.

Store-and-forward, each hop is a flow on its own link. Cut-through, the hops of a tree are one flow that uses all their
links at one rate. Of several priorities, the first takes all it can. Rates are doubles; times are whole ticks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Link
from fabric_plan.planner.simulator.compiled import compiled
from fabric_plan.planner.simulator.engine import Timeline, children_of, dependents_of
from fabric_plan.planner.simulator.program import HORIZON, Ints, Program, Timing
from fabric_plan.planner.simulator.service import Service

FROM_HOPS = 2_000
"""Below so many hops plain Python is quicker than loading the compiler."""


def run_fair(program: Program, ticks: Timing, service: Service, links: Sequence[Link], large: bool | None) -> Timeline:
    """Simulate with max-min fair links; see :func:`fabric_plan.planner.simulator.engine.run`."""
    hops, transfers, count = program.hops, len(program), len(links)
    large = hops >= FROM_HOPS if large is None else large
    ticks = _finer(ticks)
    flow_of, flow_start, flow_hop, root = _flows(program, service.cut_through)
    flow_link = program.hop_link[flow_hop].astype(np.int64)
    flows = len(root)
    if service.cut_through and hops and (program.hop_size != program.hop_size[root[flow_of]]).any():
        hop = int(np.flatnonzero(program.hop_size != program.hop_size[root[flow_of]])[0])
        raise InvalidInput(f"transfer {program.owner(hop)}: the hops of a fluid that cuts through must be of one size")
    # What a link passes in a tick, in the program's units of size.
    capacity = np.array([link.bandwidth * program.scale / ticks.per_second for link in links], dtype=np.float64)
    down, up = np.full(count, HORIZON, np.int64), np.full(count, HORIZON, np.int64)
    for link, (begin, end) in service.outages.items():
        down[link] = ticks.ticks(begin)
        up[link] = HORIZON if end is None else ticks.ticks(end)
    reach = _reach(program, ticks.latency)
    level = np.zeros(transfers, np.int64)
    kinds = 1
    if program.priority is not None and transfers:
        values, level = np.unique(program.priority, return_inverse=True)
        kinds = len(values)
    owner = np.repeat(np.arange(transfers), np.diff(program.hop_start))
    child, sibling = children_of(program, large)
    dependent_start, dependent = dependents_of(program, large)
    edges = np.unique(np.concatenate([down, up]))
    edges = edges[edges < HORIZON]
    most = flows + 2 * transfers + len(edges) + hops + 1
    columns: list[Any] = [
        flow_start,
        flow_link,
        flow_hop,
        flow_of,
        root,
        program.hop_start,
        program.hop_parent,
        program.hop_size[root].astype(np.float64) if flows else np.zeros(0),
        owner,
        child,
        sibling,
        np.diff(program.need_start).astype(np.int64),
        dependent_start,
        dependent,
        ticks.release,
        ticks.after,
        level.astype(np.int64).reshape(-1),
        np.diff(program.hop_start).astype(np.int64),
        reach if service.cut_through else ticks.latency[program.hop_link],
        edges,
        down,
        up,
        capacity,
        np.full(hops, -1, np.int64),  # start
        np.full(hops, -1, np.int64),  # tail
        np.full(transfers, -1, np.int64),  # finish
        np.zeros(flows),  # rates
        np.zeros(flows, np.int64),  # active flows
        np.zeros(flows, np.int64),  # whether its rate is fixed
        np.zeros(count),  # what is left of a link
        np.zeros(count, np.int64),  # flows on it whose rate is not fixed
        np.zeros(count, np.int64),  # links in use
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(transfers + 1, np.int64),
    ]
    kernel: Callable[..., None] = fair_kernel
    if large:
        compiled(fair_kernel)(*columns, service.cut_through, kinds)
    else:
        columns = [column.tolist() for column in columns]
        kernel(*columns, service.cut_through, kinds)
    begins, tail, finish = (np.asarray(columns[k], dtype=np.int64) for k in (23, 24, 25))
    rest = np.asarray(columns[7])[flow_of] / program.hop_size if hops else np.zeros(0)
    timeline = Timeline(program, ticks, service, finish, begins, tail, "fair")
    timeline.unsent = np.where(tail >= 0, 0, np.rint(timeline.length * rest)).astype(np.int64)
    return timeline


def _finer(ticks: Timing) -> Timing:
    """Shares are fractions of ticks: use the finest that fit, so that rounding them is nothing."""
    longest = max(ticks.longest, 1)
    factor = max(1, 2**50 // longest)  # doubles still tell one tick from the next
    factor = min(factor, 10**18 // ticks.per_second + 1)
    return dataclasses.replace(
        ticks,
        per_second=ticks.per_second * factor,
        longest=ticks.longest * factor,
        rate=ticks.rate * factor,
        latency=ticks.latency * factor,
        release=ticks.release * factor,
        after=ticks.after * factor,
    )


def _flows(program: Program, cut: bool) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the flow of each hop, the hops of each flow in compressed rows, and the first hop of each flow."""
    every = np.arange(program.hops)
    if not cut or not program.relayed:
        return every, np.arange(program.hops + 1), every, every
    top = every.copy()
    above = np.where(program.hop_parent >= 0, program.hop_parent, every)
    while True:
        higher = above[top]
        if (higher == top).all():
            break
        top = higher
    root, flow_of = np.unique(top, return_inverse=True)
    flow_of = flow_of.reshape(-1)
    order = np.argsort(flow_of, kind="stable")
    starts = np.zeros(len(root) + 1, np.int64)
    np.cumsum(np.bincount(flow_of, minlength=len(root)), out=starts[1:])
    return flow_of, starts, order, root


def _reach(program: Program, latency: Ints) -> Ints:
    """Return by hop the latencies from its root through itself, in ticks."""
    total = latency[program.hop_link].astype(np.int64)
    if program.relayed:
        parents = program.hop_parent.tolist()
        sums = total.tolist()
        for hop, parent in enumerate(parents):
            if parent >= 0:
                sums[hop] += sums[parent]
        total = np.array(sums, dtype=np.int64)
    return total


def fair_kernel(
    flow_start: Any,
    flow_link: Any,
    flow_hop: Any,
    flow_of: Any,
    root: Any,
    hop_start: Any,
    hop_parent: Any,
    left: Any,
    owner: Any,
    child: Any,
    sibling: Any,
    waiting: Any,
    dependent_start: Any,
    dependent: Any,
    release: Any,
    after: Any,
    level: Any,
    pending: Any,
    reach: Any,
    edges: Any,
    down: Any,
    up: Any,
    capacity: Any,
    start: Any,
    tail: Any,
    finish: Any,
    rate: Any,
    active: Any,
    fixed: Any,
    spare: Any,
    sharing: Any,
    used: Any,
    heap_time: Any,
    heap_code: Any,
    push_time: Any,
    push_code: Any,
    begun: Any,
    cut: bool,
    kinds: int,
) -> None:
    """Fill ``start``, ``tail`` (by hop) and ``finish`` (by transfer).

    ``left`` is what each flow has still to carry, ``reach`` how long after its end a flow's last byte is across a hop.
    Codes of events: the tail of hop h arrives: h; transfer t finishes: H + t; it is released: H + T + t; a link goes or
    comes back: H + 2T.
    """
    hops, transfers = len(owner), len(finish)
    released, delayed = len(release) > 0, len(after) > 0
    now = 0
    heap, pushes, waits, running = 0, 0, 0, 0
    changed = False
    for transfer in range(transfers):
        if waiting[transfer] == 0:
            begun[waits] = transfer
            waits += 1
    for k in range(len(edges)):
        push_time[pushes], push_code[pushes] = edges[k], hops + 2 * transfers
        pushes += 1
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
                place = above
            heap_time[place] = time
            heap_code[place] = push_code[pushes]
        if heap > 0 and heap_time[0] == now:
            code = heap_code[0]
            heap -= 1
            time, moved = heap_time[heap], heap_code[heap]
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
                place = below
            heap_time[place] = time
            heap_code[place] = moved
            done = -1
            if code < hops:
                if not cut:
                    other = child[code]
                    while other >= 0:
                        start[other] = now
                        active[running] = other
                        running += 1
                        changed = True
                        other = sibling[other]
                transfer = owner[code]
                pending[transfer] -= 1
                if pending[transfer] == 0:
                    if delayed and after[transfer] > 0:
                        push_time[pushes], push_code[pushes] = now + after[transfer], hops + transfer
                        pushes += 1
                    else:
                        done = transfer
            elif code < hops + transfers:
                done = code - hops
            elif code < hops + 2 * transfers:
                begun[waits] = code - hops - transfers
                waits += 1
            else:
                changed = True
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
            waits -= 1
            transfer = begun[waits]
            if released and release[transfer] > now:
                push_time[pushes], push_code[pushes] = release[transfer], hops + transfers + transfer
                pushes += 1
            elif hop_start[transfer] == hop_start[transfer + 1]:
                wait = after[transfer] if delayed else 0
                push_time[pushes], push_code[pushes] = now + wait, hops + transfer
                pushes += 1
            else:
                for hop in range(hop_start[transfer], hop_start[transfer + 1]):
                    if hop_parent[hop] < 0:
                        flow = flow_of[hop]
                        for k in range(flow_start[flow], flow_start[flow + 1]):
                            start[flow_hop[k]] = now
                        active[running] = flow
                        running += 1
                        changed = True
            continue
        if changed:
            changed = False
            links = 0
            for k in range(running):
                flow = active[k]
                fixed[flow] = 0
                rate[flow] = 0.0
                for j in range(flow_start[flow], flow_start[flow + 1]):
                    link = flow_link[j]
                    if sharing[link] == 0:
                        used[links] = link
                        links += 1
                        sharing[link] = 1
                        spare[link] = 0.0 if down[link] <= now < up[link] else capacity[link]
            for kind in range(kinds):
                for k in range(links):
                    sharing[used[k]] = 0
                open_flows = 0
                for k in range(running):
                    flow = active[k]
                    if fixed[flow] == 0 and level[owner[root[flow]]] == kind:
                        open_flows += 1
                        for j in range(flow_start[flow], flow_start[flow + 1]):
                            sharing[flow_link[j]] += 1
                while open_flows > 0:
                    least = 1.0e300
                    for k in range(links):
                        link = used[k]
                        if sharing[link] > 0 and spare[link] < least * sharing[link]:
                            least = spare[link] / sharing[link]
                    bound = least * (1.0 + 1.0e-12)
                    for k in range(running):
                        flow = active[k]
                        if fixed[flow] != 0 or level[owner[root[flow]]] != kind:
                            continue
                        stops = False
                        for j in range(flow_start[flow], flow_start[flow + 1]):
                            link = flow_link[j]
                            if spare[link] <= bound * sharing[link]:
                                stops = True
                        if stops:
                            fixed[flow] = 2
                    for k in range(running):
                        flow = active[k]
                        if fixed[flow] == 2:
                            fixed[flow] = 1
                            rate[flow] = least
                            open_flows -= 1
                            for j in range(flow_start[flow], flow_start[flow + 1]):
                                link = flow_link[j]
                                sharing[link] -= 1
                                spare[link] = max(spare[link] - least, 0.0)
            for k in range(links):
                sharing[used[k]] = 0
        # Go on to the next event or the next end of a flow, whichever comes first.
        following = heap_time[0] if heap > 0 else -1
        for k in range(running):
            flow = active[k]
            if rate[flow] > 0.0:
                needed = left[flow] / rate[flow]
                if needed < 2.0e18:
                    end = now + max(1, int(needed + 0.5))
                    if following < 0 or end < following:
                        following = end
        if following < 0:
            return
        # What is due now within the rounding of doubles is through, before its links may be taken away.
        slack = 0.5000001 + following * 1.0e-15
        passed = following - now
        now = following
        kept = 0
        for k in range(running):
            flow = active[k]
            left[flow] -= rate[flow] * passed
            if rate[flow] > 0.0 and left[flow] <= rate[flow] * slack:
                changed = True
                for j in range(flow_start[flow], flow_start[flow + 1]):
                    hop = flow_hop[j]
                    tail[hop] = now + reach[hop]
                    push_time[pushes], push_code[pushes] = tail[hop], hop
                    pushes += 1
            else:
                active[kept] = flow
                kept += 1
        running = kept
