"""Placements on FRED fabrics: every phase must route through the switch.

The search for low loads knows nothing of micro-switches. What it finds is routed phase by phase; if some phase has no words, the
orders of dimensions on consecutive ports are tried (one of them routes wherever the paper's claim holds), and the best that
routes is improved by exchanges of two seats, each routed again. Bounds stay true: a placement that routes is a placement.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

from fabric_plan.models.placement import baselines
from fabric_plan.models.placement.instance import Solution
from fabric_plan.models.placement.search import Search
from fabric_plan.models.routing.planners import FOUND
from fabric_plan.models.routing.prove import Prover
from fabric_plan.models.routing.two_level import route_two_level
from fabric_plan.planner.errors import Infeasible, LimitReached
from fabric_plan.planner.plan import SwitchPhase
from fabric_plan.planner.problem import SwitchFlow
from fabric_plan.planner.switch_flows import flow_name, parse_switch, placed_phases

EXCHANGES = 400
"""How many exchanges of two seats are routed, at most, to better a placement that routes."""

Found = tuple[SwitchPhase | None, tuple[int, ...]]
"""The routing of a phase; or None and the flows that conflict, where they are known."""


class Router:
    """Routes the phases of placements, and remembers what it has seen."""

    def __init__(self, search: Search) -> None:
        self.problem = search.instance.problem
        self.budget = search.budget
        switch = self.problem.fabric.switch
        self._prover = None if switch == "fred-20" else Prover(*parse_switch(switch), search.budget)
        self._known: dict[tuple[frozenset[int], ...], Found] = {}

    def route(self, seats: Sequence[int]) -> tuple[SwitchPhase, ...] | str:
        """Return the routing of every phase; or, in words, the phase that does not route."""
        found = []
        for name, flows in placed_phases(self.problem, seats):
            one, core = self._phase(name, flows)
            if one is None:
                told = " ".join(flow_name(flows[k]) for k in core[:6])
                return f"phase {name}" + (f": {told} conflict" if told else "")
            found.append(one)
        return tuple(found)

    def _phase(self, name: str, flows: Sequence[SwitchFlow]) -> Found:
        key = tuple(frozenset(side) for flow in flows for side in (flow.inputs, flow.outputs))
        if key not in self._known:
            if self._prover is None:
                slices = route_two_level(flows, self.budget)
                one = SwitchPhase(name=name, chiplets=slices.chiplets) if slices.answer in FOUND else None
                self._known[key] = one, ()
            else:
                verdict, words, core = self._prover.route(flows)
                self._known[key] = (SwitchPhase(name=name, words=words) if verdict == "routes" else None), core
        one, core = self._known[key]
        # The same flows may be those of two phases.
        return (None if one is None else SwitchPhase(name=name, words=one.words, chiplets=one.chiplets)), core


def settle(search: Search, *, others: bool = True) -> tuple[SwitchPhase, ...]:
    """Make the search's best placement one that routes, and return its routing.

    Parameters
    ----------
    others
        Whether another placement may be taken; else one that does not route is no plan.

    Raises
    ------
    Infeasible, LimitReached
        When it does not route; when no other that routes was found.
    """
    router, instance = Router(search), search.instance
    assert search.best is not None
    found = router.route(search.best.seats)
    if not isinstance(found, str):
        return found
    switch = instance.problem.fabric.switch
    if not others:
        raise Infeasible(f"this placement does not route through {switch}: {found}")
    search.report(f"the best so far does not route ({found})")
    used = [name for name in instance.problem.strategy.dimensions if instance.problem.strategy.size(name) > 1]
    orders = [baselines.consecutive(instance, order) for order in itertools.permutations(used)]
    orders.sort(key=lambda one: baselines.rank(instance.evaluate(one)))
    for one in orders:
        found = router.route(one.seats)
        if not isinstance(found, str):
            return _improved(search, router, one, found)
    raise LimitReached(
        f"no placement was found of which every phase routes through {switch} ({found}): "
        "try a switch with more middle networks, or another strategy"
    )


def _improved(
    search: Search, router: Router, start: Solution, routed: tuple[SwitchPhase, ...]
) -> tuple[SwitchPhase, ...]:
    """Exchange two seats at a time while that lowers the value and still routes; leave the best in the search."""
    instance, source = search.instance, random.Random(search.budget.seed)
    best, value = start, instance.evaluate(start)
    assert value is not None
    tried = 0
    while tried < EXCHANGES and value.objective > search.bound and search.allowance.left > 0:
        tried += 1
        a, b = source.randrange(instance.seats), source.randrange(instance.seats)
        seats = tuple(b if seat == a else a if seat == b else seat for seat in best.seats)
        offer = replace(best, seats=seats)
        worth = instance.evaluate(offer)
        if worth is None or baselines.rank(worth) >= baselines.rank(value):
            continue
        found = router.route(seats)
        if not isinstance(found, str):
            best, value, routed = offer, worth, found
    search.best, search.value = best, value
    search.report("routes through the switch")
    return routed
