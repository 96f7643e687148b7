"""Where the seats, switches and links of a fabric are drawn, in pixels, y downwards.

Every link is a stroke of its own, on the right of its way, so that the two directions of a cable lie side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fabric_plan.planner.fabric import Fabric, coordinates

Point = tuple[float, float]

CELL_HEIGHT = 34.0
GAP = 46.0
SIDE = 5.0
"""How far a stroke lies to the right of the line between the middles of its ends."""

_STUB = 19.0
_CLEAR = 2.0
_MAX_CIRCLE = 40
_MAX_LINE = 12


@dataclass(frozen=True, slots=True)
class Curve:
    """A straight piece, or a quadratic Bezier curve where it has a control point."""

    start: Point
    end: Point
    control: Point | None = None


@dataclass(frozen=True, slots=True)
class Wire:
    """Links that are drawn as one, with the same ends or ends folded together; the last curve arrives."""

    links: tuple[int, ...]
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """A switch, or several folded into one: rectangles (x, y, width, height) that are one shape, and its name."""

    rectangles: tuple[tuple[float, float, float, float], ...]
    label: str
    title: str


@dataclass(frozen=True, slots=True)
class Caption:
    """Words over a part of the drawing."""

    at: Point
    text: str


@dataclass(frozen=True, slots=True)
class Layout:
    """A whole drawing without loads and workers.

    ``seats`` are the middles of the seats' cells; ``slender`` scales the strokes down where they lie close.
    """

    width: float
    height: float
    cell: tuple[float, float]
    seats: tuple[Point, ...]
    wires: tuple[Wire, ...]
    bars: tuple[Bar, ...] = ()
    captions: tuple[Caption, ...] = ()
    notes: tuple[str, ...] = ()
    slender: float = 1.0


def lay_out(fabric: Fabric, longest: int) -> Layout:
    """Return the layout that suits a fabric, for workers' names of up to ``longest`` letters."""
    cell = (max(46.0, 8.2 * longest + 18.0), CELL_HEIGHT)
    if all(node.kind == "npu" for node in fabric.nodes):
        wraps = any(abs(link.source - link.target) > 1 for link in fabric.links)
        if len(fabric.shape) == 1 and not (wraps and len(fabric.seats) <= _MAX_CIRCLE):
            return _snake(fabric, cell)
        if len(fabric.shape) > 1:
            return _grid(fabric, cell)
        return _circle(fabric, cell)
    from fabric_plan.planner.drawing.layered import layered

    return layered(fabric, cell)


def parallel(fabric: Fabric) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return the links between each two node ids (source, target)."""
    found: dict[tuple[int, int], list[int]] = {}
    for index, link in enumerate(fabric.links):
        found.setdefault((link.source, link.target), []).append(index)
    return {ends: tuple(links) for ends, links in found.items()}


def unit(a: Point, b: Point) -> Point:
    """Return the direction from ``a`` to ``b``, of length one."""
    x, y = b[0] - a[0], b[1] - a[1]
    length = math.hypot(x, y) or 1.0
    return x / length, y / length


def edge(centre: Point, way: Point, cell: tuple[float, float], side: float = SIDE) -> Point:
    """Return where a stroke that goes ``way`` leaves the cell around ``centre``, moved ``side`` to its right."""
    reach = min(
        cell[0] / 2 / abs(way[0]) if way[0] else math.inf,
        cell[1] / 2 / abs(way[1]) if way[1] else math.inf,
    )
    return (
        centre[0] + way[0] * (reach + _CLEAR) - way[1] * side,
        centre[1] + way[1] * (reach + _CLEAR) + way[0] * side,
    )


def straight(a: Point, b: Point, cell: tuple[float, float], side: float = SIDE) -> Curve:
    """Return the stroke from the cell around ``a`` to the one around ``b``."""
    way = unit(a, b)
    return Curve(edge(a, way, cell, side), edge(b, (-way[0], -way[1]), cell, -side))


def bowed(a: Point, b: Point, cell: tuple[float, float], bend: float = 0.18) -> Curve:
    """Return a curve that bows to the right, round what lies between ``a`` and ``b``."""
    control = (
        (a[0] + b[0]) / 2 - (b[1] - a[1]) * bend,
        (a[1] + b[1]) / 2 + (b[0] - a[0]) * bend,
    )
    return Curve(edge(a, unit(a, control), cell), edge(b, unit(b, control), cell, -SIDE), control)


def _stubs(a: Point, b: Point, way_out: Point, way_in: Point, cell: tuple[float, float]) -> tuple[Curve, ...]:
    """Return the two short ends of a link whose middle is not drawn: it leaves ``a``, and arrives at ``b``."""
    leaving = edge(a, way_out, cell)
    arriving = edge(b, (-way_in[0], -way_in[1]), cell, -SIDE)
    return (
        Curve(leaving, (leaving[0] + _STUB * way_out[0], leaving[1] + _STUB * way_out[1])),
        Curve((arriving[0] - _STUB * way_in[0], arriving[1] - _STUB * way_in[1]), arriving),
    )


def _grid(fabric: Fabric, cell: tuple[float, float]) -> Layout:
    """Rows and columns of the two fastest axes; a slice for each position on the others, side by side."""
    shape = fabric.shape
    *leading, rows, columns = shape
    slices = math.prod(leading)
    across = leading[-1] if len(leading) > 1 else slices if slices <= 4 else math.ceil(math.sqrt(slices))
    gap = GAP + 16.0 if slices > 1 else GAP  # room for the ends that lead to other slices
    pitch = (cell[0] + gap, cell[1] + gap)
    top = 26.0 if slices > 1 else 0.0
    room = (columns * pitch[0], rows * pitch[1] + top)
    between = 30.0 if slices > 1 else 0.0

    def corner(index: int) -> Point:
        row, column = divmod(index, across)
        return column * (room[0] + between), row * (room[1] + between)

    seats = []
    for seat in range(len(fabric.seats)):
        x, y = corner(seat // (rows * columns))
        row, column = divmod(seat % (rows * columns), columns)
        seats.append((x + (column + 0.5) * pitch[0], y + top + (row + 0.5) * pitch[1]))
    wires = tuple(
        Wire(links, _grid_curves(shape, seats, ends, cell)) for ends, links in sorted(parallel(fabric).items())
    )
    captions = tuple(
        Caption((corner(index)[0] + room[0] / 2, corner(index)[1] + 16), slice_name(index, shape))
        for index in range(slices if slices > 1 else 0)
    )
    used = min(across, slices), math.ceil(slices / across)
    notes = ["short ends at a cell's corners lead to the neighbouring slices"] if slices > 1 else []
    steps = [_step(shape, ends) for ends in parallel(fabric)]
    if any(step is not None and step.wraps and step.axis >= len(shape) - 2 for step in steps):
        notes.append("short ends at the rim wrap around")
    return Layout(
        used[0] * (room[0] + between) - between,
        used[1] * (room[1] + between) - between,
        cell,
        tuple(seats),
        wires,
        captions=captions,
        notes=tuple(notes),
    )


def slice_name(index: int, shape: Sequence[int]) -> str:
    """Return the name of a slice of a grid: its fixed coordinates, and a star for rows and columns."""
    return ",".join([*map(str, coordinates(index, shape[:-2])), "*", "*"])


@dataclass(frozen=True, slots=True)
class _Step:
    """A link of a grid to the next position along one axis: forward or not, round the end or not."""

    axis: int
    forward: bool
    wraps: bool


def _step(shape: Sequence[int], ends: tuple[int, int]) -> _Step | None:
    """Return the step that a link between two seats makes; None when it is not one, a diagonal for example."""
    places = coordinates(ends[0], shape), coordinates(ends[1], shape)
    moved = [axis for axis in range(len(shape)) if places[0][axis] != places[1][axis]]
    if len(moved) != 1:
        return None
    axis = moved[0]
    delta, last = places[1][axis] - places[0][axis], shape[axis] - 1
    if abs(delta) == 1:
        return _Step(axis, delta == 1, False)
    return _Step(axis, delta < 0, True) if abs(delta) == last else None


def _grid_curves(
    shape: Sequence[int], seats: Sequence[Point], ends: tuple[int, int], cell: tuple[float, float]
) -> tuple[Curve, ...]:
    a, b = seats[ends[0]], seats[ends[1]]
    step = _step(shape, ends)
    if step is None:
        return (bowed(a, b, cell),)
    if step.axis >= len(shape) - 2 and not step.wraps:
        return (straight(a, b, cell),)
    x, y = _way(len(shape) - 1 - step.axis, cell)
    way = (x, y) if step.forward else (-x, -y)
    return _stubs(a, b, way, way, cell)


def _way(axis: int, cell: tuple[float, float]) -> Point:
    """Return the direction in which an axis grows, counted from the fastest: right, down, then towards the corners."""
    corners = (unit((0, 0), (cell[0], -cell[1])), unit((0, 0), cell))
    return ((1.0, 0.0), (0.0, 1.0), *corners)[axis] if axis < 4 else unit((0, 0), (cell[0], (axis % 2 - 0.5) * cell[1]))


def _snake(fabric: Fabric, cell: tuple[float, float]) -> Layout:
    """A line, folded into rows that run to the right and back, so that neighbours stay neighbours."""
    count = len(fabric.seats)
    columns = count if count <= _MAX_LINE else max(8, math.ceil(math.sqrt(count * 1.4)))
    pitch = (cell[0] + GAP, cell[1] + GAP)

    def heading(seat: int) -> float:
        return -1.0 if seat // columns % 2 else 1.0

    seats: list[Point] = []
    for seat in range(count):
        row, column = divmod(seat, columns)
        column = column if heading(seat) > 0 else columns - 1 - column
        seats.append(((column + 0.5) * pitch[0], (row + 0.5) * pitch[1]))
    wires = []
    for (a, b), links in sorted(parallel(fabric).items()):
        curves: tuple[Curve, ...]
        if abs(a - b) == 1:
            curves = (straight(seats[a], seats[b], cell),)
        elif {a, b} == {0, count - 1}:
            out = (heading(a), 0.0) if a else (-1.0, 0.0)
            into = (-heading(b), 0.0) if b else (1.0, 0.0)
            curves = _stubs(seats[a], seats[b], out, into, cell)
        else:
            curves = (bowed(seats[a], seats[b], cell),)
        wires.append(Wire(links, curves))
    width, height = min(count, columns) * pitch[0], math.ceil(count / columns) * pitch[1]
    notes = ("the short ends at the first and the last seat are joined",) if (0, count - 1) in parallel(fabric) else ()
    return Layout(width, height, cell, tuple(seats), tuple(wires), notes=notes)


def _circle(fabric: Fabric, cell: tuple[float, float]) -> Layout:
    count = len(fabric.seats)
    radius = max(120.0, count * (cell[0] + 34) / math.tau) if count > 1 else 0.0
    width, height = 2 * radius + cell[0] + GAP, 2 * radius + cell[1] + GAP
    seats = []
    for seat in range(count):
        angle = math.tau * seat / count - math.pi / 2
        seats.append((width / 2 + radius * math.cos(angle), height / 2 + radius * math.sin(angle)))
    slender = max(0.3, min(1.0, 200 / (1 + len(fabric.links))))
    wires = tuple(
        Wire(links, (straight(seats[a], seats[b], cell, SIDE * 0.8 * slender),))
        for (a, b), links in sorted(parallel(fabric).items())
    )
    return Layout(width, height, cell, tuple(seats), wires, slender=slender)
