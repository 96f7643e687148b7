"""Which strategies route on a FRED switch with consecutive placement: every one checked, with words or a conflicting set.

The paper claims that MP on consecutive ports, then PP, then DP never conflicts on Fred_3 (section 5.3, option 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fabric_plan.models import solve
from fabric_plan.models.routing.planners import FOUND, conflicting_set, conflicting_two_level
from fabric_plan.models.routing.protocols import dsatur, level_by_level
from fabric_plan.models.routing.two_level import route_two_level
from fabric_plan.models.routing.words import Joint
from fabric_plan.planner.errors import PlanRejected
from fabric_plan.planner.fred import Word
from fabric_plan.planner.fred_two_level import LEAVES, NPUS_EACH
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.parallelism import Strategy
from fabric_plan.planner.problem import SwitchFlow
from fabric_plan.planner.simulator.fred_walk import walk_two_level
from fabric_plan.planner.switch_flows import PHASES, strategy_flows


@dataclass(frozen=True)
class Case:
    """A phase of a strategy in an order: routed, with words; conflicting, with a smallest set; or neither in time."""

    strategy: Strategy
    order: str
    phase: str
    verdict: str
    words: tuple[Word, ...] = ()
    core: tuple[int, ...] = ()


def strategies(ports: int) -> Iterator[Strategy]:
    """Yield every strategy of MP, DP and PP that fits on so many ports."""
    for mp in range(1, ports + 1):
        for dp in range(1, ports // mp + 1):
            for pp in range(1, ports // (mp * dp) + 1):
                yield Strategy((("mp", mp), ("dp", dp), ("pp", pp)))


class Prover:
    """Routes phase after phase, and remembers what it has seen: many strategies make the same flows."""

    def __init__(self, middles: int, ports: int, budget: Budget) -> None:
        self.middles, self.ports, self.budget = middles, ports, budget
        self._known: dict[tuple[frozenset[int], ...], tuple[str, tuple[Word, ...], tuple[int, ...]]] = {}

    def route(
        self, flows: Sequence[SwitchFlow], *, explain: bool = True
    ) -> tuple[str, tuple[Word, ...], tuple[int, ...]]:
        """Return (routes, conflicts or unknown; words; a smallest conflicting set where wanted)."""
        key = tuple(frozenset(side) for flow in flows for side in (flow.inputs, flow.outputs))
        if key not in self._known:
            self._known[key] = self._route(flows, explain)
        return self._known[key]

    def verdict(self, flows: Sequence[SwitchFlow]) -> str:
        """Return routes, conflicts or unknown, and keep nothing."""
        return self._route(flows, False)[0]

    def _route(self, flows: Sequence[SwitchFlow], explain: bool) -> tuple[str, tuple[Word, ...], tuple[int, ...]]:
        quick = level_by_level(flows, self.ports, self.middles, dsatur)
        if quick is not None:
            return "routes", tuple(quick), ()
        found = Joint(flows, self.ports, self.middles).solve(self.budget)
        if found.answer in FOUND:
            return "routes", tuple(word or () for word in found.words), ()
        if found.answer is not solve.Answer.INFEASIBLE:
            return "unknown", (), ()
        core = conflicting_set(flows, self.ports, self.middles, self.budget) if explain else None
        return "conflicts", (), core or ()

    def good_orders(self, orders: Sequence[str]) -> dict[Strategy, str | None]:
        """Return for each strategy the first order in which all its phases route; None where there is none."""
        found: dict[Strategy, str | None] = {}
        for strategy in strategies(self.ports):
            found[strategy] = next((order for order in orders if self._all_phases(strategy, order)), None)
        return found

    def _all_phases(self, strategy: Strategy, order: str) -> bool:
        phases = [phase for phase in PHASES if strategy.size(phase) > 1]
        return all(
            self.route(strategy_flows(strategy, phase, order=order), explain=False)[0] == "routes" for phase in phases
        )

    def cases(
        self, orders: Sequence[str], *, explain: bool = True, on_case: Callable[[Case], None] = lambda case: None
    ) -> list[Case]:
        """Return every phase of every strategy in the given orders."""
        found = []
        for strategy in strategies(self.ports):
            for order in orders:
                for phase in PHASES:
                    if strategy.size(phase) < 2:
                        continue
                    verdict, words, core = self.route(strategy_flows(strategy, phase, order=order), explain=explain)
                    found.append(Case(strategy, order, phase, verdict, words, core))
                    on_case(found[-1])
        return found


class TwoLevelProver(Prover):
    """As :class:`Prover`, over the two-level fabric of 20 NPUs; words are those of its chiplets, and are not kept."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(3, LEAVES * NPUS_EACH, budget)

    def _route(self, flows: Sequence[SwitchFlow], explain: bool) -> tuple[str, tuple[Word, ...], tuple[int, ...]]:
        found = route_two_level(flows, self.budget)
        if found.answer in FOUND:
            faults = walk_two_level(found.middles, found.chiplets, flows)
            if faults:
                raise PlanRejected(f"the walk refuses the routing of fred-20: {faults[0]}", tuple(faults))
            return "routes", (), ()
        if found.answer is not solve.Answer.INFEASIBLE:
            return "unknown", (), ()
        return "conflicts", (), conflicting_two_level(flows, self.budget) if explain else ()
