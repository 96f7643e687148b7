"""The paper's two-level FRED fabric in chiplets: 20 NPUs under 5 L1 switches, every switch cut into 5 equal slices.

In a slice, an L1 chiplet joins 4 NPUs, its I/O controllers (4, 4, 4, 3, 3) and 4 uplinks, two to each of the 2 L2 chiplets
Fred_3(10) (FRED paper, figure 8b, whose wiring is inferred from table 4). All slices carry the same, each a share of it.
"""

from __future__ import annotations

import msgspec

from fabric_plan.planner.fred import Word
from fabric_plan.planner.problem import SwitchFlow

LEAVES, NPUS_EACH, TOPS, UPLINKS = 5, 4, 2, 2
CONTROLLERS = (4, 4, 4, 3, 3)
TOP_PORTS = LEAVES * UPLINKS
NPUS = LEAVES * NPUS_EACH
ENDS = NPUS + sum(CONTROLLERS)
"""Where flows begin and end: the NPUs, then the I/O controllers, L1 by L1."""


class Chiplet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A chiplet with what it has to do: its flows, whose they are, and their words."""

    name: str
    ports: int
    flows: tuple[SwitchFlow, ...]
    origins: tuple[int, ...]
    words: tuple[Word, ...]


def home(end: int) -> tuple[int, int]:
    """Return (L1, port of its chiplet) of an NPU or an I/O controller."""
    if end < NPUS:
        return divmod(end, NPUS_EACH)
    number = end - NPUS
    for leaf, count in enumerate(CONTROLLERS):
        if number < count:
            return leaf, NPUS_EACH + number
        number -= count
    raise ValueError(f"fred-20 has no end {end}")


def end_name(end: int) -> str:
    """Return ``npu3`` or ``io17``."""
    return f"npu{end}" if end < NPUS else f"io{end - NPUS}"


def leaf_ports(leaf: int) -> int:
    """Return the ports of an L1 chiplet: NPUs first, then I/O controllers, then uplinks."""
    return NPUS_EACH + CONTROLLERS[leaf] + TOPS * UPLINKS


def uplink(leaf: int, top: int, number: int) -> int:
    """Return the port of an L1 chiplet that leads to an L2 chiplet."""
    return NPUS_EACH + CONTROLLERS[leaf] + top * UPLINKS + number
