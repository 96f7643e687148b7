"""The exceptions of fabric-plan: one tree, so that a caller can catch as much of it as it wants.

An error says what is wrong, where, why, and what to do about it, in one line: the command line prints it as it is.
"""

from __future__ import annotations


class FabricPlanError(Exception):
    """Whatever this package raises on purpose."""


class InvalidInput(FabricPlanError, ValueError):
    """Something handed in cannot be read or makes no sense (exit code 2)."""


class InvalidProblem(InvalidInput):
    """A problem contradicts itself or its fabric, a strategy that does not fit for example."""


class InvalidPlan(InvalidInput):
    """A plan file cannot be read as a plan."""


class Infeasible(FabricPlanError):
    """No plan satisfies the problem; ``core`` names a set of its constraints that already contradict one another."""

    def __init__(self, message: str, core: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.core = core


class LimitReached(FabricPlanError):
    """The budget ended without any plan; ``bound`` is what had been proved by then."""

    def __init__(self, message: str, bound: object = None) -> None:
        super().__init__(message)
        self.bound = bound


class PlanRejected(FabricPlanError):
    """The simulator refused a plan that one of our own planners made: a defect of ours, never of the user's."""

    def __init__(self, message: str, violations: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.violations = violations


def suggest(word: str, known: list[str]) -> str:
    """Return " (did you mean X?)" when a known word is close to ``word``, else an empty string."""
    import difflib

    close = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else ""
