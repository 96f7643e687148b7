"""Lower bounds on the time of a collective, for any algorithm on the fabric.

Each holds because bytes have to leave or reach some node, or some set of nodes, over the links that lead there, and the last of them
still has the latency of a path, or of a link, before or after it.
"""

from __future__ import annotations

import heapq
from fractions import Fraction

from fabric_plan.models.schedule.cuts import Cut, broadcast_cut, gather_cut
from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.metric import all_to_all_bound
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.fabric import Fabric

RANKS_TRIED = 16
"""Each rank gives a bound of its own; no more than so many, evenly spread, are looked at."""


def distances(fabric: Fabric, source: int, *, backwards: bool = False) -> list[Fraction | None]:
    """Return the least latency from a node to each other (or from each other to it), in seconds; None: no path."""
    unit, wait = fabric.latency_units
    best: dict[int, int] = {source: 0}
    queue = [(0, source)]
    while queue:
        far, node = heapq.heappop(queue)
        if far > best[node]:
            continue
        for index in fabric.incoming[node] if backwards else fabric.outgoing[node]:
            link = fabric.links[index]
            after, total = link.source if backwards else link.target, far + wait[index]
            if after not in best or total < best[after]:
                best[after] = total
                heapq.heappush(queue, (total, after))
    return [Fraction(best[node], unit) if node in best else None for node in range(len(fabric.nodes))]


def time_bound(group: Group) -> tuple[Fraction, str]:
    """Return a lower bound on the time of a collective in seconds, and in words where it comes from."""
    fabric = group.fabric.for_size(group.job.size)
    nodes = group.nodes.tolist()
    out = [sum(fabric.links[link].bandwidth for link in fabric.outgoing[node]) for node in nodes]
    into = [sum(fabric.links[link].bandwidth for link in fabric.incoming[node]) for node in nodes]
    size, ranks, pattern = group.job.size, group.size, group.job.pattern
    part = size * (ranks - 1) / ranks
    # What each rank must send and receive at least, and how far the last of it has to go.
    sends = {"all-reduce": size, "reduce": size, "reduce-scatter": part, "all-gather": size / ranks, "all-to-all": part}
    takes = {
        "all-reduce": size,
        "broadcast": size,
        "all-gather": part,
        "reduce-scatter": size / ranks,
        "all-to-all": part,
    }
    candidates: list[tuple[Fraction, str]] = []
    some = set(nodes[:: -(-ranks // RANKS_TRIED)])
    fixed = fabric.costs.fixed
    for rank, node in enumerate(nodes):
        if node not in some:
            continue
        ahead, behind = distances(fabric, node), distances(fabric, node, backwards=True)
        others = [other for other in nodes if other != node]
        reach = [one for one in (ahead[other] for other in others) if one is not None]
        comes = [one for one in (behind[other] for other in others) if one is not None]
        if len(reach) < len(others) or len(comes) < len(others):
            continue
        root = pattern in ("broadcast", "reduce")
        if out[rank] and (pattern in sends and not (root and rank == 0)):
            far = max(reach) if pattern in ("all-reduce", "all-gather") else min(reach)
            value = sends[pattern] / out[rank] + (ahead[nodes[0]] or 0 if root else far)
            candidates.append(
                (value, f"{sends[pattern]} bytes must leave {fabric.nodes[node].name} over its own links")
            )
        if into[rank] and pattern in takes and not (root and rank == 0):
            far = behind[nodes[0]] or Fraction(0) if root else min(comes)
            if pattern == "all-reduce":
                far = max(comes)
            candidates.append(
                (
                    takes[pattern] / into[rank] + far,
                    f"{takes[pattern]} bytes must reach {fabric.nodes[node].name} over its own links",
                )
            )
        if rank == 0 and pattern == "scatter" and out[0]:
            candidates.append((part / out[0] + min(reach), f"{part} bytes must leave the root"))
        if rank == 0 and pattern == "gather" and into[0]:
            candidates.append((part / into[0] + min(comes), f"{part} bytes must reach the root"))
        if rank == 0 and pattern == "broadcast" and out[0]:
            candidates.append((size / out[0] + max(reach), f"{size} bytes must leave the root"))
        if rank == 0 and pattern == "reduce" and into[0]:
            candidates.append((size / into[0] + max(comes), f"{size} bytes must reach the root"))
    # Switches that reduce, and NPUs beside the group that could, would do with fewer sends of the ranks.
    wired = {end for link in fabric.links for end in (link.source, link.target)}
    if pattern == "all-reduce" and fabric.costs.in_network is None and wired & set(fabric.seats) <= set(nodes):
        candidates += [_partition(fabric, size, parts) for parts in _partitions(fabric, nodes)]
    candidates += _cuts(group, fabric, nodes)
    value, reason = max(candidates, key=lambda one: one[0], default=(Fraction(0), "nothing"))
    return value + fixed, f"time: {reason}, with the latency that is left"


def _partitions(fabric: Fabric, nodes: list[int]) -> list[list[set[int]]]:
    """Return ways to part the ranks: each for itself, and what links of at least some bandwidth join."""
    found: list[list[set[int]]] = [[{node} for node in nodes]]
    ranks = set(nodes)
    for width in sorted({link.bandwidth for link in fabric.links})[1:]:
        near: list[list[int]] = [[] for _ in fabric.nodes]
        for link in fabric.links:
            if link.bandwidth >= width:
                near[link.source].append(link.target)
                near[link.target].append(link.source)
        seen: set[int] = set()
        parts = []
        for node in nodes:
            if node in seen:
                continue
            part, queue = {node}, [node]
            for at in queue:
                for other in near[at]:
                    if other not in part:
                        part.add(other)
                        queue.append(other)
            seen |= part
            parts.append(part)
        if 1 < len(parts) < len(ranks):
            found.append(parts)
    return found


def _partition(fabric: Fabric, size: Fraction, parts: list[set[int]]) -> tuple[Fraction, str]:
    """Return the bound of an all-reduce among k parts: each byte takes 2 (k - 1) messages that leave one (Harary and Schwenk 1974).

    One-way gossip among k needs as many calls, with whatever is added up on the way; here calls are what leaves a part, or what enters one.
    """
    part_of = {node: k for k, part in enumerate(parts) for node in part}
    across = [link for link in fabric.links if part_of.get(link.source, -1) != part_of.get(link.target, -2)]
    leaving = sum(link.bandwidth for link in across if link.source in part_of)
    entering = sum(link.bandwidth for link in across if link.target in part_of)
    least = min((link.latency for link in across), default=Fraction(0))
    what = "ranks" if len(part_of) == len(parts) else "boxes"
    if not leaving or not entering:
        return Fraction(0), "nothing"
    return (
        2 * (len(parts) - 1) * size / min(leaving, entering) + least,
        f"2 (p - 1) partial results of each byte must be sent among p = {len(parts)} {what}, as nobody but the ranks reduces",
    )


def _cuts(group: Group, fabric: Fabric, nodes: list[int]) -> list[tuple[Fraction, str]]:
    """Return bounds from the worst cuts: the bytes that must cross one, and the least latency of its links after the last of them."""
    size, ranks, pattern = group.job.size, group.size, group.job.pattern
    shard = size / ranks
    found: list[tuple[Fraction, str]] = []

    def add(cut: Cut, amount: Fraction, *, reverse: bool, what: str) -> None:
        crossing = [
            link.latency
            for link in fabric.links
            if (link.source in cut.side) != (link.target in cut.side) and (link.source in cut.side) != reverse
        ]
        found.append((cut.seconds * amount + min(crossing, default=Fraction(0)), what))

    try:
        if pattern in ("all-gather", "reduce-scatter"):
            reverse = pattern == "reduce-scatter"
            cut = gather_cut(fabric, nodes, reverse=reverse)
            add(cut, shard, reverse=reverse, what=cut.told(fabric, "must reach" if reverse else "must leave"))
        elif pattern == "all-to-all":
            seconds = all_to_all_bound(fabric, nodes)
            if seconds:
                found.append((seconds * shard, "all pairs' bytes take up so much bandwidth on any ways"))
        elif pattern in ("broadcast", "reduce", "all-reduce"):
            for reverse in {"broadcast": (False,), "reduce": (True,)}.get(pattern, (False, True)):
                cut = broadcast_cut(fabric, nodes, nodes[0], reverse=reverse)
                verb = "reach" if reverse else "leave"
                text = f"{size} bytes must {verb} a side of {len(cut.side)} nodes over {cut.bandwidth / 1e9:g} GB/s"
                add(cut, size, reverse=reverse, what=text)
    except InvalidProblem:
        return []
    return found
