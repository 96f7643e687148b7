"""``fabric-plan route``: flows through a FRED switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fabric_plan.cli.options import budget_of, check_output, output, solving, talking

if TYPE_CHECKING:
    from fabric_plan.planner.interface import Budget
    from fabric_plan.planner.problem import RoutingProblem, SwitchFlow

WAYS = ("nothing", "block", "phases", "move", "middle", "decompose")


@click.command("route", short_help="Route collectives through a FRED switch.")
@click.argument("flow_file", metavar="[FLOWS]", required=False)
@click.option(
    "--switch", default=None, metavar="fredM:P", help="The switch: middle networks and ports, as in fred3:12."
)
@click.option(
    "--fabric", type=click.Choice(["fred-20"]), default=None, help="The two-level fabric instead of one switch."
)
@click.option(
    "--groups", default=None, metavar="G", help='All-reduces by port, as in "0-2;3,4"; flows as in "0-2>4;3>0".'
)
@click.option(
    "--collective",
    type=click.Choice(["all-reduce", "reduce-scatter", "all-gather", "scatter", "gather", "all-to-all"]),
    default="all-reduce",
    show_default=True,
    help="What the groups run; all but all-reduce run in serial steps, each routed.",
)
@click.option("-s", "--strategy", default=None, metavar="S", help="Workers on consecutive ports, as in MP3-DP3-PP2.")
@click.option("--phase", type=click.Choice(["mp", "dp", "pp"]), default=None, help="Of the strategy; all if not given.")
@click.option(
    "--order",
    default="mp-pp-dp",
    metavar="ORDER",
    show_default=True,
    help="Which dimension is on consecutive ports first.",
)
@click.option("--pp", type=click.Choice(["unicast", "multicast"]), default="unicast", show_default=True)
@click.option(
    "--allow",
    type=click.Choice(WAYS),
    default="nothing",
    show_default=True,
    help="The way out where not all flows route at once.",
)
@output("Write the routing here (.json, .json.gz; - for stdout).")
@solving
@talking
def command(
    flow_file: str | None,
    switch: str | None,
    fabric: str | None,
    groups: str | None,
    collective: str,
    strategy: str | None,
    phase: str | None,
    order: str,
    pp: str,
    allow: Any,
    output: str | None,
    planner: str,
    time_limit: float,
    workers: int | None,
    seed: int,
    deterministic: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Find the colour word of every flow through a FRED switch, or prove that there is none.

    FLOWS is a file (- for stdin): {"switch": "fred3:12", "flows": [{"group": [0, 1]}, {"inputs": [2], "outputs": [3, 4]}]}.
    On fred-20 ports 0 to 19 are the NPUs, 20 to 37 the I/O controllers.

    \b
    Ways out (--allow): block (fewest flows left out), phases (fewest rounds),
    move (fewest workers on other ports), middle (fewest middle networks),
    decompose (fewest all-reduces as rings).
    \b
    Examples:
      fabric-plan route --switch fred3:12 --groups "0-2;3,4;5-7"
      fabric-plan route --switch fred2:8 --groups "1,2;0,4;3,5;6,7" --allow phases
      fabric-plan route --switch fred3:18 -s MP3-DP3-PP2 --phase dp -v
      fabric-plan route --fabric fred-20 -s MP3-DP3-PP2
    """
    from fabric_plan.cli import console, routing_console
    from fabric_plan.planner import files, routing_result
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.switch_flows import switch_problem

    check_output(output, as_json=as_json)
    budget = budget_of(time_limit, workers, seed, deterministic)
    if switch is not None and fabric is not None:
        raise InvalidInput("give --switch or --fabric, one of them")
    named, parts = _parts(flow_file, groups, strategy, phase, order, pp == "multicast")
    name = fabric or switch or named
    if name is None:
        raise InvalidInput("no switch: give --switch, as in fred3:12, or --fabric fred-20")
    if collective != "all-reduce":
        if len(parts) > 1:
            raise InvalidInput(f"--collective {collective} needs one phase: give --phase")
        parts = _steps(collective, parts[0][1])
    problems = [(title, switch_problem(name, flows, allow)) for title, flows in parts]
    if len(problems) != 1:
        if output is not None:
            raise InvalidInput(f"--output takes one routing, here are {len(problems)}: give --phase")
        _one_by_one(problems, planner, budget, as_json=as_json, quiet=quiet)
        return
    plan = console.solve(problems[0][1], planner, budget, as_json=as_json, quiet=quiet)
    if output is not None:
        files.write_plan(plan, output)
    if as_json:
        console.emit(routing_result.result_document(plan))
    elif output != "-":
        routing_console.print_plan(plan, verbose=verbose)
        if output is not None:
            print(f"Written to {output}")


def _parts(
    flow_file: str | None, groups: str | None, strategy: str | None, phase: str | None, order: str, multicast: bool
) -> tuple[str | None, list[tuple[str, list[SwitchFlow]]]]:
    """Return the switch that a file names, and what is routed one after another: (title, flows)."""
    from fabric_plan.planner import files
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.parallelism import Strategy
    from fabric_plan.planner.switch_flows import PHASES, parse_flows, parse_groups, strategy_flows

    given = [name for name, value in (("FLOWS", flow_file), ("--groups", groups), ("--strategy", strategy)) if value]
    if len(given) != 1:
        raise InvalidInput(
            f"flows: give a file, --groups or --strategy, one of them ({', '.join(given) or 'none'} given)"
        )
    if phase is not None and strategy is None:
        raise InvalidInput("--phase is of a strategy: give --strategy")
    if flow_file is not None:
        named, flows = parse_flows(files.read_bytes(flow_file), flow_file)
        return named, [("flows", flows)]
    if groups is not None:
        return None, [("flows", parse_groups(groups))]
    job = Strategy.parse(strategy or "")
    wanted = [phase] if phase is not None else [name for name in PHASES if job.size(name) > 1]
    if not wanted:
        raise InvalidInput(f"strategy {job}: it has one worker, which has nobody to talk to")
    return None, [(one, strategy_flows(job, one, order=order, multicast=multicast)) for one in wanted]


def _steps(collective: str, flows: list[SwitchFlow]) -> list[tuple[str, list[SwitchFlow]]]:
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.switch_flows import flow_name, steps_of

    for flow in flows:
        if set(flow.inputs) != set(flow.outputs):
            raise InvalidInput(f"--collective {collective} needs groups, not the flow {flow_name(flow)}")
    steps = steps_of(collective, [flow.inputs for flow in flows])
    return [(f"step {number}", step) for number, step in enumerate(steps)]


def _one_by_one(
    problems: list[tuple[str, RoutingProblem]], planner: str, budget: Budget, *, as_json: bool, quiet: bool
) -> None:
    """Route the phases of a job, or the serial steps of a compound collective, and say what memory they need."""
    from fabric_plan.cli import console, routing_console
    from fabric_plan.planner import routing_result

    plans = [
        (title, console.solve(problem, planner, budget, as_json=as_json, quiet=quiet)) for title, problem in problems
    ]
    memory = routing_result.memory_document([plan for _, plan in plans])
    if as_json:
        results = [{"title": title, **routing_result.result_document(plan)} for title, plan in plans]
        console.emit({"schema": "fabric-plan/routings/1", "routings": results, "memory": memory})
        return
    for title, plan in plans:
        print(f"{title}: ", end="")
        routing_console.print_plan(plan, verbose=False)
    kept = f"{memory['configurations']} configuration(s) of {memory['bits']:,} bits"
    fits = "fits" if memory["bytes"] <= memory["paper_bytes"] else "does not fit"
    print(f"Memory for {kept}: {memory['bytes']:,} bytes a switch, which {fits} the paper's {memory['paper_bytes']:,}")
