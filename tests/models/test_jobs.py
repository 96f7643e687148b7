"""Several collectives at once: the bound against exhaustive search, and every plan against the judge."""

from __future__ import annotations

import heapq
import itertools
import random
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from fabric_plan.models.schedule.jobs.ascent import least_tree
from fabric_plan.models.schedule.jobs.bound import least_lengths
from fabric_plan.models.schedule.jobs.commodity import commodities
from fabric_plan.models.schedule.jobs.exchange import least_exchange
from fabric_plan.models.schedule.jobs.net import FAR
from fabric_plan.planner import interface
from fabric_plan.planner.catalog import build
from fabric_plan.planner.fabric import Fabric, Link, Node
from fabric_plan.planner.files import dump, parse_plan, plan_document
from fabric_plan.planner.problem import Job, ScheduleProblem

PATTERNS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "broadcast",
    "reduce",
    "all-to-all",
    "gather",
    "scatter",
    "point-to-point",
)


def job(pattern, group, size=10**8, **rest):
    return Job(pattern=pattern, group=tuple(group), size=Fraction(size), **rest)


def plan_of(fabric, *jobs, planner="pack", **rest):
    fabric = build(fabric) if isinstance(fabric, str) else fabric
    problem = ScheduleProblem(fabric=fabric, jobs=jobs, **rest)
    return interface.plan(problem, planner=planner, budget=interface.Budget(seconds=20, workers=1, deterministic=True))


def line(count, *, bandwidth=10**9, latency=Fraction(0), ring=False):
    pairs = [(k, k + 1) for k in range(count - 1)] + ([(count - 1, 0)] if ring else [])
    ends = [end for a, b in pairs for end in ((a, b), (b, a))]
    return Fabric(
        "line",
        [Node("npu", f"npu{k}") for k in range(count)],
        [Link(a, b, bandwidth, latency) for a, b in ends],
    )


def least_gossip(moves, ends):
    """Return the least length by which everyone's part reaches everyone, whoever passes on all that it has."""
    count = len(moves)
    start = tuple(1 << ends.index(node) if node in ends else 0 for node in range(count))
    whole = (1 << len(ends)) - 1
    best, queue = {start: 0}, [(0, start)]
    while queue:
        far, state = heapq.heappop(queue)
        if far > best[state]:
            continue
        if all(state[end] == whole for end in ends):
            return far
        for a, b in itertools.permutations(range(count), 2):
            if moves[a, b] < FAR and state[a] & ~state[b]:
                after = (*state[:b], state[b] | state[a], *state[b + 1 :])
                if far + moves[a, b] < best.get(after, FAR):
                    best[after] = far + int(moves[a, b])
                    heapq.heappush(queue, (best[after], after))
    raise AssertionError("not joined")


def random_moves(rng, count, *, symmetric):
    moves = np.full((count, count), FAR, dtype=np.int64)
    np.fill_diagonal(moves, 0)
    for a, b in itertools.combinations(range(count), 2):
        if b == a + 1 or rng.random() < 0.6:
            moves[a, b] = rng.randint(0, 9) * 1000
            moves[b, a] = moves[a, b] if symmetric else rng.randint(0, 9) * 1000
    return moves


@pytest.mark.parametrize("seed", range(30))
def test_an_exchange_takes_no_less_than_its_bound(seed):
    rng = random.Random(seed)
    moves = random_moves(rng, 5, symmetric=seed % 2 == 0)
    ends = rng.sample(range(5), 3)
    truth = least_gossip(moves, ends)
    bound = least_exchange(moves, ends, float("inf"))
    assert bound <= truth
    if seed % 2 == 0:
        assert bound >= truth * Fraction(3, 4)


def test_an_exchange_of_all_on_a_ring_takes_two_less_than_twice():
    for count in (3, 4):
        moves = np.full((count, count), FAR, dtype=np.int64)
        for k in range(count):
            moves[k, (k + 1) % count] = moves[(k + 1) % count, k] = 1000
            moves[k, k] = 0
        assert least_exchange(moves, list(range(count)), float("inf")) == 2 * (count - 1) * 1000
        assert least_gossip(moves, list(range(count))) == 2 * (count - 1) * 1000


@pytest.mark.parametrize("seed", range(10))
def test_the_ascent_is_no_more_than_the_shortest_tree(seed):
    from fabric_plan.models.schedule.jobs.steiner import cheapest

    rng = random.Random(seed)
    moves = random_moves(rng, 7, symmetric=False)
    way = moves.copy()
    for k in range(7):
        way = np.minimum(way, way[:, k, None] + way[None, k, :])
    ends = rng.sample(range(1, 7), 3)
    exact = int(cheapest(way, ends)[7][0])
    assert exact / 2 <= least_tree(moves, 0, ends) <= exact


def fewest_steps(fabric, jobs):
    """Return the fewest steps in which two one-chunk jobs can be done when each link carries one message a step."""
    links = [(link.source, link.target) for link in fabric.links]

    def first(one):
        held = [0] * len(fabric.nodes)
        for rank, seat in enumerate(one.group):
            if one.pattern == "all-reduce" or rank == 0:
                held[seat] = 1 << rank
        return tuple(held)

    def done(one, held):
        whole = (1 << len(one.group)) - 1 if one.pattern == "all-reduce" else 1
        return all(held[seat] == whole for seat in one.group)

    states = {tuple(first(one) for one in jobs)}
    for steps in itertools.count():
        if any(all(done(one, held) for one, held in zip(jobs, state, strict=True)) for state in states):
            return steps
        fresh = set()
        for state in states:
            choices = []
            for a, b in links:
                useful = [k for k, held in enumerate(state) if held[a] & ~held[b]]
                choices.append(useful or [-1])
            for pick in itertools.product(*choices):
                after = [list(held) for held in state]
                for (a, b), k in zip(links, pick, strict=True):
                    if k >= 0:
                        after[k][b] |= state[k][a]
                fresh.add(tuple(map(tuple, after)))
        states = fresh
    raise AssertionError


@pytest.mark.parametrize(
    ("fabric", "jobs"),
    [
        (line(3), (job("all-reduce", (0, 2)), job("all-reduce", (0, 1)))),
        (line(3), (job("broadcast", (0, 1, 2)), job("broadcast", (1, 2)))),
        (line(3, ring=True), (job("all-reduce", (0, 1, 2)), job("broadcast", (0, 1)))),
        (line(3, ring=True), (job("broadcast", (0, 1, 2)), job("broadcast", (0, 2)))),
        (line(4, ring=True), (job("all-reduce", (0, 2)), job("broadcast", (1, 2, 3)))),
        (line(4), (job("all-reduce", (0, 1, 3)), job("broadcast", (3, 0)))),
    ],
)
def test_no_schedule_of_tiny_jobs_beats_the_bound(fabric, jobs):
    step = Fraction(10**8, 10**9)
    found = plan_of(fabric, *jobs, chunks=1)
    key = found.certificate.keys[0]
    assert key.bound <= fewest_steps(fabric, jobs) * step
    assert plan_of(fabric, *jobs).certificate.objective <= fewest_steps(fabric, jobs) * step * Fraction(102, 100)


@pytest.mark.parametrize("fabric", ["mesh:2x3", "ring:5", "hub:4", "dgx1"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_is_packed_beside_another(fabric, pattern):
    group = (1, 3) if pattern == "point-to-point" else (1, 0, 3)
    found = plan_of(
        fabric, job(pattern, group), job("all-reduce", (0, 2, 3), 3 * 10**7, release=Fraction(1, 10**5), priority=1)
    )
    key = found.certificate.keys[0]
    assert 0 < key.bound <= key.value
    assert {one.name for one in found.baselines} >= {"together", "one after another"}
    assert all(key.value <= one.value for one in found.baselines)
    assert found.report.jobs[0] <= key.value and max(found.report.jobs) == key.value
    assert found.report.jobs[1] > Fraction(1, 10**5)


def test_a_packed_plan_comes_back_from_its_file_and_a_changed_one_is_refused():
    found = plan_of("mesh:2x3", job("all-reduce", (0, 1, 3), name="a"), job("all-gather", (0, 2, 5)), chunks=3)
    again, faults = parse_plan(dump(plan_document(found)), "here")
    assert not faults and not interface.validate(again)[1]
    assert again.job_chunks == found.job_chunks and again.problem.jobs[0].label == "a"
    rows = found.transfers.to_lists()
    total, refused = len(found.transfers), 0
    for row in range(0, total, max(1, total // 12)):
        left = [k for k in range(total) if k != row]
        place = {k: n for n, k in enumerate(left)}
        needs = [
            [place[n] for n in rows["need"][rows["need_start"][k] : rows["need_start"][k + 1]] if n != row]
            for k in left
        ]
        column = {
            name: [getattr(found.transfers, name)[k] for k in left]
            for name in ("source", "target", "first", "count", "reduce", "via")
        }
        starts = np.cumsum([0, *map(len, needs)])
        flat = [n for one in needs for n in one]
        mutant = msgspec.structs.replace(
            found, report=None, transfers=type(found.transfers)(**column, need_start=starts, need=flat)
        )
        refused += bool(interface.validate(mutant)[1])
    assert refused == len(range(0, total, max(1, total // 12)))


def test_a_transfer_of_two_jobs_chunks_and_a_wrong_count_are_refused():
    found = plan_of("ring:4", job("broadcast", (0, 1)), job("broadcast", (0, 1)), chunks=1)
    first = msgspec.structs.replace(found, report=None, transfers=found.transfers)
    wide = first.transfers
    wide = type(wide)(wide.source, wide.target, 0, 2, wide.reduce, wide.via, wide.need_start, wide.need)
    faults = interface.validate(msgspec.structs.replace(first, transfers=wide))[1]
    assert "more than one job" in faults[0]
    with pytest.raises(Exception, match="job_chunks"):
        msgspec.structs.replace(found, job_chunks=(1,))
    with pytest.raises(Exception, match="job_chunks"):
        msgspec.structs.replace(found, job_chunks=(1, 2))


def jobs_of(rng, seats):
    found = []
    for _ in range(2):
        pattern = rng.choice(("all-reduce", "all-gather", "broadcast"))
        found.append(job(pattern, rng.sample(range(seats), 3), rng.randint(10**7, 10**8)))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_bounds_do_not_depend_on_names_or_order_and_fall_with_bandwidth(seed):
    rng = random.Random(seed)
    fabric = line(5, latency=Fraction(1, 10**6), ring=True)
    jobs = jobs_of(rng, 5)
    bound = plan_of(fabric, *jobs).certificate.bound
    assert float(plan_of(fabric, *reversed(jobs)).certificate.bound) == pytest.approx(float(bound), rel=3e-2)
    turned = [msgspec.structs.replace(one, group=tuple((seat + 2) % 5 for seat in one.group)) for one in jobs]
    assert float(plan_of(fabric, *turned).certificate.bound) == pytest.approx(float(bound), rel=3e-2)
    wide = fabric.changed(links=[msgspec_link(link, 2) if k in (0, 3) else link for k, link in enumerate(fabric.links)])
    assert float(plan_of(wide, *jobs).certificate.bound) <= float(bound) * 1.03


def msgspec_link(link, factor):
    return Link(link.source, link.target, link.bandwidth * factor, link.latency)


@pytest.mark.parametrize("pattern", ["all-gather", "reduce-scatter", "all-reduce"])
def test_one_job_packed_is_as_good_as_its_trees(pattern):
    one = job(pattern, range(6), 10**9)
    packed = plan_of("mesh:2x3", one).certificate
    trees = plan_of("mesh:2x3", one, planner="trees").certificate
    assert packed.objective <= trees.objective * Fraction(103, 100)
    assert not plan_of("mesh:2x3", one).job_chunks


def test_many_jobs_come_near_their_bound():
    rows = [job("all-reduce", (5 * k, 5 * k + 1, 5 * k + 2), 10**9) for k in range(4)]
    columns = [job("all-reduce", (k, 5 + k, 10 + k, 15 + k), 3 * 10**8) for k in range(5)]
    certificate = plan_of("mesh:4x5", *rows, *columns).certificate
    assert certificate.gap < Fraction(1, 10)


def test_lengths_are_exact_and_wrong_ones_give_weaker_bounds():
    fabric = build("ring:4")
    wanted = commodities((job("all-reduce", (0, 1, 2, 3)), job("point-to-point", (0, 2))))
    assert least_lengths(fabric, wanted, np.ones(8, dtype=np.int64) * 1000) == [6000, 2000]
    assert least_lengths(fabric, wanted, np.zeros(8, dtype=np.int64)) == [0, 0]
