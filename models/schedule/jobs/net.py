"""Who can send what to whom: the nodes that hold data, and the moves of data between two of them.

Data is held, copied and added at NPUs only (and, for bounds, at switches where the fabric says that they do it too). A *move* takes it from
one of these nodes to another over links and switches between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabric_plan.planner.errors import InvalidInput, InvalidProblem
from fabric_plan.planner.fabric import Fabric

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

FAR = 1 << 60
"""Longer than any way, as a whole number."""

MOST_MOVES = 6_000


@dataclass(frozen=True, eq=False)
class Move:
    """A way from one holder to another.

    Parameters
    ----------
    source, target
        Positions among the holders.
    via
        The link, where it is one; -1 for the fabric's route.
    links, shares
        The links that it takes, and what part of a byte each carries.
    path
        The links of one of its ways, in order; the others are striped alike.
    """

    source: int
    target: int
    via: int
    links: tuple[int, ...]
    shares: tuple[float, ...]
    path: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Net:
    """A fabric's NPUs and the moves that schedules are made of.

    Parameters
    ----------
    holders
        Their nodes.
    moves
        Each link between two NPUs, and the fabric's routes over switches between those that no link joins.
    """

    fabric: Fabric
    holders: tuple[int, ...]
    moves: tuple[Move, ...]

    @classmethod
    def of(cls, fabric: Fabric) -> Net:
        """Return the net of a fabric.

        Raises
        ------
        InvalidProblem
            When there are too many moves.
        """
        place = {node: k for k, node in enumerate(fabric.seats)}
        found: list[Move] = []
        joined: set[tuple[int, int]] = set()
        for index, link in enumerate(fabric.links):
            if link.source in place and link.target in place:
                found.append(Move(place[link.source], place[link.target], index, (index,), (1.0,), (index,)))
                joined.add((place[link.source], place[link.target]))
        if len(fabric.seats) < len(fabric.nodes):
            count = len(place)
            if count * count > MOST_MOVES:
                raise InvalidProblem(
                    f"pack: {count} NPUs over switches are too many to pack (at most {MOST_MOVES:,} pairs)"
                )
            for a in range(count):
                for b in range(count):
                    move = _routed(fabric, a, b, place) if a != b and (a, b) not in joined else None
                    if move is not None:
                        found.append(move)
        if len(found) > MOST_MOVES:
            raise InvalidProblem(f"pack: {len(found):,} links are too many to pack (at most {MOST_MOVES:,})")
        return cls(fabric, tuple(fabric.seats), tuple(found))

    def lengths(self, links: Floats) -> tuple[Floats, Whole]:
        """Return (length from holder to holder by its shortest move, which move that is) for lengths of the links; -1: none."""
        count = len(self.holders)
        table = np.full((count, count), np.inf)
        which = np.full((count, count), -1, dtype=np.int64)
        for number, move in enumerate(self.moves):
            length = sum(links[link] * share for link, share in zip(move.links, move.shares, strict=True))
            if length < table[move.source, move.target]:
                table[move.source, move.target] = length
                which[move.source, move.target] = number
        return table, which


def _routed(fabric: Fabric, a: int, b: int, place: dict[int, int]) -> Move | None:
    """Return the route between two seats, None where it leads over another NPU or nowhere."""
    try:
        paths = fabric.route(a, b)
    except InvalidInput:
        return None
    inner = {fabric.links[link].target for path in paths for link in path[:-1]}
    if inner & place.keys():
        return None
    share: dict[int, float] = {}
    for path in paths:
        for link in path:
            share[link] = share.get(link, 0.0) + 1 / len(paths)
    return Move(a, b, -1, tuple(share), tuple(share.values()), paths[0])


def holders_of(fabric: Fabric) -> list[int]:
    """Return the nodes that may hold, copy and add data in any schedule of the fabric."""
    switches = fabric.costs.in_network is not None
    return [k for k, node in enumerate(fabric.nodes) if node.kind == "npu" or (switches and node.kind == "switch")]


def shortest_moves(fabric: Fabric, holders: list[int], lengths: Whole) -> Whole:
    """Return the length of the shortest way from holder to holder that passes no third one, exactly; :data:`FAR` for none."""
    count = len(fabric.nodes)
    table = np.full((count, count), FAR, dtype=np.int64)
    for index, link in enumerate(fabric.links):
        table[link.source, link.target] = min(table[link.source, link.target], int(lengths[index]))
    through = set(range(count)) - set(holders)
    for k in through:
        np.minimum(table, table[:, k, None] + table[None, k, :], out=table)
    found = np.minimum(table, FAR)[np.ix_(holders, holders)]
    np.fill_diagonal(found, 0)
    return found
