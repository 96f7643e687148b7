"""Fluid load: every device sprays what it has for a destination evenly over the links on which that is advertised.

Traffic is uniform between zones at line rate over live links: an interface node sends as many units as it has live links, shared over all
interface nodes of other zones in proportion to their live links, all scaled down so that no zone receives more than it can. Loads are in units of a link's rate;
links that join the same two devices share evenly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fabric_plan.planner.dsf import Dsf, Live
from fabric_plan.planner.simulator.reach import Pair

Loads = Any
"""An array of doubles, or of exact fractions as objects."""

EXACT_LINKS = 1_000
"""Up to so many links of a copy loads are exact fractions; beyond, doubles."""


def is_exact(dsf: Dsf) -> bool:
    """Return whether loads of a fabric are exact fractions."""
    return dsf.links // dsf.copies <= EXACT_LINKS


@dataclass
class FluidLoad:
    """Loads of all links of one copy, by zone: up and down the lower links, up and down the upper links.

    Shapes are (interfaces, fabric nodes, parallel links) and (fabric nodes, spines, parallel links).

    ``dropped`` is what found no advertised link: traffic of pairs that are cut off, in units of a link's rate.
    """

    lower_up: list[Loads]
    lower_down: list[Loads]
    upper_up: list[Loads]
    upper_down: list[Loads]
    dropped: Any

    def largest(self, live: Live) -> tuple[Any, str]:
        """Return (the largest load of a link, its name and direction)."""
        best: tuple[Any, str] = (0, "")
        dsf = live.dsf
        for zone, there in enumerate(dsf.zones):
            parts = (
                (self.lower_up[zone], there.interface_names, there.fabric_names),
                (self.lower_down[zone], there.interface_names, there.fabric_names),
                (self.upper_up[zone], there.fabric_names, dsf.spine_list),
                (self.upper_down[zone], there.fabric_names, dsf.spine_list),
            )
            for k, (loads, rows, columns) in enumerate(parts):
                if not loads.size:
                    continue
                place = np.unravel_index(int(np.argmax(loads)), loads.shape)
                if loads[place] > best[0]:
                    a, b = rows[place[0]], columns[place[1]]
                    ends = f"{a} to {b}" if k % 2 == 0 else f"{b} to {a}"
                    best = loads[place], f"{there.name}/{ends}" + (f"#{place[2]}" if place[2] else "")
        return best


Demand = Callable[[int, int, int], Loads]
"""What each interface node of a zone sends to a destination: (zone, home, number) to shape (interfaces,)."""


def demands(live: Live) -> Demand:
    """Return uniform traffic between zones (see the module's text)."""
    exact = is_exact(live.dsf)
    rates = [one.sum(axis=1).astype(np.int64) for one in live.lower]
    whole = sum(int(one.sum()) for one in rates)
    most = max(1, max(whole - int(one.sum()) for one in rates))

    def demand(zone: int, home: int, number: int) -> Loads:
        sent = rates[zone] * int(rates[home][number])
        return sent * Fraction(1, most) if exact else sent / most

    return demand


def fluid(live: Live, pairs: Iterator[Pair], demand: Demand | None = None) -> FluidLoad:
    """Return the loads that some pairs' traffic puts on the links of a copy."""
    demand = demand or demands(live)
    found = nothing(live, exact=is_exact(live.dsf))
    for pair in pairs:
        add(found, live, pair, demand(pair.zone, pair.home, pair.destination))
    return found


def nothing(live: Live, *, exact: bool) -> FluidLoad:
    """Return loads of zero, as fractions or as doubles."""
    kind: Any = object if exact else float
    zero = Fraction(0) if exact else 0.0

    def grids(shapes: list[Any]) -> list[Loads]:
        return [np.full((*one.shape, live.dsf.widest), zero, dtype=kind) for one in shapes]

    return FluidLoad(grids(live.lower), grids(live.lower), grids(live.upper), grids(live.upper), zero)


def add(found: FluidLoad, live: Live, pair: Pair, sent: Loads) -> None:
    """Add one pair's traffic: up over fabric nodes and spines, and down to the destination."""
    capacity = pair.capacity
    there = capacity > 0
    found.dropped += sent[~there].sum() if not there.all() else 0
    # What each link of a sender carries; what each link of a fabric node does; of a spine; of the destination's fabric nodes.
    each = np.where(there, sent, 0 * sent) / np.maximum(capacity, 1)
    _put(found.lower_up[pair.zone], pair.lower_links, each[:, None])
    at_fabric = (pair.lower * each[:, None]).sum(axis=0)
    direct, numbers = live.lower[pair.home][pair.destination], live.lower_links[pair.home][pair.destination]
    if pair.zone != pair.home:
        each = at_fabric / np.maximum(pair.upper.sum(axis=1), 1)
        _put(found.upper_up[pair.zone], pair.upper_links, each[:, None])
        each = (pair.upper * each[:, None]).sum(axis=0) / np.maximum(pair.output, 1)
        links = np.where(direct[:, None] > 0, live.upper_links[pair.home], 0)
        _put(found.upper_down[pair.home], links, each[None, :])
        at_fabric = (np.where(direct[:, None] > 0, live.upper[pair.home], 0) * each[None, :]).sum(axis=1)
    _put(found.lower_down[pair.home][pair.destination], numbers, at_fabric / np.maximum(direct, 1))


def _put(loads: Loads, links: Any, each: Loads) -> None:
    """Add a load to every link of a mask."""
    for number in range(loads.shape[-1]):
        loads[..., number] += ((links >> number) & 1) * each
