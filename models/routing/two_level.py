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
    ENDS,
    LEAVES,
    NPUS,
    TOP_PORTS,
    TOPS,
    UPLINKS,
    Chiplet,
    home,
    leaf_ports,
    uplink,
)
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.problem import SwitchFlow

Option = tuple[int, cp_model.IntVar | None]
"""A port, and the literal under which the flow uses it; None: always."""


@dataclass(frozen=True)
class TwoLevel:
    """What a run found.

    Parameters
    ----------
    turns
        The chiplets of a slice, round by round; empty where nothing was found.
    rounds
        The round of each flow; None for one that is left out.
    bound
        The least number of flows left out that is proved.
    """

    answer: solve.Answer
    middles: int
    turns: tuple[tuple[Chiplet, ...], ...]
    rounds: tuple[int | None, ...]
    bound: int

    @property
    def chiplets(self) -> tuple[Chiplet, ...]:
        """The chiplets of the first round."""
        return self.turns[0] if self.turns else ()


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


class SliceModel:
    """The chiplets of a slice in one model, with flows that are there when a literal says so."""

    def __init__(self, model: cp_model.CpModel, middles: int) -> None:
        self.model = model
        self.leaves = [_Model(model, f"l1.{leaf}", leaf_ports(leaf), middles) for leaf in range(LEAVES)]
        self.tops = [_Model(model, f"l2.{top}", TOP_PORTS, middles) for top in range(TOPS)]
        self.wanted: list[cp_model.IntVar] = []

    def _choice(self, number: int) -> list[cp_model.IntVar]:
        row = [self.model.new_bool_var("") for _ in range(number)]
        self.wanted.extend(row)
        return row

    def add(self, index: int, flow: SwitchFlow, present: cp_model.IntVar | None) -> None:
        """Add a flow, there if ``present`` is true (None: always)."""
        sides = [_by_leaf(side) for side in (flow.inputs, flow.outputs)]
        touched = sorted(sides[0].keys() | sides[1].keys())
        if len(touched) == 1:
            (leaf,) = touched
            ends: list[list[Option]] = [[(port, present) for port in side[leaf]] for side in sides]
            self.leaves[leaf].add(index, *ends)
            return
        through = self._choice(TOPS)
        self.model.add(sum(through) == (1 if present is None else present))
        wires: list[dict[int, list[list[cp_model.IntVar]]]] = [{}, {}]
        for side in (0, 1):
            for leaf, local in sides[side].items():
                picked = [self._choice(UPLINKS) for _ in range(TOPS)]
                for top in range(TOPS):
                    self.model.add(sum(picked[top]) == through[top])
                wires[side][leaf] = picked
                links: list[Option] = [
                    (uplink(leaf, top, number), picked[top][number]) for top in range(TOPS) for number in range(UPLINKS)
                ]
                ports: list[Option] = [(port, present) for port in local]
                self.leaves[leaf].add(index, *((ports, links) if side == 0 else (links, ports)))
        for top in range(TOPS):
            inputs, outputs = (
                [(leaf * UPLINKS + k, row[top][k]) for leaf, row in wires[side].items() for k in range(UPLINKS)]
                for side in (0, 1)
            )
            self.tops[top].add(index, list(inputs), list(outputs))

    def close(self) -> None:
        """Keep all flows apart."""
        for one in (*self.leaves, *self.tops):
            one.close()
            self.wanted += [letter for rows in one.letters for row in rows for letter in row]

    def read(self, value: dict[int, int]) -> tuple[Chiplet, ...]:
        """Return the chiplets as the solver's values set them."""
        return tuple(one.read(value) for one in (*self.leaves, *self.tops))


def route_two_level(
    flows: Sequence[SwitchFlow], budget: Budget, *, middles: int = 3, rounds: int = 1, block: bool = False
) -> TwoLevel:
    """Route flows between the NPUs and I/O controllers in a slice, or prove that they do not route.

    Parameters
    ----------
    rounds
        Over how many rounds flows may be spread.
    block
        Whether flows may be left out, as few as possible.

    Raises
    ------
    InvalidInput
        When a flow names an end that does not exist.
    """
    for index, flow in enumerate(flows):
        for port in (*flow.inputs, *flow.outputs):
            if not 0 <= port < ENDS:
                raise InvalidInput(
                    f"flow {index}: there is no end {port}: NPUs go from 0 to {NPUS - 1}, I/O controllers on to {ENDS - 1}"
                )
    model = cp_model.CpModel()
    turns = [SliceModel(model, middles) for _ in range(rounds)]
    present: list[list[cp_model.IntVar]] = []
    for index, flow in enumerate(flows):
        if rounds == 1 and not block:
            turns[0].add(index, flow, None)
            continue
        present.append([model.new_bool_var("") for _ in turns])
        for turn, literal in zip(turns, present[-1], strict=True):
            turn.add(index, flow, literal)
        if not block:
            model.add_exactly_one(present[-1])
        else:
            model.add_at_most_one(present[-1])
    if block:
        model.maximize(sum(one for row in present for one in row))
    wanted = [one for row in present for one in row]
    for turn in turns:
        turn.close()
        wanted += turn.wanted
    outcome = solve.run(model, budget, wanted=wanted)
    blocked = max(0, len(flows) - outcome.bound) if block and outcome.bound is not None else 0
    if outcome.values is None:
        return TwoLevel(outcome.answer, middles, (), (), blocked)
    value = dict(zip([one.index for one in wanted], outcome.values, strict=True))
    served = [next((k for k, one in enumerate(row) if value[one.index]), None) for row in present]
    return TwoLevel(
        outcome.answer,
        middles,
        tuple(turn.read(value) for turn in turns),
        tuple(served) if present else (0,) * len(flows),
        blocked,
    )


def _by_leaf(side: Sequence[int]) -> dict[int, list[int]]:
    """Return the local ports of a flow's ends by L1."""
    found: dict[int, list[int]] = {}
    for end in side:
        leaf, port = home(end)
        found.setdefault(leaf, []).append(port)
    return found
