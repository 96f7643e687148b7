"""What a simulation of cells tells: times, loads, queues, losses; and the least time that any scheme could take."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fabric_plan.planner.simulator.cell_fabric import CellFabric
from fabric_plan.planner.simulator.cell_params import PICO, CellParams, Failure
from fabric_plan.planner.simulator.cell_run import Run
from fabric_plan.planner.simulator.cell_scheduled import ScheduledRun
from fabric_plan.planner.traffic import Flow


@dataclass(frozen=True, kw_only=True)
class QueuePeaks:
    """The longest queue of each kind, bytes, with what is being sent.

    Parameters
    ----------
    voq
        Of one virtual output queue (scheduled fabric only).
    fabric
        Of one fabric link; ``tiers`` has it by tier.
    egress
        Of one host port, at the egress node.
    """

    voq: int
    fabric: int
    egress: int
    tiers: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """One scheme, one seed.

    Parameters
    ----------
    completion_s, finish_s
        When the last byte of all flows, and of each, is with its user; seconds.
    durations_s
        Of each flow from its start.
    ideal_s
        A time that no scheme can beat; see :func:`ideal`.
    utilisation
        By directed link that flows could use: the share of the completion time for which it sent.
    skew, variation
        Busiest over mean, and standard deviation over mean, of what live links of one tier sent; of the tier where it is largest.
    skew_after
        The same for what was sent after the failure; None without one, or when nothing was sent.
    reordered
        Packets that reached their user's host after a later packet of the flow; those sent again are not counted.
    reorder_buffer_bytes
        The most that a host held of one flow for want of earlier packets.
    reassembly_bytes
        The most that an egress node held of incomplete packets, and of those waiting for them (scheduled fabric only).
    lost, resent
        Packets of which something was lost; packets sent again.
    credits
        Granted by all egress ports.
    events
        That were simulated.
    """

    scheme: str
    seed: int
    completion_s: float
    finish_s: tuple[float, ...]
    durations_s: tuple[float, ...]
    ideal_s: float
    utilisation: Mapping[str, float]
    skew: float
    variation: float
    skew_after: float | None
    queues: QueuePeaks
    reordered: int
    reorder_buffer_bytes: int
    reassembly_bytes: int
    lost: int
    resent: int
    credits: int
    bytes_delivered: int
    events: int

    @property
    def ratio(self) -> float:
        """Completion over the ideal."""
        return self.completion_s / self.ideal_s

    @property
    def mean_s(self) -> float:
        """Mean duration of a flow, seconds."""
        return math.fsum(self.durations_s) / len(self.durations_s)

    def percentile_s(self, percent: float) -> float:
        """Return the least duration, seconds, that ``percent`` of the flows do not exceed."""
        ordered = sorted(self.durations_s)
        return ordered[min(len(ordered) - 1, max(0, math.ceil(percent / 100 * len(ordered)) - 1))]


@dataclass(frozen=True, kw_only=True)
class SchemeReport:
    """A scheme over all seeds."""

    scheme: str
    runs: tuple[CellResult, ...]

    @property
    def completion_s(self) -> float:
        """Mean over seeds, seconds."""
        return self._mean("completion_s")

    @property
    def worst_s(self) -> float:
        """The longest completion of any seed, seconds."""
        return max(run.completion_s for run in self.runs)

    @property
    def ratio(self) -> float:
        """Mean completion over the ideal."""
        return self._mean("ratio")

    @property
    def skew(self) -> float:
        """Mean over seeds."""
        return self._mean("skew")

    @property
    def reordered(self) -> float:
        """Packets, mean over seeds."""
        return self._mean("reordered")

    @property
    def resent(self) -> float:
        """Packets, mean over seeds."""
        return self._mean("resent")

    def _mean(self, name: str) -> float:
        return math.fsum(getattr(run, name) for run in self.runs) / len(self.runs)


def collect(run: Run, scheme: str, ideal_s: float) -> CellResult:
    """Return the result of a run that has been checked."""
    fabric = run.fabric
    finish = tuple(flow.finish / PICO for flow in run.flows)
    end = max(flow.finish for flow in run.flows)
    usable = sorted(_usable(run) - run.dead)
    skew, variation = _skew(fabric, usable, run.busy)
    after = None
    if run.busy_at_failure is not None:
        rest = [all_ - before for all_, before in zip(run.busy, run.busy_at_failure, strict=True)]
        after = _skew(fabric, usable, rest)[0] if any(rest[link] for link in usable) else None
    tiers: dict[str, int] = defaultdict(int)
    for link, worst in enumerate(run.worst):
        if worst:
            tiers[fabric.tiers[link]] = max(tiers[fabric.tiers[link]], worst * fabric.rate[link] // PICO)
    voq = credits = reassembly = 0
    if isinstance(run, ScheduledRun):
        voq = max((one.worst for one in run.voqs.values()), default=0)
        credits, reassembly = run.credits, run.partial_peak
    return CellResult(
        scheme=scheme,
        seed=run.seed,
        completion_s=end / PICO,
        finish_s=finish,
        durations_s=tuple(at - flow.data.start_s for at, flow in zip(finish, run.flows, strict=True)),
        ideal_s=ideal_s,
        utilisation={fabric.names[link]: run.busy[link] / end for link in usable},
        skew=skew,
        variation=variation,
        skew_after=after,
        queues=QueuePeaks(
            voq=voq,
            fabric=max(tiers.values(), default=0),
            egress=max(sink.worst for sink in run.sinks.values()) * fabric.host_rate // PICO,
            tiers=dict(sorted(tiers.items())),
        ),
        reordered=sum(flow.reordered for flow in run.flows),
        reorder_buffer_bytes=max(flow.held_peak for flow in run.flows),
        reassembly_bytes=reassembly,
        lost=run.lost,
        resent=run.resent,
        credits=credits,
        bytes_delivered=sum(flow.got for flow in run.flows),
        events=run.events,
    )


def _usable(run: Run) -> set[int]:
    """Return the links that some flow could use, at the start."""
    found: set[int] = set()
    for source, target in {(flow.source, flow.target) for flow in run.flows if flow.source != flow.target}:
        stack, seen = [source], {source, target}
        while stack:
            for link in run.first_reach[stack.pop()][target]:
                found.add(link)
                if run.fabric.head[link] not in seen:
                    seen.add(run.fabric.head[link])
                    stack.append(run.fabric.head[link])
    return found


def _skew(fabric: CellFabric, links: Sequence[int], busy: Sequence[int]) -> tuple[float, float]:
    tiers: dict[str, list[int]] = defaultdict(list)
    for link in links:
        tiers[fabric.tiers[link]].append(busy[link])
    skew, variation = 1.0, 0.0
    for values in tiers.values():
        mean = sum(values) / len(values)
        if mean > 0:
            skew = max(skew, max(values) / mean)
            variation = max(variation, math.sqrt(sum((one - mean) ** 2 for one in values) / len(values)) / mean)
    return skew, variation


def ideal(fabric: CellFabric, flows: Sequence[Flow], params: CellParams, failure: Failure | None) -> float:
    """Return seconds below which no scheme delivers all flows.

    The largest of what each host port, each interface node and each zone has to send or receive, at the rate of its live links
    (before and after the failure), from the first start on and with the latency of the shortest path.
    """
    dead = set() if failure is None else {link for name in failure.links for link in fabric.directed(name)}
    at = math.inf if failure is None else failure.at_s
    groups: dict[Any, list[tuple[Flow, float]]] = defaultdict(list)
    for flow in flows:
        source, target = fabric.interface(flow.source), fabric.interface(flow.destination)
        one = (flow, params.link_latency_s * fabric.hops(source, target))
        groups["from port", flow.source, flow.source_port].append(one)
        groups["to port", flow.destination, flow.destination_port].append(one)
        if source != target:
            groups["from node", source].append(one)
            groups["to node", target].append(one)
        if flow.source[0] != flow.destination[0]:
            groups["from zone", flow.source[0]].append(one)
            groups["to zone", flow.destination[0]].append(one)
    before: dict[Any, int] = defaultdict(int)
    after: dict[Any, int] = defaultdict(int)
    for link, rate in enumerate(fabric.rate):
        tail, head = fabric.tail[link], fabric.head[link]
        keys: list[Any] = []
        if tail < fabric.interfaces:
            keys.append(("from node", tail))
        if head < fabric.interfaces:
            keys.append(("to node", head))
        if head >= fabric.first_spine:
            keys.append(("from zone", fabric.zone_of[tail]))
        if tail >= fabric.first_spine:
            keys.append(("to zone", fabric.zone_of[head]))
        for key in keys:
            before[key] += rate
            after[key] += 0 if link in dead else rate
    least = 0.0
    for key, members in groups.items():
        size = sum(flow.size_bytes for flow, _ in members)
        start = min(flow.start_s for flow, _ in members)
        fast, slow = (fabric.host_rate,) * 2 if key[0].endswith("port") else (before[key], after[key])
        early = max(0.0, at - start) * fast if math.isfinite(at) else math.inf
        took = size / fast if size <= early else max(0.0, at - start) + (size - early) / slow
        least = max(least, start + took + min(latency for _, latency in members))
    return least
