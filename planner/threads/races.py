"""Races: two accesses to a location, at least one a write, in no order; and whether some order changes what comes out.

In one topological order every access is compared with the last write before it, and every write with the reads since: if all those pairs are
ordered, all pairs are. A pair that is not ordered is tried the other way round; it is an error if some output chunk then holds something
else than it must, and a warning otherwise (production files race for values that nobody reads).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fabric_plan.planner.threads.order import Messages
from fabric_plan.planner.threads.program import Program

CLOCK_CELLS = 40_000_000
"""Operations times threads up to which every operation has a clock of all threads; beyond, orders are searched for."""


@dataclass(frozen=True)
class Race:
    """Two operations that touch a location in no order; ``kind`` is read-write or write-write."""

    first: int
    second: int
    location: int
    kind: str


class Before:
    """Answers whether one operation is over before another begins, in every interleaving."""

    def __init__(self, program: Program, messages: Messages, order: array[int]) -> None:
        self.program, self.messages = program, messages
        self.place = array("i", [0]) * len(program)
        for place, op in enumerate(order):
            self.place[op] = place
        threads = len(program.threads)
        self.clocks: Any = None
        if len(program) * threads <= CLOCK_CELLS:
            self._clocks(order, threads)
        # By (thread, other thread): the latest operation of the other that is over before some operation of the first that was asked about.
        self._known: dict[tuple[int, int], int] = {}
        self._taken: dict[int, int] = {}

    def _clocks(self, order: array[int], threads: int) -> None:
        """Give every operation, by thread, the number of operations of it that are over when it is (counted from the program's start)."""
        program, sender = self.program, self.messages.sender
        clocks = np.full((len(program), threads), -1, dtype=np.int32)
        for op in order:
            row = clocks[op]
            if op and program.thread[op - 1] == program.thread[op]:
                row[:] = clocks[op - 1]
            for other in program.waits(op):
                np.maximum(row, clocks[other], out=row)
            if sender[op] >= 0:
                np.maximum(row, clocks[sender[op]], out=row)
            row[program.thread[op]] = op
        self.clocks = clocks

    def __call__(self, a: int, b: int) -> bool:
        """Whether ``a`` is over before ``b`` begins; ask about the operations ``b`` of a thread in order."""
        thread = self.program.thread
        if thread[a] == thread[b]:
            return a < b
        if self.clocks is not None:
            return bool(self.clocks[b, thread[a]] >= a)
        key = thread[b], thread[a]
        self._take_in(b)
        if self._known.get(key, -1) >= a:
            return True
        found = self._search(a, b, near=True)
        if found < 0:
            found = self._search(a, b, near=False)
        if found >= 0:
            # Operations are asked about in the program's order, so what holds for this one holds for those to come.
            self._known[key] = found
        return found >= 0

    def _take_in(self, b: int) -> None:
        """Note what the operations of a thread up to ``b`` wait for themselves: most questions end there."""
        program, thread, known, sender = self.program, self.program.thread, self._known, self.messages.sender
        mine = thread[b]
        for op in range(self._taken.get(mine, program.threads[mine].first), b + 1):
            others = program.waits(op)
            for other in others if sender[op] < 0 else (*others, sender[op]):
                key = mine, thread[other]
                if known.get(key, -1) < other:
                    known[key] = other
        self._taken[mine] = b + 1

    def _search(self, a: int, b: int, *, near: bool) -> int:
        """Look for a way from ``a`` to ``b``, backwards and no further than where ``a`` stands; ``near``: on its own rank only.

        Returns an operation of the thread of ``a``, not before it, that is over before ``b``; -1 if there is none.
        """
        program, place, sender = self.program, self.place, self.messages.sender
        thread, floor = program.thread, place[a]
        rank = program.threads[thread[a]].rank
        wanted = thread[a]
        stack, seen = [b], {b}
        while stack:
            op = stack.pop()
            others = list(program.waits(op))
            if op and thread[op - 1] == thread[op]:
                others.append(op - 1)
            if sender[op] >= 0 and not near:
                others.append(sender[op])
            for other in others:
                if thread[other] == wanted:
                    if other >= a:
                        return other
                elif place[other] > floor and other not in seen:
                    if near and program.threads[thread[other]].rank != rank:
                        continue
                    seen.add(other)
                    stack.append(other)
        return -1


def races(program: Program, order: array[int], before: Before, most: int = 1000) -> Iterator[Race]:
    """Yield pairs of operations that touch a location in no order, each pair once, at most so many."""
    source, target, reads_target, count, thread = (
        program.source,
        program.target,
        program.reads_target,
        program.count,
        program.thread,
    )
    last = array("i", [-1]) * program.locations
    readers: dict[int, list[int]] = {}
    told: set[tuple[int, int]] = set()
    found = 0
    for op in order:
        many = count[op]
        mine = thread[op]
        read, write = source[op], target[op]
        if read >= 0:
            for location in range(read, read + many):
                other = last[location]
                if other >= 0 and thread[other] != mine and (other, op) not in told and not before(other, op):
                    told.add((other, op))
                    found += 1
                    yield Race(other, op, location, "read-write")
                readers.setdefault(location, []).append(op)
        if write >= 0:
            for location in range(write, write + many):
                other = last[location]
                if other >= 0 and thread[other] != mine and (other, op) not in told and not before(other, op):
                    told.add((other, op))
                    found += 1
                    yield Race(other, op, location, "write-write")
                for other in readers.pop(location, ()):
                    if other != op and thread[other] != mine and (other, op) not in told and not before(other, op):
                        told.add((other, op))
                        found += 1
                        yield Race(other, op, location, "read-write")
                last[location] = op
                if reads_target[op]:
                    readers.setdefault(location, []).append(op)
        if found >= most:
            return


def turned(program: Program, messages: Messages, order: array[int], race: Race) -> array[int]:
    """Return an order in which the second of a racing pair comes before the first, as early as it can, all else as it was."""
    needed: set[int] = set()
    stack = [race.second]
    while stack:
        op = stack.pop()
        if op in needed:
            continue
        needed.add(op)
        stack += program.waits(op)
        if op and program.thread[op - 1] == program.thread[op]:
            stack.append(op - 1)
        if messages.sender[op] >= 0:
            stack.append(messages.sender[op])
    head = array("i", [op for op in order if op in needed])
    head.extend(op for op in order if op not in needed)
    return head
