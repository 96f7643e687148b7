"""Pictures as PNG, through matplotlib where it is installed."""

from __future__ import annotations

import io
import warnings
from typing import Any

from fabric_plan.planner.drawing.layout import Curve
from fabric_plan.planner.drawing.picture import scene
from fabric_plan.planner.drawing.shapes import Scene, Stroke
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.plan import PlacementPlan

_SCALE = 2.0
"""Pixels of the image for one of the scene."""

_LONGEST = 16_000
_POINTS = 0.72
"""Points for one pixel of the scene, at the 100 scene pixels an inch that the figure is made for."""

_INK = {"title": "#1b1f24", "worker": "#1b1f24", "switch": "#1b1f24"}
_MUTED, _IDLE, _SPARE, _BAR, _RIM = "#56606b", "#d3d9e0", "#9aa4b0", "#dfe5ec", "#9aa3ad"


def write_png(plan: PlacementPlan, *, phase: str = "all") -> bytes:
    """Return the picture of a simulated plan as a PNG file, the same bytes each time.

    Parameters
    ----------
    phase
        The name of a phase of the plan's report, or ``all`` for all phases together.

    Raises
    ------
    InvalidInput
        When matplotlib is missing, and as :func:`fabric_plan.planner.drawing.picture.scene`.
    """
    return render_png(scene(plan, phase=phase))


def render_png(picture: Scene) -> bytes:
    """Return a picture as a PNG file; InvalidInput when matplotlib is missing."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidInput(
            "PNG needs matplotlib: install fabric-plan[plot], or write .svg, which needs nothing"
        ) from None
    scale = min(_SCALE, _LONGEST / max(picture.width, picture.height))
    figure = Figure(figsize=(picture.width / 100, picture.height / 100), dpi=100 * scale, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, picture.width)
    axes.set_ylim(picture.height, 0)
    axes.set_axis_off()
    _draw(axes, picture)
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name in letters that the font lacks is drawn as boxes
        figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def _draw(axes: Any, picture: Scene) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import FancyBboxPatch, Rectangle

    strokes = (*picture.strokes, *picture.samples)
    # In stages of the same load, so that a head lies above lighter strokes and below heavier ones, as in the SVG.
    for load in sorted({stroke.load for stroke in strokes}):
        alike = [stroke for stroke in strokes if stroke.load == load]
        axes.add_collection(_lines(alike))
        heads = [(head, stroke.colour) for stroke in alike for head in stroke.heads]
        if heads:
            shapes, colours = zip(*heads, strict=True)
            axes.add_collection(PolyCollection(shapes, facecolors=colours, linewidths=0, zorder=2))
    for bar in picture.bars:
        for x, y, width, height in bar.rectangles:
            axes.add_patch(Rectangle((x, y), width, height, facecolor=_BAR, linewidth=0, zorder=3))
    for cell in picture.cells:
        (x, y), (width, height) = cell.middle, cell.size
        style: dict[str, Any] = {"facecolor": cell.colour, "edgecolor": _RIM, "linewidth": _POINTS}
        if cell.colour is None:
            style = {"fill": False, "edgecolor": _SPARE, "linewidth": _POINTS, "linestyle": (0, (4, 3))}
        shape = f"round,pad=0,rounding_size={min(7.0, height / 4)}"
        axes.add_patch(
            FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle=shape, zorder=4, **style)
        )
    for words in picture.words:
        axes.text(
            *words.at,
            words.text,
            fontsize=words.size * _POINTS * 0.94,  # the font that comes with matplotlib is a wide one
            fontweight="bold" if words.role in ("title", "worker") else "normal",
            color=_INK.get(words.role, _MUTED),
            ha="center" if words.anchor == "middle" else "left",
            va="baseline",
            parse_math=False,
            zorder=5,
        )


def _lines(strokes: list[Stroke]) -> Any:
    from matplotlib.collections import PathCollection

    return PathCollection(
        [_path(stroke.curves) for stroke in strokes],
        facecolors="none",
        edgecolors=[stroke.colour or _IDLE for stroke in strokes],
        linewidths=[stroke.width * _POINTS for stroke in strokes],
        capstyle="butt",
        zorder=2,
    )


def _path(curves: tuple[Curve, ...]) -> Any:
    from matplotlib.path import Path

    points, codes = [], []
    for curve in curves:
        points.append(curve.start)
        codes.append(Path.MOVETO)
        if curve.control is not None:
            points += [curve.control, curve.end]
            codes += [Path.CURVE3, Path.CURVE3]
        else:
            points.append(curve.end)
            codes.append(Path.LINETO)
    return Path(points, codes)
