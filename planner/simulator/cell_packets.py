"""Packets that stay whole, from queue to queue, each sent on when all of it has arrived.

Queues have no limit: what a lossless fabric would hold back at its sources by pausing them waits in the fabric here, and is
measured. Links do not tell service classes apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from fabric_plan.planner.simulator.cell_fabric import CellFabric
from fabric_plan.planner.simulator.cell_params import CellParams, Failure
from fabric_plan.planner.simulator.cell_policies import POLICIES
from fabric_plan.planner.simulator.cell_run import Packet, Run
from fabric_plan.planner.traffic import Flow


class PacketRun(Run):
    """A run in which a policy chooses the links of whole packets."""

    def __init__(
        self,
        fabric: CellFabric,
        flows: Sequence[Flow],
        params: CellParams,
        seed: int,
        failure: Failure | None,
        policy: str,
    ) -> None:
        super().__init__(fabric, flows, params, seed, failure)
        self.policy = POLICIES[policy](self)
        self._costs: dict[int, tuple[int, ...]] = {}

    def changed(self, now: int, code: int) -> None:
        """Tell the policy."""
        self.policy.changed(now, code)

    def enter(self, packet: Packet, now: int) -> None:
        """Send a packet on at once."""
        if packet.size not in self._costs:
            self._costs[packet.size] = self.costs(packet.size)
        packet.cost = self._costs[packet.size]
        if packet.flow.source == packet.target:
            self.egress(packet, now)
        else:
            self.forward(packet.flow.source, packet, now)

    def forward(self, device: int, packet: Packet, now: int) -> None:
        """Put a packet into the queue of the link that the policy chooses."""
        out = self.policy.choose(device, packet, now)
        if out < 0:
            self.lose(packet, now)
            return
        cost = packet.cost[self.speed[out]]
        end = max(self.free[out], now) + cost
        self.free[out] = end
        self.busy[out] += cost
        if end - now > self.worst[out]:
            self.worst[out] = end - now
        heappush(self.heap, (end + self.latency, self.number(), out, packet))

    def run(self) -> None:
        """Go through all events."""
        heap, head = self.heap, self.fabric.head
        events = 0
        while heap:
            now, _, code, item = heappop(heap)
            events += 1
            if code < 0:
                self.control(code, item, now)
            elif head[code] == item.target:
                self.egress(item, now)
            else:
                self.forward(head[code], item, now)
        self.events = events
