"""Comparisons: the derived checks of the scale-up literature, and its statements about algorithms, as numbers."""

from __future__ import annotations

import itertools
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from fractions import Fraction

import pytest

from fabric_plan.models.schedule.compare import compare, facts
from fabric_plan.planner import comparison
from fabric_plan.planner.catalog import build
from fabric_plan.planner.comparison import Comparison, Row
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.fabric import Fabric

GB, US = 10**9, Fraction(1, 10**6)
MI = 2**20


def hub(ranks: int, bandwidth: int, latency: Fraction) -> Fabric:
    """A hub with a bandwidth, and a latency from rank to rank."""
    fabric = build(f"hub:{ranks}")
    return fabric.changed(links=[replace(link, bandwidth=bandwidth, latency=latency / 2) for link in fabric.links])


def row(found: Comparison, name: str) -> Row:
    return next(one for one in found.rows if one.name == name)


def test_nvl72_in_total_and_in_its_switches() -> None:
    """72 x 1.8 TB/s = 129.6 TB/s; in-switch all-reduce counts twice."""
    found = facts(build("nvl72"), "all-reduce")
    assert found.bandwidth == 900 * GB
    assert found.total == 129_600 * GB
    assert found.in_switch == 2 * 129_600 * GB


def test_mi300x_one_gpu_and_one_peer() -> None:
    found = facts(build("mi300x"), "all-reduce")
    assert 2 * found.bandwidth == 896 * GB
    assert found.pair == 64 * GB
    assert found.in_switch is None


def test_gaudi3_node_and_peer() -> None:
    found = facts(build("gaudi3"), "all-reduce")
    assert found.total * 8 == 67_200 * GB
    assert found.pair == 75 * GB


def test_tpu_v4_chip() -> None:
    assert facts(build("tpu-v4:4x4x4"), "all-reduce").bandwidth == 6 * 50 * GB


def test_littles_law() -> None:
    """800 GB/s x 1 us = 800 KB = 3,125 requests of 256 B."""
    found = facts(hub(8, 800 * GB, US / 2), "all-reduce")
    assert found.in_flight == 800_000
    assert found.requests == 3125


def test_the_ring_crossover() -> None:
    """p = 72, 2 us, 800 GB/s: 115.2 MB; there both terms of a ring's time are equal."""
    fabric = hub(72, 800 * GB, 2 * US)
    found = compare(fabric, "all-reduce", [Fraction(115_200_000)])
    assert found.facts.crossover == 115_200_000
    seconds = row(found, "ring").seconds[0]
    # A switch stores and forwards, so each step sends its bytes twice; the ring's own term is once.
    assert seconds == 2 * 71 * (2 * US + 2 * Fraction(115_200_000, 72 * 800 * GB))


def test_torus_8x8() -> None:
    """28 alpha and about 1.97 n/B dimension-wise, 126 alpha by rings; a snake pays twice the bytes."""
    found = compare(build("torus:8x8"), "all-reduce", [Fraction(1024), Fraction(2**30)])
    best, snake = row(found, "dimension-wise"), row(found, "double-ring")
    assert best.alphas == 28
    assert best.volume == 2 * Fraction(63, 64)
    assert row(found, "ring").alphas == snake.alphas == 126
    assert snake.volume == 2 * best.volume
    assert snake.links == Fraction(1, 2)
    assert best.links == 1
    assert found.winner(1) == "trees"  # packed over all links at once, with fewer steps in a row


def test_a_single_ring_wastes_most_links_of_a_full_mesh() -> None:
    found = compare(build("full:8"), "all-reduce", [Fraction(2**30)])
    assert row(found, "double-ring").links == Fraction(2, 7)
    # Its bandwidth term is (p - 1) / 2 times that of the direct algorithm with two rings, twice that with one.
    assert row(found, "double-ring").volume / row(found, "direct").volume == Fraction(7, 2)
    assert row(found, "ring").volume / row(found, "direct").volume == 7


def test_in_switch_reduction_beats_the_floor() -> None:
    found = compare(build("nvl72"), "all-reduce", [Fraction(2**30)])
    seconds = row(found, "in-network").seconds[0]
    assert seconds is not None
    assert found.in_network_floor is not None
    assert found.in_network_floor[0] < seconds < Fraction(6, 10) * found.endpoint_floor[0]
    for other in found.rows:
        if other.name != "in-network":
            assert other.seconds[0] is not None
            assert other.seconds[0] > found.endpoint_floor[0]


def test_winners_change_where_times_cross() -> None:
    sizes = [Fraction(2**k) for k in range(10, 30, 2)]
    found = compare(build("full:8"), "all-reduce", sizes)
    names = [found.winner(k) for k in range(len(sizes))]
    assert [name for name, after in itertools.pairwise(names) if name != after] == [
        before for _, before, _ in found.crossovers
    ]
    for size, before, after in found.crossovers:
        again = compare(build("full:8"), "all-reduce", [size])
        times = [row(again, name).seconds[0] for name in (before, after)]
        assert times[0] is not None
        assert times[1] is not None
        assert abs(times[0] - times[1]) < Fraction(1, 50) * times[0]


def test_nothing_suits() -> None:
    with pytest.raises(InvalidProblem, match="no algorithm of point-to-point suits"):
        compare(build("full:4"), "point-to-point", [Fraction(1)])


def test_what_is_written() -> None:
    found = compare(build("hub:4"), "all-reduce", [Fraction(1024), Fraction(MI)])
    document = json.loads(comparison.write_json(found))
    assert document["schema"] == "fabric-plan/comparison/1"
    assert document["algorithms"]["ring"]["busbw"][1] == pytest.approx(
        MI / float(row(found, "ring").seconds[1] or 0) * 1.5
    )
    assert "hierarchical" in document["refused"]
    table = comparison.write_csv(found).decode().splitlines()
    assert len(table) == 1 + 2 * len(found.rows)
    ElementTree.fromstring(comparison.write_svg(found).decode().partition("\n")[2])
    page = comparison.write_html(found).decode()
    assert "in-network floor" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    pytest.importorskip("matplotlib")
    assert comparison.write_png(found).startswith(b"\x89PNG")
