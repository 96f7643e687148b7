"""A schedule's chunks over time: a row a link (or a rank, where there are many links), a bar for each time something crosses it."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING

from fabric_plan.planner.drawing.layout import Curve
from fabric_plan.planner.drawing.shapes import MARGIN, Cell, Scene, Stroke, Words, stage_colour
from fabric_plan.planner.drawing.svg import escape
from fabric_plan.planner.units import format_size, format_time

if TYPE_CHECKING:
    from fabric_plan.planner.schedule import SchedulePlan

MOST_LINES, MOST_ROWS, MOST_BARS = 96, 160, 6_000
"""Links that have rows of their own; rows; bars."""

WIDTH, LEFT, TOP = 1_200.0, 150.0, 92.0


def scene(plan: SchedulePlan) -> Scene:
    """Return the picture; what is too much for it is left out, and a note says how much."""
    from fabric_plan.planner.simulator.schedule import simulate

    found = simulate(plan)
    line, fabric = found.timeline, found.fabric
    link, start, arrival = line.program.hop_link.tolist(), line.start.tolist(), line.arrival.tolist()
    latency = line.timing.latency.tolist()
    cuts = line.program.hop_start.tolist()
    owner = [row for row, (a, b) in enumerate(itertools.pairwise(cuts)) for _ in range(a, b)]
    used = sorted(set(link))
    by_link = len(used) <= MOST_LINES
    key = (lambda one: one) if by_link else (lambda one: fabric.links[one].source)
    rows = sorted({key(one) for one in used})
    shown = {row: place for place, row in enumerate(rows[:MOST_ROWS])}
    height = max(7.0, min(20.0, 900.0 / max(1, len(shown))))
    end = max(arrival, default=1) or 1
    scale = (WIDTH - LEFT - MARGIN) / end
    hops = [hop for hop in sorted(range(len(link)), key=lambda hop: start[hop]) if key(link[hop]) in shown]
    cells = []
    jobs = plan.job_of(plan.transfers).tolist()
    together = len(plan.problem.jobs) > 1
    many = max(plan.shards) + 1 if len(set(plan.shards)) > 1 else len(plan.shards)
    many = len(plan.problem.jobs) if together else many
    ranks = len(plan.problem.jobs[0].group)
    for hop in hops[:MOST_BARS]:
        one = owner[hop]
        chunk = int(plan.transfers.first[one])
        shard = plan.shards[chunk] if len(set(plan.shards)) > 1 else chunk
        group = shard // ranks if plan.problem.jobs[0].pattern == "all-to-all" else shard
        group = jobs[one] if together else group
        left, right = LEFT + start[hop] * scale, LEFT + (arrival[hop] - latency[link[hop]]) * scale
        middle = (left + right) / 2, TOP + (shown[key(link[hop])] + 0.5) * height
        times = " to ".join(format_time(Fraction(value, line.ticks_per_second)) for value in (start[hop], arrival[hop]))
        title = f"transfer {one}: {plan.transfers.name(one)} over {fabric.link_name(link[hop])}, {times}"
        cells.append(Cell(middle, (max(0.6, right - left), height * 0.8), stage_colour(group), title))
    job = plan.problem.jobs[0]
    title = f"{job.pattern} of {format_size(job.size)} over {ranks} ranks on {fabric.name}, {plan.algorithm}"
    colour = "root" if len(set(plan.shards)) > 1 else "chunk"
    if together:
        title, colour = f"{many} collectives at once on {fabric.name}, {plan.algorithm}", "job"
    notes = [
        f"a row is a {'link' if by_link else 'sending node'}, a bar one transfer on it, its colour the {colour} ({many} in all)"
    ]
    if len(rows) > len(shown) or len(hops) > MOST_BARS or len(hops) < len(link):
        notes.append(
            f"left out: {len(rows) - len(shown):,} of {len(rows):,} rows, and {len(link) - len(cells):,} of {len(link):,} bars (the first in time are drawn)"
        )
    bottom = TOP + height * len(shown)
    words = [Words((MARGIN, 34), title, 17, "title")]
    words += [Words((MARGIN, 54 + 16 * k), note, 12, "note") for k, note in enumerate(notes)]
    size = min(11.0, height * 0.85)
    for row, place in shown.items():
        name = fabric.link_name(row) if by_link else fabric.nodes[row].name
        words.append(Words((MARGIN, TOP + (place + 0.75) * height), name, size, "key"))
    strokes = []
    for k in range(6):
        x = LEFT + (WIDTH - LEFT - MARGIN) * k / 5
        strokes.append(Stroke((), Fraction(0), (Curve((x, TOP), (x, bottom)),), (), None, 1.0, "time"))
        time = format_time(Fraction(end * k, 5 * line.ticks_per_second))
        words.append(Words((x, bottom + 18), time, 11, "key", "middle"))
    return Scene(WIDTH + MARGIN, bottom + 40, title, tuple(strokes), (), tuple(cells), tuple(words), ())


def write(plan: SchedulePlan, suffix: str) -> bytes:
    """Return the picture as ``.svg``, ``.png`` or ``.html``; InvalidInput where matplotlib is missing for a PNG."""
    from fabric_plan.planner.drawing import png, svg

    picture = scene(plan)
    if suffix == ".png":
        return png.render_png(picture)
    if suffix == ".svg":
        return svg.standalone(picture)
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(picture.title)}</title>'
    return f'{head}<body style="margin:16px;overflow-x:auto">{svg.render(picture)}</body></html>\n'.encode()
