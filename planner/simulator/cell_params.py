"""What a simulation of cells is told: rates, sizes, delays, and the links that die."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fabric_plan.planner.errors import InvalidInput

PICO = 1_000_000_000_000
"""Ticks per second: times are whole picoseconds."""

Withdrawals = Mapping[tuple[str, str], Collection[str]]
"""(device, destination) -> names of links: over those the device is not told of the destination, so it sends nothing to it there."""


@dataclass(frozen=True, kw_only=True)
class CellParams:
    """Parameters of the fabric, of all schemes.

    Parameters
    ----------
    link_rate
        Of a fabric link in each direction, bytes/s; the fabric's own unless given.
    host_rate
        Of a host port in each direction, bytes/s; that of a link unless given.
    link_latency_s
        Seconds from the end of a cell's or packet's transmission to its arrival. Credits and requests take as long as the links of
        a path together; hosts are attached without latency.
    packet_bytes, cell_bytes, credit_bytes
        The largest packet; the largest cell (a packet is cut into the fewest cells of equal length); what a credit is worth.
    class_weights
        Shares of the service classes 0, 1, ... where egress ports grant credits; None: strictly in their order.
    spray
        Cells go over a device's links in turn, or to links drawn at random.
    flowlet_packets
        ``adaptive``: packets of a flow that go the same way before a device looks again.
    converge_s
        Seconds from a failure until devices elsewhere know of it; the devices at its ends know at once.
    resend_s
        Seconds from a loss until the source resends the packet.
    replan_s
        ``central``: seconds from a failure until the new paths are in force.
    hyperports
        So many parallel links between two devices act as one port, so many times as fast (a remainder as one smaller port). The
        port fails with any of its links.
    """

    link_rate: int | None = None
    host_rate: int | None = None
    link_latency_s: float = 500e-9
    packet_bytes: int = 4096
    cell_bytes: int = 256
    credit_bytes: int = 4096
    class_weights: tuple[int, ...] | None = None
    spray: Literal["turn", "random"] = "turn"
    flowlet_packets: int = 1
    converge_s: float = 10e-6
    resend_s: float = 20e-6
    replan_s: float = 1e-3
    hyperports: int = 1

    def __post_init__(self) -> None:
        for name in ("packet_bytes", "cell_bytes", "credit_bytes", "flowlet_packets", "hyperports"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} {getattr(self, name)}: expected at least 1")
        for name in ("link_rate", "host_rate"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInput(f"{name} {value}: expected bytes/s, at least 1")
        for name in ("link_latency_s", "converge_s", "resend_s", "replan_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 <= value <= 1000):
                raise InvalidInput(f"{name} {value}: expected seconds from 0 to 1000")
        if self.cell_bytes > self.packet_bytes:
            raise InvalidInput(f"cells of {self.cell_bytes} bytes are larger than packets of {self.packet_bytes}")
        if self.class_weights is not None and (not self.class_weights or min(self.class_weights) < 1):
            raise InvalidInput(f"class_weights {self.class_weights}: expected a positive number for each class")
        if self.spray not in ("turn", "random"):
            raise InvalidInput(f"spray {self.spray!r}: expected turn or random")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Links that die, both directions, and do not come back.

    Parameters
    ----------
    links
        Names, as :meth:`fabric_plan.planner.dsf.Dsf.link` reads them.
    at_s
        When, seconds.
    withdrawals
        Reachability that the scheduled fabric gives up once it has converged, beside what can no longer be reached.
    """

    links: tuple[str, ...]
    at_s: float
    withdrawals: Withdrawals = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.links:
            raise InvalidInput("failure: no link is named")
        if not (math.isfinite(self.at_s) and self.at_s >= 0):
            raise InvalidInput(f"failure: at {self.at_s} s: expected seconds from 0")


def ticks(seconds: float) -> int:
    """Return picoseconds, rounded."""
    return round(seconds * PICO)
