"""The planners of balance: the best selections, coupled ones, and what fabrics do today as baselines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction

import msgspec
import numpy as np
from numpy.typing import NDArray

from fabric_plan.models.balance import protocol
from fabric_plan.models.balance.coupled import solve_coupled
from fabric_plan.models.balance.load import least_load, tier_bound
from fabric_plan.models.balance.selection import solve_copy, triples
from fabric_plan.planner.balance import BalancePlan, BalanceProblem, BalanceReport, Policy, Profile
from fabric_plan.planner.errors import InvalidInput, LimitReached
from fabric_plan.planner.interface import Budget, OnProgress, Progress
from fabric_plan.planner.plan import Baseline, Certificate, Key, Status
from fabric_plan.planner.problem import Problem
from fabric_plan.planner.simulator.balance import measure

BIG_COPY = 400_000
"""Links times interface nodes of a copy from which copies are solved in processes of their own."""

SEED_WORK = 100_000
"""Pairs of a zone and a destination times links of a copy, for which the randomised protocol is drawn as a baseline."""


def _big(problem: BalanceProblem) -> bool:
    fabric = problem.fabric
    return fabric.links // fabric.copies * sum(zone.interfaces for zone in fabric.zones) >= BIG_COPY


def best_profiles(problem: BalanceProblem, copy: int) -> tuple[Profile, ...]:
    """Return the best selections of a copy, uncoupled, with their cuts."""
    live = problem.live(copy)
    return tuple(one for zone in solve_copy(problem, copy) for one in zone.profiles(live))


def _one(arguments: tuple[BalanceProblem, int]) -> tuple[Profile, ...]:
    return best_profiles(*arguments)


def best_copies(problem: BalanceProblem, budget: Budget, on_progress: OnProgress) -> list[tuple[Profile, ...]]:
    """Return the best selections of all copies: of each set of failures once, in processes where they are big."""
    copies = range(problem.fabric.copies)
    # Copies with the same failures (none, mostly) are the same problem.
    kinds: dict[frozenset[object], int] = {}
    first = []
    for copy in copies:
        failed = frozenset((f.zone, f.kind, f.a, f.b, f.number) for f in problem.failures if f.copy == copy)
        first.append(kinds.setdefault(failed, copy))
    distinct = sorted(kinds.values())
    found: dict[int, tuple[Profile, ...]] = {}
    for copy, profiles in zip(distinct, _solved(problem, distinct, budget), strict=True):
        found[copy] = profiles
        on_progress(Progress(budget.elapsed, None, None, "links", f"copy {copy} solved"))
        if budget.left <= 0 and len(found) < len(distinct):
            raise LimitReached(f"{len(found)} of {len(distinct)} copies were solved in time: give more --time-limit")
    return [found[one] for one in first]


def _solved(problem: BalanceProblem, copies: Sequence[int], budget: Budget) -> Iterator[tuple[Profile, ...]]:
    if len(copies) < 2 or budget.workers < 2 or not _big(problem):
        yield from (best_profiles(problem, copy) for copy in copies)
        return
    with ProcessPoolExecutor(max_workers=min(budget.workers, len(copies))) as pool:
        yield from pool.map(_one, [(problem, copy) for copy in copies])


def made_plan(
    problem: BalanceProblem,
    copies: Sequence[tuple[Profile, ...]],
    budget: Budget,
    *,
    policy: Policy,
    planner: str,
    bounded: bool = True,
    most: tuple[int, int | None] | None = None,
    load_bound: Fraction | None = None,
    baselines: Sequence[Baseline] = (),
    proof: Sequence[str] = (),
) -> BalancePlan:
    """Return the plan of some profiles, with its values measured.

    Parameters
    ----------
    bounded
        Whether the cuts of the profiles bound the total and the worst pair.
    most
        Bounds on both from elsewhere, which hold as well.
    """
    draft = _draft(problem, copies, policy)
    report, total, worst = measure(draft)
    if most is not None:
        total = min(total, most[0])
        worst = min((one for one in (worst, most[1]) if one is not None), default=None)
    keys = [_key("total", report.total, total if bounded else None, asked=True)]
    if report.worst is not None:
        keys.append(_key("worst", report.worst, worst if bounded else None, asked=problem.objective != "total"))
    if report.load is not None:
        asked = problem.objective == "load"
        keys.append(Key(name="load", value=report.load, bound=load_bound, unit="of a link", asked=asked))
    elif problem.objective == "load":
        raise InvalidInput(
            "objective load: the fabric has too many pairs of a zone and a destination for it: use leximin"
        )
    keys.append(Key(name="withdrawn", value=Fraction(report.withdrawn), bound=None, unit="links", asked=False))
    closed = all(key.closed for key in keys if key.asked)
    return msgspec.structs.replace(
        draft,
        certificate=Certificate(
            status=Status.OPTIMAL if closed else Status.FEASIBLE, keys=tuple(keys), proof=tuple(proof)
        ),
        baselines=tuple(baselines),
        planner=f"balance.{planner}",
        seed=budget.seed,
        seconds=None if budget.deterministic else round(budget.elapsed, 3),
    )


def _key(name: str, value: int, bound: int | None, *, asked: bool) -> Key:
    limit = None if bound is None else Fraction(bound)
    return Key(name=name, value=Fraction(value), bound=limit, unit="links", asked=asked, maximised=True)


class AutoPlanner:
    """The best selections with the cuts that prove them; with couplings, models of those."""

    def solve(self, problem: Problem, budget: Budget, on_progress: OnProgress) -> BalancePlan:
        """Return the plan, the baselines beside it."""
        assert isinstance(problem, BalanceProblem)
        free = best_copies(problem, budget, on_progress)
        proof = ["cuts meet the total and the worst pair towards every destination"]
        copies: Sequence[tuple[Profile, ...]] = free
        load_bound = most = None
        if not problem.coupling.free:
            coupled = solve_coupled(problem, free, budget, on_progress)
            copies, proof = coupled.copies, list(coupled.proof)
            # Without the couplings nothing can be better: those cuts hold as well.
            _, total, worst = measure(_draft(problem, free, "optimal"))
            most = min(total, coupled.total_bound), worst
        elif problem.objective == "leximin":
            proof.append(
                "each vector of capacities is leximin: units were added to the smallest as long as any could be raised"
            )
        elif problem.objective == "load":
            copies, load_bound, told = _least_load(problem, free, budget)
            proof.append(told)
        rows = [] if budget.left <= 0 else baselines(problem, budget)
        return made_plan(
            problem,
            copies,
            budget,
            policy="optimal",
            planner="auto",
            most=most,
            load_bound=load_bound,
            baselines=rows,
            proof=proof,
        )


def _least_load(
    problem: BalanceProblem, free: Sequence[tuple[Profile, ...]], budget: Budget
) -> tuple[list[tuple[Profile, ...]], Fraction | None, str]:
    """Return (copies, bound on the load, how it is proved)."""
    copies: list[tuple[Profile, ...]] = []
    bound: Fraction | None = Fraction(0)
    listed = True
    for copy, profiles in enumerate(free):
        chosen = least_load(problem, copy, budget)
        live = problem.live(copy)
        if chosen is None:
            listed = False
            copies.append(profiles)
            bound = max(bound or Fraction(0), tier_bound(live, delivered=True))
            continue
        cuts = {(one.zone, place): one for one in profiles for place in one.destinations}
        made = []
        for pair in chosen.pairs:
            place = (pair.home, pair.destination)
            known = cuts[pair.zone, place]
            made.append(
                msgspec.structs.replace(
                    known,
                    destinations=(place,),
                    upper=triples(_gone(live.upper_links[pair.zone], pair.upper_links, pair.output > 0)),
                    lower=triples(_gone(live.lower_links[pair.zone], pair.lower_links, pair.upper.sum(axis=1) > 0)),
                )
            )
        copies.append(tuple(made))
        bound = None if bound is None or chosen.bound is None else max(bound, chosen.bound)
    told = (
        "load: all selections were listed, and one of each chosen"
        if listed
        else "load: what crosses a tier, over its links"
    )
    return copies, bound, told


def _gone(live: NDArray[np.int32], keep: NDArray[np.int32], able: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return masks of what devices (columns) withdraw that have a way at all."""
    found: NDArray[np.int32] = np.where(able[None, :], live & ~keep, 0)
    return found


def baselines(problem: BalanceProblem, budget: Budget) -> list[Baseline]:
    """Return what today's policies reach: the total, with the worst pair in the note; the protocol's are means over seeds."""
    found = []
    big = _big(problem)
    fabric = problem.fabric
    pairs = sum(zone.interfaces for zone in fabric.zones) * (len(fabric.zones) - 1)
    many = max(2, min(100, SEED_WORK // max(1, pairs * fabric.links)))
    for name, make in protocol.POLICIES.items():
        seeds = range(1) if name in ("aligned", "none") else range(budget.seed, budget.seed + many)
        reports: list[BalanceReport] = []
        for seed in seeds:
            # Of many copies one stands for all, unless they are few and small.
            copies = range(problem.fabric.copies) if not big else range(1)
            part = [tuple(make(problem, copy, seed)) for copy in copies]
            reports.append(measure(_draft(problem, part, name))[0])
            if budget.left <= 0:
                break
        total = Fraction(sum(one.total for one in reports), len(reports))
        worst = [one.worst for one in reports if one.worst is not None]
        cut = sum(one.cut_off[1] > 0 for one in reports)
        mean = f"{sum(worst) / len(worst):.1f}" if worst else "-"
        note = f"worst pair {min(worst, default='-')}" + (
            f", {mean} on average over {len(reports)} seeds" if len(reports) > 1 else ""
        )
        if cut:
            note += f"; cuts some pair off in {cut} of {len(reports)}"
        if big and problem.fabric.copies > 1:
            note += "; of copy 0 alone"
        loads = [one.load for one in reports if one.load is not None]
        if loads:
            note += f"; load {float(sum(loads) / len(loads)):.4g}"
        found.append(Baseline(name=name, value=total, note=note))
    return found


def _draft(problem: BalanceProblem, copies: Sequence[tuple[Profile, ...]], policy: Policy) -> BalancePlan:
    nothing = Certificate(status=Status.UNKNOWN, keys=())
    return BalancePlan(problem=problem, copies=tuple(copies), certificate=nothing, policy=policy)


class _PolicyPlanner:
    """What fabrics do today, as a plan."""

    def __init__(self, name: Policy) -> None:
        self.name: Policy = name

    def solve(self, problem: Problem, budget: Budget, on_progress: OnProgress) -> BalancePlan:
        """Return the policy's plan for the budget's seed; bounded by the cuts of the best one, where the bound holds for it."""
        assert isinstance(problem, BalanceProblem)
        if not problem.coupling.free:
            raise InvalidInput(f"policy {self.name} knows no couplings: use optimal")
        make = protocol.POLICIES[self.name]
        copies = [tuple(make(problem, copy, budget.seed)) for copy in range(problem.fabric.copies)]
        if self.name != "none":
            free = best_copies(problem, budget, on_progress)
            copies = [_with_cuts(mine, best) for mine, best in zip(copies, free, strict=True)]
        return made_plan(problem, copies, budget, policy=self.name, planner=self.name, bounded=self.name != "none")


def _with_cuts(mine: Sequence[Profile], best: Sequence[Profile]) -> tuple[Profile, ...]:
    cuts = {(one.zone, place): one for one in best for place in one.destinations}
    return tuple(
        msgspec.structs.replace(
            one,
            total_cut=cuts[one.zone, one.destinations[0]].total_cut,
            worst_cut=cuts[one.zone, one.destinations[0]].worst_cut,
        )
        for one in mine
    )


def random_planner() -> _PolicyPlanner:
    """Return the randomised protocol, afresh for each destination."""
    return _PolicyPlanner("random")


def class_wide_planner() -> _PolicyPlanner:
    """Return the randomised protocol with one choice for a class."""
    return _PolicyPlanner("class-wide")


def aligned_planner() -> _PolicyPlanner:
    """Return withdrawals towards the fabric nodes of the same number."""
    return _PolicyPlanner("aligned")


def none_planner() -> _PolicyPlanner:
    """Return no withdrawals."""
    return _PolicyPlanner("none")
