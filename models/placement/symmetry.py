"""Moving a solution to where the exact model looks for it: worker 0 on the least seat of its orbit."""

from __future__ import annotations

from fabric_plan.models.placement.instance import Instance, Solution


def canonical(instance: Instance, solution: Solution) -> Solution:
    """Return an equally good solution that keeps the symmetry-breaking rules of the exact model.

    First the digits of all workers are rotated, so that worker 0 is the one, among those equal to it, whose seat lies in
    the first orbit; then the fabric is moved, so that it sits on that orbit's least seat.
    """
    orbit = instance.fabric.seat_orbits
    leader = min(instance.worker_orbit, key=lambda worker: (orbit[solution.seats[worker]], worker))
    return _moved(instance, _relabelled(instance, solution, leader))


def _relabelled(instance: Instance, solution: Solution, leader: int) -> Solution:
    strategy = instance.problem.strategy
    turn = strategy.digits(leader)
    sizes = [size for _, size in strategy.sizes]

    def new_label(worker: int) -> int:
        return strategy.index([(d - t) % s for d, t, s in zip(strategy.digits(worker), turn, sizes, strict=True)])

    seats = [0] * instance.workers
    for worker in range(instance.workers):
        seats[new_label(worker)] = solution.seats[worker]
    orders = {frozenset(order): order for order in (tuple(map(new_label, order)) for order in solution.orders)}
    return Solution(tuple(seats), tuple(orders[frozenset(ring.members)] for ring in instance.rings))


def _moved(instance: Instance, solution: Solution) -> Solution:
    start = solution.seats[0]
    goal = instance.fabric.seat_orbits[start]
    came: dict[int, tuple[int, int]] = {start: (start, -1)}
    frontier = [start]
    while goal not in came:
        following = []
        for seat in frontier:
            for index, generator in enumerate(instance.fabric.seat_symmetries):
                if generator[seat] not in came:
                    came[generator[seat]] = (seat, index)
                    following.append(generator[seat])
        frontier = following
    moves = []
    seat = goal
    while seat != start:
        seat, index = came[seat]
        moves.append(index)
    seats = solution.seats
    for index in reversed(moves):
        generator = instance.fabric.seat_symmetries[index]
        seats = tuple(generator[seat] for seat in seats)
    return Solution(seats, solution.orders)
