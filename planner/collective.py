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


def conditions(pattern: str, rank: Any, shard: Any, ranks: int) -> tuple[Any, Any, bool]:
    """Return who has a shard at first, who must end with it, and whether as the sum of all who had it.

    ``rank`` and ``shard`` are integers or arrays that broadcast. An all-to-all's shard is the block sender x ranks + receiver;
    rooted patterns are about rank 0, and point-to-point goes from rank 0 to rank 1.
    """
    everyone = (rank >= 0) & (shard >= 0)
    root = (rank == 0) & everyone
    own = (rank == shard) & everyone
    if pattern == "all-to-all":
        return (rank == shard // ranks) & everyone, (rank == shard % ranks) & everyone, False
    known = {
        "all-reduce": (everyone, everyone, True),
        "reduce-scatter": (everyone, own, True),
        "reduce": (everyone, root, True),
        "all-gather": (own, everyone, False),
        "broadcast": (root, everyone, False),
        "gather": (own, root, False),
        "scatter": (root, own, False),
        "point-to-point": (root, (rank <= 1) & everyone, False),
    }
    if pattern not in known:
        raise ValueError(f"unknown pattern {pattern!r}")
    return known[pattern]


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


def bus_factor(pattern: str, ranks: int) -> Fraction:
    """Return what turns an algorithm's bandwidth into the bus bandwidth of nccl-tests, comparable with a link's."""
    if pattern == "all-reduce":
        return Fraction(2 * (ranks - 1), ranks)
    if pattern in ("reduce-scatter", "all-gather", "all-to-all", "gather", "scatter"):
        return Fraction(ranks - 1, ranks)
    return Fraction(1)
