"""The layout of a fabric with switches: NPUs below their leaf switches, and further switches above those.

A leaf switch is a bar over each row of its NPUs, so that a cable is a short stroke up or down. Switches that NPUs use
besides their own leaf (rails) lie below the NPUs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fabric_plan.planner.drawing.layout import SIDE, Bar, Curve, Layout, Point, Wire, bowed, unit
from fabric_plan.planner.drawing.tiers import Tiers, tiers
from fabric_plan.planner.fabric import Fabric

_BAR = 22.0
_CABLE = 34.0
_CELL_GAP = 16.0
_ROW_GAP = 24.0
_BLOCK_GAP = 36.0
_SPINE = 26.0
_LEVEL = (96.0, 300.0)

Rectangle = tuple[float, float, float, float]


def layered(fabric: Fabric, cell: tuple[float, float]) -> Layout:
    """Return the layout of a fabric with switches."""
    return _Layers(fabric, cell).layout()


class _Layers:
    """Rectangles of boxes and middles of seats, filled from the NPUs upwards; then the strokes between them."""

    def __init__(self, fabric: Fabric, cell: tuple[float, float]) -> None:
        self.fabric, self.cell = fabric, cell
        self.tiers: Tiers = tiers(fabric)
        self.seats: list[Point] = [(0.0, 0.0)] * len(fabric.seats)
        self.boxes: dict[int, list[Rectangle]] = {}
        self.row_bar: dict[int, Rectangle] = {}  # of each seat, the bar over its row
        self.width = 0.0
        self.bottom = 0.0
        self.top = 0.0
        self._place_blocks()
        # Wide fabrics get high levels, so that cables between switches do not run flat.
        self.level = min(max(_LEVEL[0], self.width * 0.07), _LEVEL[1])
        self._lower((max(self.tiers.levels, default=1) - 1) * self.level)
        self.ends = self._ends()
        self._place_others()
        self.ports = self._ports()

    def layout(self) -> Layout:
        """Return everything that has been placed."""
        wires = tuple(Wire(links, (self._curve(a, b),)) for (a, b), links in sorted(self.ends.items()))
        bars = []
        for box, rectangles in sorted(self.boxes.items()):
            names = ", ".join(self.fabric.nodes[node].name for node in self.tiers.boxes[box])
            bars.append(Bar(tuple(rectangles), self.tiers.label(self.fabric, box), names))
        notes = []
        if any(len(members) > 1 for members in self.tiers.boxes):
            notes.append("alike switches are drawn as one, each stroke with the largest load of its links")
        if self.tiers.hidden:
            notes.append(f"{self.tiers.hidden} nodes that no route crosses are left out (I/O controllers)")
        bows = [(curve.end[1] + curve.control[1]) / 2 for wire in wires for curve in wire.curves if curve.control]
        height = max([self.bottom, *bows])
        return Layout(self.width, height, self.cell, tuple(self.seats), wires, tuple(bars), notes=tuple(notes))

    def _place_blocks(self) -> None:
        x = 0.0
        for block in self.tiers.blocks:
            columns = _columns(len(block.seats), len(self.seats))
            left = x + (_SPINE if block.box is not None and len(block.seats) > columns else 0.0)
            width = columns * (self.cell[0] + _CELL_GAP) - _CELL_GAP
            y = self.top
            for start in range(0, len(block.seats), columns):
                bar = (x, y, left + width - x, _BAR)
                for column, seat in enumerate(block.seats[start : start + columns]):
                    middle = left + column * (self.cell[0] + _CELL_GAP) + self.cell[0] / 2
                    self.seats[seat] = (middle, y + _BAR + _CABLE + self.cell[1] / 2)
                    self.row_bar[seat] = bar
                if block.box is not None:
                    self.boxes.setdefault(block.box, []).append(bar)
                self.bottom = max(self.bottom, y + _BAR + _CABLE + self.cell[1])
                y += _BAR + _CABLE + self.cell[1] + _ROW_GAP
            if block.box is not None and left > x:  # several rows: their bars join at the left
                last = self.boxes[block.box][-1]
                joint = (x, self.top, _SPINE, last[1] + _BAR - self.top)
                self.boxes[block.box].append(joint)
            x = left + width + _BLOCK_GAP
        self.width = x - _BLOCK_GAP

    def _lower(self, by: float) -> None:
        """Move everything down, to make room above."""

        def lowered(one: Rectangle) -> Rectangle:
            return one[0], one[1] + by, one[2], one[3]

        self.top, self.bottom = self.top + by, self.bottom + by
        self.seats = [(x, y + by) for x, y in self.seats]
        self.boxes = {box: [lowered(one) for one in rectangles] for box, rectangles in self.boxes.items()}
        self.row_bar = {seat: lowered(one) for seat, one in self.row_bar.items()}

    def _ends(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """Return the links between every two things that are drawn: seats as they are, boxes as -1 - box."""
        seat_of = {node: seat for seat, node in enumerate(self.fabric.seats)}
        thing = seat_of | {node: -1 - box for node, box in self.tiers.box_of.items()}
        found: dict[tuple[int, int], list[int]] = {}
        for index, link in enumerate(self.fabric.links):
            if link.source in thing and link.target in thing:
                found.setdefault((thing[link.source], thing[link.target]), []).append(index)
        return {ends: tuple(links) for ends, links in found.items()}

    def _place_others(self) -> None:
        """Place the boxes without seats of their own: rails below, all others above, each over what it joins."""
        free = [box for box in range(len(self.tiers.boxes)) if box not in self.boxes]
        rails = [box for box in free if self.tiers.levels[box] == 1]
        if rails:
            y = self.bottom + self.level
            self._place_row(rails, y)
            self.bottom = y + _BAR
        for level in sorted({self.tiers.levels[box] for box in free} - {1}):
            self._place_row(
                [box for box in free if self.tiers.levels[box] == level], self.top - (level - 1) * self.level
            )

    def _place_row(self, boxes: Sequence[int], y: float) -> None:
        """Place boxes side by side, each as wide as what it joins where there is room, so that cables run steeply."""
        share = (self.width + _BLOCK_GAP) / len(boxes) - _BLOCK_GAP
        wanted = []
        for box in boxes:
            partners = [self._middle(b)[0] for a, b in self.ends if a == -1 - box and self._is_placed(b)]
            left, right = min(partners, default=0.0), max(partners, default=self.width)
            span = (right - left) * len(partners) / (len(partners) - 1) if len(partners) > 1 else 120.0
            label = 7.2 * len(self.tiers.label(self.fabric, box)) + 24
            mean = sum(partners) / len(partners) if partners else self.width / 2
            wanted.append((mean, box, max(min(span, share), label, 60.0)))
        cursor, placed = -math.inf, []
        for x, box, width in sorted(wanted):
            left = max(x - width / 2, cursor)
            placed.append((left, box, width))
            cursor = left + width + _BLOCK_GAP
        # Pushing apart only ever moves to the right: move the row back by what it moved on average.
        drift = sum(left + width / 2 - x for (left, _, width), (x, _, _) in zip(placed, sorted(wanted), strict=True))
        shift = max(-drift / len(placed), -min(left for left, _, _ in placed))
        for left, box, width in placed:
            self.boxes[box] = [(left + shift, y, width, _BAR)]
            self.width = max(self.width, left + shift + width)

    def _is_placed(self, thing: int) -> bool:
        return thing >= 0 or -1 - thing in self.boxes

    def _middle(self, thing: int) -> Point:
        if thing >= 0:
            return self.seats[thing]
        x, y, width, height = self.boxes[-1 - thing][0]
        return x + width / 2, y + height / 2

    def _ports(self) -> dict[tuple[int, int], Point]:
        """Return where the cables between a box and a partner meet the box: side by side, in the partners' order."""
        sides: dict[tuple[int, bool], list[tuple[float, int]]] = {}
        for a, b in self.ends:
            if a < 0 and not self._own(b, a):
                below = self._middle(b)[1] > self._middle(a)[1]
                sides.setdefault((a, below), []).append((self._middle(b)[0], b))
        found = {}
        for (a, below), partners in sides.items():
            x, y, width, height = self.boxes[-1 - a][0]
            for index, (_, b) in enumerate(sorted(partners)):
                found[a, b] = (x + width * (index + 0.5) / len(partners), y + height if below else y)
        return found

    def _own(self, seat: int, box: int) -> bool:
        """Whether a seat hangs below a box."""
        return seat >= 0 and box < 0 and self.row_bar[seat] in self.boxes[-1 - box]

    def _curve(self, a: int, b: int) -> Curve:
        if a >= 0 and self._own(a, b):
            return self._cable(a, up=True)
        if b >= 0 and self._own(b, a):
            return self._cable(b, up=False)
        if a >= 0 and b >= 0:
            return self._between_seats(self.seats[a], self.seats[b])
        start, end = self._port(a, b), self._port(b, a)
        if a < 0 and b < 0 and self.tiers.levels[-1 - a] == self.tiers.levels[-1 - b]:
            return bowed(start, end, (0.0, 0.0), 0.25)
        return _slanted(start, end)

    def _between_seats(self, a: Point, b: Point) -> Curve:
        """Return the stroke of a direct link: below the row, where no cable is, one direction inside the other."""
        if a[1] != b[1]:
            return bowed(a, b, self.cell)
        y = a[1] + self.cell[1] / 2 + 2
        depth = 20.0 + 0.14 * abs(a[0] - b[0]) + (16.0 if a[0] < b[0] else 0.0)
        return Curve((a[0] - SIDE, y), (b[0] + SIDE, y), ((a[0] + b[0]) / 2, y + depth))

    def _port(self, a: int, b: int) -> Point:
        """Return where the stroke between ``a`` and ``b`` meets ``a``."""
        if a < 0:
            return self.ports.get((a, b), self._middle(a))
        x, y = self.seats[a]
        below = self._middle(b)[1] > y
        return x, y + self.cell[1] / 2 * (1 if below else -1)

    def _cable(self, seat: int, *, up: bool) -> Curve:
        x, y = self.seats[seat]
        cell_top, bar_bottom = y - self.cell[1] / 2 - 2, self.row_bar[seat][1] + _BAR + 2
        if up:
            return Curve((x + SIDE, cell_top), (x + SIDE, bar_bottom))
        return Curve((x - SIDE, bar_bottom), (x - SIDE, cell_top))


def _slanted(start: Point, end: Point) -> Curve:
    """Return the stroke between two ports on level edges: to the right of its way, yet beginning and ending on them."""
    way = unit(start, end)
    aside = -math.copysign(min(SIDE * 0.8 / abs(way[1]), 3 * SIDE), way[1]) if way[1] else 0.0
    clear = math.copysign(2.0, way[1])
    return Curve((start[0] + aside, start[1] + clear), (end[0] + aside, end[1] - clear))


def _columns(count: int, seats: int) -> int:
    """Return how many of a block's NPUs go in a row: one row in small fabrics, else few, full where that is possible."""
    if count <= 4 or (count <= 8 and seats <= 40):
        return count
    base = math.ceil(math.sqrt(2 * count if count == seats else count))
    return next((columns for columns in range(base, base + 5) if count % columns == 0), base)
