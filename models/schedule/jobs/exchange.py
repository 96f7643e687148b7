"""How much length an all-reduce takes up at least: a bound by cuts and partitions, for any lengths of the moves.

Take any partition of the holders into k parts with a rank in each. For every byte at least 2 (k - 1) moves lead from one part to another:
order the moves by when they start, and let each arrive at once, which only spreads more. When some part first depends on all parts' data, at
least k - 1 moves have been made, as each other part's data had to leave it. No other part is complete then, and each of these k - 1 needs
one more move into it. (That is gossip by one-way messages. Data are copied and added, byte by byte; bytes are not coded together.) With two
parts it is one move each way.

So if partitions P have weights w(P) that add up, over those that separate a from b, to no more than the length of the move from a to b, an
all-reduce of a byte takes up at least the sum of w(P) times P's count. The best weights are a linear program; they are found in floating
point, and rounded down and checked in whole numbers, so that the bound holds however good they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fabric_plan.models.schedule.jobs.net import FAR, Whole

MOST_TURNS = 40
ALL_PARTITIONS = 5
"""Ranks up to which every way of putting them together is tried as the core of a partition."""

_UNIT = 1_000_000


@dataclass(frozen=True, eq=False)
class Split:
    """Holders in parts: ``part[holder]`` is a number, and ``count`` moves at least lead between parts.

    ``directed``: only moves from part 0 to part 1 count.
    """

    part: Whole
    count: int
    directed: bool

    def crosses(self, tails: Whole, heads: Whole) -> NDArray[np.bool_]:
        """Return which moves count."""
        a, b = self.part[tails], self.part[heads]
        return np.asarray((a == 0) & (b == 1) if self.directed else a != b)


def least_exchange(
    moves: Whole, ends: Sequence[int], enough: float, left: Callable[[], float] = lambda: 1.0
) -> Fraction:
    """Return how much length an all-reduce of a byte takes up at least, exactly.

    Parameters
    ----------
    moves
        Whole lengths from holder to holder; shape (holders, holders), FAR for none.
    ends
        The ranks' holders.
    enough
        Where the bound is known to end: some all-reduce takes up so much.
    left
        What is left of the time, in seconds.
    """
    if len(ends) == 2:
        way = _ways(moves)
        there, back = int(way[ends[0], ends[1]]), int(way[ends[1], ends[0]])
        return Fraction(there + back)
    tails, heads = _needed(moves)
    lengths = moves[tails, heads]
    splits, weights, _ = _weights(tails, heads, lengths, _ways(moves), list(ends), enough, left)
    return _checked(splits, weights, tails, heads, lengths)


def cheapest_moves(
    moves: Whole, ends: Sequence[int], left: Callable[[], float] = lambda: 1.0
) -> dict[tuple[int, int], float]:
    """Return how often each move is made, for a byte, when as little length is taken up as the bound allows (in floating point)."""
    tails, heads = _needed(moves)
    _, _, amounts = _weights(tails, heads, moves[tails, heads], _ways(moves), list(ends), float("inf"), left)
    pairs = zip(tails.tolist(), heads.tolist(), strict=True)
    return {pair: amount for pair, amount in zip(pairs, amounts, strict=False) if amount > 1e-9}


def _ways(moves: Whole) -> Whole:
    way = moves.copy()
    for k in range(len(way)):
        np.minimum(way, way[:, k, None] + way[None, k, :], out=way)
    return np.minimum(way, FAR)


def _needed(moves: Whole) -> tuple[Whole, Whole]:
    """Return the moves that are no longer than any way over others: what holds for these holds for all."""
    way = _ways(moves)
    tight = (moves == way) & (moves < FAR)
    np.fill_diagonal(tight, False)
    tails, heads = np.nonzero(tight)
    keep = np.ones(len(tails), dtype=bool)
    positive = np.where(moves > 0, moves, FAR)
    for k in range(len(moves)):
        # Over k it is as short, and both steps are shorter than it: then the steps stand for it.
        keep &= ~(positive[tails, k] + positive[k, heads] == moves[tails, heads])
    return tails[keep], heads[keep]


def _weights(
    tails: Whole,
    heads: Whole,
    lengths: Whole,
    way: Whole,
    ends: list[int],
    enough: float,
    left: Callable[[], float],
) -> tuple[list[Split], list[float], list[float]]:
    """Return splits, good weights for them, and the moves made, by adding splits that the moves so far do not cross often enough."""
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    if solver is None:
        return [], [], []
    scale = float(max(1, lengths.max(initial=1)))
    used = [solver.NumVar(0, solver.infinity(), "") for _ in tails]
    for variable, length in zip(used, lengths.tolist(), strict=True):
        solver.Objective().SetCoefficient(variable, length / scale)
    solver.Objective().SetMinimization()
    splits: list[Split] = []
    rows = []
    free = lengths == 0
    fresh = [split for split in _first(way, ends) if not (split.crosses(tails, heads) & free).any()]
    value = 0.0
    for turn in range(MOST_TURNS):
        for split in fresh:
            row = solver.Constraint(split.count, solver.infinity())
            for k in np.flatnonzero(split.crosses(tails, heads)).tolist():
                row.SetCoefficient(used[k], 1)
            splits.append(split)
            rows.append(row)
        if solver.Solve() != pywraplp.Solver.OPTIMAL:
            return [], [], []
        value = solver.Objective().Value() * scale
        found = [max(0.0, row.dual_value()) * scale for row in rows]
        if value >= enough * (1 - 1e-7) or (turn and left() <= 0):
            break
        # Moves without length cost nothing: as many as anyone may ask for are made.
        amounts = np.where(free, 2.0 * len(ends), [variable.solution_value() for variable in used])
        fresh = list(_violated(len(way), tails, heads, amounts, ends))
        if not fresh:
            break
    return splits, found, [variable.solution_value() for variable in used]


def _first(way: Whole, ends: list[int]) -> Iterator[Split]:
    """Yield each rank on its own, either way, and all ranks apart with every other holder at its nearest."""
    for end in ends:
        for inside in (0, 1):
            part = np.full(len(way), 1 - inside, dtype=np.int64)
            part[end] = inside
            yield Split(part, 1, True)
    near = (way[:, ends] + way[ends, :].T).argmin(axis=1)
    near[ends] = np.arange(len(ends))
    yield Split(near, 2 * (len(ends) - 1), False)


def _violated(count: int, tails: Whole, heads: Whole, amounts: NDArray[np.float64], ends: list[int]) -> Iterator[Split]:
    """Yield splits that are crossed too little."""
    from ortools.graph.python.max_flow import SimpleMaxFlow

    whole = np.rint(amounts * _UNIT).astype(np.int64)
    carries = whole > 0
    directed = SimpleMaxFlow()
    directed.add_arcs_with_capacity(tails[carries].astype(np.int32), heads[carries].astype(np.int32), whole[carries])
    lonely = np.full(count, False)
    lonely[tails[carries]] = lonely[heads[carries]] = True
    for a, b in [(ends[0], end) for end in ends[1:]] + [(end, ends[0]) for end in ends[1:]]:
        if not (lonely[a] and lonely[b]):
            side = [a]
        elif directed.solve(a, b) != directed.OPTIMAL or directed.optimal_flow() >= _UNIT - count:
            continue
        else:
            side = directed.get_source_side_min_cut()
        part = np.ones(count, dtype=np.int64)
        part[side] = 0
        yield Split(part, 1, True)
    joint: dict[tuple[int, int], int] = {}
    for a, b, amount in zip(tails.tolist(), heads.tolist(), whole.tolist(), strict=True):
        if amount:
            pair = (min(a, b), max(a, b))
            joint[pair] = joint.get(pair, 0) + amount
    for blocks in _blocks(ends):
        part = _isolated(count, joint, blocks)
        crossing = sum(amount for (a, b), amount in joint.items() if part[a] != part[b])
        if crossing < 2 * (len(blocks) - 1) * _UNIT - 2 * count:
            yield Split(part, 2 * (len(blocks) - 1), False)


def _blocks(ends: list[int]) -> Iterator[list[list[int]]]:
    """Yield partitions of the ranks into three or more blocks: all where they are few, else all apart, and pairs together."""
    if len(ends) > ALL_PARTITIONS:
        yield [[end] for end in ends]
        for a, b in itertools.combinations(ends[:12], 2):
            yield [[a, b], *([end] for end in ends if end not in (a, b))]
        return
    stack: list[tuple[int, list[list[int]]]] = [(0, [])]
    while stack:
        at, blocks = stack.pop()
        if at == len(ends):
            if len(blocks) >= 3:
                yield blocks
            continue
        stack.append((at + 1, [*blocks, [ends[at]]]))
        for k in range(len(blocks)):
            stack.append((at + 1, [*blocks[:k], [*blocks[k], ends[at]], *blocks[k + 1 :]]))


def _isolated(count: int, joint: dict[tuple[int, int], int], blocks: list[list[int]]) -> Whole:
    """Return parts around blocks of ranks that few moves cross: each block cut off in turn, the rest to the one that is dearest to cut off."""
    from ortools.graph.python.max_flow import SimpleMaxFlow

    source, sink, much = count, count + 1, 1 << 40
    found: list[tuple[int, list[int]]] = []
    for block in blocks:
        flow = SimpleMaxFlow()
        for (a, b), amount in joint.items():
            flow.add_arc_with_capacity(a, b, amount)
            flow.add_arc_with_capacity(b, a, amount)
        for other in blocks:
            for end in other:
                if other is block:
                    flow.add_arc_with_capacity(source, end, much)
                else:
                    flow.add_arc_with_capacity(end, sink, much)
        flow.solve(source, sink)
        found.append((flow.optimal_flow(), [node for node in flow.get_source_side_min_cut() if node < count]))
    dearest = max(range(len(blocks)), key=lambda k: found[k][0])
    part = np.full(count, dearest, dtype=np.int64)
    for k, (_, side) in enumerate(found):
        if k != dearest:
            part[side] = k
    for k, block in enumerate(blocks):
        part[block] = k
    return part


def _checked(splits: list[Split], weights: list[float], tails: Whole, heads: Whole, lengths: Whole) -> Fraction:
    """Return what whole weights prove: rounded down, and lowered together where they still pass some move's length."""
    total = 0
    load = np.zeros(len(tails), dtype=np.int64)
    for split, weight in zip(splits, weights, strict=True):
        crosses = split.crosses(tails, heads)
        whole = min(int(weight), int(lengths[crosses].min(initial=FAR)))
        if not crosses.any() or whole <= 0:
            continue
        total += split.count * whole
        load[crosses] += whole
    over = load > lengths
    if not over.any():
        return Fraction(total)
    if (lengths[over] == 0).any():
        return Fraction(0)
    return total * min(Fraction(int(a), int(b)) for a, b in zip(lengths[over], load[over], strict=True))
