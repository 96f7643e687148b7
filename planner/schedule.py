"""Schedules of collectives: transfers of chunks between nodes, and the plan that holds them.

Several jobs are scheduled together: their chunks are numbered one job after the other, and a transfer carries chunks of one job.

A collective's data is cut into chunks of equal size, numbered from 0; each rank has a slot for every chunk. A transfer
carries the slots ``first .. first + count - 1`` of its source to the same slots of its target, where they replace what is
there or, if it reduces, are added to it. It sends what its source holds by the transfers that it needs, directly or not
(a runtime keeps a copy where a slot is received into while it is being sent). Switches that reduce or multicast are
sources and targets as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabric_plan.planner.errors import InvalidInput, InvalidPlan
from fabric_plan.planner.plan import Baseline, Certificate
from fabric_plan.planner.problem import Job, ScheduleProblem
from fabric_plan.planner.simulator.report import ScheduleReport

BYTES_PER_TRANSFER = 160
"""Memory that a transfer takes at the peak of its simulation, for refusing what cannot be held."""

MAX_MEMORY = 16 * 2**30

IntColumn = NDArray[np.integer[Any]]

_COLUMNS = ("source", "target", "first", "count", "reduce", "via")


class Transfers:
    """Transfers as columns.

    Parameters
    ----------
    source, target
        Node ids; shape (transfers,).
    first, count
        The first chunk and how many.
    reduce
        1 where the target adds, 0 where it replaces.
    via
        The link that it takes, or -1 for the fabric's route.
    need_start, need
        ``need[need_start[t]:need_start[t + 1]]`` must have finished before transfer t begins.
    """

    def __init__(
        self,
        source: ArrayLike,
        target: ArrayLike,
        first: ArrayLike,
        count: ArrayLike,
        reduce: ArrayLike,
        via: ArrayLike,
        need_start: ArrayLike,
        need: ArrayLike,
    ) -> None:
        self.source = np.asarray(source, dtype=np.int32)
        rows = len(self.source)
        self.target = np.asarray(target, dtype=np.int32)
        self.first = np.broadcast_to(np.asarray(first, dtype=np.int32), rows)
        self.count = np.broadcast_to(np.asarray(count, dtype=np.int32), rows)
        self.reduce = np.broadcast_to(np.asarray(reduce, dtype=np.int8), rows)
        self.via = np.broadcast_to(np.asarray(via, dtype=np.int32), rows)
        self.need_start = np.asarray(need_start, dtype=np.int32)
        self.need = np.asarray(need, dtype=np.int32)

    def __len__(self) -> int:
        return len(self.source)

    def name(self, row: int) -> str:
        """Return what a transfer carries, for a reader: "chunk 3", "chunks 4-7, added"."""
        first, count = int(self.first[row]), int(self.count[row])
        what = f"chunk {first}" if count == 1 else f"chunks {first}-{first + count - 1}"
        return f"{what}, added" if self.reduce[row] else what

    def to_lists(self) -> dict[str, Any]:
        """Return the columns for a file; one number stands for a column of equal ones."""
        found: dict[str, Any] = {}
        for name in _COLUMNS:
            column = getattr(self, name)
            constant = len(column) > 1 and name not in ("source", "target") and bool((column == column[0]).all())
            found[name] = int(column[0]) if constant else column.tolist()
        return {**found, "need_start": self.need_start.tolist(), "need": self.need.tolist()}

    @classmethod
    def from_lists(cls, columns: Any) -> Transfers:
        """Return what :meth:`to_lists` wrote.

        Raises
        ------
        ValueError
            Naming the column that is wrong.
        """
        names = (*_COLUMNS, "need_start", "need")
        if not isinstance(columns, dict) or set(columns) != set(names):
            raise ValueError(f"expected the columns {', '.join(names)}")
        arrays = {}
        for name in names:
            try:
                array = np.array(columns[name])
            except ValueError:
                raise ValueError(f"column {name}: expected whole numbers") from None
            if array.size and (array.dtype.kind not in "iu" or array.max() >= 2**31 or array.min() < -1):
                raise ValueError(f"column {name}: expected whole numbers below 2^31")
            if array.ndim != 1 and not (array.ndim == 0 and name in _COLUMNS[2:]):
                raise ValueError(f"column {name}: expected a list of whole numbers")
            arrays[name] = array
        rows = len(arrays["source"])
        for name in _COLUMNS:
            if arrays[name].ndim == 1 and len(arrays[name]) != rows:
                raise ValueError(f"column {name}: it has {len(arrays[name])} entries, source has {rows}")
        starts = arrays["need_start"]
        cuts = len(starts) == rows + 1 and starts[0] == 0 and starts[-1] == len(arrays["need"])
        if not cuts or (np.diff(starts) < 0).any():
            raise ValueError(f"column need_start: it must cut the needs into {rows} rows")
        return cls(**arrays)


class SchedulePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, eq=False):
    """One collective, or several at once, as transfers of chunks.

    Parameters
    ----------
    algorithm
        What it is called.
    shards
        By chunk: which shard it is part of, or for all-to-all which block (source rank x ranks + target rank). A job's chunks
        are of equal size.
    job_chunks
        By job: how many of the chunks are its own, which follow those of the jobs before it; empty where there is one job.
    report
        The simulator's own findings; None until it has been simulated.
    seconds
        Wall time of the planner; None in deterministic runs.
    """

    family: ClassVar[str] = "schedule"

    problem: ScheduleProblem
    algorithm: str
    shards: tuple[int, ...]
    transfers: Transfers
    certificate: Certificate
    baselines: tuple[Baseline, ...] = ()
    planner: str = ""
    seed: int = 0
    seconds: float | None = None
    report: ScheduleReport | None = None
    job_chunks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        jobs = len(self.problem.jobs)
        if len(self.job_chunks) != (jobs if jobs > 1 else 0):
            told = f"{jobs} numbers, one a job" if jobs > 1 else "nothing, as there is one job"
            raise InvalidPlan(f"job_chunks: {len(self.job_chunks)} numbers are given, expected {told}")
        if self.job_chunks and (min(self.job_chunks) < 1 or sum(self.job_chunks) != len(self.shards)):
            raise InvalidPlan(
                f"job_chunks: they must be at least 1 each and {len(self.shards)} together, as the shards"
            )

    @property
    def chunk_counts(self) -> tuple[int, ...]:
        """By job: how many chunks it has."""
        return self.job_chunks or (len(self.shards),)

    @property
    def chunk_bytes(self) -> tuple[Fraction, ...]:
        """By job: bytes of a chunk."""
        jobs = zip(self.problem.jobs, self.chunk_counts, strict=True)
        return tuple(whole_bytes(job) / count for job, count in jobs)

    @property
    def job_starts(self) -> IntColumn:
        """Where each job's chunks begin, and the number of all; shape (jobs + 1,)."""
        starts = np.zeros(len(self.problem.jobs) + 1, dtype=np.int64)
        np.cumsum(self.chunk_counts, out=starts[1:])
        return starts

    def job_of(self, transfers: Transfers) -> IntColumn:
        """Return by transfer which job's chunks it carries, by the first of them."""
        starts = self.job_starts
        if len(starts) == 2:
            return np.zeros(len(transfers), dtype=np.int64)
        return np.asarray(np.clip(np.searchsorted(starts, transfers.first, side="right") - 1, 0, len(starts) - 2))

    @property
    def baseline(self) -> Baseline | None:
        """The best of the baselines."""
        return min(self.baselines, key=lambda one: one.value, default=None)


def whole_bytes(job: Job) -> Fraction:
    """Return the bytes that a job's chunks hold together.

    All ranks' buffers hold ``size`` bytes together in an all-to-all of one rank; so its p x p blocks hold p times that.
    """
    return job.size * len(job.group) if job.pattern == "all-to-all" else job.size


def check_memory(transfers: int, what: str) -> None:
    """Raise InvalidInput if so many transfers could not be held."""
    need = transfers * BYTES_PER_TRANSFER
    limit = min(MAX_MEMORY, _physical_memory())
    if need > limit:
        raise InvalidInput(
            f"{what}: {transfers:,} transfers would need some {need / 2**30:,.0f} GiB of memory, more than the "
            f"{limit / 2**30:.0f} GiB that may be used here: use fewer ranks or chunks"
        )


def _physical_memory() -> int:
    import os

    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return MAX_MEMORY


def padded(lists: Sequence[Sequence[int]]) -> IntColumn:
    """Return lists of numbers as a table, shape (lists, the longest), -1 for none."""
    table = np.full((len(lists), max((len(one) for one in lists), default=0)), -1, dtype=np.int64)
    for row, one in enumerate(lists):
        table[row, : len(one)] = one
    return table


class Columns:
    """Collects transfers batch by batch, each batch as arrays."""

    def __init__(self) -> None:
        self._batches: list[tuple[IntColumn, ...]] = []
        self._needs: list[tuple[IntColumn, IntColumn]] = []
        self.size = 0

    def add(
        self,
        source: ArrayLike,
        target: ArrayLike,
        first: ArrayLike,
        count: ArrayLike = 1,
        *,
        reduce: ArrayLike = False,
        needs: ArrayLike | None = None,
        via: ArrayLike = -1,
    ) -> IntColumn:
        """Append transfers and return their numbers, shape (rows,).

        ``needs`` has shape (rows, most needs), with -1 for none.
        """
        source = np.atleast_1d(np.asarray(source, dtype=np.int32))
        rows = len(source)
        rest = [np.broadcast_to(np.asarray(one, dtype=np.int32), rows) for one in (target, first, count, reduce, via)]
        self._batches.append((source, *rest))
        if needs is None:
            self._needs.append((np.zeros(rows, dtype=np.int32), np.zeros(0, dtype=np.int32)))
        else:
            table = np.asarray(needs, dtype=np.int32).reshape(rows, -1)
            there = table >= 0
            self._needs.append((there.sum(axis=1, dtype=np.int32), table[there]))
        numbers = np.arange(self.size, self.size + rows)
        self.size += rows
        return numbers

    def transfers(self) -> Transfers:
        """Return all of them."""
        if not self._batches:
            nothing = np.zeros(0, dtype=np.int32)
            return Transfers(nothing, nothing, nothing, nothing, nothing, nothing, np.zeros(1, dtype=np.int32), nothing)
        source, target, first, count, reduce, via = (
            np.concatenate([batch[k] for batch in self._batches]) for k in range(len(_COLUMNS))
        )
        counts = np.concatenate([counts for counts, _ in self._needs])
        starts = np.zeros(self.size + 1, dtype=np.int32)
        np.cumsum(counts, out=starts[1:])
        needs = np.concatenate([needs for _, needs in self._needs])
        return Transfers(source, target, first, count, reduce, via, starts, needs)
