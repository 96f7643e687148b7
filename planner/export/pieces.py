"""The pieces of a file, and a schedule's transfers as messages of consecutive pieces between ranks.

A plan numbers its chunks as its algorithm likes; a file's buffers hold them by shard. What moves together everywhere is
one piece, so that a file has no more pieces than its schedule needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fabric_plan.planner.collective import conditions
from fabric_plan.planner.errors import InvalidInput

if TYPE_CHECKING:
    from fabric_plan.planner.schedule import SchedulePlan

NAMES = {
    "all-reduce": "allreduce",
    "all-gather": "allgather",
    "reduce-scatter": "reducescatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "all-to-all": "alltoall",
}
"""Collectives that can be exported, and what runtimes call them."""

MOST_SLOTS = 4_000_000
"""Pieces of all messages together that are followed."""

Place = tuple[str, int]
"""A buffer (i, o, s) and an offset in it, in pieces."""


@dataclass(frozen=True, slots=True)
class Message:
    """Pieces [first, first + count) from one rank to another; ``transfer`` is the plan's, ``reduce``: the target adds."""

    transfer: int
    source: int
    target: int
    first: int
    count: int
    reduce: bool

    @property
    def pieces(self) -> range:
        """Its pieces."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class Layout:
    """Which pieces there are, and where each rank has them.

    Parameters
    ----------
    pieces
        Of all ranks together: those of the whole buffer, or for an all-to-all those of all its ranks x ranks blocks.
    each
        Pieces of a shard or block; of the whole where there are no shards.
    """

    pattern: str
    ranks: int
    pieces: int
    each: int

    @property
    def whole(self) -> int:
        """Pieces of the larger of a rank's input and output."""
        return self.pieces // self.ranks if self.pattern == "all-to-all" else self.pieces

    def sizes(self, rank: int) -> tuple[int, int]:
        """Return the pieces of a rank's (input, output); a reduce has output at its root only."""
        if self.pattern == "all-gather":
            return self.each, self.whole
        if self.pattern == "reduce-scatter":
            return self.whole, self.each
        if self.pattern == "reduce":
            return self.whole, self.whole if rank == 0 else 0
        if self.pattern == "broadcast":
            return self.whole if rank == 0 else 0, self.whole
        return self.whole, self.whole

    def has(self, rank: int, piece: int) -> bool:
        """Whether a rank has something of a piece at first."""
        return bool(conditions(self.pattern, rank, piece // self.each, self.ranks)[0])

    def asked(self, rank: int, piece: int) -> bool:
        """Whether a rank must end with a piece."""
        return bool(conditions(self.pattern, rank, piece // self.each, self.ranks)[1])

    def input(self, rank: int, piece: int) -> Place:
        """Return where a piece lies that a rank has at first."""
        if self.pattern == "all-gather":
            return "i", piece - rank * self.each
        if self.pattern == "all-to-all":
            return "i", piece - rank * self.whole
        return "i", piece

    def output(self, rank: int, piece: int) -> Place:
        """Return where a piece belongs that a rank must end with."""
        if self.pattern == "reduce-scatter":
            return "o", piece - rank * self.each
        if self.pattern == "all-to-all":
            return "o", piece // self.whole * self.each + piece % self.each
        return "o", piece

    def name(self, piece: int) -> str:
        """Return a piece as an error names it."""
        return f"piece {piece} of {self.pieces}"


@dataclass(frozen=True)
class Pieces:
    """A layout, the messages in the order of the plan's transfers, and those transfers that begin or end at switches."""

    layout: Layout
    messages: tuple[Message, ...]
    through: tuple[int, ...]


def pieces_of(plan: SchedulePlan) -> Pieces:
    """Return a plan's pieces and messages.

    Raises
    ------
    InvalidInput
        When files cannot say the plan: another collective, an NPU beside the group, too many pieces.
    """
    if len(plan.problem.jobs) != 1:
        raise InvalidInput(
            f"export: a file of this form is one collective, the plan has {len(plan.problem.jobs)} at once"
        )
    job, transfers = plan.problem.jobs[0], plan.transfers
    if job.pattern not in NAMES:
        raise InvalidInput(f"export: {job.pattern} is not written: expected one of {', '.join(NAMES)}")
    ranks = len(job.group)
    piece_of, total, each = _numbers(plan.shards, job.pattern, ranks)
    fabric = plan.problem.fabric
    rank_of = {fabric.seats[seat]: rank for rank, seat in enumerate(job.group)}
    if int(transfers.count.sum(dtype=np.int64)) > MOST_SLOTS:
        raise InvalidInput(
            f"export: its transfers carry {int(transfers.count.sum(dtype=np.int64)):,} chunks, at most {MOST_SLOTS:,} are "
            "followed: use fewer chunks"
        )
    found: list[Message] = []
    through: list[int] = []
    columns = (transfers.source, transfers.target, transfers.first, transfers.count, transfers.reduce)
    for row, (source, target, first, count, reduce) in enumerate(zip(*(one.tolist() for one in columns), strict=True)):
        if source == target:
            if reduce and count:
                raise InvalidInput(f"export: transfer {row} adds a node's chunks to themselves, which files cannot say")
            continue  # it only waits, or replaces by the same
        ends = rank_of.get(source), rank_of.get(target)
        if ends[0] is None or ends[1] is None:
            node = fabric.nodes[source if ends[0] is None else target]
            if node.kind != "switch":
                raise InvalidInput(f"export: transfer {row} takes {node.name}, which is no rank of the collective")
            through.append(row)
            continue
        for start, length in _runs([piece_of[chunk] for chunk in range(first, first + count)]):
            found.append(Message(row, ends[0], ends[1], start, length, bool(reduce)))
    grain = math.gcd(each, *(one.first for one in found), *(one.count for one in found))
    if through:
        grain = 1
    layout = Layout(job.pattern, ranks, total // grain, each // grain)
    coarse = (
        Message(one.transfer, one.source, one.target, one.first // grain, one.count // grain, one.reduce)
        for one in found
    )
    return Pieces(layout, tuple(coarse), tuple(through))


def _numbers(shards: tuple[int, ...], pattern: str, ranks: int) -> tuple[list[int], int, int]:
    """Return (the piece of each chunk, how many there are, how many a shard has)."""
    if pattern in ("all-reduce", "broadcast", "reduce"):
        return list(range(len(shards))), len(shards), len(shards)
    count: dict[int, int] = {}
    places = []
    for shard in shards:
        places.append((shard, count.get(shard, 0)))
        count[shard] = count.get(shard, 0) + 1
    each = max(count.values())
    total = (ranks * ranks if pattern == "all-to-all" else ranks) * each
    return [shard * each + place for shard, place in places], total, each


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, length) of consecutive numbers, as they follow one another."""
    start = 0
    for k in range(1, len(numbers) + 1):
        if k == len(numbers) or numbers[k] != numbers[k - 1] + 1:
            yield numbers[start], k - start
            start = k


def cut(message: Message, length: int) -> Iterator[Message]:
    """Yield a message in parts of at most so many pieces."""
    for start in range(message.first, message.first + message.count, length):
        count = min(length, message.first + message.count - start)
        yield Message(message.transfer, message.source, message.target, start, count, message.reduce)
