"""``fabric-plan simulate``: what a plan's traffic does to the links, and how long it takes."""

from __future__ import annotations

import click

from fabric_plan.cli.options import talking


@click.command("simulate", short_help="Simulate a plan: link loads and phase times.")
@click.argument("plan_file", metavar="PLAN")
@talking
def command(plan_file: str, as_json: bool, quiet: bool, verbose: bool) -> None:
    """Simulate a plan file (- for stdin): link loads and phase times, event by event."""
    from fabric_plan.cli import console
    from fabric_plan.planner import files, interface, result
    from fabric_plan.planner.errors import InvalidPlan

    plan, faults = files.read_plan(plan_file)
    plan, found = interface.validate(plan)
    faults += found
    if plan.report is None:
        raise InvalidPlan(f"{plan_file}: {faults[0]}")
    if as_json:
        console.emit(result.result_document(plan) | {"findings": faults})
        return
    print(console.describe(plan))
    for fault in faults:
        click.echo(f"fabric-plan: warning: {plan_file}: {fault}", err=True)
    console.print_report(plan, plan.report, verbose=verbose)
