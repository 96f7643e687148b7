"""How many bytes a training iteration moves along each dimension of a strategy, from the public shape of a model.

The four workloads are those of the FRED paper, table 6; volumes follow its section 7.3: FP16 everywhere, a minibatch of
16 samples for each data-parallel replica in 8 microbatches, Megatron's tensor parallelism (two all-reduces a layer in the forward pass and
two in the backward pass), ZeRO-2 along the DP dimension (reduce-scatter of gradients and all-gather of parameters, the
traffic of one all-reduce), and the activations of all samples across each border of the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from fabric_plan.planner.errors import InvalidInput, InvalidProblem, suggest
from fabric_plan.planner.parallelism import Strategy
from fabric_plan.planner.units import parse_size

BYTES_PER_VALUE = 2
SAMPLES_PER_REPLICA = 16
ALL_REDUCES_PER_LAYER = 4
MICROBATCHES = 8


@dataclass(frozen=True, slots=True)
class Volume:
    """Bytes of all collectives of one group in an iteration together, and how many collectives they are."""

    size: Fraction
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Volume:
        """Read ``64MiB``, or ``64MiB*312`` for 312 collectives of 64 MiB each."""
        size, star, count = text.partition("*")
        if star and not re.fullmatch(r"\s*0*[1-9][0-9]{0,8}\s*", count, re.ASCII):
            raise InvalidInput(f"volume {text!r}: cannot read {count!r}: expected a size and a count, as in 64MiB*312")
        times = int(count) if star else 1
        return cls(parse_size(size) * times, times)


@dataclass(frozen=True, slots=True)
class Workload:
    """The shape of a model.

    ``layers``, ``hidden`` and ``sequence`` are zero for a model that is not a transformer; it then has no tensor or
    pipeline parallelism here. ``embedding`` counts parameters outside the layers.
    """

    name: str
    source: str
    layers: int
    hidden: int
    sequence: int
    embedding: int

    @property
    def parameters(self) -> int:
        """Parameters of the model: 12 h^2 a transformer layer (attention 4 h^2, MLP 8 h^2) and the embedding."""
        return 12 * self.layers * self.hidden**2 + self.embedding

    def volumes(self, strategy: Strategy, given: Mapping[str, Volume] | None = None) -> dict[str, Volume]:
        """Return what one group communicates in an iteration, per dimension larger than one.

        MP and DP: all-reduces. PP: what one worker sends its successor, in one direction. Volumes in ``given`` replace
        the model's.

        Raises
        ------
        InvalidProblem
            When a dimension's volume is neither given nor a consequence of the model's shape.
        """
        found = dict(given or {})
        mp, pp = strategy.size("mp"), strategy.size("pp")
        activations = Fraction(SAMPLES_PER_REPLICA * self.sequence * self.hidden * BYTES_PER_VALUE)
        known = {"dp": Volume(Fraction(self.parameters * BYTES_PER_VALUE, mp * pp))}
        if self.layers:
            # A stage holds layers/PP layers; where that is not whole, the longest stage sets the number of collectives.
            per_stage = -(-self.layers // pp)
            known["mp"] = Volume(
                ALL_REDUCES_PER_LAYER * per_stage * activations, ALL_REDUCES_PER_LAYER * per_stage * MICROBATCHES
            )
            known["pp"] = Volume(activations, MICROBATCHES)
        for name in strategy.dimensions:
            if strategy.size(name) == 1 or name in found:
                continue
            if name not in known:
                raise InvalidProblem(
                    f"workload {self.name} has no volume for {name.upper()}: give one with --volumes {name}=SIZE"
                )
            found[name] = known[name]
        return found


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("resnet-152", "He et al. 2015: 60.2 M parameters", 0, 0, 0, 60_200_000),
        Workload(
            "transformer-17b",
            "Turing-NLG, Microsoft 2020: 78 layers, hidden 4256, 1024 tokens",
            78,
            4256,
            1024,
            51_200 * 4256,
        ),
        Workload("gpt3", "Brown et al. 2020: 96 layers, hidden 12288, 2048 tokens", 96, 12288, 2048, 50_257 * 12288),
        Workload(
            "transformer-1t",
            "Narayanan et al. 2021, table 1: 128 layers, hidden 25600, 2048 tokens",
            128,
            25600,
            2048,
            51_200 * 25600,
        ),
    )
}


def workload(name: str) -> Workload:
    """Return a shipped workload by name.

    Raises
    ------
    InvalidInput
        For an unknown name, with the nearest known one.
    """
    key = name.strip().lower().replace("_", "-")
    key = {"gpt-3": "gpt3", "t17b": "transformer-17b", "t1t": "transformer-1t"}.get(key, key)
    if key not in WORKLOADS:
        raise InvalidInput(
            f"unknown workload {name!r}{suggest(key, list(WORKLOADS))}: expected one of {', '.join(WORKLOADS)}"
        )
    return WORKLOADS[key]
