"""What a step of a search may spend: wall seconds, or in deterministic runs seconds' worth of work that the steps charge."""

from __future__ import annotations

import math

from fabric_plan.planner.interface import Budget

DETERMINISTIC_PART = 0.85
"""The part of a deterministic budget that is given out as work; the rest keeps the wall limit from being met first."""


class Allowance:
    """Seconds to spend, out of a budget or out of a larger allowance.

    Charges count in deterministic runs only; otherwise the clock does. Nothing is left once the budget is stopped.
    """

    def __init__(self, budget: Budget, seconds: float, parent: Allowance | None = None) -> None:
        self._budget = budget
        self._seconds = seconds
        self._parent = parent
        self._spent = 0.0
        self._started = budget.elapsed

    @classmethod
    def whole(cls, budget: Budget) -> Allowance:
        """Return the allowance of a whole budget."""
        part = DETERMINISTIC_PART if budget.deterministic else 1.0
        return cls(budget, budget.seconds * part - (0 if budget.deterministic else budget.elapsed))

    @property
    def left(self) -> float:
        """Seconds that are left, never negative."""
        if self._budget.left <= 0:
            return 0.0
        spent = self._spent if self._budget.deterministic else self._budget.elapsed - self._started
        return max(0.0, self._seconds - spent)

    def charge(self, seconds: float) -> None:
        """Spend ``seconds`` of work."""
        self._spent += seconds
        if self._parent is not None:
            self._parent.charge(seconds)

    def share(self, part: float, most: float = math.inf) -> Allowance:
        """Return an allowance for a part of what is left, and at most ``most`` seconds."""
        return Allowance(self._budget, min(most, part * self.left), self)
