"""``fabric-plan validate``: is this plan what it says it is?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from fabric_plan.cli.options import talking

if TYPE_CHECKING:
    from fabric_plan.planner.balance import BalancePlan
    from fabric_plan.planner.files import AnyPlan
    from fabric_plan.planner.plan import PlacementPlan, RoutingPlan
    from fabric_plan.planner.schedule import SchedulePlan


@click.command("validate", short_help="Check a plan against every rule; exit 1 when it is not valid.")
@click.argument("plan_file", metavar="PLAN")
@click.option("--prove", is_flag=True, help="Solve the problem again and hold the stated bound against what comes out.")
@click.option(
    "--time-limit", "time_limit", type=float, default=60.0, metavar="SECONDS", show_default=True, help="For --prove."
)
@talking
def command(plan_file: str, prove: bool, time_limit: float, as_json: bool, quiet: bool, verbose: bool) -> None:
    """Check a plan file (- for stdin): what it does, its times and loads, values, bounds and digest.

    Exit code 0: valid; 1: not valid, with every reason; 2: not readable as a plan.
    """
    from fabric_plan.cli import console
    from fabric_plan.planner import files, interface, result

    plan, faults = files.read_plan(plan_file)
    plan, found = interface.validate(plan)
    faults += found
    notes = [] if prove else ["bound: taken from the certificate; --prove solves again and compares"]
    if prove and not faults:
        faults += _disproved(plan, time_limit, as_json=as_json, quiet=quiet)
    if as_json:
        console.emit(result.validation_document(plan_file, faults, _simulation(plan), notes))
    else:
        certificate = plan.certificate
        for fault in faults:
            print(f"{plan_file}: {fault}")
        verdict = "not valid" if faults else "valid"
        told = _describe(plan)
        if certificate.keys:
            unit = certificate.keys[0].unit
            value, bound = (result.show_value(x, unit) for x in (certificate.objective, certificate.bound))
            told += f"; {certificate.status.value}, objective {value}, bound {bound}"
        print(f"{plan_file}: {verdict}: {told}")
        if verbose:
            _print_report(plan)
    if faults:
        raise click.exceptions.Exit(1)


def _simulation(plan: AnyPlan) -> dict[str, Any] | None:
    if plan.report is None:
        return None
    if plan.family == "placement":
        from fabric_plan.planner.result import simulation_document

        placed = cast("PlacementPlan", plan)
        return simulation_document(placed, placed.report) if placed.report is not None else None
    if plan.family == "routing":
        from fabric_plan.planner import routing_result

        routed = cast("RoutingPlan", plan)
        return routing_result.simulation_document(routed.report) if routed.report is not None else None
    if plan.family == "balance":
        from fabric_plan.planner import balance_result

        balanced = cast("BalancePlan", plan)
        return balance_result.simulation_document(balanced.report) if balanced.report is not None else None
    from fabric_plan.planner import schedule_result

    scheduled = cast("SchedulePlan", plan)
    return schedule_result.simulation_document(scheduled, scheduled.report) if scheduled.report is not None else None


def _describe(plan: AnyPlan) -> str:
    if plan.family == "placement":
        from fabric_plan.cli.console import describe

        return describe(cast("PlacementPlan", plan))
    if plan.family == "routing":
        from fabric_plan.cli import routing_console

        return routing_console.describe(cast("RoutingPlan", plan))
    if plan.family == "balance":
        from fabric_plan.cli import balance_console

        return balance_console.describe(cast("BalancePlan", plan))
    from fabric_plan.cli import schedule_console

    return schedule_console.describe(cast("SchedulePlan", plan))


def _print_report(plan: AnyPlan) -> None:
    from fabric_plan.cli import console, schedule_console

    if plan.family == "placement":
        placed = cast("PlacementPlan", plan)
        if placed.report is not None:
            console.print_report(placed, placed.report, verbose=False)
        return
    if plan.family in ("routing", "balance"):
        return
    scheduled = cast("SchedulePlan", plan)
    if scheduled.report is not None:
        schedule_console.print_report(scheduled, scheduled.report, scheduled.problem.fabric, verbose=False)


def _disproved(plan: Any, time_limit: float, *, as_json: bool, quiet: bool) -> list[str]:
    """Solve again; return the contradictions with what the plan states."""
    from fabric_plan.cli.console import solve
    from fabric_plan.planner import interface, result

    again = solve(plan.problem, "auto", interface.Budget(seconds=time_limit), as_json=as_json, quiet=quiet)
    stated, found = plan.certificate, again.certificate
    unit = found.keys[0].unit
    faults = []
    if stated.bound is not None and stated.keys[0].maximised:
        if found.objective > stated.bound:
            faults.append(f"certificate: the bound {stated.bound} is false: a plan with {found.objective} exists")
        return faults
    if stated.bound is not None and found.objective < stated.bound:
        value, bound = result.show_value(found.objective, unit), result.show_value(stated.bound, unit)
        faults.append(f"certificate: the bound {bound} is false: a {plan.family} with {value} exists")
    if stated.bound is not None and found.bound is not None and found.bound < stated.bound and not faults:
        bound, proved = result.show_value(stated.bound, unit), result.show_value(found.bound, unit)
        click.echo(
            f"fabric-plan: warning: the bound {bound} was not proved again in {time_limit:g} s (only {proved})",
            err=True,
        )
    return faults
