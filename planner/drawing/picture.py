"""The picture of a placement as plain shapes, in pixels: what the SVG, HTML and PNG writers have in common.

Workers are coloured by pipeline stage; each direction of a link is a stroke that grows wider and redder with its load.
"""

from __future__ import annotations

from fractions import Fraction

from fabric_plan.planner.drawing.labels import (
    colour_dimension,
    link_name,
    load_text,
    loads_of,
    phase_of,
    printable,
    report_of,
    seated,
    unit_text,
)
from fabric_plan.planner.drawing.layout import Bar, Curve, Layout, Point, Wire, lay_out
from fabric_plan.planner.drawing.legend import Legend
from fabric_plan.planner.drawing.shapes import MARGIN, TEXT_WIDTH, Cell, Scene, Stroke, Words, stage_colour, stroke
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.plan import PlacementPlan
from fabric_plan.planner.result import gap_text, show_value
from fabric_plan.planner.units import format_size, format_time

MAX_SEATS = 4096
MAX_STROKES = 20_000
"""Larger pictures are refused: nobody could read them."""

MAX_IDLE = 600
"""With more strokes than this, links that carry nothing are left out."""


def scene(plan: PlacementPlan, *, phase: str = "all") -> Scene:
    """Return the picture of a plan that has been simulated.

    Parameters
    ----------
    phase
        The name of a phase of the plan's report, or ``all`` for all phases together.

    Raises
    ------
    InvalidInput
        For an unknown phase, a plan without a report, or one too large to draw.
    """
    found = phase_of(plan, phase)
    fabric, strategy = plan.problem.fabric, plan.problem.strategy
    if len(fabric.seats) > MAX_SEATS:
        raise InvalidInput(
            f"fabric {printable(fabric.name)}: {len(fabric.seats):,} NPUs are too many to draw (at most {MAX_SEATS:,}): export the plan as csv instead"
        )
    layout = lay_out(fabric, max(len(strategy.name(worker)) for worker in (0, strategy.workers - 1)))
    header = _header(plan, phase)
    widest = max(len(text) * size * TEXT_WIDTH for text, size, _ in header)
    width = max(layout.width, widest, 420.0) + 2 * MARGIN
    words, y = [], MARGIN - 6
    for text, size, role in header:
        y += size + 5
        words.append(Words((MARGIN, y), text, size, role))
    y += 14
    origin = ((width - layout.width) / 2, y)
    loads = loads_of(found)
    strokes = _strokes(plan, layout, loads, found.max_load, origin)
    cells, names = _cells(plan, layout, origin)
    bars = tuple(_moved_bar(bar, origin) for bar in layout.bars)
    words += names
    words += [_bar_words(bar) for bar in bars]
    words += [Words(_moved(one.at, origin), one.text, 13, "caption", "middle") for one in layout.captions]
    legend = Legend(width, y + layout.height + 26)
    legend.stages(plan)
    legend.loads(sorted({stroke.load for stroke in strokes if stroke.load}), report_of(plan).unit)
    notes = [*layout.notes]
    if any(not stroke.load for stroke in strokes) and len(layout.wires) > MAX_IDLE:
        strokes = [stroke for stroke in strokes if stroke.load]
        notes.append("links that carry nothing are left out")
    if len(strokes) > MAX_STROKES:
        raise InvalidInput(
            f"fabric {printable(fabric.name)}: {len(strokes):,} links that carry traffic are too many to draw (at most {MAX_STROKES:,}): draw one phase, or export the plan as csv"
        )
    for note in notes:
        legend.note(note)
    return Scene(
        width=width,
        height=legend.bottom + MARGIN - 20,
        title=header[0][0],
        strokes=tuple(strokes),
        bars=bars,
        cells=(*cells, *legend.cells),
        words=(*words, *legend.words),
        samples=tuple(legend.samples),
    )


def headline(plan: PlacementPlan) -> str:
    """Return strategy and fabric of a plan."""
    return f"{plan.problem.strategy} on {printable(plan.problem.fabric.name)}"


def certified(plan: PlacementPlan) -> str:
    """Return in one line what is known of a plan: status, objective, bound, gap and the best baseline."""
    certificate = plan.certificate
    key = certificate.keys[0]
    parts = [
        f"{certificate.status.value}: {key.name} {show_value(key.value, key.unit)}{unit_text(key.unit, key.value)}"
    ]
    if key.bound is not None:
        parts.append(f"proven bound {show_value(key.bound, key.unit)}, gap {gap_text(certificate)}")
    if plan.baseline is not None:
        parts.append(f"best baseline {printable(plan.baseline.name)} {show_value(plan.baseline.value, key.unit)}")
    return "; ".join(parts)


def measured(plan: PlacementPlan, phase: str = "all") -> str:
    """Return in one line what the simulator found for a phase."""
    found, report = phase_of(plan, phase), report_of(plan)
    what = "all phases at once" if phase.lower() == "all" else f"{found.name.upper()} alone"
    load = f"{load_text(found.max_load, report.unit)}{unit_text(report.unit, found.max_load)}"
    text = f"{what}: largest link load {load}"
    if found.seconds is not None:
        size = f" with {format_size(report.nominal_size)} a collective" if report.nominal_size is not None else ""
        text += f", simulated in {format_time(found.seconds)}{size}"
    return text


def _header(plan: PlacementPlan, phase: str) -> list[tuple[str, float, str]]:
    return [(headline(plan), 19, "title"), (certified(plan), 13, "note"), (measured(plan, phase), 13, "note")]


def _moved(point: Point, origin: Point) -> Point:
    return point[0] + origin[0], point[1] + origin[1]


def _moved_curve(curve: Curve, origin: Point) -> Curve:
    control = None if curve.control is None else _moved(curve.control, origin)
    return Curve(_moved(curve.start, origin), _moved(curve.end, origin), control)


def _moved_bar(bar: Bar, origin: Point) -> Bar:
    moved = tuple((*_moved((x, y), origin), width, height) for x, y, width, height in bar.rectangles)
    return Bar(moved, printable(bar.label), printable(bar.title, 400))


def _bar_words(bar: Bar) -> Words:
    x, y, width, height = bar.rectangles[0]
    return Words((x + width / 2, y + height / 2 + 4.3), bar.label, 12, "switch", "middle")


def _strokes(
    plan: PlacementPlan, layout: Layout, loads: dict[int, Fraction], largest: Fraction, origin: Point
) -> list[Stroke]:
    """Return the strokes, the hottest last so that they lie on top."""
    found = []
    for wire in layout.wires:
        load = max((loads.get(link, Fraction(0)) for link in wire.links), default=Fraction(0))
        share = float(load / largest) if largest else 0.0
        curves = tuple(_moved_curve(curve, origin) for curve in wire.curves)
        found.append(stroke(wire.links, curves, load, share, _wire_title(plan, wire, load), layout.slender))
    return sorted(found, key=lambda one: one.load)


def _wire_title(plan: PlacementPlan, wire: Wire, load: Fraction) -> str:
    unit = report_of(plan).unit
    name = link_name(plan.problem.fabric, wire.links[0])
    many = f" and {len(wire.links) - 1} like it" if len(wire.links) > 1 else ""
    return f"{name}{many}: {load_text(load, unit) + unit_text(unit, load) if load else 'idle'}"


def _cells(plan: PlacementPlan, layout: Layout, origin: Point) -> tuple[list[Cell], list[Words]]:
    fabric, strategy = plan.problem.fabric, plan.problem.strategy
    coloured, worker_on = colour_dimension(strategy), seated(plan)
    cells, words = [], []
    for seat, point in enumerate(layout.seats):
        middle = _moved(point, origin)
        name = printable(fabric.seat_name(seat))
        place = f"seat {seat} ({name})" if name != str(seat) else f"seat {seat}"
        worker = worker_on.get(seat)
        if worker is None:
            cells.append(Cell(middle, layout.cell, None, f"{place}: spare"))
            continue
        digits = zip(strategy.dimensions, strategy.digits(worker), strict=True)
        title = ", ".join(f"{dimension.upper()} {digit}" for dimension, digit in digits)
        colour = stage_colour(strategy.digit(worker, coloured) if coloured is not None else 0)
        cells.append(Cell(middle, layout.cell, colour, f"{title}: rank {worker}, {place}"))
        words.append(Words((middle[0], middle[1] + 4.9), strategy.name(worker), 14, "worker", "middle"))
    return cells, words
