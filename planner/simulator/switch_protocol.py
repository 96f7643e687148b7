"""What a packet simulation of one FRED switch is given, and what it reports (FRED paper, sections 5.4 and 6.2.3).

The paper's figures are the defaults: three data VCs (MP, PP, DP) of 24 KB and a control VC of 2 KB at each input port, data
packets of 4 KB, control packets and flits of 512 B, headers of 6 B inside the packet, an ACK for every 16 data packets, and
bandwidth x round trip = 24 KB. K is 1024 in sizes. The round trip is that of a credit: a packet's first flit and its whole
length on the wire, and the wire there and back; with 8 ns at 3 TB/s that is 24,000 bytes, so the latency of the wire alone
is 3.232 ns. Were the wire's own round trip 8 ns, six packets of buffer would be one short of the full rate, since virtual
cut-through sends a packet only into room for all of it (:meth:`SwitchLink.share_of_rate` tells).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from fabric_plan.planner.errors import InvalidInput, PlanRejected, suggest
from fabric_plan.planner.fred import Word
from fabric_plan.planner.problem import SwitchFlow
from fabric_plan.planner.unicast import unicast_words

Time = Fraction | int
"""Seconds, exact."""

DATA_VCS = ("mp", "pp", "dp")
"""The data VCs of a port, and the phases that they are for, highest priority first (section 5.4)."""

DEFAULT = "default"
"""The phase of the default header index: unicast flows, routed online (section 6.2.3)."""

PHASES = (*DATA_VCS, DEFAULT)
"""Phases, highest priority first."""

VC_OF = {"mp": 0, "pp": 1, "dp": 2, DEFAULT: 2}
"""The VC in which a phase's packets travel; the paper has three, so default packets take that of the lowest priority."""

WINDOW_ACKS = 4
"""A source has at most so many ACK intervals (64 packets) unacknowledged; sequence numbers do not wrap below 2^32."""

TIMEOUT_ROUND_TRIPS = 16
"""A source waits so many round trips for an ACK, doubled up to ``BACKOFFS`` times while none comes."""

BACKOFFS = 6
MAX_TIMEOUTS = 100
"""After so many timeouts of a VC without progress the simulation gives up."""

MAX_CROSSINGS = 20_000_000
"""Data packets times links that they cross; more would take minutes."""


class SwitchDefect(PlanRejected):
    """The simulated switch broke a rule of its own (a buffer ran over, data was lost or reduced twice): a defect of ours."""


@dataclass(frozen=True)
class SwitchLink:
    """A link between an NPU and the switch, with what stands at its ends.

    Parameters
    ----------
    bandwidth_Bps
        Bytes per second, in each direction.
    latency_s
        Of the wire, one way.
    buffer_bytes, control_buffer_bytes
        Room of each data VC and of the control VC, at the switch and at the NPU.
    packet_bytes, flit_bytes, control_bytes, header_bytes
        Of a data packet (header included), a flit, a control packet, and the header of either.
    ack_every
        Data packets for each cumulative ACK.

    Raises
    ------
    InvalidInput
        When a size does not fit the others.
    """

    bandwidth_Bps: int = 3 * 10**12  # noqa: N815
    latency_s: Time = Fraction(3232, 10**12)
    buffer_bytes: int = 24 * 1024
    control_buffer_bytes: int = 2 * 1024
    packet_bytes: int = 4 * 1024
    flit_bytes: int = 512
    control_bytes: int = 512
    header_bytes: int = 6
    ack_every: int = 16

    def __post_init__(self) -> None:
        if self.bandwidth_Bps <= 0 or self.latency_s < 0:
            raise InvalidInput("switch link: bandwidth must be above 0 bytes/s, latency 0 s or more")
        if self.flit_bytes <= self.header_bytes or self.header_bytes < 0:
            raise InvalidInput(
                f"switch link: a flit of {self.flit_bytes} bytes does not hold a {self.header_bytes} B header"
            )
        for name, size in (("data", self.packet_bytes), ("control", self.control_bytes)):
            if size <= 0 or size % self.flit_bytes:
                raise InvalidInput(
                    f"switch link: a {name} packet of {size} bytes is not whole flits of {self.flit_bytes}"
                )
        if self.buffer_bytes < self.packet_bytes or self.control_buffer_bytes < self.control_bytes:
            raise InvalidInput(
                "switch link: a buffer must hold a whole packet: virtual cut-through sends none otherwise"
            )
        if self.ack_every < 1:
            raise InvalidInput("switch link: an ACK comes after at least 1 packet")

    @property
    def payload_bytes(self) -> int:
        """Bytes of data in a full packet."""
        return self.packet_bytes - self.header_bytes

    @property
    def window(self) -> int:
        """How many packets of a flow a source may have unacknowledged."""
        return WINDOW_ACKS * self.ack_every

    @property
    def round_trip_s(self) -> Fraction:
        """Seconds from the start of a full packet until its room is known to be free again, if it is passed on at once."""
        return 2 * Fraction(self.latency_s) + Fraction(self.flit_bytes + self.packet_bytes, self.bandwidth_Bps)

    def share_of_rate(self) -> Fraction:
        """Return the share of the bandwidth that whole packets into this buffer can reach, at most 1."""
        packets = self.buffer_bytes // self.packet_bytes
        return min(Fraction(1), packets * self.packet_bytes / (self.round_trip_s * self.bandwidth_Bps))

    def packets(self, size_bytes: int) -> int:
        """Return how many packets carry so many bytes."""
        return -(-size_bytes // self.payload_bytes)

    def last_packet_bytes(self, size_bytes: int) -> int:
        """Return the length of the last of them, in whole flits."""
        rest = size_bytes - (self.packets(size_bytes) - 1) * self.payload_bytes + self.header_bytes
        return -(-rest // self.flit_bytes) * self.flit_bytes


PAPER = SwitchLink()
"""The link of section 6.2.3."""


@dataclass(frozen=True)
class PhaseRun:
    """One communication operation: flows that route together.

    Parameters
    ----------
    phase
        ``mp``, ``pp``, ``dp``, or ``default``.
    flows
        With inputs and outputs disjoint, so that one configuration holds them all; in ``default`` unicast, without that rule.
    sizes_bytes
        Of each flow: bytes that each input holds, and each output receives.
    release_s
        When the NPUs have their data: for all, or by source port (absent: 0).
    """

    phase: str
    flows: tuple[SwitchFlow, ...]
    sizes_bytes: tuple[int, ...]
    release_s: Time | Mapping[int, Time] = 0

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            hint = suggest(self.phase, list(PHASES))
            raise InvalidInput(f"unknown phase {self.phase!r}{hint}: expected one of {', '.join(PHASES)}")
        if not self.flows or len(self.flows) != len(self.sizes_bytes):
            raise InvalidInput(
                f"phase {self.phase}: {len(self.flows)} flows and {len(self.sizes_bytes)} sizes: give each flow its bytes"
            )
        for index, size in enumerate(self.sizes_bytes):
            if size <= 0:
                raise InvalidInput(
                    f"phase {self.phase}: flow {index} has {size} bytes: give at least 1, or leave it out"
                )
        releases = self.release_s.values() if isinstance(self.release_s, Mapping) else (self.release_s,)
        if any(release < 0 for release in releases):
            raise InvalidInput(f"phase {self.phase}: a release lies before 0 s: times start at 0")
        if self.phase == DEFAULT:
            for index, flow in enumerate(self.flows):
                if len(flow.inputs) != 1 or len(flow.outputs) != 1:
                    raise InvalidInput(
                        f"phase default: flow {index} is not unicast: give it one input and one output, or a phase of its own"
                    )
            return
        for side in ("inputs", "outputs"):
            owner: dict[int, int] = {}
            for index, flow in enumerate(self.flows):
                for port in getattr(flow, side):
                    if port in owner:
                        raise InvalidInput(
                            f"phase {self.phase}: flows {owner[port]} and {index} share port {port} among their {side}: "
                            "run them as two phases"
                        )
                    owner[port] = index

    def release_of(self, port: int) -> Time:
        """Return when a source may begin, in seconds."""
        return self.release_s.get(port, 0) if isinstance(self.release_s, Mapping) else self.release_s


Route = Callable[[Sequence[tuple[int, int]], int], Sequence[Word]]
"""Words for (input, output) pairs on a switch of so many ports, for online routing."""


@dataclass(frozen=True)
class Overlap:
    """Phases that overlap on one switch.

    Parameters
    ----------
    ports
        Of the switch, each with an NPU.
    phases
        Those on one VC run in this order at every NPU, and at the switch.
    link
        Of every port.
    reconfigure_s
        From the end of the last packet of a configuration to the first of the next.
    keep
        Whether the switch stays with a phase that has begun and now waits for a straggler, although a lower one is wholly there;
        else it turns to that one (:meth:`fabric_plan.planner.simulator.switch_packets.Switch.wish`).
    route
        For online routing.
    """

    ports: int
    phases: tuple[PhaseRun, ...]
    link: SwitchLink = PAPER
    reconfigure_s: Time = 0
    keep: bool = True
    route: Route = unicast_words

    def __post_init__(self) -> None:
        if self.ports < 2:
            raise InvalidInput(f"overlap: {self.ports} ports: a switch has at least 2")
        if self.reconfigure_s < 0:
            raise InvalidInput("overlap: a reconfiguration takes 0 s or more")
        crossings = 0
        for index, run in enumerate(self.phases):
            for number, flow in enumerate(run.flows):
                for port in (*flow.inputs, *flow.outputs):
                    if not 0 <= port < self.ports:
                        raise InvalidInput(
                            f"phases[{index}] ({run.phase}): flow {number} names port {port}: use 0 to {self.ports - 1}"
                        )
                crossings += self.link.packets(run.sizes_bytes[number]) * (len(flow.inputs) + len(flow.outputs))
        if crossings > MAX_CROSSINGS:
            raise InvalidInput(
                f"overlap: {crossings:,} packets over links, more than {MAX_CROSSINGS:,}: simulate smaller flows, "
                "the rate does not change with their size"
            )

    def ticks_per_second(self) -> int:
        """Return the least number of ticks a second of which every byte, latency and release is a whole number."""
        times = [Fraction(self.link.latency_s), Fraction(self.reconfigure_s)]
        for run in self.phases:
            times += [Fraction(run.release_of(port)) for flow in run.flows for port in flow.inputs]
        bandwidth = self.link.bandwidth_Bps
        return bandwidth * math.lcm(*((one * bandwidth).denominator for one in times))


class Crossing(NamedTuple):
    """A packet that is put on a link."""

    direction: str
    """``up``: from the NPU to the switch; ``down``: to the NPU."""
    port: int
    kind: str
    """``data``, ``ack`` or ``nack``."""
    run: int
    """Index of the phase."""
    flow: int
    """Index of the flow in it."""
    number: int
    """The sequence number, of the packet or the next one wanted."""
    time_s: Fraction


@dataclass(frozen=True)
class Faults:
    """Packets that links corrupt: their receiver drops them unread, and gives their room back.

    Parameters
    ----------
    rate
        Share of all packets, data and control, up and down; drawn in the order in which they are sent.
    seed
        Of the draw.
    lose
        Tells for each packet whether it is corrupted, as well.
    """

    rate: float = 0.0
    seed: int = 0
    lose: Callable[[Crossing], bool] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 0.5:
            raise InvalidInput(f"faults: a rate of {self.rate}: expected 0 to 0.5 of all packets")


@dataclass
class LinkUse:
    """What crossed one direction of a port's link, corrupted packets included.

    ``data_bytes`` are whole data packets; ``header_bytes`` are inside data and control packets.
    """

    data_bytes: int = 0
    control_bytes: int = 0
    header_bytes: int = 0
    packets: int = 0


@dataclass(frozen=True)
class PacketReport:
    """What the simulation found.

    Parameters
    ----------
    finish_s, flow_finish_s
        When the last byte of each phase, and of each of its flows, arrived at its last output.
    timeline
        (seconds, index of the phase) at each change of configuration, the first included.
    configured_s
        Seconds that each phase's configuration was set, by index, until the last packet left the switch.
    peak_bytes
        By port: the most that its MP, PP, DP and control VC at the switch held.
    up, down
        Use of each port's link, towards the switch and from it.
    retransmitted, timeouts, lost
        Data packets sent again; timeouts of sources; packets corrupted.
    dropped
        Data packets that the switch dropped, and that NPUs dropped, because of their numbers.
    nacks
        (seconds, phase, flow, number) of each NACK that the switch sent or passed on, to all sources unless one had asked.
    online_steps
        (input, output) pairs of each step of online routing.
    delivered
        Bytes by (phase, flow, output port): each checked, packet by packet, to be reduced over all inputs once.
    events
        How many events the simulation took.
    """

    finish_s: tuple[Fraction, ...]
    flow_finish_s: tuple[tuple[Fraction, ...], ...]
    timeline: tuple[tuple[Fraction, int], ...]
    configured_s: dict[int, Fraction]
    peak_bytes: tuple[tuple[int, int, int, int], ...]
    up: tuple[LinkUse, ...]
    down: tuple[LinkUse, ...]
    retransmitted: int
    timeouts: int
    lost: int
    dropped: tuple[int, int]
    nacks: tuple[tuple[Fraction, int, int, int], ...]
    online_steps: tuple[tuple[tuple[int, int], ...], ...]
    delivered: dict[tuple[int, int, int], int]
    events: int
    bandwidth_Bps: int = PAPER.bandwidth_Bps  # noqa: N815

    @property
    def reconfigurations(self) -> int:
        """Changes of configuration after the first."""
        return max(0, len(self.timeline) - 1)

    @property
    def ack_overhead(self) -> Fraction:
        """Control bytes per data byte, over all links."""
        data = sum(one.data_bytes for one in (*self.up, *self.down))
        return Fraction(sum(one.control_bytes for one in (*self.up, *self.down)), data) if data else Fraction(0)

    @property
    def header_overhead(self) -> Fraction:
        """Header bytes per byte sent, over all links."""
        uses = (*self.up, *self.down)
        sent = sum(one.data_bytes + one.control_bytes for one in uses)
        return Fraction(sum(one.header_bytes for one in uses), sent) if sent else Fraction(0)

    def utilisation(self, direction: str, port: int) -> Fraction:
        """Return the share of the time until the last finish that a link was sending."""
        use = (self.up if direction == "up" else self.down)[port]
        end = max(self.finish_s, default=Fraction(0))
        return (use.data_bytes + use.control_bytes) / (end * self.bandwidth_Bps) if end else Fraction(0)
