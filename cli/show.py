"""``fabric-plan show``: a plan drawn, in the terminal or into a file."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from fabric_plan.cli.options import output

if TYPE_CHECKING:
    from fabric_plan.planner.plan import PlacementPlan, Plan, RoutingPlan

SUFFIXES = (".svg", ".html", ".png")


@click.command("show", short_help="Draw a plan: in the terminal, or as SVG, HTML or PNG.")
@click.argument("plan_file", metavar="PLAN")
@output("Draw into this file: .svg, .html or .png (- for text on stdout).")
@click.option(
    "--phase",
    default="all",
    metavar="PHASE",
    show_default=True,
    help="Loads of all phases at once, or of one: mp, dp, pp, ...",
)
def command(plan_file: str, output: str | None, phase: str) -> None:
    """Draw a plan file (- for stdin): who sits where and what the links carry; or how flows run through a FRED
    switch; or when each chunk of a schedule crosses which link.

    \b
    Examples:
      fabric-plan show plan.json
      fabric-plan show plan.json --phase pp
      fabric-plan show plan.json -o plan.html
    """
    from fabric_plan.planner import files

    suffix = None if output in (None, "-") else PurePath(str(output)).suffix.lower()
    if suffix is not None and suffix not in SUFFIXES:
        raise click.UsageError(f"-o {output}: expected a file name that ends in {', '.join(SUFFIXES)}")
    if output is not None:
        files.check_writable(output)
    from fabric_plan.planner.plan import RoutingPlan

    found = valid_plan(plan_file)
    if isinstance(found, RoutingPlan):
        _show_routing(found, suffix, output)
        return
    if found.family == "schedule":
        _show_schedule(found, suffix, output)
        return
    plan = placement_of(found, plan_file)
    if suffix is None or output is None:
        _print(plan, phase)
    else:
        files.write_atomically(output, _drawn(plan, suffix, phase))


def _show_schedule(plan: Any, suffix: str | None, output: str | None) -> None:
    """Print a schedule, or draw when each chunk crosses which link."""
    if suffix is None or output is None:
        from fabric_plan.cli import schedule_console

        schedule_console.print_plan(plan, verbose=False)
        return
    from fabric_plan.planner import files
    from fabric_plan.planner.drawing import timeline

    files.write_atomically(output, timeline.write(plan, suffix))


def _show_routing(plan: RoutingPlan, suffix: str | None, output: str | None) -> None:
    from fabric_plan.cli import routing_console
    from fabric_plan.planner import files
    from fabric_plan.planner.drawing import switch

    if suffix is None or output is None:
        routing_console.print_plan(plan, verbose=True)
        return
    picture = switch.scene(plan)
    if suffix == ".png":
        from fabric_plan.planner.drawing import png

        files.write_atomically(output, png.render_png(picture))
        return
    from fabric_plan.planner.drawing import svg

    files.write_atomically(
        output, svg.standalone(picture) if suffix == ".svg" else switch.write_html(plan, svg.render(picture))
    )


def valid_plan(plan_file: str) -> Plan:
    """Return the plan of a file, simulated.

    Raises
    ------
    InvalidPlan
        When it is not valid, with the first fault.
    """
    from fabric_plan.planner import files, interface
    from fabric_plan.planner.errors import InvalidPlan

    plan, faults = files.read_plan(plan_file)
    plan, found = interface.validate(plan)
    faults += found
    if faults:
        more = f" (and {len(faults) - 1} more: fabric-plan validate lists them)" if len(faults) > 1 else ""
        raise InvalidPlan(f"{plan_file}: not a valid plan: {faults[0]}{more}")
    return plan


def placement_of(plan: Plan, plan_file: str) -> PlacementPlan:
    """Return a plan that is a placement.

    Raises
    ------
    InvalidPlan
        When it is of another family.
    """
    from fabric_plan.planner.errors import InvalidPlan
    from fabric_plan.planner.plan import PlacementPlan

    if not isinstance(plan, PlacementPlan):
        raise InvalidPlan(
            f"{plan_file}: expected a placement, plans of the family {plan.family} cannot be drawn or exported so"
        )
    return plan


def _drawn(plan: PlacementPlan, suffix: str, phase: str) -> bytes:
    from fabric_plan.planner.drawing import page, png, svg

    write = {".svg": svg.write_svg, ".html": page.write_page, ".png": png.write_png}[suffix]
    return write(plan, phase=phase)


def _print(plan: PlacementPlan, phase: str) -> None:
    import os
    import shutil

    from fabric_plan.planner.drawing import picture, text

    live = sys.stdout.isatty()
    width = shutil.get_terminal_size((100, 24)).columns if live else 100
    drawn = text.grid(plan, width=width, phase=phase, styled=live and not os.environ.get("NO_COLOR"))
    lines = f"{picture.headline(plan)}: {picture.certified(plan)}\n{drawn}"
    try:
        lines.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        lines = text.plain(lines).encode("ascii", "replace").decode()
    click.echo(lines)
