"""What a collective starts from and must end with: contributions (rank, chunk), chunk by chunk.

Sizes follow nccl's: a whole buffer is cut into ``pieces`` equal chunks; all-gather has pieces / ranks of input, reduce-scatter as many of output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fabric_plan.planner.errors import InvalidInput

NAMES = {
    "allreduce": "allreduce", "allgather": "allgather", "reducescatter": "reducescatter", "reduce_scatter": "reducescatter",
    "alltoall": "alltoall", "broadcast": "broadcast", "reduce": "reduce", "gather": "gather", "scatter": "scatter",
    "custom": "custom",
}  # fmt: skip
"""Collectives that are checked, by the names that files give them."""

ROOTED = ("broadcast", "reduce", "gather", "scatter")


@dataclass(frozen=True)
class Collective:
    """A collective over ranks, in pieces.

    Parameters
    ----------
    name
        A value of :data:`NAMES`.
    pieces
        Equal chunks of the larger of input and output.
    root
        Of a rooted one.
    """

    name: str
    ranks: int
    pieces: int
    root: int = 0

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.pieces < 1:
            raise InvalidInput(
                f"{self.name}: expected at least one rank and one chunk, found {self.ranks} and {self.pieces}"
            )
        if self.name not in ("allreduce", "broadcast", "reduce", "custom") and self.pieces % self.ranks:
            raise InvalidInput(f"{self.name}: {self.pieces} chunks do not divide among {self.ranks} ranks")

    @property
    def each(self) -> int:
        """Chunks a rank owns of the whole."""
        return self.pieces // self.ranks

    def sizes(self, rank: int) -> tuple[int, int]:
        """Return chunks of (input, output) of a rank."""
        whole, each = self.pieces, self.each
        at_root = rank == self.root
        table = {
            "allreduce": (whole, whole),
            "alltoall": (whole, whole),
            "broadcast": (whole, whole),
            "reduce": (whole, whole),
            "custom": (whole, whole),
            "allgather": (each, whole),
            "reducescatter": (whole, each),
            "gather": (each, whole if at_root else 0),
            "scatter": (whole if at_root else 0, each),
        }
        return table[self.name]

    def alias(self, rank: int) -> tuple[str, int] | None:
        """Return how input and output lie over each other in place: (the smaller, its offset in the other); None: they do not."""
        shift = rank * self.each
        if self.name in ("allreduce", "alltoall", "broadcast", "reduce"):
            return "i", 0
        if self.name == "allgather" or (self.name == "gather" and rank == self.root):
            return "i", shift
        if self.name == "reducescatter" or (self.name == "scatter" and rank == self.root):
            return "o", shift
        return None

    def wanted(self, rank: int) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
        """Yield (output chunk, contributions that it must hold, each once); chunks that may hold anything are left out."""
        name, each, everyone = self.name, self.each, range(self.ranks)
        if name == "allreduce" or (name == "reduce" and rank == self.root):
            for c in range(self.pieces):
                yield c, tuple((q, c) for q in everyone)
        elif name == "broadcast":
            for c in range(self.pieces):
                yield c, ((self.root, c),)
        elif name == "allgather" or (name == "gather" and rank == self.root):
            for q in everyone:
                for c in range(each):
                    yield q * each + c, ((q, c),)
        elif name == "reducescatter":
            for c in range(each):
                yield c, tuple((q, rank * each + c) for q in everyone)
        elif name == "alltoall":
            for q in everyone:
                for c in range(each):
                    yield q * each + c, ((q, rank * each + c),)
        elif name == "scatter":
            for c in range(each):
                yield c, ((self.root, rank * each + c),)
