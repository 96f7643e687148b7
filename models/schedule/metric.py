"""A lower bound for all-to-all: how much bandwidth the bytes take up on their ways, whatever ways they take.

For any lengths of the links, each byte from s to t takes up at least the distance between them, and all links together have so much to give in a
second: T >= block * sum of distances / sum of (length * bandwidth). The best lengths are the dual of the multicommodity flow. They are
looked for in floating point, from equal lengths, from lengths on the slower links alone, and by raising those of links that shortest
ways crowd; then they are rounded to whole numbers, and the bound is computed from these exactly, so it holds however good they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fabric_plan.planner.fabric import Fabric

ROUNDS = 60
MOST_NODES = 160
MOST_LP = 66
"""Nodes up to which the dual is solved as it stands, in a second or two."""

SCALE = 1_000_000
"""The longest link's length, as a whole number."""


def all_to_all_bound(fabric: Fabric, nodes: Sequence[int]) -> Fraction:
    """Return seconds that one byte from every rank to every other takes at least; 0 where the fabric is too large to look."""
    count = len(fabric.nodes)
    if count > MOST_NODES or len(nodes) < 2:
        return Fraction(0)
    widths: dict[tuple[int, int], int] = {}
    for link in fabric.links:
        if link.source != link.target:
            widths[link.source, link.target] = widths.get((link.source, link.target), 0) + link.bandwidth
    tails = np.array([a for a, _ in widths], dtype=np.int64)
    heads = np.array([b for _, b in widths], dtype=np.int64)
    width = np.array(list(widths.values()), dtype=np.int64)
    ranks = np.array(nodes, dtype=np.int64)
    best = Fraction(0)
    for lengths in _lengths(count, tails, heads, width, ranks):
        whole = np.rint(lengths / lengths.max() * SCALE).astype(np.int64)
        distance = _distances(count, tails, heads, whole)[np.ix_(ranks, ranks)]
        if (distance >= _FAR).any():
            return Fraction(0)
        total = sum(int(a) * int(b) for a, b in zip(whole.tolist(), width.tolist(), strict=True))
        if total:
            best = max(best, Fraction(int(distance.sum()), total))
    return best


_FAR = 1 << 50


def _distances(
    count: int, tails: NDArray[np.int64], heads: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return all distances, by Floyd and Warshall, in whole numbers."""
    table = np.full((count, count), _FAR, dtype=np.int64)
    np.fill_diagonal(table, 0)
    table[tails, heads] = np.minimum(table[tails, heads], lengths)
    for k in range(count):
        np.minimum(table, table[:, k, None] + table[None, k, :], out=table)
    return table


def _lengths(
    count: int,
    tails: NDArray[np.int64],
    heads: NDArray[np.int64],
    width: NDArray[np.int64],
    ranks: NDArray[np.int64],
) -> Iterator[NDArray[np.float64]]:
    """Yield lengths that may give good bounds."""
    if count <= MOST_LP:
        found = _dual(count, tails, heads, width, ranks)
        if found is not None:
            yield found
            return
    for limit in np.unique(width):
        yield (width <= limit).astype(np.float64)
        yield np.where(width <= limit, 1.0 / width, 0.0)
    lengths = np.ones(len(width)) / width.mean()
    inside = np.zeros(count, dtype=bool)
    inside[ranks] = True
    for turn in range(ROUNDS):
        whole = np.maximum(1, np.rint(lengths / lengths.max() * SCALE)).astype(np.int64)
        distance = _distances(count, tails, heads, whole)
        table = distance[np.ix_(ranks, ranks)]
        if (table >= _FAR).any():
            return
        # How many shortest ways, or nearly so, lead over each link: those of longer ones count less.
        slack = max(1.0, float(np.median(whole)) * 0.2)
        load = np.empty(len(width))
        for k in range(len(width)):
            over = distance[ranks, tails[k]][:, None] + whole[k] + distance[heads[k], ranks][None, :] - table
            load[k] = np.exp(-over / slack).sum()
        crowd = load / width
        lengths = lengths * np.exp(0.5 / (1 + turn / 15) * (crowd / crowd.max() - crowd.mean() / crowd.max()))
        yield lengths


def _dual(
    count: int,
    tails: NDArray[np.int64],
    heads: NDArray[np.int64],
    width: NDArray[np.int64],
    ranks: NDArray[np.int64],
) -> NDArray[np.float64] | None:
    """Return the best lengths by linear programming, None where the solver does not end with them."""
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    if solver is None:
        return None
    solver.SetTimeLimit(20_000)
    unit = float(width.max())
    lengths = [solver.NumVar(0, solver.infinity(), "") for _ in width]
    goal = solver.Objective()
    for source in ranks.tolist():
        far = [solver.NumVar(0, 0 if node == source else solver.infinity(), "") for node in range(count)]
        for k, (a, b) in enumerate(zip(tails.tolist(), heads.tolist(), strict=True)):
            row = solver.Constraint(-solver.infinity(), 0)
            row.SetCoefficient(far[b], 1)
            row.SetCoefficient(far[a], -1)
            row.SetCoefficient(lengths[k], -1)
        for target in ranks.tolist():
            if target != source:
                goal.SetCoefficient(far[target], 1)
    whole = solver.Constraint(1, 1)
    for one, wide in zip(lengths, width.tolist(), strict=True):
        whole.SetCoefficient(one, wide / unit)
    goal.SetMaximization()
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    found = np.maximum(0.0, np.array([one.solution_value() for one in lengths]))
    return found if found.max() > 0 else None
