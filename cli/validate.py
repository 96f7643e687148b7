"""``fabric-plan validate``: is this plan what it says it is?"""

from __future__ import annotations

from typing import Any

import click

from fabric_plan.cli.options import talking


@click.command("validate", short_help="Check a plan against every rule; exit 1 when it is not valid.")
@click.argument("plan_file", metavar="PLAN")
@click.option("--prove", is_flag=True, help="Solve the problem again and hold the stated bound against what comes out.")
@click.option(
    "--time-limit", "time_limit", type=float, default=60.0, metavar="SECONDS", show_default=True, help="For --prove."
)
@talking
def command(plan_file: str, prove: bool, time_limit: float, as_json: bool, quiet: bool, verbose: bool) -> None:
    """Check a plan file (- for stdin): seats, rings, loads, times, values, bounds and digest.

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
        console.emit(result.validation_document(plan_file, faults, plan, notes))
    else:
        certificate = plan.certificate
        for fault in faults:
            print(f"{plan_file}: {fault}")
        verdict = "not valid" if faults else "valid"
        value, bound = (
            result.show_value(x, certificate.keys[0].unit) for x in (certificate.objective, certificate.bound)
        )
        print(
            f"{plan_file}: {verdict}: {console.describe(plan)}; {certificate.status.value}, objective {value}, bound {bound}"
        )
        if plan.report is not None and verbose:
            console.print_report(plan, plan.report, verbose=False)
    if faults:
        raise click.exceptions.Exit(1)


def _disproved(plan: Any, time_limit: float, *, as_json: bool, quiet: bool) -> list[str]:
    """Solve again; return the contradictions with what the plan states."""
    from fabric_plan.cli.place import solve
    from fabric_plan.planner import interface, result

    again = solve(plan.problem, "auto", interface.Budget(seconds=time_limit), as_json=as_json, quiet=quiet)
    stated, found = plan.certificate, again.certificate
    unit = found.keys[0].unit
    faults = []
    if stated.bound is not None and found.objective < stated.bound:
        value, bound = result.show_value(found.objective, unit), result.show_value(stated.bound, unit)
        faults.append(f"certificate: the bound {bound} is false: a placement with {value} exists")
    if stated.bound is not None and found.bound is not None and found.bound < stated.bound and not faults:
        bound, proved = result.show_value(stated.bound, unit), result.show_value(found.bound, unit)
        click.echo(
            f"fabric-plan: warning: the bound {bound} was not proved again in {time_limit:g} s (only {proved})",
            err=True,
        )
    return faults
