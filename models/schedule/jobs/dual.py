"""Lengths that make the bound as large as it can be, where those of the packing do not.

Of the lengths that are best for packing, some say more than others of all-reduces, whose bound (by partitions) can be below their shortest
trees. So the bound itself is maximised, by cutting planes (Kelley 1960): for given lengths each commodity takes up some links least; that way is
no shorter than its bound for other lengths either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fabric_plan.models.schedule.jobs.columns import Packed, Pricing
from fabric_plan.models.schedule.jobs.commodity import Commodity
from fabric_plan.models.schedule.jobs.exchange import cheapest_moves
from fabric_plan.models.schedule.jobs.net import FAR, Floats, Net

ROUNDS = 60
CLOSE = 1e-4
SCALE = 10**9

Ways = dict[int, float]


def better_lengths(net: Net, wanted: Sequence[Commodity], packed: Packed, left: Callable[[], float]) -> Floats:
    """Return lengths of the links for which the bound is larger, if any are found; only where every move is one link."""
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    if solver is None or any(len(move.links) > 1 for move in net.moves):
        return packed.lengths
    width = [float(link.bandwidth) for link in net.fabric.links]
    size = [float(one.size) for one in wanted]
    pricing = Pricing(net, wanted)
    top = max(width)
    # Lengths in 1/bandwidth of the widest link; what a commodity takes up, in that too.
    lengths = [solver.NumVar(0, solver.infinity(), "") for _ in width]
    takes = [solver.NumVar(0, solver.infinity(), "") for _ in wanted]
    whole = solver.Constraint(0, 1)
    for variable, wide in zip(lengths, width, strict=True):
        whole.SetCoefficient(variable, wide / top)
    goal = solver.Objective()
    for variable, amount in zip(takes, size, strict=True):
        goal.SetCoefficient(variable, amount / max(size))
    goal.SetMaximization()

    def add(number: int, used: Ways) -> None:
        row = solver.Constraint(-solver.infinity(), 0)
        row.SetCoefficient(takes[number], 1)
        for link, amount in used.items():
            row.SetCoefficient(lengths[link], -amount)

    for tree, _ in packed.trees:
        add(tree.commodity, _tree_links(net, (*tree.up, *tree.down)))
    best, found = -1.0, packed.lengths
    at = packed.lengths
    # No link is free: ways that used a free one as often as they like would say nothing of other lengths.
    little = 1e-4 / np.array(width) / len(width)
    for _ in range(ROUNDS):
        total = 0.0
        for number, used in enumerate(_cheapest(net, wanted, pricing, at + little, left)):
            add(number, used)
            total += size[number] * sum(float(at[link]) * amount for link, amount in used.items())
        if total > best:
            best, found = total, at
        if left() <= 0 or solver.Solve() != pywraplp.Solver.OPTIMAL:
            break
        limit = goal.Value() * max(size) / top
        if best >= limit * (1 - CLOSE):
            break
        new = np.array([max(0.0, variable.solution_value()) for variable in lengths]) / top
        at = 0.5 * (new + found)
    return found


def _tree_links(net: Net, moves: Sequence[int]) -> Ways:
    used: Ways = {}
    for number in moves:
        link = net.moves[number].links[0]
        used[link] = used.get(link, 0.0) + 1.0
    return used


def _cheapest(
    net: Net, wanted: Sequence[Commodity], pricing: Pricing, lengths: Floats, left: Callable[[], float]
) -> list[Ways]:
    """Return which links each commodity takes up when it takes up least."""
    trees, _ = pricing.trees(lengths)
    table, which = net.lengths(lengths)
    scale = SCALE / max(float(lengths.max()), 1e-300)
    moves = np.where(np.isfinite(table), np.rint(np.where(np.isfinite(table), table, 0) * scale), FAR).astype(np.int64)
    np.fill_diagonal(moves, 0)
    known: dict[tuple[int, ...], Ways] = {}
    found = []
    for one, tree in zip(wanted, trees, strict=True):
        used = _tree_links(net, (*tree.up, *tree.down))
        if one.kind == "both" and len(one.ends) > 2:
            if one.ends not in known:
                made = cheapest_moves(moves, one.ends, left)
                known[one.ends] = {net.moves[int(which[a, b])].links[0]: amount for (a, b), amount in made.items()}
            used = known[one.ends] or used
        found.append(used)
    return found
