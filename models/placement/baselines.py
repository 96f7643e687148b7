"""What people do today: rank orders on consecutive NPUs, and greedy placement."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

from fabric_plan.models.placement.instance import Instance, Solution, Value

MAX_GREEDY_PAIRS = 200_000
"""Beyond so many pairs of a worker and a seat, greedy placement is MP-PP-DP order: it would take minutes."""


def consecutive(instance: Instance, dimensions: Sequence[str]) -> Solution:
    """Return workers on consecutive seats, the first of ``dimensions`` varying fastest."""
    seats = [0] * instance.workers
    for seat, worker in enumerate(instance.problem.strategy.order(dimensions)):
        seats[worker] = seat
    return instance.start(seats)


def fred_order(instance: Instance) -> Solution:
    """Return the FRED paper's order: MP on consecutive NPUs, then PP, then DP (section 5.3, option 4)."""
    return consecutive(instance, ("mp", "pp", "cp", "ep", "dp"))


def megatron_order(instance: Instance) -> Solution:
    """Return Megatron's rank order on consecutive NPUs: tp-cp-ep-dp-pp."""
    return consecutive(instance, ("mp", "cp", "ep", "dp", "pp"))


def row_major(instance: Instance) -> tuple[Solution, str, Value | None]:
    """Return the best of all orders of the dimensions on consecutive seats, its name, and its value."""
    used = [name for name in instance.problem.strategy.dimensions if instance.problem.strategy.size(name) > 1]
    best: tuple[Solution, str, Value | None] | None = None
    for order in itertools.permutations(used or ["mp"]):
        solution = consecutive(instance, order)
        value = instance.evaluate(solution)
        if best is None or rank(value) < rank(best[2]):
            best = solution, "-".join(order), value
    assert best is not None
    return best


def rank(value: Value | None) -> tuple[int, int]:
    """Return a key that orders values from best to worst: objective, then hops; without a path last."""
    return (value.objective, value.hops) if value is not None else (1 << 62, 1 << 62)


def greedy(instance: Instance) -> Solution:
    """Return a greedy placement, before any exchange.

    Next comes the worker with the most traffic to those already seated; it takes the seat from which that traffic crosses
    the fewest links.
    """
    if instance.workers * instance.seats > MAX_GREEDY_PAIRS:
        return fred_order(instance)
    standing = instance.slot_workers(instance.start([0] * instance.workers))
    partners: list[dict[int, int]] = [{} for _ in range(instance.workers)]
    for net in instance.nets:
        for slot in net.targets:
            a, b = standing[net.root], standing[slot]
            for one, other in ((a, b), (b, a)):
                partners[one][other] = partners[one].get(other, 0) + instance.weights[net.demand]
    far = len(instance.fabric.links) + 1

    @functools.cache
    def distances(target: int) -> list[int]:
        routes = (None if s == target else instance.route(s, target) for s in range(instance.seats))
        return [0 if s == target else far if route is None else len(route) for s, route in enumerate(routes)]

    seats: dict[int, int] = {}
    free = set(range(instance.seats))
    while len(seats) < instance.workers:
        pending = [w for w in range(instance.workers) if w not in seats]
        worker = max(pending, key=lambda w: (sum(k for p, k in partners[w].items() if p in seats), -w))
        near = [(seats[p], k) for p, k in partners[worker].items() if p in seats]
        rows = [(distances(t), k) for t, k in near]
        seat = min(free, key=lambda s: (sum(k * row[s] for row, k in rows), s))
        seats[worker] = seat
        free.remove(seat)
    return instance.start([seats[w] for w in range(instance.workers)])
