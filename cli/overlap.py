"""``fabric-plan overlap``: a job's phases through one FRED switch at once, packet by packet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fabric_plan.cli.options import talking

if TYPE_CHECKING:
    from fabric_plan.planner.simulator.switch_protocol import Overlap, PacketReport, PhaseRun


@click.command("overlap", short_help="Simulate overlapping phases on a FRED switch, packet by packet.")
@click.option(
    "--switch", required=True, metavar="fredM:P", help="The switch: middle networks and ports, as in fred3:12."
)
@click.option("-s", "--strategy", required=True, metavar="S", help="Workers on consecutive ports, as in MP3-DP3-PP2.")
@click.option(
    "--sizes",
    required=True,
    metavar="PHASE=SIZE[@TIME],...",
    help="What each flow of a phase carries and when it is ready, as in dp=256KiB,mp=64KiB@50ns; a phase may come again.",
)
@click.option(
    "--order",
    default="mp-pp-dp",
    metavar="ORDER",
    show_default=True,
    help="Which dimension is on consecutive ports first.",
)
@click.option("--pp", type=click.Choice(["unicast", "multicast"]), default="unicast", show_default=True)
@click.option(
    "--faults", default="0%", metavar="RATE", show_default=True, help="Share of packets that links corrupt, as in 0.1%."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the faults.")
@click.option(
    "--reconfigure", default="0s", metavar="TIME", show_default=True, help="From one configuration to the next."
)
@talking
def command(
    switch: str,
    strategy: str,
    sizes: str,
    order: str,
    pp: str,
    faults: str,
    seed: int,
    reconfigure: str,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run the phases of a job on one FRED switch while they overlap: MP before PP before DP, with preemption.

    Every phase is routed first. Then packets of 4 KB run under virtual cut-through with credits, 24 KB buffers and Go-Back-N, at 3 TB/s a
    port: nothing may be lost, and no buffer may run over.

    \b
    Examples:
      fabric-plan overlap --switch fred3:18 -s MP3-DP3-PP2 --sizes dp=256KiB,mp=64KiB@50ns
      fabric-plan overlap --switch fred3:12 -s MP4-DP3 --sizes dp=1MiB,mp=64KiB@20ns,mp=64KiB@80ns --faults 0.1%
    """
    from fabric_plan.cli import console
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.parallelism import Strategy
    from fabric_plan.planner.simulator.switch_packets import simulate
    from fabric_plan.planner.simulator.switch_protocol import Faults, Overlap
    from fabric_plan.planner.switch_flows import parse_switch
    from fabric_plan.planner.units import parse_time

    middles, ports = parse_switch(switch)
    job = Strategy.parse(strategy)
    if job.workers > ports:
        raise InvalidInput(f"strategy {job} has {job.workers} workers, the switch only {ports} ports")
    runs = _runs(job, sizes, order, pp == "multicast")
    _route(runs, middles, ports)
    overlap = Overlap(ports=ports, phases=tuple(runs), reconfigure_s=parse_time(reconfigure))
    report = simulate(overlap, Faults(rate=_rate(faults), seed=seed))
    if as_json:
        console.emit(_document(overlap, report))
    else:
        _print(overlap, report)


def _runs(job: Any, sizes: str, order: str, multicast: bool) -> list[PhaseRun]:
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.simulator.switch_protocol import PhaseRun
    from fabric_plan.planner.switch_flows import PHASES, strategy_flows
    from fabric_plan.planner.units import parse_size, parse_time

    found = []
    for part in sizes.split(","):
        name, sign, rest = part.strip().partition("=")
        size, _, time = rest.partition("@")
        if not sign or name.lower() not in PHASES:
            raise InvalidInput(
                f"sizes: cannot read {part.strip()!r}: expected mp, dp or pp and a size, as in dp=256KiB,mp=64KiB@50ns"
            )
        flows = strategy_flows(job, name.lower(), order=order, multicast=multicast)
        if not flows:
            raise InvalidInput(f"sizes: {job} has nothing to send in the phase {name}")
        bytes_ = int(parse_size(size))
        release = parse_time(time) if time else 0
        found.append(
            PhaseRun(phase=name.lower(), flows=tuple(flows), sizes_bytes=(bytes_,) * len(flows), release_s=release)
        )
    return found


def _route(runs: list[PhaseRun], middles: int, ports: int) -> None:
    """Refuse phases that the switch cannot hold in one configuration."""
    from fabric_plan.models.routing.prove import Prover
    from fabric_plan.planner.errors import Infeasible, LimitReached
    from fabric_plan.planner.interface import Budget
    from fabric_plan.planner.switch_flows import flow_name

    prover = Prover(middles, ports, Budget(seconds=60))
    for run in runs:
        verdict, _, core = prover.route(run.flows)
        if verdict == "unknown":
            raise LimitReached(f"phase {run.phase} was neither routed nor refuted in time")
        if verdict == "conflicts":
            names = tuple(flow_name(run.flows[k]) for k in core)
            raise Infeasible(
                f"phase {run.phase} does not route through fred{middles}:{ports} at once: try another --order",
                core=names,
            )


def _rate(text: str) -> float:
    from fabric_plan.planner.errors import InvalidInput

    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise InvalidInput(f"faults {text!r}: expected a share of all packets, as in 0.1%") from None
    if not 0 <= value <= 0.5:
        raise InvalidInput(f"faults {text!r}: expected 0 to 50 % of all packets")
    return value


def _document(overlap: Overlap, report: PacketReport) -> dict[str, Any]:
    return {
        "schema": "fabric-plan/overlap/1",
        "ports": overlap.ports,
        "phases": [
            {
                "phase": run.phase,
                "flows": len(run.flows),
                "bytes": run.sizes_bytes[0],
                "finish": float(report.finish_s[k]),
                "configured": float(report.configured_s.get(k, 0)),
            }
            for k, run in enumerate(overlap.phases)
        ],
        "timeline": [{"seconds": float(at), "phase": phase} for at, phase in report.timeline],
        "reconfigurations": report.reconfigurations,
        "peak_bytes": {
            name: max(one[k] for one in report.peak_bytes) for k, name in enumerate(("mp", "pp", "dp", "control"))
        },
        "ack_overhead": float(report.ack_overhead),
        "header_overhead": float(report.header_overhead),
        "retransmitted": report.retransmitted,
        "corrupted": report.lost,
        "timeouts": report.timeouts,
        "nacks": len(report.nacks),
        "delivered_bytes": sum(report.delivered.values()),
        "events": report.events,
    }


def _print(overlap: Overlap, report: PacketReport) -> None:
    from fabric_plan.cli import console
    from fabric_plan.planner.units import format_size, format_time

    rows = [["phase", "flows", "each", "ready", "done", "configured"]]
    for k, run in enumerate(overlap.phases):
        flow = run.flows[0]
        ready = format_time(run.release_of(flow.inputs[0]))
        rows.append(
            [
                run.phase.upper(),
                str(len(run.flows)),
                format_size(run.sizes_bytes[0]),
                ready,
                format_time(report.finish_s[k]),
                format_time(report.configured_s.get(k, 0)),
            ]
        )
    print(f"{len(overlap.phases)} phases on a switch of {overlap.ports} ports, MP before PP before DP")
    console.table(rows)
    turns = ", ".join(f"{overlap.phases[k].phase.upper()} at {format_time(at)}" for at, k in report.timeline[:12])
    more = f", and {len(report.timeline) - 12} more" if len(report.timeline) > 12 else ""
    print(f"Configurations: {turns}{more}")
    peaks = [max(one[k] for one in report.peak_bytes) for k in range(4)]
    link = overlap.link
    print(
        f"Buffers at most: MP {peaks[0]:,}, PP {peaks[1]:,}, DP {peaks[2]:,} of {link.buffer_bytes:,} bytes, "
        f"control {peaks[3]:,} of {link.control_buffer_bytes:,}"
    )
    print(
        f"Acknowledgements {float(report.ack_overhead) * 100:.2f} % of data, headers {float(report.header_overhead) * 100:.2f} %; "
        f"{report.lost} packets corrupted, {len(report.nacks)} NACKs, {report.timeouts} timeouts, {report.retransmitted} sent again"
    )
    print(f"All {sum(report.delivered.values()):,} bytes delivered, each reduced over its flow's inputs once")
