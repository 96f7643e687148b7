"""Fewest workers on other ports: the joint model with the ports of workers as variables too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortools.sat.python import cp_model

from fabric_plan.models import solve
from fabric_plan.planner.fred import Word, levels
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.problem import SwitchFlow


@dataclass(frozen=True)
class Moved:
    """Where every worker sits (by its port before), the words, and the least number of moves that is proved."""

    answer: solve.Answer
    ports: tuple[int, ...]
    words: tuple[Word, ...]
    bound: int


def fewest_moves(flows: Sequence[SwitchFlow], ports: int, middles: int, budget: Budget) -> Moved:
    """Find the ports and words with which all flows route and the fewest workers sit elsewhere.

    A flow occupies a block of ports at a level if one of its workers sits there; two that occupy the same block must differ
    in one of the letters up to that level.
    """
    model = cp_model.CpModel()
    depth = levels(ports)
    used = sorted({port for flow in flows for port in (*flow.inputs, *flow.outputs)})
    sits = {worker: [model.new_bool_var("") for _ in range(ports)] for worker in used}
    for row in sits.values():
        model.add_exactly_one(row)
    for port in range(ports):
        model.add_at_most_one(row[port] for row in sits.values())
    letters = [[[model.new_bool_var("") for _ in range(middles)] for _ in range(depth)] for _ in flows]
    for rows in letters:
        for row in rows:
            model.add_exactly_one(row)
    differs: dict[tuple[int, int, int], cp_model.IntVar] = {}
    for a in range(len(flows)):
        for b in range(a):
            for level in range(depth):
                part = model.new_bool_var("")
                differs[a, b, level] = part
                for mine, theirs in zip(letters[a][level], letters[b][level], strict=True):
                    model.add_bool_or([part.negated(), mine.negated(), theirs.negated()])
    for level in range(1, depth + 1):
        for block in range((ports - 1 >> level) + 1):
            inside = [port for port in range(ports) if port >> level == block]
            for side in ("inputs", "outputs"):
                there = []
                for flow in flows:
                    occupied = model.new_bool_var("")
                    for worker in getattr(flow, side):
                        for port in inside:
                            model.add_implication(sits[worker][port], occupied)
                    there.append(occupied)
                for a in range(len(flows)):
                    for b in range(a):
                        parts = [differs[a, b, k] for k in range(level)]
                        model.add_bool_or([there[a].negated(), there[b].negated(), *parts])
    model.maximize(sum(sits[worker][worker] for worker in used))
    wanted = [one for worker in used for one in sits[worker]]
    wanted += [one for rows in letters for row in rows for one in row]
    hint = [(one, int(port == worker)) for worker in used for port, one in enumerate(sits[worker])]
    outcome = solve.run(model, budget, wanted=wanted, hint=hint)
    bound = 0 if outcome.bound is None else max(0, len(used) - outcome.bound)
    if outcome.values is None:
        return Moved(outcome.answer, (), (), bound)
    values = list(outcome.values)
    place = list(range(ports))
    for k, worker in enumerate(used):
        place[worker] = values[k * ports : (k + 1) * ports].index(1)
    at = len(used) * ports
    words = []
    for _ in flows:
        word = []
        for _ in range(depth):
            word.append(values[at : at + middles].index(1))
            at += middles
        words.append(tuple(word))
    # Idle ports take what is left, those that can stay where they are.
    taken = {place[worker] for worker in used}
    idle = [port for port in range(ports) if port not in used]
    free = [port for port in range(ports) if port not in taken]
    for port in idle:
        if port in free:
            place[port] = port
            free.remove(port)
    for port in idle:
        if port in taken:
            place[port] = free.pop(0)
    return Moved(outcome.answer, tuple(place), tuple(words), bound)
