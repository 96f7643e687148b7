"""``fabric-plan prove``: claims checked case by case."""

from __future__ import annotations

import sys
from typing import Any

import click

from fabric_plan.cli.options import output


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
@click.option("--time-limit", "time_limit", type=float, default=600.0, metavar="SECONDS", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document with every case.")
@output("Write that document here (.json, .json.gz).")
def placement_command(
    switch: str | None,
    fabric: str | None,
    orders: tuple[str, ...],
    time_limit: float,
    as_json: bool,
    output: str | None,
) -> None:
    """Route the MP, PP and DP phases of every strategy that fits, with workers on consecutive ports.

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
