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
    from fabric_plan.planner.threads.validate import Source


@click.command(
    "validate", short_help="Check a plan, or a schedule that another tool made; exit 1 when it is not valid."
)
@click.argument("plan_file", metavar="FILE")
@click.option(
    "-f",
    "--fabric",
    "fabric_name",
    default=None,
    metavar="NAME|FILE",
    help="Of a schedule: look for its links here, and time it.",
)
@click.option(
    "--profile",
    type=click.Choice(["msccl", "executor", "rccl"]),
    default=None,
    help="Exit 1 too if this runtime refuses it.",
)
@click.option(
    "--size",
    default=None,
    metavar="SIZE",
    help="Bytes of the collective's larger buffer; all that the file allows if not given.",
)
@click.option("--all-sizes", is_flag=True, help="All sizes that the file allows; the default.")
@click.option("--root", type=click.IntRange(0), default=None, help="Of a broadcast, reduce, gather or scatter.")
@click.option("--prove", is_flag=True, help="Of a plan: solve again and hold the stated bound against what comes out.")
@click.option(
    "--time-limit", "time_limit", type=float, default=60.0, metavar="SECONDS", show_default=True, help="For --prove."
)
@talking
def command(
    plan_file: str,
    fabric_name: str | None,
    profile: str | None,
    size: str | None,
    all_sizes: bool,
    root: int | None,
    prove: bool,
    time_limit: float,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Check a file (- for stdin): a plan of fabric-plan, or a schedule that another tool made.

    A plan: what it does, its times and loads, values, bounds and digest. A schedule (MSCCL XML, MSCCL++ JSON, SCCL and TE-CCL JSON,
    ForestColl trees, Chakra traces, NCCL graphs; told by their content): whether it is right for every interleaving, whether it can
    hang and at which sizes, which runtimes refuse it, and, with --fabric, how long it takes.

    Exit code 0: valid; 1: not valid, with every reason; 2: not readable.

    \b
    Examples:
      fabric-plan validate plan.json
      fabric-plan validate allreduce.xml --fabric dgx1 --profile rccl
      fabric-plan validate allgather.xml --size 64MiB
    """
    from fabric_plan.cli import console
    from fabric_plan.planner import files, interface, result
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.threads.validate import Source

    if all_sizes and size is not None:
        raise InvalidInput("--all-sizes and --size exclude each other")
    source = Source.of(plan_file)
    if not source.is_plan:
        _foreign(source, fabric_name, profile, size, root, as_json=as_json, verbose=verbose)
        return
    plan, faults = files.parse_plan(source.content, plan_file)
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


def _foreign(
    source: Source,
    fabric_name: str | None,
    profile: str | None,
    size: str | None,
    root: int | None,
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    """Validate a schedule of another tool, and print or emit the verdict."""
    from fabric_plan.cli import console, verdict_console
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.files import load_fabric
    from fabric_plan.planner.threads.findings import unreadable
    from fabric_plan.planner.threads.validate import validate_source
    from fabric_plan.planner.units import parse_size

    fabric = load_fabric(fabric_name) if fabric_name is not None else None
    asked = parse_size(size) if size is not None else None
    try:
        verdict = validate_source(source, fabric=fabric, size=asked, root=root)
    except InvalidInput as error:
        if as_json:
            console.emit(verdict_console.document(source.path, unreadable(str(error))))
        raise
    if verdict.simulation is not None and fabric is not None:
        verdict_console.add_bound(verdict.simulation, fabric)
    if as_json:
        console.emit(verdict_console.document(source.path, verdict))
    else:
        verdict_console.print_verdict(source.path, verdict, verbose=verbose)
    refused = profile is not None and verdict.refused_by(profile)
    if refused and not as_json:
        print(f"{source.path}: refused by {profile}")
    if refused or verdict.verdict != "valid":
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
