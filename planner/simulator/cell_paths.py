"""Paths planned together for flows that are known beforehand: the central traffic engineering of the comparison.

Rounds of rip-up and reroute: a flow takes the cheapest path given all others, where a link costs what the sum of the loads' sixth
powers would grow by (so that the busiest count most), and more for every round in which it was overloaded. The best plan of all
rounds is kept: by its busiest link, then by the sum of squares. Nothing is drawn, so the same flows get the same paths. It is a heuristic: it stops early at a plan that no
other can beat, and otherwise after a number of rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabric_plan.planner.simulator.cell_fabric import CellFabric, Reach

ROUNDS = 60
POWER = 6

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Demand:
    """Bytes from one interface node to another."""

    source: int
    target: int
    size_bytes: int


def plan_paths(fabric: CellFabric, reach: Reach, demands: Sequence[Demand], rounds: int = ROUNDS) -> list[Path]:
    """Return a path (directed links) for each demand; every demand must be reachable."""
    rate = fabric.rate
    load = [0.0] * len(rate)  # in units of the bound
    history = [0.0] * len(rate)
    order = sorted(range(len(demands)), key=lambda k: (-demands[k].size_bytes, k))
    paths: list[Path] = [()] * len(demands)
    best: tuple[tuple[float, float], list[Path]] | None = None
    bound = busiest_bound(fabric, reach, demands) or 1.0
    for _ in range(rounds):
        moved = False
        for k in order:
            demand, old = demands[k], paths[k]
            for link in old:
                load[link] -= demand.size_bytes / rate[link] / bound
            paths[k] = _cheapest(fabric, reach, demand, load, history, bound)
            for link in paths[k]:
                load[link] += demand.size_bytes / rate[link] / bound
            moved = moved or paths[k] != old
        value = (max(load, default=0.0), sum(one * one for one in load))
        if best is None or value < best[0]:
            best = (value, list(paths))
        if value[0] <= 1 + 1e-9:
            break
        over = [max(0.0, one - 1 - 1e-9) for one in load]
        if not moved and not any(over):
            break
        for link, extra in enumerate(over):
            history[link] += extra
    return best[1] if best is not None else paths


def busiest_bound(fabric: CellFabric, reach: Reach, demands: Sequence[Demand]) -> float:
    """Return seconds below which no plan of single paths keeps its busiest link: a flow alone, or all of a node's."""
    sent: dict[int, int] = {}
    got: dict[int, int] = {}
    bound = 0.0
    for demand in demands:
        links = reach[demand.source][demand.target]
        bound = max(bound, demand.size_bytes / max(fabric.rate[link] for link in links))
        sent[demand.source] = sent.get(demand.source, 0) + demand.size_bytes
        got[demand.target] = got.get(demand.target, 0) + demand.size_bytes
    for source, size in sent.items():
        bound = max(bound, size / sum(fabric.rate[link] for link in fabric.out[source]))
    for target, size in got.items():
        bound = max(bound, size / sum(fabric.rate[link] for link in fabric.out[target]))
    return bound


def _cheapest(
    fabric: CellFabric, reach: Reach, demand: Demand, load: Sequence[float], history: Sequence[float], bound: float
) -> Path:
    rate, head, target = fabric.rate, fabric.head, demand.target
    known: dict[int, tuple[float, Path]] = {target: (0.0, ())}

    def onward(device: int) -> tuple[float, Path]:
        found = known.get(device)
        if found is None:
            least: float = float("inf")
            path: Path = ()
            for link in reach[device][target]:
                rest, tail = onward(head[link])
                more = demand.size_bytes / rate[link] / bound
                cost = rest + (load[link] + more) ** POWER - load[link] ** POWER + history[link]
                if cost < least - 1e-12:
                    least, path = cost, (link, *tail)
            found = known[device] = (least, path)
        return found

    return onward(demand.source)[1]
