"""How often a phase routes when workers may sit on any ports: every partition of the ports, or random placements.

Nonblocking "for arbitrary groups" is what FRED's switch is not (FRED paper, section 5.3, option 4 places workers for that reason).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fabric_plan.models.routing.prove import Prover
from fabric_plan.planner.parallelism import Strategy
from fabric_plan.planner.problem import SwitchFlow
from fabric_plan.planner.switch_flows import PHASES, strategy_flows

MAX_PARTITIONS = 50_000
"""Up to so many ways to seat the groups of a phase, all are tried."""


@dataclass(frozen=True)
class Share:
    """How many placements of a phase route.

    Parameters
    ----------
    every
        True when all ways to seat the groups were tried, each once; else they were drawn at random.
    witness
        The flows of the first placement that does not route, and which of them already conflict.
    """

    phase: str
    tried: int
    failed: int
    unknown: int
    every: bool
    witness: tuple[SwitchFlow, ...] = ()
    core: tuple[int, ...] = ()

    @property
    def error(self) -> float:
        """Half the width of a 95 % interval of the share that fails (Wilson); 0 where every placement was tried."""
        if self.every or not self.tried:
            return 0.0
        z, n, p = 1.96, self.tried, self.failed / self.tried
        return z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))


def partitions(ports: Sequence[int], size: int, count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield every way to put ``count`` groups of ``size`` on different ports, without regard to order."""
    if count == 0:
        yield ()
        return
    # The first port of what is left is either in the first group, or idle: each way comes once.
    idle = len(ports) - size * count
    for skipped in range(idle + 1):
        head, rest = ports[skipped], ports[skipped + 1 :]
        for others in itertools.combinations(rest, size - 1):
            taken = set(others)
            left = [port for port in rest if port not in taken]
            for more in partitions(left, size, count - 1):
                yield ((head, *others), *more)


def ways(ports: int, size: int, count: int) -> int:
    """Return how many partitions there are."""
    seated = math.comb(ports, size * count)
    for group in range(count):
        seated *= math.comb(size * (count - group) - 1, size - 1)  # the first port that is left, and its companions
    return seated


def shares(
    prover: Prover,
    strategy: Strategy,
    samples: int,
    seed: int,
    on_progress: Callable[[str, int], None] = lambda phase, tried: None,
) -> list[Share]:
    """Return how many placements route, phase by phase.

    Groups that all-reduce are tried in every way where there are at most :data:`MAX_PARTITIONS`; else, and for pipelines, ``samples`` random
    placements are.
    """
    found = []
    for phase in PHASES:
        size = strategy.size(phase)
        if size < 2:
            continue
        count = strategy.workers // size
        every = phase != "pp" and ways(prover.ports, size, count) <= MAX_PARTITIONS
        source = random.Random(seed)
        trials: Iterator[list[SwitchFlow]]
        if every:
            trials = (
                [SwitchFlow(inputs=one, outputs=one) for one in groups]
                for groups in partitions(range(prover.ports), size, count)
            )
        else:
            trials = (_shuffled(strategy, phase, prover.ports, source) for _ in range(samples))
        tried = failed = unknown = 0
        witness: tuple[SwitchFlow, ...] = ()
        for flows in trials:
            verdict = prover.verdict(flows)
            tried += 1
            failed += verdict == "conflicts"
            unknown += verdict == "unknown"
            if verdict == "conflicts" and not witness:
                witness = tuple(flows)
            if tried % 100 == 0:
                on_progress(phase, tried)
            if prover.budget.left <= 0:
                break
        core = prover.route(witness)[2] if witness else ()
        whole = every and tried == ways(prover.ports, size, count)
        found.append(Share(phase, tried, failed, unknown, whole, witness, core))
    return found


def _shuffled(strategy: Strategy, phase: str, ports: int, source: random.Random) -> list[SwitchFlow]:
    """Return a phase's flows with the workers on random ports."""
    seats = list(range(ports))
    source.shuffle(seats)
    return [
        SwitchFlow(inputs=tuple(seats[p] for p in flow.inputs), outputs=tuple(seats[p] for p in flow.outputs))
        for flow in strategy_flows(strategy, phase)
    ]
