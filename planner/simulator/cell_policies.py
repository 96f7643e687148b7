"""Which link a device sends a packet over, where packets stay whole: hashing, pinning, least queued, planned paths.

A policy is asked at each device (:meth:`Policy.choose`, -1: no way, the packet is lost), and told when links have died or the
devices have learned of it. All choose among shortest live paths only.
"""

from __future__ import annotations

import random

from fabric_plan.planner.simulator.cell_params import ticks
from fabric_plan.planner.simulator.cell_paths import Demand, plan_paths
from fabric_plan.planner.simulator.cell_run import FAIL, REPLAN, FlowState, Packet, Run

_MASK = (1 << 64) - 1


def mix(*values: int) -> int:
    """Return a hash of some integers: 64 bits, the same on every machine."""
    state = 0x9E3779B97F4A7C15
    for value in values:
        state = ((state ^ value) * 0xBF58476D1CE4E5B9 + 0x94D049BB133111EB) & _MASK
        state ^= state >> 29
        state = (state * 0x94D049BB133111EB) & _MASK
        state ^= state >> 32
    return state


class Policy:
    """A way of choosing links in a run."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def choose(self, device: int, packet: Packet, now: int) -> int:
        """Return the link that a packet takes from a device now, or -1."""
        raise NotImplementedError

    def changed(self, now: int, code: int) -> None:
        """Take notice of what the run says is reachable, after FAIL, CONVERGE or REPLAN."""


class Ecmp(Policy):
    """Each device hashes the flow over the links towards its destination; a flow keeps its link while that one is usable."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.chosen: list[dict[int, int]] = [{} for _ in run.fabric.devices]
        self.tries: dict[tuple[int, int], int] = {}

    def choose(self, device: int, packet: Packet, now: int) -> int:
        """Return the link that the flow hashes to."""
        flow = packet.flow.index
        link = self.chosen[device].get(flow, -1)
        if link < 0:
            links = self.run.reach[device].get(packet.target)
            if links is None:
                return -1
            link = self.first(device, packet.flow, links)
            self.chosen[device][flow] = link
        return link

    def first(self, device: int, flow: FlowState, links: tuple[int, ...]) -> int:
        """Return the link of a flow that has none, or none any more."""
        attempt = self.tries.get((device, flow.index), 0)
        self.tries[device, flow.index] = attempt + 1
        return links[mix(self.run.seed, device, flow.index, attempt) % len(links)]

    def changed(self, now: int, code: int) -> None:
        """Forget the links that may not be used any more."""
        flows = self.run.flows
        for device, chosen in enumerate(self.chosen):
            row = self.run.reach[device]
            for flow, link in list(chosen.items()):
                if link not in row.get(flows[flow].target, ()):
                    del chosen[flow]


class Pinned(Ecmp):
    """Each device has one link for each destination (host port); where that one is not usable it hashes.

    The ports of a destination are dealt over the fabric nodes, its number over the links to spines, so that one flow to each port
    meets no other while all links live.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.built = run.reach
        fabric = run.fabric
        self.by_number = [fabric.names[link].partition("#")[2] for link in range(len(fabric.names))]

    def first(self, device: int, flow: FlowState, links: tuple[int, ...]) -> int:
        """Return the pinned link, or hash."""
        fabric = self.run.fabric
        pinned = self.built[device].get(flow.target, ())
        if pinned:
            zone, index = flow.data.destination
            ports = max(1, sum(fabric.head[link] == flow.target for link in range(len(fabric.head))))
            place = index * ports + flow.data.destination_port
            middles = fabric.dsf.zones[zone].fabrics
            if fabric.interfaces <= device < fabric.first_spine:
                link = pinned[place // middles % len(pinned)]
            else:
                numbered = sorted(pinned, key=lambda one: (self.by_number[one], fabric.head[one]))
                link = numbered[place % len(numbered)]
            if link in links:
                return link
        return super().first(device, flow, links)


class Adaptive(Policy):
    """Each device takes its least queued link, for each packet or for a few in a row; ties are drawn."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.draw = random.Random(run.seed).random
        self.flowlet = run.params.flowlet_packets
        self.current: dict[tuple[int, int], tuple[int, int]] = {}

    def choose(self, device: int, packet: Packet, now: int) -> int:
        """Return the least queued link."""
        links = self.run.reach[device].get(packet.target)
        if links is None:
            return -1
        if self.flowlet > 1:
            key = (device, packet.flow.index)
            link, left = self.current.get(key, (-1, 0))
            if left == 0 or link not in links:
                link, left = self._least(links, now), self.flowlet
            self.current[key] = (link, left - 1)
            return link
        return self._least(links, now)

    def _least(self, links: tuple[int, ...], now: int) -> int:
        free = self.run.free
        many = len(links)
        first = int(self.draw() * many)
        best, least = -1, 0
        for k in range(many):
            link = links[(first + k) % many]
            queued = free[link] - now
            if queued <= 0:
                return link
            if best < 0 or queued < least:
                best, least = link, queued
        return best


class Central(Policy):
    """Flows keep the paths planned for them together; after a failure those over dead links stall until there are new ones."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._plan()

    def _plan(self) -> None:
        run = self.run
        flows = [flow for flow in run.flows if flow.finish < 0 and flow.source != flow.target]
        demands = [Demand(flow.source, flow.target, flow.data.size_bytes - flow.got) for flow in flows]
        for flow, path in zip(flows, plan_paths(run.fabric, run.reach, demands), strict=True):
            flow.path = {run.fabric.tail[link]: link for link in path}

    def choose(self, device: int, packet: Packet, now: int) -> int:
        """Return the next link of the path that was the flow's when the packet set out."""
        if packet.path is None:
            packet.path = packet.flow.path or {}
        link = packet.path.get(device, -1)
        return -1 if link in self.run.dead else link

    def changed(self, now: int, code: int) -> None:
        """Stall what lost its path; plan again when it is time."""
        run = self.run
        if code == FAIL:
            for flow in run.flows:
                if flow.path is not None and any(link in run.dead for link in flow.path.values()):
                    flow.stalled = True
            run.push(now + max(ticks(run.params.replan_s), ticks(run.params.converge_s)), REPLAN, None)
        elif code == REPLAN:
            self._plan()
            for flow in run.flows:
                if flow.stalled:
                    flow.stalled = False
                    run.wake(flow, now)


POLICIES: dict[str, type[Policy]] = {"ecmp": Ecmp, "pinned": Pinned, "adaptive": Adaptive, "central": Central}
"""Schemes that keep packets whole."""
