"""Routings as pictures: the recursive switch unrolled into columns of micro-switches, with every flow's wires in its colour.

A network Fred_m(P) of depth l has its input micro-switches in column l and its output micro-switches in the mirrored one; its m middle networks
share the height between them. Idle wires are left out; idle micro-switches are dashed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape

from fabric_plan.planner.drawing.layout import Curve, Point
from fabric_plan.planner.drawing.shapes import MARGIN, TEXT_WIDTH, Cell, Scene, Stroke, Words, stage_colour
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fred import BASE, Micro, Word, configure, levels
from fabric_plan.planner.plan import RoutingPlan
from fabric_plan.planner.problem import SwitchFlow
from fabric_plan.planner.result import gap_text
from fabric_plan.planner.switch_flows import flow_name

MAX_SWITCHES = 6000
"""More micro-switches than this, in all panels together, are not drawn."""

ROW, COLUMN, SIZE = 20.0, 96.0, (26.0, 13.0)
STATES = {
    "pass": "#d9dfe6",
    "cross": "#c3ccd6",
    "reduce": "#ffb27a",
    "distribute": "#8ec5ff",
    "reduce-distribute": "#d7a8f0",
}

_Place = tuple[tuple[int, ...], str, int]


@dataclass(frozen=True)
class Panel:
    """One configured switch (or chiplet): its flows with the numbers that they have in the plan."""

    title: str
    middles: int
    ports: int
    flows: tuple[SwitchFlow, ...]
    words: tuple[Word, ...]
    origins: tuple[int, ...]


def panels(plan: RoutingPlan) -> list[Panel]:
    """Return what is drawn of a plan: each round, and on the two-level fabric each chiplet that has something to do."""
    found = []
    rounds = max(plan.rounds, default=0) + 1
    for turn in range(rounds):
        prefix = f"round {turn}" if rounds > 1 else ""
        if plan.problem.fabric:
            for one in plan.chiplets[turn]:
                title = ", ".join(filter(None, (prefix, f"{one.name}: fred{plan.middles}({one.ports})")))
                found.append(Panel(title, plan.middles, one.ports, one.flows, one.words, one.origins))
            continue
        served = [k for k, word in enumerate(plan.words) if word is not None and plan.rounds[k] == turn]
        title = ", ".join(filter(None, (prefix, f"fred{plan.middles}({plan.problem.ports})")))
        flows, words = tuple(plan.flows[k] for k in served), tuple(plan.words[k] or () for k in served)
        found.append(Panel(title, plan.middles, plan.problem.ports, flows, words, tuple(served)))
    return [one for one in found if one.flows]


def scene(plan: RoutingPlan) -> Scene:
    """Return the picture of a routing.

    Raises
    ------
    InvalidInput
        When the switch has too many micro-switches to draw.
    """
    shown = panels(plan)
    settings = [configure(one.middles, one.ports, one.flows, one.words) for one in shown]
    count = sum(map(len, settings))
    if count > MAX_SWITCHES:
        raise InvalidInput(
            f"{count:,} micro-switches are too many to draw (at most {MAX_SWITCHES:,}): fabric-plan route -v lists those in use"
        )
    strokes: list[Stroke] = []
    cells: list[Cell] = []
    words = [
        Words((MARGIN, MARGIN + 16), headline(plan), 19, "title"),
        Words((MARGIN, MARGIN + 38), certified(plan), 13, "note"),
    ]
    top, right = MARGIN + 62, MARGIN + TEXT_WIDTH * 13 * max(len(certified(plan)), 60)
    for panel, switches in zip(shown, settings, strict=True):
        words.append(Words((MARGIN, top + 12), panel.title, 13, "caption"))
        drawn = _Drawn(panel, switches, top + 26)
        strokes += drawn.strokes()
        cells += drawn.cells()
        words += drawn.port_words()
        top, right = drawn.bottom + 22, max(right, drawn.right)
    top += 6
    for k, (name, colour) in enumerate(STATES.items()):
        at = MARGIN + 14 + k * 130
        cells.append(Cell((at, top), SIZE, colour, name))
        words.append(Words((at + 20, top + 4), name, 12, "key"))
    for k, flow in enumerate(plan.flows):
        top += 20
        line = Curve((MARGIN, top + 6), (MARGIN + 28, top + 6))
        left = " (left out)" if plan.words[k] is None else ""
        strokes.append(Stroke((), Fraction(1), (line,), (), stage_colour(k), 3.5, flow_name(flow)))
        words.append(Words((MARGIN + 36, top + 10), f"flow {plan.origins[k]} {flow_name(flow)}{left}", 12, "key"))
    return Scene(
        width=right + MARGIN,
        height=top + MARGIN + 12,
        title=headline(plan),
        strokes=tuple(strokes),
        bars=(),
        cells=tuple(cells),
        words=tuple(words),
        samples=(),
    )


def headline(plan: RoutingPlan) -> str:
    """Return flows and switch in a line."""
    return f"{len(plan.problem.flows)} flows through {plan.problem.switch}"


def certified(plan: RoutingPlan) -> str:
    """Return the certificate in a line."""
    key = plan.certificate.keys[0]
    bound = "" if key.bound is None else f"; proven bound {key.bound}, gap {gap_text(plan.certificate)}"
    return f"{plan.certificate.status.value}: {key.name} {key.value} {key.unit}{bound}"


def write_html(plan: RoutingPlan, picture: str) -> bytes:
    """Return a routing as one page that needs nothing else: the picture (an ``<svg>`` element), and every flow with its words."""
    rows = []
    for k, (flow, word) in enumerate(zip(plan.flows, plan.words, strict=True)):
        told = "left out" if word is None else _crossed(plan, k) if plan.problem.fabric else "-".join(map(str, word))
        rows.append(
            f"<tr><td>{plan.origins[k]}</td><td>{escape(flow_name(flow))}</td><td>{plan.rounds[k]}</td><td>{escape(told)}</td></tr>"
        )
    title = escape(headline(plan))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<main><h1>{title}</h1><p>{escape(certified(plan))}</p><section>{picture}</section>"
        "<section><table><tr><th>flow</th><th>ports</th><th>round</th><th>word</th></tr>"
        f"{''.join(rows)}</table></section></main></html>\n"
    ).encode()


_STYLE = (
    ":root{color-scheme:light dark}body{margin:0;padding:24px;font:15px/1.5 system-ui,Helvetica,Arial,sans-serif}"
    "main{max-width:1180px;margin:0 auto}section{overflow-x:auto;margin-bottom:20px}"
    "table{border-collapse:collapse}th,td{text-align:left;padding:3px 16px 3px 0}"
)


def _crossed(plan: RoutingPlan, flow: int) -> str:
    return ", ".join(
        f"{one.name} {'-'.join(map(str, word))}"
        for one in plan.chiplets[plan.rounds[flow]]
        for origin, word in zip(one.origins, one.words, strict=True)
        if origin == flow
    )


class _Drawn:
    """One panel: where its micro-switches stand, and the wires between them."""

    def __init__(self, panel: Panel, switches: Sequence[Micro], top: float) -> None:
        self.panel, self.switches, self.top = panel, switches, top
        self.depth = levels(panel.ports)
        deepest = panel.middles**self.depth
        self.height = ROW * max(deepest, panel.ports)
        self.bottom = top + self.height
        self.columns = 2 * self.depth + 1
        self.left = MARGIN + 46
        self.right = self.left + COLUMN * (self.columns - 1) + 60

    def _at(self, place: _Place) -> Point:
        path, side, index = place
        low, high = self.top, self.bottom
        ports = self.panel.ports
        for middle in path:
            share = (high - low) / self.panel.middles
            low, high = low + middle * share, low + (middle + 1) * share
            ports = (ports + 1) // 2
        many = 1 if side == BASE else (ports + 1) // 2
        column = self.depth if side == BASE else len(path) if side == "in" else self.columns - 1 - len(path)
        return self.left + column * COLUMN, low + (index + 0.5) * (high - low) / many

    def _port(self, port: int, side: str) -> Point:
        y = self.top + (port + 0.5) * self.height / self.panel.ports
        return (self.left - 40, y) if side == "in" else (self.left + COLUMN * (self.columns - 1) + 40, y)

    def cells(self) -> list[Cell]:
        """Return the micro-switches; the joint of an odd port is narrow."""
        found = []
        for one in self.switches:
            size = SIZE if min(one.inputs, one.outputs) > 1 or one.side == BASE else (9.0, 11.0)
            path = ".".join(map(str, one.path)) or "outermost"
            streams = "; ".join(f"{'+'.join(map(str, a))} to {','.join(map(str, b))}" for a, b in one.connections)
            title = f"{path} {one.side} {one.index}: {one.state}" + (f" ({streams})" if streams else "")
            found.append(Cell(self._at((one.path, one.side, one.index)), size, STATES.get(one.state), title))
        return found

    def port_words(self) -> list[Words]:
        """Return the numbers of the ports on both sides."""
        found = []
        for port in range(self.panel.ports):
            for side, shift in (("in", -10.0), ("out", 10.0)):
                x, y = self._port(port, side)
                found.append(Words((x + shift, y + 4), str(port), 11, "key", "middle"))
        return found

    def strokes(self) -> list[Stroke]:
        """Return every wire in use, in the colour of its flow."""
        found = []
        for flow, word, origin in zip(self.panel.flows, self.panel.words, self.panel.origins, strict=True):
            title = f"flow {origin} {flow_name(flow)}"
            for start, end in self._wires(flow, word):
                found.append(Stroke((origin,), Fraction(1), (Curve(start, end),), (), stage_colour(origin), 2.2, title))
        return found

    def _wires(self, flow: SwitchFlow, word: Word) -> Iterator[tuple[Point, Point]]:
        for side, ports in (("in", flow.inputs), ("out", flow.outputs)):
            outer = {port: self._port(port, side) for port in ports}
            for level in range(self.depth + 1):
                path = tuple(word[:level])
                inner: dict[int, Point] = {}
                base = level == self.depth
                for port, point in outer.items():
                    index = 0 if base else port >> 1
                    here = self._at((path, BASE if base else side, index))
                    inner[index] = here
                    yield (point, here) if side == "in" else (here, point)
                outer = inner
