"""Plans and their certificates.

A certificate has one key for each value that was asked for, in order of importance, each with its proven bound. All
values are exact fractions; smaller is better, but for capacities.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import ClassVar, Protocol

import msgspec

from fabric_plan.planner.fred_two_level import Chiplet
from fabric_plan.planner.problem import PlacementProblem, RoutingProblem, SwitchFlow
from fabric_plan.planner.simulator.report import PlacementReport, RoutingReport


class Status(StrEnum):
    """What is known of a problem when the planner stops."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One value of a plan and what is proved about it.

    ``bound`` holds for the problem as stated: no plan has a smaller value, or, where it is ``maximised``, a larger one; None when
    nothing is claimed. A key that is not ``asked`` for informs (a part of the objective) or breaks ties, and has no part in the
    status.
    """

    name: str
    value: Fraction
    bound: Fraction | None
    unit: str
    asked: bool = True
    maximised: bool = False

    @property
    def closed(self) -> bool:
        """True when the bound meets the value."""
        return self.bound == self.value


def relative_gap(value: Fraction, bound: Fraction, unit: str) -> Fraction:
    """Return |value - bound| / max(1, |value|); of a value in seconds, usually far below one, relative to itself."""
    if value == bound:
        return Fraction(0)
    return abs(value - bound) / (abs(value) if unit == "s" and value else max(Fraction(1), abs(value)))


class Certificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Status, values and bounds of a plan, and in words where each bound comes from."""

    status: Status
    keys: tuple[Key, ...]
    proof: tuple[str, ...] = ()

    @property
    def objective(self) -> Fraction:
        """The first key's value."""
        return self.keys[0].value

    @property
    def bound(self) -> Fraction | None:
        """The first key's proven bound."""
        return self.keys[0].bound

    @property
    def gap(self) -> Fraction | None:
        """The gap of the first asked key that is not closed; 0 when all are closed; None without a bound."""
        for key in self.keys:
            if key.asked and not key.closed:
                return None if key.bound is None else relative_gap(key.value, key.bound, key.unit)
        return Fraction(0)

    def key(self, name: str) -> Key:
        """Return the key of that name; KeyError when there is none."""
        for key in self.keys:
            if key.name == name:
                return key
        raise KeyError(name)


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a named method that people use today reaches on the same problem, by the same first key."""

    name: str
    value: Fraction
    note: str = ""


class SwitchPhase(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """How one phase of a placement routes through the fabric's FRED switch: a word a flow, or the chiplets of a slice."""

    name: str
    words: tuple[tuple[int, ...], ...] = ()
    chiplets: tuple[Chiplet, ...] = ()


class PlacementPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A seat for every worker, and the ring order of each group whose order was free.

    Parameters
    ----------
    seats
        Seat of each worker, by worker index.
    rings
        For each demand with free rings: dimension -> its groups' members in ring order, groups in the strategy's order.
    switched
        On a FRED fabric: the routing of each phase (:func:`fabric_plan.planner.switch_flows.placed_phases` has their flows).
    report
        The simulator's own findings; None until it has been simulated.
    seconds
        Wall time of the planner; None in deterministic runs.
    """

    family: ClassVar[str] = "placement"

    problem: PlacementProblem
    seats: tuple[int, ...]
    certificate: Certificate
    rings: dict[str, tuple[tuple[int, ...], ...]] = {}
    switched: tuple[SwitchPhase, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    planner: str = ""
    seed: int = 0
    seconds: float | None = None
    report: PlacementReport | None = None

    @property
    def baseline(self) -> Baseline | None:
        """The best of the baselines."""
        return min(self.baselines, key=lambda one: one.value, default=None)


class RoutingPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The colour word of each flow through a FRED switch.

    Parameters
    ----------
    middles
        Middle networks of the switch that routes them: the problem's, unless it allows more.
    flows, origins
        The flows that are routed, and which of the problem's each comes from: the problem's own, on other ports where
        workers moved, or the unicast flows of a ring where a collective was decomposed.
    words, rounds
        One letter a level, None for a flow that is put off; and the round in which each flow is served.
    chiplets
        On the two-level fabric, where a flow has a word in every chiplet that it crosses: the chiplets of a slice, round by
        round. There ``words`` are empty.
    moves
        Ports that workers left and took, as pairs.
    """

    family: ClassVar[str] = "routing"

    problem: RoutingProblem
    middles: int
    flows: tuple[SwitchFlow, ...]
    origins: tuple[int, ...]
    words: tuple[tuple[int, ...] | None, ...]
    rounds: tuple[int, ...]
    certificate: Certificate
    moves: tuple[tuple[int, int], ...] = ()
    chiplets: tuple[tuple[Chiplet, ...], ...] = ()
    baselines: tuple[Baseline, ...] = ()
    planner: str = ""
    seed: int = 0
    seconds: float | None = None
    report: RoutingReport | None = None

    @property
    def baseline(self) -> Baseline | None:
        """The best of the baselines."""
        return min(self.baselines, key=lambda one: one.value, default=None)


class Plan(Protocol):
    """What the plans of all families have; those of schedules and balance are in :mod:`fabric_plan.planner.schedule` and :mod:`fabric_plan.planner.balance`."""

    family: ClassVar[str]

    @property
    def certificate(self) -> Certificate:
        """Status, values and bounds."""
        ...
