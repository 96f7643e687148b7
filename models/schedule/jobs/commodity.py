"""What jobs have to move: parts of their data, each of which a tree or two can carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from fabric_plan.planner.problem import Job

Kind = Literal["both", "out", "in"]


@dataclass(frozen=True)
class Commodity:
    """Bytes that go one way: from a root to ends, from ends to a root as a sum, or from all ends to all of them as a sum.

    Parameters
    ----------
    job, shard
        Numbers of the job and of its shard (or block).
    kind
        ``out``, ``in`` or ``both``.
    root
        A seat; -1 for ``both``.
    ends
        Seats: who must get it, who adds to it, or, for ``both``, all ranks.
    size
        Bytes.
    """

    job: int
    shard: int
    kind: Kind
    root: int
    ends: tuple[int, ...]
    size: Fraction


def commodities(jobs: Sequence[Job]) -> list[Commodity]:
    """Return what all jobs have to move. What a rank keeps to itself is not among it."""
    return [one for number, job in enumerate(jobs) for one in _of(number, job)]


def _of(number: int, job: Job) -> list[Commodity]:
    group, size = job.group, job.size
    ranks, part = len(group), size / len(group)
    root, others = group[0], group[1:]

    def but(rank: int) -> tuple[int, ...]:
        return group[:rank] + group[rank + 1 :]

    if job.pattern == "all-reduce":
        return [Commodity(number, 0, "both", -1, group, size)]
    if job.pattern in ("all-gather", "reduce-scatter"):
        kind: Kind = "out" if job.pattern == "all-gather" else "in"
        return [Commodity(number, rank, kind, group[rank], but(rank), part) for rank in range(ranks)]
    if job.pattern in ("broadcast", "point-to-point"):
        # Point-to-point goes from rank 0 to rank 1, whoever else is there.
        return [Commodity(number, 0, "out", root, others if job.pattern == "broadcast" else others[:1], size)]
    if job.pattern == "reduce":
        return [Commodity(number, 0, "in", root, others, size)]
    if job.pattern == "gather":
        return [Commodity(number, rank, "out", group[rank], (root,), part) for rank in range(1, ranks)]
    if job.pattern == "scatter":
        return [Commodity(number, rank, "out", root, (group[rank],), part) for rank in range(1, ranks)]
    return [
        Commodity(number, a * ranks + b, "out", group[a], (group[b],), part)
        for a in range(ranks)
        for b in range(ranks)
        if a != b
    ]


def shards_of(job: Job) -> tuple[int, ...]:
    """Return the shards (or blocks) that a job's data is cut into when every part has its own way."""
    if job.pattern in ("all-reduce", "broadcast", "reduce", "point-to-point"):
        return (0,)
    return tuple(range(len(job.group) ** (2 if job.pattern == "all-to-all" else 1)))
