"""Large-neighbourhood search: the exact model, with all but a handful of workers held where they are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fabric_plan.models import solve
from fabric_plan.models.allowance import Allowance
from fabric_plan.models.placement.exact import PlacementModel
from fabric_plan.models.placement.instance import Instance, Solution

if TYPE_CHECKING:
    from fabric_plan.models.placement.search import Search

SECONDS = 3.0
"""Of one neighbourhood, at most."""

OVERHEAD = 0.1
"""What a neighbourhood is charged for building its model, in deterministic runs."""


def improve(search: Search, allowance: Allowance) -> None:
    """Free the workers around hot links, minimise the excess over the search's goals, and keep what is no worse."""
    if search.best is None:
        return
    instance, budget = search.instance, search.budget
    random = np.random.default_rng(budget.seed + 1)
    current = search.best
    size = 7
    for turn in itertools.count():
        if search.done or allowance.left <= 0:
            return
        allowance.charge(OVERHEAD)
        goals = search.goals(1)
        loads = link_loads(instance, current)
        before = _excess(instance, loads, goals)
        if before == 0:
            search.offer(current, "neighbourhood")
            current = search.best
            continue
        domains = _neighbourhood(instance, current, loads, goals, size, random)
        model = PlacementModel(instance, goals=goals, domains=domains)
        seconds = min(SECONDS, allowance.left)
        outcome = solve.run(model.model, budget, wanted=model.wanted, seconds=seconds, hint=model.hint(current))
        allowance.charge(outcome.work)
        if outcome.values is not None:
            offer = model.extract(outcome.values)
            after = _excess(instance, link_loads(instance, offer), goals)
            if after <= before:
                current = offer
                search.offer(offer, "neighbourhood")
            if after < before:
                continue
        if outcome.answer is solve.Answer.OPTIMAL and turn % 4 == 3:
            size = min(size + 1, 14)
        elif outcome.answer is solve.Answer.UNKNOWN:
            size = max(size - 1, 4)


def link_loads(instance: Instance, solution: Solution) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the load of every phase and link, in units."""
    standing = instance.slot_workers(solution)
    loads = np.zeros((instance.phases, len(instance.fabric.links)), dtype=np.int64)
    for net in instance.nets:
        source = solution.seats[standing[net.root]]
        crossed: dict[int, int] = {}
        for slot in net.targets:
            crossed.update(instance.route(source, solution.seats[standing[slot]]) or ())
        for link, cost in crossed.items():
            loads[instance.phase(net.demand), link] += instance.weights[net.demand] * cost
    return loads


def _excess(instance: Instance, loads: np.ndarray[tuple[int, int], np.dtype[np.int64]], goals: Sequence[int]) -> int:
    over = np.maximum(loads - np.array(goals)[:, None], 0).sum(axis=1)
    return int((over * np.array(instance.phase_weights)).sum())


def _distance(instance: Instance, a: int, b: int) -> int:
    route = [] if a == b else instance.route(a, b)
    return len(instance.fabric.links) if route is None else len(route)


def _neighbourhood(
    instance: Instance,
    solution: Solution,
    loads: np.ndarray[tuple[int, int], np.dtype[np.int64]],
    goals: Sequence[int],
    size: int,
    random: np.random.Generator,
) -> list[list[int]]:
    """Return the domains of all workers: ``size`` of them may exchange seats, or take spare ones; the others stay.

    Freed are workers whose flows cross a hot link, then those close to it.
    """
    phases, links = np.nonzero(loads > np.array(goals)[:, None])
    pick = int(random.integers(len(links)))
    phase, link = int(phases[pick]), int(links[pick])
    standing = instance.slot_workers(solution)
    guilty: set[int] = set()
    for net in instance.nets:
        if instance.phase(net.demand) == phase:
            source = standing[net.root]
            for slot in net.targets:
                route = instance.route(solution.seats[source], solution.seats[standing[slot]]) or ()
                if any(crossed == link for crossed, _ in route):
                    guilty |= {source, standing[slot]}
    seat_of = instance.fabric.seat_of
    ends = instance.fabric.links[link]
    anchors = [seat_of[node] for node in (ends.source, ends.target) if node in seat_of] or [solution.seats[min(guilty)]]
    near = sorted(
        range(instance.seats),
        key=lambda seat: (min(_distance(instance, a, seat) for a in anchors), random.random()),
    )
    holder = {seat: worker for worker, seat in enumerate(solution.seats)}
    wanted = list(random.permutation(sorted(guilty)))[: size // 2] if random.random() < 0.7 else []
    freed = {solution.seats[int(worker)] for worker in wanted}
    for seat in near:
        if len(freed) >= size:
            break
        freed.add(seat)
    domain = sorted(freed)
    return (
        [domain if solution.seats[w] in freed else [solution.seats[w]] for w in range(instance.workers)]
        if holder
        else []
    )
