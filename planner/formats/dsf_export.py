"""What operators of disaggregated scheduled fabrics can export: nodes, ports and reachability; and the tables that their tools print.

An export is JSON: ``nodes`` (name, switchId, type INTERFACE_NODE or FABRIC_NODE, clusterId, fabricLevel), ``ports`` by switch (name, operState,
activeState, isDrained, virtualDeviceId, expectedNeighborReachability with remoteSystem and remotePort), and, if it has one, ``reachability``
by switch. Interface nodes and fabric nodes of level 1 make a zone for each cluster; fabric nodes of level 2 are the spines.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from fabric_plan.planner.balance import BalancePlan
from fabric_plan.planner.dsf import Dsf, Zone
from fabric_plan.planner.errors import InvalidInput, InvalidProblem
from fabric_plan.planner.formats.checked import listed, mapping, member, whole
from fabric_plan.planner.simulator.balance_rows import device_name, rows

MAX_ROWS = 500_000
RATE = 50_000_000_000


@dataclass(frozen=True)
class Export:
    """A fabric as exported, with the links that are down, and those that are drained, by name."""

    fabric: Dsf
    failed: tuple[str, ...]
    drained: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Node:
    name: str
    interface: bool
    cluster: str
    level: int


@dataclass(frozen=True)
class _Port:
    switch: str
    name: str
    up: bool
    drained: bool
    device: int
    remote: str
    remote_port: str


def read_export(data: bytes, where: str) -> Export:
    """Read an export.

    Raises
    ------
    InvalidInput
        When it is none; one line with the place.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where}: not JSON: {error}") from None
    try:
        body = mapping(document, "the export")
        nodes = _nodes(body)
        ports = _ports(body, nodes)
        return _assemble(nodes, ports, body, where)
    except (InvalidInput, InvalidProblem) as error:
        raise InvalidInput(f"{where}: {error}") from None


def _natural(text: str) -> list[tuple[int, int | str]]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", text) if part]


def _nodes(body: dict[str, Any]) -> dict[str, _Node]:
    found: dict[str, _Node] = {}
    for k, one in enumerate(listed(member(body, "nodes", "the export"), "nodes")):
        where = f"nodes[{k}]"
        node = mapping(one, where)
        name, kind = member(node, "name", where), member(node, "type", where)
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,200}", name):
            raise InvalidInput(
                f"{where}.name: expected letters, digits, dots, dashes or underscores, found {str(name)[:40]!r}"
            )
        if kind not in ("INTERFACE_NODE", "FABRIC_NODE"):
            raise InvalidInput(f"{where}.type: expected INTERFACE_NODE or FABRIC_NODE, found {str(kind)[:40]!r}")
        if name in found:
            raise InvalidInput(f"{where}: two nodes are called {name}")
        level = whole(node.get("fabricLevel", 1) or 1, f"{where}.fabricLevel", 1, 2)
        cluster = re.sub(r"[^A-Za-z0-9_.-]", "-", str(node.get("clusterId", "")))[:100]
        if (kind == "INTERFACE_NODE" or level == 1) and not cluster:
            raise InvalidInput(f"{where}: {name} has no clusterId, which tells its zone")
        found[name] = _Node(name, kind == "INTERFACE_NODE", cluster, level)
    if not any(node.interface for node in found.values()):
        raise InvalidInput("nodes: none is an INTERFACE_NODE")
    return found


def _ports(body: dict[str, Any], nodes: dict[str, _Node]) -> list[_Port]:
    found = []
    for switch, table in mapping(member(body, "ports", "the export"), "ports").items():
        if switch not in nodes:
            raise InvalidInput(f"ports: {switch[:60]!r} is none of the nodes")
        for k, one in enumerate(listed(table, f"ports.{switch}")):
            where = f"ports.{switch}[{k}]"
            port = mapping(one, where)
            name = member(port, "name", where)
            peers = listed(port.get("expectedNeighborReachability", []), f"{where}.expectedNeighborReachability")
            if not peers:
                continue  # a host port, or one that is not in use
            peer = mapping(peers[0], f"{where}.expectedNeighborReachability[0]")
            remote = member(peer, "remoteSystem", f"{where}.expectedNeighborReachability[0]")
            if remote not in nodes:
                raise InvalidInput(f"{where}: remoteSystem {str(remote)[:60]!r} is none of the nodes")
            up = str(port.get("operState", "UP")).upper() in ("UP", "1", "TRUE")
            active = str(port.get("activeState", "ACTIVE")).upper() in ("ACTIVE", "1", "TRUE", "NONE")
            device = whole(port.get("virtualDeviceId") or 0, f"{where}.virtualDeviceId", 0, 1023)
            drained = port.get("isDrained", False)
            if not isinstance(drained, bool):
                raise InvalidInput(f"{where}.isDrained: expected true or false")
            remote_port = str(peer.get("remotePort", ""))
            found.append(_Port(switch, str(name), up and active, drained, device, remote, remote_port))
    return found


def _assemble(nodes: dict[str, _Node], ports: list[_Port], body: dict[str, Any], where: str) -> Export:
    clusters = sorted({n.cluster for n in nodes.values() if n.interface or n.level == 1}, key=_natural)
    spines = sorted((n.name for n in nodes.values() if not n.interface and n.level == 2), key=_natural)
    members: dict[str, tuple[list[str], list[str]]] = {}
    for cluster in clusters:
        inside = [n for n in nodes.values() if n.cluster == cluster and (n.interface or n.level == 1)]
        sides = [sorted((n.name for n in inside if n.interface == flag), key=_natural) for flag in (True, False)]
        if not sides[0] or not sides[1]:
            raise InvalidInput(f"cluster {cluster}: it needs interface nodes and fabric nodes of level 1")
        members[cluster] = sides[0], sides[1]
    devices = sorted({port.device for port in ports})
    # A link is told by the lower of its ends; what only the upper end tells is told by that.
    links: dict[tuple[str, str, int], dict[str, list[_Port]]] = defaultdict(lambda: defaultdict(list))
    for port in ports:
        mine, other = nodes[port.switch], nodes[port.remote]
        low = _rank(mine) < _rank(other)
        if abs(_rank(mine) - _rank(other)) != 1:
            raise InvalidInput(
                f"{port.switch} {port.name}: links go from interface nodes to fabric nodes to spines, not to {port.remote}"
            )
        if max(_rank(mine), _rank(other)) == 1 and mine.cluster != other.cluster:
            raise InvalidInput(f"{port.switch} {port.name}: {port.remote} is in another cluster")
        a, b = (port.switch, port.remote) if low else (port.remote, port.switch)
        key = port.name if low else port.remote_port or f"?{port.name}"
        links[a, b, port.device][key].append(port)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for (a, b, _), table in links.items():
        counts[a, b] = max(counts[a, b], len(table))
    zones = tuple(
        Zone(
            name=cluster,
            interfaces=len(low),
            fabrics=len(high),
            lower=tuple(tuple(counts[a, b] for b in high) for a in low),
            upper=tuple(tuple(counts[a, b] for b in spines) for a in high),
            names=(tuple(low), tuple(high)),
        )
        for cluster, (low, high) in members.items()
    )
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", str(body.get("name", "")))[:80] or re.split(r"[/\\]", where)[-1]
    fabric = Dsf(
        name=name, zones=zones, spines=len(spines), devices=max(1, len(devices)), spine_names=tuple(spines), rate=RATE
    )
    failed, drained, notes = _down(nodes, links, counts, devices)
    if "reachability" in body:
        notes.append("reachability: read, and not used: a plan begins from what is up")
    return Export(fabric, tuple(failed), tuple(drained), tuple(notes))


def _rank(node: _Node) -> int:
    return 0 if node.interface else node.level


def _down(
    nodes: dict[str, _Node],
    links: dict[tuple[str, str, int], dict[str, list[_Port]]],
    counts: dict[tuple[str, str], int],
    devices: list[int],
) -> tuple[list[str], list[str], list[str]]:
    failed, drained, notes, missing = [], [], list[str](), 0
    for (a, b), many in counts.items():
        zone = nodes[a].cluster
        for copy, device in enumerate(devices):
            table = links.get((a, b, device), {})
            for number, key in enumerate([*sorted(table, key=_natural), *[""] * (many - len(table))]):
                name = f"{zone}/{a}:{b}" + (f"#{number}" if number else "") + (f"@{copy}" if copy else "")
                ends = table.get(key, [])
                missing += not ends
                if not ends or not all(port.up for port in ends):
                    failed.append(name)
                elif any(port.drained for port in ends):
                    drained.append(name)
    if missing:
        notes.append(f"{missing} links that other virtual devices have are missing: taken to be down")
    return failed, drained, notes


def tables_of(plan: BalancePlan) -> dict[str, Any]:
    """Return a plan as the operator tools' tables, device by device.

    ``balanced`` is their verdict, an equality; ``inputWithinOutput`` is the rule that the fabric obeys. Ports are named by their links.

    Raises
    ------
    InvalidInput
        When there would be too many rows.
    """
    problem = plan.problem
    fabric = problem.fabric
    per_copy = sum(
        (fabric.spines + zone.fabrics) * (other.interfaces if other is not zone else 0)
        for zone in fabric.zones
        for other in fabric.zones
    )
    if per_copy * fabric.copies > MAX_ROWS:
        raise InvalidInput(
            f"--tables: {per_copy * fabric.copies:,} rows are too many for a table (at most {MAX_ROWS:,})"
        )
    devices: dict[str, dict[str, Any]] = {}
    for copy, profiles in enumerate(plan.copies):
        for row in rows(problem, profiles, copy):
            target = fabric.interface_name(row.home, row.destination)
            entry = devices.setdefault(device_name(problem, row), {"inputBalanceEntry": []})
            entry["inputBalanceEntry"].append(
                {
                    "destinationSwitchName": target,
                    "sourceSwitchName": [f"zone {fabric.zones[row.zone].name}"],
                    "virtualDeviceID": copy,
                    "balanced": row.operator_balanced,
                    "inputWithinOutput": row.feasible,
                    "inputCapacityBefore": row.before,
                    "inputCapacity": row.input,
                    "outputCapacity": row.output,
                    "inputLinkFailure": row.input_failed,
                    "outputLinkFailure": row.output_failed,
                }
            )
    return {
        "schema": "fabric-plan/dsf-tables/1",
        "fabric": fabric.name,
        "devices": devices,
        "reachabilityEntries": _reachability(plan),
        "linksDown": list(problem.failed),
    }


def _reachability(plan: BalancePlan) -> list[dict[str, Any]]:
    """Return, for every interface node, on how many links it reaches each destination of other zones."""
    from fabric_plan.planner.simulator.balance import propagated

    fabric = plan.problem.fabric
    found: dict[tuple[str, str], int] = defaultdict(int)
    for copy, profiles in enumerate(plan.copies):
        for pair in propagated(plan.problem, profiles, copy):
            target = fabric.interface_name(pair.home, pair.destination)
            for number, links in enumerate(pair.capacity.tolist()):
                found[fabric.interface_name(pair.zone, number), target] += links
    return [{"switchName": target, "from": source, "numPorts": links} for (source, target), links in found.items()]
