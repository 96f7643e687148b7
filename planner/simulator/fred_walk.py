"""The walk through a configured FRED switch: tagged data pushed from its input ports to its output ports.

It knows how a Fred_m(P) is wired and what each micro-switch was set to, and nothing of words, colours or conflicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fabric_plan.planner.fred import BASE, Micro
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


def walk(middles: int, ports: int, settings: Iterable[Micro], flows: Sequence[SwitchFlow]) -> list[str]:
    """Push each input port's own data through the switch and return what is wrong at the outputs, or on the way.

    Every output port of a flow must hold exactly the sum of the flow's inputs, each once; every other one nothing.
    """
    table: dict[tuple[tuple[int, ...], str, int], Micro] = {}
    faults = []
    for micro in settings:
        key = (micro.path, micro.side, micro.index)
        if key in table:
            faults.append(f"{_place(key)} is configured twice")
        table[key] = micro
    state = _Walk(middles, table, faults)
    wires: list[Data | None] = [None] * ports
    wanted: list[Data | None] = [None] * ports
    for flow in flows:
        for port in flow.inputs:
            wires[port] = Counter({port: 1})
        for port in flow.outputs:
            wanted[port] = Counter(dict.fromkeys(flow.inputs, 1))
    for port, (got, want) in enumerate(zip(state.network(ports, (), wires), wanted, strict=True)):
        if got != want:
            told = "nothing" if got is None else f"the data of ports {_told(got)}"
            asked = "nothing" if want is None else f"that of ports {_told(want)}"
            state.faults.append(f"output port {port} holds {told}, it should hold {asked}")
    return state.faults


def _told(data: Data) -> str:
    return ", ".join(f"{port}" if many == 1 else f"{port} ({many} times)" for port, many in sorted(data.items()))
