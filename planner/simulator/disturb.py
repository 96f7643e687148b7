"""What goes wrong: links that are slow or fail, ranks that come late, as people name them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from fabric_plan.planner.errors import InvalidInput, suggest
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.simulator.service import Outage
from fabric_plan.planner.units import parse_time


@dataclass(frozen=True)
class Disturbance:
    """Slow links (by link: the part of their bandwidth that is left), outages, and late nodes (seconds)."""

    slow: dict[int, Fraction] = field(default_factory=dict)
    outages: dict[int, Outage] = field(default_factory=dict)
    late: dict[int, Fraction] = field(default_factory=dict)

    @classmethod
    def parse(
        cls, fabric: Fabric, *, slow: Iterable[str] = (), fail: Iterable[str] = (), late: Iterable[str] = ()
    ) -> Disturbance:
        """Read ``LINK=0.5``, ``LINK[@FROM[-UNTIL]]`` and ``NODE=3ms``.

        A link is its number or ``source->target`` by the names of its nodes; a node its number or name.

        Raises
        ------
        InvalidInput
            Naming the one that cannot be read, or does not exist.
        """
        slowed = {}
        for text in slow:
            name, sign, part = text.rpartition("=")
            factor = _part(text, part) if sign else None
            if factor is None:
                raise InvalidInput(f"slow {text!r}: expected a link and what is left of it, as in gpu0->gpu1=0.5")
            slowed[find_link(fabric, name)] = factor
        outages: dict[int, Outage] = {}
        for text in fail:
            name, at, window = text.partition("@")
            start, dash, end = window.partition("-")
            if at and not start:
                raise InvalidInput(f"fail {text!r}: expected a link and a time, as in gpu0->gpu1@1ms or @1ms-2ms")
            outages[find_link(fabric, name)] = (
                parse_time(start) if at else Fraction(0),
                parse_time(end) if dash else None,
            )
        delayed = {}
        for text in late:
            name, sign, time = text.rpartition("=")
            if not sign:
                raise InvalidInput(f"late {text!r}: expected a node and a time, as in gpu5=3ms")
            delayed[find_node(fabric, name)] = parse_time(time)
        return cls(slowed, outages, delayed)

    def __bool__(self) -> bool:
        return bool(self.slow or self.outages or self.late)

    def slowed(self, fabric: Fabric) -> Fabric:
        """Return the fabric with its slow links."""
        if not self.slow:
            return fabric
        links = list(fabric.links)
        for link, part in self.slow.items():
            links[link] = replace(links[link], bandwidth=max(1, round(links[link].bandwidth * part)))
        return fabric.changed(links=links)


def _part(text: str, value: str) -> Fraction | None:
    try:
        part = Fraction(value)
    except (ValueError, ZeroDivisionError):
        return None
    if not 0 < part <= 1:
        raise InvalidInput(f"slow {text!r}: what is left must be greater than 0 and at most 1 (--fail stops a link)")
    return part


def find_node(fabric: Fabric, text: str) -> int:
    """Return the id of a node that is given by number, name, or place on a grid.

    Raises
    ------
    InvalidInput
        When there is none, with the nearest name.
    """
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        if int(text) < len(fabric.nodes):
            return int(text)
        raise InvalidInput(f"node {text} does not exist: {fabric.name} has nodes 0 to {len(fabric.nodes) - 1}")
    names: dict[str, int] = {}
    for index, node in enumerate(fabric.nodes):
        names.setdefault(node.name, index)
        if fabric.shape and index in fabric.seat_of:
            names.setdefault(f"({fabric.seat_name(fabric.seat_of[index])})", index)
    if text not in names:
        raise InvalidInput(f"node {text!r} does not exist in {fabric.name}{suggest(text, list(names))}")
    return names[text]


def find_link(fabric: Fabric, text: str) -> int:
    """Return the id of a link that is given by number or as ``source->target``.

    Raises
    ------
    InvalidInput
        When there is none.
    """
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        if int(text) < len(fabric.links):
            return int(text)
        raise InvalidInput(f"link {text} does not exist: {fabric.name} has links 0 to {len(fabric.links) - 1}")
    source, arrow, target = text.partition("->")
    if not arrow:
        raise InvalidInput(f"link {text!r}: expected its number, or source->target, as in gpu0->gpu1")
    ends = find_node(fabric, source), find_node(fabric, target)
    for index in fabric.outgoing[ends[0]]:
        if fabric.links[index].target == ends[1]:
            return index
    raise InvalidInput(f"link {text!r} does not exist in {fabric.name}")
