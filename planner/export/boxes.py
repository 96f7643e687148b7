"""Which ranks share a node: what the fabric's fast links join, where those between are a quarter as fast or slower."""

from __future__ import annotations

from collections.abc import Sequence

from fabric_plan.planner.fabric import Fabric

SLOWER = 4


def boxes_of(fabric: Fabric, group: Sequence[int]) -> list[int]:
    """Return the box of each rank; all are in one where the fabric has no boxes of several ranks each."""
    fast = max((link.bandwidth for link in fabric.links), default=0)
    box: dict[int, int] = {}
    for number, seat in enumerate(group):
        start = fabric.seats[seat]
        if start in box:
            continue
        box[start] = number
        stack = [start]
        while stack:
            for link in fabric.outgoing[stack.pop()]:
                one = fabric.links[link]
                if one.bandwidth * SLOWER > fast and one.target not in box:
                    box[one.target] = number
                    stack.append(one.target)
    found = [box[fabric.seats[seat]] for seat in group]
    sizes = {one: found.count(one) for one in found}
    return found if min(sizes.values()) > 1 else [0] * len(found)
