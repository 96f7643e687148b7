"""What an algorithm sees of a fabric: its ranks' nodes, boxes, grid and switches."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from fabric_plan.planner.errors import Infeasible, InvalidProblem
from fabric_plan.planner.fabric import Fabric, coordinates, seat_at
from fabric_plan.planner.problem import Job
from fabric_plan.planner.schedule import IntColumn


@dataclass(frozen=True)
class Group:
    """The ranks of a collective on a fabric. Rank r sits on seat ``job.group[r]``; rank 0 is the root."""

    fabric: Fabric
    job: Job

    @property
    def size(self) -> int:
        """How many ranks."""
        return len(self.job.group)

    @cached_property
    def nodes(self) -> IntColumn:
        """Node of each rank."""
        seats = np.array(self.fabric.seats, dtype=np.int32)
        return np.asarray(seats[np.array(self.job.group, dtype=np.int64)])

    @cached_property
    def rank_of(self) -> dict[int, int]:
        """Rank of each node that has one."""
        return {int(node): rank for rank, node in enumerate(self.nodes)}

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Sizes per axis where the ranks are all seats of a grid in order, else empty."""
        whole = self.job.group == tuple(range(len(self.fabric.seats)))
        return self.fabric.shape if whole else ()

    @property
    def wraps(self) -> bool:
        """Whether the grid is a torus."""
        return self.fabric.routing == "dimension-order"

    def ring(self) -> IntColumn:
        """Return the ranks in the order of one ring: along the grid, each next to the one before, where there is one."""
        sides = [side for side in self.shape if side > 1]
        if len(sides) < 2:
            return np.arange(self.size)
        places = _mesh_cycle(sides) if not self.wraps and len(sides) == 2 else None
        return np.array([seat_at(place, sides) for place in places or _snake(sides)])

    @cached_property
    def latency(self) -> Fraction:
        """Latency from rank 0 to rank 1, in seconds."""
        path = self.fabric.route(self.job.group[0], self.job.group[1])[0]
        return sum((self.fabric.links[link].latency for link in path), Fraction(0))

    @cached_property
    def bandwidth(self) -> int:
        """Bytes/s of the route from rank 0 to rank 1."""
        paths = self.fabric.route(self.job.group[0], self.job.group[1])
        return len(paths) * min(self.fabric.links[link].bandwidth for path in paths for link in path)

    def check_joined(self) -> None:
        """Raise Infeasible where links lead no way from some rank to another that it must reach.

        Raises
        ------
        Infeasible
            Naming the two.
        """
        pattern = self.job.pattern
        sides = {"broadcast": (False,), "scatter": (False,), "reduce": (True,), "gather": (True,)}.get(
            pattern, (False, True)
        )
        root = int(self.nodes[0])
        for backwards in sides:
            seen = {root}
            queue = [root]
            for at in queue:
                for link in self.fabric.incoming[at] if backwards else self.fabric.outgoing[at]:
                    ends = self.fabric.links[link]
                    other = ends.source if backwards else ends.target
                    if other not in seen:
                        seen.add(other)
                        queue.append(other)
            lost = [node for node in self.nodes.tolist() if node not in seen]
            if lost:
                names = [self.fabric.nodes[node].name for node in (lost[0], root)]
                names = names if backwards else names[::-1]
                more = f" ({len(lost)} ranks are cut off)" if len(lost) > 1 else ""
                raise Infeasible(
                    f"no links of {self.fabric.name} lead from {names[0]} to {names[1]}{more}", ("disconnected",)
                )

    def boxes(self) -> list[list[int]]:
        """Return the ranks by box: what the fabric's fastest links join, without its slower ones.

        Raises
        ------
        InvalidProblem
            When there are no two boxes of equal size with more than one rank each.
        """
        for width in sorted({self._width(link) for link in range(len(self.fabric.links))}, reverse=True):
            parts = self._joined(width)
            if len(parts) > 1 and len(parts[0]) > 1 and len({len(part) for part in parts}) == 1:
                return parts
        raise InvalidProblem(
            f"hierarchical: {self.fabric.name} has no boxes of equal size that faster links join than those between them"
        )

    def _width(self, link: int) -> Fraction:
        return Fraction(self.fabric.links[link].bandwidth)

    def _joined(self, width: Fraction) -> list[list[int]]:
        seen: set[int] = set()
        parts = []
        for rank, node in enumerate(self.nodes.tolist()):
            if node in seen:
                continue
            seen.add(node)
            stack, part = [node], []
            while stack:
                at = stack.pop()
                if at in self.rank_of:
                    part.append(self.rank_of[at])
                for link in self.fabric.outgoing[at]:
                    after = self.fabric.links[link].target
                    if self._width(link) >= width and after not in seen:
                        seen.add(after)
                        stack.append(after)
            assert rank in part
            parts.append(sorted(part))
        return parts


def _snake(sides: list[int]) -> list[tuple[int, ...]]:
    """Return the places of a grid, each next to the one before, and the last next to the first by a wrap if possible."""
    # The last place is back at zero on all axes but the slowest if that one is even.
    axes = sorted(range(len(sides)), key=lambda axis: sides[axis] % 2)
    ordered = [sides[axis] for axis in axes]
    found = []
    for index in range(int(np.prod(ordered))):
        place = list(coordinates(index, ordered))
        turned = 0
        for k, side in enumerate(ordered):
            ahead = place[k]
            if turned % 2:
                place[k] = side - 1 - ahead
            turned = turned * side + ahead
        back = [0] * len(sides)
        for k, axis in enumerate(axes):
            back[axis] = place[k]
        found.append(tuple(back))
    return found


def _mesh_cycle(sides: list[int]) -> list[tuple[int, ...]] | None:
    """Return a closed tour of a mesh with an even side, which keeps one column for the way back."""
    rows, columns = sides
    if rows % 2:
        if columns % 2:
            return None
        turned = _mesh_cycle([columns, rows])
        return [(b, a) for a, b in turned] if turned else None
    tour = [(0, 0)]
    for row in range(rows):
        line = range(1, columns) if row % 2 == 0 else range(columns - 1, 0, -1)
        tour += [(row, column) for column in line]
    return [*tour, *((row, 0) for row in range(rows - 1, 0, -1))]
