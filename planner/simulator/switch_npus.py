"""The NPUs at a switch: sources with windows, credits and timeouts, receivers that acknowledge; see ``switch_packets``."""

from __future__ import annotations

from fabric_plan.planner.errors import LimitReached
from fabric_plan.planner.simulator.switch_protocol import BACKOFFS, MAX_TIMEOUTS, SwitchDefect
from fabric_plan.planner.simulator.switch_state import VCS, Packet, SwitchState

ACK, NACK = 0, 1
"""The last bit of a control packet's key, 2 x flow + kind."""


class Npus(SwitchState):
    """The rules of sources and receivers."""

    def arrives(self, vc: int, packet: Packet) -> None:
        """Take a packet at the switch."""
        raise NotImplementedError

    def switch_reads(self, port: int, key: int, value: int, corrupted: bool) -> None:
        """Take an ACK or NACK at the switch."""
        raise NotImplementedError

    # NPUs as sources.

    def begin_turn(self, vc: int) -> None:
        """Begin the next phase of a VC at an NPU, when it is released."""
        self.active[vc] = []
        if self.turn[vc] < len(self.turns[vc]):
            release, _ = self.turns[vc][self.turn[vc]]
            self.at(max(release, self.now), self.released, vc)

    def released(self, vc: int) -> None:
        """Let an NPU send the phase whose turn it is."""
        self.active[vc] = list(self.turns[vc][self.turn[vc]][1])
        self.touched_up.append(vc // VCS)

    def serve_up(self, port: int) -> None:
        """Send what comes first from an NPU: control, then the highest VC with a packet, window and credit."""
        now = self.now
        if self.up_free[port] > now:
            return
        waiting = self.up_control[port]
        if waiting and self.up_control_room[port] >= self.control:
            key = next(iter(waiting))
            value = waiting.pop(key)
            self.up_control_room[port] -= self.control
            self.up_free[port] = now + self.control
            self.at(now + self.control, self.up_idle, port)
            self.at(
                now + self.control + self.latency,
                self.switch_reads,
                port,
                key,
                value,
                self.corrupts(0, port, key, value),
            )
            self.count_on(self.up_use[port], self.control, False)
            return
        first = VCS * port
        for vc in (first, first + 1, first + 2):
            streams = self.active[vc]
            for place, stream in enumerate(streams):
                f = self.flow_of[stream]
                seq, last = self.send[stream], self.count[f] - 1
                if seq > last or seq >= self.base[stream] + self.window:
                    continue
                size = self.last_size[f] if seq == last else self.packet
                if self.room[vc] < size:
                    continue
                if len(streams) > 1:
                    streams.append(streams.pop(place))
                self.send_packet(port, vc, stream, seq, size)
                return

    def send_packet(self, port: int, vc: int, stream: int, seq: int, size: int) -> None:
        """Put a data packet on the link to the switch."""
        now = self.now
        self.send[stream] = seq + 1
        if seq < self.top[stream]:
            self.resent += 1
        else:
            self.top[stream] = seq + 1
        self.room[vc] -= size
        self.deadline[vc] = -1
        self.up_free[port] = now + size
        self.at(now + size, self.up_idle, port)
        if self.faults is not None and self.corrupts(0, port, -1 - self.flow_of[stream], seq):
            self.at(now + size + 2 * self.latency, self.credit, vc, size)
        else:
            tail = now + size + self.latency
            self.at(now + self.flit + self.latency, self.arrives, vc, (stream, seq, tail, size, self.marked[stream]))
        self.marked[stream] = False
        self.count_on(self.up_use[port], size, True)

    def source_reads(self, port: int, key: int, value: int, corrupted: bool) -> None:
        """Take an ACK or NACK at a source."""
        self.at(self.now + self.latency, self.down_control_credit, port)
        if corrupted:
            return
        f, kind = key >> 1, key & 1
        stream = self.stream_at[f, port]
        if kind == NACK:
            if self.base[stream] <= value < self.send[stream]:
                self.send[stream] = value
                self.touched_up.append(port)
            return
        if value <= self.base[stream]:
            return
        self.base[stream] = value
        if self.send[stream] < value:
            self.send[stream], self.marked[stream] = value, False
        vc = self.vc_of[stream]
        self.waited[vc] = 0
        if value == self.count[f]:
            self.active[vc].remove(stream)
            if not self.active[vc]:
                self.turn[vc] += 1
                self.begin_turn(vc)
        self.touched_up.append(port)
        self.arm(vc)

    def credit(self, vc: int, size: int) -> None:
        """An NPU learns of room in a VC at the switch."""
        self.room[vc] += size
        self.touched_up.append(vc // VCS)
        self.arm(vc)

    def arm(self, vc: int) -> None:
        """Start the clock of a VC that has something unacknowledged and nothing in the switch's buffer."""
        if self.room[vc] == self.buffer and self.active[vc]:
            self.deadline[vc] = self.now + (self.timeout << min(self.waited[vc], BACKOFFS))
            if not self.armed[vc]:
                self.armed[vc] = True
                self.at(self.deadline[vc], self.expire, vc)

    def expire(self, vc: int) -> None:
        """Go back to the first unacknowledged packet of each flow, if nothing has been sent since the clock was started."""
        self.armed[vc] = False
        due = self.deadline[vc]
        if due < 0:
            return
        if due > self.now:
            self.armed[vc] = True
            self.at(due, self.expire, vc)
            return
        stuck = []
        for stream in self.active[vc]:
            limit = min(self.count[self.flow_of[stream]], self.base[stream] + self.window)
            if self.send[stream] < limit:
                self.arm(vc)  # only the link is taken, by a higher VC
                return
            if self.base[stream] < self.send[stream]:
                stuck.append(stream)
        if not stuck:
            return
        self.timeouts += 1
        self.waited[vc] += 1
        if self.waited[vc] > MAX_TIMEOUTS:
            run = self.overlap.phases[self.run_of[self.flow_of[stuck[0]]]]
            raise LimitReached(
                f"switch packets: port {vc // VCS} has timed out {MAX_TIMEOUTS} times in phase {run.phase} without any "
                "acknowledgement: the faults let nothing through; make them rarer"
            )
        for stream in stuck:
            self.send[stream], self.marked[stream] = self.base[stream], True
        self.touched_up.append(vc // VCS)

    # NPUs as receivers.

    def delivered(self, f: int, seq: int, tags: int, size: int, bad: set[int] | None) -> None:
        """Take a packet at all outputs of its flow: keep the one expected, drop others; acknowledge."""
        self.at(self.now + self.latency, self.output_credits, f, size)
        last = self.count[f] - 1
        for sink in self.sinks[f]:
            port = self.sink_port[sink]
            if bad is not None and port in bad:
                continue
            wanted = self.expected[sink]
            if seq > wanted:
                self.dropped[1] += 1
                if not self.asked[sink] or seq <= self.last_seen[sink]:
                    self.asked[sink] = True
                    self.answer(port, 2 * f + NACK, wanted)
            else:
                if seq == wanted:
                    self.keep(f, sink, seq, tags)
                else:
                    self.dropped[1] += 1
                self.since_ack[sink] += 1
                if self.since_ack[sink] >= self.ack_every or seq == last:
                    self.since_ack[sink] = 0
                    self.answer(port, 2 * f + ACK, self.expected[sink])
            self.last_seen[sink] = seq

    def keep(self, f: int, sink: int, seq: int, tags: int) -> None:
        """Add the packet that was expected to what an output has."""
        if tags != self.mask[f]:
            raise SwitchDefect(f"flow {f}: packet {seq} at port {self.sink_port[sink]} lacks contributions")
        payload = self.overlap.link.payload_bytes
        last = seq == self.count[f] - 1
        self.got[sink] += self.size_bytes[f] - seq * payload if last else payload
        self.expected[sink] = seq + 1
        self.asked[sink] = False
        if last:
            self.waiting_sinks[f] -= 1
            if self.waiting_sinks[f] == 0:
                self.flow_finish[f] = self.now

    def answer(self, port: int, key: int, value: int) -> None:
        """Have an output send an ACK or NACK, over one that still waits."""
        self.up_control[port][key] = value
        self.touched_up.append(port)
