"""The same flows over the same small fabric in five ways, cell by cell or packet by packet.

- ``scheduled``: virtual output queues, credits of the egress ports, cells over all links, reassembly: what a disaggregated
  scheduled fabric does.
- ``ecmp``: each device hashes a flow to one of the links of shortest live paths.
- ``pinned``: each device has a fixed link for each destination, and hashes where that link is dead.
- ``adaptive``: each packet takes the least queued link.
- ``central``: the paths of all flows are planned together beforehand, and again some time after a failure.

All schemes lose what is queued for or under way on a link that dies, and what devices send where there is no way on before they have
learned of the failure; sources send it again. Hosts, latencies and the rule of what a link costs are the same for all. Times
are whole picoseconds (durations rounded up), so a seed has exactly one outcome.

The schemes are models of the five ways in general and not of a chip: headers, the clocks of serial lines, and the exact policy of a
device's buffers are left out. Spraying, credits and the drawbacks of the other four are those told in the article "From Hashing to
Scheduling: Why Meta Rebuilt Its AI Fabric"; sizes and delays are parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabric_plan.planner.dsf import Dsf
from fabric_plan.planner.errors import InvalidInput, suggest
from fabric_plan.planner.simulator.cell_fabric import CellFabric
from fabric_plan.planner.simulator.cell_packets import PacketRun
from fabric_plan.planner.simulator.cell_params import CellParams, Failure, Withdrawals
from fabric_plan.planner.simulator.cell_policies import POLICIES
from fabric_plan.planner.simulator.cell_report import CellResult, QueuePeaks, SchemeReport, collect, ideal
from fabric_plan.planner.simulator.cell_run import Run
from fabric_plan.planner.simulator.cell_scheduled import ScheduledRun
from fabric_plan.planner.traffic import Flow

__all__ = [
    "SCHEMES",
    "CellParams",
    "CellResult",
    "Failure",
    "Flow",
    "QueuePeaks",
    "SchemeReport",
    "Withdrawals",
    "compare",
    "estimate_events",
    "simulate_cells",
]

SCHEMES = ("scheduled", *POLICIES)

MAX_EVENTS = 30_000_000
"""Of all runs of a call together: a minute or so."""


def estimate_events(dsf: Dsf, flows: Sequence[Flow], scheme: str, params: CellParams | None = None) -> int:
    """Return about how many events a run without losses takes."""
    params = params or CellParams()
    fabric = CellFabric(dsf, params)
    total = 0
    for flow in flows:
        hops = fabric.hops(fabric.interface(flow.source), fabric.interface(flow.destination))
        packets = -(-flow.size_bytes // params.packet_bytes)
        if scheme == "scheduled":
            cells = packets * -(-min(params.packet_bytes, flow.size_bytes) // params.cell_bytes)
            credits = -(-flow.size_bytes // params.credit_bytes)
            total += hops * cells + 2 * packets + 2 * max(packets, credits)
        else:
            total += (hops + 1) * packets
    return total


def simulate_cells(
    dsf: Dsf,
    flows: Sequence[Flow],
    scheme: str = "scheduled",
    *,
    failure: Failure | None = None,
    params: CellParams | None = None,
    withdrawals: Withdrawals | None = None,
    seed: int = 0,
) -> CellResult:
    """Simulate one scheme up to the last byte, and check that every user got every byte once and in order.

    Parameters
    ----------
    withdrawals
        Reachability given up from the start, ``scheduled`` only; (device, destination) -> links not to be used for it, as
        {("y/fdsw0", "x/rdsw3"): ["y/fdsw0:sdsw0#1"]}. A device left with no link to a destination does not advertise it.

    Raises
    ------
    InvalidInput
        When there is no such scheme, no flow, a flow has no way, or there are too many events.
    PlanRejected
        When a byte was lost, came twice or out of order: a defect of the simulator.
    """
    return compare(
        dsf,
        flows,
        schemes=(scheme,),
        failure=failure,
        params=params,
        withdrawals=withdrawals,
        first_seed=seed,
    )[0].runs[0]


def compare(
    dsf: Dsf,
    flows: Sequence[Flow],
    schemes: Sequence[str] = SCHEMES,
    failure: Failure | None = None,
    params: CellParams | None = None,
    seeds: int = 1,
    *,
    withdrawals: Withdrawals | None = None,
    first_seed: int = 0,
) -> list[SchemeReport]:
    """Simulate the same flows under several schemes, each with several seeds; see :func:`simulate_cells`.

    What a seed draws: hashes, where spraying begins, ties of queues. ``central`` draws nothing and runs once.
    """
    params = params or CellParams()
    for scheme in schemes:
        if scheme not in SCHEMES:
            raise InvalidInput(
                f"scheme {scheme!r}{suggest(scheme, list(SCHEMES))}: expected one of {', '.join(SCHEMES)}"
            )
    if not flows:
        raise InvalidInput("cells: there are no flows to simulate")
    if seeds < 1:
        raise InvalidInput(f"{seeds} seeds: expected at least 1")
    runs = {scheme: 1 if scheme == "central" else seeds for scheme in schemes}
    events = sum(many * estimate_events(dsf, flows, scheme, params) for scheme, many in runs.items())
    if events > MAX_EVENTS:
        raise InvalidInput(
            f"about {events / 1e6:,.0f} million events; at most {MAX_EVENTS / 1e6:.0f} million are simulated: use fewer or "
            f"smaller flows, larger cells (now {params.cell_bytes} bytes), or fewer schemes or seeds (now {sum(runs.values())} runs)"
        )
    fabric = CellFabric(dsf, params)
    before = fabric.withdrawn(withdrawals or {})
    after = before | fabric.withdrawn(failure.withdrawals if failure is not None else {})
    least: float | None = None
    reports = []
    for scheme, many in runs.items():
        results = []
        for seed in range(first_seed, first_seed + many):
            run: Run
            if scheme == "scheduled":
                run = ScheduledRun(fabric, flows, params, seed, failure, before, after)
            else:
                run = PacketRun(fabric, flows, params, seed, failure, scheme)
            if least is None:
                least = ideal(fabric, flows, params, failure)
            run.run()
            run.check()
            results.append(collect(run, scheme, least))
        reports.append(SchemeReport(scheme=scheme, runs=tuple(results)))
    return reports
