"""Flows of traffic over a disaggregated scheduled fabric: matrices, elephants, hot spots, and the collectives of a placed job.

A flow goes from a host port of one interface node to a host port of another (or of the same one). Ports of an interface node
are numbered from 0; unless told otherwise a node has as many as links into the fabric, so that it is neither over- nor
undersubscribed. Whatever is drawn at random comes from the seed alone.

Collectives run on hosts that are attached by rails: hosts share a group of ``rails`` interface nodes, of which number g serves
GPU g of each, host by host on the ports. So a ring among equal GPUs of neighbouring hosts often stays inside an interface node.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from fabric_plan.planner.dsf import Dsf
from fabric_plan.planner.errors import InvalidInput

Node = tuple[int, int]
"""An interface node: (zone, index in the zone)."""

Port = tuple[int, int, int]
"""A host port: (zone, interface node, port)."""

MAX_PORTS = 4096
MAX_FLOWS = 200_000
MAX_CLASS = 7


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes that one host port sends to another, in order.

    Parameters
    ----------
    source, destination
        Interface nodes: (zone, index).
    size_bytes
        At least 1.
    start_s
        When its first byte may be sent, seconds.
    service_class
        0 goes before 1, and so on, where classes are kept apart.
    source_port, destination_port
        Host ports of the interface nodes.
    """

    source: Node
    destination: Node
    size_bytes: int
    start_s: float = 0.0
    service_class: int = 0
    source_port: int = 0
    destination_port: int = 0

    def __post_init__(self) -> None:
        if self.size_bytes < 1:
            raise InvalidInput(f"flow {self.source}>{self.destination}: {self.size_bytes} bytes: expected at least 1")
        if not (math.isfinite(self.start_s) and self.start_s >= 0):
            raise InvalidInput(f"flow {self.source}>{self.destination}: start {self.start_s}: expected seconds from 0")
        if not 0 <= self.service_class <= MAX_CLASS:
            raise InvalidInput(
                f"flow {self.source}>{self.destination}: service class {self.service_class}: expected 0 to {MAX_CLASS}"
            )
        if not (0 <= self.source_port < MAX_PORTS and 0 <= self.destination_port < MAX_PORTS):
            raise InvalidInput(
                f"flow {self.source}>{self.destination}: ports {self.source_port} and {self.destination_port}: "
                f"expected 0 to {MAX_PORTS - 1}"
            )

    @classmethod
    def between(cls, source: Port, destination: Port, size_bytes: int, **rest: float | int) -> Flow:
        """Return a flow from port to port."""
        return cls(
            source[:2],
            destination[:2],
            size_bytes,
            start_s=float(rest.get("start_s", 0.0)),
            service_class=int(rest.get("service_class", 0)),
            source_port=source[2],
            destination_port=destination[2],
        )


def host_ports(dsf: Dsf, zone: int, ports: int | None = None) -> list[Port]:
    """Return the host ports of a zone, node by node: ``ports`` a node, or as many as it has links into the fabric.

    Raises
    ------
    InvalidInput
        When there is no such zone, or ``ports`` is not positive.
    """
    if not 0 <= zone < len(dsf.zones):
        raise InvalidInput(f"zone {zone}: {dsf.name} has {len(dsf.zones)} zone(s), numbered from 0")
    if ports is not None and not 1 <= ports <= MAX_PORTS:
        raise InvalidInput(f"{ports} host ports a node: expected 1 to {MAX_PORTS}")
    links = dsf.built[0][zone].sum(axis=1).tolist()
    return [(zone, node, port) for node, many in enumerate(links) for port in range(many if ports is None else ports)]


def uniform(dsf: Dsf, size_bytes: int, *, inside: bool = False, both_ways: bool = True) -> list[Flow]:
    """Return a flow of ``size_bytes`` from every interface node to every one of the other zones.

    Parameters
    ----------
    inside
        Also between the nodes of a zone.
    both_ways
        Otherwise only from each zone to those after it.

    The flows of a node take its ports in turn, so that ports are loaded evenly.
    """
    _count(sum(zone.interfaces for zone in dsf.zones) ** 2)
    sends: dict[Node, int] = {}
    gets: dict[Node, int] = {}
    links = [dsf.built[0][zone].sum(axis=1).tolist() for zone in range(len(dsf.zones))]
    flows = []
    for zone, one in enumerate(dsf.zones):
        for index in range(one.interfaces):
            for other, two in enumerate(dsf.zones):
                if (other == zone and not inside) or (other < zone and not both_ways):
                    continue
                for target in range(two.interfaces):
                    source, destination = (zone, index), (other, target)
                    if source == destination:
                        continue
                    out, into = sends.get(source, 0), gets.get(destination, 0)
                    sends[source], gets[destination] = out + 1, into + 1
                    flows.append(
                        Flow(
                            source,
                            destination,
                            size_bytes,
                            source_port=out % max(1, links[zone][index]),
                            destination_port=into % max(1, links[other][target]),
                        )
                    )
    return flows


def permutation(dsf: Dsf, size_bytes: int, *, seed: int = 0, ports: int | None = None) -> list[Flow]:
    """Return one flow out of every host port and one into every host port, drawn over the whole fabric.

    No port sends to its own interface node, unless the fabric has but one.
    """
    every = [port for zone in range(len(dsf.zones)) for port in host_ports(dsf, zone, ports)]
    _count(len(every))
    targets = list(every)
    rng = random.Random(seed)
    rng.shuffle(targets)
    many = len(every)
    for k in range(many):
        for step in range(1, many):
            if targets[k][:2] != every[k][:2]:
                break
            other = (k + step) % many
            if targets[other][:2] != every[k][:2] and targets[k][:2] != every[other][:2]:
                targets[k], targets[other] = targets[other], targets[k]
    return [Flow.between(a, b, size_bytes) for a, b in zip(every, targets, strict=True)]


def elephants(
    dsf: Dsf,
    size_bytes: int,
    *,
    seed: int = 0,
    ports: int | None = None,
    both_ways: bool = True,
    aligned: bool = False,
) -> list[Flow]:
    """Return long flows at line rate from zone to zone: every port of a zone sends one to a port of the next zone.

    Where two zones have equally many ports every port also receives one; the pairs are drawn. A fabric of one zone gets a
    permutation. Few and fat, they are what hashing spreads worst.

    Parameters
    ----------
    both_ways
        Otherwise the last zone sends nothing.
    aligned
        Draw nodes, and join their ports by number, as collectives between equal parts of a job do; otherwise draw ports.
    """
    zones = len(dsf.zones)
    if zones == 1:
        return permutation(dsf, size_bytes, seed=seed, ports=ports)
    rng = random.Random(seed)
    flows = []
    for zone in range(zones if both_ways else zones - 1):
        sources, targets = host_ports(dsf, zone, ports), host_ports(dsf, (zone + 1) % zones, ports)
        _count(len(sources))
        if aligned:
            nodes = list(dict.fromkeys(port[:2] for port in targets))
            rng.shuffle(nodes)
            place = {node: k for k, node in enumerate(nodes)}
            targets.sort(key=lambda port: (place[port[:2]], port[2]))
        else:
            rng.shuffle(targets)
        flows += [Flow.between(one, targets[k % len(targets)], size_bytes) for k, one in enumerate(sources)]
    return flows


def incast(
    dsf: Dsf, destination: Port, size_bytes: int, *, senders: int | None = None, seed: int = 0, service_class: int = 0
) -> list[Flow]:
    """Return a flow from each of ``senders`` interface nodes (drawn; all others unless given) to one host port."""
    nodes = [
        (zone, index)
        for zone, one in enumerate(dsf.zones)
        for index in range(one.interfaces)
        if (zone, index) != destination[:2]
    ]
    if senders is not None:
        if not 1 <= senders <= len(nodes):
            raise InvalidInput(f"{senders} senders: {dsf.name} has {len(nodes)} other interface nodes")
        nodes = sorted(random.Random(seed).sample(nodes, senders))
    return [Flow.between((*node, 0), destination, size_bytes, service_class=service_class) for node in nodes]


def hot_spot(
    dsf: Dsf, size_bytes: int, *, share: float = 0.5, seed: int = 0, flows_per_port: int = 1, ports: int | None = None
) -> list[Flow]:
    """Return flows to drawn ports, of which a ``share`` goes to one drawn interface node.

    Raises
    ------
    InvalidInput
        When the share is not from 0 to 1, or the fabric has no second interface node.
    """
    if not 0 <= share <= 1:
        raise InvalidInput(f"share {share}: expected 0 to 1")
    every = [port for zone in range(len(dsf.zones)) for port in host_ports(dsf, zone, ports)]
    _count(len(every) * flows_per_port)
    if len({port[:2] for port in every}) < 2:
        raise InvalidInput(f"{dsf.name}: a hot spot needs at least two interface nodes with ports")
    rng = random.Random(seed)
    spot = every[rng.randrange(len(every))][:2]
    hot = [port for port in every if port[:2] == spot]
    flows = []
    for source in every:
        for _ in range(flows_per_port):
            pool = hot if source[:2] != spot and rng.random() < share else every
            target = pool[rng.randrange(len(pool))]
            while target[:2] == source[:2]:
                target = every[rng.randrange(len(every))]
            flows.append(Flow.between(source, target, size_bytes))
    return flows


def rail_ports(dsf: Dsf, rails: int, *, ports: int | None = None) -> list[tuple[Port, ...]]:
    """Return by host the ports of its GPUs, on a fabric whose hosts have ``rails`` GPUs attached by rails.

    Interface nodes left over in a zone, and ports beyond the least of a group, stay empty.

    Raises
    ------
    InvalidInput
        When no zone has that many interface nodes.
    """
    if rails < 1:
        raise InvalidInput(f"{rails} rails: expected at least 1")
    hosts: list[tuple[Port, ...]] = []
    for zone, one in enumerate(dsf.zones):
        by_node = [[port for port in host_ports(dsf, zone, ports) if port[1] == k] for k in range(one.interfaces)]
        for first in range(0, one.interfaces - rails + 1, rails):
            group = by_node[first : first + rails]
            hosts += [tuple(node[k] for node in group) for k in range(min(len(node) for node in group))]
    if not hosts:
        raise InvalidInput(
            f"{rails} rails need {rails} interface nodes in a zone; {dsf.name} has at most "
            f"{max(zone.interfaces for zone in dsf.zones)}: use fewer rails"
        )
    return hosts


def ring(
    dsf: Dsf, hosts: Sequence[int], size_bytes: int, *, rails: int, ports: int | None = None, service_class: int = 0
) -> list[Flow]:
    """Return the flows of an all-reduce by rings: one ring a rail, over the job's hosts in the order given.

    Each GPU sends its next one 2 (n - 1) / n of what its rail reduces, as one long flow; ``size_bytes`` is what a rail reduces.
    Inside a host nothing of it touches the fabric.
    """
    places = _places(dsf, hosts, rails, ports)
    many = len(places)
    each = max(1, -(-2 * (many - 1) * size_bytes // many))
    return [
        Flow.between(places[k][rail], places[(k + 1) % many][rail], each, service_class=service_class)
        for rail in range(rails)
        for k in range(many)
        if many > 1
    ]


def all_to_all(
    dsf: Dsf,
    hosts: Sequence[int],
    size_bytes: int,
    *,
    rails: int,
    ports: int | None = None,
    along_rails: bool = True,
    service_class: int = 0,
) -> list[Flow]:
    """Return the flows of an all-to-all: every GPU has ``size_bytes`` for every GPU of every other host of the job.

    Parameters
    ----------
    along_rails
        What is for rail g of another host first goes to GPU g inside the sending host, and then along that rail; otherwise it
        crosses the fabric from rail to rail.
    """
    places = _places(dsf, hosts, rails, ports)
    _count(len(places) ** 2 * rails * (1 if along_rails else rails))
    flows = []
    for a, one in enumerate(places):
        for step in range(1, len(places)):
            other = places[(a + step) % len(places)]
            for rail in range(rails):
                if along_rails:
                    size = size_bytes * rails
                    flows.append(Flow.between(one[rail], other[rail], size, service_class=service_class))
                else:
                    flows += [
                        Flow.between(one[rail], other[to], size_bytes, service_class=service_class)
                        for to in range(rails)
                    ]
    return flows


def _places(dsf: Dsf, hosts: Sequence[int], rails: int, ports: int | None) -> list[tuple[Port, ...]]:
    every = rail_ports(dsf, rails, ports=ports)
    if not hosts or len(set(hosts)) != len(hosts):
        raise InvalidInput("job: expected at least one host, each once")
    for host in hosts:
        if not 0 <= host < len(every):
            raise InvalidInput(
                f"host {host}: {dsf.name} has {len(every)} hosts of {rails} GPUs attached by rails, from 0"
            )
    return [every[host] for host in hosts]


def _count(flows: int) -> None:
    if flows > MAX_FLOWS:
        raise InvalidInput(f"{flows:,} flows; at most {MAX_FLOWS:,}: use a smaller fabric or fewer flows")
