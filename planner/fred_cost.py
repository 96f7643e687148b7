"""What FRED switches cost: micro-switches, area and power, in the manner of the paper's tables 3 and 4.

The paper gives three chiplets (15 nm, after layout): Fred_3(12), Fred_3(11) and Fred_3(10). A chiplet's area is that of its wires'
interfaces but for less than 5 % of logic (section 6.2.3, "Fred area overhead"); power follows its micro-switches. Other m and P
are scaled from the nearest of the three: estimates, and called so.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from fabric_plan.planner.fred import micro_switches

LOGIC = Fraction(5, 100)
"""The part of a chiplet that is switch logic, at most."""

CHIPLETS = {
    12: (Fraction(685), Fraction("3.75")),
    11: (Fraction(678), Fraction("3.40")),
    10: (Fraction(814), Fraction("3.11")),
}
"""Area in mm2 and power in W of Fred_3(P), by P (table 4). The L2 chiplet of 10 ports has wider ones."""

WIRING_WATTS = Fraction(58)
NPU_WATTS, NPU_AREA = Fraction(700), Fraction(1314)
IO_WATTS, IO_AREA = Fraction(5), Fraction(20)
BASELINE_WIRE_WATTS = Fraction(100)
BUDGET_WATTS = Fraction(15_000)


@dataclass(frozen=True)
class Cost:
    """Micro-switches, area (mm2) and power (W) of one switch; ``estimated`` where it is scaled from another."""

    middles: int
    ports: int
    micro_switches: int
    area: Fraction
    power: Fraction
    estimated: bool


def switch_cost(middles: int, ports: int) -> Cost:
    """Return the cost of Fred_m(P): the paper's chiplets as they are, others scaled from the nearest in ports.

    The interfaces' part of the area grows with ports, the logic's part and the power with micro-switches.
    """
    count = micro_switches(middles, ports)
    if middles == 3 and ports in CHIPLETS:
        area, power = CHIPLETS[ports]
        return Cost(middles, ports, count, area, power, estimated=False)
    # Chiplets of L1 rather than of L2, whose ports are wider.
    near = 11 if ports <= 11 else 12
    area, power = CHIPLETS[near]
    logic = Fraction(count, micro_switches(3, near))
    scaled = area * ((1 - LOGIC) * Fraction(ports, near) + LOGIC * logic)
    return Cost(middles, ports, count, scaled, power * logic, estimated=True)


@dataclass(frozen=True)
class Line:
    """A row of table 4: so many of a part, its area and power in total; None for what has no area."""

    name: str
    count: int
    area: Fraction | None
    power: Fraction


def fred_20_cost(middles: int = 3) -> list[Line]:
    """Return table 4 for the paper's fabric of 20 NPUs, or with another number of middle networks in every chiplet."""
    lines = []
    for name, ports, count in (("L1", 12, 15), ("L1", 11, 10), ("L2", 10, 10)):
        one = switch_cost(middles, ports)
        area, power = one.area, one.power
        if middles != 3:
            # From the same chiplet: its interfaces stay, its logic follows the micro-switches.
            base, watts = CHIPLETS[ports]
            logic = Fraction(one.micro_switches, micro_switches(3, ports))
            area, power = base * (1 - LOGIC + LOGIC * logic), watts * logic
        lines.append(Line(f"Fred{middles}({ports}) {name} switch", count, count * area, count * power))
    lines.append(Line("additional wiring", 1, None, WIRING_WATTS))
    return lines


def wafer_watts(fabric_watts: Fraction, npus: int = 20, controllers: int = 18) -> Fraction:
    """Return the power of the whole wafer: NPUs, I/O controllers, the baseline's wires, and the fabric's own."""
    return npus * NPU_WATTS + controllers * IO_WATTS + BASELINE_WIRE_WATTS + fabric_watts
