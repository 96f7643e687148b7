"""Five ways of moving the same flows over a small scheduled fabric."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric_plan.planner.dsf import Dsf, Zone
from fabric_plan.planner.errors import InvalidInput, PlanRejected
from fabric_plan.planner.simulator import cell_run
from fabric_plan.planner.simulator.cell_fabric import CellFabric
from fabric_plan.planner.simulator.cell_packets import PacketRun
from fabric_plan.planner.simulator.cell_paths import Demand, busiest_bound, plan_paths
from fabric_plan.planner.simulator.cell_scheduled import ScheduledRun
from fabric_plan.planner.simulator.cells import (
    SCHEMES,
    CellParams,
    CellResult,
    Failure,
    compare,
    estimate_events,
    simulate_cells,
)
from fabric_plan.planner.traffic import Flow, all_to_all, elephants, incast, permutation, ring, uniform


def fabric(interfaces: int, fabrics: int, spines: int, lower: int = 1, upper: int = 2, zones: str = "xy") -> Dsf:
    every = tuple(Zone(name=one, interfaces=interfaces, fabrics=fabrics, lower=lower, upper=upper) for one in zones)
    return Dsf(name="small", zones=every, spines=spines)


MINI = fabric(4, 2, 2)
LARGER = fabric(8, 4, 4)
FAST = CellParams(link_latency_s=50e-9, cell_bytes=512, converge_s=2e-6, resend_s=4e-6, replan_s=200e-6)
LOWER = Failure(links=("x/rdsw3:fdsw1",), at_s=4e-6)
UPPER = Failure(links=("x/fdsw1:sdsw1",), at_s=4e-6)
PACKETS = tuple(scheme for scheme in SCHEMES if scheme != "scheduled")

# What the article's second failure leads to: an uplink of x/fdsw1 is dead, so devices withdraw a link each.
EVERY_X, EVERY_Y = [f"x/rdsw{k}" for k in range(4)], [f"y/rdsw{k}" for k in range(4)]
BALANCED = {
    **{("x/rdsw2", target): ["x/rdsw2:fdsw1"] for target in EVERY_Y},
    **{("y/fdsw0", target): ["y/fdsw0:sdsw1#0"] for target in EVERY_X},
    **{("y/rdsw1", target): ["y/rdsw1:fdsw0"] for target in EVERY_X},
}


# Exact times of small cases.


@pytest.mark.parametrize("scheme", PACKETS)
@pytest.mark.parametrize(("target", "hops"), [((1, 2), 4), ((0, 2), 2), ((0, 0), 0)])
def test_packets_of_one_flow_follow_one_another(scheme: str, target: tuple[int, int], hops: int) -> None:
    """One flow is alone: n packets leave, the last pays every link once more, and the host port."""
    flow = Flow((0, 0), target, 10 * 4096, start_s=3e-6, destination_port=1)
    # 20 ps a byte at 50 GB/s.
    packet = 4096 * 20
    result = simulate_cells(MINI, [flow], scheme)
    assert round(result.completion_s * 1e12) == 3_000_000 + 10 * packet + hops * (packet + 500_000) + packet
    assert round(result.durations_s[0] * 1e12) == round(result.completion_s * 1e12) - 3_000_000
    assert result.bytes_delivered == 40960
    assert result.skew >= 1


@pytest.mark.parametrize(("target", "hops"), [((1, 2), 4), ((0, 2), 2), ((0, 0), 0)])
def test_one_cell_asks_for_credit_first(target: tuple[int, int], hops: int) -> None:
    """The packet comes from its host, a request goes over and a credit back, the cell takes each link, and the host port."""
    result = simulate_cells(MINI, [Flow((0, 0), target, 256)])
    assert round(result.completion_s * 1e12) == 5120 + 2 * hops * 500_000 + hops * (5120 + 500_000) + 5120
    assert result.credits == 1


def test_cells_of_a_packet_share_the_links() -> None:
    """16 cells over two uplinks: eight follow one another on each link, so the last is seven behind the first."""
    result = simulate_cells(MINI, [Flow((0, 0), (0, 1), 4096)])
    assert round(result.completion_s * 1e12) == 81920 + 4 * 500_000 + 7 * 5120 + 2 * (5120 + 500_000) + 81920
    assert result.queues.fabric == 8 * 256
    assert result.queues.voq == 4096
    assert result.reassembly_bytes == 4096


def test_two_flows_on_one_link_queue_up() -> None:
    """Both must go over the only fabric node: half of what arrives stays behind, and it takes twice as long."""
    one = fabric(2, 1, 1, upper=1)
    flows = [Flow((0, 0), (1, 0), 100 * 4096, source_port=k, destination_port=k) for k in range(2)]
    result = simulate_cells(one, flows, "ecmp")
    assert round(result.completion_s * 1e12) == 81920 + 200 * 81920 + 3 * 81920 + 4 * 500_000 + 81920
    # The first two packets come together; from then on two come while one leaves.
    assert result.queues.fabric == 101 * 4096
    assert result.utilisation["x/rdsw0:fdsw0 up"] == pytest.approx(200 * 81920 / (result.completion_s * 1e12))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_link_carries_each_byte_once(scheme: str) -> None:
    flows = uniform(MINI, 20_480)
    result = simulate_cells(MINI, flows, scheme)
    for zone, tier in itertools.product("xy", ("rdsw", "fdsw")):
        for way in ("up", "down"):
            share = sum(
                value
                for name, value in result.utilisation.items()
                if name.startswith(f"{zone}/{tier}") and name.endswith(way)
            )
            assert share * result.completion_s * 50e9 == pytest.approx(16 * 20_480)


@pytest.mark.parametrize(("failure", "least"), [(None, 42.0), (Failure(links=LOWER.links, at_s=10e-6), 72.0)])
def test_the_ideal(failure: Failure | None, least: float) -> None:
    """4 MB go to and from each node at 100 GB/s; after 10 us one has half of that, and 3 MB to go; 2 us are latency."""
    flows = elephants(MINI, 2_000_000, aligned=True)
    result = simulate_cells(MINI, flows, "central", failure=failure, params=CellParams(packet_bytes=100_000))
    assert result.ideal_s == pytest.approx(least * 1e-6)


@pytest.mark.parametrize(
    ("flows", "least"),
    [
        ([Flow((0, 0), (1, 0), 1_000_000, start_s=5e-6)], 27.0),  # one port
        ([Flow((0, 0), (1, k), 500_000, source_port=k) for k in range(4)], 22.0),  # a node's two links, two us
        ([Flow((0, 0), (0, 0), 1_000_000)], 20.0),  # inside a node
        ([Flow((k // 4, k % 4), (1 - k // 4, k % 4), 2_000_000, source_port=k) for k in range(8)], 42.0),
    ],
)
def test_the_ideal_of_ports_and_nodes(flows: list[Flow], least: float) -> None:
    assert simulate_cells(MINI, flows, "ecmp").ideal_s == pytest.approx(least * 1e-6)


def test_the_ideal_of_a_thin_spine() -> None:
    """Four nodes of two links each share two links out of their zone."""
    thin = fabric(4, 2, 1, upper=1)
    assert simulate_cells(thin, elephants(thin, 500_000), "ecmp").ideal_s == pytest.approx(8 * 10e-6 / 2 + 2e-6)


def test_ports_serve_their_flows_in_turn() -> None:
    flows = [Flow((0, 0), (1, k), 40 * 4096) for k in range(3)]
    for scheme in SCHEMES:
        done = simulate_cells(MINI, flows, scheme).finish_s
        assert max(done) - min(done) < 5 * 81920e-12


def test_a_link_has_sent_nothing_that_still_waits() -> None:
    run = PacketRun(CellFabric(MINI, FAST), [Flow((0, 0), (1, 0), 4096)], FAST, 0, None, "ecmp")
    run.busy[:2], run.free[:2] = [500, 500], [700, 100]
    assert run.busy_until(400)[:2] == [200, 500]


def test_the_least_queued_link_is_taken() -> None:
    run = PacketRun(CellFabric(MINI, FAST), [Flow((0, 0), (1, 0), 4096)], FAST, 0, None, "adaptive")
    packet = cell_run.Packet(run.flows[0], 0, 4096, 0)
    links = run.reach[run.fabric.first_fabric[0]][run.flows[0].target]
    for k, link in enumerate(links):
        run.free[link] = 9000 if k == 2 else 10_000 + k
    taken = {run.policy.choose(run.fabric.first_fabric[0], packet, 5000) for _ in range(20)}
    assert taken == {links[2]}
    idle = {run.policy.choose(run.fabric.first_fabric[0], packet, 10_001) for _ in range(60)}
    assert idle == set(links[:3])


def test_what_was_lost_goes_first() -> None:
    run = ScheduledRun(CellFabric(MINI, FAST), [Flow((0, 0), (1, 0), 3 * 4096)], FAST, 0, None)
    for offset, tries in ((4096, 0), (8192, 0), (0, 1)):
        run.enter(cell_run.Packet(run.flows[0], offset, 4096, tries), 0)
    assert [packet.offset for packet in run.voq[0].queue] == [0, 4096, 8192]
    assert run.voq[0].worst == 3 * 4096


# The story.


def test_elephants_before_a_failure() -> None:
    reports = {
        one.scheme: one for one in compare(LARGER, elephants(LARGER, 500_000, aligned=True), params=FAST, seeds=3)
    }
    scheduled, ecmp, adaptive = reports["scheduled"], reports["ecmp"], reports["adaptive"]
    assert scheduled.skew < 1.02
    assert scheduled.ratio < 1.12  # credits take two trips before the first cell
    assert ecmp.skew > 1.3
    assert ecmp.ratio > 1.3
    assert sum(run.ratio > 1.3 for run in ecmp.runs) >= 2
    for scheme in ("pinned", "central"):
        assert reports[scheme].skew < 1.02
        assert reports[scheme].ratio < 1.06
    assert adaptive.skew < ecmp.skew
    assert adaptive.ratio < 1.3 < ecmp.ratio
    assert all(run.queues.fabric < 200_000 for run in adaptive.runs)
    assert adaptive.reordered > 0
    assert adaptive.runs[0].reorder_buffer_bytes > 0
    for scheme in ("scheduled", "ecmp", "pinned", "central"):
        assert reports[scheme].reordered == 0
    assert len(reports["central"].runs) == 1


def test_longer_flows_come_nearer_to_the_ideal() -> None:
    ratios = [simulate_cells(MINI, elephants(MINI, size), params=FAST).ratio for size in (100_000, 400_000, 1_600_000)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] < 1.03


@pytest.mark.parametrize("seed", range(4))
def test_hashing_collides_for_drawn_pairs(seed: int) -> None:
    scheduled, ecmp = compare(
        MINI, elephants(MINI, 300_000, seed=seed), ("scheduled", "ecmp"), params=FAST, first_seed=seed
    )
    assert ecmp.skew > 1.3 > 1.05 > scheduled.skew
    assert ecmp.completion_s > 1.3 * scheduled.completion_s
    assert ecmp.runs[0].queues.fabric > 20 * scheduled.runs[0].queues.fabric


@pytest.mark.parametrize("failure", [LOWER, UPPER])
def test_elephants_after_a_failure(failure: Failure) -> None:
    flows = elephants(MINI, 500_000, aligned=True)
    before = {one.scheme: one.runs[0] for one in compare(MINI, flows, params=FAST)}
    after = {one.scheme: one.runs[0] for one in compare(MINI, flows, failure=failure, params=FAST)}
    for scheme, run in after.items():
        assert run.bytes_delivered == sum(flow.size_bytes for flow in flows)
        assert run.lost == run.resent
        assert run.lost > 0 or scheme == "ecmp"  # which may have left the link idle
        assert run.completion_s > before[scheme].completion_s or scheme == "ecmp"
        assert run.skew_after is not None
        assert before[scheme].skew_after is None
    assert after["scheduled"].reordered == 0
    # Pinned flows fall back to hashing: no longer balanced.
    assert after["pinned"].skew > 1.3 > before["pinned"].skew
    assert after["pinned"].queues.fabric > 10 * before["pinned"].queues.fabric
    # Planned paths are stale until there are new ones.
    assert after["central"].completion_s > failure.at_s + FAST.replan_s
    assert all(after["central"].completion_s > after[scheme].completion_s for scheme in SCHEMES if scheme != "central")
    assert after["scheduled"].queues.fabric < after["pinned"].queues.fabric


def test_planned_paths_are_stale_for_as_long_as_planning_takes() -> None:
    flows = elephants(MINI, 300_000)
    runs = [
        simulate_cells(MINI, flows, "central", failure=UPPER, params=replace(FAST, replan_s=delay))
        for delay in (4e-6, 40e-6, 400e-6)
    ]
    assert len({run.lost for run in runs}) == 1  # a stalled flow sends nothing
    times = [run.completion_s for run in runs]
    assert times == sorted(times)
    assert times[2] - times[1] == pytest.approx(360e-6, rel=0.05)


def test_slower_news_costs_more_packets() -> None:
    flows = elephants(MINI, 300_000)
    lost = [
        simulate_cells(MINI, flows, failure=LOWER, params=replace(FAST, converge_s=delay)).lost
        for delay in (0.0, 2e-6, 4e-6)
    ]
    assert lost == sorted(lost)
    assert lost[0] < lost[2]


def test_longer_flowlets_reorder_less() -> None:
    flows = elephants(MINI, 500_000)
    runs = [
        simulate_cells(MINI, flows, "adaptive", params=replace(FAST, flowlet_packets=many)) for many in (1, 16, 1000)
    ]
    assert runs[0].reordered > runs[1].reordered > runs[2].reordered == 0
    assert runs[0].completion_s < runs[2].completion_s


def test_incast_waits_at_the_ingress_not_in_the_fabric() -> None:
    flows = incast(MINI, (0, 3, 0), 200_000)
    scheduled, ecmp = (one.runs[0] for one in compare(MINI, flows, ("scheduled", "ecmp"), params=FAST))
    assert scheduled.queues.fabric <= 4096
    # Credits go to near and far senders: what they bring can overlap by the difference of the trips, 200 ns.
    assert scheduled.queues.egress <= 2 * 4096 + 200e-9 * 50e9
    assert scheduled.queues.voq > 100_000
    assert ecmp.queues.fabric > 100_000
    assert scheduled.ratio < 1.03
    # All senders of a distance are served alike.
    near, far = (
        [done for done, flow in zip(scheduled.finish_s, flows, strict=True) if flow.source[0] == zone]
        for zone in (0, 1)
    )
    assert max(max(near) - min(near), max(far) - min(far)) < 10 * 4096 / 50e9


def test_a_port_under_incast_does_not_hold_up_others() -> None:
    """Queues are apart by destination: a flow from a sender of the incast to a quiet port takes as long as without it."""
    quiet = Flow((1, 0), (0, 2), 100_000, start_s=5e-6, source_port=1)
    crowd = incast(MINI, (0, 3, 0), 400_000)
    alone, crowded = (simulate_cells(MINI, [quiet, *rest], params=FAST).durations_s[0] for rest in ([], crowd))
    assert crowded < 1.1 * alone


@pytest.mark.parametrize(("scheme", "most"), [("scheduled", 1.2), ("ecmp", None)])
def test_a_class_does_not_wait_for_a_lower_one(scheme: str, most: float | None) -> None:
    """Several senders fill the port with class 1; a flow of class 0 to it passes them where classes have queues."""
    low = [replace(flow, service_class=1) for flow in incast(MINI, (0, 3, 0), 400_000, senders=6, seed=1)]
    high = Flow((1, 3), (0, 3), 100_000, start_s=10e-6, source_port=1)
    alone, crowded = (simulate_cells(MINI, [high, *rest], scheme, params=FAST).durations_s[0] for rest in ([], low))
    if most is None:
        assert crowded > 2 * alone
    else:
        assert crowded < most * alone
        same = simulate_cells(MINI, [replace(high, service_class=1), *low], scheme, params=FAST).durations_s[0]
        assert same > 2 * alone


def test_weights_share_a_port() -> None:
    """Two classes of equal bytes at 3:1: when the heavy one is through, a third of the other is."""
    flows = [
        Flow((1, 0), (0, 3), 600_000, service_class=0),
        Flow((1, 1), (0, 3), 600_000, service_class=1),
    ]
    strict = simulate_cells(MINI, flows, params=FAST)
    shared = simulate_cells(MINI, flows, params=replace(FAST, class_weights=(3, 1)))
    assert strict.finish_s[0] == pytest.approx(600_000 / 50e9, rel=0.1)
    assert shared.finish_s[0] == pytest.approx(800_000 / 50e9, rel=0.1)
    assert shared.finish_s[1] == pytest.approx(strict.finish_s[1], rel=0.01)


def test_hyperports_soften_collisions() -> None:
    wide = fabric(4, 2, 2, lower=2, upper=4)
    flows = elephants(wide, 200_000)
    single, double = (
        compare(wide, flows, ("ecmp",), params=replace(FAST, hyperports=many), seeds=8)[0] for many in (1, 2)
    )
    assert double.completion_s < single.completion_s
    assert single.runs[0].ideal_s == pytest.approx(double.runs[0].ideal_s)


def test_hyperports_of_a_remainder() -> None:
    three = fabric(1, 1, 1, lower=3, upper=3)
    joined = CellFabric(three, CellParams(hyperports=2))
    assert sorted(set(joined.rate)) == [50_000_000_000, 100_000_000_000]
    assert len(joined.tail) == 16
    assert joined.directed("x/rdsw0:fdsw0#0") == joined.directed("x/rdsw0:fdsw0#1")
    assert joined.directed("x/rdsw0:fdsw0#1") != joined.directed("x/rdsw0:fdsw0#2")


def test_a_job_of_rails() -> None:
    for flows in (ring(MINI, range(8), 200_000, rails=2), all_to_all(MINI, range(8), 5000, rails=2)):
        reports = compare(MINI, flows, params=FAST)
        assert {one.runs[0].bytes_delivered for one in reports} == {sum(flow.size_bytes for flow in flows)}
        assert reports[0].skew < 1.3


# Reachability.


def capacities(cells: CellFabric, links: tuple[str, ...], table: Any, source: str, target: str) -> list[int]:
    dead = {link for name in links for link in cells.directed(name)}
    wanted = cells.devices.index(target)
    reach = cells.reach([wanted], dead, cells.withdrawn(table))
    return [len(reach[k].get(wanted, ())) for k in range(8) if cells.devices[k].startswith(source)]


def test_reach_of_the_small_fabric() -> None:
    cells = CellFabric(MINI, CellParams())
    assert capacities(cells, (), {}, "y", "x/rdsw3") == [2, 2, 2, 2]
    assert capacities(cells, ("x/rdsw3:fdsw1",), {}, "x", "x/rdsw3") == [1, 1, 1, 0]
    # Without withdrawals nobody else learns of it: all links still lead there somehow.
    assert capacities(cells, ("x/rdsw3:fdsw1",), {}, "y", "x/rdsw3") == [2, 2, 2, 2]
    assert capacities(cells, ("x/fdsw1:sdsw1",), BALANCED, "x", "y/rdsw0") == [2, 2, 1, 2]
    assert capacities(cells, ("x/fdsw1:sdsw1",), BALANCED, "y", "x/rdsw0") == [2, 1, 2, 2]


def test_withdrawals_cascade() -> None:
    """A fabric node that may use no link to a destination is not sent anything for it."""
    cells = CellFabric(MINI, CellParams())
    table = {("y/fdsw0", "x/rdsw3"): [f"y/fdsw0:sdsw{k}#{n}" for k in range(2) for n in range(2)]}
    assert capacities(cells, (), table, "y", "x/rdsw3") == [1, 1, 1, 1]
    assert capacities(cells, (), table, "y", "x/rdsw2") == [2, 2, 2, 2]


def test_balanced_input_keeps_queues_out_of_the_fabric() -> None:
    """A dead uplink leaves a fabric node more input than output; withdrawals move its queue to the ingress nodes."""
    flows = elephants(MINI, 600_000, both_ways=False)
    plain, balanced = (
        simulate_cells(MINI, flows, failure=Failure(links=UPPER.links, at_s=1e-6, withdrawals=table), params=FAST)
        for table in ({}, BALANCED)
    )
    assert balanced.queues.fabric < plain.queues.fabric / 4
    assert balanced.queues.voq > plain.queues.voq


def test_withdrawals_may_hold_from_the_start() -> None:
    flows = elephants(MINI, 50_000)
    result = simulate_cells(MINI, flows, withdrawals=BALANCED, params=FAST)
    assert result.utilisation["x/rdsw2:fdsw0 up"] > 0
    assert "x/rdsw2:fdsw1 up" not in result.utilisation


# Planned paths.


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pattern", [elephants, permutation])
def test_planned_paths_of_a_permutation_meet_nowhere(seed: int, pattern: Any) -> None:
    cells = CellFabric(LARGER, CellParams())
    demands = [
        Demand(cells.interface(flow.source), cells.interface(flow.destination), flow.size_bytes)
        for flow in pattern(LARGER, 1000, seed=seed)
    ]
    paths = plan_paths(cells, cells.reach(range(16)), demands)
    used = [link for path in paths for link in path]
    assert len(used) == len(set(used)) >= 2 * len(demands)
    for demand, path in zip(demands, paths, strict=True):
        assert cells.tail[path[0]] == demand.source
        assert cells.head[path[-1]] == demand.target
        assert all(cells.head[a] == cells.tail[b] for a, b in itertools.pairwise(path))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_planned_paths_against_all_plans(data: st.DataObject) -> None:
    tiny = CellFabric(fabric(2, 2, 1, upper=1), CellParams())
    reach = tiny.reach(range(4))
    pairs = st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(lambda pair: pair[0] != pair[1])
    demands = [
        Demand(*data.draw(pairs), data.draw(st.integers(1, 4)) * 1000) for _ in range(data.draw(st.integers(1, 5)))
    ]

    def busiest(paths: Any) -> float:
        load = [0.0] * len(tiny.tail)
        for demand, path in zip(demands, paths, strict=True):
            for link in path:
                load[link] += demand.size_bytes / tiny.rate[link]
        return max(load)

    def every(device: int, target: int) -> list[tuple[int, ...]]:
        if device == target:
            return [()]
        return [(link, *rest) for link in reach[device][target] for rest in every(tiny.head[link], target)]

    best = min(busiest(paths) for paths in itertools.product(*(every(one.source, one.target) for one in demands)))
    found = busiest(plan_paths(tiny, reach, demands))
    assert busiest_bound(tiny, reach, demands) <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= found <= 1.5 * best


# Checks, and refusals.


def test_a_lost_packet_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: cell_run.Run, packet: cell_run.Packet, now: int) -> None:
        packet.lost = True

    monkeypatch.setattr(cell_run.Run, "lose", forget)
    with pytest.raises(PlanRejected, match=r"flow \d+: \d+ of 300000 bytes"):
        simulate_cells(MINI, elephants(MINI, 300_000), "adaptive", failure=UPPER, params=FAST)


def test_a_packet_that_comes_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    once = PacketRun.egress

    def twice(self: PacketRun, packet: cell_run.Packet, now: int) -> None:
        once(self, packet, now)
        once(self, packet, now)

    monkeypatch.setattr(PacketRun, "egress", twice)
    with pytest.raises(PlanRejected, match="arrived twice"):
        simulate_cells(MINI, [Flow((0, 0), (1, 0), 4096)], "ecmp")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"scheme": "ecpm"}, r"did you mean ecmp\?"),
        ({"flows": []}, "no flows"),
        ({"flows": [Flow((0, 9), (1, 0), 1)]}, r"\(0, 9\)"),
        ({"flows": [Flow((0, 0), (1, 0), 10**11)]}, "million events.*smaller flows, larger cells"),
        ({"failure": Failure(links=("x/rdsw9:fdsw0",), at_s=0)}, "rdsw9"),
        (
            {"failure": Failure(links=("x/rdsw0:fdsw0", "x/rdsw0:fdsw1"), at_s=0)},
            "flow 0: x/rdsw0 has no way to y/rdsw0 after the failure",
        ),
        ({"withdrawals": {("x/rdsw0", "y/rdsw0"): ["x/rdsw0:fdsw0", "x/rdsw0:fdsw1"]}}, "has no way to y/rdsw0:"),
        ({"withdrawals": {("x/rdsw8", "y/rdsw0"): []}}, "x/rdsw8"),
        ({"withdrawals": {("x/rdsw0", "sdsw0"): []}}, "no such interface node"),
        ({"withdrawals": {("x/rdsw0", "y/rdsw0"): ["x/rdsw1:fdsw0"]}}, "does not end there"),
    ],
)
def test_refusals(arguments: dict[str, Any], words: str) -> None:
    flows = arguments.pop("flows", [Flow((0, 0), (1, 0), 1000)])
    with pytest.raises(InvalidInput, match=words) as caught:
        simulate_cells(MINI, flows, **arguments)
    assert "\n" not in str(caught.value)


def test_other_copies_are_not_simulated() -> None:
    two = Dsf(name="two", zones=(Zone(name="x", interfaces=2, fabrics=1),), spines=0, devices=2)
    with pytest.raises(InvalidInput, match="copy 0"):
        CellFabric(two, CellParams()).directed("x/rdsw0:fdsw0@1")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"packet_bytes": 0}, "packet_bytes"),
        ({"cell_bytes": 8192}, "larger than packets"),
        ({"link_rate": 0}, "link_rate"),
        ({"link_latency_s": -1}, "link_latency_s"),
        ({"replan_s": float("nan")}, "replan_s"),
        ({"class_weights": (1, 0)}, "class_weights"),
        ({"spray": "hash"}, "spray"),
    ],
)
def test_parameters_say_what_is_wrong(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        CellParams(**changes)


def test_failures_say_what_is_wrong() -> None:
    with pytest.raises(InvalidInput, match="no link"):
        Failure(links=(), at_s=0)
    with pytest.raises(InvalidInput, match="at -1"):
        Failure(links=("x",), at_s=-1)


# Properties of any run.


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_estimate_of_events_is_near(scheme: str) -> None:
    flows = [*uniform(MINI, 30_000), Flow((0, 0), (0, 1), 10_000), Flow((0, 0), (0, 0), 5000)]
    assert estimate_events(MINI, flows, scheme) == pytest.approx(simulate_cells(MINI, flows, scheme).events, rel=0.1)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a fabric, flows, perhaps a failure, and parameters."""
    shape = [draw(st.integers(1, 3)) for _ in range(5)]
    zones = draw(st.sampled_from(["x", "xy", "xyz"]))
    dsf = fabric(shape[0], shape[1], shape[2], lower=shape[3], upper=shape[4], zones=zones)
    node = st.tuples(st.integers(0, len(zones) - 1), st.integers(0, shape[0] - 1))
    flows = [
        Flow(
            draw(node),
            draw(node),
            draw(st.integers(1, 40_000)),
            start_s=draw(st.sampled_from([0.0, 1e-6])),
            service_class=draw(st.integers(0, 1)),
            source_port=draw(st.integers(0, 1)),
            destination_port=draw(st.integers(0, 1)),
        )
        for _ in range(draw(st.integers(1, 8)))
    ]
    params = CellParams(
        link_rate=draw(st.sampled_from([None, 33_333_333_333])),
        link_latency_s=draw(st.sampled_from([0.0, 500e-9])),
        packet_bytes=draw(st.sampled_from([1500, 4096])),
        cell_bytes=draw(st.sampled_from([256, 999])),
        credit_bytes=draw(st.sampled_from([1000, 4096, 10_000])),
        class_weights=draw(st.sampled_from([None, (2, 1), (1,)])),
        spray=draw(st.sampled_from(["turn", "random"])),
        flowlet_packets=draw(st.integers(1, 3)),
        hyperports=draw(st.integers(1, 3)),
        converge_s=draw(st.sampled_from([0.0, 2e-6])),
        resend_s=draw(st.sampled_from([0.0, 1e-6])),
        replan_s=draw(st.sampled_from([0.0, 5e-6])),
    )
    names = [f"{zone}/rdsw{a}:fdsw{b}" for zone in zones for a in range(shape[0]) for b in range(shape[1])]
    names += [f"{zone}/fdsw{a}:sdsw{b}" for zone in zones for a in range(shape[1]) for b in range(shape[2])]
    links = tuple(draw(st.lists(st.sampled_from(names), max_size=2, unique=True)))
    failure = Failure(links=links, at_s=draw(st.sampled_from([0.0, 1.7e-6, 4e-6]))) if links else None
    return {"dsf": dsf, "flows": flows, "params": params, "failure": failure, "seed": draw(st.integers(0, 3))}


@given(cases(), st.sampled_from(SCHEMES))
@settings(max_examples=300, deadline=None)
def test_any_run_delivers_everything_no_sooner_than_the_ideal(case: dict[str, Any], scheme: str) -> None:
    dsf, flows = case.pop("dsf"), case.pop("flows")
    try:
        result = simulate_cells(dsf, flows, scheme, **case)
    except InvalidInput as error:
        assert "no way" in str(error)
        return
    assert result.bytes_delivered == sum(flow.size_bytes for flow in flows)
    assert result.completion_s >= result.ideal_s * (1 - 1e-6)
    assert result.lost == result.resent
    assert all(value <= 1 + 1e-9 for value in result.utilisation.values())
    assert result == simulate_cells(dsf, flows, scheme, **case)
    if scheme == "scheduled":
        assert result.reordered == 0
        assert result.credits >= 1
    if case["failure"] is None:
        assert result.lost == 0
        if scheme != "adaptive":
            assert result.reorder_buffer_bytes == 0


def test_seeds_and_percentiles() -> None:
    flows = elephants(MINI, 50_000)
    report = compare(MINI, flows, ("ecmp",), seeds=4)[0]
    assert [run.seed for run in report.runs] == [0, 1, 2, 3]
    assert len({run.completion_s for run in report.runs}) > 1
    assert report.worst_s == max(run.completion_s for run in report.runs) >= report.completion_s
    one: CellResult = report.runs[0]
    assert one.percentile_s(0) == min(one.durations_s) <= one.percentile_s(50) <= one.percentile_s(100)
    assert one.percentile_s(100) == max(one.durations_s) == one.completion_s
    assert min(one.durations_s) <= one.mean_s <= max(one.durations_s)
    assert report.resent == 0
