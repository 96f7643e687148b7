"""Flows over the paper's two-level fabric: which L2 chiplet and which uplinks each takes, and a word in every chiplet.

A flow that leaves its L1 is three: a reduction to an uplink, a flow through an L2 chiplet, and a distribution from a downlink.
Flows inside an L1 chiplet stay there, and each other flow takes one L2 chiplet: what is refuted is refuted for such routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from fabric_plan.models import solve
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fred import levels
from fabric_plan.planner.fred_two_level import (
    LEAVES,
    NPUS_EACH,
    TOP_PORTS,
    TOPS,
    UPLINKS,
    Chiplet,
    leaf_ports,
    uplink,
)
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.problem import SwitchFlow

Option = tuple[int, cp_model.IntVar | None]
"""A port, and the literal under which the flow uses it; None: always."""


@dataclass(frozen=True)
class TwoLevel:
    """What a run found: the chiplets of a slice, empty where nothing was found."""

    answer: solve.Answer
    middles: int
    chiplets: tuple[Chiplet, ...]


class _Model:
    """The model of one chiplet inside the joint one."""

    def __init__(self, model: cp_model.CpModel, name: str, ports: int, middles: int) -> None:
        self.model, self.name, self.ports, self.middles = model, name, ports, middles
        self.depth = levels(ports)
        self.sides: list[tuple[list[Option], list[Option]]] = []
        self.origins: list[int] = []
        self.letters: list[list[list[cp_model.IntVar]]] = []

    def add(self, origin: int, inputs: list[Option], outputs: list[Option]) -> None:
        """Add a flow whose ports may depend on literals."""
        self.origins.append(origin)
        self.sides.append((inputs, outputs))
        rows = [[self.model.new_bool_var("") for _ in range(self.middles)] for _ in range(self.depth)]
        for row in rows:
            self.model.add_exactly_one(row)
        self.letters.append(rows)

    def close(self) -> None:
        """Add what keeps the flows apart."""
        differs: dict[tuple[int, int, int], cp_model.IntVar] = {}
        for a in range(len(self.sides)):
            for b in range(a):
                for level in range(self.depth):
                    part = self.model.new_bool_var("")
                    differs[a, b, level] = part
                    for mine, theirs in zip(self.letters[a][level], self.letters[b][level], strict=True):
                        self.model.add_bool_or([part.negated(), mine.negated(), theirs.negated()])
        for side in (0, 1):
            for port in range(self.ports):
                users = [literal for both in self.sides for one, literal in both[side] if one == port]
                if len(users) > 1:
                    self.model.add_at_most_one(one for one in users if one is not None)
            for level in range(1, self.depth + 1):
                for block in range((self.ports - 1 >> level) + 1):
                    self._apart(side, level, block, differs)

    def _apart(self, side: int, level: int, block: int, differs: dict[tuple[int, int, int], cp_model.IntVar]) -> None:
        there: list[tuple[int, list[cp_model.IntVar | None]]] = []
        for flow, both in enumerate(self.sides):
            literals = [literal for port, literal in both[side] if port >> level == block]
            if literals:
                there.append((flow, literals))
        for k, (a, mine) in enumerate(there):
            for b, theirs in there[:k]:
                parts = [differs[a, b, one] for one in range(level)]
                for x in {id(one): one for one in mine}.values():
                    for y in {id(one): one for one in theirs}.values():
                        absent = [one.negated() for one in (x, y) if one is not None]
                        self.model.add_bool_or([*parts, *absent])

    def read(self, value: dict[int, int]) -> Chiplet:
        """Return the chiplet as the solver's values set it."""
        flows, origins, words = [], [], []
        for (inputs, outputs), origin, rows in zip(self.sides, self.origins, self.letters, strict=True):
            used = [
                tuple(port for port, literal in side if literal is None or value[literal.index])
                for side in (inputs, outputs)
            ]
            if used[0] and used[1]:
                flows.append(SwitchFlow(inputs=used[0], outputs=used[1]))
                origins.append(origin)
                words.append(tuple([value[one.index] for one in row].index(1) for row in rows))
        return Chiplet(self.name, self.ports, tuple(flows), tuple(origins), tuple(words))


def route_two_level(flows: Sequence[SwitchFlow], budget: Budget, *, middles: int = 3) -> TwoLevel:
    """Route flows between the 20 NPUs in a slice, or prove that they do not.

    Raises
    ------
    InvalidInput
        When a flow names an NPU that does not exist.
    """
    count = LEAVES * NPUS_EACH
    for index, flow in enumerate(flows):
        for port in (*flow.inputs, *flow.outputs):
            if not 0 <= port < count:
                raise InvalidInput(f"flow {index}: NPU {port} does not exist: they go from 0 to {count - 1}")
    model = cp_model.CpModel()
    leaves = [_Model(model, f"l1.{leaf}", leaf_ports(leaf), middles) for leaf in range(LEAVES)]
    tops = [_Model(model, f"l2.{top}", TOP_PORTS, middles) for top in range(TOPS)]
    literals: list[cp_model.IntVar] = []

    def choice(number: int) -> list[cp_model.IntVar]:
        row = [model.new_bool_var("") for _ in range(number)]
        literals.extend(row)
        return row

    for index, flow in enumerate(flows):
        sides = [_by_leaf(side) for side in (flow.inputs, flow.outputs)]
        touched = sorted(sides[0].keys() | sides[1].keys())
        if len(touched) == 1:
            (leaf,) = touched
            ends = [[(port, None) for port in side[leaf]] for side in sides]
            leaves[leaf].add(index, *ends)
            continue
        through = choice(TOPS)
        model.add_exactly_one(through)
        wires: list[dict[int, list[list[cp_model.IntVar]]]] = [{}, {}]
        for side in (0, 1):
            for leaf, local in sides[side].items():
                picked = [choice(UPLINKS) for _ in range(TOPS)]
                for top in range(TOPS):
                    model.add(sum(picked[top]) == through[top])
                wires[side][leaf] = picked
                links: list[Option] = [
                    (uplink(leaf, top, number), picked[top][number]) for top in range(TOPS) for number in range(UPLINKS)
                ]
                ports: list[Option] = [(port, None) for port in local]
                leaves[leaf].add(index, *((ports, links) if side == 0 else (links, ports)))
        for top in range(TOPS):
            inputs, outputs = (
                [(leaf * UPLINKS + k, row[top][k]) for leaf, row in wires[side].items() for k in range(UPLINKS)]
                for side in (0, 1)
            )
            tops[top].add(index, list(inputs), list(outputs))
    every = [*leaves, *tops]
    for one in every:
        one.close()
        literals += [letter for rows in one.letters for row in rows for letter in row]
    outcome = solve.run(model, budget, wanted=literals)
    if outcome.values is None:
        return TwoLevel(outcome.answer, middles, ())
    value = dict(zip([one.index for one in literals], outcome.values, strict=True))
    return TwoLevel(outcome.answer, middles, tuple(one.read(value) for one in every))


def _by_leaf(side: Sequence[int]) -> dict[int, list[int]]:
    """Return the local ports of a flow's NPUs by L1."""
    found: dict[int, list[int]] = {}
    for npu in side:
        found.setdefault(npu // NPUS_EACH, []).append(npu % NPUS_EACH)
    return found
