"""The exact placement model for CP-SAT.

Variables
    x[w, s]      worker w sits on seat s.
    y[a, b, s, t]  worker a sits on s and worker b on t, for every two workers that exchange a flow of fixed ends.
    z[g, s, t]   a member of group g on s sends to one on t, for every group whose ring order is free, and for
                 all-to-all groups.
    u[n, l]      multicast n crosses link l.
    M[k]         the largest load of phase k, in the instance's units.

Constraints
    each worker has one seat, each seat at most one worker; rows and columns of y sum to x; rows and columns of z sum to
    the group's membership of a seat (times p - 1 for all-to-all), and a free ring is one circuit; u covers y;
    for every phase and link, the sum of weight x cost over the flows whose route crosses it is at most M.

Objective
    minimise the weighted sum of M (and of the waits, for ``time``). With ``caps`` there is no objective: is there a
    placement whose loads stay within them (None: whatever they are)? With ``goals`` the sum of what links carry beyond them is minimised.

Routes are constants of the fabric, so a link's load is linear in y and z. ``domains`` restrict workers to some seats: a
neighbourhood, whose answers say nothing about the whole problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from ortools.sat.python import cp_model

from fabric_plan.models.placement.instance import Instance, Solution

MAX_PAIRS = 1_500_000
"""A model with more seat pairs than this is not built: it would not be solved either."""

LinearExpr = cp_model.LinearExpr
Literal: TypeAlias = cp_model.IntVar


class PlacementModel:
    """See the module's text. ``model`` is open to experts; :meth:`extract` turns values of :attr:`wanted` into a solution."""

    def __init__(
        self,
        instance: Instance,
        *,
        caps: Sequence[int | None] | None = None,
        goals: Sequence[int] | None = None,
        domains: Sequence[Sequence[int]] | None = None,
        upper: Sequence[int] | None = None,
        lower: Sequence[int] | None = None,
    ) -> None:
        self.instance = instance
        self.model = cp_model.CpModel()
        self.whole = domains is None
        everywhere = range(instance.seats)
        self.domains = [list(everywhere)] * instance.workers if domains is None else [list(one) for one in domains]
        self._terms: dict[tuple[int, int], tuple[list[Literal], list[int]]] = {}
        self._arcs: list[dict[tuple[int, int], Literal]] = []
        self._add_seats()
        self._waits = self._wait_variables()
        self._add_groups()
        self._add_pairs()
        if caps is not None:
            self._add_caps(caps)
        elif goals is not None:
            self._minimise_excess(goals)
        else:
            self._minimise_loads(lower or [0] * instance.phases, upper)
        if self.whole:
            self._break_symmetry()

    @staticmethod
    def pairs(instance: Instance) -> int:
        """Return how many (s, t) variables the whole model has."""
        edges = {
            frozenset((net.root, slot))
            for net in instance.nets
            for slot in net.targets
            if max(net.root, slot) < instance.workers
        }
        return (len(edges) + len(instance.rings)) * instance.seats * (instance.seats - 1)

    # Variables and constraints

    def _add_seats(self) -> None:
        model = self.model
        self.x: list[dict[int, Literal]] = []
        on: list[list[Literal]] = [[] for _ in range(self.instance.seats)]
        for worker in range(self.instance.workers):
            here = {seat: model.new_bool_var("") for seat in self.domains[worker]}
            model.add_exactly_one(here.values())
            for seat, literal in here.items():
                on[seat].append(literal)
            self.x.append(here)
        for literals in on:
            if len(literals) > 1:
                model.add_at_most_one(literals)

    def _wait_variables(self) -> list[Literal] | None:
        instance = self.instance
        if instance.problem.objective != "time":
            return None
        slowest = sum((link.latency for link in instance.fabric.links), Fraction(0))
        self._longest_wait = [instance.wait_units(d, slowest) for d in range(len(instance.demands))]
        return [self.model.new_int_var(0, most, "") for most in self._longest_wait]

    def _add_load(self, demand: int, source: int, target: int, literal: Literal) -> None:
        """Count a unicast flow of ``demand`` from seat to seat wherever ``literal`` holds."""
        instance = self.instance
        route = instance.route(source, target)
        if route is None:
            self.model.add(literal == 0)
            return
        phase, weight = instance.phase(demand), instance.weights[demand]
        for link, cost in route:
            literals, weights = self._terms.setdefault((phase, link), ([], []))
            literals.append(literal)
            weights.append(weight * cost)

    def _wait_of(self, demand: int, source: int, target: int) -> int:
        instance = self.instance
        if instance.route(source, target) is None:
            return 0
        return instance.wait_units(demand, instance.latency(source, target))

    def _add_groups(self) -> None:
        """Free rings and all-to-all groups, by the seats that they cover rather than by pairs of workers."""
        instance = self.instance
        for ring in instance.rings:
            self._arcs.append(self._add_cover(ring.demand, ring.members, circuit=True))
        for demand, one in enumerate(instance.demands):
            if one.algorithm == "direct":
                for group in instance.problem.strategy.groups(one.dimension):
                    self._add_cover(demand, group, circuit=False)

    def _add_cover(self, demand: int, members: Sequence[int], *, circuit: bool) -> dict[tuple[int, int], Literal]:
        model = self.model
        seats = sorted({seat for worker in members for seat in self.domains[worker]})
        member: dict[int, Literal] = {}
        for seat in seats:
            literals = [self.x[worker][seat] for worker in members if seat in self.x[worker]]
            member[seat] = model.new_bool_var("")
            model.add(LinearExpr.sum(literals) == member[seat])
        degree = 1 if circuit else len(members) - 1
        z = {(s, t): model.new_bool_var("") for s in seats for t in seats if s != t}
        for seat in seats:
            model.add(LinearExpr.sum([z[seat, t] for t in seats if t != seat]) == degree * member[seat])
            model.add(LinearExpr.sum([z[s, seat] for s in seats if s != seat]) == degree * member[seat])
        if circuit:
            loops = [(seat, seat, ~member[seat]) for seat in seats]
            model.add_circuit(loops + [(s, t, literal) for (s, t), literal in z.items()])
        for (s, t), literal in z.items():
            self._add_load(demand, s, t, literal)
            if self._waits is not None:
                model.add(self._waits[demand] >= self._wait_of(demand, s, t) * literal)
        return z

    def _add_pairs(self) -> None:
        """Flows of fixed ends; both directions and all demands between two workers share their y."""
        instance = self.instance
        cache: dict[tuple[int, int], dict[tuple[int, int], Literal]] = {}
        direct = {d for d, one in enumerate(instance.demands) if one.algorithm == "direct"}
        for net in instance.nets:
            if net.demand in direct or net.root >= instance.workers:
                continue
            a, ends = net.root, net.targets
            cover: dict[int, list[list[Literal]]] = {}
            for b in ends:
                low, high = min(a, b), max(a, b)
                if (low, high) not in cache:
                    cache[low, high] = self._pair(low, high)
                y = {(s, t) if a == low else (t, s): literal for (s, t), literal in cache[low, high].items()}
                if self._waits is not None:
                    waits = [(literal, self._wait_of(net.demand, s, t)) for (s, t), literal in y.items()]
                    total = LinearExpr.weighted_sum([literal for literal, _ in waits], [wait for _, wait in waits])
                    self.model.add(self._waits[net.demand] >= total)
                if len(ends) == 1:
                    for (s, t), literal in y.items():
                        self._add_load(net.demand, s, t, literal)
                else:
                    crossing: dict[int, list[Literal]] = {}
                    for (s, t), literal in y.items():
                        route = instance.route(s, t)
                        if route is None:
                            self.model.add(literal == 0)
                            continue
                        for link, _ in route:
                            crossing.setdefault(link, []).append(literal)
                    for link, literals in crossing.items():
                        cover.setdefault(link, []).append(literals)
            phase, weight = instance.phase(net.demand), instance.weights[net.demand]
            share = instance.stripes if instance.fabric.routing != "planes" else 1
            for link, rows in cover.items():
                crossed = self.model.new_bool_var("")
                for literals in rows:
                    self.model.add(LinearExpr.sum(literals) <= crossed)
                terms, weights = self._terms.setdefault((phase, link), ([], []))
                terms.append(crossed)
                weights.append(weight * instance.link_costs[link] * share)

    def _pair(self, a: int, b: int) -> dict[tuple[int, int], Literal]:
        """Return y of two workers; where one of them has a single seat, the other's x serves."""
        model = self.model
        if len(self.domains[a]) == 1:
            (s,) = self.domains[a]
            return {(s, t): literal for t, literal in self.x[b].items() if t != s}
        if len(self.domains[b]) == 1:
            (t,) = self.domains[b]
            return {(s, t): literal for s, literal in self.x[a].items() if s != t}
        y = {(s, t): model.new_bool_var("") for s in self.domains[a] for t in self.domains[b] if s != t}
        rows: dict[int, list[Literal]] = {s: [] for s in self.domains[a]}
        columns: dict[int, list[Literal]] = {t: [] for t in self.domains[b]}
        for (s, t), literal in y.items():
            rows[s].append(literal)
            columns[t].append(literal)
        for s, literals in rows.items():
            model.add(LinearExpr.sum(literals) == self.x[a][s])
        for t, literals in columns.items():
            model.add(LinearExpr.sum(literals) == self.x[b][t])
        return y

    # Objectives

    def _add_caps(self, caps: Sequence[int | None]) -> None:
        for (phase, _), (literals, weights) in self._terms.items():
            cap = caps[phase]
            if cap is None:
                continue
            if all(weight > cap - weight for weight in weights) and all(weight <= cap for weight in weights):
                self.model.add_at_most_one(literals)
            else:
                self.model.add(LinearExpr.weighted_sum(literals, weights) <= cap)

    def _minimise_loads(self, lower: Sequence[int], upper: Sequence[int] | None) -> None:
        instance = self.instance
        self.largest = []
        for phase in range(instance.phases):
            most = (
                upper[phase]
                if upper is not None
                else sum(sum(w) for (k, _), (_, w) in self._terms.items() if k == phase)
            )
            self.largest.append(self.model.new_int_var(lower[phase], max(most, lower[phase]), ""))
        for (phase, _), (literals, weights) in self._terms.items():
            self.model.add(LinearExpr.weighted_sum(literals, weights) <= self.largest[phase])
        parts = list(self.largest)
        factors = list(instance.phase_weights)
        if self._waits is not None and instance.concurrent:
            longest = self.model.new_int_var(0, max(self._longest_wait, default=0), "")
            for wait in self._waits:
                self.model.add(longest >= wait)
            parts.append(longest)
            factors.append(1)
        elif self._waits is not None:
            parts += self._waits
            factors += list(instance.phase_weights)
        self.model.minimize(LinearExpr.weighted_sum(parts, factors))

    def _minimise_excess(self, goals: Sequence[int]) -> None:
        excess = []
        prices = []
        for (phase, _), (literals, weights) in self._terms.items():
            most = sum(weights) - goals[phase]
            if most > 0:
                over = self.model.new_int_var(0, most, "")
                self.model.add(LinearExpr.weighted_sum(literals, weights) - over <= goals[phase])
                excess.append(over)
                prices.append(self.instance.phase_weights[phase])
        self.model.minimize(LinearExpr.weighted_sum(excess, prices))

    def _break_symmetry(self) -> None:
        """Worker 0 takes the least seat of its orbit, and no equal worker sits in an earlier orbit.

        Any placement can be brought there: relabel so that, among the workers equal to worker 0, it sits in the first
        orbit of seats; then move the fabric so that it takes that orbit's least seat, which changes no orbit.
        """
        orbit = self.instance.fabric.seat_orbits
        for seat, literal in self.x[0].items():
            if orbit[seat] != seat:
                self.model.add(literal == 0)
        if len(set(orbit)) == 1:
            return
        first = LinearExpr.weighted_sum(list(self.x[0].values()), [orbit[seat] for seat in self.x[0]])
        for worker in self.instance.worker_orbit:
            if worker:
                other = LinearExpr.weighted_sum(list(self.x[worker].values()), [orbit[seat] for seat in self.x[worker]])
                self.model.add(first <= other)

    # Solutions

    @property
    def wanted(self) -> list[Literal]:
        """The variables that :meth:`extract` needs: all x, then the arcs of each free ring."""
        seats = [literal for here in self.x for literal in here.values()]
        return seats + [literal for arcs in self._arcs for literal in arcs.values()]

    def extract(self, values: Sequence[int]) -> Solution:
        """Return the solution that values of :attr:`wanted` stand for."""
        value = iter(values)
        # Every value of a row is read, also those after the seat that was taken.
        seats = tuple([seat for seat in here if next(value)].pop() for here in self.x)
        holder = {seat: worker for worker, seat in enumerate(seats)}
        orders = []
        for ring, arcs in zip(self.instance.rings, self._arcs, strict=True):
            after = {source: target for source, target in arcs if next(value)}
            order = [ring.members[0]]
            while len(order) < len(ring.members):
                order.append(holder[after[seats[order[-1]]]])
            orders.append(tuple(order))
        return Solution(seats, tuple(orders))

    def hint(self, solution: Solution) -> list[tuple[Literal, int]]:
        """Return a hint for the seats of a solution; the solver completes it."""
        return [
            (literal, int(solution.seats[w] == seat)) for w, here in enumerate(self.x) for seat, literal in here.items()
        ]
