from __future__ import annotations

import random
from fractions import Fraction

import pytest
import reference

from fabric_plan.planner.catalog import build
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Fabric, Link
from fabric_plan.planner.problem import PlacementProblem
from fabric_plan.planner.simulator import lowering
from fabric_plan.planner.simulator.engine import run
from fabric_plan.planner.simulator.placement import simulate
from fabric_plan.planner.simulator.program import Builder
from fabric_plan.planner.simulator.service import Service

MI = 2**20
NS = Fraction(1, 10**9)


def ns(value: str) -> Fraction:
    return Fraction(value) * NS


def wires(count: int, bandwidth: int = 1, latency: Fraction = Fraction(0)) -> list[Link]:
    """Return ``count`` links in a row: link k from node k to node k + 1."""
    return [Link(k, k + 1, bandwidth, latency) for k in range(count)]


def lowered(problem: PlacementProblem) -> Fraction:
    """Return the seconds of all demands at once, every worker on the seat of its number."""
    seats = range(problem.strategy.workers)
    staged = [lowering.stages(problem, demand, seats, {}) for demand in problem.demands]
    return run(lowering.program_for(problem.demands, staged), problem.fabric.links).seconds


def switched(fabric: Fabric, bandwidth: int, latency: Fraction) -> Fabric:
    links = [Link(link.source, link.target, bandwidth, latency) for link in fabric.links]
    return Fabric("custom", fabric.nodes, links, fabric.routing, shape=fabric.shape)


# Closed forms, by the lowering of placements (alpha 500 ns, B in bytes/ns, n bytes)


def test_ring_all_reduce() -> None:
    """64 ranks, 64 MiB, B = 50: 2 (p - 1) (a + n / pB)."""
    problem = PlacementProblem.of("ring:64", "DP64", volumes={"dp": "64MiB"})
    assert lowered(problem) == 126 * (500 + Fraction(64 * MI, 64 * 50)) * NS == ns("2705411.52")


def test_ring_all_reduce_on_links_of_ones_own() -> None:
    problem = PlacementProblem.of(switched(build("ring:8"), 7 * 10**9, Fraction(3, 10**7)), "MP8", volumes={"mp": 1000})
    assert lowered(problem) == 14 * (300 + Fraction(1000, 8 * 7)) * NS


def test_collectives_one_after_another() -> None:
    one = PlacementProblem.of("ring:6", "DP6", volumes={"dp": "1MB"})
    five = PlacementProblem.of("ring:6", "DP6", volumes={"dp": "1MB*5"})
    assert lowered(five) == 5 * lowered(one)


def test_merged_collectives_keep_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merged to fit, they lose latencies but no byte."""
    problem = PlacementProblem.of("ring:6", "DP6", volumes={"dp": "1MB*12"})
    apart = simulate(problem, range(6), {})
    monkeypatch.setattr(lowering, "MAX_HOPS", 10 * 6 * 5)
    merged = simulate(problem, range(6), {})
    assert merged.together.max_load == apart.together.max_load
    assert apart.together.seconds == 12 * 10 * (Fraction(10**6, 6 * 50) + 500) * NS
    assert merged.together.seconds == 4 * 10 * (Fraction(3 * 10**6, 6 * 50) + 500) * NS


def test_reduce_scatter_and_all_gather_are_half_of_it() -> None:
    problem = PlacementProblem.of("ring:5", "CP5", volumes={"cp": "1MB"})
    assert problem.demands[0].pattern == "all-gather"
    assert lowered(problem) == 4 * (500 + Fraction(10**6, 5 * 50)) * NS


def test_direct_all_reduce_on_a_full_mesh() -> None:
    """8 ranks, 64 MiB, B = 64: 2 (a + n / pB), a reduce-scatter and an all-gather, each a direct exchange."""
    fabric = switched(build("full:8"), 64 * 10**9, 500 * NS)
    problem = PlacementProblem.of(fabric, "EP8", volumes={"ep": "64MiB*2"})
    assert lowered(problem) == ns("263144")


def test_direct_reduce_scatter_and_all_gather_through_planes() -> None:
    """72 ranks, 18 planes, 64.8 MB, B = 50: 2 (pc + 2a), c = n / pKB; the planes are alike, so one of them will do."""
    problem = PlacementProblem.of("hub:72", "EP72", volumes={"ep": "3.6MB*2"})
    assert lowered(problem) == ns("146000")


def test_all_to_all_through_planes() -> None:
    """72 ranks, 50 kB per message and plane, B = 50: pc + 2a, store and forward."""
    problem = PlacementProblem.of("hub:72", "EP72", volumes={"ep": "3.6MB"})
    assert lowered(problem) == ns("73000")


@pytest.mark.slow
def test_all_to_all_striped_over_eighteen_planes() -> None:
    problem = PlacementProblem.of("nvl72", "EP72", volumes={"ep": "64.8MB"})
    assert lowered(problem) == ns("73000")


def test_a_pipeline_sends_every_border_at_once() -> None:
    problem = PlacementProblem.of("mesh:1x4", "PP4", volumes={"pp": "75MB*3"}, direction="both")
    each = Fraction(75 * 10**6, 750 * 10**9) + 20 * NS
    assert lowered(problem) == 3 * each


def test_a_multicast_crosses_a_shared_link_once() -> None:
    """From seat 0 to seats 1 and 2 of a row: the tree is the row."""
    problem = PlacementProblem.of("mesh:1x4", "MP2-PP2", pp="multicast", volumes={"mp": "1B", "pp": "750GB"})
    (demand,) = [one for one in problem.demands if one.dimension == "pp"]
    staged = [lowering.stages(problem, demand, (0, 3, 1, 2), {})]
    program = lowering.program_for([demand], staged)
    assert sorted(program.hop_link) == sorted(
        link for link, ends in enumerate(problem.fabric.links) if (ends.source, ends.target) in ((0, 1), (1, 2))
    )
    assert run(program, problem.fabric.links).seconds == 2 + 2 * 20 * NS


# Closed forms, by programs made by hand


class Collective:
    """Sends between ranks, each step's after what its sender received in the step before."""

    def __init__(self, links: list[Link], scale: int = 1) -> None:
        self.links = links
        self.number = {(link.source, link.target): k for k, link in enumerate(links)}
        self.program = Builder(scale)
        self.got: dict[int, list[int]] = {}

    def step(self, sends: list[tuple[int, int]], size: Fraction) -> None:
        arrived: dict[int, list[int]] = {}
        whole = size * self.program.scale
        assert whole.denominator == 1
        for a, b in sends:
            sent = self.program.add([(self.number[a, b], -1)], int(whole), self.got.get(a, []))
            arrived.setdefault(b, []).append(sent)
        self.got = {rank: arrived.get(rank, before) for rank, before in {**self.got, **arrived}.items()}

    @property
    def seconds(self) -> Fraction:
        return run(self.program.program(), self.links).seconds


def all_pairs(count: int, bandwidth: int) -> list[Link]:
    return [Link(a, b, bandwidth, 500 * NS) for a in range(count) for b in range(count) if a != b]


def test_two_counter_rotating_rings() -> None:
    links = [Link(a, b % 64, 50 * 10**9, 500 * NS) for a in range(64) for b in (a + 1, a + 63)]
    both = Collective(links)
    for way in (1, -1):
        both.got = {}
        for _ in range(126):
            both.step([(rank, (rank + way) % 64) for rank in range(64)], Fraction(64 * MI, 128))
    assert both.seconds == ns("1384205.76")


def test_recursive_doubling() -> None:
    made = Collective(all_pairs(64, 50 * 10**9))
    for bit in range(6):
        made.step([(rank, rank ^ 1 << bit) for rank in range(64)], Fraction(MI))
    assert made.seconds == ns("128829.12")


def test_halving_doubling() -> None:
    made = Collective(all_pairs(64, 50 * 10**9))
    for bit in (*range(6), *reversed(range(6))):
        made.step([(rank, rank ^ 1 << bit) for rank in range(64)], Fraction(64 * MI, 2 << bit))
    assert made.seconds == ns("2648411.52")


def test_binomial_reduce_and_broadcast() -> None:
    made = Collective(all_pairs(64, 50 * 10**9))
    for bit in range(6):
        made.step([(rank, rank - (1 << bit)) for rank in range(64) if rank % (2 << bit) == 1 << bit], Fraction(MI))
    for bit in reversed(range(6)):
        made.step([(rank - (1 << bit), rank) for rank in range(64) if rank % (2 << bit) == 1 << bit], Fraction(MI))
    assert made.seconds == ns("257658.24")


def test_hierarchical_all_reduce() -> None:
    """Rings of 8 inside a box (500 ns, 450), then of the 8 boxes (5000 ns, 50), then inside again."""
    links = [Link(8 * box + g, 8 * box + (g + 1) % 8, 450 * 10**9, 500 * NS) for box in range(8) for g in range(8)]
    links += [Link(8 * box + g, 8 * ((box + 1) % 8) + g, 50 * 10**9, 5000 * NS) for box in range(8) for g in range(8)]
    inside, between = [[(link.source, link.target) for link in links[half]] for half in (slice(64), slice(64, 128))]
    made = Collective(links)
    for sends, size, steps in ((inside, 8 * MI, 7), (between, MI, 14), (inside, 8 * MI, 7)):
        for _ in range(steps):
            made.step(sends, Fraction(size))
    assert made.seconds == 14 * (500 + Fraction(8 * MI, 450)) * NS + 14 * (5000 + Fraction(MI, 50)) * NS
    assert float(made.seconds / NS) == pytest.approx(631_580.20, abs=0.005)


# The model of a link


def test_store_and_forward_chain() -> None:
    program = Builder()
    program.add([(k, k - 1) for k in range(5)], 12)
    found = run(program.program(), wires(5, 3, Fraction(1, 2)))
    assert found.seconds == 5 * (4 + Fraction(1, 2))
    assert [Fraction(busy, found.ticks_per_second) for busy in found.busy] == [4] * 5


def test_packets_of_a_message_follow_one_another() -> None:
    """m packets over k links: (k + m - 1) c."""
    program = Builder()
    for _ in range(7):
        program.add([(k, k - 1) for k in range(4)], 1)
    assert run(program.program(), wires(4)).finish.tolist() == [4 + k for k in range(7)]


def test_first_come_first_served() -> None:
    """Transfer 0 reaches the shared link later than transfer 1, and waits for it."""
    program = Builder()
    program.add([(0, -1), (1, 0)], 2)
    program.add([(1, -1)], 5)
    assert run(program.program(), wires(2)).finish.tolist() == [7, 5]


def test_who_comes_at_once_is_served_by_number() -> None:
    program = Builder()
    for _ in range(3):
        program.add([(0, -1)], 4)
    assert run(program.program(), wires(1)).finish.tolist() == [4, 8, 12]


def test_who_becomes_ready_at_once_is_served_by_number() -> None:
    """At 1 s transfer 0 is set free by transfer 2 while transfer 1 arrives from another link: 0 goes first."""
    program = Builder()
    program.add([(2, -1)], 1, [2])
    program.add([(1, -1), (2, 0)], 1)
    program.add([(0, -1)], 1)
    expected = reference.timeline(program, wires(3))
    assert expected == [2, 3, 1]
    assert run(program.program(), wires(3)).finish.tolist() == expected


def test_a_tree_ends_with_its_last_leaf() -> None:
    program = Builder()
    program.add([(0, -1), (1, 0), (2, 0), (3, 2)], 1)
    links = [
        Link(0, 1, 1, Fraction(0)),
        Link(1, 2, 1, Fraction(9)),
        Link(1, 3, 1, Fraction(0)),
        Link(3, 4, 1, Fraction(0)),
    ]
    assert run(program.program(), links).seconds == 11


def test_stripes_run_side_by_side() -> None:
    program = Builder()
    program.add([(0, -1), (1, 0), (2, -1), (3, 2)], 6)
    links = [
        Link(0, 1, 1, Fraction(0)),
        Link(1, 2, 2, Fraction(0)),
        Link(0, 3, 3, Fraction(0)),
        Link(3, 2, 6, Fraction(0)),
    ]
    found = run(program.program(), links)
    assert found.seconds == 9
    assert [Fraction(busy, found.ticks_per_second) for busy in found.busy] == [6, 3, 2, 1]


def test_a_transfer_waits_for_all_it_needs() -> None:
    program = Builder()
    program.add([(0, -1)], 3)
    program.add([(1, -1)], 5)
    program.add([(2, -1)], 1, [0, 1])
    assert run(program.program(), wires(3)).finish.tolist() == [3, 5, 6]


def test_a_transfer_without_hops_takes_no_time() -> None:
    program = Builder()
    program.add([], 7)
    program.add([(0, -1)], 2, [0])
    program.add([], 7, [1])
    program.add([(0, -1)], 1, [2])
    assert run(program.program(), wires(1)).finish.tolist() == [0, 2, 2, 3]


def test_an_empty_program_takes_no_time() -> None:
    assert run(Builder().program(), []).seconds == 0


@pytest.mark.parametrize("needs", [{0: [0]}, {0: [1], 1: [0]}, {0: [2], 1: [0], 2: [1]}])
def test_a_cycle_of_dependencies_is_refused(needs: dict[int, list[int]]) -> None:
    program = Builder()
    for transfer in range(4):
        program.add([(0, -1)], 1, needs.get(transfer, []))
    with pytest.raises(InvalidInput, match="cycle: transfers 0"):
        run(program.program(), wires(1))


@pytest.mark.parametrize(("last", "exact"), [(Link(2, 3, 5, Fraction(1, 3)), True), (Link(2, 3, 10**9 + 7, NS), False)])
def test_times_are_exact_where_64_bits_hold_them(last: Link, exact: bool) -> None:
    """Sevenths, thirds and elevenths add up to what fractions say; ticks that would not fit are rounded, and say so."""
    links = [Link(0, 1, 7, Fraction(1, 11)), Link(1, 2, 3, Fraction(1, 13)), last]
    program = Builder(scale=5)
    program.add([(0, -1), (1, 0), (2, 1)], 3)
    sum_of_all = sum(Fraction(3, 5) / link.bandwidth + link.latency for link in links)
    found = run(program.program(), links)
    assert (found.error == 0) == exact
    assert found.error < 1e-9
    assert abs(found.seconds - sum_of_all) <= Fraction(found.error) * sum_of_all


def random_program(source: random.Random, links: int) -> Builder:
    """Return chains and trees with dependencies; sizes so odd that no two moments coincide."""
    program = Builder(scale=source.choice([1, 3]))
    for transfer in range(source.randint(1, 12)):
        hops = []
        for hop in range(source.randint(0, 4)):
            hops.append((source.randrange(links), source.randint(-1, hop - 1)))
        needs = source.sample(range(transfer), source.randint(0, min(2, transfer)))
        program.add(hops, source.randint(10**6, 10**9), needs)
    return program


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_programs_take_what_the_definition_says(first: int) -> None:
    for seed in range(first, first + 50):
        source = random.Random(seed)
        links = [Link(0, 1, source.randint(1, 99), Fraction(source.randint(0, 9), 7)) for _ in range(3)]
        program = random_program(source, 3)
        found = run(program.program(), links)
        expected = reference.timeline(program, links)
        assert [Fraction(int(ticks), found.ticks_per_second) for ticks in found.finish] == expected, seed
        for link in range(3):
            carried = sum(size for k, size in zip(program.hop_link, program.hop_size, strict=True) if k == link)
            assert Fraction(int(found.busy[link]), found.ticks_per_second) == Fraction(
                carried, program.scale * links[link].bandwidth
            )


def test_the_same_program_twice_gives_the_same_times() -> None:
    program = random_program(random.Random(9), 3)
    links = wires(3, 5, Fraction(1, 3))
    runs = [run(program.program(), links) for _ in range(2)]
    assert runs[0].finish.tolist() == runs[1].finish.tolist()
    assert runs[0].start.tolist() == runs[1].start.tolist()


def test_the_discipline_is_named() -> None:
    report = simulate(PlacementProblem.of("mesh:2x2", "MP4"), range(4), {})
    assert report.discipline == str(Service()) == "fifo, store-and-forward"
