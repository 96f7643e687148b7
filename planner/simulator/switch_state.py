"""The state of one FRED switch, its links and its NPUs in flat lists, with the list of events; see ``switch_packets``.

Times and sizes are whole ticks, of which the overlap chooses how many make a second, so the order of events is exact.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from fractions import Fraction
from typing import Any

from fabric_plan.planner.simulator.switch_protocol import (
    DEFAULT,
    TIMEOUT_ROUND_TRIPS,
    VC_OF,
    Crossing,
    Faults,
    LinkUse,
    Overlap,
    PacketReport,
    SwitchDefect,
)

VCS = 3
"""Data VCs of a port."""

Packet = tuple[int, int, int, int, bool]
"""At the switch: stream, sequence number, when its tail comes, size, whether its source had timed out."""


class SwitchState:
    """All that changes, by port, VC (3 x port + 0 MP, 1 PP, 2 DP), flow, stream (a source of a flow) and sink (an output)."""

    def __init__(self, overlap: Overlap, faults: Faults | None) -> None:
        link, ports = overlap.link, overlap.ports
        self.overlap = overlap
        self.faults = faults if faults is not None and (faults.rate or faults.lose) else None
        self.random = random.Random(faults.seed if faults else 0)
        self.scale = overlap.ticks_per_second()
        self.byte = self.scale // link.bandwidth_Bps
        self.packet, self.flit = link.packet_bytes * self.byte, link.flit_bytes * self.byte
        self.control, self.header = link.control_bytes * self.byte, link.header_bytes
        self.buffer, self.control_buffer = link.buffer_bytes * self.byte, link.control_buffer_bytes * self.byte
        self.latency = self._ticks(link.latency_s)
        self.reconfigure = self._ticks(overlap.reconfigure_s)
        self.timeout = TIMEOUT_ROUND_TRIPS * self._ticks(link.round_trip_s)
        self.window, self.ack_every = link.window, link.ack_every
        # Events: a list for each time.
        self.now, self.events = 0, 0
        self.times: list[int] = []
        self.at_time: dict[int, list[tuple[Any, ...]]] = {}
        self.touched_up: list[int] = []
        self.touched_down: list[int] = []
        self.dirty = False
        # Links and buffers.
        self.up_free, self.down_free = [0] * ports, [0] * ports
        self.up_control: list[dict[int, int]] = [{} for _ in range(ports)]
        self.down_control: list[dict[int, int]] = [{} for _ in range(ports)]
        self.up_control_room, self.down_control_room = [self.control_buffer] * ports, [self.control_buffer] * ports
        self.room, self.out_room = [self.buffer] * (VCS * ports), [self.buffer] * (VCS * ports)
        self.held, self.peak = [0] * (VCS * ports), [0] * (VCS * ports)
        self.control_peak = [0] * ports
        self.queue: list[deque[Packet]] = [deque() for _ in range(VCS * ports)]
        self.head = [-1] * (VCS * ports)  # the flow whose next packet stands there, if it does
        self.since = [0] * (VCS * ports)  # when it came
        self.up_use = [LinkUse() for _ in range(ports)]
        self.down_use = [LinkUse() for _ in range(ports)]
        self._flows()
        self._turns()
        # The switch.
        self.current, self.setting, self.running = -1, -1, 0
        self.timeline: list[tuple[int, int]] = []
        self.last_move = 0
        self.steps: list[tuple[tuple[int, int], ...]] = []
        self.routed: set[tuple[tuple[int, int], ...]] = set()
        self.resent, self.timeouts, self.lost = 0, 0, 0
        self.dropped = [0, 0]
        self.nacks: list[tuple[int, int, int]] = []

    def _ticks(self, seconds: Fraction | int) -> int:
        ticks = seconds * self.scale
        if ticks != int(ticks):
            raise SwitchDefect(f"{seconds} s are not a whole number of ticks of 1/{self.scale} s")
        return int(ticks)

    def _flows(self) -> None:
        """Number flows, their streams (one a source) and sinks (one an output)."""
        link, phases = self.overlap.link, self.overlap.phases
        self.run_of: list[int] = []  # by flow
        self.index_of: list[int] = []
        self.vc_class: list[int] = []
        self.count: list[int] = []  # packets
        self.last_size: list[int] = []
        self.size_bytes: list[int] = []
        self.ins: list[tuple[int, ...]] = []  # VCs
        self.outs: list[tuple[int, ...]] = []  # ports
        self.streams: list[list[int]] = []
        self.sinks: list[list[int]] = []
        self.mask: list[int] = []
        self.flow_of: list[int] = []  # by stream
        self.vc_of: list[int] = []
        self.sink_port: list[int] = []  # by sink
        self.of_run: list[list[int]] = []
        self.sink_at: dict[tuple[int, int], int] = {}
        self.stream_at: dict[tuple[int, int], int] = {}
        for number, run in enumerate(phases):
            vc = VC_OF[run.phase]
            self.of_run.append([])
            for index, (flow, size) in enumerate(zip(run.flows, run.sizes_bytes, strict=True)):
                f = len(self.run_of)
                self.of_run[-1].append(f)
                self.run_of.append(number)
                self.index_of.append(index)
                self.vc_class.append(vc)
                self.count.append(link.packets(size))
                self.last_size.append(link.last_packet_bytes(size) * self.byte)
                self.size_bytes.append(size)
                self.ins.append(tuple(VCS * port + vc for port in flow.inputs))
                self.outs.append(flow.outputs)
                self.mask.append(sum(1 << port for port in flow.inputs))
                self.streams.append([len(self.flow_of) + k for k in range(len(flow.inputs))])
                for port in flow.inputs:
                    self.stream_at[f, port] = len(self.flow_of)
                    self.flow_of.append(f)
                    self.vc_of.append(VCS * port + vc)
                self.sinks.append([len(self.sink_port) + k for k in range(len(flow.outputs))])
                for port in flow.outputs:
                    self.sink_at[f, port] = len(self.sink_port)
                    self.sink_port.append(port)
        flows, streams, sinks = len(self.run_of), len(self.flow_of), len(self.sink_port)
        self.online = [run.phase == DEFAULT for run in phases]
        # The switch's view of a flow.
        self.next = [0] * flows
        self.nacked = [False] * flows
        self.present = [0] * flows
        self.busy = [False] * flows
        self.acked = [0] * flows
        self.left = [len(run.flows) for run in phases]  # flows with packets that have not passed
        self.full = [0] * len(phases)  # flows with a packet at every input
        self.open = [len(run.flows) for run in phases]  # flows not acknowledged
        self.of_vc = [[k for k, run in enumerate(phases) if VC_OF[run.phase] == vc] for vc in range(VCS)]
        self.oldest = [0] * VCS
        # Sources.
        self.base, self.send, self.top = [0] * streams, [0] * streams, [0] * streams
        self.marked = [False] * streams
        self.seen = [-1] * streams
        # Receivers.
        self.expected, self.since_ack, self.last_seen = [0] * sinks, [0] * sinks, [-1] * sinks
        self.asked = [False] * sinks
        self.sink_acked, self.got = [0] * sinks, [0] * sinks
        self.flow_finish, self.waiting_sinks = [-1] * flows, [len(outs) for outs in self.outs]

    def _turns(self) -> None:
        """Give each VC of each NPU its phases in order: (release, streams)."""
        total = VCS * self.overlap.ports
        self.turns: list[list[tuple[int, list[int]]]] = [[] for _ in range(total)]
        self.turn = [0] * total
        self.active: list[list[int]] = [[] for _ in range(total)]
        self.deadline, self.armed, self.waited = [-1] * total, [False] * total, [0] * total
        for run, members in zip(self.overlap.phases, self.of_run, strict=True):
            mine: dict[int, list[int]] = {}
            for f in members:
                for stream in self.streams[f]:
                    mine.setdefault(self.vc_of[stream], []).append(stream)
            for vc, streams in mine.items():
                self.turns[vc].append((self._ticks(run.release_of(vc // VCS)), streams))

    def seconds(self, ticks: int) -> Fraction:
        """Return ticks as seconds."""
        return Fraction(ticks, self.scale)

    def at(self, time: int, *event: Any) -> None:
        """Put an event (a method and its arguments) on the list of its time."""
        there = self.at_time.get(time)
        if there is None:
            self.at_time[time] = [event]
            heapq.heappush(self.times, time)
        else:
            there.append(event)

    def down_idle(self, port: int) -> None:
        """A link to an NPU is free again."""
        self.touched_down.append(port)
        self.dirty = True

    def down_control_credit(self, port: int) -> None:
        """The switch learns of room for a control packet at an NPU."""
        self.down_control_room[port] += self.control
        self.touched_down.append(port)

    def output_credits(self, f: int, size: int) -> None:
        """The switch learns of room for a data packet at the outputs of a flow."""
        for port in self.outs[f]:
            self.out_room[VCS * port + self.vc_class[f]] += size
        self.dirty = True

    def up_idle(self, port: int) -> None:
        """A link from an NPU is free again."""
        self.touched_up.append(port)

    def up_control_credit(self, port: int) -> None:
        """An NPU learns of room for a control packet at the switch."""
        self.up_control_room[port] += self.control
        self.touched_up.append(port)

    def corrupts(self, direction: int, port: int, key: int, number: int) -> bool:
        """Whether the packet put on a link now is corrupted; a negative key is -1 - flow of a data packet."""
        faults = self.faults
        if faults is None:
            return False
        bad = faults.rate > 0 and self.random.random() < faults.rate
        if faults.lose is not None:
            f, kind = (-1 - key, "data") if key < 0 else (key >> 1, ("ack", "nack")[key & 1])
            time_s = self.seconds(self.now)
            place = ("up", "down")[direction]
            bad |= faults.lose(Crossing(place, port, kind, self.run_of[f], self.index_of[f], number, time_s))
        self.lost += bad
        return bad

    def count_on(self, use: LinkUse, size: int, data: bool) -> None:
        """Note a packet put on a link, in ticks."""
        if data:
            use.data_bytes += size
        else:
            use.control_bytes += size
        use.packets += 1

    def report(self) -> PacketReport:
        """Check that all is delivered and all room is free again; return the report."""
        delivered = {}
        for (f, port), sink in self.sink_at.items():
            if self.expected[sink] != self.count[f] or self.got[sink] != self.size_bytes[f]:
                raise SwitchDefect(
                    f"flow {f}: port {port} has {self.got[sink]} of {self.size_bytes[f]} bytes in the end"
                )
            delivered[self.run_of[f], self.index_of[f], port] = self.got[sink]
        if any(self.held) or any(one != self.buffer for one in (*self.room, *self.out_room)):
            raise SwitchDefect("packets or credits are left over in the end")
        if any(self.active):
            raise SwitchDefect("a source waits for an acknowledgement in the end")
        flow_finish = tuple(tuple(self.seconds(self.flow_finish[f]) for f in members) for members in self.of_run)
        configured: dict[int, Fraction] = {}
        ends = [time for time, _ in self.timeline] + [self.last_move]
        for (begin, run), end in zip(self.timeline, ends[1:], strict=True):
            configured[run] = configured.get(run, Fraction(0)) + self.seconds(end - begin)
        for use in (*self.up_use, *self.down_use):
            use.data_bytes //= self.byte
            use.control_bytes //= self.byte
            use.header_bytes = use.packets * self.header
        peaks = [one // self.byte for one in self.peak]
        return PacketReport(
            finish_s=tuple(max(one) for one in flow_finish),
            flow_finish_s=flow_finish,
            timeline=tuple((self.seconds(time), run) for time, run in self.timeline),
            configured_s=configured,
            peak_bytes=tuple(
                (peaks[VCS * p], peaks[VCS * p + 1], peaks[VCS * p + 2], self.control_peak[p] // self.byte)
                for p in range(self.overlap.ports)
            ),
            up=tuple(self.up_use),
            down=tuple(self.down_use),
            retransmitted=self.resent,
            timeouts=self.timeouts,
            lost=self.lost,
            dropped=(self.dropped[0], self.dropped[1]),
            nacks=tuple(
                (self.seconds(time), self.run_of[f], self.index_of[f], wanted) for time, f, wanted in self.nacks
            ),
            online_steps=tuple(self.steps),
            delivered=delivered,
            events=self.events,
            bandwidth_Bps=self.overlap.link.bandwidth_Bps,
        )
