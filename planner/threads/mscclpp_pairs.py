"""What an operation of an MSCCL++ plan is sure to come after: barriers, signals, semaphores and packets, whoever shares them."""

from __future__ import annotations

import heapq
from array import array
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fabric_plan.planner.threads.order import Messages, matched, topological
from fabric_plan.planner.threads.program import Program
from fabric_plan.planner.threads.races import Before

if TYPE_CHECKING:
    from fabric_plan.planner.threads.mscclpp import Key, Lane, Lowering, Op

MOST_ORDERS = 64
"""Orders that are tried where several blocks take from one semaphore."""


class Pairs:
    """Adds to the operations of a lowering what they wait for in others."""

    def __init__(self, whole: Lowering) -> None:
        self.whole = whole

    def meet(self) -> None:
        """Named barriers: each arrival of a block meets the same of all others."""
        for key, blocks in self.whole.arrivals.items():
            first = next(iter(blocks.values()))[0][0]
            counts = {len(one) for one in blocks.values()}
            wanted = self.whole.sizes[key]
            if wanted != {len(blocks)} or len(counts) != 1:
                often = "" if len(counts) == 1 else ", not equally often"
                self.whole.error(
                    first,
                    "barrier",
                    f"barrier {key[2]} is for {' or '.join(map(str, sorted(wanted)))} thread blocks; {len(blocks)} come to it{often}",
                )
                continue
            for rows in zip(*blocks.values(), strict=True):
                for _, leave in rows:
                    leave.waits += [arrive for arrive, _ in rows]

    def pair(self) -> dict[Key, tuple[int, list[Op], list[Op]]]:
        """Signals and waits, releases and acquires; returns those that several lanes share.

        The j-th wait of a lane is over after ``need = j - first value`` signals at least. Without the m-th signal of a lane and those after it, all
        lanes together give no more than m - 1 and what the others have: if that is less than ``need``, the m-th must have come.
        """
        whole, shared = self.whole, {}
        for key, waits in whole.waits.items():
            signals = whole.signals.get(key, [])
            first = (
                whole.plan.semaphores.get((str(key[0]), int(str(key[1])), int(str(key[2]))), 0)
                if key[0] == "semaphore"
                else 0
            )
            name = told(key)
            if len(waits) > len(signals) + first:
                text = f"waits {len(waits)} times on {name}, where {len(signals) + first} signals come"
                whole.error(waits[-1], "signal", text)
                continue
            senders: dict[Lane, list[Op]] = defaultdict(list)
            for op in signals:
                senders[op.lane].append(op)
            mine: dict[Lane, int] = defaultdict(int)
            for op in waits:
                mine[op.lane] += 1
                need = mine[op.lane] - first
                for sent in senders.values():
                    sure = need - 1 - (len(signals) - len(sent))
                    if sure >= 0:
                        op.waits.append(sent[sure])
            if len(senders) > 1 or len(mine) > 1:
                shared[key] = first, signals, waits
                text = f"{name} is shared by {len(senders)} lanes that signal and {len(mine)} that wait: which signal a wait takes is left open"
                whole.findings.add("warning", "shared", text, line=waits[0].of.line)
        for key, signals in whole.signals.items():
            if len(signals) > len(whole.waits.get(key, [])):
                text = f"{whole.told(signals[-1])}: nobody waits for the last of {len(signals)} signals on {told(key)}"
                whole.findings.add("warning", "unwaited", text, line=signals[-1].of.line)
        return shared

    def packets(self) -> dict[int, tuple[list[Op], list[Op]]]:
        """A packet is read when it has been written, so the read waits; returns (writers, readers) of places written more than once."""
        whole = self.whole
        places = sorted((one.first, one.first + one.size) for one in whole.packets.values() if one.size)
        if not places:
            return {}
        inside = bytearray(whole.program.locations)
        for a, b in places:
            inside[a:b] = b"\x01" * (b - a)
        writers: dict[int, list[Op]] = defaultdict(list)
        ops = [op for lane in whole.lanes for op in lane.ops]
        for op in ops:
            if op.target >= 0 and inside[op.target]:
                for location in range(op.target, op.target + op.count):
                    writers[location].append(op)
        twice: dict[int, tuple[list[Op], list[Op]]] = {}
        for op in ops:
            if op.source < 0 or not inside[op.source]:
                continue
            for location in range(op.source, op.source + op.count):
                found = writers.get(location, [])
                if not found:
                    text = f"reads {whole.program.place(location)}, where no packet is ever written"
                    whole.error(op, "packet", text)
                    break
                if len(found) > 1:
                    twice.setdefault(location, (found, []))[1].append(op)
                elif found[0] not in op.waits:
                    op.waits.append(found[0])
        return twice

    def written_twice(self, twice: dict[int, tuple[list[Op], list[Op]]], program: Program) -> None:
        """Reads of a place that is written more than once wait for the first, if one of them is first in every order."""
        messages = matched(program, self.whole.findings)
        order = topological(program, messages)
        if len(order) < len(program):
            return
        place = {op: k for k, op in enumerate(order)}
        first = {location: min(found, key=lambda op: place[op.index]) for location, (found, _) in twice.items()}
        asked = sorted(
            {
                (op.index, first[location].index)
                for location, (found, _) in twice.items()
                for op in found
                if op is not first[location]
            }
        )
        before = Before(program, messages, order)
        known = {(a, b): before(a, b) for b, a in asked}
        for location, (found, readers) in twice.items():
            sure = all(known[first[location].index, op.index] for op in found if op is not first[location])
            for op in readers:
                # Where any of them may be first, one must have come for the read to end, and none is sure to.
                (op.waits if sure else op.after).append(first[location])


def told(key: Key) -> str:
    """Return a channel or a semaphore as people name it."""
    if key[0] == "semaphore":
        return f"semaphore {key[2]} of rank {key[1]}"
    return f"{key[0]} channel {key[3]} from {key[1]} to {key[2]}"


def feasible(whole: Lowering, messages: Messages) -> tuple[array[int], list[str]]:
    """Return an order in which the plan may run, and who is stuck, if anybody is, where blocks take from shared channels and semaphores.

    Without such a plan is a Kahn network, of which one order decides. With them it matters who takes first, so each that takes is tried as the
    quickest and as the slowest of all.
    """
    program = whole.strict
    if not whole.shared:
        return topological(program, messages), []
    takers = sorted({program.thread[op.index] for _, _, waits in whole.shared.values() for op in waits})
    choices: list[tuple[int, int]] = [(-1, 0)]
    choices += [(thread, haste) for thread in takers for haste in (-1, 1)][: MOST_ORDERS - 1]
    kept = array("i")
    for thread, haste in choices:
        order, stuck = _counted(whole, program, {thread: haste})
        if stuck:
            return order, stuck
        if not kept:
            kept = order
    return kept, []


def _counted(whole: Lowering, program: Program, haste: dict[int, int]) -> tuple[array[int], list[str]]:
    """Run a program in the order of its operations, hasty threads first; return the order, and who never gets what."""
    count, thread = len(program), program.thread
    follow: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count

    def edge(before: int, op: int) -> None:
        follow[before].append(op)
        missing[op] += 1

    for op in range(count):
        if op and thread[op - 1] == thread[op]:
            edge(op - 1, op)
        for other in program.waits(op):
            edge(other, op)
    gives: dict[int, Key] = {}
    takes: dict[int, Key] = {}
    left: dict[Key, int] = {}
    for key, (first, signals, waits) in whole.shared.items():
        left[key] = first
        gives.update((op.index, key) for op in signals)
        takes.update((op.index, key) for op in waits)
    ready = [(haste.get(thread[op], 0), op) for op in range(count) if not missing[op]]
    heapq.heapify(ready)
    parked: dict[Key, list[int]] = defaultdict(list)
    order = array("i")

    def push(ops: Iterable[int]) -> None:
        for op in ops:
            heapq.heappush(ready, (haste.get(thread[op], 0), op))

    while ready:
        op = heapq.heappop(ready)[1]
        if op in takes:
            key = takes[op]
            if not left[key]:
                parked[key].append(op)
                continue
            left[key] -= 1
        order.append(op)
        if op in gives:
            key = gives[op]
            left[key] += 1
            push(parked.pop(key, ()))
        for other in follow[op]:
            missing[other] -= 1
            if not missing[other]:
                push((other,))
    stuck = [f"{program.where(op)} waits on {told(key)}" for key, ops in parked.items() for op in ops]
    return order, stuck if len(order) < count else []
