"""From a placement to the jobs that its collectives are: each group of each dimension one collective of an iteration's bytes.

Collectives that follow one another in an iteration are taken as one of all their bytes. A pipeline's sends are a point-to-point each, or a
broadcast where one worker sends to several. Dimensions are classes of priority, in the order of the strategy.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.plan import PlacementPlan
from fabric_plan.planner.problem import Job, ScheduleProblem
from fabric_plan.planner.simulator.lowering import stages
from fabric_plan.planner.workload import Volume


def placed_jobs(
    plan: PlacementPlan, volumes: Mapping[str, Volume] | None = None, *, chunks: int | None = None
) -> ScheduleProblem:
    """Return the schedule problem of a placement's collectives, all at once.

    Parameters
    ----------
    volumes
        By dimension: bytes of an iteration, in place of those that the placement was made for.

    Raises
    ------
    InvalidProblem
        When a dimension has no volume, or one is given that does not communicate.
    """
    problem, volumes = plan.problem, volumes or {}
    there = [demand.dimension for demand in problem.demands]
    for name in volumes:
        if name not in there:
            raise InvalidProblem(
                f"volumes: {name} does not communicate in {problem.strategy}: only {', '.join(there) or 'nothing'} do"
            )
    missing = [one.dimension for one in problem.demands if one.size is None and one.dimension not in volumes]
    if missing:
        raise InvalidProblem(
            f"the placement has no volumes for {', '.join(missing)}: make it with place --workload, or give --volumes {missing[0]}=64MiB"
        )
    jobs: list[Job] = []
    for priority, demand in enumerate(problem.demands):
        size = volumes[demand.dimension].size if demand.dimension in volumes else demand.size
        assert size is not None
        groups: list[tuple[str, tuple[int, ...]]] = []
        if demand.pattern == "point-to-point":
            for stage in stages(problem, demand, plan.seats, plan.rings):
                for flow in stage.flows:
                    pattern = "point-to-point" if len(flow.targets) == 1 else "broadcast"
                    groups.append((pattern, (flow.source, *flow.targets)))
        else:
            for group in problem.strategy.groups(demand.dimension):
                groups.append((demand.pattern, tuple(plan.seats[worker] for worker in group)))
        for number, (pattern, seats) in enumerate(groups):
            jobs.append(
                Job(
                    pattern=pattern,
                    group=seats,
                    size=Fraction(size),
                    priority=priority,
                    name=f"{demand.dimension} {number}",
                )
            )
    if not jobs:
        raise InvalidProblem(f"{problem.strategy}: no dimension communicates, so there is nothing to schedule")
    return ScheduleProblem(fabric=problem.fabric, jobs=tuple(jobs), chunks=chunks)
