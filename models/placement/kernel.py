"""The compiled move loop of the annealing: one transaction a move, taken back through a journal when it is refused.

All integers of a search lie in one array, ``m``; :class:`At` says where each table starts and how large it is. (One array
and plain numbers compile several times faster than thirty arrays, and run no slower.) Routes come from a table or, on
grids, are walked axis by axis.

The energy is the weighted sum, over phases and links, of what a link carries beyond its phase's goal, plus a price for
each hop.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit


class At(NamedTuple):
    """Sizes, then the start of each table in the array; the comment gives the table's shape."""

    workers: int
    seats: int
    nets: int
    phases: int
    links: int
    axes: int  # of a grid; 0 where routes come from the table
    wraps: int  # 1 on tori
    rings: int  # free rings
    places_each: int  # slots a worker can stand in
    near_each: int  # seats listed as close to each seat
    seat: int  # workers: where each worker sits
    holder: int  # seats: the worker on each seat, or -1
    standing: int  # slots: the worker in each slot
    places: int  # workers x places_each: the slots of each worker, or -1
    touch_start: int  # slots + 1
    touch: int  # the nets at each slot
    root: int  # nets: root slot
    target_start: int  # nets + 1
    target: int  # target slots
    weight: int  # nets
    phase: int  # nets
    price: int  # phases: what a unit of excess costs
    load: int  # phases x links
    goal: int  # phases
    ring_first: int  # rings: first slot
    ring_size: int  # rings
    route_start: int  # seats x seats + 1
    route_link: int
    route_cost: int
    shape: int  # axes
    place: int  # seats x axes: coordinates
    step_link: int  # seats x axes x 2: the link down and the link up
    step_seat: int  # seats x axes x 2: where they lead
    link_cost: int  # links
    stamp: int  # links: last multicast that crossed the link, so that each counts it once
    seen: int  # nets: last move that touched the net
    touched: int  # nets: those of the present move
    journal: int  # pairs (place in the array, what stood there)
    near: int  # seats x near_each
    counter: int  # next stamp, next move, length of the journal
    best_seat: int  # workers
    best_standing: int  # slots
    slots: int


@njit(cache=True, error_model="numpy")
def _uniform(state):  # type: ignore[no-untyped-def]
    """Return a number in [0, 1) (xorshift64*, Vigna 2016)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0


@njit(cache=True, error_model="numpy")
def _apply(m, at, net, sign):  # type: ignore[no-untyped-def]
    """Add (sign 1) or remove (-1) a net; return the change of (weighted excess, hops).

    A pair of seats without a path costs like 1000 hops.
    """
    written = m[at.counter + 2]
    excess = 0
    hops = 0
    phase = m[at.phase + net]
    goal = m[at.goal + phase]
    loads = at.load + phase * at.links
    weight = m[at.weight + net] * sign
    source = m[at.seat + m[at.standing + m[at.root + net]]]
    first, last = m[at.target_start + net], m[at.target_start + net + 1]
    once = last - first > 1
    mark = 0
    if once:
        m[at.counter] += 1
        mark = m[at.counter]
    for k in range(first, last):
        end = m[at.seat + m[at.standing + m[at.target + k]]]
        here = source
        entry, after_entry = 0, 0
        axis, steps, way = at.axes, 0, 0
        if at.axes == 0:
            pair = at.route_start + source * at.seats + end
            entry, after_entry = m[pair], m[pair + 1]
            if entry == after_entry:
                hops += 1000
        while True:
            if at.axes:
                while steps == 0 and axis > 0:
                    axis -= 1
                    a, b = m[at.place + here * at.axes + axis], m[at.place + end * at.axes + axis]
                    up = b > a
                    steps = b - a if up else a - b
                    if steps and at.wraps:
                        # The shorter way round, the increasing one on a tie.
                        side = m[at.shape + axis]
                        ahead = steps if up else side - steps
                        up = 2 * ahead <= side
                        steps = ahead if up else side - ahead
                    way = 2 * axis + 1 if up else 2 * axis
                if steps == 0:
                    break
                step = here * 2 * at.axes + way
                link = m[at.step_link + step]
                cost = m[at.link_cost + link]
                here = m[at.step_seat + step]
                steps -= 1
            else:
                if entry == after_entry:
                    break
                link = m[at.route_link + entry]
                cost = m[at.route_cost + entry]
                entry += 1
            if once:
                if m[at.stamp + link] == mark:
                    continue
                m[at.stamp + link] = mark
            before = m[loads + link]
            after = before + weight * cost
            m[loads + link] = after
            m[at.journal + 2 * written] = loads + link
            m[at.journal + 2 * written + 1] = before
            written += 1
            excess += max(0, after - goal) - max(0, before - goal)
            hops += 1
    m[at.counter + 2] = written
    return excess * m[at.price + phase], hops * sign


@njit(cache=True, error_model="numpy")
def fill(m, at):  # type: ignore[no-untyped-def]
    """Compute all loads from scratch; return (weighted excess, hops)."""
    for k in range(at.phases * at.links):
        m[at.load + k] = 0
    excess = 0
    hops = 0
    for net in range(at.nets):
        m[at.counter + 2] = 0
        de, dh = _apply(m, at, net, 1)
        excess += de
        hops += dh
    return excess, hops


@njit(cache=True, error_model="numpy")
def _touch(m, at, slot, count):  # type: ignore[no-untyped-def]
    """List the nets of a slot that this move has not seen yet; return how many are listed now."""
    move = m[at.counter + 1]
    for e in range(m[at.touch_start + slot], m[at.touch_start + slot + 1]):
        net = m[at.touch + e]
        if m[at.seen + net] != move:
            m[at.seen + net] = move
            m[at.touched + count] = net
            count += 1
    return count


@njit(cache=True, error_model="numpy")
def _touch_worker(m, at, worker, count):  # type: ignore[no-untyped-def]
    for j in range(at.places_each):
        slot = m[at.places + worker * at.places_each + j]
        if slot >= 0:
            count = _touch(m, at, slot, count)
    return count


@njit(cache=True, error_model="numpy")
def _exchange(m, at, worker, seat):  # type: ignore[no-untyped-def]
    """Move a worker to a seat; who sits there takes its old one."""
    old = m[at.seat + worker]
    other = m[at.holder + seat]
    m[at.seat + worker] = seat
    m[at.holder + seat] = worker
    m[at.holder + old] = other
    if other >= 0:
        m[at.seat + other] = old


@njit(cache=True, error_model="numpy")
def _turn(m, at, a, b):  # type: ignore[no-untyped-def]
    """Exchange the workers of two slots of one ring."""
    first, second = m[at.standing + a], m[at.standing + b]
    m[at.standing + a], m[at.standing + b] = second, first
    for j in range(at.places_each):
        if m[at.places + first * at.places_each + j] == a:
            m[at.places + first * at.places_each + j] = b
            break
    for j in range(at.places_each):
        if m[at.places + second * at.places_each + j] == b:
            m[at.places + second * at.places_each + j] = a
            break


@njit(cache=True, error_model="numpy")
def _keep(m, at):  # type: ignore[no-untyped-def]
    """Copy the present state to the best."""
    for worker in range(at.workers):
        m[at.best_seat + worker] = m[at.seat + worker]
    for slot in range(at.slots):
        m[at.best_standing + slot] = m[at.standing + slot]


@njit(cache=True, error_model="numpy")
def _seat_for(m, at, worker, random):  # type: ignore[no-untyped-def]
    """Choose a seat to try: any, or one close to the worker, or to one that it sends to or hears from."""
    choice = _uniform(random)
    if choice < 0.2:
        return int(_uniform(random) * at.seats)
    close = m[at.seat + worker]
    if choice < 0.6:
        slot = m[at.places + worker * at.places_each + int(_uniform(random) * at.places_each)]
        if slot >= 0:
            first, last = m[at.touch_start + slot], m[at.touch_start + slot + 1]
            if last > first:
                net = m[at.touch + first + int(_uniform(random) * (last - first))]
                peer = m[at.seat + m[at.standing + m[at.root + net]]]
                if peer == close:
                    peer = m[at.seat + m[at.standing + m[at.target + m[at.target_start + net]]]]
                close = peer
    return m[at.near + close * at.near_each + int(_uniform(random) * at.near_each)]


@njit(cache=True, error_model="numpy")
def anneal(m, at, random, moves, hot, cold, hop_price, excess, hops):  # type: ignore[no-untyped-def]
    """Make ``moves`` moves while the temperature falls geometrically from ``hot`` to ``cold``.

    The best state by energy is kept. Returns (excess, hops, best excess, best hops); it stops early once nothing is in
    excess and hops are free.
    """
    best_excess, best_hops = excess, hops
    _keep(m, at)
    cooling = (cold / hot) ** (1.0 / max(1, moves)) if hot > 0 else 1.0
    temperature = hot
    for _ in range(moves):
        if best_excess == 0 and hop_price == 0.0:
            break
        temperature *= cooling
        m[at.counter + 1] += 1
        m[at.counter + 2] = 0
        turning = at.rings > 0 and _uniform(random) < 0.3
        a, b, worker, seat, old, count = 0, 0, 0, 0, 0, 0
        if turning:
            ring = int(_uniform(random) * at.rings)
            size = m[at.ring_size + ring]
            a = m[at.ring_first + ring] + int(_uniform(random) * size)
            b = m[at.ring_first + ring] + int(_uniform(random) * size)
            if size < 3 or a == b:
                continue
            count = _touch(m, at, b, _touch(m, at, a, 0))
        else:
            worker = int(_uniform(random) * at.workers)
            old = m[at.seat + worker]
            seat = _seat_for(m, at, worker, random)
            if seat == old:
                continue
            count = _touch_worker(m, at, worker, 0)
            if m[at.holder + seat] >= 0:
                count = _touch_worker(m, at, m[at.holder + seat], count)
        # Removing nets only lowers the energy and adding them only raises it: stop adding once the move is lost.
        limit = -temperature * np.log(1.0 - _uniform(random)) if temperature > 0 else 0.0
        change = 0
        hop_change = 0
        lost = False
        for k in range(2 * count):
            if k == count:
                if turning:
                    _turn(m, at, a, b)
                else:
                    _exchange(m, at, worker, seat)
            net = m[at.touched + (k if k < count else k - count)]
            de, dh = _apply(m, at, net, -1 if k < count else 1)
            change += de
            hop_change += dh
            if k >= count and change + hop_price * hop_change > limit:
                lost = True
                break
        if lost:
            for k in range(m[at.counter + 2] - 1, -1, -1):
                m[m[at.journal + 2 * k]] = m[at.journal + 2 * k + 1]
            if turning:
                _turn(m, at, a, b)
            else:
                _exchange(m, at, worker, old)
            continue
        excess += change
        hops += hop_change
        if excess + hop_price * hops < best_excess + hop_price * best_hops:
            best_excess, best_hops = excess, hops
            _keep(m, at)
    return excess, hops, best_excess, best_hops
