"""The scheduled fabric: virtual output queues, credits, cells over all links, reassembly.

A packet waits at its ingress node in the queue of its egress port and service class, and a request goes to that port. The port
grants credits no faster than it can send, nor faster than its node's live links can bring cells; among the queues of a class in
turn. A granted packet is cut into cells, which every device spreads over all links on which the destination is advertised. The
egress node puts packets together, and hands those of a flow on in the order in which they were sent; a packet of which a cell was
lost is skipped, and its source sends it again.

An ingress node does not put cells on its links faster than those that lead to the destination can take them: what was granted to it
by several ports at once waits in the queues. Headers are not counted.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import cycle
from typing import Any

from fabric_plan.planner.errors import PlanRejected
from fabric_plan.planner.simulator.cell_fabric import CellFabric, Withdrawn
from fabric_plan.planner.simulator.cell_params import PICO, CellParams, Failure
from fabric_plan.planner.simulator.cell_run import CREDIT, GRANT, REQUEST, SEND, Packet, Run, Sink
from fabric_plan.planner.traffic import Flow


class Voq:
    """The queue at an ingress node for one egress port and service class; ``demand`` is what the port knows of it."""

    __slots__ = ("balance", "bytes", "demand", "latency", "level", "queue", "sink", "source", "worst")

    def __init__(self, source: int, sink: Sink, level: int, latency: int) -> None:
        self.source, self.sink, self.level, self.latency = source, sink, level, latency
        self.queue: deque[Packet] = deque()
        self.balance = self.bytes = self.demand = self.worst = 0


class Granter:
    """The scheduler of an egress port: queues with demand by class, and whether it is at work."""

    __slots__ = ("busy", "requests", "turn")

    def __init__(self, classes: int) -> None:
        self.requests: list[deque[Voq]] = [deque() for _ in range(classes)]
        self.turn = [0] * classes
        self.busy = False


class ScheduledRun(Run):
    """A run of the scheduled fabric."""

    def __init__(
        self,
        fabric: CellFabric,
        flows: Sequence[Flow],
        params: CellParams,
        seed: int,
        failure: Failure | None,
        withdrawn: Withdrawn = frozenset(),
        withdrawn_after: Withdrawn = frozenset(),
    ) -> None:
        super().__init__(fabric, flows, params, seed, failure, withdrawn, withdrawn_after)
        self.rng = random.Random(seed)
        classes = 1 + max((flow.service_class for flow in flows), default=0)
        given = params.class_weights
        self.weights = None if given is None else [given[min(k, len(given) - 1)] for k in range(classes)]
        self.voqs: dict[tuple[int, int, int], Voq] = {}
        self.voq: list[Voq] = []
        for flow in self.flows:
            key = (flow.source, flow.sink.index, flow.data.service_class)
            latency = self.latency * fabric.hops(flow.source, flow.target)
            self.voq.append(self.voqs.setdefault(key, Voq(flow.source, flow.sink, key[2], latency)))
        self.granters = [Granter(classes) for _ in self.sinks]
        self.handed = [0] * len(self.flows)
        self.sent = [0] * len(self.flows)
        self.complete: list[dict[int, Packet]] = [{} for _ in self.flows]
        self.partial = [0] * fabric.interfaces
        self.partial_peak = 0
        self.credits = 0
        self.granted_until = [0] * fabric.interfaces
        self.sending_until = [0] * fabric.interfaces
        self._cuts: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.spread: list[dict[int, Callable[[], int]]] = []
        self.into: list[int] = []
        self.changed(0, 0)

    def changed(self, now: int, code: int) -> None:
        """Spread over what is reachable now, and grant what a node's live links can bring."""
        rate = self.fabric.rate
        self.into = [0] * self.fabric.interfaces
        for link, head in enumerate(self.fabric.head):
            if head < self.fabric.interfaces and link not in self.dead:
                self.into[head] += rate[link]
        self.spread = [{target: self._over(links) for target, links in row.items()} for row in self.reach]

    def _over(self, links: tuple[int, ...]) -> Callable[[], int]:
        first = self.rng.randrange(len(links))
        if self.params.spray == "random":
            draw, many = self.rng.random, len(links)
            return lambda: links[int(draw() * many)]
        return cycle(links[first:] + links[:first]).__next__

    def enter(self, packet: Packet, now: int) -> None:
        """Queue a packet (a resent one first of all) and ask for credit."""
        voq = self.voq[packet.flow.index]
        if packet.tries:
            voq.queue.appendleft(packet)
        else:
            voq.queue.append(packet)
        voq.bytes += packet.size
        voq.worst = max(voq.worst, voq.bytes)
        heappush(self.heap, (now + voq.latency, self.number(), REQUEST, (voq, packet.size)))

    def _requested(self, voq: Voq, size: int, now: int) -> None:
        granter = self.granters[voq.sink.index]
        if voq.demand == 0:
            granter.requests[voq.level].append(voq)
        voq.demand += size
        if not granter.busy:
            granter.busy = True
            self._grant(voq.sink, now)

    def _grant(self, sink: Sink, now: int) -> None:
        granter = self.granters[sink.index]
        asking = [level for level, queue in enumerate(granter.requests) if queue]
        if not asking:
            granter.busy = False
            return
        wait = self.granted_until[sink.device]
        if wait > now and self.into[sink.device] > 0:
            self.push(wait, GRANT, sink)
            return
        level = asking[0]
        if self.weights is not None and len(asking) > 1:
            # Smooth weighted turns: each class gains its weight, the richest pays for all.
            for one in asking:
                granter.turn[one] += self.weights[one]
            level = max(asking, key=lambda one: (granter.turn[one], -one))
            granter.turn[level] -= sum(self.weights[one] for one in asking)
        queue = granter.requests[level]
        voq = queue.popleft()
        size = min(self.params.credit_bytes, voq.demand)
        voq.demand -= size
        if voq.demand > 0:
            queue.append(voq)
        self.credits += 1
        if voq.source != sink.device:
            self.granted_until[sink.device] = now - (-size * PICO // max(1, self.into[sink.device]))
        self.push(now + voq.latency, CREDIT, (voq, size))
        self.push(now - (-size * PICO // self.fabric.host_rate), GRANT, sink)

    def _credited(self, voq: Voq, size: int, now: int) -> None:
        voq.balance += size
        queue = voq.queue
        rate = self.fabric.rate
        while queue and queue[0].size <= voq.balance:
            packet = queue.popleft()
            voq.balance -= packet.size
            start = now
            if voq.source != packet.target:
                start = max(now, self.sending_until[voq.source])
                room = sum(rate[link] for link in self.reach[voq.source].get(packet.target, ()))
                if room:
                    self.sending_until[voq.source] = start - (-packet.size * PICO // room)
            if start > now:
                self.push(start, SEND, packet)
            else:
                self._send(packet, now)

    def _send(self, packet: Packet, now: int) -> None:
        """Cut a packet into cells and put them on the links."""
        index = packet.flow.index
        self.voq[index].bytes -= packet.size
        packet.order = self.sent[index]
        self.sent[index] += 1
        source, target = packet.flow.source, packet.target
        if source == target:
            self._reassembled(packet, now)
            return
        if packet.size not in self._cuts:
            cells = -(-packet.size // self.params.cell_bytes)
            self._cuts[packet.size] = (cells, self.costs(-(-packet.size // cells)))
        packet.cells, packet.cost = self._cuts[packet.size]
        packet.left = packet.cells
        spread = self.spread[source].get(target)
        if spread is None:
            self.lose(packet, now)
            return
        free, busy, worst, speed, cost = self.free, self.busy, self.worst, self.speed, packet.cost
        for _ in range(packet.cells):
            out = spread()
            ticks = cost[speed[out]]
            end = (free[out] if free[out] > now else now) + ticks
            free[out] = end
            busy[out] += ticks
            if end - now > worst[out]:
                worst[out] = end - now
            heappush(self.heap, (end + self.latency, self.number(), out, packet))

    def _reassembled(self, packet: Packet, now: int) -> None:
        """Hand a whole packet on to its port, and those that waited for it; a lost one is not waited for any more."""
        index = packet.flow.index
        waiting = self.complete[index]
        waiting[packet.order] = packet
        while self.handed[index] in waiting:
            one = waiting.pop(self.handed[index])
            self.handed[index] += 1
            if not one.lost:
                if one.flow.source != one.target:
                    self.partial[one.target] -= one.size
                self.egress(one, now)

    def lose(self, packet: Packet, now: int) -> None:
        """Forget the cells of a packet that had arrived, too, and let those behind it pass."""
        if packet.lost:
            return
        if packet.left < packet.cells:
            self.partial[packet.target] -= packet.size
        super().lose(packet, now)
        self._reassembled(packet, now)

    def check(self) -> None:
        """Refuse a run that left bytes, credits or requests anywhere, too.

        Raises
        ------
        PlanRejected
            Naming the node or queue.
        """
        super().check()
        names = self.fabric.devices
        for voq in self.voqs.values():
            if voq.queue or voq.bytes or voq.balance or voq.demand:
                raise PlanRejected(
                    f"{names[voq.source]}: the queue to {names[voq.sink.device]} ended with {voq.bytes} bytes, "
                    f"{voq.balance} of credit and {voq.demand} requested; this is a defect of the simulator"
                )
        for device, left in enumerate(self.partial):
            if left:
                raise PlanRejected(
                    f"{names[device]}: {left} bytes of packets were left; this is a defect of the simulator"
                )

    def run(self) -> None:
        """Go through all events; cells, which are most of them, without a call."""
        heap, number, head = self.heap, self.number, self.fabric.head
        free, busy, worst, speed, latency = self.free, self.busy, self.worst, self.speed, self.latency
        partial = self.partial
        events = 0
        pop, push = heappop, heappush
        while heap:
            now, _, code, item = pop(heap)
            events += 1
            if code >= 0:
                device, target = head[code], item.target
                if device != target:
                    if item.lost:
                        continue
                    try:
                        out = self.spread[device][target]()
                    except KeyError:
                        self.lose(item, now)
                        continue
                    ticks = item.cost[speed[out]]
                    end = free[out]
                    end = (end if end > now else now) + ticks
                    free[out] = end
                    busy[out] += ticks
                    if end - now > worst[out]:
                        worst[out] = end - now
                    push(heap, (end + latency, number(), out, item))
                elif not item.lost:
                    left = item.left
                    if left == item.cells:
                        partial[target] += item.size
                        if partial[target] > self.partial_peak:
                            self.partial_peak = partial[target]
                    item.left = left = left - 1
                    if left == 0:
                        self._reassembled(item, now)
            else:
                self._other(code, item, now)
        self.events = events

    def _other(self, code: int, item: Any, now: int) -> None:
        if code == REQUEST:
            self._requested(item[0], item[1], now)
        elif code == GRANT:
            self._grant(item, now)
        elif code == CREDIT:
            self._credited(item[0], item[1], now)
        elif code == SEND:
            self._send(item, now)
        else:
            self.control(code, item, now)
