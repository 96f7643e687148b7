"""Every engine against the slow reference, on random programs full of ties, trees, stripes and waits."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest
import reference_events

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Link
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.simulator import engine
from fabric_plan.planner.simulator.engine import Timeline, run
from fabric_plan.planner.simulator.program import Builder, Program
from fabric_plan.planner.simulator.service import Service

CUT = "cut-through"


def random_links(source: random.Random, *, busy: bool) -> list[Link]:
    count = source.choice([1, 2, 3] if busy else [4, 8])
    widths = source.choice([[4], [1, 2, 4], [3, 5, 7]])
    waits = source.choice([[0], [1], [0, 1, 3], [2, Fraction(1, 2)]])
    return [Link(k, k + 1, source.choice(widths), Fraction(source.choice(waits))) for k in range(count)]


def random_program(
    source: random.Random,
    links: int,
    *,
    priorities: bool = False,
    ordered: bool = True,
    distinct: bool = False,
    counts: tuple[int, int] = (1, 14),
) -> Program:
    """Return chains, trees and stripes; sizes of few values, so that moments coincide, or all distinct."""
    builder = Builder(scale=source.choice([1, 2]))
    count = source.randint(*counts)
    for transfer in range(count):
        kind = source.random()
        hops: list[tuple[int, int]] = []
        if kind < 0.1:
            pass
        elif kind < 0.6:
            hops = [(source.randrange(links), k - 1) for k in range(source.randint(1, 3))]
        elif kind < 0.8:
            hops = [(source.randrange(links), source.randint(-1, k - 1)) for k in range(source.randint(1, 5))]
        else:
            hops = [(source.randrange(links), -1 if k % 2 == 0 else k - 1) for k in range(4)]
        needs = source.sample(range(transfer), source.randint(0, min(2, transfer)))
        size = source.randint(1, 10**6) if distinct else source.choice([4, 4, 8, 12])
        builder.add(hops, size, needs, priority=source.randint(0, 2) if priorities else 0)
    program = builder.program()
    if source.random() < 0.4:
        program.clock = 2
        program.release = np.array([source.choice([0, 0, 1, 5]) for _ in range(count)])
    if source.random() < 0.4:
        program.clock = 2
        program.after = np.array([source.choice([0, 0, 1, 4]) for _ in range(count)])
    return program if ordered else shuffled(program, source)


def shuffled(program: Program, source: random.Random) -> Program:
    """Return the same transfers in another order, so that some need later ones."""
    order = list(range(len(program)))
    source.shuffle(order)
    return renumbered(program, order)


def renumbered(program: Program, order: list[int]) -> Program:
    """Return the same transfers with ``order[k]`` as number k; the hops of a transfer must be of one size."""
    place = {old: new for new, old in enumerate(order)}
    builder = Builder(scale=program.scale)
    for old in order:
        first, last = program.hop_start[old], program.hop_start[old + 1]
        hops = [
            (int(program.hop_link[h]), int(program.hop_parent[h] - first) if program.hop_parent[h] >= 0 else -1)
            for h in range(first, last)
        ]
        needs = [place[int(n)] for n in program.need[program.need_start[old] : program.need_start[old + 1]]]
        rank = 0 if program.priority is None else int(program.priority[old])
        builder.add(hops, int(program.hop_size[first]) if hops else 1, needs, priority=rank)
    again = builder.program()
    again.clock = program.clock
    again.release = None if program.release is None else program.release[order]
    again.after = None if program.after is None else program.after[order]
    return again


def seconds(timeline: Timeline, times: np.ndarray | None = None) -> list[Fraction | None]:
    times = timeline.finish if times is None else times
    return [None if t < 0 else Fraction(int(t), timeline.ticks_per_second) for t in times]


def carried(program: Program, links: list[Link]) -> list[Fraction]:
    """Return for how long each link sends when every hop is sent whole."""
    total = [Fraction(0)] * len(links)
    for link, size in zip(program.hop_link, program.hop_size, strict=True):
        total[link] += Fraction(int(size), program.scale * links[link].bandwidth)
    return total


def agrees(
    program: Program, links: list[Link], service: Service, engines: tuple[str, ...], *, compile: bool = False
) -> None:
    expected = reference_events.simulate(program, links, service)
    for name in engines:
        try:
            found = run(program, links, service, engine=name, compile=compile)
        except InvalidInput as error:
            assert name == "sweep" and "order of numbers" in str(error)
            continue
        assert found.error == 0
        assert seconds(found) == expected.finish, name
        assert seconds(found, found.start) == expected.start, name
        assert seconds(found, found.arrival) == expected.arrival, name
        assert seconds(found, found.busy) == expected.busy, name
        if None not in expected.finish:
            assert expected.busy == carried(program, links), name


def near(found: list[Fraction | None], expected: list[Fraction | None], part: int = 10**9) -> bool:
    """Whether all times agree but for the rounding of doubles, and never with never."""
    return all(
        mine is theirs or (mine is not None and theirs is not None and abs(mine - theirs) <= theirs / part)
        for mine, theirs in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("seed", range(300))
def test_first_come_first_served(seed: int) -> None:
    source = random.Random(seed)
    links = random_links(source, busy=seed % 3 > 0)
    program = random_program(source, len(links), ordered=seed % 2 == 0, distinct=seed % 5 == 0)
    service = Service(switching=CUT if seed % 4 >= 2 else "store-forward")
    agrees(program, links, service, ("auto", "sweep", "events", "queued"))


@pytest.mark.parametrize("seed", range(60))
def test_first_come_first_served_compiled(seed: int) -> None:
    source = random.Random(1000 + seed)
    links = random_links(source, busy=seed % 3 > 0)
    program = random_program(source, len(links), ordered=seed % 2 == 0)
    service = Service(switching=CUT if seed % 4 >= 2 else "store-forward")
    agrees(program, links, service, ("auto", "sweep", "events", "queued"), compile=True)


@pytest.mark.parametrize("seed", range(60))
def test_sweep_takes_programs_numbered_in_the_order_of_service(seed: int) -> None:
    """Without relays, transfers numbered as they begin are served in that order, so sweep has no reason to decline."""
    source = random.Random(10_000 + seed)
    links = random_links(source, busy=seed % 3 > 0)
    builder = Builder()
    for transfer in range(source.randint(2, 20)):
        hops = [(source.randrange(len(links)), -1) for _ in range(source.randint(0, 3))]
        needs = source.sample(range(transfer), min(transfer, source.randint(0, 2)))
        builder.add(hops, source.choice([4, 8, 12]), needs)
    program = builder.program()
    program.clock = 2
    program.release = np.array([source.choice([0, 0, 1, 5]) for _ in range(len(program))])
    program.after = np.array([source.choice([0, 0, 1, 4]) for _ in range(len(program))])
    service = Service(switching=CUT if seed % 2 else "store-forward")
    begun = reference_events.simulate(program, links, service).begin
    # The sort is stable: transfers that begin at once keep their order, hence every tie its outcome.
    program = renumbered(program, sorted(range(len(program)), key=lambda one: begun[one] or 0))
    for compile in (False, True):
        assert run(program, links, service, engine="sweep", compile=compile).engine == "sweep"
        agrees(program, links, service, ("auto", "sweep", "events", "queued"), compile=compile)


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_long_queues(seed: int, compile: bool) -> None:
    """About a hundred hops on three links: queues and sets of events grow, shrink and grow again."""
    source = random.Random(11_000 + seed)
    links = [Link(k, k + 1, source.choice([1, 2, 4, 5]), Fraction(source.choice([0, 0, 1, 3]))) for k in range(3)]
    program = random_program(source, len(links), ordered=seed % 2 == 0, distinct=seed % 3 == 0, counts=(40, 55))
    ranked = random_program(source, len(links), priorities=True, ordered=seed % 2 == 1, counts=(40, 55))
    for switching in ("store-forward", CUT):
        agrees(program, links, Service(switching=switching), ("auto", "events", "queued"), compile=compile)
        fair = Service("fair", switching)
        expected = reference_events.finish_times(program, links, fair)
        assert near(seconds(run(program, links, fair, compile=compile)), expected)
    agrees(ranked, links, Service(outages=random_outages(source, 3)), ("auto",), compile=compile)


@pytest.mark.parametrize("seed", range(150))
def test_priorities_preempt(seed: int) -> None:
    source = random.Random(2000 + seed)
    links = random_links(source, busy=True)
    program = random_program(source, len(links), priorities=True)
    agrees(program, links, Service(), ("auto",), compile=seed % 10 == 0)


def random_outages(source: random.Random, links: int) -> dict[int, tuple[Fraction, Fraction | None]]:
    found: dict[int, tuple[Fraction, Fraction | None]] = {}
    for link in source.sample(range(links), source.randint(1, links)):
        begin = Fraction(source.randint(0, 12), 2)
        end = None if source.random() < 0.2 else begin + Fraction(source.randint(0, 9), 2)
        found[link] = (begin, end)
    return found


@pytest.mark.parametrize("seed", range(150))
def test_outages(seed: int) -> None:
    source = random.Random(3000 + seed)
    links = random_links(source, busy=seed % 2 == 0)
    program = random_program(source, len(links), priorities=seed % 3 == 0)
    cut = CUT if seed % 3 == 1 else "store-forward"
    service = Service(switching=cut, outages=random_outages(source, len(links)))
    agrees(program, links, service, ("auto",), compile=seed % 10 == 0)


@pytest.mark.parametrize("seed", range(150))
def test_buffers(seed: int) -> None:
    source = random.Random(4000 + seed)
    links = random_links(source, busy=seed % 3 == 0)
    program = random_program(source, len(links))
    rooms = {link: source.choice([12, 12, 16, 24]) for link in range(len(links)) if source.random() < 0.8}
    service = Service(switching=CUT if seed % 2 else "store-forward", buffers=rooms)
    agrees(program, links, service, ("auto",), compile=seed % 10 < 2)


@pytest.mark.parametrize("seed", range(200))
def test_everything_first_come_first_served_at_once(seed: int) -> None:
    """Buffers or priorities, with outages, in any order of numbers, with hops of different sizes in one transfer."""
    source = random.Random(7000 + seed)
    links = random_links(source, busy=source.random() < 0.7)
    ranked = source.random() < 0.4
    program = random_program(source, len(links), priorities=ranked, ordered=source.random() < 0.4)
    if source.random() < 0.5:
        program.hop_size = np.array([source.choice([4, 6, 12]) for _ in program.hop_size], dtype=np.int64)
    rooms = {} if ranked else {link: source.choice([12, 16, 24]) for link in range(len(links)) if source.random() < 0.7}
    down = random_outages(source, len(links)) if source.random() < 0.7 else {}
    switching = "store-forward" if ranked or source.random() < 0.5 else CUT
    service = Service(switching=switching, buffers=rooms, outages=down)
    agrees(program, links, service, ("auto", "queued"), compile=source.random() < 0.2)


@pytest.mark.parametrize("seed", range(200))
def test_fair_shares(seed: int) -> None:
    source = random.Random(5000 + seed)
    links = random_links(source, busy=seed % 3 > 0)
    program = random_program(source, len(links), priorities=seed % 4 == 0, distinct=seed % 5 == 0)
    outages = random_outages(source, len(links)) if seed % 7 == 0 else {}
    service = Service(discipline="fair", switching=CUT if seed % 2 else "store-forward", outages=outages)
    expected = reference_events.simulate(program, links, service)
    found = run(program, links, service, compile=seed % 10 < 2)
    assert near(seconds(found), expected.finish)
    assert near(seconds(found, found.start), expected.start)
    assert near(seconds(found, found.arrival), expected.arrival)
    # Of what a link that failed has sent, every change of rate may have rounded a tick away.
    part = 10**7 if None in expected.finish else 10**9
    assert near(seconds(found, found.busy), list(expected.busy), part)


@pytest.mark.parametrize("seed", range(150))
def test_fair_shares_by_priority_and_in_outages(seed: int) -> None:
    """Both switchings, any order of numbers; no two sizes are equal, so that hardly any moments coincide."""
    source = random.Random(8000 + seed)
    links = random_links(source, busy=source.random() < 0.7)
    ordered = source.random() < 0.5
    program = random_program(source, len(links), priorities=source.random() < 0.8, ordered=ordered, distinct=True)
    begin = Fraction(source.randint(0, 10**6), 3)
    down = {link: (begin, begin + source.randint(1, 10**6)) for link in range(len(links)) if source.random() < 0.4}
    service = Service("fair", source.choice(["store-forward", CUT]), outages=down)
    expected = reference_events.simulate(program, links, service)
    found = run(program, links, service, engine="fair", compile=source.random() < 0.2)
    assert near(seconds(found), expected.finish)
    assert near(seconds(found, found.arrival), expected.arrival)
    assert near(seconds(found, found.busy), list(carried(program, links)))


@pytest.mark.parametrize("what", ["outage", "outage for ever", "a more urgent message"])
def test_fair_messages_that_end_as_their_link_is_taken_away(what: str) -> None:
    """One to four equal messages share a link, and are through at the very moment in which they lose it."""
    wrong = []
    for count, bandwidth, release in itertools.product(range(1, 5), (1, 3, 5, 7, 8), range(6)):
        whole = Fraction(release, 3) + Fraction(4 * count, bandwidth)
        builder = Builder()
        for _ in range(count):
            builder.add([(0, -1)], 4, priority=1)
        expected: list[Fraction | None] = [whole] * count
        releases, down = [Fraction(release, 3)] * count, {}
        if what == "a more urgent message":
            builder.add([(0, -1)], 4)
            releases.append(whole)
            expected.append(whole + Fraction(4, bandwidth))
        else:
            down[0] = (whole, None if what == "outage for ever" else whole + 10)
        program = builder.program()
        program.clock = 3 * bandwidth
        program.release = np.array([int(one * program.clock) for one in releases])
        links, service = [Link(0, 1, bandwidth, Fraction(0))], Service("fair", outages=down)
        assert reference_events.finish_times(program, links, service) == expected
        if not near(seconds(run(program, links, service)), expected):
            wrong.append((count, bandwidth, release))
    assert not wrong


def test_fair_shares_by_priority_and_in_outages_when_moments_coincide() -> None:
    wrong = []
    for seed in range(150):
        source = random.Random(9000 + seed)
        links = random_links(source, busy=source.random() < 0.7)
        program = random_program(source, len(links), priorities=True, ordered=source.random() < 0.5)
        down = random_outages(source, len(links)) if source.random() < 0.7 else {}
        service = Service("fair", source.choice(["store-forward", CUT]), outages=down)
        if not near(seconds(run(program, links, service)), reference_events.finish_times(program, links, service)):
            wrong.append(seed)
    assert not wrong


@pytest.mark.parametrize("seed", range(40))
def test_fair_is_first_come_first_served_without_contention(seed: int) -> None:
    """Each link carries one hop, or one after the other: nobody shares anything."""
    source = random.Random(6000 + seed)
    builder = Builder()
    links = [Link(0, 1, source.choice([1, 2, 5]), Fraction(source.randint(0, 3))) for _ in range(24)]
    shared = seed % 2 == 1
    for transfer in range(8):
        count = source.randint(1, 3)
        crossed = source.sample(range(4), count) if shared else range(3 * transfer, 3 * transfer + count)
        needs = [transfer - 1] * (transfer > 0) if shared else source.sample(range(transfer), min(2, transfer))
        builder.add([(link, k - 1) for k, link in enumerate(crossed)], source.randint(1, 9), needs)
    program = builder.program()
    for switching in ("store-forward", CUT):
        fair = run(program, links, Service("fair", switching))
        alone = run(program, links, Service("fifo", switching))
        assert None not in seconds(alone)
        assert near(seconds(fair), seconds(alone))


def test_contention_differs_between_disciplines() -> None:
    """Two equal messages on a link: one after the other, or both at half the speed."""
    builder = Builder()
    builder.add([(0, -1)], 4)
    builder.add([(0, -1)], 4)
    links = [Link(0, 1, 1, Fraction(0))]
    assert seconds(run(builder.program(), links)) == [4, 8]
    assert [float(one or 0) for one in seconds(run(builder.program(), links, Service("fair")))] == [8, 8]


def test_a_ring_of_full_buffers_is_a_deadlock() -> None:
    """Three messages around a ring of three links, each with room for one: all hold what the next one waits for."""
    builder = Builder()
    for k in range(3):
        builder.add([(k, -1), ((k + 1) % 3, 0), ((k + 2) % 3, 1)], 4)
    links = [Link(k, (k + 1) % 3, 1, Fraction(1)) for k in range(3)]
    stuck = run(builder.program(), links, Service(buffers=dict.fromkeys(range(3), 4)))
    assert stuck.stuck.tolist() == [0, 1, 2]
    assert len(run(builder.program(), links, Service(buffers=dict.fromkeys(range(3), 8))).stuck) == 0


@pytest.mark.parametrize("discipline", ["fifo", "fair"])
@pytest.mark.parametrize(("begin", "count", "sends"), [(0, 1, 0), (1, 1, 1), (1, 2, 1), (5, 2, 5), (8, 2, 8)])
def test_a_link_that_fails_for_ever_is_busy_until_then(discipline: str, begin: int, count: int, sends: int) -> None:
    builder = Builder()
    for _ in range(count):
        builder.add([(0, -1)], 4)
    links = [Link(0, 1, 1, Fraction(0))]
    service = Service(discipline, outages={0: (Fraction(begin), None)})
    assert reference_events.simulate(builder.program(), links, service).busy == [sends]
    found = run(builder.program(), links, service)
    assert near(seconds(found, found.busy), [Fraction(sends)])


def bad(**columns: list[int]) -> Program:
    builder = Builder()
    for _ in range(2):
        builder.add([(0, -1), (1, 0)], 4)
    program = builder.program()
    for name, values in columns.items():
        setattr(program, name, np.array(values))
    return program


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"hop_size": [4, 4, 4, 0]}, "transfer 1 carries 0 bytes"),
        ({"hop_size": [4, -4, 4, 4]}, "transfer 0 carries -4 bytes"),
        ({"hop_link": [0, 1, 2, 1]}, "transfer 1 crosses link 2, which does not exist"),
        ({"hop_parent": [-1, 1, -1, 2]}, "transfer 0: a hop's parent must be an earlier hop"),
        ({"hop_parent": [-1, 0, -1, 0]}, "transfer 1: a hop's parent must be an earlier hop"),
        ({"need_start": [0, 0, 1], "need": [7]}, "transfer 1 needs transfer 7, which does not exist"),
        ({"need_start": [0, 1, 2], "need": [1, 0]}, "cycle: transfers 0, 1 wait for one another"),
        ({"priority": [0, -1]}, "priority must give one number"),
    ],
)
def test_bad_programs(columns: dict[str, list[int]], message: str) -> None:
    links = [Link(0, 1, 1, Fraction(0))] * 2
    with pytest.raises(InvalidInput, match=message):
        run(bad(**columns), links)


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("name", ["auto", "sweep", "events", "queued", "fair"])
def test_every_engine_names_the_transfers_of_a_cycle(name: str, compile: bool) -> None:
    """Transfer 0 is free and 4 waits for the cycle: neither is part of it."""
    builder = Builder()
    for needs in ([], [3], [1, 0], [2], [3]):
        builder.add([(0, -1), (1, 0)], 4, needs)
    links = [Link(0, 1, 1, Fraction(0))] * 2
    service = Service("fair") if name == "fair" else Service()
    try:
        run(builder.program(), links, service, engine=name, compile=compile)
    except InvalidInput as error:
        declined = name == "sweep" and "order of numbers" in str(error)
        assert declined or "cycle: transfers 1, 3, 2 wait for one another" in str(error)
    else:
        pytest.fail("a cycle was not noticed")


def test_sweep_declines_what_is_not_served_in_the_order_of_numbers() -> None:
    """The second message is there first."""
    builder = Builder()
    builder.add([(0, -1), (1, 0)], 4)
    builder.add([(1, -1)], 4)
    links = [Link(0, 1, 1, Fraction(0))] * 2
    with pytest.raises(InvalidInput, match="order of numbers"):
        run(builder.program(), links, engine="sweep")
    assert run(builder.program(), links).engine == "events"
    assert seconds(run(builder.program(), links)) == [8, 4]


def test_what_engines_refuse() -> None:
    builder = Builder()
    builder.add([(0, -1)], 4, priority=1)
    builder.add([(0, -1)], 4)
    links = [Link(0, 1, 1, Fraction(0))]
    with pytest.raises(InvalidInput, match="store-and-forward"):
        run(builder.program(), links, Service(switching=CUT))
    with pytest.raises(InvalidInput, match="without buffers"):
        run(builder.program(), links, Service(buffers={0: 8}))
    with pytest.raises(InvalidInput, match="must be of one size"):
        run(bad(hop_size=[4, 4, 4, 8]), links * 2, Service("fair", CUT))
    with pytest.raises(InvalidInput, match="never fit into the buffer of link 0"):
        run(bad(), links * 2, Service(buffers={0: 3}))
    with pytest.raises(InvalidInput, match="link 9 does not exist"):
        run(bad(), links * 2, Service(buffers={9: 3}))
    for name in ("sweep", "events"):
        with pytest.raises(InvalidInput, match="use queued"):
            run(bad(), links * 2, Service(outages={0: (Fraction(1), None)}), engine=name)
    for name, discipline in (("queued", "fair"), ("fair", "fifo")):
        with pytest.raises(InvalidInput, match=f"engine {name} does not serve {discipline}"):
            run(bad(), links * 2, Service(discipline), engine=name)
    with pytest.raises(InvalidInput, match="unknown engine"):
        run(bad(), links * 2, engine="magic")
    with pytest.raises(InvalidInput, match="discipline fifo"):
        Service("fair", buffers={0: 3})


@pytest.mark.parametrize("ranks", range(2, 18))
def test_algorithms_take_as_long_as_the_reference_says(ranks: int) -> None:
    """The algorithms of the table at every number of ranks, lowered to hops, both switchings."""
    from fabric_plan.models.schedule.planners import draft_of
    from fabric_plan.planner.simulator.schedule import lower

    cases = [
        ("ring", "ring"),
        ("ring", "double-ring"),
        ("full", "recursive-doubling"),
        ("full", "halving-doubling"),
        ("full", "binomial-tree"),
        ("hub", "binomial-tree"),
        ("hub", "in-network"),
        ("full", "double-binary-tree"),
    ]
    if ranks <= 9:
        cases += [("full", "direct"), ("hub", "direct"), ("hub", "double-binary-tree"), ("hub", "halving-doubling")]
    for fabric, name in cases:
        if ranks > 9 and ranks % 3 and name != "recursive-doubling":
            continue
        problem = ScheduleProblem.of(f"{fabric}:{ranks}", "all-reduce", 48_000, chunks=2)
        draft = draft_of(problem, name)
        program = lower(draft, problem.fabric)
        if program.hops > 400:
            continue
        for switching in ("store-forward", CUT):
            service = Service(switching=switching)
            expected = reference_events.finish_times(program, problem.fabric.links, service)
            assert seconds(engine.run(program, problem.fabric.links, service)) == expected


@pytest.mark.parametrize(
    "columns",
    [
        {"hop_start": [-50, 2, 4]},
        {"hop_start": [0, 9, 4]},
        {"hop_start": [0, 3, 4], "hop_parent": [-1, 0, 1, 1]},
        {"hop_link": [0, -1, 0, 1]},
        {"hop_link": [0, 1, 0, 2]},
        {"hop_size": [4, 4, 0, 4]},
        {"need_start": [0, 0, 1], "need": [-3]},
        {"need_start": [0, 2, 1], "need": [0]},
    ],
)
def test_large_programs_are_refused_as_small_ones_are(
    columns: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput) as small:
        bad(**columns).check(2)
    monkeypatch.setattr("fabric_plan.planner.simulator.program.FROM_HOPS", 1)
    with pytest.raises(InvalidInput) as large:
        bad(**columns).check(2)
    assert str(small.value) == str(large.value)
