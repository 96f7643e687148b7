"""A fabric after failures: links and nodes that are down are taken away, and routes follow from what is left."""

from __future__ import annotations

from collections.abc import Sequence

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.simulator.disturb import find_node


def degraded(fabric: Fabric, failed: Sequence[str]) -> tuple[Fabric, tuple[int, ...]]:
    """Return what is left of a fabric, and the seats that are.

    Parameters
    ----------
    failed
        Each a node by name, number or place on a grid, with all its links; ``a:b``, the links between two nodes both ways; or ``a->b``, one way.

    Nodes keep their numbers. Where links of a mesh or a torus are gone its rule no longer leads everywhere, so routes are the shortest.

    Raises
    ------
    InvalidInput
        Naming what does not exist.
    """
    names = {node.name for node in fabric.nodes}
    dead: set[int] = set()
    gone: set[tuple[int, int]] = set()
    for text in failed:
        if "->" in text:
            a, _, b = text.partition("->")
            pairs = {(find_node(fabric, a), find_node(fabric, b))}
        elif ":" not in text or text in names:
            dead.add(find_node(fabric, text))
            continue
        else:
            a, _, b = text.partition(":")
            one, other = find_node(fabric, a), find_node(fabric, b)
            pairs = {(one, other), (other, one)}
        if not any((link.source, link.target) in pairs for link in fabric.links):
            raise InvalidInput(f"fail {text!r}: no link joins these nodes of {fabric.name}")
        gone |= pairs
    if not dead and not gone:
        return fabric, tuple(range(len(fabric.seats)))
    links = [
        link
        for link in fabric.links
        if (link.source, link.target) not in gone and link.source not in dead and link.target not in dead
    ]
    routing = "shortest" if fabric.routing in ("xy", "dimension-order") else fabric.routing
    left = Fabric(
        f"{fabric.name} without {', '.join(failed)}",
        fabric.nodes,
        links,
        routing,
        shape=fabric.shape,
        note=fabric.note,
        costs=fabric.costs,
        switch=fabric.switch,
    )
    return left, tuple(seat for seat, node in enumerate(fabric.seats) if node not in dead)
