"""The best selection for one destination and one zone that sends: an integral flow, as even as it can be.

Interface nodes send over fabric nodes and spines to the destination; a flow's links are those that stay advertised. The vectors of
what the interface nodes can send are the integral points of a polymatroid, so raising the lowest by one, as long as
anything can be raised, ends at a vector that is as large as any in total, in its smallest entry, in its two smallest,
and so on (leximin); who cannot be raised now never can be later. After a failure the old flow is mended: units that lost
their link are taken out, whoever can be raised is, and a unit is moved from a high sender to a low one as long as that is
possible, which is again leximin (no such move is left exactly there; Frank and Murota, "Decreasing minimization on M-convex sets").

Kernels are plain functions on arrays, compiled where there is much to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Grid = NDArray[np.int16]


def search(
    start: int, low: Grid, up: Grid, out: Grid, y: Grid, x: Grid, used: Grid, cap: Grid, steal: int,
    seen: Any, back: Any, queue: Any,
) -> Any:  # fmt: skip
    """Find a way for one more unit of sender ``start`` in the residual network, breadth first, and mark what it reaches.

    Nodes: senders 0..R-1, then fabric nodes, then spines. Ends at a spine with output left; or, with ``steal`` >= 0, at a sender that sends at
    least ``steal``. Returns that node, -1 if there is none. ``seen`` (set to 1 where reached) and ``back`` (the node before) are filled. With
    ``start`` < 0 the search begins at all senders.
    """
    senders, fabrics = low.shape
    spines = up.shape[1]
    for node in range(senders + fabrics + spines):
        seen[node] = 0
    head, tail = 0, 0
    for node in range(senders):
        if node == start or start < 0:
            queue[tail] = node
            tail += 1
            seen[node] = 1
            back[node] = -1
    while head < tail:
        node = queue[head]
        head += 1
        if node < senders:
            if steal >= 0 and node != start and cap[node] >= steal:
                return node
            for g in range(fabrics):
                if not seen[senders + g] and y[node, g] < low[node, g]:
                    seen[senders + g] = 1
                    back[senders + g] = node
                    queue[tail] = senders + g
                    tail += 1
        elif node < senders + fabrics:
            g = node - senders
            for s in range(spines):
                if not seen[senders + fabrics + s] and x[g, s] < up[g, s]:
                    seen[senders + fabrics + s] = 1
                    back[senders + fabrics + s] = node
                    if used[s] < out[s]:
                        return senders + fabrics + s
                    queue[tail] = senders + fabrics + s
                    tail += 1
            for r in range(senders):
                if not seen[r] and y[r, g] > 0:
                    seen[r] = 1
                    back[r] = node
                    queue[tail] = r
                    tail += 1
        else:
            s = node - senders - fabrics
            for g in range(fabrics):
                if not seen[senders + g] and x[g, s] > 0:
                    seen[senders + g] = 1
                    back[senders + g] = node
                    queue[tail] = senders + g
                    tail += 1
    return -1


def push(end: int, senders: int, fabrics: int, y: Grid, x: Grid, used: Grid, cap: Grid, back: Any) -> None:
    """Send one unit along the way that a search found, to its ``end``."""
    if end >= senders + fabrics:
        used[end - senders - fabrics] += 1
    else:
        cap[end] -= 1
    node = end
    while back[node] >= 0:
        before = back[node]
        if before < senders:
            y[before, node - senders] += 1
        elif before < senders + fabrics:
            if node >= senders + fabrics:
                x[before - senders, node - senders - fabrics] += 1
            else:
                y[node, before - senders] -= 1
        else:
            x[node - senders, before - senders - fabrics] -= 1
        node = before
    cap[node] += 1


def fill(
    low: Grid,
    up: Grid,
    out: Grid,
    y: Grid,
    x: Grid,
    used: Grid,
    cap: Grid,
    turn: int,
    blocked: Any,
    seen: Any,
    back: Any,
    queue: Any,
) -> None:
    """Raise senders, the lowest first, until none can be raised: from whatever flow stands in ``y``, ``x``, ``used`` and ``cap``.

    ``turn`` is where to begin among senders, fabric nodes and spines, so that who loses differs from one destination to the next.
    """
    senders, fabrics = low.shape
    spines = up.shape[1]
    left = senders
    for r in range(senders):
        blocked[r] = 0
    level = 0
    while left > 0:
        # The lowest that may still be raised set the level.
        level = 1 << 14
        for r in range(senders):
            if not blocked[r] and cap[r] < level:
                level = cap[r]
        for k in range(senders):
            r = (turn + k) % senders
            if blocked[r] or cap[r] != level:
                continue
            done = False
            for j in range(fabrics):
                # Each sender begins elsewhere at each level: so fabric nodes fill evenly.
                g = (r + level + turn + j) % fabrics
                if y[r, g] >= low[r, g]:
                    continue
                for i in range(spines):
                    s = (r + level * 7 + turn + i) % spines
                    if x[g, s] < up[g, s] and used[s] < out[s]:
                        y[r, g] += 1
                        x[g, s] += 1
                        used[s] += 1
                        cap[r] += 1
                        done = True
                        break
                if done:
                    break
            if done:
                continue
            end = search(r, low, up, out, y, x, used, cap, -1, seen, back, queue)
            if end < 0:
                # Whoever was reached has no way on either.
                for other in range(senders):
                    if seen[other] and not blocked[other]:
                        blocked[other] = 1
                        left -= 1
            else:
                push(end, senders, fabrics, y, x, used, cap, back)


def level_out(
    low: Grid,
    up: Grid,
    out: Grid,
    y: Grid,
    x: Grid,
    used: Grid,
    cap: Grid,
    tried: Any,
    seen: Any,
    back: Any,
    queue: Any,
) -> int:
    """Move units from senders that send much to such as send at least two less, until no such move is left; return how many."""
    senders, fabrics = low.shape
    moved = 0
    again = True
    while again:
        again = False
        highest = 0
        for r in range(senders):
            tried[r] = 0
            highest = max(highest, cap[r])
        for r in range(senders):
            if tried[r] or cap[r] + 2 > highest:
                continue
            end = search(r, low, up, out, y, x, used, cap, cap[r] + 2, seen, back, queue)
            if end < 0:
                # Whoever was reached and sends as much finds nobody either.
                for other in range(senders):
                    if seen[other] and cap[other] >= cap[r]:
                        tried[other] = 1
                continue
            push(end, senders, fabrics, y, x, used, cap, back)
            moved += 1
            again = True
            for other in range(senders):
                tried[other] = 0
    return moved


def mend(low: Grid, up: Grid, out: Grid, y: Grid, x: Grid, used: Grid, cap: Grid) -> None:
    """Make a flow of a selection from before a failure: what lost its link is taken out, and what no sender uses."""
    senders, fabrics = low.shape
    spines = up.shape[1]
    for r in range(senders):
        cap[r] = 0
        for g in range(fabrics):
            y[r, g] = min(y[r, g], low[r, g])
            cap[r] += y[r, g]
    for s in range(spines):
        used[s] = 0
        for g in range(fabrics):
            x[g, s] = min(x[g, s], up[g, s])
            used[s] += x[g, s]
    for g in range(fabrics):
        through, sent = 0, 0
        for s in range(spines):
            through += x[g, s]
        for r in range(senders):
            sent += y[r, g]
        # Links beyond the flow go first from spines that have too many.
        for urgent in (1, 0):
            for s in range(spines):
                while through > sent and x[g, s] > 0 and (used[s] > out[s] or not urgent):
                    x[g, s] -= 1
                    used[s] -= 1
                    through -= 1
    for s in range(spines):
        for g in range(fabrics):
            while used[s] > out[s] and x[g, s] > 0:
                x[g, s] -= 1
                used[s] -= 1
    for g in range(fabrics):
        through, sent = 0, 0
        for s in range(spines):
            through += x[g, s]
        for r in range(senders):
            sent += y[r, g]
        while sent > through:
            # The sender that has most gives way.
            most = -1
            for r in range(senders):
                if y[r, g] > 0 and (most < 0 or cap[r] > cap[most]):
                    most = r
            y[most, g] -= 1
            cap[most] -= 1
            sent -= 1


def widen(up: Grid, out: Grid, x: Grid, used: Grid) -> None:
    """Advertise on as many links as every spine's output allows, beyond those that the flow uses."""
    fabrics, spines = up.shape
    for s in range(spines):
        for g in range(fabrics):
            more = min(up[g, s] - x[g, s], out[s] - used[s])
            x[g, s] += more
            used[s] += more


def solve_all(
    low: Grid, up: Grid, outs: Grid, turns: Any, ys: Grid, xs: Grid, caps: Grid, totals: Any, worsts: Any, warm: int,
) -> None:  # fmt: skip
    """Solve one zone for many outputs of the spines, shape (cases, spines), one after another.

    ``ys`` (cases, senders, fabric nodes), ``xs`` (cases, fabric nodes, spines) and ``caps`` (cases, senders) take the selections; with ``warm`` they hold
    the selections of before a failure, which are mended. ``totals`` and ``worsts`` (cases, nodes) take the sides of the cuts that bound the total and the smallest.
    """
    senders, fabrics = low.shape
    spines = up.shape[1]
    nodes = senders + fabrics + spines
    seen = np.zeros(nodes, dtype=np.uint8)
    back = np.zeros(nodes, dtype=np.int32)
    queue = np.zeros(nodes, dtype=np.int32)
    blocked = np.zeros(max(senders, fabrics), dtype=np.uint8)
    used = np.zeros(spines, dtype=np.int16)
    for k in range(len(outs)):
        out, y, x, cap = outs[k], ys[k], xs[k], caps[k]
        for s in range(spines):
            used[s] = 0
        if warm:
            mend(low, up, out, y, x, used, cap)
        fill(low, up, out, y, x, used, cap, turns[k], blocked, seen, back, queue)
        if warm:
            level_out(low, up, out, y, x, used, cap, blocked, seen, back, queue)
        search(-1, low, up, out, y, x, used, cap, -1, seen, back, queue)
        totals[k] = seen
        # Senders that have no way at all do not count as the smallest.
        least = -1
        for g in range(fabrics):
            blocked[g] = 0
            for s in range(spines):
                if up[g, s] > 0 and out[s] > 0:
                    blocked[g] = 1
                    break
        for r in range(senders):
            if least < 0 or cap[r] < cap[least]:
                for g in range(fabrics):
                    if blocked[g] and low[r, g] > 0:
                        least = r
                        break
        search(least, low, up, out, y, x, used, cap, -1, seen, back, queue)
        worsts[k] = seen
        widen(up, out, x, used)
