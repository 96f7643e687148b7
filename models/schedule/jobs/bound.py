"""A lower bound on the time of several jobs together, for any schedule on the fabric.

Give every link a length l >= 0. Whatever way a job's data takes, each of its bytes takes up some length: at least that of a shortest tree from
its root to all who need it (or to the root from all who add to it), and for an all-reduce what :mod:`exchange` proves. Link e sends for no
longer than from the first release to its latency before the end, T - alpha, so that

    sum over jobs of bytes * least length    <=    sum over links of l * B * max(0, T - release - alpha).

The same holds for all jobs that are released at some time or later, on their own. What is assumed: data are held, copied and added at NPUs (at
switches where the fabric says so), each byte on its own, and never across jobs. Lengths come from the dual of the packing, in floating point;
they are made whole numbers, and all else is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from fabric_plan.models.schedule.bounds import time_bound
from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.jobs.ascent import least_tree
from fabric_plan.models.schedule.jobs.commodity import Commodity
from fabric_plan.models.schedule.jobs.exchange import least_exchange
from fabric_plan.models.schedule.jobs.net import FAR, Floats, Whole, holders_of, shortest_moves
from fabric_plan.models.schedule.jobs.steiner import cheapest
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.problem import ScheduleProblem

SCALE = 10**9
"""The longest link's length, as a whole number."""

EXACT = 7
"""Ends up to which trees are shortest ones; with more they are bounded from below."""

Bound = tuple[Fraction, str]


def own_bound(problem: ScheduleProblem) -> Bound:
    """Return the largest of the bounds that each job has on its own, from its release on."""
    fabric = problem.seen
    best: Bound = (Fraction(0), "time: nothing")
    for job in problem.jobs:
        value, proof = time_bound(Group(fabric, job))
        if value + job.release > best[0]:
            after = f", {float(job.release):g} s after the start" if job.release else ""
            what = (
                f"job {job.label}, {proof.removeprefix('time: ')}"
                if len(problem.jobs) > 1
                else proof.removeprefix("time: ")
            )
            best = (value + job.release, f"time: {what}{after}")
    return best


def shared_bound(
    problem: ScheduleProblem, wanted: Sequence[Commodity], lengths: Floats, left: Callable[[], float]
) -> Bound:
    """Return the bound that lengths of the links give, in seconds, for all jobs and for those released late."""
    fabric = problem.seen
    whole = np.rint(lengths / max(float(lengths.max()), 1e-300) * SCALE).astype(np.int64)
    least = least_lengths(fabric, wanted, whole, left)
    best: Bound = (Fraction(0), "time: nothing")
    for release in sorted({job.release for job in problem.jobs}):
        need = sum(
            (
                one.size * length
                for one, length in zip(wanted, least, strict=True)
                if problem.jobs[one.job].release >= release
            ),
            Fraction(0),
        )
        value = release + _reached(fabric, whole, need) + fabric.costs.fixed
        if value > best[0]:
            used = int((whole > 0).sum())
            which = (
                "all jobs"
                if release == min(job.release for job in problem.jobs)
                else f"the jobs released at {float(release):g} s or later"
            )
            best = (
                value,
                f"time: {which} take up so much of {used} links together, on any ways (dual of packing trees)",
            )
    return best


def least_lengths(
    fabric: Fabric, wanted: Sequence[Commodity], links: Whole, left: Callable[[], float] = lambda: 1.0
) -> list[Fraction]:
    """Return how much length a byte of each commodity takes up at least, exactly, for whole lengths of the links."""
    holders = holders_of(fabric)
    place = {node: k for k, node in enumerate(holders)}
    at = [place[node] for node in fabric.seats]
    moves = shortest_moves(fabric, holders, links)
    out = moves.copy()
    for k in range(len(out)):
        np.minimum(out, out[:, k, None] + out[None, k, :], out=out)
    out = np.minimum(out, FAR)
    known: dict[tuple[str, int, tuple[int, ...]], Fraction] = {}
    tables: dict[tuple[str, tuple[int, ...]], Whole] = {}

    def table(kind: str, ends: tuple[int, ...]) -> Whole:
        if (kind, ends) not in tables:
            distance = out if kind == "out" else out.T
            tables[kind, ends] = cheapest(distance, ends)[(1 << len(ends)) - 1]
        return tables[kind, ends]

    def least(one: Commodity) -> Fraction:
        ends = tuple(at[seat] for seat in one.ends)
        if one.kind == "both":
            enough = float("inf")
            if len(ends) <= EXACT:
                enough = float((table("out", ends) + table("in", ends)).min())
            return least_exchange(moves, ends, enough, left)
        root = at[one.root]
        if len(ends) <= EXACT:
            return Fraction(int(table(one.kind, ends)[root]))
        return Fraction(least_tree(moves if one.kind == "out" else moves.T, root, ends))

    found = []
    for one in wanted:
        key = (one.kind, one.root, one.ends)
        if key not in known:
            known[key] = least(one)
        found.append(known[key])
    return found


def _reached(fabric: Fabric, whole: Whole, need: Fraction) -> Fraction:
    """Return the least time in which all links together give so much: sum of l B max(0, time - alpha) >= need."""
    if need <= 0:
        return Fraction(0)
    by_latency: dict[Fraction, int] = {}
    for length, link in zip(whole.tolist(), fabric.links, strict=True):
        if length:
            by_latency[link.latency] = by_latency.get(link.latency, 0) + length * link.bandwidth
    gives, taken = 0, Fraction(0)
    found = Fraction(0)
    steps = sorted(by_latency.items())
    for k, (latency, more) in enumerate(steps):
        gives += more
        taken += latency * more
        found = (need + taken) / gives
        if k + 1 == len(steps) or found <= steps[k + 1][0]:
            break
    return found
