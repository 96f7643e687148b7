"""A schedule on its way into a file: its messages with an order, cut smaller where no order or place suits them; and what comes of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.export.order import Event, History, Unorderable, ordered
from fabric_plan.planner.export.pieces import Layout, Message, cut

if TYPE_CHECKING:
    from fabric_plan.planner.schedule import SchedulePlan


@dataclass(frozen=True)
class Exported:
    """A file, and what its user should know of it, line by line."""

    data: bytes
    notes: tuple[str, ...] = ()


class TooLarge(Exception):
    """A limit that this way of cutting passes: what, how many it needs, how many there may be."""

    def __init__(self, what: str, need: int, most: int) -> None:
        super().__init__(what)
        self.what, self.need, self.most = what, need, most


def told(plan: SchedulePlan, form: str, error: TooLarge) -> str:
    """Return what is too large for a form, and what would fit."""
    chunks = len(plan.shards)
    pipelined = plan.algorithm in ("chain", "double-binary-tree", "trees", "in-network") or plan.problem.chunks
    fits = max(1, chunks * error.most // (2 * error.need))
    way = f"about {fits} chunks fit (--chunks), or " if pipelined and fits < chunks else "use fewer ranks or "
    return (
        f"{form}: {error.what}: {plan.algorithm} with {chunks:,} chunks over {len(plan.problem.jobs[0].group)} ranks needs "
        f"{error.need:,}, the executor takes {error.most:,}: {way}another planner"
    )


class Drafts:
    """Messages with an order, cut smaller where no order or no place suits them."""

    def __init__(self, plan: SchedulePlan, layout: Layout, messages: Sequence[Message]) -> None:
        self.layout, self.messages = layout, list(messages)
        self.history = History(plan.transfers)
        self.start, self.finish = times_of(plan)
        self.events: list[Event] = []
        self.order()

    def order(self) -> None:
        """Find the order anew, with single pieces where whole messages have none."""
        try:
            self.events = ordered(self.messages, self.history, self.start, self.finish)
        except Unorderable:
            whole = len(self.messages)
            self.messages = [part for one in self.messages for part in cut(one, 1)]
            if len(self.messages) == whole:
                raise InvalidInput(
                    "export: its transfers send what others overwrite before, in a circle: choose another planner"
                ) from None
            self.order()

    def split(self, numbers: set[int]) -> None:
        """Cut messages into single pieces, and order again."""
        self.messages = [
            part for k, one in enumerate(self.messages) for part in (cut(one, 1) if k in numbers else (one,))
        ]
        self.order()


def times_of(plan: SchedulePlan) -> tuple[list[int], list[int]]:
    """Return when each transfer begins and ends in the simulation, in ticks."""
    from fabric_plan.planner.simulator.dataflow import NOT, Found
    from fabric_plan.planner.simulator.schedule import simulate

    line = simulate(plan, followed=Found([], NOT)).timeline
    begins = line.start.tolist()
    cuts = line.program.hop_start.tolist()
    finish = line.finish.tolist()
    start = [min(begins[a:b], default=end) for (a, b), end in zip(itertools.pairwise(cuts), finish, strict=True)]
    return start, finish
