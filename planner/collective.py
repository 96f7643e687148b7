"""Collective operations: what each rank starts and ends with, and what the algorithms of a placement send.

A collective's size is the larger of its input and output buffers per rank, as nccl-tests counts it: all-reduce n;
all-gather and reduce-scatter p shards of n/p; all-to-all p blocks of n/p.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

PATTERNS = (
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "all-to-all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "point-to-point",
)

Chunk = tuple[int, int]
"""(rank whose contribution it is, index of the shard or block)."""


def precondition(pattern: str, ranks: int) -> list[frozenset[Chunk]]:
    """Return the chunks that each rank holds at the start (root 0 for the rooted patterns)."""
    everything = range(ranks)
    if pattern in ("all-reduce", "reduce-scatter", "all-to-all", "reduce"):
        return [frozenset((rank, shard) for shard in everything) for rank in everything]
    if pattern in ("all-gather", "gather"):
        return [frozenset({(rank, rank)}) for rank in everything]
    if pattern in ("broadcast", "scatter", "point-to-point"):
        return [frozenset((0, shard) for shard in everything) if rank == 0 else frozenset() for rank in everything]
    raise ValueError(f"unknown pattern {pattern!r}")


def postcondition(pattern: str, ranks: int) -> list[frozenset[Chunk]]:
    """Return the contributions that each rank must end with (summed per shard where the pattern reduces)."""
    everything = range(ranks)
    whole = frozenset((rank, shard) for rank in everything for shard in everything)
    if pattern == "all-reduce":
        return [whole for _ in everything]
    if pattern == "reduce-scatter":
        return [frozenset((rank, mine) for rank in everything) for mine in everything]
    if pattern == "all-gather":
        return [frozenset((rank, rank) for rank in everything) for _ in everything]
    if pattern == "all-to-all":
        return [frozenset((rank, mine) for rank in everything) for mine in everything]
    if pattern == "broadcast":
        return [frozenset((0, shard) for shard in everything) for _ in everything]
    if pattern == "reduce":
        return [whole if rank == 0 else frozenset() for rank in everything]
    if pattern == "gather":
        return [frozenset((rank, rank) for rank in everything) if mine == 0 else frozenset() for mine in everything]
    if pattern == "scatter":
        return [frozenset({(0, mine)}) for mine in everything]
    if pattern == "point-to-point":
        return [frozenset((0, shard) for shard in everything) if rank <= 1 else frozenset() for rank in everything]
    raise ValueError(f"unknown pattern {pattern!r}")


def ring_steps(pattern: str, ranks: int) -> int:
    """Return how many steps a ring takes; every member sends size/ranks to its successor in each (Thakur et al. 2005)."""
    if ranks < 2:
        return 0
    steps = {"all-reduce": 2 * (ranks - 1), "reduce-scatter": ranks - 1, "all-gather": ranks - 1}
    if pattern not in steps:
        raise ValueError(f"no ring algorithm for {pattern!r}")
    return steps[pattern]


def ring_edge_bytes(pattern: str, ranks: int, size: Fraction) -> Fraction:
    """Return the bytes that each member of a ring sends to its successor over the whole collective of ``size`` bytes."""
    return ring_steps(pattern, ranks) * size / ranks


def direct_edge_bytes(pattern: str, ranks: int, size: Fraction) -> Fraction:
    """Return the bytes between each ordered pair when an all-to-all of ``size`` bytes per rank is sent directly."""
    if pattern != "all-to-all":
        raise ValueError(f"no direct algorithm for {pattern!r} here")
    return size / ranks


def postcondition_of(pattern: str, rank: Any, shard: Any, ranks: int) -> tuple[Any, Any, bool]:
    """Return for ranks and shards (arrays that broadcast) who has them at first, who must end with them, and if summed.

    As :func:`precondition` and :func:`postcondition`, chunk by chunk; an all-to-all's shard is sender x ranks + receiver.
    """
    everyone = (rank >= 0) & (shard >= 0)
    if pattern == "all-reduce":
        return everyone, everyone, True
    if pattern == "reduce-scatter":
        return everyone, (rank == shard) & everyone, True
    if pattern == "reduce":
        return everyone, (rank == 0) & everyone, True
    if pattern == "all-gather":
        return (rank == shard) & everyone, everyone, False
    if pattern == "broadcast":
        return (rank == 0) & everyone, everyone, False
    if pattern == "all-to-all":
        return (rank == shard // ranks) & everyone, (rank == shard % ranks) & everyone, False
    if pattern == "gather":
        return (rank == shard) & everyone, (rank == 0) & everyone, False
    if pattern == "scatter":
        return (rank == 0) & everyone, (rank == shard) & everyone, False
    raise ValueError(f"unknown pattern {pattern!r}")


def bus_factor(pattern: str, ranks: int) -> Fraction:
    """Return what turns an algorithm's bandwidth into the bus bandwidth of nccl-tests, comparable with a link's."""
    if pattern == "all-reduce":
        return Fraction(2 * (ranks - 1), ranks)
    if pattern in ("reduce-scatter", "all-gather", "all-to-all", "gather", "scatter"):
        return Fraction(ranks - 1, ranks)
    return Fraction(1)
