"""What one would do without a planner of several jobs: each job by its best standard algorithm, all at once or one after another."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.planners import ALGORITHMS, draft_of
from fabric_plan.planner.errors import InvalidInput, InvalidProblem
from fabric_plan.planner.plan import Certificate, Status
from fabric_plan.planner.problem import Job, ScheduleProblem
from fabric_plan.planner.schedule import Columns, IntColumn, SchedulePlan, Transfers, check_memory
from fabric_plan.planner.simulator.dataflow import NOT, Found
from fabric_plan.planner.simulator.schedule import simulate

_NOTHING = Certificate(status=Status.UNKNOWN, keys=())


def best_alone(problem: ScheduleProblem) -> list[SchedulePlan]:
    """Return for each job the standard algorithm that is quickest when it has the fabric to itself.

    Raises
    ------
    InvalidProblem
        When no algorithm does some job.
    """
    known: dict[Job, SchedulePlan] = {}
    found = []
    for job in problem.jobs:
        alone = msgspec.structs.replace(job, release=type(job.release)(0), priority=0, name=msgspec.UNSET)
        if alone not in known:
            known[alone] = _best(msgspec.structs.replace(problem, fabric=problem.seen, jobs=(alone,)))
        found.append(known[alone])
    return found


def _best(problem: ScheduleProblem) -> SchedulePlan:
    drafts: list[SchedulePlan] = []
    refused: list[str] = []
    job = problem.jobs[0]
    for name, algorithm in ALGORITHMS.items():
        if job.pattern in algorithm.patterns:
            try:
                drafts.append(draft_of(problem, name))
            except InvalidInput as error:
                refused.append(str(error))
    if job.pattern in ("point-to-point", "gather", "scatter"):
        drafts.append(_sent(problem))
    times = [simulate(draft, followed=Found([], NOT)).report.seconds for draft in drafts]
    ended = [(seconds, k) for k, seconds in enumerate(times) if seconds is not None]
    if not ended:
        raise InvalidProblem(f"job {job.label}: no algorithm suits: {'; '.join(refused) or 'none does it'}")
    return drafts[min(ended)[1]]


def _sent(problem: ScheduleProblem) -> SchedulePlan:
    """Return the plan that sends each part straight to where it must go."""
    job = problem.jobs[0]
    nodes = Group(problem.fabric, job).nodes
    columns = Columns()
    others = np.arange(1, 2 if job.pattern == "point-to-point" else len(nodes))
    if job.pattern == "gather":
        columns.add(nodes[others], nodes[0], others)
    else:
        columns.add(np.full(len(others), nodes[0]), nodes[others], others if job.pattern == "scatter" else 0)
    shards = tuple(range(len(nodes))) if job.pattern != "point-to-point" else (0,)
    return SchedulePlan(
        problem=problem, algorithm="direct", shards=shards, transfers=columns.transfers(), certificate=_NOTHING
    )


def together(problem: ScheduleProblem, alone: Sequence[SchedulePlan]) -> SchedulePlan:
    """Return the plan in which every job runs as it would alone, from its release on, whatever the others do."""
    return _merged(problem, alone, list(range(len(alone))), "together", classes=None)


def in_turn(problem: ScheduleProblem, alone: Sequence[SchedulePlan], *, classes: bool = False) -> SchedulePlan:
    """Return the plan in which one job waits for the other, by priority, then release; or one class of equal priority for the other."""
    order = sorted(range(len(alone)), key=lambda k: (problem.jobs[k].priority, problem.jobs[k].release, k))
    turns: list[int] = []
    for rank, k in enumerate(order):
        same = bool(rank) and classes and problem.jobs[order[rank - 1]].priority == problem.jobs[k].priority
        turns.append(turns[-1] if same else rank)
    return _merged(problem, alone, order, "by priority" if classes else "one after another", classes=turns)


def _merged(
    problem: ScheduleProblem,
    alone: Sequence[SchedulePlan],
    order: Sequence[int],
    name: str,
    *,
    classes: Sequence[int] | None,
) -> SchedulePlan:
    """Return all plans in one; with ``classes``, a job waits at a barrier for all of the classes before its own."""
    counts = [len(one.shards) for one in alone]
    starts = np.cumsum([0, *counts])
    total = sum(len(one.transfers) for one in alone)
    check_memory(total, name)
    parts: list[tuple[IntColumn, ...]] = []
    needs: list[IntColumn] = []
    lengths: list[IntColumn] = []
    size, barrier, ended = 0, -1, list[IntColumn]()
    for rank, k in enumerate(order):
        one = alone[k].transfers
        if classes is not None and rank and classes[rank] != classes[rank - 1]:
            node = np.array([problem.fabric.seats[problem.jobs[k].group[0]]])
            parts.append((node, node, starts[k : k + 1], np.array([0]), np.array([0]), np.array([-1])))
            waits = np.concatenate(ended)
            needs.append(waits)
            lengths.append(np.array([len(waits)]))
            barrier, ended = size, []
            size += 1
        parts.append((one.source, one.target, one.first + starts[k], one.count, one.reduce, one.via))
        spread = np.diff(one.need_start)
        own = one.need + size
        if barrier >= 0:
            # What needs nothing of its own job waits at the barrier.
            own = np.insert(own, one.need_start[:-1][spread == 0], barrier)
            spread = np.where(spread == 0, 1, spread)
        needs.append(own)
        lengths.append(spread)
        last = np.ones(len(one), dtype=bool)
        last[one.need] = False
        ended.append(np.flatnonzero(last) + size)
        size += len(one)
    source, target, first, count, reduce, via = (
        np.concatenate([part[column] for part in parts]) for column in range(6)
    )
    need_start = np.zeros(size + 1, dtype=np.int64)
    np.cumsum(np.concatenate(lengths), out=need_start[1:])
    return SchedulePlan(
        problem=problem,
        algorithm=name,
        shards=tuple(shard for one in alone for shard in one.shards),
        job_chunks=tuple(counts) if len(counts) > 1 else (),
        transfers=Transfers(source, target, first, count, reduce, via, need_start, np.concatenate(needs)),
        certificate=_NOTHING,
    )
