"""Placements as one HTML page that needs nothing else: the picture, the certificate, loads, times and the problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from html import escape as _escape

from fabric_plan.planner.drawing.labels import link_name, load_text, loads_of, phase_of, printable, report_of, unit_text
from fabric_plan.planner.drawing.picture import headline, scene
from fabric_plan.planner.drawing.svg import render
from fabric_plan.planner.parallelism import DIMENSIONS
from fabric_plan.planner.plan import PlacementPlan
from fabric_plan.planner.problem import Demand
from fabric_plan.planner.result import gain, gap_text, show_value
from fabric_plan.planner.simulator.report import PhaseReport
from fabric_plan.planner.units import format_size, format_time

MOST_LINKS = 40
"""Rows of the table of link loads."""

MOST_TABS = 512
"""With more seats than this, only the phase that was asked for is drawn."""

_STYLE = """
:root{color-scheme:light dark;--ground:#f4f6f8;--card:#fff;--ink:#1b1f24;--muted:#56606b;--line:#dfe5ec;--hot:#c60c3a}
@media (prefers-color-scheme:dark){:root{--ground:#0e1114;--card:#14181d;--ink:#e8ecf1;--muted:#a3adb8;--line:#2c353f;--hot:#ff5c7f}}
*{box-sizing:border-box}
body{margin:0;padding:24px;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,Segoe UI,Helvetica,Arial,sans-serif}
main{max-width:1180px;margin:0 auto;display:flex;flex-wrap:wrap;gap:20px}
header,section.wide{flex:1 0 100%;max-width:100%}
h1{font-size:24px;margin:0 0 4px}h2{font-size:16px;margin:0 0 10px}p{margin:0 0 6px}
header p{color:var(--muted)}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:18px;overflow-x:auto;flex:1 1 440px;max-width:100%}
.fp-picture{max-width:100%;height:auto;display:block;margin:0 auto}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:4px 12px 4px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--muted);font-weight:500;white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tr.hot td{color:var(--hot);font-weight:600}
td.bar{width:35%}td.bar i{display:block;height:9px;margin-top:7px;border-radius:3px;background:var(--hot);opacity:.75}
table+p{margin-top:8px}ul{margin:8px 0;padding-left:20px}
.tabs input{position:absolute;opacity:0}
.tabs label{display:inline-block;padding:4px 14px;margin:0 6px 12px 0;border:1px solid var(--line);border-radius:999px;cursor:pointer;color:var(--muted)}
.tabs input:checked+label{background:var(--ink);color:var(--card)}
.tabs input:focus-visible+label{outline:2px solid var(--hot)}
.tabs .panel{display:none}
""" + "".join(f"#tab{index}:checked~.panel{index}{{display:block}}\n" for index in range(len(DIMENSIONS) + 1))


def write_page(plan: PlacementPlan, *, phase: str = "all") -> bytes:
    """Return a simulated plan as an HTML page: the picture (of ``all``: a tab for each phase), and all that is known.

    Parameters
    ----------
    phase
        The name of a phase of the plan's report, or ``all`` for all phases together.

    Raises
    ------
    InvalidInput
        As :func:`fabric_plan.planner.drawing.picture.scene`.
    """
    found = phase_of(plan, phase)
    title = escape(headline(plan))
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>",
        f"<style>{_STYLE}</style></head><body><main>",
        f"<header><h1>{title}</h1><p>{escape(_sentence(gain(plan)))}</p></header>",
        _pictures(plan, phase),
        _section("Certificate", _certificate(plan)),
        _section("Baselines", _baselines(plan)),
        _section("Phases", _phases(plan)),
        _section("Problem", _problem(plan)),
        _section(f"Link loads, {_phase_title(found.name)}", _links(plan, found), wide=True),
        "</main></body></html>",
    ]
    return ("\n".join(parts) + "\n").encode()


def escape(text: str) -> str:
    """Return text so that a browser shows it and does nothing else with it."""
    return _escape(printable(text, 4000), quote=True)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _section(title: str, body: str, *, wide: bool = False) -> str:
    return f"<section{' class=wide' if wide else ''}><h2>{escape(title)}</h2>\n{body}</section>"


def _phase_title(name: str) -> str:
    return "all phases at once" if name == "all" else f"{name.upper()} alone"


def _pictures(plan: PlacementPlan, phase: str) -> str:
    """Return the picture, or one for each phase behind tabs that need no script."""
    report = report_of(plan)
    names = [phase]
    if phase.lower() == "all" and len(report.phases) > 1 and len(plan.problem.fabric.seats) <= MOST_TABS:
        names += [one.name for one in report.phases]
    if len(names) == 1:
        return f'<section class="wide">\n{render(scene(plan, phase=phase))}</section>'
    tabs = "".join(
        f'<input type="radio" name="phase" id="tab{index}"{" checked" if not index else ""}>'
        f'<label for="tab{index}">{escape(_phase_title(name))}</label>'
        for index, name in enumerate(names)
    )
    panels = "".join(
        f'<div class="panel panel{index}">\n{render(scene(plan, phase=name))}</div>' for index, name in enumerate(names)
    )
    return f'<section class="wide tabs">{tabs}\n{panels}</section>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return a table; the columns in ``numbers`` are flush right."""

    def row(cells: Sequence[str], tag: str) -> str:
        made = [f"<{tag}{' class=n' if k in numbers else ''}>{escape(cell)}</{tag}>" for k, cell in enumerate(cells)]
        return f"<tr>{''.join(made)}</tr>\n"

    body = "".join(row(cells, "td") for cells in rows)
    return f"<table>{row(head, 'th') if head else ''}{body}</table>\n"


def _certificate(plan: PlacementPlan) -> str:
    certificate = plan.certificate
    rows = [
        (
            key.name if key.asked else f"{key.name} (for information)",
            f"{show_value(key.value, key.unit)}{unit_text(key.unit, key.value)}",
            "none claimed" if key.bound is None else show_value(key.bound, key.unit),
        )
        for key in certificate.keys
    ]
    proof = "".join(f"<li>{escape(line)}</li>" for line in certificate.proof)
    made = [f"planner {plan.planner}"] if plan.planner else []
    made.append(f"seed {plan.seed}")
    if plan.seconds is not None:
        made.append(f"found in {plan.seconds:.1f} s")
    return (
        f"<p><strong>{escape(certificate.status.value)}</strong>, gap {escape(gap_text(certificate))}</p>"
        + _table(("value", "of this plan", "proven bound"), rows, (1, 2))
        + (f"<ul>{proof}</ul>" if proof else "")
        + f"<p>{escape(', '.join(made))}</p>"
    )


def _baselines(plan: PlacementPlan) -> str:
    if not plan.baselines:
        return "<p>None was computed.</p>"
    key = plan.certificate.keys[0]
    rows = [("this plan", show_value(key.value, key.unit), "")]
    rows += [
        (one.name, show_value(one.value, key.unit), one.note)
        for one in sorted(plan.baselines, key=lambda one: (one.value, one.name))
    ]
    return _table(("method", f"{key.name}, {key.unit}", "note"), rows, (1,))


def _phases(plan: PlacementPlan) -> str:
    report = report_of(plan)
    phases = [*report.phases, report.together] if len(report.phases) != 1 else list(report.phases)
    rows = []
    for one in phases:
        name = "all at once" if one.name == "all" else one.name.upper()
        seconds = "not simulated: too large" if one.seconds is None else format_time(one.seconds)
        rows.append((name, show_value(one.max_load, report.unit), str(len(one.hottest)), seconds))
    if report.nominal_size is not None:
        basis = f"The problem gives no sizes: times are for {format_size(report.nominal_size)} a collective."
    else:
        basis = "Times are for the problem's sizes."
    return (
        _table(("phase", f"largest link load, {report.unit}", "links with it", "simulated time"), rows, (1, 2, 3))
        + f"<p>{escape(basis)} Links serve what waits for them by the rule {escape(report.discipline)}.</p>"
    )


def _problem(plan: PlacementPlan) -> str:
    problem = plan.problem
    fabric = problem.fabric
    shape = f", {' x '.join(map(str, fabric.shape))}" if fabric.shape else ""
    facts = [
        (
            "fabric",
            f"{fabric.name}: {len(fabric.seats)} NPUs{shape}, {len(fabric.nodes)} nodes, {len(fabric.links)} links",
        ),
        ("routing", fabric.routing),
        ("strategy", f"{problem.strategy}: {problem.strategy.workers} workers"),
        (
            "objective",
            f"{problem.objective}, {'all groups at once' if problem.concurrent else 'one phase after another'}",
        ),
    ]
    facts += [("note", " ".join(fabric.note.split()))] if fabric.note else []
    demands = [
        (one.dimension.upper(), one.pattern, _how(one), "-" if one.size is None else _size(one))
        for one in problem.demands
    ]
    return _table((), facts) + (
        f"<p></p>{_table(('groups', 'communicate', 'by', 'size'), demands, (3,))}" if demands else ""
    )


def _how(demand: Demand) -> str:
    words: list[str] = [demand.algorithm]
    if demand.order == "free":
        words.append("order free")
    if demand.dimension == "pp" and demand.direction == "both":
        words.append("both ways")
    if demand.weight > 1:
        words.append(f"weight {demand.weight}")
    return ", ".join(words)


def _size(demand: Demand) -> str:
    times = f" x {demand.count}" if demand.count > 1 else ""
    return f"{format_size(demand.size or 0)}{times}"


def _links(plan: PlacementPlan, phase: PhaseReport) -> str:
    """Return the links with the largest loads, each with its load in every phase."""
    report, fabric = report_of(plan), plan.problem.fabric
    ranked = sorted(zip(phase.loads, phase.links, strict=True), key=lambda pair: (-pair[0], pair[1]))
    if not ranked:
        return "<p>No link carries anything.</p>"
    apart = report.phases if phase.name == "all" else ()
    loads = [loads_of(one) for one in apart]
    head = ["link", f"load, {report.unit}", "", *(one.name.upper() for one in apart)]
    cells = "".join(f"<th{' class=n' if k == 1 or k > 2 else ''}>{escape(text)}</th>" for k, text in enumerate(head))
    lines = [f"<tr>{cells}</tr>"]
    for load, link in ranked[:MOST_LINKS]:
        parts = "".join(f"<td class=n>{_part(one.get(link), report.unit)}</td>" for one in loads)
        hot = " class=hot" if load == phase.max_load else ""
        lines.append(
            f"<tr{hot}><td>{escape(link_name(fabric, link))}</td><td class=n>{escape(load_text(load, report.unit))}</td>"
            f'<td class=bar><i style="width:{float(load / phase.max_load) * 100:.0f}%"></i></td>{parts}</tr>'
        )
    rest = len(fabric.links) - len(ranked)
    more = f"{len(ranked) - MOST_LINKS:,} more links carry less or as much. " if len(ranked) > MOST_LINKS else ""
    return "<table>" + "\n".join(lines) + f"</table>\n<p>{escape(more)}{rest:,} links carry nothing.</p>"


def _part(load: Fraction | None, unit: str) -> str:
    return escape(load_text(load, unit)) if load else ""
