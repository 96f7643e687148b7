"""Placements as the order in which a Megatron job's ranks take the NPUs.

Megatron numbers its ranks with tensor parallelism fastest, then context, expert, data and pipeline parallelism
(``tp-cp-ep-dp-pp``, its default): the order in which this package numbers workers.
"""

from __future__ import annotations

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.plan import PlacementPlan

_OPTIONS = {
    "mp": "--tensor-model-parallel-size",
    "cp": "--context-parallel-size",
    "ep": "--expert-model-parallel-size",
    "pp": "--pipeline-model-parallel-size",
}


def write_megatron_order(plan: PlacementPlan) -> bytes:
    """Return a text with a line for each global rank: the rank, the number of its NPU, and the NPU's name.

    Lines that begin with # are remarks.

    Raises
    ------
    InvalidInput
        When both CP and EP are larger than one: Megatron then has no common numbering of the two.
    """
    fabric, strategy = plan.problem.fabric, plan.problem.strategy
    if strategy.size("cp") > 1 and strategy.size("ep") > 1:
        raise InvalidInput(
            f"strategy {strategy}: Megatron groups experts across its context-parallel ranks, so with both CP and EP above 1 its ranks are not the workers of this plan: export csv instead"
        )
    options = [f"{option} {strategy.size(name)}" for name, option in _OPTIONS.items() if strategy.size(name) > 1]
    data = strategy.size("ep") * strategy.size("dp")
    lines = [
        f"# {strategy} on {_word(fabric.name)}",
        "# rank order: tp-cp-ep-dp-pp (Megatron's default, tensor parallelism fastest)",
        f"# world size {strategy.workers}, data-parallel size {data}{': ' if options else ''}{' '.join(options)}",
    ]
    if strategy.size("ep") > 1:
        lines.append("# Megatron counts the expert-parallel ranks within its data parallelism")
    lines.append("# rank npu name")
    lines += [f"{rank} {seat} {_word(fabric.nodes[fabric.seats[seat]].name)}" for rank, seat in enumerate(plan.seats)]
    return ("\n".join(lines) + "\n").encode()


def _word(name: str) -> str:
    """Return a name without blanks or control characters, so that it stays one word of its line."""
    return "".join(letter if letter.isprintable() and letter != " " else "_" for letter in name) or "_"
