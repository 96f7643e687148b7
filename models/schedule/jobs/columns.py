"""The linear program that packs trees: by which trees each part of each job's data should go, so that the busiest link is done first.

    minimise T    such that    the shares of each commodity's trees sum to 1,    and each link's bytes <= T * bandwidth.

There are too many trees to write down: the program begins with few, its dual says how long each link is, and the shortest trees for these
lengths are added, until none is shorter than those that are there (Gilmore and Gomory 1961). Lengths are taken between the dual and the best
so far, which keeps them from jumping (Wentges 1997).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fabric_plan.models.schedule.jobs.commodity import Commodity
from fabric_plan.models.schedule.jobs.net import Floats, Net, Whole
from fabric_plan.models.schedule.jobs.steiner import EXACT, Edges, Ways, cheapest, joined, pruned, tree_from
from fabric_plan.planner.errors import InvalidProblem, LimitReached

CLOSE = 5e-4
"""Where the dual is so close to the program's value (relative), no more trees are looked for."""

SMOOTH = 0.6
"""Weight of the best lengths so far."""

MOST_ROUNDS = 400


@dataclass(frozen=True)
class Tree:
    """How a part of a commodity goes: up to a meeting node as sums, and down from there as copies.

    Parameters
    ----------
    commodity
        Its number.
    up, down
        Moves (numbers): those of ``up`` in the order away from the meeting node, but leading to it; those of ``down`` in their order.
    """

    commodity: int
    up: tuple[int, ...]
    down: tuple[int, ...]


@dataclass
class Packed:
    """Trees with their shares, and the lengths of the links that bound all of them.

    Parameters
    ----------
    seconds, dual
        The program's value and the best that its dual says so far (both in floating point, for information).
    lengths
        By link, in 1/bytes per second of the program's value; shape (links,).
    """

    seconds: float
    dual: float
    lengths: Floats
    trees: list[tuple[Tree, float]] = field(default_factory=list)
    rounds: int = 0


class Pricing:
    """The shortest trees of all commodities for given lengths of the links."""

    def __init__(self, net: Net, wanted: Sequence[Commodity]) -> None:
        self.net, self.wanted = net, wanted

    def trees(self, lengths: Floats) -> tuple[list[Tree], list[float]]:
        """Return for each commodity a shortest tree (exact for few ends) and its length."""
        table, which = self.net.lengths(lengths)
        out, into = Ways(table), Ways(table.T)
        known: dict[tuple[str, tuple[int, ...]], dict[int, Floats]] = {}
        found, costs = [], []
        for number, one in enumerate(self.wanted):
            tree = self._tree(number, one, out, into, which, known)
            found.append(tree)
            costs.append(self.length(tree, lengths))
        return found, costs

    def length(self, tree: Tree, lengths: Floats) -> float:
        """Return the length of a tree."""
        total = 0.0
        for number in (*tree.up, *tree.down):
            move = self.net.moves[number]
            total += sum(float(lengths[link]) * share for link, share in zip(move.links, move.shares, strict=True))
        return total

    def _tree(
        self,
        number: int,
        one: Commodity,
        out: Ways,
        into: Ways,
        which: Whole,
        known: dict[tuple[str, tuple[int, ...]], dict[int, Floats]],
    ) -> Tree:
        ends = one.ends

        def table(name: str, ways: Ways) -> dict[int, Floats]:
            key = (name, ends)
            if key not in known:
                known[key] = cheapest(ways.distance, ends)
            return known[key]

        def edges(name: str, ways: Ways, root: int) -> Edges:
            exact = len(ends) <= EXACT
            raw = tree_from(ways, table(name, ways), root, ends) if exact else joined(ways, root, ends)
            return pruned(raw, root, ends)

        root = one.root
        if one.kind == "both":
            whole = (1 << len(ends)) - 1
            if len(ends) <= EXACT:
                root = int((table("out", out)[whole] + table("in", into)[whole]).argmin())
            else:
                root = int((out.distance[:, ends].sum(axis=1) + into.distance[:, ends].sum(axis=1)).argmin())
        reach = {"out": (out,), "in": (into,), "both": (out, into)}[one.kind]
        if not all(np.isfinite(ways.distance[root, ends]).all() for ways in reach):
            raise InvalidProblem(
                f"pack: {self.net.fabric.name}: some ranks of job {one.job} cannot be reached from the others"
            )
        down = edges("out", out, root) if one.kind != "in" else []
        up = edges("in", into, root) if one.kind != "out" else []
        return Tree(number, tuple(int(which[b, a]) for a, b in up), tuple(int(which[a, b]) for a, b in down))


def pack(net: Net, wanted: Sequence[Commodity], left: Callable[[], float], rounds: int = MOST_ROUNDS) -> Packed:
    """Return the trees that pack best, as far as time allows.

    Parameters
    ----------
    left
        What is left of the time, in seconds; at least one round is made.
    rounds
        How often trees are looked for at most.

    Raises
    ------
    InvalidProblem
        When some rank cannot be reached.
    LimitReached
        When the solver finds nothing.
    """
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    if solver is None:
        raise LimitReached("pack: this OR-tools has no GLOP")
    width = np.array([link.bandwidth for link in net.fabric.links], dtype=np.float64)
    size = np.array([float(one.size) for one in wanted])
    pricing = Pricing(net, wanted)
    # A little is added to every length, so that of equally short trees those with fewer moves are taken.
    little = 1e-6 / width / len(width)
    even = 1 / width / len(width)
    first, costs = pricing.trees(even)
    scale = float((size * np.array(costs)).sum())
    value = solver.NumVar(0, solver.infinity(), "")
    solver.Objective().SetCoefficient(value, 1)
    solver.Objective().SetMinimization()
    shares = [solver.Constraint(1, 1) for _ in wanted]
    loads = []
    for _ in range(len(width)):
        loads.append(solver.Constraint(-solver.infinity(), 0))
        loads[-1].SetCoefficient(value, -1)
    columns: dict[Tree, pywraplp.Variable] = {}

    def add(tree: Tree) -> None:
        if tree in columns:
            return
        columns[tree] = variable = solver.NumVar(0, solver.infinity(), "")
        shares[tree.commodity].SetCoefficient(variable, 1)
        carried: dict[int, float] = {}
        for number in (*tree.up, *tree.down):
            move = net.moves[number]
            for link, share in zip(move.links, move.shares, strict=True):
                carried[link] = carried.get(link, 0.0) + share
        for link, share in carried.items():
            loads[link].SetCoefficient(variable, share * size[tree.commodity] / width[link] / scale)

    best = Packed(np.inf, 0.0, even)
    for tree in first:
        add(tree)
    best.dual = float((size * np.array(costs)).sum())
    for turn in range(rounds):
        best.rounds = turn + 1
        if solver.Solve() != pywraplp.Solver.OPTIMAL:
            break
        best.seconds = solver.Objective().Value() * scale
        best.trees = [(tree, x) for tree, variable in columns.items() if (x := variable.solution_value()) > 1e-9]
        # Read now: once a column is added, the solver forgets.
        dual = np.array([max(0.0, -row.dual_value()) for row in loads]) / width
        prices = np.array([row.dual_value() for row in shares]) * scale
        if best.dual >= best.seconds * (1 - CLOSE) or (left() <= 0 and turn):
            break
        before = len(columns)
        # Between the best lengths and the dual; where that finds no new tree, the dual itself.
        for smooth in (SMOOTH, 0.0) if turn else (0.0,):
            lengths = smooth * best.lengths + (1 - smooth) * dual
            trees, _ = pricing.trees(lengths + little)
            costs = [pricing.length(tree, lengths) for tree in trees]
            for tree in trees:
                add(tree)
            total = float((size * np.array(costs)).sum())
            if total > best.dual:
                best.dual, best.lengths = total, lengths
            used = size * np.array([pricing.length(tree, dual) for tree in trees])
            if len(columns) > before and (used < prices - 1e-9 * scale).any():
                break
        if len(columns) == before:
            break
    if not best.trees:
        raise LimitReached("pack: the linear program was not solved")
    return best
