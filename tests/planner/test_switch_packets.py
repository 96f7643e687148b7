"""Packets through one FRED switch: preemption, flow control and Go-Back-N, rule by rule (FRED paper, sections 5.4, 6.2.3)."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from fabric_plan.planner.errors import InvalidInput, LimitReached
from fabric_plan.planner.fred import configure, conflicts
from fabric_plan.planner.problem import SwitchFlow
from fabric_plan.planner.simulator.fred_walk import walk
from fabric_plan.planner.simulator.switch_packets import Switch, simulate
from fabric_plan.planner.simulator.switch_protocol import (
    MAX_CROSSINGS,
    PAPER,
    PHASES,
    Crossing,
    Faults,
    Overlap,
    PacketReport,
    PhaseRun,
    SwitchDefect,
    SwitchLink,
)
from fabric_plan.planner.switch_flows import parse_groups, strategy_flows
from fabric_plan.planner.unicast import unicast_words

BANDWIDTH = PAPER.bandwidth_Bps
PACKET, CONTROL = PAPER.packet_bytes, PAPER.control_bytes
LATENCY = 9696
"""Of the paper's wire, in byte times."""
FIRST = PAPER.flit_bytes + LATENCY
"""From the start of a packet to its start at the switch's output, if nothing stands in its way."""


def times(byte_times: int) -> Fraction:
    return Fraction(byte_times, BANDWIDTH)


def byte_times(seconds: Fraction) -> Fraction:
    return seconds * BANDWIDTH


def run_of(phase: str, groups: str, packets: int, release_s: object = 0) -> PhaseRun:
    """Flows as in 0-2;3>4, each of so many whole packets."""
    flows = tuple(parse_groups(groups))
    size = packets * PAPER.payload_bytes
    return PhaseRun(phase, flows, (size,) * len(flows), release_s)  # type: ignore[arg-type]


def random_overlap(seed: int) -> Overlap:
    draw = random.Random(seed)
    ports = draw.randint(2, 9)
    runs = []
    for _ in range(draw.randint(1, 5)):
        phase = draw.choice(PHASES)
        most = draw.choice([1, 3, 20, 60]) * PAPER.payload_bytes
        flows = []
        if phase == "default":
            for _ in range(draw.randint(1, 2 * ports)):
                flows.append(SwitchFlow(inputs=(draw.randrange(ports),), outputs=(draw.randrange(ports),)))
        else:
            left, right = draw.sample(range(ports), ports), draw.sample(range(ports), ports)
            if draw.random() < 0.5:
                right = left
            while left and right:
                some = draw.randint(1, len(left))
                others = some if right is left else draw.randint(1, len(right))
                flows.append(SwitchFlow(inputs=tuple(left[:some]), outputs=tuple(right[:others])))
                same = right is left
                left = left[some:]
                right = left if same else right[others:]
                if draw.random() < 0.3:
                    break
        late = draw.choice([1, 10**4, 10**5, 10**6])
        release = {port: times(draw.randrange(late)) for port in range(ports)}
        runs.append(PhaseRun(phase, tuple(flows), tuple(draw.randint(1, most) for _ in flows), release))
    return Overlap(ports, tuple(runs), reconfigure_s=times(draw.choice([0, 0, 700])), keep=draw.random() < 0.7)


def everything_arrived(overlap: Overlap, report: PacketReport) -> bool:
    wanted = {
        (k, index, port): size
        for k, run in enumerate(overlap.phases)
        for index, (flow, size) in enumerate(zip(run.flows, run.sizes_bytes, strict=True))
        for port in flow.outputs
    }
    return report.delivered == wanted


# The link.


def test_bandwidth_times_round_trip_is_24_kb() -> None:
    assert PAPER.round_trip_s * BANDWIDTH == 24_000
    assert PAPER.round_trip_s == Fraction(8, 10**9)
    assert PAPER.share_of_rate() == 1
    assert PAPER.buffer_bytes == 6 * PACKET


@pytest.mark.parametrize("packets", [1, 2, 6, 7, 100, 1000])
def test_a_unicast_flow_reaches_the_rate_of_its_links(packets: int) -> None:
    """Its bytes over the bandwidth, one flit until the switch knows the header, and two wires."""
    report = simulate(Overlap(2, (run_of("mp", "0>1", packets),)))
    assert byte_times(report.finish_s[0]) == packets * PACKET + PAPER.flit_bytes + 2 * LATENCY


@pytest.mark.parametrize("packets", [16, 32, 160, 1600])
def test_an_all_reduce_reaches_the_rate_less_its_acks(packets: int) -> None:
    """As above, and of every 16 packets' ACK, the last apart, 512 bytes; two on the two directions cost it once."""
    report = simulate(Overlap(4, (run_of("dp", "0-3", packets),)))
    acks = packets // 16 - 1
    assert byte_times(report.finish_s[0]) == packets * PACKET + acks * CONTROL + PAPER.flit_bytes + 2 * LATENCY
    assert report.utilisation("up", 0) > Fraction(packets, packets + 7)


@pytest.mark.parametrize("latency_ns", [4, 6, 20])
def test_a_longer_wire_leaves_the_buffers_too_small(latency_ns: int) -> None:
    """Six packets a round trip, whatever the bandwidth; a wire of 8 ns there and back alone is already too long."""
    link = SwitchLink(latency_s=Fraction(latency_ns, 10**9))
    packets = 3000
    report = simulate(Overlap(2, (run_of("mp", "0>1", packets),), link=link))
    rate = packets * PACKET / byte_times(report.finish_s[0])
    assert link.share_of_rate() * Fraction(99, 100) < rate <= link.share_of_rate() < 1


def test_a_short_last_packet_takes_whole_flits() -> None:
    size = PAPER.payload_bytes + 507  # with its header one byte more than a flit
    report = simulate(Overlap(2, (PhaseRun("pp", tuple(parse_groups("0>1")), (size,)),)))
    assert report.up[0].data_bytes == PACKET + 2 * PAPER.flit_bytes
    assert report.delivered == {(0, 0, 1): size}


# Preemption.


@pytest.mark.parametrize("after", range(60_000, 66_000, 500))
def test_mp_preempts_dp_at_a_packet_boundary_and_dp_resumes(after: int) -> None:
    """MP ends as it does alone, but for a packet that is on its way and an ACK; DP ends as if it had been cut in two."""
    mp, dp = run_of("mp", "0-3", 100, times(after)), run_of("dp", "0-3", 400)
    alone = simulate(Overlap(4, (mp,))).finish_s[0]
    report = simulate(Overlap(4, (mp, dp)))
    assert 0 <= byte_times(report.finish_s[0] - alone) <= PACKET + CONTROL
    assert [run for _, run in report.timeline] == [1, 0, 1]
    assert report.reconfigurations == 2
    boundary = byte_times(report.timeline[1][0])
    assert (boundary - FIRST) % PACKET in (0, *range(CONTROL, 2 * CONTROL + 1, CONTROL))
    whole = simulate(Overlap(4, (dp,))).finish_s[0]
    added = byte_times(report.finish_s[1] - whole)
    assert 90 * PACKET < added < 102 * PACKET
    assert report.retransmitted == report.timeouts == 0


def test_the_packets_on_their_way_pass_before_a_change_even_where_their_ports_are_not_wanted() -> None:
    report = simulate(Overlap(4, (run_of("mp", "0,1", 9, times(60_000)), run_of("dp", "2>3", 100))))
    boundary = FIRST + 15 * PACKET
    assert boundary - PACKET < 60_000 + FIRST < boundary
    assert byte_times(report.timeline[1][0]) == boundary


@pytest.mark.parametrize("reconfigure", [100, 1000, 5000])
def test_a_reconfiguration_costs_its_time_and_may_let_one_lower_packet_in(reconfigure: int) -> None:
    """Longer than the spare room (576 bytes), it stops a source for want of credit, which sends a DP packet meanwhile."""
    for after in range(60_000, 66_000, 500):
        mp, dp = run_of("mp", "0-3", 100, times(after)), run_of("dp", "0-3", 400)
        alone = simulate(Overlap(4, (mp,))).finish_s[0]
        report = simulate(Overlap(4, (mp, dp), reconfigure_s=times(reconfigure)))
        packets = 1 if reconfigure < 576 else 2
        assert reconfigure <= byte_times(report.finish_s[0] - alone) <= reconfigure + packets * PACKET + CONTROL


def test_the_order_of_priority_is_mp_pp_dp() -> None:
    runs = tuple(
        run_of(phase, "0-3", 60, times(after)) for phase, after in (("dp", 0), ("pp", 60_000), ("mp", 120_000))
    )
    report = simulate(Overlap(4, runs))
    assert [runs[run].phase for _, run in report.timeline] == ["dp", "pp", "mp", "pp", "dp"]
    assert report.finish_s[2] < report.finish_s[1] < report.finish_s[0]


def test_a_lower_phase_does_not_preempt() -> None:
    mp, dp = run_of("mp", "0-3", 100), run_of("dp", "0-3", 100, times(50_000))
    alone = simulate(Overlap(4, (mp,))).finish_s[0]
    report = simulate(Overlap(4, (mp, dp)))
    assert [run for _, run in report.timeline] == [0, 1]
    assert report.finish_s[0] - alone <= times(CONTROL)


def test_no_change_while_one_port_of_the_higher_phase_lacks_a_packet() -> None:
    late = 700_000
    mp = run_of("mp", "0,1;2,3", 50, {0: times(50_000), 1: times(50_000), 2: times(50_000), 3: times(late)})
    report = simulate(Overlap(4, (mp, run_of("dp", "0-3", 400))))
    assert [run for _, run in report.timeline] == [1, 0, 1]
    assert late + FIRST <= byte_times(report.timeline[1][0]) <= late + FIRST + 2 * PACKET
    # The flow of ports 0 and 1, wholly there, waits as well; its buffers fill up to their size, and no further.
    assert [one[0] for one in report.peak_bytes[:3]] == [PAPER.buffer_bytes] * 3


def test_a_port_outside_the_higher_phase_need_not_have_a_packet() -> None:
    report = simulate(Overlap(5, (run_of("mp", "0,1", 50, times(50_000)), run_of("dp", "0-4", 200))))
    assert [run for _, run in report.timeline] == [1, 0, 1]
    assert byte_times(report.timeline[1][0]) < 80_000


@pytest.mark.parametrize("keep", [True, False])
def test_a_phase_that_waits_for_a_straggler_keeps_the_switch_if_so_wished(keep: bool) -> None:
    """MP begins with the flow that is there, and its other flow comes late; DP is wholly ready meanwhile."""
    mp = run_of("mp", "0,1;2,3", 20, {2: times(2_000_000), 3: times(2_000_000)})
    dp = run_of("dp", "0-3", 20, times(10_000))
    report = simulate(Overlap(4, (mp, dp), keep=keep))
    assert [run for _, run in report.timeline] == ([0, 1] if keep else [0, 1, 0])
    assert (byte_times(report.finish_s[1]) > 2_000_000) == keep
    assert (report.configured_s[0] > times(2_000_000)) == keep


def test_phases_of_one_vc_go_one_after_another() -> None:
    runs = (run_of("dp", "0,1;2,3", 30), run_of("dp", "0-3", 30), run_of("dp", "0,2;1,3", 30))
    report = simulate(Overlap(4, runs))
    assert [run for _, run in report.timeline] == [0, 1, 2]
    assert list(report.finish_s) == sorted(report.finish_s)


def test_times_of_configurations_add_up() -> None:
    runs = (
        run_of("mp", "0-3", 60, times(100_000)),
        run_of("pp", "0>1;2>3", 60, times(90_000)),
        run_of("dp", "0-3", 90),
    )
    report = simulate(Overlap(4, runs))
    ends = max(report.finish_s) - times(LATENCY)
    assert sum(report.configured_s.values()) == ends - report.timeline[0][0]
    assert all(report.configured_s[k] >= times(60 * PACKET) for k in range(3))


def test_phases_of_a_strategy_overlap() -> None:
    from fabric_plan.planner.parallelism import Strategy

    strategy = Strategy.parse("MP3-DP2-PP2")
    runs = []
    for phase, after in (("dp", 0), ("pp", 40_000), ("mp", 80_000)):
        flows = tuple(strategy_flows(strategy, phase))
        runs.append(PhaseRun(phase, flows, tuple(100_000 + 1000 * k for k in range(len(flows))), times(after)))
    overlap = Overlap(12, tuple(runs))
    report = simulate(overlap)
    assert everything_arrived(overlap, report)
    assert report.finish_s[2] < report.finish_s[0]


# Buffers and credits.


def test_buffers_hold_and_nothing_is_sent_twice_without_faults() -> None:
    full = 0
    for seed in range(250):
        overlap = random_overlap(seed)
        report = simulate(overlap)
        assert everything_arrived(overlap, report), seed
        assert report.retransmitted == report.timeouts == report.lost == sum(report.dropped) == 0, seed
        for mp, pp, dp, control in report.peak_bytes:
            assert max(mp, pp, dp) <= PAPER.buffer_bytes and control <= PAPER.control_buffer_bytes, seed
            full += max(mp, pp, dp) > PAPER.buffer_bytes - PACKET
    assert full > 100  # many runs do fill one


def test_a_source_without_credits_runs_a_buffer_over() -> None:
    """The check of the buffers can fail."""
    switch = Switch(Overlap(2, (run_of("mp", "0,1>0", 20, {1: times(500_000)}),)), None)
    switch.room = [2 * room for room in switch.room]
    with pytest.raises(SwitchDefect, match="more than its buffer"):
        switch.run()


def test_a_missing_contribution_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the data can fail."""
    switch = Switch(Overlap(3, (run_of("mp", "0-2", 3),)), None)
    monkeypatch.setattr(switch, "mask", [7 | 8])
    with pytest.raises(SwitchDefect, match="lacks contributions"):
        switch.run()


# Overhead.


@pytest.mark.parametrize("groups", ["0>1", "0-3", "0-3>0", "0>0-3", "0,1;2,3"])
def test_acks_take_less_than_a_percent(groups: str) -> None:
    report = simulate(Overlap(4, (run_of("dp", groups, 1600),)))
    assert report.ack_overhead == Fraction(512, 16 * 4096) < Fraction(1, 100)
    assert report.header_overhead < Fraction(16, 10_000)
    used = [(one.data_bytes, other.control_bytes) for one, other in zip(report.up, report.down, strict=True)]
    assert all(control * 128 == data for data, control in used)


def test_headers_are_inside_packets() -> None:
    report = simulate(Overlap(2, (run_of("dp", "0>1", 160),)))
    assert report.up[0].header_bytes == 160 * 6
    assert report.up[0].data_bytes - report.up[0].header_bytes == 160 * PAPER.payload_bytes
    assert report.up[1].header_bytes == 10 * 6


# Go-Back-N.


class Wire:
    """Corrupts what it is told to, once, and keeps all that crossed."""

    def __init__(self, *bad: tuple[str, int, str, int]) -> None:
        self.bad = list(bad)
        self.seen: list[tuple[str, int, str, int]] = []

    def __call__(self, one: Crossing) -> bool:
        key = (one.direction, one.port, one.kind, one.number)
        self.seen.append(key)
        if key in self.bad:
            self.bad.remove(key)
            return True
        return False

    def numbers(self, direction: str, port: int, kind: str) -> list[int]:
        return [number for way, where, what, number in self.seen if (way, where, what) == (direction, port, kind)]


def sent_again(numbers: list[int]) -> list[int]:
    """The packets from where a source went back."""
    place = next(k for k in range(1, len(numbers)) if numbers[k] <= numbers[k - 1])
    return numbers[place:]


def test_a_nack_reaches_every_source_and_all_go_back_to_it() -> None:
    wire = Wire(("down", 2, "data", 5))
    report = simulate(Overlap(4, (run_of("mp", "0,1,3>2,3", 40),)), Faults(lose=wire))
    assert not wire.bad and report.lost == 1
    assert wire.numbers("up", 2, "nack") == [5]
    assert wire.numbers("up", 3, "nack") == []
    for source in (0, 1, 3):
        assert wire.numbers("down", source, "nack") == [5]
        assert sent_again(wire.numbers("up", source, "data")) == list(range(5, 40))
    assert wire.numbers("down", 2, "nack") == []
    assert [number for *_, number in report.nacks] == [5]
    assert report.timeouts == 0 and report.retransmitted > 0
    assert report.dropped[0] > 0 and report.dropped[1] > 0


def test_a_gap_at_one_input_makes_the_switch_ask_all_sources() -> None:
    wire = Wire(("up", 1, "data", 7))
    report = simulate(Overlap(4, (run_of("mp", "0-2>3", 40),)), Faults(lose=wire))
    assert wire.numbers("up", 3, "nack") == []
    for source in range(3):
        assert wire.numbers("down", source, "nack") == [7]
        assert sent_again(wire.numbers("up", source, "data")) == list(range(7, 40))
    assert wire.numbers("down", 3, "data") == list(range(40))
    assert report.timeouts == 0


@pytest.mark.parametrize("link", [("down", 2), ("up", 1)])
def test_a_packet_lost_twice_is_asked_for_twice(link: tuple[str, int]) -> None:
    bad = (*link, "data", 5)
    wire = Wire(bad, bad)
    report = simulate(Overlap(3, (run_of("mp", "0,1>2", 40),)), Faults(lose=wire))
    assert wire.numbers("up", 2, "nack") == ([5, 5] if link[0] == "down" else [])
    assert wire.numbers("down", 0, "nack") == wire.numbers("down", 1, "nack") == [5, 5]
    assert report.timeouts == 0 and report.lost == 2


def test_repeated_packets_are_acknowledged_as_well() -> None:
    """All ACKs of a window are lost; its repetition brings one."""
    wire = Wire(*(("up", 2, "ack", number) for number in (16, 32, 48, 64)))
    overlap = Overlap(3, (run_of("mp", "0,1>2", 100),))
    report = simulate(overlap, Faults(lose=wire))
    assert everything_arrived(overlap, report)
    assert not wire.bad and 1 <= report.timeouts <= 2


def test_backpressure_alone_causes_no_timeout() -> None:
    """Three packets wait in the switch for one that comes much later than any timeout."""
    late = 100 * 16 * 24_000
    report = simulate(Overlap(4, (run_of("dp", "0-3", 3, {3: times(late)}),)))
    assert report.timeouts == report.retransmitted == 0
    assert byte_times(report.finish_s[0]) == late + 3 * PACKET + PAPER.flit_bytes + 2 * LATENCY


@pytest.mark.parametrize(
    "bad",
    [
        ("up", 0, "data", 39),
        ("down", 2, "data", 39),
        ("up", 2, "ack", 40),
        ("down", 1, "ack", 40),
    ],
)
def test_a_timeout_covers_what_no_nack_tells_of(bad: tuple[str, int, str, int]) -> None:
    """The last packet, on either side, and the last ACK, on either side."""
    wire = Wire(bad)
    overlap = Overlap(3, (run_of("mp", "0,1>2", 40),))
    report = simulate(overlap, Faults(lose=wire))
    assert everything_arrived(overlap, report)
    assert not wire.bad and report.timeouts >= 1
    assert report.retransmitted <= 2 * 40


def test_a_preempted_phase_that_has_sent_all_causes_no_timeout() -> None:
    """Port 0 has had some credits back; its other packets wait in the switch, for longer than a timeout."""
    runs = (run_of("mp", "1-3", 200, times(20_000)), run_of("dp", "0-3", 9))
    report = simulate(Overlap(4, runs))
    assert [run for _, run in report.timeline] == [1, 0, 1]
    assert report.timeouts == report.retransmitted == 0


def test_two_sources_that_ask_again_for_different_packets_go_back_to_the_first() -> None:
    """The second is found while the switch goes back for the first."""
    switch = Switch(Overlap(3, (run_of("mp", "0,1>2", 40),)), None)
    one, two = switch.ins[0]
    switch.next[0], switch.head[two], switch.present[0] = 10, 0, 1
    switch.queue[one].append((0, 5, 0, PACKET, True))
    switch.queue[two].extend([(1, 10, 0, PACKET, False), (1, 3, 0, PACKET, True)])
    switch.examine(one)
    assert switch.next[0] == 3
    assert (switch.head[one], switch.head[two], switch.present[0]) == (-1, 0, 1)
    assert (list(switch.queue[one]), [packet[1] for packet in switch.queue[two]]) == ([], [3])


def test_an_ack_is_made_good_by_the_next() -> None:
    wire = Wire(("up", 2, "ack", 16))
    report = simulate(Overlap(3, (run_of("mp", "0,1>2", 100),)), Faults(lose=wire))
    assert report.timeouts == report.retransmitted == 0
    assert wire.numbers("down", 0, "ack") == [32, 48, 64, 80, 96, 100]


@pytest.mark.parametrize("bad", [("up", 2, "nack", 5), ("down", 1, "nack", 5)])
def test_a_lost_nack_is_covered(bad: tuple[str, int, str, int]) -> None:
    wire = Wire(("down", 2, "data", 5), bad)
    overlap = Overlap(3, (run_of("mp", "0,1>2", 100),))
    report = simulate(overlap, Faults(lose=wire))
    assert everything_arrived(overlap, report)
    assert not wire.bad and report.lost == 2


def test_an_ack_goes_to_the_sources_when_all_outputs_have_acknowledged() -> None:
    wire = Wire(("up", 3, "ack", 16))
    simulate(Overlap(4, (run_of("mp", "0,1>2,3", 48),)), Faults(lose=wire))
    assert wire.numbers("up", 2, "ack") == [16, 32, 48]
    assert wire.numbers("down", 0, "ack") == wire.numbers("down", 1, "ack") == [32, 48]


@pytest.mark.parametrize("rate", [0.001, 0.01, 0.05])
def test_nothing_is_lost_under_faults(rate: float) -> None:
    lost = 0
    for seed in range(150):
        overlap = random_overlap(1000 + seed)
        report = simulate(overlap, Faults(rate, seed))
        assert everything_arrived(overlap, report), seed
        assert all(max(row[:3]) <= PAPER.buffer_bytes for row in report.peak_bytes), seed
        lost += report.lost
    assert lost > 20


def test_a_fault_on_everything_ends() -> None:
    with pytest.raises(LimitReached, match="make them rarer"):
        simulate(Overlap(2, (run_of("mp", "0>1", 3),)), Faults(lose=lambda one: one.direction == "down"))


def test_faults_of_mp_let_dp_go_on_and_mp_come_back() -> None:
    """MP's last packet is lost after the switch has turned to DP; its second sending preempts again."""
    wire = Wire(("down", 0, "data", 19))
    runs = (run_of("mp", "0,1", 20), run_of("dp", "2,3", 400, times(10_000)))
    report = simulate(Overlap(4, runs), Faults(lose=wire))
    assert [run for _, run in report.timeline] == [0, 1, 0, 1]


# The default header.


@pytest.mark.parametrize("seed", range(20))
def test_all_to_all_of_any_sizes_is_routed_online(seed: int) -> None:
    draw = random.Random(seed)
    ports = draw.randint(2, 12)
    pairs = [(a, b) for a in range(ports) for b in range(ports) if draw.random() < 0.8] or [(0, 1)]
    flows = tuple(SwitchFlow(inputs=(a,), outputs=(b,)) for a, b in pairs)
    sizes = tuple(draw.randint(1, 20 * PAPER.payload_bytes) for _ in flows)
    overlap = Overlap(ports, (PhaseRun("default", flows, sizes),))
    report = simulate(overlap)
    assert everything_arrived(overlap, report)
    for step in report.online_steps:
        assert len({a for a, _ in step}) == len({b for _, b in step}) == len(step)
    moved = sum(len(step) for step in report.online_steps)
    assert moved == sum(PAPER.packets(size) for size in sizes)
    assert any(len(step) > 1 for step in report.online_steps) or ports == 2
    assert report.retransmitted == 0


def test_a_permutation_by_the_default_header_reaches_the_rate_but_for_its_acks() -> None:
    """Each ACK may cost its output a step."""
    report = simulate(Overlap(8, (run_of("default", ";".join(f"{k}>{(k + 3) % 8}" for k in range(8)), 160),)))
    assert byte_times(report.finish_s[0]) < Fraction(17, 16) * 161 * PACKET + FIRST + LATENCY


def test_mp_preempts_the_default_phase() -> None:
    runs = (run_of("mp", "0-3", 30, times(60_000)), run_of("default", "0>1;1>0;0>2;3>1", 60))
    report = simulate(Overlap(4, runs))
    assert [run for _, run in report.timeline] == [1, 0, 1]


def test_unicast_words_configure_any_matching() -> None:
    draw = random.Random(5)
    for ports in range(2, 34):
        for _ in range(6):
            sources = draw.sample(range(ports), draw.randint(1, ports))
            pairs = list(zip(sources, draw.sample(range(ports), len(sources)), strict=True))
            words = unicast_words(pairs, ports)
            flows = [SwitchFlow(inputs=(a,), outputs=(b,)) for a, b in pairs]
            assert walk(2, ports, configure(2, ports, flows, words), flows) == []
            assert all(words[a][:level] != words[b][:level] for a, b, level in conflicts(flows, ports))


@pytest.mark.parametrize("pairs", [[(0, 1), (0, 2)], [(0, 1), (2, 1)], [(0, 4)], [(-1, 0)]])
def test_unicast_words_refuse_what_is_no_matching(pairs: list[tuple[int, int]]) -> None:
    with pytest.raises(InvalidInput, match="unicast: "):
        unicast_words(pairs, 4)


def test_a_router_without_words_is_a_defect() -> None:
    overlap = Overlap(4, (run_of("default", "0>1", 2),), route=lambda pairs, ports: [])
    with pytest.raises(SwitchDefect, match="no words"):
        simulate(overlap)


# Determinism and bad input.


@pytest.mark.parametrize("seed", [3, 14, 15])
def test_two_runs_are_one(seed: int) -> None:
    overlap = random_overlap(seed)
    assert simulate(overlap, Faults(0.02, seed)) == simulate(overlap, Faults(0.02, seed))


def test_another_seed_is_another_run() -> None:
    overlap = Overlap(4, (run_of("dp", "0-3", 400),))
    assert simulate(overlap, Faults(0.02, 1)) != simulate(overlap, Faults(0.02, 2))


@pytest.mark.parametrize("part", [Fraction(1, 3), Fraction(1, 7), Fraction(22, 7)])
def test_times_are_exact_where_a_wire_is_no_whole_number_of_bytes(part: Fraction) -> None:
    link = SwitchLink(latency_s=(LATENCY + part) / BANDWIDTH)
    late = Fraction(1, 3 * BANDWIDTH)
    report = simulate(Overlap(2, (run_of("mp", "0>1", 50, late),), link=link))
    wanted = 50 * PACKET + PAPER.flit_bytes + 2 * (LATENCY + part) + Fraction(1, 3)
    assert byte_times(report.finish_s[0]) == wanted
    assert report.up[0].data_bytes == 50 * PACKET


def test_nothing_to_do() -> None:
    report = simulate(Overlap(4, ()))
    assert (report.finish_s, report.timeline, report.ack_overhead, report.reconfigurations) == ((), (), 0, 0)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: run_of("defualt", "0>3", 1), r"did you mean default\?"),
        (lambda: run_of("pm", "0-3", 1), "expected one of mp, pp, dp, default"),
        (lambda: run_of("mp", "0,1;1,2", 1), "share port 1 among their inputs"),
        (lambda: run_of("mp", "0>1;2>1", 1), "share port 1 among their outputs"),
        (lambda: run_of("mp", "0-3", 0), "has 0 bytes"),
        (lambda: PhaseRun("mp", tuple(parse_groups("0,1")), ()), "1 flows and 0 sizes"),
        (lambda: run_of("mp", "0,1", 1, -1), "before 0 s"),
        (lambda: run_of("mp", "0,1", 1, {0: Fraction(-1)}), "before 0 s"),
        (lambda: run_of("default", "0,1>2", 1), "not unicast"),
        (lambda: Overlap(4, (run_of("mp", "3,4", 1),)), "names port 4: use 0 to 3"),
        (lambda: Overlap(1, ()), "at least 2"),
        (lambda: Overlap(2, (), reconfigure_s=-1), "0 s or more"),
        (lambda: Overlap(2, (run_of("dp", "0>1", MAX_CROSSINGS),)), "simulate smaller flows"),
        (lambda: SwitchLink(packet_bytes=4000), "not whole flits"),
        (lambda: SwitchLink(buffer_bytes=2048), "must hold a whole packet"),
        (lambda: SwitchLink(bandwidth_Bps=0), "above 0"),
        (lambda: SwitchLink(ack_every=0), "at least 1"),
        (lambda: SwitchLink(header_bytes=512), "header"),
        (lambda: Faults(rate=1.0), "expected 0 to 0.5"),
    ],
)
def test_bad_input_is_refused_in_one_line(make: object, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        make()  # type: ignore[operator]
    assert "\n" not in str(caught.value)
