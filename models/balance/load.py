"""The least fluid load among the best selections of a small fabric: patterns of each destination, one of each chosen.

Towards each destination all balanced selections with the largest total and the largest worst pair are listed, with the load that
each puts on every link; a model chooses one for each, so that the busiest link carries as little as it can. That is exact for
equal spray and devices that withdraw no more than they must; it needs fabrics small enough to list (the published example has up to 26,569 balanced selections a destination).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from fabric_plan.models import solve
from fabric_plan.planner.balance import BalanceProblem
from fabric_plan.planner.dsf import Live, count_links
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.simulator.fluid import add, demands, fluid, is_exact, nothing
from fabric_plan.planner.simulator.reach import Pair, chosen, spine_output

MAX_PATTERNS = 60_000
"""Selections of one destination that are listed at most."""


@dataclass(frozen=True)
class Chosen:
    """The pairs chosen, their largest load, and its proven bound (None: none)."""

    pairs: list[Pair]
    load: Fraction
    bound: Fraction | None


def subsets(masks: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """Return every way to keep ``most`` of a device's input links, or all if there are fewer: masks by neighbour."""
    bits = [
        (place, 1 << number)
        for place, mask in enumerate(masks)
        for number in range(mask.bit_length())
        if mask >> number & 1
    ]
    found = []
    for kept in itertools.combinations(bits, min(most, len(bits))):
        left = [0] * len(masks)
        for place, bit in kept:
            left[place] |= bit
        found.append(tuple(left))
    return found


def patterns(live: Live, zone: int, home: int, number: int, *, intra: bool) -> list[Pair] | None:
    """Return all selections with the largest total and then the largest worst capacity; None where there are too many.

    Every device keeps as many links as its output allows, as devices do: that is part of what ``load`` asks for.
    """
    out = spine_output(live, home, number, intra=intra)
    up = np.where(out > 0, live.upper_links[zone], 0)
    low = live.lower_links[zone]
    counts = count_links(up, live.dsf.widest).sum(axis=0).tolist()
    if math.prod(math.comb(many, min(many, int(most))) for many, most in zip(counts, out, strict=True)) > MAX_PATTERNS:
        return None
    tops = [subsets(up[:, s].tolist(), int(out[s])) for s in range(up.shape[1])]
    best: tuple[int, int] = (-1, -1)
    found: list[Pair] = []
    tried = 0
    senders = count_links(low, live.dsf.widest).sum(axis=0).tolist()
    for top in itertools.product(*tops):
        upper = np.array(top, dtype=np.int32).T
        through = count_links(upper, live.dsf.widest).sum(axis=1)
        tried += math.prod(math.comb(many, min(many, int(most))) for many, most in zip(senders, through, strict=True))
        if tried > MAX_PATTERNS:
            return None
        sides = [subsets(low[:, g].tolist(), int(through[g])) for g in range(low.shape[1])]
        for side in itertools.product(*sides):
            pair = chosen(live, zone, home, number, out, upper, np.array(side, dtype=np.int32).T)
            capacity = pair.capacity
            value = (int(capacity.sum()), int(capacity.min()))
            if value > best:
                best, found = value, []
            if value == best:
                found.append(pair)
    return found


def least_load(problem: BalanceProblem, copy: int, budget: Budget) -> Chosen | None:
    """Choose selections of all destinations with the least largest load; None where the fabric is too large to list."""
    live = problem.live(copy)
    if not is_exact(problem.fabric):
        return None
    demand = demands(live)
    zones = range(len(problem.fabric.zones))
    keys = [
        (zone, home, number)
        for zone in zones
        for home in zones
        if home != zone
        for number in range(problem.fabric.zones[home].interfaces)
    ]
    options: list[list[tuple[tuple[Fraction, ...], Pair]]] = []
    for zone, home, number in keys:
        listed = patterns(live, zone, home, number, intra=problem.intra)
        if listed is None:
            return None
        rows: dict[bytes, tuple[Any, Pair]] = {}
        for pair in listed:
            loads = _loads(live, pair, demand(zone, home, number).astype(float))
            rows.setdefault(np.round(loads, 9).tobytes(), (loads, pair))
        kept = _undominated(list(rows.values()))
        options.append([(tuple(_loads(live, pair, demand(zone, home, number))), pair) for _, pair in kept])
    scale = math.lcm(*(one.denominator for rows in options for loads, _ in rows for one in loads if one))
    model = cp_model.CpModel()
    picks = [[model.new_bool_var("") for _ in rows] for rows in options]
    for row in picks:
        model.add_exactly_one(row)
    peak = model.new_int_var(0, 1 << 40, "")
    width = len(options[0][0][0]) if options else 0
    for link in range(width):
        terms = [
            int(rows[k][0][link] * scale) * pick[k]
            for rows, pick in zip(options, picks, strict=True)
            for k in range(len(rows))
            if rows[k][0][link]
        ]
        if terms:
            model.add(sum(terms) <= peak)
    model.minimize(peak)
    outcome = solve.run(model, budget, wanted=[one for row in picks for one in row])
    if outcome.values is None:
        return None
    values = iter(outcome.values)
    pairs = [rows[[next(values) for _ in row].index(1)][1] for rows, row in zip(options, picks, strict=True)]
    load = Fraction(fluid(live, iter(pairs)).largest(live)[0])
    bound = None if outcome.bound is None else Fraction(outcome.bound, scale)
    return Chosen(pairs, load, bound)


def _loads(live: Live, pair: Pair, sent: Any) -> Any:
    """Return the load of every link, in units of its rate, in one flat row: fractions if ``sent`` is."""
    found = nothing(live, exact=sent.dtype == object)
    add(found, live, pair, sent)
    kinds = (found.lower_up, found.lower_down, found.upper_up, found.upper_down)
    return np.concatenate([loads.ravel() for kind in kinds for loads in kind])


def _undominated(rows: list[tuple[Any, Pair]]) -> list[tuple[Any, Pair]]:
    """Return the patterns that no other is as good as on every link."""
    rows = sorted(rows, key=lambda row: (row[0].max(), row[0].sum()))
    table = np.array([row[0] for row in rows])
    kept: list[int] = []
    for k in range(len(rows)):
        if not (kept and (table[kept] <= table[k] + 1e-9).all(axis=1).any()):
            kept.append(k)
    return [rows[k] for k in kept]


def tier_bound(live: Live, *, delivered: bool) -> Fraction:
    """Return a bound on the largest load for any selection that delivers all: what crosses a tier, over the tier's live links."""
    if not delivered:
        return Fraction(0)
    demand = demands(live)
    dsf = live.dsf
    up = [Fraction(0)] * len(dsf.zones)
    down = [Fraction(0)] * len(dsf.zones)
    for home, there in enumerate(dsf.zones):
        for number in range(there.interfaces):
            for zone in range(len(dsf.zones)):
                if zone != home:
                    sent = Fraction(demand(zone, home, number).sum())
                    up[zone] += sent
                    down[home] += sent
    best = Fraction(0)
    for zone in range(len(dsf.zones)):
        for amount, links in (
            (up[zone], live.lower[zone]),
            (up[zone], live.upper[zone]),
            (down[zone], live.upper[zone]),
            (down[zone], live.lower[zone]),
        ):
            if links.sum():
                best = max(best, amount / int(links.sum()))
    return best
