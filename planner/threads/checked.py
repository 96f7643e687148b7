"""What a check of a schedule leaves for others to use: the verdict, and what can be timed."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from fractions import Fraction

from fabric_plan.planner.threads.collectives import Collective
from fabric_plan.planner.threads.findings import Verdict
from fabric_plan.planner.threads.order import Messages
from fabric_plan.planner.threads.program import Program

NOMINAL_SIZE = 1 << 20
"""Bytes for which a program is timed where no size is given and the file's window allows it."""


@dataclass(frozen=True)
class Checked:
    """A schedule, checked.

    Parameters
    ----------
    program, messages, order, collective
        What can be timed; None where the schedule is wrong or says too little.
    depth
        Messages that a connection holds; None: no limit.
    low, high
        Bytes between which the file is used.
    fixed
        Bytes of the collective where the file itself fixes its messages.
    """

    verdict: Verdict
    program: Program | None = None
    messages: Messages | None = None
    order: array[int] | None = None
    collective: Collective | None = None
    depth: int | None = None
    low: int = 0
    high: int | None = None
    fixed: Fraction | None = None

    def size(self, asked: Fraction | None) -> Fraction:
        """Return the bytes for which it is timed: those asked for, else a mebibyte where that is in its window and does not hang."""
        if self.fixed is not None:
            return self.fixed
        if asked is not None:
            return asked
        most = min((one for one in (self.high, self.verdict.hangs_above) if one is not None), default=None)
        value = max(NOMINAL_SIZE, self.low)
        return Fraction(value if most is None else max(1, min(value, most)))
