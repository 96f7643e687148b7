"""Packets through one FRED switch: preemption, virtual cut-through, credits and Go-Back-N (FRED paper, sections 5.4, 6.2.3).

What the paper leaves open is decided here, each rule in the method that is named:

- *Packets* hold their header (4,090 bytes of data each). A packet moves on once its first flit has come (:meth:`Switch.arrives`)
  and there is room for all of it. Its room is free again when its tail has left, or come if it is dropped, and the sender
  knows it a wire's latency later; credits take no bandwidth and are never lost. NPUs consume what comes as it comes.
- *NPUs* serve control first, then the VC of highest priority that has a packet and credit, each packet whole
  (:meth:`Npus.serve_up`). Phases on one VC run in the order given: an NPU begins the next when its flows of the one before
  are acknowledged, and the switch turns to it when all are, so one's packets never stand behind the other's.
- *A flow moves* when all its inputs hold the packet that is next and all its outputs are idle and have room (:meth:`Switch.move`):
  the reduced packet goes to all in lockstep, without delay in the switch.
- *Configurations* (:meth:`Switch.wish`): a higher phase preempts when all input ports of its unfinished flows hold a packet
  of it (:meth:`Switch.ready`), and takes over once the packets on their way have passed. Without that the current phase stays
  until all its packets have passed, also while it waits for a straggler (``Overlap.keep``). Then comes the highest that is
  ready, or else the highest of which any flow can move.
- *The default phase* routes online (:meth:`Switch.online_step`): when all packets of a step have passed, the oldest heads go to
  distinct outputs. NPUs send a packet of each of their flows in turn.
- *ACKs* say how many packets an output has in order, for every 16 that came and after the last. The switch reads control packets as
  they come, keeps a number for each output, and sends all sources the least whenever it rises (:meth:`Switch.acknowledged`).
  A waiting ACK or NACK is overtaken by a newer one of its flow.
- *NACKs* name the packet wanted. An output sends one when a later packet comes, once for every run of packets; the switch goes back
  to it and passes it on to all sources (:meth:`Switch.go_back`), unless it has gone back that far already. Where an input lacks a
  packet itself, the switch sends the NACK to all sources (:meth:`Switch.gap`).
- *Timeouts* (:meth:`Npus.expire`): a source's VC goes back to what is unacknowledged when for 16 round trips it could send nothing
  and held no room at the switch, so backpressure alone never causes one. The first packet then is marked: if it has passed
  the switch before, the switch sends the ACK that was lost, or goes back with all sources (:meth:`Switch.asked_again`).
"""

from __future__ import annotations

import heapq

from fabric_plan.planner.fred import levels
from fabric_plan.planner.simulator.switch_npus import ACK, NACK, Npus
from fabric_plan.planner.simulator.switch_protocol import DEFAULT, VC_OF, Faults, Overlap, PacketReport, SwitchDefect
from fabric_plan.planner.simulator.switch_state import VCS, Packet


def simulate(overlap: Overlap, faults: Faults | None = None) -> PacketReport:
    """Run all phases until every source has every acknowledgement; return what happened.

    Raises
    ------
    LimitReached
        When a source times out a hundred times without progress: the faults let nothing through.
    SwitchDefect
        When the switch breaks a rule of its own.
    """
    switch = Switch(overlap, faults)
    switch.run()
    return switch.report()


class Switch(Npus):
    """The rules; sizes and times are ticks, ``vc`` is 3 x port + (0 MP, 1 PP, 2 DP)."""

    def run(self) -> None:
        """Take all events of a time, then let links and switch decide with all of it known."""
        for vc in range(len(self.turns)):
            self.begin_turn(vc)
        times, at_time = self.times, self.at_time
        while times:
            self.now = heapq.heappop(times)
            happening = at_time.pop(self.now)
            self.events += len(happening)
            for event in happening:
                event[0](*event[1:])
            while self.touched_down or self.dirty:
                ports, self.touched_down = self.touched_down, []
                for port in ports:
                    self.serve_down(port)
                if self.dirty:
                    self.dirty = False
                    self.decide()
            if self.touched_up:
                ports, self.touched_up = self.touched_up, []
                for port in ports:
                    self.serve_up(port)

    # The switch's inputs.

    def arrives(self, vc: int, packet: Packet) -> None:
        """Take a packet whose first flit has come into its VC."""
        held = self.held[vc] = self.held[vc] + packet[3]
        if held > self.peak[vc]:
            self.peak[vc] = held
            if held > self.buffer:
                raise SwitchDefect(
                    f"port {vc // VCS}: VC {vc % VCS} holds {held // self.byte} bytes, more than its buffer"
                )
        queue = self.queue[vc]
        queue.append(packet)
        if len(queue) == 1:
            self.examine(vc)

    def examine(self, vc: int) -> None:
        """Drop what stands at the head of a VC and is not the next packet of its flow."""
        queue = self.queue[vc]
        while queue and self.head[vc] < 0:
            packet = queue[0]
            stream, seq, tail, size, marked = packet
            f = self.flow_of[stream]
            if marked and seq < self.next[f]:
                self.asked_again(f, vc, seq)
                if self.head[vc] >= 0 or not queue or queue[0] is not packet:
                    continue  # going back has already looked at this VC
            wanted = self.next[f]
            if seq == wanted:
                self.head[vc] = f
                self.since[vc] = tail - size
                self.seen[stream] = seq
                self.present[f] += 1
                if self.present[f] == len(self.ins[f]):
                    self.full[self.run_of[f]] += 1
                    self.dirty = True
                return
            queue.popleft()
            self.drop(vc, tail, size)
            if seq > wanted:
                self.gap(f, stream, seq)
            self.seen[stream] = seq

    def drop(self, vc: int, tail: int, size: int) -> None:
        """Forget a packet; it holds its room until its tail has come."""
        self.dropped[0] += 1
        self.at(max(self.now, tail), self.leaves, vc, size)

    def leaves(self, vc: int, size: int) -> None:
        """Free the room of a dropped packet."""
        self.held[vc] -= size
        self.at(self.now + self.latency, self.credit, vc, size)

    def gap(self, f: int, stream: int, seq: int) -> None:
        """An input lacks the packet that is next: ask all sources for it, once for every run of packets."""
        if not self.nacked[f] or seq <= self.seen[stream]:
            self.ask(f, self.next[f], -1)

    def ask(self, f: int, wanted: int, but: int) -> None:
        """Send a NACK to the sources of a flow, except the one at VC ``but``."""
        self.nacked[f] = True
        self.nacks.append((self.now, f, wanted))
        for vc in self.ins[f]:
            if vc != but:
                self.tell(vc // VCS, 2 * f + NACK, wanted)

    def asked_again(self, f: int, vc: int, seq: int) -> None:
        """A source timed out with a packet that has passed: give it its ACK if there is one, else go back with all sources."""
        if seq < self.acked[f]:
            self.tell(vc // VCS, 2 * f + ACK, self.acked[f])
        else:
            self.go_back(f, seq, vc)

    def go_back(self, f: int, wanted: int, but: int) -> None:
        """Make ``wanted`` the next packet of a flow again, and ask its sources for it."""
        self.ask(f, wanted, but)
        self.set_next(f, wanted, but)

    def set_next(self, f: int, wanted: int, but: int) -> None:
        """Make another packet the next of a flow, and look at its VCs again, except ``but``, which is being looked at."""
        run, end = self.run_of[f], self.count[f]
        self.left[run] += (self.next[f] == end) - (wanted == end)
        self.next[f] = wanted
        if self.present[f] == len(self.ins[f]):
            self.full[run] -= 1
        self.present[f] = 0
        for vc in self.ins[f]:
            if self.head[vc] == f:
                self.head[vc] = -1
                _, _, tail, size, _ = self.queue[vc].popleft()
                self.drop(vc, tail, size)
        for vc in self.ins[f]:
            if vc != but:
                self.examine(vc)
        self.dirty = True

    # The switch's control unit.

    def tell(self, port: int, key: int, value: int) -> None:
        """Have the switch send an ACK or NACK to an NPU, over one that still waits."""
        self.down_control[port][key] = value
        self.touched_down.append(port)

    def serve_down(self, port: int) -> None:
        """Send a waiting ACK or NACK to an NPU."""
        waiting = self.down_control[port]
        if not waiting or self.down_free[port] > self.now or self.down_control_room[port] < self.control:
            return
        key = next(iter(waiting))
        value = waiting.pop(key)
        self.down_control_room[port] -= self.control
        end = self.down_free[port] = self.now + self.control
        self.at(end, self.down_idle, port)
        self.at(end + self.latency, self.source_reads, port, key, value, self.corrupts(1, port, key, value))
        self.count_on(self.down_use[port], self.control, False)

    def switch_reads(self, port: int, key: int, value: int, corrupted: bool) -> None:
        """Take an ACK or NACK from an output; its room is free at once."""
        self.control_peak[port] = self.control
        self.at(self.now + self.latency, self.up_control_credit, port)
        if corrupted:
            return
        f = key >> 1
        self.acknowledged(f, self.sink_at[f, port], value)
        if key & 1 == NACK and value < self.next[f]:
            self.go_back(f, value, -1)

    def acknowledged(self, f: int, sink: int, value: int) -> None:
        """Note what an output has; tell the sources when the least of all outputs rises."""
        if value <= self.sink_acked[sink]:
            return
        self.sink_acked[sink] = value
        least = min(self.sink_acked[one] for one in self.sinks[f])
        if least <= self.acked[f]:
            return
        self.acked[f] = least
        for vc in self.ins[f]:
            self.tell(vc // VCS, 2 * f + ACK, least)
        if least > self.next[f]:
            self.set_next(f, least, -1)  # what all outputs have is not sent again
        if least == self.count[f]:
            run = self.run_of[f]
            self.open[run] -= 1
            kind = self.vc_class[f]
            order = self.of_vc[kind]
            while self.oldest[kind] < len(order) and self.open[order[self.oldest[kind]]] == 0:
                self.oldest[kind] += 1
            self.dirty = True

    # The switch's configuration.

    def pending(self, kind: int) -> int:
        """Return the phase whose turn it is on a VC, or -1."""
        order, place = self.of_vc[kind], self.oldest[kind]
        return order[place] if place < len(order) else -1

    def ready(self, run: int) -> bool:
        """Whether all input ports of a phase's unfinished flows hold a packet of it; of the default phase, any."""
        full = self.full[run]
        return full > 0 and (full == self.left[run] or self.online[run])

    def wish(self) -> int:
        """Return the phase that the switch should be configured for."""
        current = self.current
        kinds = [run for run in (self.pending(0), self.pending(1), self.pending(2)) if run >= 0]
        if current >= 0 and self.left[current]:
            mine = VC_OF[self.overlap.phases[current].phase]
            for run in kinds:
                higher = VC_OF[self.overlap.phases[run].phase] < mine
                idle = not self.overlap.keep and not self.running and not self.full[current]
                if run != current and (higher or idle) and self.ready(run):
                    return run
            return current
        for run in kinds:
            if self.ready(run):
                return run
        for run in kinds:
            if self.full[run]:
                return run
        return current

    def decide(self) -> None:
        """Change the configuration at a packet boundary, or move what can move."""
        if self.setting >= 0:
            return
        wish = self.wish()
        if wish != self.current:
            if self.running:
                return
            if self.reconfigure and self.timeline:
                self.setting = wish
                self.at(self.now + self.reconfigure, self.configured)
                return
            self.current = wish
            self.timeline.append((self.now, wish))
        if self.current < 0:
            return
        if self.online[self.current]:
            if not self.running and self.full[self.current]:
                self.online_step()
            return
        for f in self.of_run[self.current]:
            if self.present[f] == len(self.ins[f]) and not self.busy[f] and self.fits(f):
                self.move(f)

    def configured(self) -> None:
        """End a reconfiguration."""
        self.current, self.setting = self.setting, -1
        self.timeline.append((self.now, self.current))
        self.dirty = True

    def fits(self, f: int) -> bool:
        """Whether all outputs of a flow are idle and have room for its next packet."""
        size = self.last_size[f] if self.next[f] == self.count[f] - 1 else self.packet
        now, kind = self.now, self.vc_class[f]
        for port in self.outs[f]:  # noqa: SIM110 (a generator takes twice as long here)
            if self.down_free[port] > now or self.out_room[VCS * port + kind] < size:
                return False
        return True

    def online_step(self) -> None:
        """Give the oldest heads of the default phase distinct outputs, and route them as unicast flows."""
        ports, run = self.overlap.ports, self.current
        heads = [VCS * port + VC_OF[DEFAULT] for port in range(ports)]
        taken: set[int] = set()
        chosen = []
        for vc in sorted((vc for vc in heads if self.head[vc] >= 0), key=lambda vc: (self.since[vc], vc)):
            f = self.head[vc]
            if self.run_of[f] == run and self.outs[f][0] not in taken and self.fits(f):
                taken.add(self.outs[f][0])
                chosen.append((vc // VCS, self.outs[f][0], f))
        if not chosen:
            return
        pairs = tuple((source, target) for source, target, _ in sorted(chosen))
        if pairs not in self.routed:
            words = self.overlap.route(pairs, ports)
            if len(words) != len(pairs) or any(len(word) != levels(ports) for word in words):
                raise SwitchDefect(f"online routing: no words for {pairs}")
            self.routed.add(pairs)
        self.steps.append(pairs)
        for _, _, f in chosen:
            self.move(f)

    def move(self, f: int) -> None:
        """Send the packet that is next, reduced over all inputs, to all outputs."""
        now, seq, run = self.now, self.next[f], self.run_of[f]
        size = self.last_size[f] if seq == self.count[f] - 1 else self.packet
        tags = 0
        for vc in self.ins[f]:
            stream, number, _, length, _ = self.queue[vc].popleft()
            bit = 1 << (self.vc_of[stream] // VCS)
            if number != seq or length != size or self.flow_of[stream] != f or tags & bit:
                raise SwitchDefect(f"flow {f}: packet {number} of port {vc // VCS} is reduced into packet {seq}")
            tags |= bit
            self.head[vc] = -1
        self.present[f] = 0
        self.full[run] -= 1
        self.next[f] = seq + 1
        self.nacked[f] = False
        if seq + 1 == self.count[f]:
            self.left[run] -= 1
        self.busy[f] = True
        self.running += 1
        bad: set[int] | None = None
        kind = self.vc_class[f]
        for port in self.outs[f]:
            self.down_free[port] = now + size
            self.out_room[VCS * port + kind] -= size
            self.count_on(self.down_use[port], size, True)
            if self.faults is not None and self.corrupts(1, port, -1 - f, seq):
                bad = bad or set()
                bad.add(port)
        self.at(now + size, self.moved, f, size)
        self.at(now + size + self.latency, self.delivered, f, seq, tags, size, bad)
        for vc in self.ins[f]:
            self.examine(vc)

    def moved(self, f: int, size: int) -> None:
        """End a packet's way through the switch: its tail has left the buffers and the switch's outputs."""
        self.busy[f] = False
        self.running -= 1
        self.last_move = self.now
        for vc in self.ins[f]:
            self.held[vc] -= size
        self.touched_down += self.outs[f]
        self.at(self.now + self.latency, self.input_credits, f, size)
        self.dirty = True

    def input_credits(self, f: int, size: int) -> None:
        """The sources of a flow learn that a packet has left their VCs."""
        for vc in self.ins[f]:
            self.credit(vc, size)
