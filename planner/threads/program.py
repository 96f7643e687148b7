"""The one form of programs of threads, whatever file they come from.

A thread runs its operations in order. An operation may wait for others, receive the next message of a connection, read a range of
locations, add what it has (the message and what it read), write the sum to a range, and send it as the next message of a
connection. Locations are numbered over all ranks; buffers that alias share them. So a check knows nothing of buffers, formats or runtimes.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from fabric_plan.planner.errors import InvalidInput

MAX_LOCATIONS = 60_000_000
"""More chunks in all buffers of all ranks cannot be followed."""

NONE = -1


@dataclass
class Buffer:
    """A buffer of a rank: its first location and how many chunks it has."""

    rank: int
    name: str
    first: int
    size: int

    def __str__(self) -> str:
        return f"rank {self.rank} {self.name}"


@dataclass
class Thread:
    """A thread: its rank, its number there, peers of its connections (-1: none), channel, and its operations [first, end)."""

    rank: int
    number: int
    send: int
    recv: int
    channel: int
    line: int
    first: int = 0
    end: int = 0


def _ints() -> array[int]:
    return array("i")


@dataclass
class Program:
    """A program: columns over all operations, thread by thread.

    Parameters
    ----------
    ranks
        How many.
    thread, number, line, name
        Of each operation: its thread, its number in the file's own counting, its line, and the index of its type in ``names``.
    source, target
        First location read, and written; -1: none. ``reads_target``: 1 where the target is added to.
    count
        Chunks.
    receive, send
        Connection, -1: none.
    wait_start, wait
        Operations that must be over before, as columns: those of operation k are ``wait[wait_start[k] : wait_start[k + 1]]``.
    connections
        (source rank, target rank, channel) of each.
    depth
        Messages that a connection holds; None: without limit.
    remote
        (source rank, target rank) of the operations that read or write another rank's memory by themselves.
    """

    ranks: int
    names: tuple[str, ...]
    buffers: list[Buffer] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    connections: list[tuple[int, int, int]] = field(default_factory=list)
    locations: int = 0
    thread: array[int] = field(default_factory=_ints)
    number: array[int] = field(default_factory=_ints)
    line: array[int] = field(default_factory=_ints)
    name: array[int] = field(default_factory=_ints)
    source: array[int] = field(default_factory=_ints)
    target: array[int] = field(default_factory=_ints)
    reads_target: array[int] = field(default_factory=_ints)
    count: array[int] = field(default_factory=_ints)
    receive: array[int] = field(default_factory=_ints)
    send: array[int] = field(default_factory=_ints)
    wait_start: array[int] = field(default_factory=lambda: array("i", [0]))
    wait: array[int] = field(default_factory=_ints)
    depth: int | None = None
    remote: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.thread)

    def buffer(self, rank: int, name: str, size: int, over: Buffer | None = None, shift: int = 0) -> Buffer:
        """Add a buffer, of its own or over another one's chunks from ``shift`` on.

        Raises
        ------
        InvalidInput
            When all buffers together are too large to follow.
        """
        first = self.locations if over is None else over.first + shift
        if over is None:
            self.locations += size
            if self.locations > MAX_LOCATIONS:
                raise InvalidInput(
                    f"buffers of {self.locations:,} chunks in all are too large to follow (at most {MAX_LOCATIONS:,})"
                )
        found = Buffer(rank, name, first, size)
        self.buffers.append(found)
        return found

    def where(self, op: int) -> str:
        """Return an operation as people name it: rank/thread/step and its type."""
        thread = self.threads[self.thread[op]]
        return f"g{thread.rank}/t{thread.number}/s{self.number[op]} ({self.names[self.name[op]]})"

    def place(self, location: int, rank: int | None = None) -> str:
        """Return a location as a buffer and an offset; of several names that of ``rank``'s first buffer."""
        for one in self.buffers:
            if one.first <= location < one.first + one.size and (rank is None or one.rank == rank):
                return f"{one.name}[{location - one.first}] on rank {one.rank}"
        return f"location {location}"

    def waits(self, op: int) -> Sequence[int]:
        """Return the operations that one waits for, beside those before it in its thread."""
        return self.wait[self.wait_start[op] : self.wait_start[op + 1]]
