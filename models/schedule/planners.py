"""The planners of schedules: one for each standard algorithm, and the best of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec

from fabric_plan.models.schedule import direct as _direct
from fabric_plan.models.schedule import flows, forest, rings, rotations, spanning, trees
from fabric_plan.models.schedule import in_network as _in_network
from fabric_plan.models.schedule.bounds import time_bound
from fabric_plan.models.schedule.group import Group
from fabric_plan.planner.errors import InvalidInput, InvalidProblem, LimitReached
from fabric_plan.planner.interface import Budget, OnProgress, Progress
from fabric_plan.planner.plan import Baseline, Certificate, Key, Status
from fabric_plan.planner.problem import Problem, ScheduleProblem
from fabric_plan.planner.schedule import Columns, SchedulePlan
from fabric_plan.planner.simulator.dataflow import NOT, Found
from fabric_plan.planner.simulator.schedule import simulate

if TYPE_CHECKING:
    from fabric_plan.models.schedule.exchange import Exchange
    from fabric_plan.models.schedule.synchronous import Synchronous

_SHARDED = ("all-reduce", "all-gather", "reduce-scatter")
_ROOTED = ("broadcast", "reduce")


@dataclass(frozen=True)
class Algorithm:
    """An algorithm: what it can do, and whether it cuts the data into chunks that follow one another.

    ``build`` fills columns and returns the shards; ``several`` yields columns and shards, of which the quickest is kept.
    """

    patterns: tuple[str, ...]
    build: Callable[[Columns, Group, int], list[int]] | None = None
    pipelined: bool = False
    several: Callable[[Group, int], Iterator[tuple[Columns, list[int]]]] | None = None


ALGORITHMS = {
    "ring": Algorithm(_SHARDED, rings.ring),
    "double-ring": Algorithm(_SHARDED, rings.double_ring),
    "chain": Algorithm(_ROOTED, rings.chain, pipelined=True),
    "recursive-doubling": Algorithm(("all-reduce", "all-gather"), trees.recursive_doubling),
    "halving-doubling": Algorithm(_SHARDED, trees.halving_doubling),
    "binomial-tree": Algorithm(("all-reduce", *_ROOTED), trees.binomial_tree),
    "double-binary-tree": Algorithm(("all-reduce", *_ROOTED), trees.double_binary_tree, pipelined=True),
    "direct": Algorithm((*_SHARDED, "all-to-all", "gather", "scatter"), _direct.direct, pipelined=True),
    "dimension-wise": Algorithm(_SHARDED, rings.dimension_wise),
    "hierarchical": Algorithm(_SHARDED, rings.hierarchical),
    "rotations": Algorithm(_SHARDED, rotations.rotations),
    "trees": Algorithm(_SHARDED, pipelined=True, several=forest.trees),
    "spanning-trees": Algorithm(("all-reduce",), pipelined=True, several=spanning.spanning_trees),
    "flows": Algorithm(("all-to-all",), pipelined=True, several=flows.flows),
    "in-network": Algorithm((*_SHARDED, *_ROOTED), _in_network.in_network, pipelined=True),
}


def schedule_of(problem: ScheduleProblem, name: str) -> SchedulePlan:
    """Return an algorithm's schedule with its simulated time and the bound that holds for any; the judge has not seen it.

    Raises
    ------
    InvalidProblem
        When the algorithm does not do the collective, or the fabric does not suit it.
    InvalidInput
        When there would be too many transfers to hold.
    """
    draft = draft_of(problem, name)
    seconds = simulate(draft, followed=Found([], NOT)).report.seconds
    if seconds is None:
        raise InvalidProblem(f"{name}: its transfers wait for one another for ever")
    bound, proof = time_bound(Group(problem.fabric, problem.jobs[0]))
    key = Key(name="time", value=seconds, bound=bound, unit="s")
    status = Status.OPTIMAL if key.closed else Status.FEASIBLE
    certificate = Certificate(status=status, keys=(key,), proof=(proof,))
    return msgspec.structs.replace(draft, certificate=certificate, planner=name)


def synchronous_plan(
    problem: ScheduleProblem, steps: int, rounds: int | None, budget: Budget
) -> tuple[SchedulePlan, Synchronous | Exchange]:
    """Return an all-gather, reduce-scatter or all-to-all (``chunks`` blocks for every pair) in so many steps with the fewest rounds, as a plan that is not validated yet.

    Raises
    ------
    Infeasible, LimitReached, InvalidProblem
        As :func:`fabric_plan.models.schedule.synchronous.fewest_rounds`; when it is another collective.
    """
    from fabric_plan.models.schedule import exchange, synchronous

    job = problem.jobs[0]
    if job.pattern not in ("all-gather", "reduce-scatter", "all-to-all"):
        raise InvalidProblem(
            f"synchronous: steps and rounds are of all-gather, reduce-scatter and all-to-all, not of {job.pattern}"
        )
    reverse = job.pattern == "reduce-scatter"
    group = Group(problem.fabric.for_size(job.size), job)
    group.check_joined()
    net = synchronous.net_of(group, reverse=reverse)
    columns = Columns()
    found: Synchronous | Exchange
    if job.pattern == "all-to-all":
        found = exchange.fewest_rounds(group, net, steps, problem.chunks or 1, budget, rounds=rounds)
        shards = exchange.write(columns, group, found)
    else:
        found = synchronous.fewest_rounds(net, steps, problem.chunks or 1, budget, rounds=rounds)
        shards = synchronous.write(columns, group, found, reverse=reverse)
    plan = SchedulePlan(
        problem=problem,
        algorithm="synchronous",
        shards=tuple(shards),
        transfers=columns.transfers(),
        certificate=Certificate(status=Status.UNKNOWN, keys=()),
        planner="synchronous",
    )
    seconds = simulate(plan, followed=Found([], NOT)).report.seconds
    if seconds is None:
        raise InvalidProblem("synchronous: its transfers wait for one another for ever")
    bound, proof = time_bound(group)
    key = Key(name="time", value=seconds, bound=bound, unit="s")
    told = f"rounds: {found.total} in {found.steps} steps of {found.chunks} chunks; at least {found.bound}, by {found.proof}"
    certificate = Certificate(
        status=Status.OPTIMAL if key.closed else Status.FEASIBLE, keys=(key,), proof=(proof, told)
    )
    return _timed(msgspec.structs.replace(plan, certificate=certificate), budget), found


def draft_of(problem: ScheduleProblem, name: str) -> SchedulePlan:
    """Return an algorithm's transfers, not simulated and with nothing claimed; raises as :func:`schedule_of`."""
    if len(problem.jobs) != 1:
        raise InvalidProblem(f"{name}: it schedules one collective, the problem has {len(problem.jobs)}")
    algorithm, job = ALGORITHMS[name], problem.jobs[0]
    if job.pattern not in algorithm.patterns:
        fitting = ", ".join(one for one, other in ALGORITHMS.items() if job.pattern in other.patterns)
        raise InvalidProblem(f"{name}: no such algorithm for {job.pattern}: {fitting or 'none'} do it")
    group = Group(problem.fabric.for_size(job.size), job)
    group.check_joined()
    chunks = chunks_of(problem, name)

    def written(columns: Columns, shards: list[int]) -> SchedulePlan:
        return SchedulePlan(
            problem=problem,
            algorithm=name,
            shards=tuple(shards),
            transfers=columns.transfers(),
            certificate=Certificate(status=Status.UNKNOWN, keys=()),
        )

    if algorithm.several is not None:
        drafts = [written(*one) for one in algorithm.several(group, chunks)]
        return min(drafts, key=lambda one: simulate(one, followed=Found([], NOT)).report.seconds or math.inf)
    columns = Columns()
    if name == "in-network":
        return written(columns, _in_network.in_network(columns, group, chunks, problem.slots))
    assert algorithm.build is not None
    return written(columns, algorithm.build(columns, group, chunks))


def chunks_of(problem: ScheduleProblem, name: str) -> int:
    """Return into how many chunks an algorithm cuts the data: as the problem says, else as many as suit it."""
    if not ALGORITHMS[name].pipelined:
        return 1
    job = problem.jobs[0]
    if problem.chunks:
        return problem.chunks
    group = Group(problem.fabric.for_size(job.size), job)
    if name == "flows":
        return 0
    if name == "in-network" and problem.slots is None:
        return _in_network.chunks_of(group)
    own = {"trees": forest.pieces_of, "spanning-trees": spanning.trees_of, "direct": _direct.pieces_of}
    return own[name](group) if name in own else _chunks(name, group)


def _chunks(name: str, group: Group) -> int:
    """Return how many chunks balance the time to fill a pipeline and the latency of each: sqrt(depth n / (alpha B))."""
    depth = group.size if name == "chain" else 2 * max(1, (group.size - 1).bit_length())
    size, wait = group.job.size, group.latency
    if wait == 0:
        return 256
    best = math.sqrt(float(depth * size / (wait * group.bandwidth)))
    return int(min(max(2, 2 * round(best / 2)), 1024))


class _Planner:
    name = ""

    def solve(self, problem: Problem, budget: Budget, on_progress: OnProgress) -> SchedulePlan:
        """Return the algorithm's schedule."""
        assert isinstance(problem, ScheduleProblem)
        plan = schedule_of(problem, self.name)
        key = plan.certificate.keys[0]
        on_progress(Progress(budget.elapsed, key.value, key.bound, "s", self.name))
        return _timed(plan, budget)


def _timed(plan: SchedulePlan, budget: Budget) -> SchedulePlan:
    seconds = None if budget.deterministic else budget.elapsed
    return msgspec.structs.replace(plan, seed=budget.seed, seconds=seconds)


def _planner(algorithm: str) -> type[_Planner]:
    return type(f"{algorithm.title().replace('-', '')}Planner", (_Planner,), {"name": algorithm})


RingPlanner = _planner("ring")
DoubleRingPlanner = _planner("double-ring")
ChainPlanner = _planner("chain")
RecursiveDoublingPlanner = _planner("recursive-doubling")
HalvingDoublingPlanner = _planner("halving-doubling")
BinomialTreePlanner = _planner("binomial-tree")
DoubleBinaryTreePlanner = _planner("double-binary-tree")
DirectPlanner = _planner("direct")
DimensionWisePlanner = _planner("dimension-wise")
HierarchicalPlanner = _planner("hierarchical")
InNetworkPlanner = _planner("in-network")
TreesPlanner = _planner("trees")
SpanningTreesPlanner = _planner("spanning-trees")
FlowsPlanner = _planner("flows")
RotationsPlanner = _planner("rotations")


class AutoPlanner:
    """The quickest of the standard algorithms, with the times of all as baselines; several jobs are packed."""

    def solve(self, problem: Problem, budget: Budget, on_progress: OnProgress) -> SchedulePlan:
        """Return the schedule that finishes first."""
        assert isinstance(problem, ScheduleProblem)
        if len(problem.jobs) != 1:
            from fabric_plan.models.schedule.jobs.planner import PackPlanner

            return msgspec.structs.replace(PackPlanner().solve(problem, budget, on_progress), planner="auto")
        best: SchedulePlan | None = None
        baselines: list[Baseline] = []
        refused: list[str] = []
        for name, algorithm in ALGORITHMS.items():
            if problem.jobs[0].pattern not in algorithm.patterns:
                continue
            if budget.left == 0 and best is not None:
                break
            try:
                plan = schedule_of(problem, name)
            except InvalidInput as error:
                refused.append(str(error))
                continue
            value: Fraction = plan.certificate.keys[0].value
            baselines.append(Baseline(name=name, value=value))
            if best is None or value < best.certificate.keys[0].value:
                best = plan
            key = best.certificate.keys[0]
            on_progress(Progress(budget.elapsed, key.value, key.bound, "s", name))
        if best is None:
            if refused:
                raise InvalidProblem(f"no algorithm suits: {'; '.join(refused)}")
            raise LimitReached(f"there is no algorithm for {problem.jobs[0].pattern} yet")
        return _timed(msgspec.structs.replace(best, planner="auto", baselines=tuple(baselines)), budget)
