"""Where a fabric stands, kept so that one more failure, repair or drain costs only what it touches.

A lower link touches everything that its zone sends, and what is sent to its interface node; an upper link everything that its zone sends or
receives. Those cases are solved again, from the flows of before, so that little else changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from fabric_plan.models.balance.selection import ZoneSelections, solve_zone
from fabric_plan.planner.balance import BalanceProblem, Profile, destinations
from fabric_plan.planner.dsf import DsfLink
from fabric_plan.planner.simulator.balance import reachable
from fabric_plan.planner.simulator.reach import advertised, spine_output


@dataclass(frozen=True)
class Value:
    """Total capacity, the smallest of a pair that could be joined (None: there is none), and pairs that cannot be joined."""

    total: int
    worst: int | None
    impossible: int


class Standing:
    """The best selections of one copy, one case a destination.

    Parameters
    ----------
    problem, copy
        What is planned; couplings are not kept.
    """

    def __init__(self, problem: BalanceProblem, copy: int) -> None:
        self.problem, self.copy = problem, copy
        self.live = problem.live(copy)
        self.zones: list[ZoneSelections] = []
        for zone in range(len(problem.fabric.zones)):
            targets = [[place] for place in destinations(problem.fabric, zone)]
            self.zones.append(solve_zone(self.live, zone, targets, self._outs(targets)))
        self._values = [self._value(one) for one in self.zones]

    def _outs(self, targets: Sequence[list[tuple[int, int]]]) -> Any:
        rows = [spine_output(self.live, home, number, intra=self.problem.intra) for ((home, number),) in targets]
        return np.array(rows, dtype=np.int16).reshape(len(rows), self.problem.fabric.spines)

    def _value(self, one: ZoneSelections) -> tuple[Any, Any, Any]:
        """Return, by case: total, smallest that could be joined (a large number if there is none), and pairs that cannot be."""
        capacities = one.capacities
        if not len(capacities):
            empty = np.zeros(0, dtype=np.int64)
            return empty, empty, empty
        useful = ((self.live.upper[one.zone][None, :, :] > 0) & (one.outs[:, None, :] > 0)).any(axis=2)
        possible = ((self.live.lower[one.zone] > 0).astype(np.int32) @ useful.T.astype(np.int32)).T > 0
        least = np.where(possible, capacities, 1 << 14).min(axis=1)
        return capacities.sum(axis=1, dtype=np.int64), least.astype(np.int64), (~possible).sum(axis=1)

    @property
    def value(self) -> Value:
        """What the copy is worth now."""
        totals, least, impossible = (np.concatenate([one[k] for one in self._values]) for k in range(3))
        worst = int(least.min(initial=1 << 14))
        return Value(int(totals.sum()), None if worst >= 1 << 14 else worst, int(impossible.sum()))

    def after(self, links: Iterable[DsfLink], *, repaired: bool = False) -> Standing:
        """Return the standing after links of this copy have failed, or are repaired."""
        changed = [one for one in links if one.copy == self.copy]
        names = {self.problem.fabric.link_name(one) for one in changed}
        failed = [one for one in self.problem.failed if not (repaired and one in names)]
        if not repaired:
            failed += sorted(names - set(failed))
        found = object.__new__(Standing)
        found.problem = msgspec.structs.replace(self.problem, failed=tuple(failed))
        found.copy = self.copy
        found.live = found.problem.live(self.copy)
        senders = {one.zone for one in changed}
        nodes = {(one.zone, one.a) for one in changed if one.kind == "lower"}
        homes = {one.zone for one in changed if one.kind == "upper"}
        found.zones, found._values = [], []
        for before, value in zip(self.zones, self._values, strict=True):
            touched = [
                k
                for k, ((home, number),) in enumerate(before.targets)
                if before.zone in senders or home in homes or (home, number) in nodes
            ]
            if not touched:
                found.zones.append(before)
                found._values.append(value)
                continue
            targets = [before.targets[k] for k in touched]
            part = solve_zone(
                found.live,
                before.zone,
                targets,
                found._outs(targets),
                warm=(before.lower[touched], before.upper[touched]),
            )
            merged = before.only(range(len(before.targets)))
            for name in ("outs", "lower", "upper", "totals", "worsts"):
                grid = getattr(merged, name).copy()
                grid[touched] = getattr(part, name)
                setattr(merged, name, grid)
            found.zones.append(merged)
            rows = found._value(part)
            found._values.append(tuple(_replaced(old, touched, new) for old, new in zip(value, rows, strict=True)))
        return found

    def profiles(self) -> tuple[Profile, ...]:
        """Return the selections as profiles of a plan, with their cuts."""
        return tuple(one for zone in self.zones for one in zone.profiles(self.live))

    def can_reach(self, zone: int, home: int, number: int) -> Any:
        """Return which interface nodes of a zone have any way to a destination."""
        return reachable(self.live, advertised(self.live, zone, home, number, intra=self.problem.intra))


def _replaced(old: Any, index: Sequence[int], new: Any) -> Any:
    found = old.copy()
    found[list(index)] = new
    return found
