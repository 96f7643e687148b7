"""Flows of traffic over scheduled fabrics."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric_plan.planner.dsf import Dsf, Zone
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.traffic import (
    Flow,
    all_to_all,
    elephants,
    host_ports,
    hot_spot,
    incast,
    permutation,
    rail_ports,
    ring,
    uniform,
)

MINI = Dsf(name="mini", zones=tuple(Zone(name=name, interfaces=4, fabrics=2, upper=2) for name in "xy"), spines=2)
ONE = Dsf(name="one", zones=(Zone(name="z", interfaces=3, fabrics=2),), spines=0)


def ends(flows: list[Flow]) -> tuple[Counter[tuple[int, ...]], Counter[tuple[int, ...]]]:
    """Return how often each port sends and receives."""
    return (
        Counter((*flow.source, flow.source_port) for flow in flows),
        Counter((*flow.destination, flow.destination_port) for flow in flows),
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size_bytes": 0}, "0 bytes"),
        ({"start_s": -1.0}, "start"),
        ({"start_s": float("nan")}, "start"),
        ({"service_class": 8}, "service class 8"),
        ({"source_port": -1}, "ports -1"),
    ],
)
def test_a_flow_says_what_is_wrong(changes: dict[str, float], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Flow(**{"source": (0, 0), "destination": (1, 0), "size_bytes": 1, **changes})  # type: ignore[arg-type]


def test_ports_are_as_many_as_links() -> None:
    assert host_ports(MINI, 1) == [(1, node, port) for node in range(4) for port in range(2)]
    assert host_ports(MINI, 0, 1) == [(0, node, 0) for node in range(4)]
    with pytest.raises(InvalidInput, match="zone 2"):
        host_ports(MINI, 2)
    with pytest.raises(InvalidInput, match="0 host ports"):
        host_ports(MINI, 0, 0)


def test_uniform_joins_all_pairs_and_loads_ports_evenly() -> None:
    flows = uniform(MINI, 10)
    pairs = {(flow.source, flow.destination) for flow in flows}
    assert len(flows) == len(pairs) == 32
    assert all(a[0] != b[0] for a, b in pairs)
    for side in ends(flows):
        assert set(side.values()) == {2}
    assert len(uniform(MINI, 10, both_ways=False)) == 16
    assert len(uniform(MINI, 10, inside=True)) == 56


@given(st.integers(0, 50), st.booleans())
def test_permutations_use_every_port_once(seed: int, one: bool) -> None:
    fabric = ONE if one else MINI
    flows = permutation(fabric, 5, seed=seed)
    for side in ends(flows):
        assert set(side.values()) == {1}
    assert len(flows) == (6 if one else 16)
    assert all(flow.source != flow.destination for flow in flows)
    assert flows == permutation(fabric, 5, seed=seed)


@given(st.integers(0, 50), st.booleans())
def test_elephants_cross_from_zone_to_zone(seed: int, aligned: bool) -> None:
    flows = elephants(MINI, 5, seed=seed, aligned=aligned)
    for side in ends(flows):
        assert set(side.values()) == {1}
    assert all(flow.source[0] != flow.destination[0] for flow in flows)
    if aligned:
        assert all(flow.source_port == flow.destination_port for flow in flows)
        assert len({(flow.source, flow.destination) for flow in flows}) == 8
    assert len(elephants(MINI, 5, seed=seed, both_ways=False, aligned=aligned)) == 8


def test_seeds_draw_differently() -> None:
    assert elephants(MINI, 5, seed=1) != elephants(MINI, 5, seed=2)
    assert permutation(MINI, 5, seed=1) != permutation(MINI, 5, seed=2)
    assert hot_spot(MINI, 5, seed=1) != hot_spot(MINI, 5, seed=2)


def test_one_zone_has_elephants_inside() -> None:
    assert elephants(ONE, 5, seed=3) == permutation(ONE, 5, seed=3)


def test_incast() -> None:
    flows = incast(MINI, (0, 3, 1), 7)
    assert {flow.destination for flow in flows} == {(0, 3)}
    assert len(flows) == 7
    assert (0, 3) not in {flow.source for flow in flows}
    some = incast(MINI, (0, 3, 1), 7, senders=3, seed=4, service_class=1)
    assert len(some) == 3
    assert some == incast(MINI, (0, 3, 1), 7, senders=3, seed=4, service_class=1)
    with pytest.raises(InvalidInput, match="8 senders"):
        incast(MINI, (0, 3, 1), 7, senders=8)


def test_hot_spots_are_hot() -> None:
    flows = hot_spot(MINI, 5, share=1.0, seed=2, flows_per_port=3)
    counts = Counter(flow.destination for flow in flows)
    spot, most = counts.most_common(1)[0]
    assert most == 3 * 14
    assert all(flow.source != flow.destination for flow in flows)
    assert all(flow.destination == spot for flow in flows if flow.source != spot)
    even = Counter(flow.destination for flow in hot_spot(MINI, 5, share=0.0, seed=2, flows_per_port=30))
    assert max(even.values()) < 2 * min(even.values())
    with pytest.raises(InvalidInput, match="share"):
        hot_spot(MINI, 5, share=1.5)
    with pytest.raises(InvalidInput, match="at least two"):
        hot_spot(Dsf(name="s", zones=(Zone(name="z", interfaces=1, fabrics=1),), spines=0), 5)


def test_gpus_attach_to_the_node_of_their_rail() -> None:
    hosts = rail_ports(MINI, 2)
    assert len(hosts) == 8
    assert hosts[0] == ((0, 0, 0), (0, 1, 0))
    assert hosts[1] == ((0, 0, 1), (0, 1, 1))
    assert hosts[2] == ((0, 2, 0), (0, 3, 0))
    assert hosts[4] == ((1, 0, 0), (1, 1, 0))
    assert len({port for host in hosts for port in host}) == 16
    assert len(rail_ports(MINI, 3)) == 4
    with pytest.raises(InvalidInput, match="5 rails"):
        rail_ports(MINI, 5)


def test_rings_run_along_rails() -> None:
    flows = ring(MINI, [0, 1, 2, 3], 1000, rails=2)
    assert len(flows) == 8
    assert {flow.size_bytes for flow in flows} == {1500}
    inside = [flow for flow in flows if flow.source == flow.destination]
    assert len(inside) == 4  # hosts 0 and 1 share their nodes, and so do 2 and 3
    assert all(flow.source[1] % 2 == flow.destination[1] % 2 for flow in flows)
    for side in ends(flows):
        assert set(side.values()) == {1}
    assert ring(MINI, [3], 1000, rails=2) == []


def test_all_to_all_with_and_without_rails() -> None:
    along = all_to_all(MINI, [0, 2, 4], 100, rails=2)
    across = all_to_all(MINI, [0, 2, 4], 100, rails=2, along_rails=False)
    assert len(along) == 12
    assert len(across) == 24
    assert sum(flow.size_bytes for flow in along) == sum(flow.size_bytes for flow in across) == 2400
    assert all(flow.source[1] % 2 == flow.destination[1] % 2 for flow in along)
    assert any(flow.source[1] % 2 != flow.destination[1] % 2 for flow in across)


def test_a_job_needs_hosts_that_exist() -> None:
    with pytest.raises(InvalidInput, match="host 8"):
        ring(MINI, [0, 8], 10, rails=2)
    with pytest.raises(InvalidInput, match="each once"):
        all_to_all(MINI, [1, 1], 10, rails=2)
