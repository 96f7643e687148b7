"""Plain graph files: ``{"name", "note", "nodes": [{"id", "kind"}], "links": [{"src", "dst", "cap", "bw_GBps", "lat_us"}]}``.

``bw_GBps`` (1e9 bytes/s) is the total over ``cap`` parallel links. A node's kind is gpu (or npu), switch or io. ``lat_us`` may be a fraction in a
string, "1/3". Optional: ``"routing"`` (a rule of :mod:`fabric_plan.planner.paths`; otherwise planes where all NPUs reach the same several switches, each
by a link of its own and no others, else shortest), ``"shape"``, ``"costs"``
(see :mod:`fabric_plan.planner.costs`), a node's ``"name"`` and a link's ``"class"``.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import msgspec

from fabric_plan.planner.costs import Costs, Protocol
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Fabric, Link, Node
from fabric_plan.planner.paths import RULES

MAX_BYTES = 256 * 2**20


class GraphNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A node as the file has it."""

    id: int
    kind: str
    name: str = ""


class GraphLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A directed link as the file has it."""

    src: int
    dst: int
    bw_GBps: float  # noqa: N815 (the file's own spelling)
    cap: float | str = msgspec.field(default_factory=lambda: 1)  # written even where it is the default
    lat_us: float | str = msgspec.field(default_factory=lambda: 0.0)
    kind: str = msgspec.field(name="class", default="")


class GraphClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What a protocol makes of a class of links."""

    bw_GBps: float | None = None  # noqa: N815
    lat_us: float | str | None = None


class GraphProtocol(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A protocol as the file has it."""

    name: str
    max_bytes: int | str | None = None
    fixed_us: float | str = 0
    classes: dict[str, GraphClass] = {}


class GraphCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Costs as the file has them; see :class:`fabric_plan.planner.costs.Costs`."""

    fixed_us: float | str = 0
    gamma_ps_per_byte: float | str = 0
    in_network: float | str | None = None
    switching: Literal["store-forward", "cut-through"] = "store-forward"
    protocols: list[GraphProtocol] = []


class GraphFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A whole file."""

    name: str
    nodes: list[GraphNode]
    links: list[GraphLink]
    note: str = ""
    routing: str = ""
    shape: list[int] = []
    costs: GraphCosts | None = None
    switch_rule: str = ""


def from_graph(graph: GraphFile) -> Fabric:
    """Return the fabric that a graph file describes.

    Raises
    ------
    InvalidInput
        Naming the node or link that is wrong.
    """
    where = f"fabric {graph.name}"
    if graph.routing and graph.routing not in RULES:
        raise InvalidInput(f"{where}: unknown routing {graph.routing!r}: expected one of {', '.join(RULES)}")
    position: dict[int, int] = {}
    nodes = []
    for index, node in enumerate(sorted(graph.nodes, key=lambda one: one.id)):
        if node.id in position:
            raise InvalidInput(f"{where}: node id {node.id} is given twice")
        position[node.id] = index
        kind = "npu" if node.kind.lower() in ("gpu", "npu") else node.kind.lower()
        nodes.append(Node(kind, node.name or f"{node.kind.lower()}{node.id}"))
    links = []
    for index, link in enumerate(graph.links):
        for end in (link.src, link.dst):
            if end not in position:
                raise InvalidInput(f"{where}: links[{index}] names node {end}, which is not among the nodes")
        bandwidth = _exact(f"{where}: links[{index}].bw_GBps", link.bw_GBps) * 10**9
        latency = _exact(f"{where}: links[{index}].lat_us", link.lat_us) / 10**6
        parallel = _exact(f"{where}: links[{index}].cap", link.cap)
        ends = position[link.src], position[link.dst]
        many = int(parallel) if parallel.denominator == 1 else parallel
        links.append(Link(*ends, round(bandwidth), latency, many, link.kind))
    _check_grid(where, graph, sum(node.kind == "npu" for node in nodes))
    costs = _costs(f"{where}: costs", graph.costs) if graph.costs is not None else None
    routing = graph.routing or ("planes" if _planes(nodes, links) else "shortest")
    fabric = Fabric(graph.name, nodes, links, routing, shape=graph.shape, note=graph.note, costs=costs)
    for protocol in fabric.costs.protocols:
        for name in (*protocol.bandwidth, *protocol.latency):
            if name not in fabric.link_classes:
                known = ", ".join(map(repr, fabric.link_classes))
                at = f"{where}: costs.protocols.{protocol.name}.classes"
                raise InvalidInput(f"{at}: there are no links of class {name!r}: expected {known}")
    return fabric


def _planes(nodes: list[Node], links: list[Link]) -> bool:
    """Whether every NPU has one link to and from each switch, there are several, and there is nothing else: then hardware stripes."""
    npus = {k for k, node in enumerate(nodes) if node.kind == "npu"}
    switches = {k for k, node in enumerate(nodes) if node.kind == "switch"}
    if len(switches) < 2 or len(npus) + len(switches) < len(nodes) or len(links) != 2 * len(npus) * len(switches):
        return False
    ends = {(link.source, link.target) for link in links}
    return all((npu, switch) in ends and (switch, npu) in ends for npu in npus for switch in switches)


def _costs(where: str, costs: GraphCosts) -> Costs:
    protocols = []
    for one in costs.protocols:
        at = f"{where}.protocols.{one.name}"
        widths = {name: value.bw_GBps for name, value in one.classes.items() if value.bw_GBps is not None}
        waits = {name: value.lat_us for name, value in one.classes.items() if value.lat_us is not None}
        protocols.append(
            Protocol(
                name=one.name,
                max_size=None if one.max_bytes is None else _exact(f"{at}.max_bytes", one.max_bytes),
                fixed=_exact(f"{at}.fixed_us", one.fixed_us) / 10**6,
                bandwidth={name: round(_exact(f"{at}.bw_GBps", value) * 10**9) for name, value in widths.items()},
                latency={name: _exact(f"{at}.lat_us", value) / 10**6 for name, value in waits.items()},
            )
        )
    return Costs(
        fixed=_exact(f"{where}.fixed_us", costs.fixed_us) / 10**6,
        gamma=_exact(f"{where}.gamma_ps_per_byte", costs.gamma_ps_per_byte) / 10**12,
        in_network=None if costs.in_network is None else _exact(f"{where}.in_network", costs.in_network),
        switching=costs.switching,
        protocols=tuple(protocols),
    )


def _exact(where: str, value: float | str) -> Fraction:
    """Return a number as the file means it: through the shortest decimal that a float prints as (12.5, 0.7)."""
    if isinstance(value, str):
        if not re.fullmatch(r"[0-9]{1,40}(/[1-9][0-9]{0,39})?", value, re.ASCII):
            raise InvalidInput(f'{where}: expected a number, or a fraction as in "1/3", got {value!r}')
        return Fraction(value)
    if not math.isfinite(value) or abs(value) > 1e15:
        raise InvalidInput(f"{where}: {value} is not a number that a link can have")
    return Fraction(repr(value))


def _check_grid(where: str, graph: GraphFile, npus: int) -> None:
    size = 1
    for side in graph.shape:
        size *= side
    if graph.shape and size != npus:
        raise InvalidInput(
            f"{where}: shape {'x'.join(map(str, graph.shape))} has {size} seats, but there are {npus} NPUs"
        )
    if graph.routing in ("xy", "dimension-order") and not graph.shape:
        raise InvalidInput(f'{where}: routing {graph.routing} needs a shape, as in "shape": [4, 5]')


def to_graph(fabric: Fabric) -> GraphFile:
    """Return a fabric in the form of a graph file."""
    return GraphFile(
        name=fabric.name,
        note=fabric.note,
        nodes=[
            GraphNode(id=i, kind="gpu" if n.kind == "npu" else n.kind, name=n.name) for i, n in enumerate(fabric.nodes)
        ],
        links=[
            GraphLink(
                src=link.source,
                dst=link.target,
                cap=_plain(Fraction(link.multiplicity)),
                bw_GBps=link.bandwidth / 1e9,
                lat_us=_plain(link.latency * 10**6),
                kind=link.kind,
            )
            for link in fabric.links
        ],
        routing=fabric.routing,
        shape=list(fabric.shape),
        costs=_to_costs(fabric.costs) if fabric.costs != Costs() else None,
    )


def _to_costs(costs: Costs) -> GraphCosts:
    return GraphCosts(
        fixed_us=_plain(costs.fixed * 10**6),
        gamma_ps_per_byte=_plain(costs.gamma * 10**12),
        in_network=None if costs.in_network is None else _plain(costs.in_network),
        switching=costs.switching,
        protocols=[
            GraphProtocol(
                name=one.name,
                max_bytes=None if one.max_size is None else _whole(one.max_size),
                fixed_us=_plain(one.fixed * 10**6),
                classes={
                    name: GraphClass(
                        bw_GBps=one.bandwidth[name] / 1e9 if name in one.bandwidth else None,
                        lat_us=_plain(one.latency[name] * 10**6) if name in one.latency else None,
                    )
                    for name in sorted({*one.bandwidth, *one.latency})
                },
            )
            for one in costs.protocols
        ],
    )


def _whole(value: Fraction) -> int | str:
    return int(value) if value.denominator == 1 else str(value)


def _plain(value: Fraction) -> float | str:
    """Return a float where that says the same, else the fraction itself."""
    if value.denominator == 1 and value < 2**53:
        return int(value)
    return float(value) if Fraction(repr(float(value))) == value else str(value)


def read_graph(path: Path) -> Fabric:
    """Read a plain graph file.

    Raises
    ------
    InvalidInput
        One line with the file, the place in it, and what was expected.
    """
    from fabric_plan.planner.files import read_bytes

    return parse_graph(read_bytes(path, MAX_BYTES), str(path))


def parse_graph(data: bytes, where: str) -> Fabric:
    """Read a plain graph from bytes; ``where`` names them in errors."""
    try:
        return from_graph(msgspec.json.decode(data, type=GraphFile))
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{where}: not a graph file: {error}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from None


def write_graph(fabric: Fabric) -> bytes:
    """Return a fabric as the bytes of a graph file, one node or link a line."""
    return _lines(msgspec.to_builtins(to_graph(fabric)))


def _lines(graph: dict[str, Any]) -> bytes:
    text = msgspec.json.format(msgspec.json.encode(graph), indent=1)
    return text + b"\n"
