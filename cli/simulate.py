"""``fabric-plan simulate``: what a plan's links carry, how long it takes, and what it waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from fabric_plan.cli.options import talking

if TYPE_CHECKING:
    from fabric_plan.planner.fabric import Fabric
    from fabric_plan.planner.plan import PlacementPlan
    from fabric_plan.planner.schedule import SchedulePlan
    from fabric_plan.planner.simulator.disturb import Disturbance
    from fabric_plan.planner.simulator.service import Service
    from fabric_plan.planner.threads.validate import Source


@click.command("simulate", short_help="Simulate a plan: times, link loads, critical path, traces.")
@click.argument("plan_file", metavar="PLAN")
@click.option(
    "--discipline",
    type=click.Choice(["fifo", "fair"]),
    default="fifo",
    show_default=True,
    help="First come, first served; or max-min fair shares.",
)
@click.option(
    "--switching",
    type=click.Choice(["store-forward", "cut-through"]),
    default=None,
    help="Relays pass on whole messages, or bytes as they come (default: as the fabric says).",
)
@click.option(
    "--trace", default=None, metavar="FILE", help="Write a Chrome trace (.json, .json.gz), which Perfetto opens."
)
@click.option(
    "--late", multiple=True, metavar="NODE=TIME", help="A straggler: it sends nothing before, as in npu5=3ms."
)
@click.option("--slow", multiple=True, metavar="LINK=PART", help="A slow link, as in npu0->npu1=0.5.")
@click.option(
    "--fail", multiple=True, metavar="LINK[@T[-T]]", help="A link that fails, as in 7, npu0->npu1@1ms or @1ms-2ms."
)
@click.option(
    "-f",
    "--fabric",
    "fabric_name",
    default=None,
    metavar="NAME|FILE",
    help="Of another tool's schedule: where it runs.",
)
@click.option("--size", default=None, metavar="SIZE", help="Of another tool's schedule: bytes of the larger buffer.")
@click.option("--buffer", default=None, metavar="BYTES", help="Room at the far end of every link (default: no limit).")
@talking
def command(
    plan_file: str,
    discipline: str,
    switching: str | None,
    trace: str | None,
    late: tuple[str, ...],
    slow: tuple[str, ...],
    fail: tuple[str, ...],
    fabric_name: str | None,
    size: str | None,
    buffer: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Simulate a file (- for stdin), event by event: a plan, or, with --fabric, a schedule that another tool made.

    \b
    Examples:
      fabric-plan simulate s.json --switching cut-through --trace t.json
      fabric-plan simulate s.json --late npu5=3ms --slow "npu0->npu1=0.5"
      fabric-plan simulate s.json --fail "npu0->npu1@1ms-2ms"
      fabric-plan simulate allreduce.xml --fabric dgx1 --size 64MiB
    Exit code 1: it never finishes, or is wrong.
    """
    from fabric_plan.planner import files
    from fabric_plan.planner.balance import BalancePlan
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.plan import RoutingPlan
    from fabric_plan.planner.threads.validate import Source

    if trace is not None:
        files.check_writable(trace)
    source = Source.of(plan_file)
    if not source.is_plan:
        options = Options(discipline, switching, slow, fail, late, buffer)
        if not simulate_foreign(source, fabric_name, size, options, trace, as_json=as_json, verbose=verbose):
            raise click.exceptions.Exit(1)
        return
    for name, given in (("--fabric", fabric_name), ("--size", size)):
        if given is not None:
            raise InvalidInput(f"{name}: {plan_file} is a plan, which has its own")
    plan, faults = files.parse_plan(source.content, plan_file)
    if isinstance(plan, RoutingPlan):
        raise InvalidInput(f"{plan_file}: a routing takes no time: fabric-plan validate walks it")
    if isinstance(plan, BalancePlan):
        raise InvalidInput(f"{plan_file}: withdrawals take no time: fabric-plan balance compare simulates traffic")
    options = Options(discipline, switching, slow, fail, late, buffer)
    service, trouble = options.on(plan.problem.fabric)
    run: Any = _placement if plan.family == "placement" else _schedule
    if not run(plan, faults, service, trouble, plan_file, trace, as_json=as_json, verbose=verbose):
        raise click.exceptions.Exit(1)


@dataclass(frozen=True)
class Options:
    """How links serve and what is wrong with them, as the command line says it."""

    discipline: str
    switching: str | None
    slow: tuple[str, ...]
    fail: tuple[str, ...]
    late: tuple[str, ...]
    buffer: str | None

    def on(self, fabric: Fabric) -> tuple[Service, Disturbance]:
        """Return them for a fabric.

        Raises
        ------
        InvalidInput
            When they name what it does not have.
        """
        from fabric_plan.planner.simulator.disturb import Disturbance
        from fabric_plan.planner.simulator.service import Service
        from fabric_plan.planner.units import parse_size

        trouble = Disturbance.parse(fabric, slow=self.slow, fail=self.fail, late=self.late)
        room = {} if self.buffer is None else dict.fromkeys(range(len(fabric.links)), parse_size(self.buffer))
        switching = self.switching or fabric.costs.switching
        return Service(self.discipline, switching=switching, outages=trouble.outages, buffers=room), trouble


def simulate_foreign(
    source: Source,
    fabric_name: str | None,
    size: str | None,
    options: Options,
    trace: str | None,
    *,
    as_json: bool,
    verbose: bool,
) -> bool:
    """Check a schedule of another tool, simulate it, and print what came out; return whether it is right and ends."""
    from fabric_plan.cli import console, schedule_console, verdict_console
    from fabric_plan.planner import files, schedule_result
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.threads.timing import fits, missing_links, timed
    from fabric_plan.planner.threads.validate import read_source
    from fabric_plan.planner.units import parse_size

    asked = parse_size(size) if size is not None else None
    found = read_source(source, size=asked)
    if fabric_name is None:
        raise InvalidInput(f"{source.path}: a schedule that another tool made: say where it runs with --fabric")
    fabric = files.load_fabric(fabric_name)
    if found.program is None or found.messages is None or found.collective is None:
        if found.verdict.verdict == "valid":
            raise InvalidInput(f"{source.path}: {found.verdict.summary}: nothing in it can be timed")
        verdict_console.print_verdict(source.path, found.verdict, verbose=verbose)
        return False
    fits(found.collective, fabric, source.path)
    missing = missing_links(found.program, fabric)
    if missing:
        raise InvalidInput(f"{source.path}: {missing[0]}")
    used = found.size(asked)
    service, trouble = options.on(fabric)
    run = timed(found.program, found.messages, found.collective, fabric, used, found.depth, service, trouble)
    result, plan = run.simulation, run.plan
    if trace is not None:
        from fabric_plan.planner.formats.chrome_trace import write_trace

        title = f"{source.path} on {fabric.name}"
        files.write_atomically(
            trace, write_trace(result.timeline, result.fabric, lambda row: plan.transfers.name(row), title)
        )
    stuck = len(result.timeline.stuck)
    if as_json:
        document = schedule_result.simulation_document(plan, result.report)
        console.emit(verdict_console.document(source.path, found.verdict) | {"simulation": document})
    else:
        print(f"{source.path}: {found.verdict.summary}")
        if found.verdict.hangs_above is not None:
            print(f"  hangs above {found.verdict.hangs_above:,} bytes")
        named = found.collective.name != "custom"
        schedule_console.print_report(plan, result.report, result.fabric, verbose=verbose, bandwidths=named)
    return not stuck


def _schedule(
    plan: SchedulePlan,
    faults: list[str],
    service: Service,
    trouble: Disturbance,
    where: str,
    trace: str | None,
    *,
    as_json: bool,
    verbose: bool,
) -> bool:
    from fabric_plan.cli import console, schedule_console
    from fabric_plan.planner import files, schedule_result
    from fabric_plan.planner.errors import InvalidPlan
    from fabric_plan.planner.simulator import dataflow
    from fabric_plan.planner.simulator.schedule import simulate

    found = dataflow.check(plan)
    faults += found.faults
    try:
        # Under the protocol of its size, so that a slow link is slower than that.
        fabric = trouble.slowed(plan.problem.seen)
        result = simulate(plan, service, late=trouble.late, fabric=fabric, followed=found)
    except InvalidPlan as error:
        raise InvalidPlan(f"{where}: {error}") from None
    if trace is not None:
        from fabric_plan.planner.formats.chrome_trace import write_trace

        title = schedule_console.describe(plan)
        files.write_atomically(
            trace, write_trace(result.timeline, result.fabric, lambda row: plan.transfers.name(row), title)
        )
    report = result.report
    stuck = result.timeline.stuck
    if len(stuck):
        why = "their links failed, or wait for room in one another's buffers"
        faults.append(f"{len(stuck):,} of {len(plan.transfers):,} transfers never finish, first {stuck[0]}: {why}")
    if as_json:
        document = schedule_result.result_document(plan)
        document["simulation"] = schedule_result.simulation_document(plan, report)
        console.emit(document | {"findings": faults})
    else:
        print(schedule_console.describe(plan))
        for fault in faults:
            click.echo(f"fabric-plan: warning: {where}: {fault}", err=True)
        schedule_console.print_report(plan, report, result.fabric, verbose=verbose)
    return not len(stuck)


def _placement(
    plan: PlacementPlan,
    faults: list[str],
    service: Service,
    trouble: Disturbance,
    where: str,
    trace: str | None,
    *,
    as_json: bool,
    verbose: bool,
) -> bool:
    import msgspec

    from fabric_plan.cli import console
    from fabric_plan.planner import files, interface, result
    from fabric_plan.planner.errors import InvalidInput, InvalidPlan
    from fabric_plan.planner.simulator import placement
    from fabric_plan.planner.simulator.service import Service

    if trouble.late:
        raise InvalidInput("--late: ranks of a placement start together; it is for schedules")
    plan, found = interface.validate(plan)
    faults += found
    if plan.report is None:
        raise InvalidPlan(f"{where}: {faults[0]}")
    if service != Service() or trouble or trace is not None:
        problem = msgspec.structs.replace(plan.problem, fabric=trouble.slowed(plan.problem.fabric))
        report, timeline = placement.simulate_with(problem, plan.seats, plan.rings, service)
        plan = msgspec.structs.replace(plan, report=report)
        if trace is not None:
            from fabric_plan.planner.formats.chrome_trace import write_trace

            if timeline is None:
                raise InvalidInput("trace: too many hops to simulate them all")
            title = console.describe(plan)
            files.write_atomically(trace, write_trace(timeline, problem.fabric, lambda row: f"transfer {row}", title))
    assert plan.report is not None
    finishes = plan.report.together.seconds is not None or not trouble.outages
    if not finishes:
        faults.append("some transfers never finish: their links failed")
    if as_json:
        console.emit(result.result_document(plan) | {"findings": faults})
    else:
        print(console.describe(plan))
        for fault in faults:
            click.echo(f"fabric-plan: warning: {where}: {fault}", err=True)
        console.print_report(plan, plan.report, verbose=verbose)
    return finishes
