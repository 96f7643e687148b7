"""A fabric: nodes, directed links, a routing rule, and the symmetries that keep its routes.

Seats are the NPU nodes in the order of their ids: seat ``i`` is where a worker can sit. Bandwidths are whole bytes/s and
latencies exact seconds, so that loads and times are computed without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import msgspec

from fabric_plan.planner.costs import Costs, Protocol
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.units import format_bandwidth, format_time

KINDS = ("npu", "switch", "io")

Path = tuple[int, ...]
"""Ids of the links of a path, in order."""

Route = tuple[Path, ...]
"""What carries the traffic of one pair of seats: paths with an equal share each (one path, but on striped planes)."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node: ``kind`` is npu, switch or io (an I/O controller)."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Link:
    """A directed link between two node ids.

    ``bandwidth`` is in bytes/s, over all ``multiplicity`` parallel links together (a fraction is a link slower than the
    fabric's usual one); ``latency`` is in seconds. ``kind`` names the class of links that it belongs to (nvlink, nic).
    """

    source: int
    target: int
    bandwidth: int
    latency: Fraction
    multiplicity: int | Fraction = 1
    kind: str = ""


class Fabric:
    """A directed multigraph with its routes. Treat it as immutable.

    Parameters
    ----------
    name
        A catalog name (``mesh:4x5``) or whatever the file says.
    nodes, links
        Node ids and link ids are positions in these tuples.
    routing
        The name of the rule (see :mod:`fabric_plan.planner.paths`).
    shape
        Sizes per axis when the seats form a grid, row-major; empty otherwise.
    in_catalog
        True when ``name`` alone rebuilds this fabric.
    symmetries
        Generators of a group of node permutations that map links to equal links and routes to routes.
    note
        A remark for the reader (source, assumption).
    costs
        What collectives cost beyond the links.
    switch
        The FRED switch that the NPUs are the ports of, in order of seats (``fred3:20``, or ``fred-20``): every phase of a placement
        must route through it. Empty elsewhere.
    """

    def __init__(
        self,
        name: str,
        nodes: Sequence[Node],
        links: Sequence[Link],
        routing: str = "shortest",
        *,
        shape: Sequence[int] = (),
        in_catalog: bool = False,
        symmetries: Sequence[Sequence[int]] = (),
        note: str = "",
        costs: Costs | None = None,
        switch: str = "",
    ) -> None:
        self.name = name
        self.nodes = tuple(nodes)
        self.links = tuple(links)
        self.routing = routing
        self.shape = tuple(shape)
        self.in_catalog = in_catalog
        self.symmetries = tuple(map(tuple, symmetries))
        self.note = note
        self.costs = costs or Costs()
        self.switch = switch
        self._check()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fabric):
            return NotImplemented
        mine = (self.name, self.routing, self.shape, self.nodes, self.links, self.costs)
        return mine == (other.name, other.routing, other.shape, other.nodes, other.links, other.costs)

    def __hash__(self) -> int:
        return hash((self.name, self.routing, len(self.nodes), len(self.links)))

    def __repr__(self) -> str:
        return f"Fabric({self.name!r}, {len(self.nodes)} nodes, {len(self.links)} links, {self.routing})"

    def _check(self) -> None:
        count = len(self.nodes)
        for index, node in enumerate(self.nodes):
            if node.kind not in KINDS:
                raise InvalidInput(
                    f"fabric {self.name}: node {index}: unknown kind {node.kind!r}: expected {', '.join(KINDS)}"
                )
        for index, link in enumerate(self.links):
            where = f"fabric {self.name}: link {index} ({link.source}->{link.target})"
            if not (0 <= link.source < count and 0 <= link.target < count):
                raise InvalidInput(f"{where}: there is no such node: ids go from 0 to {count - 1}")
            if link.source == link.target:
                raise InvalidInput(f"{where}: a link must join two different nodes")
            if link.bandwidth <= 0:
                raise InvalidInput(f"{where}: the bandwidth must be greater than zero")
            if link.latency < 0:
                raise InvalidInput(f"{where}: the latency must not be negative")
            if link.multiplicity <= 0:
                raise InvalidInput(f"{where}: the number of parallel links must be greater than zero")
        if not self.seats:
            raise InvalidInput(f"fabric {self.name}: it has no NPU, so nothing can be placed on it")

    @cached_property
    def seats(self) -> tuple[int, ...]:
        """Node ids of the NPUs; a seat is a position in this tuple."""
        return tuple(index for index, node in enumerate(self.nodes) if node.kind == "npu")

    @cached_property
    def outgoing(self) -> tuple[tuple[int, ...], ...]:
        """Link ids that leave each node."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for index, link in enumerate(self.links):
            found[link.source].append(index)
        return tuple(map(tuple, found))

    @cached_property
    def incoming(self) -> tuple[tuple[int, ...], ...]:
        """Link ids that enter each node."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for index, link in enumerate(self.links):
            found[link.target].append(index)
        return tuple(map(tuple, found))

    def route(self, source: int, target: int) -> Route:
        """Return the route between two different seats.

        Raises
        ------
        InvalidInput
            When the rule finds no path.
        """
        return self._router(source, target)

    @cached_property
    def _router(self) -> Callable[[int, int], Route]:
        from fabric_plan.planner.paths import router

        return router(self)

    def distance(self, source: int, target: int) -> int:
        """Return the number of links between two seats (zero from a seat to itself)."""
        return 0 if source == target else len(self.route(source, target)[0])

    @cached_property
    def plane_sets(self) -> frozenset[frozenset[int]]:
        """The different sets of nodes that an NPU's links lead to or come from: one, where planes are complete."""
        up = {frozenset(self.links[link].target for link in self.outgoing[node]) for node in self.seats}
        down = {frozenset(self.links[link].source for link in self.incoming[node]) for node in self.seats}
        return frozenset(up | down)

    @cached_property
    def link_classes(self) -> dict[str, tuple[int, ...]]:
        """Links that are alike, by the name of their class: their kind, or bandwidth and latency; the widest first."""
        found: dict[str, list[int]] = {}
        for index in sorted(range(len(self.links)), key=lambda one: (-self.links[one].bandwidth, one)):
            link = self.links[index]
            found.setdefault(link.kind or f"{format_bandwidth(link.bandwidth)} {format_time(link.latency)}", []).append(
                index
            )
        return {name: tuple(sorted(members)) for name, members in found.items()}

    @cached_property
    def latency_units(self) -> tuple[int, tuple[int, ...]]:
        """Ticks in a second, and the latency of each link in ticks."""
        values = {id(link.latency): link.latency for link in self.links}
        unit = math.lcm(*(latency.denominator for latency in values.values()))
        ticks = {key: int(latency * unit) for key, latency in values.items()}
        return unit, tuple(ticks[id(link.latency)] for link in self.links)

    def for_size(self, size: Fraction | int) -> Fabric:
        """Return the fabric as a collective of so many bytes sees it: with the protocol that applies, if there is one."""
        protocol = self.costs.protocol(size)
        return self if protocol is None else self._under(protocol)

    def _under(self, protocol: Protocol) -> Fabric:
        if protocol.name not in self._variants:
            links = list(self.links)
            for name, members in self.link_classes.items():
                for index in members:
                    links[index] = replace(
                        links[index],
                        bandwidth=protocol.bandwidth.get(name, links[index].bandwidth),
                        latency=protocol.latency.get(name, links[index].latency),
                    )
            costs = msgspec.structs.replace(self.costs, fixed=protocol.fixed, protocols=())
            self._variants[protocol.name] = self.changed(links=links, costs=costs)
        return self._variants[protocol.name]

    @cached_property
    def _variants(self) -> dict[str, Fabric]:
        return {}

    def changed(self, *, links: Sequence[Link] | None = None, costs: Costs | None = None, name: str = "") -> Fabric:
        """Return the same nodes and routing with other links (in the same places) or costs; no longer from the catalog.

        Other links take the symmetries away: a rule that prefers wide paths may choose others, and bounds rest on them.
        """
        return Fabric(
            name or self.name,
            self.nodes,
            self.links if links is None else links,
            self.routing,
            shape=self.shape,
            symmetries=self.symmetries if links is None else (),
            note=self.note,
            costs=self.costs if costs is None else costs,
        )

    def diameter(self) -> int | None:
        """Return the most links between two seats; None when some pair has no path."""
        count = len(self.seats)
        try:
            return max((self.distance(a, b) for a in range(count) for b in range(count)), default=0)
        except InvalidInput:
            return None

    @cached_property
    def seat_symmetries(self) -> tuple[tuple[int, ...], ...]:
        """The generators of :attr:`symmetries`, as permutations of seats."""
        return tuple(tuple(self.seat_of[image[node]] for node in self.seats) for image in self.symmetries)

    @cached_property
    def seat_orbits(self) -> tuple[int, ...]:
        """For each seat, the smallest seat that a symmetry maps it to; seats with the same number are alike."""
        return orbits(len(self.seats), self.seat_symmetries)

    def seat_name(self, seat: int) -> str:
        """Return how a reader would call a seat: row,column on a grid, else its node's name."""
        if self.shape:
            return ",".join(map(str, coordinates(seat, self.shape)))
        return self.nodes[self.seats[seat]].name

    def link_name(self, link: int) -> str:
        """Return a link as source->target, by seat or node names."""
        ends = self.links[link]
        return f"{self._node_name(ends.source)}->{self._node_name(ends.target)}"

    def _node_name(self, node: int) -> str:
        if self.shape and self.nodes[node].kind == "npu":
            return f"({self.seat_name(self.seat_of[node])})"
        return self.nodes[node].name

    @cached_property
    def seat_of(self) -> dict[int, int]:
        """The seat of each NPU node (the inverse of :attr:`seats`)."""
        return {node: seat for seat, node in enumerate(self.seats)}


def orbits(count: int, generators: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the smallest member of each element's orbit under the group that permutations of range(count) generate."""
    parent = list(range(count))

    def root(element: int) -> int:
        while parent[element] != element:
            parent[element] = parent[parent[element]]
            element = parent[element]
        return element

    for generator in generators:
        for element, image in enumerate(generator):
            low, high = sorted((root(element), root(image)))
            parent[high] = low
    return tuple(root(element) for element in range(count))


def coordinates(seat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the position of a row-major seat number on a grid, slowest axis first (row, column on a mesh)."""
    found = []
    for size in reversed(shape):
        seat, position = divmod(seat, size)
        found.append(position)
    return tuple(reversed(found))


def seat_at(position: Sequence[int], shape: Sequence[int]) -> int:
    """Return the row-major seat number of a position (the inverse of :func:`coordinates`)."""
    seat = 0
    for place, size in zip(position, shape, strict=True):
        seat = seat * size + place
    return seat
