"""The tiers of a fabric with switches: which switches are drawn as one, how far they are from the NPUs, who sits where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabric_plan.planner.drawing.labels import printable
from fabric_plan.planner.fabric import Fabric

FOLD_ABOVE = 64
"""Switches that are alike become one box when they have more cables than this together."""


@dataclass(frozen=True, slots=True)
class Block:
    """The seats that hang below a box (None: below none), in order."""

    box: int | None
    seats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tiers:
    """A fabric with switches, ready to be drawn in rows.

    Parameters
    ----------
    boxes
        Switch node ids that are drawn as one.
    box_of
        The box of each node that is in one.
    levels
        Of each box: how many links it is from the nearest NPU.
    blocks
        Every seat once, below the box that its bandwidth goes to.
    hidden
        How many nodes are left out: I/O controllers that no route can cross, and switches that no NPU reaches.
    """

    boxes: tuple[tuple[int, ...], ...]
    box_of: Mapping[int, int]
    levels: tuple[int, ...]
    blocks: tuple[Block, ...]
    hidden: int

    def label(self, fabric: Fabric, box: int | None) -> str:
        """Return the name of a box: its switch, or the first and the last of several."""
        if box is None:
            return "no switch"
        names = [printable(fabric.nodes[node].name, 24) for node in self.boxes[box]]
        return names[0] if len(names) == 1 else f"{names[0]}…{names[-1]} ({len(names)} switches)"


def tiers(fabric: Fabric) -> Tiers:
    """Return the tiers of a fabric."""
    neighbours = _neighbours(fabric)
    distance = _distances(fabric, neighbours)
    shown = [
        node
        for node, kind in enumerate(one.kind for one in fabric.nodes)
        if kind != "npu" and node in distance and not (kind == "io" and len(neighbours[node]) < 2)
    ]
    boxes = _fold(fabric, shown)
    box_of = {node: box for box, members in enumerate(boxes) for node in members}
    return Tiers(
        boxes=boxes,
        box_of=box_of,
        levels=tuple(distance[members[0]] for members in boxes),
        blocks=_blocks(fabric, box_of),
        hidden=len(fabric.nodes) - len(fabric.seats) - len(shown),
    )


def _neighbours(fabric: Fabric) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in fabric.nodes]
    for link in fabric.links:
        found[link.source].add(link.target)
        found[link.target].add(link.source)
    return found


def _distances(fabric: Fabric, neighbours: Sequence[set[int]]) -> dict[int, int]:
    """Return how many links each node is from the nearest NPU."""
    distance = dict.fromkeys(fabric.seats, 0)
    frontier = list(fabric.seats)
    while frontier:
        reached = []
        for node in frontier:
            for other in sorted(neighbours[node]):
                if other not in distance:
                    distance[other] = distance[node] + 1
                    reached.append(other)
        frontier = reached
    return distance


def _fold(fabric: Fabric, shown: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return switches with the same cables to the same nodes together, where they have many; each other one alone."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for node in shown:
        cables = [
            (way, other, link.bandwidth, link.latency, link.multiplicity)
            for way, links in enumerate((fabric.outgoing[node], fabric.incoming[node]))
            for link in (fabric.links[index] for index in links)
            for other in ((link.target, link.source)[way],)
        ]
        alike.setdefault((fabric.nodes[node].kind, *sorted(cables)), []).append(node)
    found: list[tuple[int, ...]] = []
    for signature, members in alike.items():
        cables_together = (len(signature) - 1) * len(members) // 2
        found += [tuple(members)] if cables_together > FOLD_ABOVE else [(node,) for node in members]
    return tuple(sorted(found))


def _blocks(fabric: Fabric, box_of: Mapping[int, int]) -> tuple[Block, ...]:
    """Return the seats by the box that most of their bandwidth goes to, in the order of their first seats."""
    found: dict[int | None, list[int]] = {}
    for seat, node in enumerate(fabric.seats):
        bandwidth: dict[int, int] = {}
        for index in fabric.outgoing[node]:
            box = box_of.get(fabric.links[index].target)
            if box is not None:
                bandwidth[box] = bandwidth.get(box, 0) + fabric.links[index].bandwidth
        own = min(bandwidth, key=lambda box: (-bandwidth[box], box), default=None)
        found.setdefault(own, []).append(seat)
    return tuple(Block(box, tuple(seats)) for box, seats in found.items())
