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
@click.option("--phase", type=click.Choice(["mp", "dp", "pp"]), default=None, help="Of the strategy.")
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

    \b
    Ways out (--allow): block (fewest flows left out), phases (fewest rounds),
    move (fewest workers on other ports), middle (fewest middle networks),
    decompose (fewest all-reduces as rings).
    \b
    Examples:
      fabric-plan route --switch fred3:12 --groups "0-2;3,4;5-7"
      fabric-plan route --switch fred2:8 --groups "1,2;0,4;3,5;6,7" --allow phases
      fabric-plan route --switch fred3:18 -s MP3-DP3-PP2 --phase dp -v
    """
    from fabric_plan.cli import console, routing_console
    from fabric_plan.planner import files, routing_result
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.problem import RoutingProblem
    from fabric_plan.planner.switch_flows import parse_switch

    check_output(output, as_json=as_json)
    budget = budget_of(time_limit, workers, seed, deterministic)
    named, flows = _flows(flow_file, groups, strategy, phase, order, pp == "multicast")
    if collective != "all-reduce":
        steps = _steps(collective, flows)
        if fabric is not None or output is not None:
            raise InvalidInput(f"--collective {collective} runs in steps: it takes neither --fabric nor --output")
    if fabric is not None:
        if switch is not None or output is not None or allow != "nothing":
            raise InvalidInput("--fabric fred-20 takes no --switch, --allow or --output")
        _two_level(flows, budget, as_json=as_json)
        return
    if switch is None and named is None:
        raise InvalidInput("no switch: give --switch, as in fred3:12")
    middles, ports = parse_switch(switch or named or "")
    if collective != "all-reduce":
        problems = [RoutingProblem(middles=middles, ports=ports, flows=tuple(step), allow=allow) for step in steps]
        _in_steps(problems, planner, budget, as_json=as_json, quiet=quiet)
        return
    problem = RoutingProblem(middles=middles, ports=ports, flows=tuple(flows), allow=allow)
    plan = console.solve(problem, planner, budget, as_json=as_json, quiet=quiet)
    if output is not None:
        files.write_plan(plan, output)
    if as_json:
        console.emit(routing_result.result_document(plan))
    elif output != "-":
        routing_console.print_plan(plan, verbose=verbose)
        if output is not None:
            print(f"Written to {output}")


def _flows(
    flow_file: str | None, groups: str | None, strategy: str | None, phase: str | None, order: str, multicast: bool
) -> tuple[str | None, list[SwitchFlow]]:
    from fabric_plan.planner import files
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.parallelism import Strategy
    from fabric_plan.planner.switch_flows import parse_flows, parse_groups, strategy_flows

    given = [name for name, value in (("FLOWS", flow_file), ("--groups", groups), ("--strategy", strategy)) if value]
    if len(given) != 1:
        raise InvalidInput(
            f"flows: give a file, --groups or --strategy, one of them ({', '.join(given) or 'none'} given)"
        )
    if flow_file is not None:
        return parse_flows(files.read_bytes(flow_file), flow_file)
    if groups is not None:
        return None, parse_groups(groups)
    if phase is None:
        raise InvalidInput("--strategy needs --phase mp, dp or pp")
    return None, strategy_flows(Strategy.parse(strategy or ""), phase, order=order, multicast=multicast)


def _two_level(flows: list[SwitchFlow], budget: Budget, *, as_json: bool) -> None:
    """Route over the two-level fabric, walk it, and print every chiplet's flows and words."""
    from fabric_plan.cli import console
    from fabric_plan.models.routing.planners import FOUND
    from fabric_plan.models.routing.two_level import route_two_level
    from fabric_plan.planner.errors import Infeasible, LimitReached, PlanRejected
    from fabric_plan.planner.simulator.fred_walk import walk_two_level
    from fabric_plan.planner.switch_flows import flow_name

    found = route_two_level(flows, budget)
    if found.answer == "infeasible":
        raise Infeasible(
            f"fred-20 cannot route all {len(flows)} flows at once in its slices (each over one L2 chiplet), proved: "
            "fabric-plan prove placement --fabric fred-20 --order all finds an order that does"
        )
    if found.answer not in FOUND:
        raise LimitReached("the flows were neither routed nor proved to conflict in time: give more --time-limit")
    faults = walk_two_level(found.middles, found.chiplets, flows)
    if faults:
        raise PlanRejected(f"the walk refuses the routing of fred-20: {faults[0]}", tuple(faults))
    if as_json:
        chiplets = [
            {
                "name": one.name,
                "ports": one.ports,
                "flows": [
                    {"flow": origin, "inputs": flow.inputs, "outputs": flow.outputs, "word": word}
                    for origin, flow, word in zip(one.origins, one.flows, one.words, strict=True)
                ],
            }
            for one in found.chiplets
        ]
        console.emit({"schema": "fabric-plan/two-level-routing/1", "status": "optimal", "chiplets": chiplets})
        return
    print(f"{len(flows)} flows over fred-20: all route in each of its 5 slices, walked")
    for one in found.chiplets:
        print(f"  {one.name}, fred{found.middles}({one.ports}):")
        for origin, flow, word in zip(one.origins, one.flows, one.words, strict=True):
            print(f"    flow {origin:<3} {flow_name(flow):<28} word {''.join(map(str, word))}")


def _steps(collective: str, flows: list[SwitchFlow]) -> list[list[SwitchFlow]]:
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.switch_flows import flow_name, steps_of

    for flow in flows:
        if set(flow.inputs) != set(flow.outputs):
            raise InvalidInput(f"--collective {collective} needs groups, not the flow {flow_name(flow)}")
    return steps_of(collective, [flow.inputs for flow in flows])


def _in_steps(problems: list[RoutingProblem], planner: str, budget: Budget, *, as_json: bool, quiet: bool) -> None:
    """Route the serial steps of a compound collective one by one."""
    from fabric_plan.cli import console
    from fabric_plan.planner import routing_result
    from fabric_plan.planner.switch_flows import flow_name

    plans = [console.solve(problem, planner, budget, as_json=as_json, quiet=quiet) for problem in problems]
    if as_json:
        console.emit(
            {"schema": "fabric-plan/steps/1", "steps": [routing_result.result_document(plan) for plan in plans]}
        )
        return
    print(f"{len(plans)} serial steps, each routed and walked")
    for number, plan in enumerate(plans):
        key = plan.certificate.keys[0]
        told = "" if key.name == "blocked" and key.value == 0 else f", {key.value} {key.name}"
        print(f"  step {number}: {plan.certificate.status.value}{told}")
        for flow, word in zip(plan.flows, plan.words, strict=True):
            print(f"    {flow_name(flow):<28} {'left out' if word is None else 'word ' + ''.join(map(str, word))}")
