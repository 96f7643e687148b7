"""Chromatic numbers, proved: a clique below, a colouring above, and CP-SAT to close what is between.

Vertices of degree below the clique, and vertices whose neighbours are all another vertex's, are left out first: whatever
colours the rest, they get one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ortools.sat.python import cp_model

from fabric_plan.models import solve
from fabric_plan.planner.formats.dimacs import Adjacency
from fabric_plan.planner.interface import Budget


@dataclass(frozen=True)
class Chromatic:
    """A colouring (colour of each vertex from 0), and the least number of colours that is proved necessary."""

    colours: tuple[int, ...]
    bound: int
    proof: str

    @property
    def used(self) -> int:
        """How many colours the colouring has."""
        return max(self.colours, default=-1) + 1


def chromatic(
    graph: Adjacency, budget: Budget, on_progress: Callable[[int, int], None] = lambda used, bound: None
) -> Chromatic:
    """Return the best colouring and the best bound that the budget finds; they meet where the number is proved."""
    if not graph:
        return Chromatic((), 0, "no vertex")
    clique = large_clique(graph, budget)
    best = dsatur(graph)
    bound, proof = len(clique), f"a clique of {len(clique)}"
    on_progress(max(best) + 1, bound)
    kept, gone = reduced(graph, bound)
    for target in range(max(best), bound - 1, -1):
        better = tabu(graph, target, budget)
        if better is None:
            break
        best = better
        on_progress(max(best) + 1, bound)
    # From the bound up where it is close, from the best down otherwise: each step either proves or improves.
    while bound <= max(best) and budget.left > 0:
        target = max(best)  # one colour less than there are
        # Where the gap is wide, refuting few colours from below is left its part of the time.
        share = budget.left if target - bound < 2 else budget.left * 0.6
        answer, colours = _decide(graph, kept, clique, target, budget, share)
        if answer is solve.Answer.INFEASIBLE:
            bound, proof = target + 1, f"{target} colours were refuted"
        elif colours is not None:
            best = _completed(graph, colours, gone, target)
        else:
            break
        on_progress(max(best) + 1, bound)
    while bound <= max(best) and budget.left > 0:
        answer, colours = _decide(graph, kept, clique, bound, budget)
        if answer is not solve.Answer.INFEASIBLE:
            break
        bound, proof = bound + 1, f"{bound} colours were refuted"
    return Chromatic(tuple(best), bound, proof)


def large_clique(graph: Adjacency, budget: Budget) -> list[int]:
    """Return a large clique: grown greedily from every vertex, with some chance."""
    source = random.Random(budget.seed)
    best: list[int] = []
    for turn in range(3):
        for start in range(len(graph)):
            left, clique = set(graph[start]), [start]
            while left:
                picked = max(left, key=lambda one: (len(graph[one] & left), source.random() if turn else -one))
                clique.append(picked)
                left &= graph[picked]
            if len(clique) > len(best):
                best = clique
        if len(graph) > 600:
            break
    return best


def dsatur(graph: Adjacency) -> list[int]:
    """Return a colouring by DSATUR (Brelaz 1979)."""
    colours = [-1] * len(graph)
    around: list[set[int]] = [set() for _ in graph]
    for _ in graph:
        vertex = max(
            (one for one in range(len(graph)) if colours[one] < 0),
            key=lambda one: (len(around[one]), len(graph[one]), -one),
        )
        colour = next(k for k in range(len(graph)) if k not in around[vertex])
        colours[vertex] = colour
        for other in graph[vertex]:
            around[other].add(colour)
    return colours


def tabu(graph: Adjacency, colours: int, budget: Budget, moves: int = 20_000) -> list[int] | None:
    """Search for a colouring with so many colours by tabu moves of conflicting vertices (Hertz and de Werra 1987)."""
    if colours < 1:
        return None
    source = random.Random(budget.seed)
    mine = [min(one, colours - 1) for one in dsatur(graph)]
    beside = [[0] * colours for _ in graph]
    for vertex, others in enumerate(graph):
        for other in others:
            beside[vertex][mine[other]] += 1
    tabu_until: dict[tuple[int, int], int] = {}
    wrong = {vertex for vertex in range(len(graph)) if beside[vertex][mine[vertex]]}
    for turn in range(moves):
        if not wrong:
            return mine
        if turn % 256 == 0 and budget.left == 0:
            return None
        best, choices = 1 << 30, [(-1, -1)]
        for vertex in wrong:
            row, now = beside[vertex], beside[vertex][mine[vertex]]
            for colour in range(colours):
                if colour == mine[vertex] or tabu_until.get((vertex, colour), 0) > turn:
                    continue
                change = row[colour] - now
                if change < best:
                    best, choices = change, [(vertex, colour)]
                elif change == best:
                    choices.append((vertex, colour))
        vertex, colour = source.choice(choices)
        if vertex < 0:
            continue
        old = mine[vertex]
        mine[vertex] = colour
        tabu_until[vertex, old] = turn + 7 + source.randrange(10) + len(wrong) // 2
        for other in graph[vertex]:
            beside[other][old] -= 1
            beside[other][colour] += 1
            if beside[other][mine[other]]:
                wrong.add(other)
            else:
                wrong.discard(other)
        if beside[vertex][colour]:
            wrong.add(vertex)
        else:
            wrong.discard(vertex)
    return None if wrong else mine


def reduced(graph: Adjacency, bound: int) -> tuple[set[int], list[int]]:
    """Return (vertices that matter, the others in the order in which they were left out)."""
    kept, gone = set(range(len(graph))), []
    changed = True
    while changed:
        changed = False
        for vertex in sorted(kept):
            mine = graph[vertex] & kept
            dominated = len(mine) < bound or any(
                other != vertex and other not in mine and mine <= graph[other]
                for other in set.intersection(*(graph[one] for one in mine)) & kept
            )
            if dominated:
                kept.discard(vertex)
                gone.append(vertex)
                changed = True
    return kept, gone


def _completed(graph: Adjacency, colours: dict[int, int], gone: list[int], most: int) -> list[int]:
    """Give the vertices that were left out their colours, last first."""
    found = dict(colours)
    for vertex in reversed(gone):
        taken = {found[other] for other in graph[vertex] if other in found}
        # Of low degree, some colour is free; of a dominated vertex, the colour of the one that dominates it is.
        found[vertex] = next(colour for colour in range(most) if colour not in taken)
    return [found[vertex] for vertex in range(len(graph))]


def _decide(
    graph: Adjacency, kept: set[int], clique: list[int], colours: int, budget: Budget, seconds: float | None = None
) -> tuple[solve.Answer, dict[int, int] | None]:
    """Ask whether the vertices that matter can be coloured with so many colours."""
    if colours < len(clique):
        return solve.Answer.INFEASIBLE, None
    model = cp_model.CpModel()
    has = {vertex: [model.new_bool_var("") for _ in range(colours)] for vertex in sorted(kept)}
    for row in has.values():
        model.add_exactly_one(row)
    inside = [vertex for vertex in clique if vertex in kept]
    for colour, vertex in enumerate(inside):
        model.add(has[vertex][colour] == 1)
    for cover in _cover(graph, kept):
        for colour in range(colours):
            literals = [has[vertex][colour] for vertex in cover]
            # A clique of as many vertices as colours uses each colour: that prunes far more than at most one does.
            if len(cover) == colours:
                model.add_exactly_one(literals)
            else:
                model.add_at_most_one(literals)
    wanted = [one for row in has.values() for one in row]
    outcome = solve.run(model, budget, wanted=wanted, seconds=seconds)
    if outcome.values is None:
        return outcome.answer, None
    found = {}
    for k, vertex in enumerate(has):
        found[vertex] = outcome.values[k * colours : (k + 1) * colours].index(1)
    return outcome.answer, found


def _cover(graph: Adjacency, kept: set[int]) -> list[list[int]]:
    """Return cliques that together hold every edge between vertices that matter."""
    left = {vertex: graph[vertex] & kept for vertex in kept}
    found = []
    for vertex in sorted(kept):
        while left[vertex]:
            first = min(left[vertex])
            clique, common = [vertex, first], graph[vertex] & graph[first] & kept
            while common:
                picked = max(common, key=lambda one: (sum(other in left[one] for other in clique), -one))
                clique.append(picked)
                common &= graph[picked]
            for a in clique:
                left[a].difference_update(clique)
            found.append(clique)
    return found
