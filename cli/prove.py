"""``fabric-plan prove``: claims checked case by case."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from fabric_plan.cli.options import output

if TYPE_CHECKING:
    from fabric_plan.models.routing.prove import Prover


@click.group("prove", short_help="Check a claim case by case: which strategies route on a FRED switch.")
def command() -> None:
    """Check a claim for every case, with a proof or a counterexample for each."""


@command.command("placement", short_help="Which strategies route on a FRED switch in an order.")
@click.option("--switch", default=None, metavar="fredM:P", help="As in fred3:20.")
@click.option(
    "--fabric", type=click.Choice(["fred-20"]), default=None, help="The two-level fabric instead of one switch."
)
@click.option(
    "--order",
    "orders",
    multiple=True,
    default=("mp-pp-dp",),
    metavar="ORDER",
    show_default=True,
    help="Which dimension is on consecutive ports first, then next; may be repeated; all for the six.",
)
@click.option(
    "--arbitrary",
    default=None,
    metavar="S",
    help="Instead: workers of this strategy on any ports; how often its phases route.",
)
@click.option("--samples", type=click.IntRange(1), default=1000, show_default=True, help="Random placements a phase.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--time-limit", "time_limit", type=float, default=600.0, metavar="SECONDS", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document with every case.")
@output("Write that document here (.json, .json.gz).")
def placement_command(
    switch: str | None,
    fabric: str | None,
    orders: tuple[str, ...],
    arbitrary: str | None,
    samples: int,
    seed: int,
    time_limit: float,
    as_json: bool,
    output: str | None,
) -> None:
    """Route the MP, PP and DP phases of every strategy that fits, with workers on consecutive ports.

    With --arbitrary, one strategy's workers sit anywhere: every way to seat its groups is tried where there are at most 50,000, else
    random ones are.

    Exit code 0: all route; 1: some do not, each with flows that conflict.
    """
    from fabric_plan.cli import console
    from fabric_plan.models.routing.prove import Case, Prover, TwoLevelProver
    from fabric_plan.planner import files
    from fabric_plan.planner.errors import InvalidInput, LimitReached
    from fabric_plan.planner.interface import Budget
    from fabric_plan.planner.switch_flows import ORDERS, flow_name, parse_switch, strategy_flows

    if output is not None:
        files.check_writable(output)
    if (switch is None) == (fabric is None):
        raise InvalidInput("give --switch, as in fred3:20, or --fabric fred-20, one of them")
    wanted = list(ORDERS) if "all" in orders else list(dict.fromkeys(orders))
    live, count = sys.stderr.isatty() and not as_json, 0

    def progress(case: Case) -> None:
        nonlocal count
        count += 1
        if live and count % 50 == 0:
            sys.stderr.write(f"\r{count} cases, now {case.strategy} {case.order} {case.phase}        ")
            sys.stderr.flush()

    budget = Budget(seconds=time_limit)
    prover = Prover(*parse_switch(switch), budget) if switch is not None else TwoLevelProver(budget)
    if arbitrary is not None:
        _arbitrary(prover, switch or fabric or "", arbitrary, samples, seed, as_json=as_json, output=output)
        return
    cases = prover.cases(wanted, on_case=progress)
    good = prover.good_orders(wanted)
    lost = [str(strategy) for strategy, order in good.items() if order is None]
    name = switch or fabric
    if live:
        sys.stderr.write("\r" + " " * 70 + "\r")
    failing = [case for case in cases if case.verdict == "conflicts"]
    unknown = sum(case.verdict == "unknown" for case in cases)

    def entry(case: Case) -> dict[str, Any]:
        return {
            "strategy": str(case.strategy),
            "order": case.order,
            "phase": case.phase,
            "verdict": case.verdict,
            "words": [list(word) for word in case.words],
            "conflicting": list(case.core),
        }

    document = {
        "schema": "fabric-plan/proof/1",
        "switch": name,
        "orders": wanted,
        "cases": len(cases),
        "routes": len(cases) - len(failing) - unknown,
        "conflicts": len(failing),
        "unknown": unknown,
        "orders_that_route": {str(strategy): order for strategy, order in good.items()},
        "results": [entry(case) for case in cases],
    }
    if output is not None:
        files.write_atomically(output, files.dump(document))
    if as_json:
        console.emit(document)
    else:
        print(
            f"{name}, {', '.join(wanted)}: {len(cases)} phases of {len({str(one.strategy) for one in cases})} strategies: "
            f"{document['routes']} route, {len(failing)} conflict, {unknown} not decided"
        )
        for case in failing[:20]:
            flows = strategy_flows(case.strategy, case.phase, order=case.order)
            told = " ".join(flow_name(flows[k]) for k in case.core)
            print(f"  {case.strategy} {case.order} {case.phase.upper()}: {told} conflict")
        if len(failing) > 20:
            print(f"  ... and {len(failing) - 20} more (--json has all)")
        if failing and len(wanted) > 1:
            told = f"none for {', '.join(lost[:8])}" if lost else "every strategy has one"
            print(f"Orders in which all phases route: {told}")
    if failing:
        raise click.exceptions.Exit(1)
    if unknown:
        raise LimitReached(f"{unknown} cases were not decided in {time_limit:g} s")


def _arbitrary(
    prover: Prover, name: str, strategy: str, samples: int, seed: int, *, as_json: bool, output: str | None
) -> None:
    from fabric_plan.cli import console
    from fabric_plan.models.routing.arbitrary import shares
    from fabric_plan.planner import files
    from fabric_plan.planner.errors import InvalidInput, LimitReached
    from fabric_plan.planner.parallelism import Strategy
    from fabric_plan.planner.switch_flows import flow_name

    job = Strategy.parse(strategy)
    if job.workers > prover.ports:
        raise InvalidInput(f"strategy {job} has {job.workers} workers, {name} only {prover.ports} ports")
    live = sys.stderr.isatty() and not as_json

    def progress(phase: str, tried: int) -> None:
        if live:
            sys.stderr.write(f"\r{phase.upper()}: {tried:,} placements        ")
            sys.stderr.flush()

    found = shares(prover, job, samples, seed, progress)
    if live:
        sys.stderr.write("\r" + " " * 70 + "\r")
    document = {
        "schema": "fabric-plan/arbitrary/1",
        "switch": name,
        "strategy": str(job),
        "seed": seed,
        "phases": [
            {
                "phase": one.phase,
                "tried": one.tried,
                "conflicts": one.failed,
                "unknown": one.unknown,
                "every": one.every,
                "error": one.error,
                "witness": [[flow.inputs, flow.outputs] for flow in one.witness],
                "conflicting": list(one.core),
            }
            for one in found
        ],
    }
    if output is not None:
        files.write_atomically(output, files.dump(document))
    if as_json:
        console.emit(document)
    else:
        print(f"{job} on any ports of {name}:")
        for one in found:
            drawn = "ways to seat its groups, all of them" if one.every else f"random placements (seed {seed})"
            share = 100 * one.failed / one.tried
            within = "" if one.every else f" +- {100 * one.error:.1f}"
            print(
                f"  {one.phase.upper()}: {one.failed:,} of {one.tried:,} {drawn}, do not route: {share:.1f}{within} %"
            )
            if one.witness:
                print(f"      as {' '.join(flow_name(one.witness[k]) for k in one.core or range(len(one.witness)))}")
    if any(one.failed for one in found):
        raise click.exceptions.Exit(1)
    if any(one.unknown for one in found):
        raise LimitReached("some placements were not decided in time: give more --time-limit")
