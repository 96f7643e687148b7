"""What all schemes of moving packets share: hosts that send and receive, the event queue, links that die, and the checks.

An event is (time, number, code, item). A code from 0 is a directed link at whose end a cell or packet arrives now; negative codes
are below. A link's queue needs no list: it is first come, first served, so a link knows when it will be free, and what it takes
on departs then. Its depth is that time's distance.

Every packet is checked where a user would read it: each byte of a flow once, and in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappush
from itertools import count
from typing import Any

from fabric_plan.planner.errors import InvalidInput, PlanRejected
from fabric_plan.planner.simulator.cell_fabric import CellFabric, Reach, Withdrawn
from fabric_plan.planner.simulator.cell_params import PICO, CellParams, Failure, ticks
from fabric_plan.planner.traffic import Flow

INJECT, START, RESEND, FAIL, CONVERGE, REPLAN, REQUEST, GRANT, CREDIT, SEND = range(-10, 0)

Event = tuple[int, int, int, Any]


class Packet:
    """A packet on its way; resent ones are new packets with one more try.

    ``cost`` is ticks by speed of link for one cell (or for the packet, where packets are not cut), ``left`` cells still missing at
    the destination, ``order`` its place among all that its flow has sent.
    """

    __slots__ = ("cells", "cost", "flow", "left", "lost", "offset", "order", "path", "size", "target", "tries")

    def __init__(self, flow: FlowState, offset: int, size: int, tries: int) -> None:
        self.flow = flow
        self.offset = offset
        self.size = size
        self.tries = tries
        self.target = flow.target
        self.lost = False
        self.order = 0
        self.cells = self.left = 1
        self.cost: tuple[int, ...] = ()
        self.path: dict[int, int] | None = None


class FlowState:
    """A flow while it runs: what its source has sent, and what its user has got."""

    __slots__ = (
        "again",
        "data",
        "finish",
        "furthest",
        "got",
        "held",
        "held_bytes",
        "held_peak",
        "index",
        "next",
        "path",
        "port",
        "queued",
        "reordered",
        "sink",
        "source",
        "stalled",
        "started",
        "target",
    )

    def __init__(self, index: int, data: Flow, source: int, target: int, port: Source, sink: Sink) -> None:
        self.index, self.data, self.source, self.target, self.port, self.sink = index, data, source, target, port, sink
        self.next = 0
        self.again: deque[Packet] = deque()
        self.started = self.queued = self.stalled = False
        self.path: dict[int, int] | None = None
        self.got = 0
        self.furthest = 0
        self.held: dict[int, int] = {}
        self.held_bytes = self.held_peak = self.reordered = 0
        self.finish = -1


class Source:
    """The sending side of a host port: its flows take turns, packet by packet, classes strictly in order."""

    __slots__ = ("busy", "turns")

    def __init__(self, classes: int) -> None:
        self.turns: list[deque[FlowState]] = [deque() for _ in range(classes)]
        self.busy = False


class Sink:
    """The receiving side of a host port: a queue at the egress node, and how long it was at most."""

    __slots__ = ("device", "free", "index", "worst")

    def __init__(self, index: int, device: int) -> None:
        self.index, self.device = index, device
        self.free = self.worst = 0


class Run:
    """A simulation up to the last byte; schemes say what becomes of a packet that enters at its source's interface node.

    Raises
    ------
    InvalidInput
        When a flow's nodes do not exist or are cut from one another, before or after the failure.
    """

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
        self.fabric, self.params, self.seed = fabric, params, seed
        self.heap: list[Event] = []
        self.number = count().__next__
        links = len(fabric.tail)
        self.free, self.busy, self.worst = [0] * links, [0] * links, [0] * links
        self.latency = ticks(params.link_latency_s)
        self.speeds = sorted(set(fabric.rate))
        self.speed = [self.speeds.index(rate) for rate in fabric.rate]
        self.resend_after = ticks(params.resend_s)
        self.lost = self.resent = self.events = 0
        self.busy_at_failure: list[int] | None = None
        self.failed_at = 0
        classes = 1 + max((flow.service_class for flow in flows), default=0)
        sources: dict[tuple[int, int], Source] = {}
        self.sinks: dict[tuple[int, int], Sink] = {}
        self.flows: list[FlowState] = []
        for index, flow in enumerate(flows):
            source, target = fabric.interface(flow.source), fabric.interface(flow.destination)
            port = sources.setdefault((source, flow.source_port), Source(classes))
            sink = self.sinks.setdefault((target, flow.destination_port), Sink(len(self.sinks), target))
            self.flows.append(FlowState(index, flow, source, target, port, sink))
            self.push(ticks(flow.start_s), START, self.flows[-1])
        self.unfinished = len(self.flows)
        self.targets = {flow.target for flow in self.flows}
        self.dead: frozenset[int] = frozenset()
        self.dying: frozenset[int] = frozenset()
        self.reach = fabric.reach(self.targets, withdrawn=withdrawn)
        self.later = self.first_reach = self.reach
        self._connected(self.reach, "")
        if failure is not None:
            self.dying = frozenset(link for name in failure.links for link in fabric.directed(name))
            self.later = fabric.reach(self.targets, self.dying, withdrawn_after)
            self._connected(self.later, " after the failure")
            self.push(ticks(failure.at_s), FAIL, None)

    def _connected(self, reach: Reach, when: str) -> None:
        for flow in self.flows:
            if flow.source != flow.target and flow.target not in reach[flow.source]:
                names = self.fabric.devices
                raise InvalidInput(
                    f"flow {flow.index}: {names[flow.source]} has no way to {names[flow.target]}{when}: "
                    "fail or withdraw fewer links, or leave this flow out"
                )

    # What a scheme defines.

    def enter(self, packet: Packet, now: int) -> None:
        """Take a packet from its host at its source's interface node."""
        raise NotImplementedError

    def changed(self, now: int, code: int) -> None:
        """Take notice of :attr:`reach` and :attr:`dead`, after FAIL, CONVERGE or REPLAN."""

    def run(self) -> None:
        """Go through all events."""
        raise NotImplementedError

    # Shared.

    def push(self, time: int, code: int, item: Any) -> None:
        """Let something happen at a time."""
        heappush(self.heap, (time, self.number(), code, item))

    def costs(self, size: int) -> tuple[int, ...]:
        """Return ticks, rounded up, that so many bytes take on a link, by its speed."""
        return tuple(-(-size * PICO // rate) for rate in self.speeds)

    def control(self, code: int, item: Any, now: int) -> None:
        """Handle the events of hosts and failures."""
        if code == INJECT:
            port, packet = item
            self.enter(packet, now)
            self._next(port, now)
        elif code == START:
            item.started = True
            self.wake(item, now)
        elif code == RESEND:
            item.flow.again.append(item)
            self.wake(item.flow, now)
        elif code == FAIL:
            self._fail(now)
        else:
            if code == CONVERGE:
                self.reach = self.later
            self.changed(now, code)

    def wake(self, flow: FlowState, now: int) -> None:
        """Let a flow take its turns at its host port, if it has anything to send and may."""
        if flow.queued or flow.stalled or not flow.started or not (flow.again or flow.next < flow.data.size_bytes):
            return
        flow.queued = True
        flow.port.turns[flow.data.service_class].append(flow)
        if not flow.port.busy:
            self._next(flow.port, now)

    def _next(self, port: Source, now: int) -> None:
        for turns in port.turns:
            while turns:
                flow = turns.popleft()
                size = flow.data.size_bytes
                if flow.stalled:
                    flow.queued = False
                    continue
                if flow.again:
                    packet = flow.again.popleft()
                    self.resent += 1
                else:
                    length = min(self.params.packet_bytes, size - flow.next)
                    packet = Packet(flow, flow.next, length, 0)
                    flow.next += length
                if flow.again or flow.next < size:
                    turns.append(flow)
                else:
                    flow.queued = False
                port.busy = True
                self.push(now - (-packet.size * PICO // self.fabric.host_rate), INJECT, (port, packet))
                return
        port.busy = False

    def lose(self, packet: Packet, now: int) -> None:
        """Lose a packet, or a cell of it: its source sends it again later."""
        if not packet.lost:
            packet.lost = True
            self.lost += 1
            again = Packet(packet.flow, packet.offset, packet.size, packet.tries + 1)
            self.push(now + self.resend_after, RESEND, again)

    def egress(self, packet: Packet, now: int) -> None:
        """Queue a packet at its host port, and let the user have what is in order."""
        flow = packet.flow
        sink = flow.sink
        begin = max(sink.free, now)
        sink.free = done = begin - (-packet.size * PICO // self.fabric.host_rate)
        sink.worst = max(sink.worst, done - now)
        offset = packet.offset
        if offset < flow.got or offset in flow.held:
            raise PlanRejected(
                f"flow {flow.index}: bytes from {offset} arrived twice; this is a defect of the simulator"
            )
        if offset < flow.furthest and packet.tries == 0:
            flow.reordered += 1
        flow.furthest = max(flow.furthest, offset)
        flow.held[offset] = packet.size
        flow.held_bytes += packet.size
        if offset != flow.got:
            flow.held_peak = max(flow.held_peak, flow.held_bytes)
            return
        while flow.got in flow.held:
            size = flow.held.pop(flow.got)
            flow.held_bytes -= size
            flow.got += size
        if flow.got == flow.data.size_bytes:
            flow.finish = done
            self.unfinished -= 1

    def _fail(self, now: int) -> None:
        """Links die with all that waits for them or is on its way over them."""
        self.dead = dead = self.dying
        self.failed_at = now
        self.busy_at_failure = self.busy_until(now)
        gone = sorted(event[:3] for event in self.heap if event[2] in dead)
        packets = {event[1]: event[3] for event in self.heap if event[2] in dead}
        self.heap[:] = [event for event in self.heap if event[2] not in dead]
        heapify(self.heap)
        for event in gone:
            self.lose(packets[event[1]], now)
        self.reach = [
            {
                target: left
                for target, links in row.items()
                if (left := tuple(link for link in links if link not in dead))
            }
            for row in self.reach
        ]
        self.push(now + ticks(self.params.converge_s), CONVERGE, None)
        self.changed(now, FAIL)

    def busy_until(self, now: int) -> list[int]:
        """Return by link for how many ticks it had sent by a time."""
        return [busy - max(0, free - now) for busy, free in zip(self.busy, self.free, strict=True)]

    def check(self) -> None:
        """Refuse a run in which a byte is missing.

        Raises
        ------
        PlanRejected
            Naming the first flow that did not get all of its bytes.
        """
        for flow in self.flows:
            if flow.got != flow.data.size_bytes or flow.held or flow.finish < 0:
                raise PlanRejected(
                    f"flow {flow.index}: {flow.got} of {flow.data.size_bytes} bytes were delivered; "
                    "this is a defect of the simulator"
                )
