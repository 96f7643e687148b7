"""The walk through a configured FRED switch: tagged data pushed from its input ports to its output ports.

It knows how a Fred_m(P) is wired and what each micro-switch was set to, and nothing of words, colours or conflicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fabric_plan.planner.errors import InvalidPlan
from fabric_plan.planner.fred import BASE, Micro, configure
from fabric_plan.planner.fred_two_level import (
    ENDS,
    LEAVES,
    TOP_PORTS,
    TOPS,
    UPLINKS,
    Chiplet,
    end_name,
    home,
    leaf_ports,
    uplink,
)
from fabric_plan.planner.problem import SwitchFlow

Data = Counter[int]
"""Whose contributions a wire carries, by input port, and how often each."""


@dataclass
class _Walk:
    middles: int
    settings: dict[tuple[tuple[int, ...], str, int], Micro]
    faults: list[str] = field(default_factory=list)

    def through(
        self, key: tuple[tuple[int, ...], str, int], wires: Sequence[Data | None], outputs: int
    ) -> list[Data | None]:
        """Push data through one micro-switch."""
        micro = self.settings.get(key)
        found: list[Data | None] = [None] * outputs
        if micro is None:
            if any(wire is not None for wire in wires):
                self.faults.append(f"{_place(key)} is not configured, but data comes to it")
            return found
        if (micro.inputs, micro.outputs) != (len(wires), outputs):
            self.faults.append(
                f"{_place(key)} is {micro.inputs} x {micro.outputs}, it should be {len(wires)} x {outputs}"
            )
            return found
        read: set[int] = set()
        for sources, targets in micro.connections:
            total: Data = Counter()
            for source in sources:
                if not 0 <= source < len(wires) or source in read:
                    self.faults.append(f"{_place(key)} reads input {source} twice, or has no such input")
                    continue
                read.add(source)
                if wires[source] is None:
                    self.faults.append(f"{_place(key)} waits for data at input {source}, and none comes")
                else:
                    total += wires[source] or Counter()
            for target in targets:
                if not 0 <= target < outputs:
                    self.faults.append(f"{_place(key)} has no output {target}")
                elif found[target] is not None:
                    self.faults.append(f"{_place(key)} puts two flows on its output {target}")
                else:
                    found[target] = Counter(total)
        for source, wire in enumerate(wires):
            if wire is not None and source not in read:
                self.faults.append(f"{_place(key)} drops what comes to its input {source}")
        return found

    def network(self, ports: int, path: tuple[int, ...], wires: Sequence[Data | None]) -> list[Data | None]:
        """Push data through a whole Fred_m(ports)."""
        if ports <= 2:
            return self.through((path, BASE, 0), wires, ports)
        blocks, odd = divmod(ports, 2)
        inner: list[list[Data | None]] = [[None] * (blocks + odd) for _ in range(self.middles)]
        for block in range(blocks + odd):
            for middle, data in enumerate(
                self.through((path, "in", block), wires[2 * block : 2 * block + 2], self.middles)
            ):
                inner[middle][block] = data
        passed = [self.network(blocks + odd, (*path, middle), inner[middle]) for middle in range(self.middles)]
        found: list[Data | None] = []
        for block in range(blocks + odd):
            outputs = 2 if block < blocks else 1
            found += self.through(
                (path, "out", block), [passed[middle][block] for middle in range(self.middles)], outputs
            )
        return found


def _place(key: tuple[tuple[int, ...], str, int]) -> str:
    path, side, index = key
    where = f" of middle network {'.'.join(map(str, path))}" if path else ""
    return f"{side} micro-switch {index}{where}"


def push(
    middles: int, ports: int, settings: Iterable[Micro], wires: Sequence[Data | None]
) -> tuple[list[Data | None], list[str]]:
    """Push what comes to each input port through a configured switch; return (what each output holds, what is wrong)."""
    table: dict[tuple[tuple[int, ...], str, int], Micro] = {}
    faults = []
    for micro in settings:
        key = (micro.path, micro.side, micro.index)
        if key in table:
            faults.append(f"{_place(key)} is configured twice")
        table[key] = micro
    state = _Walk(middles, table, faults)
    return state.network(ports, (), wires), state.faults


def walk(middles: int, ports: int, settings: Iterable[Micro], flows: Sequence[SwitchFlow]) -> list[str]:
    """Push each input port's own data through the switch and return what is wrong at the outputs, or on the way.

    Every output port of a flow must hold exactly the sum of the flow's inputs, each once; every other one nothing.
    """
    wires: list[Data | None] = [None] * ports
    wanted: list[Data | None] = [None] * ports
    for flow in flows:
        for port in flow.inputs:
            wires[port] = Counter({port: 1})
        for port in flow.outputs:
            wanted[port] = Counter(dict.fromkeys(flow.inputs, 1))
    held, faults = push(middles, ports, settings, wires)
    for port, (got, want) in enumerate(zip(held, wanted, strict=True)):
        if got != want:
            told = "nothing" if got is None else f"the data of ports {_told(got)}"
            asked = "nothing" if want is None else f"that of ports {_told(want)}"
            faults.append(f"output port {port} holds {told}, it should hold {asked}")
    return faults


def _told(data: Data) -> str:
    return ", ".join(f"{port}" if many == 1 else f"{port} ({many} times)" for port, many in sorted(data.items()))


def walk_two_level(middles: int, chiplets: Sequence[Chiplet], flows: Sequence[SwitchFlow]) -> list[str]:
    """Push data from end to end (NPUs and I/O controllers) through the chiplets of a slice: up through L1, across L2, down through L1.

    Raises
    ------
    InvalidPlan
        When words do not make a configuration, or the chiplets are not those of a slice.
    """
    expected = [(f"l1.{leaf}", leaf_ports(leaf)) for leaf in range(LEAVES)]
    expected += [(f"l2.{top}", TOP_PORTS) for top in range(TOPS)]
    if [(one.name, one.ports) for one in chiplets] != expected:
        raise InvalidPlan(f"chiplets: a slice has {', '.join(f'{name} ({ports})' for name, ports in expected)}")
    settings = [configure(middles, one.ports, one.flows, one.words) for one in chiplets]
    leaves, tops = range(LEAVES), range(TOPS)
    start: list[Data | None] = [None] * ENDS
    wanted = list(start)
    for flow in flows:
        for end in flow.inputs:
            start[end] = Counter({end: 1})
        for end in flow.outputs:
            wanted[end] = Counter(dict.fromkeys(flow.inputs, 1))
    across: list[list[Data | None]] = [[None] * TOP_PORTS for _ in tops]
    down: list[dict[int, Data]] = [{} for _ in leaves]
    faults: list[str] = []
    local: list[list[tuple[int, int]]] = [[] for _ in leaves]
    for end in range(ENDS):
        leaf, port = home(end)
        local[leaf].append((end, port))

    def leaf_wires(leaf: int) -> list[Data | None]:
        wires: list[Data | None] = [None] * leaf_ports(leaf)
        for end, port in local[leaf]:
            wires[port] = start[end]
        for port, data in down[leaf].items():
            wires[port] = data
        return wires

    for leaf in leaves:
        # What comes down is not known yet; it must not go up again, so it does not matter here.
        held, _ = push(middles, leaf_ports(leaf), settings[leaf], leaf_wires(leaf))
        for top in tops:
            for number in range(UPLINKS):
                across[top][leaf * UPLINKS + number] = held[uplink(leaf, top, number)]
    for top in tops:
        held, wrong = push(middles, TOP_PORTS, settings[LEAVES + top], across[top])
        faults += [f"l2.{top}: {one}" for one in wrong]
        for port, data in enumerate(held):
            if data is not None:
                leaf, number = divmod(port, UPLINKS)
                down[leaf][uplink(leaf, top, number)] = data
    for leaf in leaves:
        held, wrong = push(middles, leaf_ports(leaf), settings[leaf], leaf_wires(leaf))
        faults += [f"l1.{leaf}: {one}" for one in wrong]
        for end, port in local[leaf]:
            if held[port] != wanted[end]:
                got, want = held[port], wanted[end]
                faults.append(
                    f"{end_name(end)} receives {'nothing' if got is None else _told(got)}, "
                    f"it should receive {'nothing' if want is None else _told(want)}"
                )
    return faults
