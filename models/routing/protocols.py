"""The protocols that the joint model is measured against: colour the outermost level, then each middle network alone.

They never go back: a colouring of one level that makes a deeper one impossible is found too late (FRED paper, section 5.2,
colours by first fit or DSATUR).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortools.sat.python import cp_model

from fabric_plan.models import solve
from fabric_plan.planner.fred import Word
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.problem import SwitchFlow

Edges = dict[int, set[int]]
Colouring = Callable[[Edges, int], dict[int, int] | None]


def first_fit(beside: Edges, colours: int) -> dict[int, int] | None:
    """Give each vertex in turn the least colour that its neighbours do not have; None when there is none."""
    found: dict[int, int] = {}
    for vertex in sorted(beside):
        taken = {found[other] for other in beside[vertex] if other in found}
        free = next((colour for colour in range(colours) if colour not in taken), None)
        if free is None:
            return None
        found[vertex] = free
    return found


def dsatur(beside: Edges, colours: int) -> dict[int, int] | None:
    """As :func:`first_fit`, but the vertex whose neighbours have most colours comes next (Brelaz 1979)."""
    found: dict[int, int] = {}
    while len(found) < len(beside):
        vertex = max(
            (one for one in beside if one not in found),
            key=lambda one: (len({found[o] for o in beside[one] if o in found}), len(beside[one]), -one),
        )
        taken = {found[other] for other in beside[vertex] if other in found}
        free = next((colour for colour in range(colours) if colour not in taken), None)
        if free is None:
            return None
        found[vertex] = free
    return found


def exactly(budget: Budget) -> Colouring:
    """Return a colouring that finds one wherever there is one, within a budget."""

    def colour(beside: Edges, colours: int) -> dict[int, int] | None:
        quick = dsatur(beside, colours)
        if quick is not None:
            return quick
        model = cp_model.CpModel()
        has = {vertex: [model.new_bool_var("") for _ in range(colours)] for vertex in beside}
        for vertex, row in has.items():
            model.add_exactly_one(row)
            for other in beside[vertex]:
                if vertex < other:
                    for mine, theirs in zip(row, has[other], strict=True):
                        model.add_bool_or([mine.negated(), theirs.negated()])
        wanted = [one for row in has.values() for one in row]
        values = solve.run(model, budget, wanted=wanted).values
        if values is None:
            return None
        rows = [values[k * colours : (k + 1) * colours] for k in range(len(has))]
        return {vertex: row.index(1) for vertex, row in zip(has, rows, strict=True)}

    return colour


def level_by_level(flows: Sequence[SwitchFlow], ports: int, middles: int, colour: Colouring) -> list[Word] | None:
    """Return words by colouring one level after another without going back; None where some level fails."""
    streams = [(index, frozenset(flow.inputs), frozenset(flow.outputs)) for index, flow in enumerate(flows)]
    words: list[list[int]] = [[] for _ in flows]
    if not _descend(streams, ports, middles, colour, words):
        return None
    return [tuple(word) for word in words]


def _descend(
    streams: Sequence[tuple[int, frozenset[int], frozenset[int]]],
    ports: int,
    middles: int,
    colour: Colouring,
    words: list[list[int]],
) -> bool:
    if ports <= 2:
        return True
    beside: Edges = {index: set() for index, _, _ in streams}
    for side in (0, 1):
        at: dict[int, set[int]] = {}
        for index, inputs, outputs in streams:
            for port in outputs if side else inputs:
                at.setdefault(port >> 1, set()).add(index)
        for members in at.values():
            for one in members:
                beside[one] |= members - {one}
    letters = colour(beside, middles)
    if letters is None:
        return False
    for index, letter in letters.items():
        words[index].append(letter)
    for middle in range(middles):
        inner = [
            (index, frozenset(p >> 1 for p in inputs), frozenset(p >> 1 for p in outputs))
            for index, inputs, outputs in streams
            if letters[index] == middle
        ]
        if not _descend(inner, (ports + 1) // 2, middles, colour, words):
            return False
    return True
