"""How links serve what waits for them: discipline, switching, buffers and outages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from fabric_plan.planner.errors import InvalidInput

DISCIPLINES = ("fifo", "fair")
SWITCHINGS = ("store-forward", "cut-through")

Outage = tuple[Fraction, Fraction | None]
"""From when, and until when (None: for ever), a link sends nothing, in seconds."""


@dataclass(frozen=True)
class Service:
    """The service that links give.

    Parameters
    ----------
    discipline
        ``fifo``: a link sends one hop at a time, whole, in the order in which they became ready (ties by number), or by
        priority, which preempts. ``fair``: all that is under way shares the links max-min fairly, as a fluid.
    switching
        ``store-forward``: a relay passes a message on when it has arrived whole. ``cut-through``: as soon as its head
        arrives; its tail leaves no earlier than it came.
    buffers
        Bytes that fit at the far end of a link, by link; a link without an entry never waits for room. A message takes
        its room when it starts, and gives it back when it has left over its next links or has reached its receiver.
    outages
        When a link sends nothing, by link; what it was sending goes on afterwards.
    """

    discipline: str = "fifo"
    switching: str = "store-forward"
    buffers: Mapping[int, Fraction | int] = field(default_factory=dict)
    outages: Mapping[int, Outage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.discipline not in DISCIPLINES:
            raise InvalidInput(f"unknown discipline {self.discipline!r}: expected {' or '.join(DISCIPLINES)}")
        if self.switching not in SWITCHINGS:
            raise InvalidInput(f"unknown switching {self.switching!r}: expected {' or '.join(SWITCHINGS)}")
        for link, room in self.buffers.items():
            if room <= 0:
                raise InvalidInput(f"buffer of link {link}: {room} bytes: it must hold more than nothing")
        for link, (start, end) in self.outages.items():
            if start < 0 or (end is not None and end < start):
                raise InvalidInput(f"outage of link {link}: it must begin at 0 or later, and end no earlier")
        if self.buffers and self.discipline == "fair":
            raise InvalidInput("buffers are simulated with the discipline fifo: a fluid needs no room")

    @property
    def cut_through(self) -> bool:
        """Whether a relay passes a message on before it has arrived whole."""
        return self.switching == "cut-through"

    def __str__(self) -> str:
        return f"{self.discipline}, {'cut-through' if self.cut_through else 'store-and-forward'}"
