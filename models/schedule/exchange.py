"""All-to-alls in synchronous steps: the fewest rounds for a number of steps and of blocks for every pair.

The blocks of a pair are alike, so a whole number says how many of them cross a link in a step. What leaves a rank in a step arrived in an
earlier one; a link carries its width times the step's rounds. With a group of permutations that keeps the links and moves every rank,
one root of an orbit is modelled and its images follow. The bound is that of all-to-all on the whole fabric, by lengths of links.

Source: Cai et al., SCCL, section 3; the bound: :mod:`fabric_plan.models.schedule.metric`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from ortools.sat.python import cp_model

from fabric_plan.models import solve
from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.metric import all_to_all_bound
from fabric_plan.models.schedule.symmetry import Permutation, free_group
from fabric_plan.models.schedule.synchronous import MAX_VARIABLES, Net
from fabric_plan.planner.errors import Infeasible, InvalidProblem, LimitReached
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.schedule import Columns


@dataclass(frozen=True)
class Hop:
    """``many`` blocks of a pair (root, target) from one rank to another, in a step from 0."""

    root: int
    target: int
    source: int
    sink: int
    step: int
    many: int


@dataclass(frozen=True)
class Exchange:
    """An all-to-all in steps: its hops, the rounds of each step, and the fewest that any such schedule needs, with why."""

    steps: int
    chunks: int
    rounds: tuple[int, ...]
    hops: tuple[Hop, ...]
    bound: int
    proof: str

    @property
    def total(self) -> int:
        """Rounds of all steps."""
        return sum(self.rounds)


def fewest_rounds(
    group: Group, net: Net, steps: int, blocks: int, budget: Budget, *, rounds: int | None = None
) -> Exchange:
    """Return an all-to-all in so many steps, ``blocks`` for every pair, with the fewest rounds that the budget finds.

    Raises
    ------
    Infeasible
        When there is none, with the reason.
    LimitReached
        When the budget ends before any is found.
    """
    if steps < net.diameter:
        raise Infeasible(
            f"{steps} steps: some rank is {net.diameter} hops from another, so it takes {net.diameter}", ("diameter",)
        )
    widths = [net.width[k] for k in range(len(net.edges))]
    slowest = min(group.fabric.links, key=lambda link: link.bandwidth).bandwidth
    share = all_to_all_bound(group.fabric, group.nodes.tolist()) * slowest * blocks
    floor = max(steps, ceil(share))
    proof = "one round a step" if floor == steps else "the lengths of links"
    if rounds is not None and rounds < floor:
        raise Infeasible(f"{rounds} rounds: no fewer than {floor} do, by {proof}", ("bound",))
    weights = np.zeros((net.ranks, net.ranks))
    for (a, b), width in zip(net.edges, widths, strict=True):
        weights[a, b] = float(width)
    images = free_group(weights)
    found, bound = _solve(net, steps, blocks, budget, images, rounds, floor)
    if len(images) > 1 and (found is None or found[0] != floor):
        whole, bound = _solve(net, steps, blocks, budget, [np.arange(net.ranks)], rounds, floor)
        if whole is not None and (found is None or whole[0] < found[0]):
            found = whole
        if bound > floor:
            floor, proof = bound, "the model"
    elif len(images) == 1 and bound > floor:
        floor, proof = bound, "the model"
    if found is None:
        if rounds is not None and floor > rounds:
            raise Infeasible(
                f"{rounds} rounds in {steps} steps of {blocks} blocks: the model proves that there is no such schedule",
                ("model",),
            )
        raise LimitReached("synchronous: the budget ended before a schedule was found")
    return Exchange(steps, blocks, found[1], found[2], min(floor, found[0]), proof)


Found = tuple[int, tuple[int, ...], tuple[Hop, ...]]


def _solve(
    net: Net, steps: int, blocks: int, budget: Budget, images: list[Permutation], rounds: int | None, floor: int
) -> tuple[Found | None, int]:
    """Solve on the quotient; return what was found, and a bound on the rounds of the quotient's schedules."""
    roots = sorted(set(np.min(np.stack(images), axis=0).tolist()))
    number = {edge: k for k, edge in enumerate(net.edges)}
    orbit = [min(number[int(p[a]), int(p[b])] for p in images) for a, b in net.edges]
    if len(roots) * net.ranks * len(net.edges) * steps > MAX_VARIABLES:
        raise InvalidProblem("synchronous: the model would be too large; fewer steps, or a fabric with more symmetry")
    model = cp_model.CpModel()
    most = rounds if rounds is not None else blocks * net.ranks * net.ranks
    per_step = [model.new_int_var(1, most, f"r{s}") for s in range(steps)]
    load: dict[tuple[int, int], list[cp_model.IntVar]] = {}
    sends: dict[tuple[int, int, int, int], cp_model.IntVar] = {}
    for root in roots:
        for target in range(net.ranks):
            if target == root:
                continue
            into: dict[tuple[int, int], list[cp_model.IntVar]] = {}
            out: dict[tuple[int, int], list[cp_model.IntVar]] = {}
            for k, (a, b) in enumerate(net.edges):
                if b == root or a == target:
                    continue
                # What cannot have come so far, or cannot get home from there, does not go.
                for s in range(net.distance[root][a], steps - net.distance[b][target]):
                    one = model.new_int_var(0, blocks, "")
                    sends[root, target, k, s] = one
                    into.setdefault((b, s), []).append(one)
                    out.setdefault((a, s), []).append(one)
                    load.setdefault((orbit[k], s), []).append(one)
            for at in range(net.ranks):
                if at == root:
                    model.add(sum(x for s in range(steps) for x in out.get((at, s), [])) == blocks)
                elif at == target:
                    model.add(sum(x for s in range(steps) for x in into.get((at, s), [])) == blocks)
                else:
                    came: list[cp_model.IntVar] = []
                    went: list[cp_model.IntVar] = []
                    for s in range(steps):
                        went += out.get((at, s), [])
                        if out.get((at, s)):
                            model.add(sum(came) >= sum(went))
                        came += into.get((at, s), [])
                    model.add(sum(came) == sum(went))
    for (k, s), terms in load.items():
        width = net.width[k]
        model.add(sum(terms) * width.denominator <= per_step[s] * width.numerator)
    total = sum(per_step)
    model.add(total >= floor)
    if rounds is not None:
        model.add(total <= rounds)
    model.minimize(total)
    names = list(sends)
    outcome = solve.run(model, budget, wanted=[*per_step, *(sends[one] for one in names)])
    if outcome.answer is solve.Answer.INFEASIBLE:
        return None, (rounds + 1 if rounds is not None else floor)
    bound = max(floor, outcome.bound or 0)
    if outcome.values is None:
        return None, bound
    hops = tuple(
        Hop(int(p[root]), int(p[target]), int(p[net.edges[k][0]]), int(p[net.edges[k][1]]), s, many)
        for (root, target, k, s), many in zip(names, outcome.values[steps:], strict=True)
        if many
        for p in images
    )
    taken = tuple(outcome.values[:steps])
    return (sum(taken), taken, tuple(sorted(hops, key=lambda one: (one.step, one.root, one.target)))), bound


def write(columns: Columns, group: Group, found: Exchange) -> list[int]:
    """Append an exchange's hops as transfers of one block each, and return the shards.

    Blocks of a pair are alike, so the one that came first goes on first. A transfer waits for its block, and for all that its sender sent over
    the link before.
    """
    size, each = group.size, found.chunks
    there: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for root in range(size):
        for target in range(size):
            if root != target:
                first = (root * size + target) * each
                there[root, target, root] = [(first + k, -1) for k in range(each)]
    last: dict[tuple[int, int], int] = {}
    for step in range(found.steps):
        arrived: list[tuple[tuple[int, int, int], tuple[int, int]]] = []
        for hop in found.hops:
            if hop.step != step:
                continue
            held = there[hop.root, hop.target, hop.source]
            for _ in range(hop.many):
                block, came = held.pop(0)
                needs = [one for one in (came, last.get((hop.source, hop.sink), -1)) if one >= 0]
                sent = columns.add(
                    group.nodes[[hop.source]], group.nodes[hop.sink], block, needs=np.array([needs]) if needs else None
                )
                last[hop.source, hop.sink] = int(sent[0])
                arrived.append(((hop.root, hop.target, hop.sink), (block, int(sent[0]))))
        for where, what in arrived:
            there.setdefault(where, []).append(what)
    return [block for block in range(size * size) for _ in range(each)]
