"""What every location holds: multisets of contributions, followed through a program in one order.

A value is a sorted tuple of contributions, each as often as it was added; equal values are one number, and sums are remembered by pairs of
numbers, so that a schedule of many steps makes few values. Number 0 is data that nobody wrote.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fabric_plan.planner.threads.collectives import Collective
from fabric_plan.planner.threads.order import Messages
from fabric_plan.planner.threads.program import Buffer, Program

UNWRITTEN = 0
BUDGET = 40_000_000
"""Contributions in all values together, above which exact multisets take too much memory (about 8 bytes each)."""


class TooManyContributions(Exception):
    """Exact multisets would pass the memory budget."""


@dataclass
class Values:
    """Values by number, and sums by pairs of numbers."""

    ranks: int
    pieces: int
    parts: list[tuple[int, ...]] = field(default_factory=lambda: [(-1,)])
    _numbers: dict[tuple[int, ...], int] = field(default_factory=lambda: {(-1,): 0})
    _sums: dict[tuple[int, int], int] = field(default_factory=dict)
    budget: int | None = None
    held: int = 0

    def one(self, rank: int, chunk: int) -> int:
        """Return the value of one contribution."""
        return self.of((rank * self.pieces + chunk,))

    def of(self, parts: tuple[int, ...]) -> int:
        """Return the number of a value."""
        number = self._numbers.get(parts)
        if number is None:
            number = self._numbers[parts] = len(self.parts)
            self.parts.append(parts)
            self.held += len(parts)
            if self.budget is not None and self.held > self.budget:
                raise TooManyContributions
        return number

    def find(self, parts: tuple[int, ...]) -> int:
        """Return the number of a value; -1 where nothing has had it."""
        return self._numbers.get(parts, -1)

    def add(self, a: int, b: int) -> int:
        """Return the sum of two values; with unwritten data nothing is known of it."""
        if a == UNWRITTEN or b == UNWRITTEN:
            return UNWRITTEN
        key = (a, b) if a < b else (b, a)
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = self.of(tuple(sorted(self.parts[a] + self.parts[b])))
        return found

    def told(self, value: int, most: int = 6) -> str:
        """Return a value for a reader: ranks of one chunk, or (rank, chunk) pairs."""
        if value == UNWRITTEN:
            return "data that nobody wrote"
        pairs = [divmod(part, self.pieces) for part in self.parts[value]]
        if not pairs:
            return "nothing of it"
        chunks = {chunk for _, chunk in pairs}
        if len(chunks) == 1:
            names = [str(rank) for rank, _ in pairs]
            where = f"chunk {chunks.pop()} of rank{'s' if len(names) > 1 else ''} "
        else:
            names, where = [f"({rank}, {chunk})" for rank, chunk in pairs], ""
        shown = ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
        return where + shown


def initial(
    program: Program, collective: Collective, buffers: dict[tuple[int, int], Buffer], values: Values
) -> array[int]:
    """Return the value of every location before the first step: inputs hold their own contributions, all else nothing."""
    state = array("i", [UNWRITTEN]) * program.locations
    for rank in range(program.ranks):
        one = buffers[rank, 0]
        for chunk in range(one.size):
            state[one.first + chunk] = values.one(rank, chunk)
    return state


def run(
    program: Program,
    messages: Messages,
    order: Iterable[int],
    state: array[int],
    values: Values,
    writer: array[int] | None = None,
    lost: tuple[int, int] | None = None,
) -> None:
    """Execute the operations in an order, which must respect messages.

    Parameters
    ----------
    state
        Values by location; they change.
    writer
        Takes who wrote last.
    lost
        (operation, location) of a write that another one, begun before it, overwrites.
    """
    source, target, reads_target, count = program.source, program.target, program.reads_target, program.count
    receive, send, sender = program.receive, program.send, messages.sender
    post: dict[int, Sequence[int]] = {}
    add = values.add
    for op in order:
        many, read, write = count[op], source[op], target[op]
        if many == 1:
            value = -1
            if receive[op] >= 0:
                (value,) = post.pop(sender[op])
            if read >= 0:
                value = state[read] if value < 0 else add(value, state[read])
            if write >= 0:
                if reads_target[op]:
                    value = add(state[write], value)
                if lost is None or lost != (op, write):
                    state[write] = value
                if writer is not None:
                    writer[write] = op
            if send[op] >= 0:
                post[op] = (value,)
            continue
        row: Sequence[int] = ()
        if receive[op] >= 0:
            row = post.pop(sender[op])
        if read >= 0:
            mine = state[read : read + many]
            row = mine if not row else [add(a, b) for a, b in zip(row, mine, strict=True)]
        if write >= 0:
            if reads_target[op]:
                row = [add(a, b) for a, b in zip(state[write : write + many], row, strict=True)]
            for k, value in enumerate(row):
                if lost is None or lost != (op, write + k):
                    state[write + k] = value
            if writer is not None:
                for k in range(many):
                    writer[write + k] = op
        if send[op] >= 0:
            post[op] = row


@dataclass(frozen=True)
class Wrong:
    """An output chunk that does not hold what it must."""

    rank: int
    chunk: int
    location: int
    value: int
    wanted: tuple[int, ...]

    def told(self, values: Values) -> str:
        """Return it for a reader: what is missing, doubled, or there without reason."""
        want = values.told(values.of(self.wanted))
        text = f"output chunk {self.chunk} on rank {self.rank}: expected {want}, found {values.told(self.value)}"
        if self.value == UNWRITTEN:
            return text
        have = values.parts[self.value]
        missing = sorted(set(self.wanted) - set(have))
        doubled = sorted({part for part in have if have.count(part) > 1})
        strange = sorted(set(have) - set(self.wanted))
        for name, parts in (("missing", missing), ("more than once", doubled), ("not asked for", strange)):
            if parts:
                text += f"; {name}: {values.told(values.of(tuple(parts)))}"
        return text


def wrong_outputs(
    collective: Collective, buffers: dict[tuple[int, int], Buffer], state: array[int], values: Values
) -> list[Wrong]:
    """Return all output chunks that do not hold what the collective asks for."""
    found = []
    alike = collective.name in ("allreduce", "broadcast")
    known: list[tuple[int, tuple[int, ...], int]] = []
    for rank in range(collective.ranks):
        output = buffers[rank, 1]
        if not known or not alike:
            known = []
            for chunk, wanted in collective.wanted(rank):
                parts = tuple(sorted([q * values.pieces + c for q, c in wanted]))
                known.append((chunk, parts, values.find(parts)))
        first, size = output.first, output.size
        for chunk, parts, number in known:
            if chunk < size and state[first + chunk] != number:
                found.append(Wrong(rank, chunk, first + chunk, state[first + chunk], parts))
    return found
