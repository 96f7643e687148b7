"""Reachability in a disaggregated scheduled fabric, propagated hop by hop from failed links and withdrawals.

For one destination (an interface node d of zone Z) in one copy of the fabric: a fabric node of Z has as much output as it has live links to d
and advertises d to its spines if that is any; a spine's output is its live links to those fabric nodes, and it advertises d to
the fabric nodes of every other zone on its live links, less those that it withdraws; a fabric node's output is the links on which spines
advertise d to it, and it advertises d to its interface nodes likewise. A device with no output advertises nothing, which is no
withdrawal. In input-balanced mode no device may have more input than output, per destination and zone that sends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabric_plan.planner.dsf import Dsf, Live, count_links, keep_links

Grid = NDArray[np.int16]
Masks = NDArray[np.int32]


@dataclass(frozen=True)
class Pair:
    """How one zone reaches one destination in one copy.

    Parameters
    ----------
    zone, home, destination
        The zone that sends; the zone and number of the interface node that receives.
    output
        Of each spine towards the destination, shape (spines,).
    upper
        Links on which each spine advertises the destination to each fabric node of the zone, shape (fabric nodes, spines).
    lower
        Links on which each fabric node advertises it to each interface node, shape (interfaces, fabric nodes).
    upper_links, lower_links
        Which links those are, as masks.
    """

    zone: int
    home: int
    destination: int
    output: Grid
    upper: Grid
    lower: Grid
    upper_links: Masks
    lower_links: Masks

    @property
    def capacity(self) -> Grid:
        """First-hop links of each interface node towards the destination, shape (interfaces,)."""
        found: Grid = self.lower.sum(axis=1, dtype=np.int16)
        return found


def spine_output(live: Live, home: int, destination: int, *, intra: bool = False) -> Grid:
    """Return every spine's links towards a destination, shape (spines,).

    Parameters
    ----------
    intra
        Whether a fabric node of the destination's own zone also keeps the links of each neighbour to its direct links to the
        destination.
    """
    direct = live.lower[home][destination]
    links = live.upper[home]
    found: Grid
    if intra:
        found = np.minimum(links, direct[:, None]).sum(axis=0, dtype=np.int16)
    else:
        found = links[direct > 0].sum(axis=0, dtype=np.int16)
    return found


def advertised(
    live: Live,
    zone: int,
    home: int,
    destination: int,
    withdrawn_upper: Masks | int = 0,
    withdrawn_lower: Masks | int = 0,
    *,
    intra: bool = False,
) -> Pair:
    """Return how a zone reaches a destination, after withdrawals (masks of links, in the shapes of :class:`Pair`).

    Within the destination's own zone its fabric nodes advertise it directly; there is no spine between, and ``upper`` is all zero.
    """
    widest = live.dsf.widest
    output = spine_output(live, home, destination, intra=intra)
    if zone == home:
        direct = live.lower[home][destination]
        own = np.where(direct > 0, live.lower_links[zone] & ~np.asarray(withdrawn_lower), 0).astype(np.int32)
        if intra:
            own = keep_links(own, np.minimum(count_links(own, widest), direct[None, :]), widest)
        own[destination] = 0
        return chosen(live, zone, home, destination, output, np.zeros_like(live.upper_links[zone]), own)
    # Where a device has no way at all, there is nothing to withdraw.
    upper = np.where(output > 0, live.upper_links[zone] & ~np.asarray(withdrawn_upper), 0).astype(np.int32)
    lower = np.where((upper > 0).any(axis=1), live.lower_links[zone] & ~np.asarray(withdrawn_lower), 0).astype(np.int32)
    return chosen(live, zone, home, destination, output, upper, lower)


def chosen(
    live: Live, zone: int, home: int, destination: int, output: Grid, upper_links: Masks, lower_links: Masks
) -> Pair:
    """Return the pair in which exactly these links advertise the destination."""
    widest = live.dsf.widest
    return Pair(
        zone,
        home,
        destination,
        output,
        count_links(upper_links, widest),
        count_links(lower_links, widest),
        upper_links,
        lower_links,
    )


def oversubscribed(pair: Pair) -> list[tuple[str, int, int, int]]:
    """Return (spine or fabric, number, input, output) of each device that has more input than output."""
    if pair.zone == pair.home:
        return []
    found = []
    incoming, outgoing = pair.upper.sum(axis=0), pair.output
    found += [("spine", int(s), int(incoming[s]), int(outgoing[s])) for s in np.flatnonzero(incoming > outgoing)]
    incoming, outgoing = pair.lower.sum(axis=0), pair.upper.sum(axis=1)
    found += [("fabric", int(g), int(incoming[g]), int(outgoing[g])) for g in np.flatnonzero(incoming > outgoing)]
    return found


def remote_pairs(dsf: Dsf) -> Iterator[tuple[int, int, int]]:
    """Yield (zone that sends, zone that receives, interface node that receives) for all zones that differ."""
    for home, there in enumerate(dsf.zones):
        for destination in range(there.interfaces):
            for zone in range(len(dsf.zones)):
                if zone != home:
                    yield zone, home, destination


def cut_value(
    live: Live, zone: int, output: Grid, senders: Sequence[int], fabrics: Sequence[int], spines: Sequence[int]
) -> int:
    """Return the links that leave a side of a cut: what some interface nodes can send at most, whatever is withdrawn.

    The side holds the ``senders``, and the fabric nodes and spines that are given; a link that leads out of it counts, and so does a
    spine's output, which leads to the destination.
    """
    lower, upper = live.lower[zone], live.upper[zone]
    inside = np.zeros(lower.shape[1], dtype=bool)
    inside[list(fabrics)] = True
    top = np.zeros(upper.shape[1], dtype=bool)
    top[list(spines)] = True
    leaving = int(lower[list(senders)][:, ~inside].sum())
    leaving += int(upper[inside][:, ~top].sum())
    return leaving + int(output[top].sum())
