"""FRED's recursive switch Fred_m(P): its micro-switches, flows as colour words, and the configuration that words mean.

Fred_m(2r) is r input micro-switches (2 x m), r output micro-switches (m x 2), and m middle networks Fred_m(r) between them;
Fred_m(2r + 1) has its last port joined to every middle network Fred_m(r + 1) by a demultiplexer and a multiplexer; Fred_m(2)
is one micro-switch (FRED paper, sections 4 and 5). Port p sits in micro-switch p >> 1, which is port p >> 1 of each middle
network. A flow takes one middle network at each level: a word of letters below m, outermost first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from fabric_plan.planner.errors import InvalidPlan
from fabric_plan.planner.problem import SwitchFlow

Word = tuple[int, ...]

BASE = "base"


@cache
def levels(ports: int) -> int:
    """Return how many letters a word has: how often P -> ceil(P / 2) until 2 are left."""
    return 0 if ports <= 2 else 1 + levels((ports + 1) // 2)


@cache
def micro_switches(middles: int, ports: int) -> int:
    """Return the number of micro-switches of Fred_m(P); demultiplexers and multiplexers are extra."""
    if ports <= 2:
        return 1
    return 2 * (ports // 2) + middles * micro_switches(middles, (ports + 1) // 2)


@cache
def multiplexers(middles: int, ports: int) -> int:
    """Return the number of demultiplexers and multiplexers of Fred_m(P): two for each odd network in it."""
    if ports <= 2:
        return 0
    return 2 * (ports % 2) + middles * multiplexers(middles, (ports + 1) // 2)


def conflicts(flows: Sequence[SwitchFlow], ports: int) -> list[tuple[int, int, int]]:
    """Return (a, b, level) for every pair of flows whose words must differ within their first ``level`` letters.

    That is the first level at which they share an input or an output micro-switch.
    """
    found: dict[tuple[int, int], int] = {}
    # Flows that share no block of ports at any level with letters are never compared.
    for level in range(1, levels(ports) + 1):
        for side in ("inputs", "outputs"):
            blocks: dict[int, set[int]] = {}
            for index, flow in enumerate(flows):
                for port in getattr(flow, side):
                    blocks.setdefault(port >> level, set()).add(index)
            for members in blocks.values():
                ordered = sorted(members)
                for k, a in enumerate(ordered):
                    for b in ordered[k + 1 :]:
                        found.setdefault((a, b), level)
    return sorted((a, b, level) for (a, b), level in found.items())


@dataclass(frozen=True, slots=True)
class Micro:
    """A configured micro-switch (or the joint of an odd port).

    Parameters
    ----------
    path
        The middle networks that lead to its network, outermost first.
    side
        ``in``, ``out``, or ``base`` for a Fred_m(2).
    index
        Its number on that side; the joint of an odd port is numbered after the micro-switches.
    inputs, outputs
        How many wires it has.
    connections
        (inputs, outputs) of each stream in it: the inputs are added up, and the sum goes to every output.
    """

    path: tuple[int, ...]
    side: str
    index: int
    inputs: int
    outputs: int
    connections: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    @property
    def state(self) -> str:
        """What it does: idle, pass, cross, reduce, distribute or reduce-distribute (FRED paper, section 4.1)."""
        if not self.connections:
            return "idle"
        reduces = any(len(a) > 1 for a, _ in self.connections)
        spreads = any(len(b) > 1 for _, b in self.connections)
        if reduces or spreads:
            return "reduce-distribute" if reduces and spreads else "reduce" if reduces else "distribute"
        crossed = any(a[0] != b[0] for a, b in self.connections)
        return "cross" if crossed else "pass"


def configure(middles: int, ports: int, flows: Sequence[SwitchFlow], words: Sequence[Word]) -> list[Micro]:
    """Return every micro-switch as the words of all flows set it, outermost network first.

    Raises
    ------
    InvalidPlan
        When a word has the wrong length or letters, or two flows would need the same wire, naming both.
    """
    depth = levels(ports)
    if len(words) != len(flows):
        raise InvalidPlan(f"{len(words)} words are given for {len(flows)} flows")
    for side in ("inputs", "outputs"):
        used: dict[int, int] = {}
        for index, flow in enumerate(flows):
            for port in getattr(flow, side):
                if not 0 <= port < ports:
                    raise InvalidPlan(f"flow {index}: the switch has no port {port}")
                if used.setdefault(port, index) != index:
                    raise InvalidPlan(f"flows {used[port]} and {index} both have port {port} among their {side}")
    for index, word in enumerate(words):
        if len(word) != depth or any(not 0 <= letter < middles for letter in word):
            raise InvalidPlan(f"flow {index}: word {list(word)} must have {depth} letters from 0 to {middles - 1}")
    streams = [(k, tuple(sorted(f.inputs)), tuple(sorted(f.outputs)), words[k]) for k, f in enumerate(flows)]
    return list(_network(middles, ports, (), streams))


_Stream = tuple[int, tuple[int, ...], tuple[int, ...], Word]


def _network(middles: int, ports: int, path: tuple[int, ...], streams: Sequence[_Stream]) -> Iterator[Micro]:
    if ports <= 2:
        connections = tuple((inputs, outputs) for _, inputs, outputs, _ in streams)
        yield Micro(path, BASE, 0, ports, ports, connections)
        return
    switches, odd = divmod(ports, 2)
    for side in ("in", "out"):
        at: dict[int, list[tuple[tuple[int, ...], int, int]]] = {}
        for flow, inputs, outputs, word in streams:
            used: dict[int, list[int]] = {}
            for port in inputs if side == "in" else outputs:
                used.setdefault(port >> 1, []).append(port & 1)
            for index, wires in used.items():
                at.setdefault(index, []).append((tuple(wires), word[0], flow))
        for index in range(switches + odd):
            taken: dict[int, int] = {}
            for _, letter, flow in at.get(index, ()):
                if letter in taken:
                    where = f"{side} micro-switch {index} of {_name(path)}"
                    raise InvalidPlan(f"flows {taken[letter]} and {flow} both take middle network {letter} at {where}")
                taken[letter] = flow
            outer = 1 if index == switches else 2
            found = at.get(index, ())
            if side == "in":
                joined: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = tuple(
                    (wires, (letter,)) for wires, letter, _ in found
                )
                yield Micro(path, side, index, outer, middles, joined)
            else:
                joined = tuple(((letter,), wires) for wires, letter, _ in found)
                yield Micro(path, side, index, middles, outer, joined)
    for middle in range(middles):
        inner = [
            (flow, tuple(sorted({p >> 1 for p in inputs})), tuple(sorted({p >> 1 for p in outputs})), word[1:])
            for flow, inputs, outputs, word in streams
            if word[0] == middle
        ]
        yield from _network(middles, switches + odd, (*path, middle), inner)


def _name(path: tuple[int, ...]) -> str:
    return f"middle network {'.'.join(map(str, path))}" if path else "the switch"
