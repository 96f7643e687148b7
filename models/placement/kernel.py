"""The compiled move loop of the annealing: one transaction a move, taken back through a journal when it is refused.

All state lives in the arrays of :class:`State`, in place; routes come from a table or, on grids, are walked axis by axis.
The energy is the weighted sum, over phases and links, of what a link carries beyond its phase's target, plus a price for
each hop.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class State(NamedTuple):
    """Arrays of one search. Shapes: W workers, N seats, S slots, M nets, K phases, L links, A axes."""

    seat: Ints  # W: seat of each worker
    holder: Ints  # N: worker on each seat, or -1
    standing: Ints  # S: worker in each slot
    places: Ints  # W x J: slots of each worker, padded with -1
    touch_start: Ints  # S + 1
    touch: Ints  # nets at each slot
    root: Ints  # M: root slot
    target_start: Ints  # M + 1
    target: Ints  # target slots
    weight: Ints  # M
    phase: Ints  # M
    price: Ints  # K: what a unit of excess costs
    load: Ints  # K * L
    goal: Ints  # K: target of each phase
    ring_first: Ints  # G: first slot of each free ring
    ring_size: Ints  # G
    route_start: Ints  # N * N + 1, or empty on grids
    route_link: Ints
    route_cost: Ints
    shape: Ints  # A: sides of a grid
    wraps: Ints  # 1: whether it is a torus
    place: Ints  # N * A: coordinates of each seat
    step_link: Ints  # N * 2A: link from a seat along each axis, down (2a) or up (2a + 1), or -1
    step_seat: Ints  # N * 2A: where that link leads
    link_cost: Ints  # L
    stamp: Ints  # L: last net that crossed the link, to count a multicast once
    seen: Ints  # M: last move that touched the net
    journal: Ints  # 2 x anything: places in ``load`` that the present move changed, and what stood there
    near: Ints  # N x R: seats close to each seat
    counter: Ints  # [next stamp, next move, length of the journal]
    random: NDArray[np.uint64]  # [state of the generator]


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
def _apply(s, net, sign):  # type: ignore[no-untyped-def]
    """Add (sign 1) or remove (-1) a net; return the change of (weighted excess, hops). A missing path costs like 1000 hops."""
    load, stamp, step_link, step_seat = s.load, s.stamp, s.step_link, s.step_seat
    journal = s.journal
    written = s.counter[2]
    place, shape, costs = s.place, s.shape, s.link_cost
    seat, standing = s.seat, s.standing
    excess = 0
    hops = 0
    phase = s.phase[net]
    goal = s.goal[phase]
    offset = phase * costs.size
    weight = s.weight[net] * sign
    source = seat[standing[s.root[net]]]
    axes = shape.size
    wraps = s.wraps[0] == 1
    first, last = s.target_start[net], s.target_start[net + 1]
    once = last - first > 1
    mark = 0
    if once:
        s.counter[0] += 1
        mark = s.counter[0]
    for k in range(first, last):
        end = seat[standing[s.target[k]]]
        if axes:
            here = source
            for axis in range(axes - 1, -1, -1):
                a, b = place[here * axes + axis], place[end * axes + axis]
                if a == b:
                    continue
                up = b > a
                count = b - a if up else a - b
                if wraps:
                    # The shorter way round, the increasing one on a tie.
                    ahead = count if up else shape[axis] - count
                    up = 2 * ahead <= shape[axis]
                    count = ahead if up else shape[axis] - ahead
                way = 2 * axis + 1 if up else 2 * axis
                for _ in range(count):
                    step = here * 2 * axes + way
                    link = step_link[step]
                    here = step_seat[step]
                    if once:
                        if stamp[link] == mark:
                            continue
                        stamp[link] = mark
                    before = load[offset + link]
                    after = before + weight * costs[link]
                    load[offset + link] = after
                    journal[0, written] = offset + link
                    journal[1, written] = before
                    written += 1
                    excess += max(0, after - goal) - max(0, before - goal)
                    hops += 1
        else:
            pair = source * s.holder.size + end
            if s.route_start[pair] == s.route_start[pair + 1]:
                hops += 1000
            for e in range(s.route_start[pair], s.route_start[pair + 1]):
                link = s.route_link[e]
                if once:
                    if stamp[link] == mark:
                        continue
                    stamp[link] = mark
                before = load[offset + link]
                after = before + weight * s.route_cost[e]
                load[offset + link] = after
                journal[0, written] = offset + link
                journal[1, written] = before
                written += 1
                excess += max(0, after - goal) - max(0, before - goal)
                hops += 1
    s.counter[2] = written
    return excess * s.price[phase], hops * sign


@njit(cache=True, error_model="numpy")
def _undo(s):  # type: ignore[no-untyped-def]
    """Take back every load that the journal has."""
    for k in range(s.counter[2] - 1, -1, -1):
        s.load[s.journal[0, k]] = s.journal[1, k]
    s.counter[2] = 0


@njit(cache=True, error_model="numpy")
def fill(s):  # type: ignore[no-untyped-def]
    """Compute all loads from scratch; return (weighted excess, hops)."""
    s.load[:] = 0
    excess = 0
    hops = 0
    for net in range(s.root.size):
        s.counter[2] = 0
        de, dh = _apply(s, net, 1)
        excess += de
        hops += dh
    return excess, hops


@njit(cache=True, error_model="numpy")
def _touch(s, worker, nets, count):  # type: ignore[no-untyped-def]
    """Append the nets of all slots of a worker that this move has not seen yet."""
    for j in range(s.places.shape[1]):
        slot = s.places[worker, j]
        if slot >= 0:
            count = _touch_slot(s, slot, nets, count)
    return count


@njit(cache=True, error_model="numpy")
def _touch_slot(s, slot, nets, count):  # type: ignore[no-untyped-def]
    for e in range(s.touch_start[slot], s.touch_start[slot + 1]):
        net = s.touch[e]
        if s.seen[net] != s.counter[1]:
            s.seen[net] = s.counter[1]
            nets[count] = net
            count += 1
    return count


@njit(cache=True, error_model="numpy")
def _exchange(s, worker, seat):  # type: ignore[no-untyped-def]
    """Move a worker to a seat; who sits there takes its old one."""
    old = s.seat[worker]
    other = s.holder[seat]
    s.seat[worker] = seat
    s.holder[seat] = worker
    s.holder[old] = other
    if other >= 0:
        s.seat[other] = old


@njit(cache=True, error_model="numpy")
def _turn(s, a, b):  # type: ignore[no-untyped-def]
    """Exchange the workers of two slots of one ring."""
    first, second = s.standing[a], s.standing[b]
    s.standing[a], s.standing[b] = second, first
    for j in range(s.places.shape[1]):
        if s.places[first, j] == a:
            s.places[first, j] = b
            break
    for j in range(s.places.shape[1]):
        if s.places[second, j] == b:
            s.places[second, j] = a
            break


@njit(cache=True, error_model="numpy")
def anneal(s, moves, hot, cold, hop_price, excess, hops, best_seat, best_standing):  # type: ignore[no-untyped-def]
    """Make ``moves`` moves while the temperature falls geometrically from ``hot`` to ``cold``.

    The best state by energy is copied to ``best_seat`` and ``best_standing``. Returns (excess, hops, best excess, best
    hops, moves made); it stops early once nothing is in excess and hops are free.
    """
    workers = s.seat.size
    seats = s.holder.size
    rings = s.ring_first.size
    nets = np.empty(s.root.size, dtype=np.int64)
    best_excess, best_hops = excess, hops
    best_seat[:] = s.seat
    best_standing[:] = s.standing
    cooling = (cold / hot) ** (1.0 / max(1, moves)) if hot > 0 else 1.0
    temperature = hot
    for made in range(moves):
        if best_excess == 0 and hop_price == 0.0:
            return excess, hops, best_excess, best_hops, made
        s.counter[1] += 1
        s.counter[2] = 0
        temperature *= cooling
        turning = rings > 0 and _uniform(s.random) < 0.3
        if turning:
            ring = int(_uniform(s.random) * rings)
            size = s.ring_size[ring]
            if size < 3:
                continue
            a = s.ring_first[ring] + int(_uniform(s.random) * size)
            b = s.ring_first[ring] + int(_uniform(s.random) * size)
            if a == b:
                continue
            count = _touch_slot(s, a, nets, 0)
            count = _touch_slot(s, b, nets, count)
            worker, old = 0, 0
        else:
            a, b = 0, 0
            worker = int(_uniform(s.random) * workers)
            old = s.seat[worker]
            choice = _uniform(s.random)
            if choice < 0.2:
                seat = int(_uniform(s.random) * seats)
            else:
                # Close to where it sits, or close to one of those it sends to or hears from.
                close = old
                if choice < 0.6:
                    slot = s.places[worker, int(_uniform(s.random) * s.places.shape[1])]
                    if slot >= 0 and s.touch_start[slot + 1] > s.touch_start[slot]:
                        degree = s.touch_start[slot + 1] - s.touch_start[slot]
                        net = s.touch[s.touch_start[slot] + int(_uniform(s.random) * degree)]
                        close = s.seat[s.standing[s.root[net]]]
                        if close == old:
                            close = s.seat[s.standing[s.target[s.target_start[net]]]]
                seat = s.near[close, int(_uniform(s.random) * s.near.shape[1])]
            if seat == old:
                continue
            count = _touch(s, worker, nets, 0)
            if s.holder[seat] >= 0:
                count = _touch(s, s.holder[seat], nets, count)
        # Removing nets only lowers the energy and adding them only raises it: stop adding once the move is lost.
        limit = -temperature * np.log(1.0 - _uniform(s.random)) if temperature > 0 else 0.0
        change = 0
        hop_change = 0
        for k in range(count):
            de, dh = _apply(s, nets[k], -1)
            change += de
            hop_change += dh
        if turning:
            _turn(s, a, b)
        else:
            _exchange(s, worker, seat)
        lost = False
        for k in range(count):
            de, dh = _apply(s, nets[k], 1)
            change += de
            hop_change += dh
            if change + hop_price * hop_change > limit:
                lost = True
                break
        if lost:
            _undo(s)
            if turning:
                _turn(s, a, b)
            else:
                _exchange(s, worker, old)
            continue
        excess += change
        hops += hop_change
        if excess + hop_price * hops < best_excess + hop_price * best_hops:
            best_excess, best_hops = excess, hops
            best_seat[:] = s.seat
            best_standing[:] = s.standing
    return excess, hops, best_excess, best_hops, moves
