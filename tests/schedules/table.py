"""The mutation table: what the checker says of each mutant, and what happens to it in random interleavings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.threads.validate import Source, read_source
from schedules import interleaving, mutants, samples

BASES: dict[str, Callable[[], str]] = {
    "ring all-reduce of 4": lambda: samples.ring_all_reduce(4),
    "all-pairs all-reduce of 4": lambda: samples.all_pairs_all_reduce(4),
    "ring all-gather of 4, two chunks": lambda: samples.ring_all_gather(4, per_rank=2),
    "recursive-doubling all-gather of 4": lambda: samples.recursive_doubling_all_gather(4),
    "all-pairs reduce-scatter of 3": lambda: samples.all_pairs_reduce_scatter(3),
    "all-to-all of 3": lambda: samples.all_to_all(3),
    "all-to-all of 3, two chunks, Simple": lambda: samples.all_to_all(3, per_pair=2, protocol="Simple"),
    "broadcast chain of 4": lambda: samples.broadcast_chain(4),
    "hierarchical all-reduce of 2 x 2": lambda: samples.hierarchical_all_reduce(2, 2),
    "MSCCL++ all-reduce over memory channels": lambda: samples.memory_all_reduce(3),
    "MSCCL++ all-reduce through scratch": lambda: samples.scratch_all_reduce(3),
    "MSCCL++ all-gather over ports": lambda: samples.port_all_gather(3),
    "MSCCL++ all-reduce in packets": lambda: samples.packet_all_reduce(3),
    "MSCCL++ all-reduce by switch": lambda: samples.switch_all_reduce(3),
}
"""Base schedules, all of which are right."""

ROOT = 0
LARGE = 1 << 34
"""Bytes at which every chunk is a message of its own."""


@dataclass(frozen=True)
class Row:
    """A mutant: its base, family and name, the verdict, what the executor saw, and the text."""

    base: str
    mutant: mutants.Mutant
    verdict: str
    why: str
    outcome: str
    detail: str

    @property
    def accepted(self) -> bool:
        """Whether the checker lets it run at some size."""
        return self.verdict in ("valid", "hangs-above")


def verdict_of(text: str) -> tuple[str, str, int | None]:
    """Return the checker's verdict, its first error, and the bytes above which it hangs."""
    data = text.encode()
    try:
        verdict = read_source(Source("mutant", data, data[:65_536]), root=ROOT).verdict
    except InvalidInput as error:
        return "unreadable", str(error), None
    errors = [one for one in verdict.findings if one.severity == "error"]
    return verdict.verdict, f"{errors[0].code}: {errors[0].message}" if errors else "", verdict.hangs_above


def rows(seed: int, each: int, runs: int, bases: dict[str, Callable[[], str]] | None = None) -> Iterator[Row]:
    """Yield ``each`` mutants of every base, each run so many times in random interleavings."""
    for base, make in (bases or BASES).items():
        for number, mutant in enumerate(mutants.mutants(make(), seed, each)):
            yield row(base, mutant, runs, number * 1000)


def row(base: str, mutant: mutants.Mutant, runs: int, seed: int) -> Row:
    """Check one mutant and run it."""
    verdict, why, hangs = verdict_of(mutant.text)
    found = interleaving.runs(mutant.text, runs, seed, root=ROOT)
    if found.done and verdict == "hangs-above" and hangs is not None:
        # Right at the size itself, stuck above it.
        found = interleaving.runs(mutant.text, max(2, runs // 10), seed, size_bytes=hangs, root=ROOT)
        above = interleaving.runs(mutant.text, 1, seed, size_bytes=hangs + 1, root=ROOT)
        if found.done and above.kind != "stuck":
            found = interleaving.Outcome("wrong", f"does not hang above {hangs}")
    elif found.done and verdict == "valid" and mutant.text.lstrip()[:1] == "<":
        found = interleaving.runs(mutant.text, max(2, runs // 10), seed, size_bytes=LARGE, root=ROOT)
        if found.kind == "stuck" and not allows(mutant.text, LARGE):
            found = interleaving.Outcome("done")
    return Row(base, mutant, verdict, why, found.kind, found.detail)


def allows(text: str, size: int) -> bool:
    """Whether a file's window lets such a size in."""
    import re

    match = re.search(r'maxBytes="(\d+)"', text)
    return match is None or int(match[1]) == 0 or int(match[1]) >= size


def counts(found: list[Row]) -> dict[int, Counter[str]]:
    """Return, by family: mutants, rejected, accepted, rejected though never seen to fail, accepted though seen to fail."""
    table: dict[int, Counter[str]] = {}
    for one in found:
        line = table.setdefault(one.mutant.family, Counter())
        line["mutants"] += 1
        line["accepted" if one.accepted else "rejected"] += 1
        if one.accepted and one.outcome != "done":
            line["missed"] += 1
        if not one.accepted and one.outcome == "done":
            line["never seen to fail"] += 1
    return table
