"""The joint model: a word for every flow, all levels at once.

A pair of flows that first share a micro-switch at some level must differ in one of the letters up to it; nothing else is
asked (tests/models/test_routing.py holds this against brute force and the walk). The letters of a clique of flows that
share outermost micro-switches are fixed, since colours may be renamed. Rounds, where flows may be put off to later
ones, are one more letter before all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from fabric_plan.models import solve
from fabric_plan.planner.fred import Word, conflicts, levels
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.problem import SwitchFlow


@dataclass(frozen=True)
class Routed:
    """What a run of the joint model found.

    Parameters
    ----------
    answer
        ``optimal`` (routed, or fewest blocked), ``feasible``, ``infeasible`` or ``unknown``.
    words
        By flow; None for a flow that is blocked. Empty where nothing was found.
    rounds
        The round of each flow.
    bound
        The least number of blocked flows that is proved.
    """

    answer: solve.Answer
    words: tuple[Word | None, ...]
    rounds: tuple[int, ...]
    bound: int


class Joint:
    """The model of one problem.

    Parameters
    ----------
    rounds
        How many rounds flows may be spread over.
    block
        Whether flows may be left out, as few as possible.
    named
        Whether each flow's presence is a literal of its own, so that a conflicting set can be found.
    """

    def __init__(
        self,
        flows: Sequence[SwitchFlow],
        ports: int,
        middles: int,
        *,
        rounds: int = 1,
        block: bool = False,
        named: bool = False,
    ) -> None:
        self.flows, self.ports, self.middles, self.rounds = flows, ports, middles, rounds
        self.depth = levels(ports)
        self.pairs = conflicts(flows, ports)
        self.model = model = cp_model.CpModel()
        touched = {index for a, b, _ in self.pairs for index in (a, b)}
        # Letters before the first one that matters to a flow could be anything; those of untouched flows are zero.
        self.letters: list[list[list[cp_model.IntVar]]] = []
        for index in range(len(flows)):
            rows = [[model.new_bool_var("") for _ in range(size)] for size in self._sizes()] if index in touched else []
            for row in rows:
                model.add_exactly_one(row)
            self.letters.append(rows)
        self.present = [model.new_bool_var("") if block or named else None for _ in flows]
        if block:
            model.maximize(sum(one for one in self.present if one is not None))
        for a, b, level in self.pairs:
            self._differ(a, b, level)
        self._break_symmetry(fixed=not block and not named)

    def _sizes(self) -> list[int]:
        return [self.rounds, *[self.middles] * self.depth] if self.rounds > 1 else [self.middles] * self.depth

    def _differ(self, a: int, b: int, level: int) -> None:
        extra = 1 if self.rounds > 1 else 0
        absent = [one.negated() for one in (self.present[a], self.present[b]) if one is not None]
        rows = range(level + extra)
        if len(rows) == 1:
            for mine, theirs in zip(self.letters[a][0], self.letters[b][0], strict=True):
                self.model.add_bool_or([mine.negated(), theirs.negated(), *absent])
            return
        parts = []
        for row in rows:
            part = self.model.new_bool_var("")
            parts.append(part)
            for mine, theirs in zip(self.letters[a][row], self.letters[b][row], strict=True):
                self.model.add_bool_or([part.negated(), mine.negated(), theirs.negated()])
        self.model.add_bool_or([*parts, *absent])

    def _break_symmetry(self, *, fixed: bool) -> None:
        """Colours of the outermost letter may be renamed: give the flows of a large clique the first ones in turn."""
        if self.rounds > 1:
            first = next((index for index, rows in enumerate(self.letters) if rows), None)
            if first is not None:
                self.model.add(self.letters[first][0][0] == 1)
            return
        beside: dict[int, set[int]] = {}
        for a, b, level in self.pairs:
            if level == 1:
                beside.setdefault(a, set()).add(b)
                beside.setdefault(b, set()).add(a)
        if not beside:
            return
        clique = max((_grown(start, beside) for start in beside), key=len) if fixed else [min(beside)]
        for colour, index in enumerate(clique[: self.middles]):
            self.model.add(self.letters[index][0][colour] == 1)

    def solve(self, budget: Budget) -> Routed:
        """Run the solver on the model."""
        wanted = [one for rows in self.letters for row in rows for one in row]
        wanted += [one for one in self.present if one is not None]
        outcome = solve.run(self.model, budget, wanted=wanted)
        blocked = 0 if outcome.bound is None else max(0, len(self.flows) - outcome.bound)
        if outcome.values is None:
            return Routed(outcome.answer, (), (), blocked)
        values = iter(outcome.values)
        words: list[Word | None] = []
        rounds: list[int] = []
        for rows in self.letters:
            picked = [[next(values) for _ in row].index(1) for row in rows]
            if not rows:
                words.append((0,) * self.depth)
                rounds.append(0)
            elif self.rounds > 1:
                rounds.append(picked[0])
                words.append(tuple(picked[1:]))
            else:
                rounds.append(0)
                words.append(tuple(picked))
        for index, one in enumerate(self.present):
            if one is not None and not next(values):
                words[index] = None
        return Routed(outcome.answer, tuple(words), tuple(rounds), blocked)


def _grown(start: int, beside: dict[int, set[int]]) -> list[int]:
    """Return a clique that holds ``start``, grown by the neighbour with most neighbours among those that are left."""
    clique, left = [start], set(beside[start])
    while left:
        best = max(left, key=lambda one: (len(beside[one] & left), -one))
        clique.append(best)
        left &= beside[best]
    return clique
