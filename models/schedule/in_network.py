"""Reduction and multicast in the switches.

Each chunk climbs a tree of switches, is added up where streams meet, and comes down from the tree's root as one stream
that is copied where it parts. Planes are trees of their own, and take the chunks in turn.
"""

from __future__ import annotations

import numpy as np

from fabric_plan.models.schedule.group import Group
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.schedule import Columns, IntColumn, check_memory

Shards = list[int]

MOST_EACH = 128
MOST_TRANSFERS = 400_000

Tree = tuple[list[int], dict[int, tuple[int, int, int]]]
"""Nodes from the root outwards; by node: the node above, the link down to it from there, and the link up."""


def switch_trees(group: Group) -> list[Tree]:
    """Return a tree for each switch that is nearest to all ranks.

    Raises
    ------
    InvalidProblem
        When the fabric's switches do not reduce, or none reaches every rank.
    """
    fabric = group.fabric
    if fabric.costs.in_network is None:
        raise InvalidProblem(f"in-network: nothing says that the switches of {fabric.name} reduce")
    found: dict[int, list[Tree]] = {}
    ranks = {int(node) for node in group.nodes}
    for root, node in enumerate(fabric.nodes):
        if node.kind != "switch":
            continue
        order, above, depth = [root], {}, {root: 0}
        for at in order:
            if at in ranks:
                continue
            for link in fabric.outgoing[at]:
                after = fabric.links[link].target
                back = [one for one in fabric.outgoing[after] if fabric.links[one].target == at]
                if after not in depth and back and (after in ranks or fabric.nodes[after].kind == "switch"):
                    depth[after] = depth[at] + 1
                    above[after] = (at, link, back[0])
                    order.append(after)
        if ranks <= depth.keys():
            kept = set(ranks)
            for at in reversed(order):
                if at in kept and at in above:
                    kept.add(above[at][0])
            tree = [at for at in order if at in kept]
            found.setdefault(max(depth[at] for at in ranks), []).append((tree, above))
    if not found:
        raise InvalidProblem(f"in-network: no switch of {fabric.name} reaches all ranks")
    return found[min(found)]


def chunks_of(group: Group) -> int:
    """Return into how many chunks data are cut: what is on the way while the pipeline fills costs time, a further chunk does not.

    So as many a plane as leave each on the wire for half as long as under way, up to :data:`MOST_EACH`, and not more transfers than are quick to judge.
    """
    trees = len(switch_trees(group))
    shards = group.size if group.job.pattern in ("all-gather", "reduce-scatter") else 1
    wait = float(group.latency) * float(group.bandwidth)
    fine = 2 * float(group.job.size) / wait if wait else MOST_EACH * trees * shards
    most = max(1, MOST_TRANSFERS // (2 * group.size * trees * shards))
    return int(trees * shards * max(1, min(MOST_EACH, most, round(fine / (trees * shards)))))


def in_network(columns: Columns, group: Group, chunks: int, slots: int | None = None) -> Shards:
    """Reduce and multicast in the switches.

    ``slots`` is how many chunks a tree may have under way: a rank sends the next chunk that takes a slot once it has the
    result of the one before. None: no limit.
    """
    trees = switch_trees(group)
    pattern, size = group.job.pattern, group.size
    shards = size if pattern in ("all-gather", "reduce-scatter") else 1
    each = -(-chunks // (len(trees) * shards))
    check_memory(2 * len(trees) * shards * each * size, "in-network")
    everyone = {int(node) for node in group.nodes}
    for plane, tree in enumerate(trees):
        for shard in range(shards):
            pieces = shard * len(trees) * each + plane + len(trees) * np.arange(each)
            owner = {int(group.nodes[shard])}
            senders = {
                "all-reduce": everyone,
                "reduce": everyone - owner,
                "reduce-scatter": everyone - owner,
            }.get(pattern, owner)
            receivers = {"all-reduce": everyone, "reduce": owner, "reduce-scatter": owner}.get(
                pattern, everyone - owner
            )
            reduce = pattern in ("all-reduce", "reduce", "reduce-scatter")
            _through(columns, tree, pieces, senders, receivers, reduce, pattern != "all-reduce" and reduce, slots)
    return [shard for shard in range(shards) for _ in range(len(trees) * each)]


def _through(
    columns: Columns,
    tree: Tree,
    pieces: IntColumn,
    senders: set[int],
    receivers: set[int],
    reduce: bool,
    adds: bool,
    slots: int | None,
) -> None:
    """Send chunks up a tree and down; ``adds``: the receivers add the result to what they hold."""
    order, above = tree
    rows = len(pieces)
    into: dict[int, list[IntColumn]] = {node: [] for node in order}
    first = columns.size
    ups = _towards(order, above, senders)
    downs = _towards(order, above, receivers)
    # The numbers of the transfers down follow from their place, so that those up can wait for slots.
    result = {node: first + (len(ups) + k) * rows + np.arange(rows) for k, node in enumerate(downs)}
    for node in reversed(ups):
        up, _, link = above[node]
        waits = list(into[node])
        if slots is not None and node in senders and slots < rows:
            freed = result[node if node in receivers else next(one for one in downs if one in receivers)]
            waits.append(np.concatenate([np.full(slots, -1), freed[: rows - slots]]))
        needs = np.stack(waits, axis=1) if waits else None
        into[up].append(columns.add(np.full(rows, node), up, pieces, reduce=reduce, needs=needs, via=link))
    came: dict[int, list[IntColumn]] = {order[0]: into[order[0]]}
    for node in downs:
        up, link, _ = above[node]
        waits = came.get(up, [])
        adding = adds and node in receivers
        needs = np.stack(waits, axis=1) if waits else None
        came[node] = [columns.add(np.full(rows, up), node, pieces, reduce=adding, needs=needs, via=link)]


def _towards(order: list[int], above: dict[int, tuple[int, int, int]], ends: set[int]) -> list[int]:
    """Return the nodes below the root, from there outwards, that lie on the way to some of ``ends``."""
    kept = set(ends)
    for node in reversed(order):
        if node in kept and node in above:
            kept.add(above[node][0])
    return [node for node in order if node in kept and node in above]
