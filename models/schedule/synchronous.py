"""All-gathers in synchronous steps: the fewest rounds for a number of steps and of chunks, proved.

In step s every link carries as many chunks as its width times the step's rounds; a chunk that arrives in a step may be sent on in the next.
A boolean says whether a chunk crosses a link in a step; every rank gets every chunk once. Ranks are joined by links only, without
switches. With a group of permutations that keeps the links and moves every rank, one root of an orbit is modelled and its
images follow; what that finds holds for all, what it refutes is proved on the whole model, or by the worst cut.

Source: Cai et al., Synthesizing Optimal Collective Algorithms (SCCL), section 3, for steps, rounds and chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from ortools.sat.python import cp_model

from fabric_plan.models import solve
from fabric_plan.models.schedule.cuts import gather_cut
from fabric_plan.models.schedule.greedy import greedy
from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.symmetry import Permutation, free_group
from fabric_plan.planner.errors import Infeasible, InvalidProblem, LimitReached
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.schedule import Columns

MAX_VARIABLES = 3_000_000


@dataclass(frozen=True)
class Send:
    """Chunk ``chunk`` of ``root`` from one rank to another, in a step from 0."""

    root: int
    chunk: int
    source: int
    target: int
    step: int


@dataclass(frozen=True)
class Synchronous:
    """A schedule in steps: its sends, the rounds of each step, and the fewest rounds that any such schedule needs.

    ``proof`` says where the bound comes from.
    """

    steps: int
    chunks: int
    rounds: tuple[int, ...]
    sends: tuple[Send, ...]
    bound: int
    proof: str

    @property
    def total(self) -> int:
        """Rounds of all steps."""
        return sum(self.rounds)


@dataclass(frozen=True)
class Net:
    """Ranks and their links: widths in units of the slowest, distances in hops."""

    ranks: int
    edges: tuple[tuple[int, int], ...]
    width: tuple[Fraction, ...]
    distance: tuple[tuple[int, ...], ...]
    per_chunk: Fraction
    """Rounds a chunk by the worst cut."""

    @property
    def diameter(self) -> int:
        """Steps that no all-gather can do without."""
        return max(max(row) for row in self.distance)


def net_of(group: Group, *, reverse: bool = False) -> Net:
    """Return the links between ranks; ``reverse``: turned round, for a reduce-scatter.

    Raises
    ------
    InvalidProblem
        When a link leads to a switch or past the group, or some rank cannot be reached.
    """
    fabric = group.fabric
    widths: dict[tuple[int, int], int] = {}
    for link in fabric.links:
        if link.source in group.rank_of and link.target in group.rank_of:
            ends = group.rank_of[link.source], group.rank_of[link.target]
            ends = ends[::-1] if reverse else ends
            widths[ends] = widths.get(ends, 0) + link.bandwidth
        elif fabric.nodes[link.source].kind == "switch" or fabric.nodes[link.target].kind == "switch":
            raise InvalidProblem(
                f"synchronous: {fabric.name} has switches; steps and rounds are of links between ranks"
            )
    cut = gather_cut(fabric, group.nodes.tolist(), reverse=reverse)
    slowest = min(widths.values())
    edges = tuple(sorted(widths))
    out: list[list[int]] = [[] for _ in range(group.size)]
    for a, b in edges:
        out[a].append(b)
    distance = tuple(tuple(_distances(out, root)) for root in range(group.size))
    if any(one < 0 for row in distance for one in row):
        raise InvalidProblem("synchronous: the links of the group alone do not join its ranks")
    return Net(group.size, edges, tuple(Fraction(widths[e], slowest) for e in edges), distance, cut.seconds * slowest)


def _distances(out: list[list[int]], root: int) -> list[int]:
    found = [-1] * len(out)
    found[root] = 0
    queue = [root]
    for node in queue:
        for other in out[node]:
            if found[other] < 0:
                found[other] = found[node] + 1
                queue.append(other)
    return found


def fewest_rounds(
    net: Net, steps: int, chunks: int, budget: Budget, *, rounds: int | None = None, symmetric: bool = True
) -> Synchronous:
    """Return an all-gather in so many steps with the fewest rounds that the budget finds.

    Parameters
    ----------
    rounds
        No more than these.

    Raises
    ------
    Infeasible
        When there is none, with the reason: too few steps for the diameter, too few rounds for the worst cut, or the model's proof.
    LimitReached
        When the budget ends before any is found.
    """
    floor = max(steps, ceil(net.per_chunk * chunks))
    if steps < net.diameter:
        raise Infeasible(
            f"{steps} steps: some rank is {net.diameter} hops from another, so it takes {net.diameter}", ("diameter",)
        )
    if rounds is not None and rounds < floor:
        why = "each step takes one" if floor == steps else "that many must cross the worst cut"
        raise Infeasible(f"{rounds} rounds: no fewer than {floor} do, as {why}", ("cut",))
    if floor == steps:
        # One round a step is as few as can be: what is found quickly needs no model.
        sends = greedy(net, steps, chunks, budget)
        if sends is not None:
            return Synchronous(steps, chunks, (1,) * steps, sends, steps, "one round a step")
    weights = np.zeros((net.ranks, net.ranks), dtype=np.float64)
    for (a, b), width in zip(net.edges, net.width, strict=True):
        weights[a, b] = float(width)
    group = free_group(weights) if symmetric else [np.arange(net.ranks)]
    found, bound = _solve(net, steps, chunks, budget, group, rounds, floor)
    proof = "the worst cut" if floor > steps else "one round a step"
    if len(group) == 1:
        floor, proof = max(floor, bound), proof if bound <= floor else "the model"
    elif found is None or sum(found[0]) > floor:
        # What the quotient cannot do, the whole model may.
        whole, bound = _solve(net, steps, chunks, budget, [np.arange(net.ranks)], rounds, floor, known=found)
        found = whole or found
        if bound > floor:
            floor, proof = bound, "the model"
    if found is None:
        if rounds is not None and floor > rounds:
            raise Infeasible(
                f"{rounds} rounds in {steps} steps of {chunks} chunks: the model proves that there is no such schedule",
                ("model",),
            )
        raise LimitReached("synchronous: the budget ended before a schedule was found")
    return Synchronous(steps, chunks, found[0], found[1], min(floor, sum(found[0])), proof)


Found = tuple[tuple[int, ...], tuple[Send, ...]]


def _solve(
    net: Net,
    steps: int,
    chunks: int,
    budget: Budget,
    group: list[Permutation],
    rounds: int | None,
    floor: int,
    *,
    known: Found | None = None,
) -> tuple[Found | None, int]:
    """Solve on the quotient by a group; return what was found and a bound on the rounds of the quotient's schedules."""
    roots = sorted(set(np.min(np.stack(group), axis=0).tolist()))
    number = {edge: k for k, edge in enumerate(net.edges)}
    orbit = [min(number[int(one[a]), int(one[b])] for one in group) for a, b in net.edges]
    if len(roots) * chunks * len(net.edges) * steps > MAX_VARIABLES:
        raise InvalidProblem(
            "synchronous: the model would be too large; fewer chunks or steps, or a fabric with more symmetry"
        )
    model = cp_model.CpModel()
    # No link has more to carry in a step than every chunk once, so no step needs more rounds than there are chunks.
    most = rounds if rounds is not None else max(1, chunks * net.ranks)
    per_step = [model.new_int_var(1, most, f"r{s}") for s in range(steps)]
    load: dict[tuple[int, int], list[cp_model.IntVar]] = {}
    sends: dict[Send, cp_model.IntVar] = {}
    for root in roots:
        for chunk in range(chunks):
            arrive: dict[tuple[int, int], list[cp_model.IntVar]] = {}
            for k, (a, b) in enumerate(net.edges):
                if b == root:
                    continue
                for s in range(net.distance[root][a], steps):
                    one = model.new_bool_var("")
                    sends[Send(root, chunk, a, b, s)] = one
                    arrive.setdefault((b, s), []).append(one)
                    load.setdefault((orbit[k], s), []).append(one)
            for b in range(net.ranks):
                if b != root:
                    model.add_exactly_one(x for s in range(steps) for x in arrive.get((b, s), []))
            held: dict[tuple[int, int], cp_model.IntVar] = {}
            for b in range(net.ranks):
                if b == root:
                    continue
                before: cp_model.IntVar | None = None
                for s in range(steps):
                    now = model.new_bool_var("")
                    model.add(now == sum(arrive.get((b, s), [])) + (0 if before is None else before))
                    held[b, s] = before = now
            for a, b in net.edges:
                if b == root or a == root:
                    continue
                for s in range(net.distance[root][a], steps):
                    model.add_implication(sends[Send(root, chunk, a, b, s)], held[a, s - 1])
    for (k, s), terms in load.items():
        width = net.width[k]
        model.add(sum(terms) * width.denominator <= per_step[s] * width.numerator)
    total = sum(per_step)
    model.add(total >= floor)
    if known is not None:
        model.add(total < sum(known[0]))
    if rounds is not None:
        model.add(total <= rounds)
    model.minimize(total)
    names = list(sends)
    outcome = solve.run(model, budget, wanted=[*per_step, *(sends[one] for one in names)])
    limit = sum(known[0]) if known is not None else (rounds + 1 if rounds is not None else floor)
    if outcome.answer is solve.Answer.INFEASIBLE:
        return None, limit
    if outcome.values is None:
        return None, max(floor, outcome.bound or 0)
    bound = max(floor, outcome.bound or 0)
    chosen = [one for one, value in zip(names, outcome.values[steps:], strict=True) if value]
    images = [
        Send(int(p[one.root]), one.chunk, int(p[one.source]), int(p[one.target]), one.step)
        for p in group
        for one in chosen
    ]
    found = (
        outcome.values[:steps],
        tuple(sorted(images, key=lambda one: (one.step, one.root, one.chunk))),
    )
    return found, bound


def frontier(net: Net, budget: Budget, *, most_steps: int | None = None, most_chunks: int = 6) -> list[Synchronous]:
    """Return the schedules of so many chunks at most that no other of these beats in both steps and rounds a chunk.

    Steps go on until the worst cut is met, after which nothing is better with any number of chunks, or to ``most_steps`` (default: the
    diameter and 3). A point is proved where its rounds equal its bound; with more chunks than these some other may lie between.
    """
    found: list[Synchronous] = []
    best: Fraction | None = None
    for steps in range(net.diameter, (most_steps or net.diameter + 3) + 1):
        rows = [fewest_rounds(net, steps, chunks, budget) for chunks in range(1, most_chunks + 1)]
        one = min(rows, key=lambda row: (Fraction(row.total, row.chunks), row.chunks))
        value = Fraction(one.total, one.chunks)
        if best is None or value < best:
            found.append(one)
            best = value
        if best == net.per_chunk:
            break
    return found


def write(columns: Columns, group: Group, plan: Synchronous, *, reverse: bool = False) -> list[int]:
    """Write a schedule as transfers, step by step; ``reverse``: backwards, as a reduce-scatter. Return the chunks' owners."""
    arrived: dict[tuple[int, int, int], int] = {}
    if not reverse:
        for one in plan.sends:
            first = one.root * plan.chunks + one.chunk
            needs = arrived.get((one.root, one.chunk, one.source), -1)
            row = columns.add(group.nodes[[one.source]], group.nodes[one.target], first, needs=[[needs]])
            arrived[one.root, one.chunk, one.target] = int(row[0])
    else:
        waits: dict[tuple[int, int, int], list[int]] = {}
        for one in reversed(plan.sends):
            first = one.root * plan.chunks + one.chunk
            inside = waits.get((one.root, one.chunk, one.target))
            needs_ = [inside] if inside else None
            row = columns.add(group.nodes[[one.target]], group.nodes[one.source], first, reduce=True, needs=needs_)
            waits.setdefault((one.root, one.chunk, one.source), []).append(int(row[0]))
    return [rank for rank in range(group.size) for _ in range(plan.chunks)]
