"""Selections whose choices are coupled: a few profiles for all destinations of a zone, ports shared by virtual devices, min-links.

For one sending zone and one receiving zone: profiles of links that stay (integers), one of them for each destination, and the same for
all virtual devices of a plane where ports are bundled. Then flows no longer do, and CP-SAT takes over: the largest total first, then
the worst pair, then the fewest withdrawals. What a zone chooses towards another says nothing about third ones, so each pair of zones
is a model of its own, and the bounds add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from fabric_plan.models import solve
from fabric_plan.models.balance.selection import triples, withdrawn
from fabric_plan.planner.balance import BalanceProblem, Profile
from fabric_plan.planner.errors import LimitReached
from fabric_plan.planner.interface import Budget, OnProgress, Progress
from fabric_plan.planner.simulator.balance import reachable
from fabric_plan.planner.simulator.reach import advertised, spine_output

MAX_DESTINATION_LINKS = 3_000_000
"""Destinations times links of a pair of zones; larger models do not fit."""

FOUND = (solve.Answer.OPTIMAL, solve.Answer.FEASIBLE)


@dataclass(frozen=True)
class Coupled:
    """The copies' profiles, and a bound on the total."""

    copies: tuple[tuple[Profile, ...], ...]
    total_bound: int
    proof: tuple[str, ...]


class _Pair:
    """The model of a sending zone towards a receiving one, in some copies that choose alike."""

    def __init__(self, problem: BalanceProblem, zone: int, home: int, copies: Sequence[int]) -> None:
        self.problem, self.zone, self.home, self.copies = problem, zone, home, copies
        coupling = problem.coupling
        self.numbers = range(problem.fabric.zones[home].interfaces)
        self.count = min(coupling.profiles or len(self.numbers), len(self.numbers))
        self.model = cp_model.CpModel()
        self.live = {copy: problem.live(copy) for copy in copies}
        self.outs = {
            (copy, d): spine_output(self.live[copy], home, d, intra=problem.intra)
            for copy in copies
            for d in self.numbers
        }
        # What stays of each pair of devices, by profile: the same numbers in every copy, as far as a copy's links go.
        first = self.live[copies[0]]
        self.upper_built = np.maximum.reduce([self.live[copy].upper[zone] for copy in copies])
        self.lower_built = np.maximum.reduce([self.live[copy].lower[zone] for copy in copies])
        self.uppers = [self._grid(self.upper_built) for _ in range(self.count)]
        self.lowers = [self._grid(self.lower_built) for _ in range(self.count)]
        self.picks = [[self.model.new_bool_var("") for _ in range(self.count)] for _ in self.numbers]
        for d, row in enumerate(self.picks):
            self.model.add_exactly_one(row)
            # Profiles may be renamed: destination d takes none beyond the d-th.
            for p in range(d + 1, self.count):
                self.model.add(row[p] == 0)
        self.terms: list[Any] = []
        self.smallest: list[tuple[Any, Any]] = []
        self.senders, self.fabrics = first.lower[zone].shape
        for copy in copies:
            for p in range(self.count):
                self._profile(copy, p)

    def _grid(self, built: Any) -> list[list[Any]]:
        return [[self.model.new_int_var(0, int(one), "") if one else 0 for one in row] for row in built]

    def _within(self, keep: Any, live: int, built: int) -> Any:
        """Return what stays in a copy that has ``live`` of ``built`` links: the smaller of both."""
        if live == built or isinstance(keep, int):
            return keep
        if live == 0:
            return 0
        kept = self.model.new_int_var(0, live, "")
        self.model.add_min_equality(kept, [keep, live])
        return kept

    def _profile(self, copy: int, p: int) -> None:
        model, live = self.model, self.live[copy]
        up, low = live.upper[self.zone], live.lower[self.zone]
        upper = [
            [self._within(self.uppers[p][g][s], int(up[g, s]), int(self.upper_built[g, s])) for s in range(up.shape[1])]
            for g in range(self.fabrics)
        ]
        lower = [
            [
                self._within(self.lowers[p][r][g], int(low[r, g]), int(self.lower_built[r, g]))
                for g in range(self.fabrics)
            ]
            for r in range(self.senders)
        ]
        kinds: dict[bytes, list[int]] = {}
        for d in self.numbers:
            kinds.setdefault(self.outs[copy, d].tobytes(), []).append(d)
        for alike in kinds.values():
            out = self.outs[copy, alike[0]]
            picked = [self.picks[d][p] for d in alike]
            if len(picked) == 1:
                used = picked[0]
            else:
                used = model.new_bool_var("")
                model.add_max_equality(used, picked)
            for s in range(up.shape[1]):
                if out[s] > 0 and int(up[:, s].sum()) > out[s]:
                    model.add(sum(upper[g][s] for g in range(self.fabrics)) <= int(out[s])).only_enforce_if(used)
            able = []
            for g in range(self.fabrics):
                through = sum(upper[g][s] for s in range(up.shape[1]) if out[s] > 0)
                most = int(low[:, g].sum())
                sent = sum(lower[r][g] for r in range(self.senders))
                # With no way at all a device advertises nothing, whatever its links would do.
                way = model.new_bool_var("")
                if isinstance(through, int):
                    model.add(way == 0)
                else:
                    model.add(through >= self.problem.coupling.min_links).only_enforce_if(way)
                    if self.problem.coupling.min_links > 1:
                        # Short of the threshold, the device keeps none of its links.
                        model.add(sent == 0).only_enforce_if(way.negated(), used) if most else None
                    else:
                        model.add(through == 0).only_enforce_if(way.negated())
                    if most:
                        model.add(sent <= through).only_enforce_if(way, used)
                able.append(way)
            capacity = []
            for r in range(self.senders):
                parts = []
                for g in range(self.fabrics):
                    if isinstance(lower[r][g], int):
                        continue
                    part = model.new_int_var(0, int(low[r, g]), "")
                    model.add(part <= lower[r][g])
                    model.add(part <= int(low[r, g]) * able[g])
                    model.add(part <= int(low[r, g]) * used)
                    parts.append(part)
                capacity.append(sum(parts) if parts else 0)
            self._count(copy, alike, p, capacity)

    def _count(self, copy: int, alike: list[int], p: int, capacity: list[Any]) -> None:
        model = self.model
        whole = sum(capacity)
        most = int(self.live[copy].lower[self.zone].sum())
        for d in alike:
            if isinstance(whole, int):
                continue
            value = model.new_int_var(0, most, "")
            model.add(value <= whole)
            model.add(value <= most * self.picks[d][p])
            self.terms.append(value)
            possible = reachable(
                self.live[copy], advertised(self.live[copy], self.zone, self.home, d, intra=self.problem.intra)
            )
            for r in np.flatnonzero(possible):
                if not isinstance(capacity[r], int):
                    self.smallest.append((capacity[r], self.picks[d][p]))

    def run(self, budget: Budget, share: float) -> tuple[solve.Outcome, int]:
        """Maximise the total, then the worst pair, then what stays; return (outcome, bound on the total)."""
        model = self.model
        wanted = [one for row in self.picks for one in row]
        grids = [
            one for grid in (*self.uppers, *self.lowers) for row in grid for one in row if not isinstance(one, int)
        ]
        wanted += grids
        total = sum(self.terms) if self.terms else 0
        model.maximize(total)
        outcome = solve.run(model, budget, wanted=wanted, seconds=share / 2)
        bound = 0 if outcome.bound is None else int(outcome.bound)
        if outcome.values is None or isinstance(total, int):
            return outcome, bound
        reached = int(outcome.objective or 0)
        least = model.new_int_var(0, 1 << 15, "")
        for capacity, picked in self.smallest:
            model.add(least <= capacity).only_enforce_if(picked)
        model.add(total >= reached)
        model.maximize(
            least * (1 + sum(int(one) for one in self.upper_built.ravel()) + int(self.lower_built.sum())) * self.count
            + sum(grids)
        )
        better = solve.run(
            model, budget, wanted=wanted, seconds=share / 2, hint=list(zip(wanted, outcome.values, strict=True))
        )
        return (better if better.values is not None else outcome), bound


def solve_coupled(
    problem: BalanceProblem, free: Sequence[tuple[Profile, ...]], budget: Budget, on_progress: OnProgress
) -> Coupled:
    """Return the best selections under the problem's couplings.

    Raises
    ------
    LimitReached
        When a pair of zones has no selection in time, or is too large for a model.
    """
    fabric, coupling = problem.fabric, problem.coupling
    groups = [[copy] for copy in range(fabric.copies)]
    if coupling.bundle:
        groups = [list(range(first, first + fabric.devices)) for first in range(0, fabric.copies, fabric.devices)]
    zones = range(len(fabric.zones))
    jobs = [(group, zone, home) for group in groups for zone in zones for home in zones if home != zone]
    made: dict[int, list[Profile]] = {copy: [] for copy in range(fabric.copies)}
    bound, proved = 0, True
    cuts = {
        (copy, one.zone, place): one
        for copy, profiles in enumerate(free)
        for one in profiles
        for place in one.destinations
    }
    for done, (group, zone, home) in enumerate(jobs):
        there = fabric.zones[zone]
        size = fabric.zones[home].interfaces * there.fabrics * (there.interfaces + fabric.spines) * len(group)
        if size > MAX_DESTINATION_LINKS:
            raise LimitReached(
                f"couplings between zones {there.name} and {fabric.zones[home].name} are {size:,} destinations x links, too many for a model "
                f"(at most {MAX_DESTINATION_LINKS:,}): plan without them, or a smaller fabric"
            )
        pair = _Pair(problem, zone, home, group)
        outcome, most = pair.run(budget, budget.left / (len(jobs) - done))
        if outcome.values is None:
            raise LimitReached(f"no selection of zone {there.name} towards {fabric.zones[home].name} was found in time")
        bound += most
        proved = proved and outcome.answer is solve.Answer.OPTIMAL
        for copy, profile in _read(pair, outcome.values):
            known = cuts[copy, zone, profile.destinations[0]]
            if len(profile.destinations) == 1:
                profile = _cut_by(profile, known)
            made[copy].append(profile)
        on_progress(
            Progress(budget.elapsed, None, None, "links", f"zone {there.name} towards {fabric.zones[home].name}")
        )
    told = "models of every pair of zones, their couplings kept: the largest total" + (" proved" if proved else "")
    return Coupled(tuple(tuple(made[copy]) for copy in range(fabric.copies)), bound, (told,))


def _cut_by(profile: Profile, known: Profile) -> Profile:
    import msgspec

    return msgspec.structs.replace(profile, total_cut=known.total_cut, worst_cut=known.worst_cut)


def _read(pair: _Pair, values: Sequence[int]) -> list[tuple[int, Profile]]:
    """Return (copy, profile) of what a model chose."""
    stream = iter(values)
    picks = [[next(stream) for _ in row].index(1) for row in pair.picks]

    def grid(rows: list[list[Any]]) -> Any:
        return np.array([[0 if isinstance(one, int) else next(stream) for one in row] for row in rows], dtype=np.int16)

    uppers = [grid(rows) for rows in pair.uppers]
    lowers = [grid(rows) for rows in pair.lowers]
    found = []
    for copy in pair.copies:
        live = pair.live[copy]
        for p in sorted(set(picks)):
            places = tuple((pair.home, d) for d, picked in enumerate(picks) if picked == p)
            upper = np.minimum(uppers[p], live.upper[pair.zone]).astype(np.int16)
            lower = np.minimum(lowers[p], live.lower[pair.zone]).astype(np.int16)
            everywhere = np.full(upper.shape[1], 1, dtype=np.int16)
            through = np.ones_like(upper)
            gone_upper, _ = withdrawn(live, pair.zone, everywhere, lower, upper, 0)
            _, gone_lower = withdrawn(live, pair.zone, everywhere, lower, through, 0)
            profile = Profile(zone=pair.zone, destinations=places, upper=triples(gone_upper), lower=triples(gone_lower))
            found.append((copy, profile))
    return found
