"""From packed trees to transfers: each job's data in chunks of equal size, and each chunk along one of its commodity's trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from fabric_plan.models.schedule.jobs.columns import Packed, Tree
from fabric_plan.models.schedule.jobs.commodity import Commodity, shards_of
from fabric_plan.models.schedule.jobs.net import Net
from fabric_plan.planner.problem import ScheduleProblem

MOST_CHUNKS = 1024
"""Of a shard."""

MOST_TRANSFERS = 120_000


@dataclass(frozen=True)
class Chunk:
    """A chunk that goes along a tree: its number, its tree, and its place (from 0 to 1) among those of that tree."""

    number: int
    tree: Tree
    place: float


@dataclass
class Cut:
    """All jobs' chunks.

    Parameters
    ----------
    chunks
        Those that go somewhere.
    shards, job_chunks
        As in a plan.
    sizes
        By job: bytes of a chunk.
    """

    chunks: list[Chunk] = field(default_factory=list)
    shards: list[int] = field(default_factory=list)
    job_chunks: list[int] = field(default_factory=list)
    sizes: list[Fraction] = field(default_factory=list)


def cut(problem: ScheduleProblem, net: Net, wanted: Sequence[Commodity], packed: Packed, grain: float) -> Cut:
    """Cut every job into chunks of some ``grain`` bytes, and share them out among the trees as the packing says."""
    by_commodity: list[list[tuple[Tree, float]]] = [[] for _ in wanted]
    for tree, share in packed.trees:
        by_commodity[tree.commodity].append((tree, share))
    # What rounding puts on a link beyond its share is made up for by the next that could take it.
    beyond = [0.0] * len(net.fabric.links)
    found = Cut()
    own: dict[tuple[int, int], int] = {(one.job, one.shard): number for number, one in enumerate(wanted)}
    for number, job in enumerate(problem.jobs):
        shards = shards_of(job)
        part = job.size / len(job.group) if len(shards) > 1 else job.size
        each = problem.chunks or max(1, min(MOST_CHUNKS, round(float(part) / grain)))
        found.job_chunks.append(each * len(shards))
        found.sizes.append(part / each)
        for shard in shards:
            base = len(found.shards)
            found.shards += [shard] * each
            commodity = own.get((number, shard))
            if commodity is not None:
                counts = _counts(net, by_commodity[commodity], each, float(part / each), beyond)
                found.chunks += _shared_out(base, counts)
    return found


def _counts(
    net: Net, trees: list[tuple[Tree, float]], each: int, size: float, beyond: list[float]
) -> list[tuple[Tree, int]]:
    """Return how many chunks each tree takes: its share rounded down, the rest where links have room."""
    whole = [int(share * each + 1e-6) for _, share in trees]
    for (tree, share), count in zip(trees, whole, strict=True):
        _carry(net, tree, (count - share * each) * size, beyond)
    for _ in range(each - sum(whole)):
        # The tree whose links are least beyond what the packing gives them; nearly done shares first where that is equal.
        best = min(
            range(len(trees)),
            key=lambda k: (round(_peak(net, trees[k][0], beyond, size), 9), whole[k] - trees[k][1] * each),
        )
        whole[best] += 1
        _carry(net, trees[best][0], size, beyond)
    return [(tree, count) for (tree, _), count in zip(trees, whole, strict=True) if count]


def _carry(net: Net, tree: Tree, amount: float, beyond: list[float]) -> None:
    for number in (*tree.up, *tree.down):
        move = net.moves[number]
        for link, share in zip(move.links, move.shares, strict=True):
            beyond[link] += amount * share / net.fabric.links[link].bandwidth


def _peak(net: Net, tree: Tree, beyond: list[float], size: float) -> float:
    links = net.fabric.links
    return max(
        beyond[link] + size * share / links[link].bandwidth
        for number in (*tree.up, *tree.down)
        for link, share in zip(net.moves[number].links, net.moves[number].shares, strict=True)
    )


def _shared_out(base: int, counts: list[tuple[Tree, int]]) -> list[Chunk]:
    """Return chunks with consecutive numbers for trees: those of a tree are evenly spread over the time."""
    found = []
    for tree, count in counts:
        for k in range(count):
            found.append(Chunk(base, tree, (k + 0.5) / count))
            base += 1
    return found
