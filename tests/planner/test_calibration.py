"""Calibration: measured curves fitted, held-out points predicted, and the calibrated fabric simulated."""

from __future__ import annotations

from fractions import Fraction

import pytest

from fabric_plan.models.schedule.planners import schedule_of
from fabric_plan.planner.calibration import Points, calibrate
from fabric_plan.planner.catalog import build
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Fabric, Link, Node
from fabric_plan.planner.formats.graph_json import parse_graph, write_graph
from fabric_plan.planner.problem import ScheduleProblem

US, GI = Fraction(1, 10**6), 2**30

NVL72 = [
    (GI // 2, Fraction("1806.7") * US),
    (GI, Fraction("3108.8") * US),
    (2 * GI, Fraction("5589.1") * US),
    (4 * GI, 10094 * US),
    (8 * GI, 20299 * US),
]
"""All-reduce over the 72 GPUs of an NVL72, as measured."""


def simulated(fabric: Fabric, size: int, planner: str, pattern: str = "all-reduce") -> Fraction:
    return schedule_of(ScheduleProblem.of(fabric, pattern, size), planner).certificate.objective


def test_the_nvl72_curve() -> None:
    found = calibrate(build("nvl72"), NVL72, collective="all-reduce", algorithm="ring")
    assert len(found.ranges) == 1
    assert found.worst <= 0.03
    assert found.worst_held_out is not None
    assert found.worst_held_out <= 0.05
    assert [point.outside for point in found.held_out] == [True, False, False, False, True]
    # The known fit: 581 us + n / 438 GB/s, of bus bandwidth times p / 2 (p - 1).
    (only,) = found.ranges
    assert abs(float(only.fixed + 142 * only.alpha) * 1e6 - 581) < 70
    assert abs(only.bandwidth * 72 / 142 / 1e9 - 438) < 10


@pytest.mark.parametrize("hold_out", [2, 3])
def test_every_kth_point_is_predicted_unseen(hold_out: int) -> None:
    found = calibrate(build("nvl72"), NVL72, collective="all-reduce", algorithm="ring", hold_out=hold_out)
    assert len(found.points) + len(found.held_out) == 5
    assert found.worst <= 0.03
    assert found.worst_held_out is not None
    assert found.worst_held_out <= 0.05


def test_a_held_out_point_is_not_seen() -> None:
    """A measurement that is far off is predicted as if it were not there."""
    curve = [(size, time * (2 if size == 2 * GI else 1)) for size, time in NVL72]
    found = calibrate(build("nvl72"), curve, collective="all-reduce", algorithm="ring")
    middle = found.held_out[2]
    assert abs(float(middle.predicted / NVL72[2][1]) - 1) < 0.05
    assert middle.error < -0.4


def test_the_calibrated_fabric_predicts() -> None:
    found = calibrate(build("nvl72"), NVL72, collective="all-reduce", algorithm="ring")
    again = parse_graph(write_graph(found.fabric), "mine.json")
    assert again == found.fabric
    for point in found.points:
        for fabric in (found.fabric, again):
            assert abs(simulated(fabric, point.size, "ring") / point.predicted - 1) < Fraction(1, 10**6)


def curve(fixed: Fraction, hops: int, alpha: Fraction, volume: Fraction, width: int, sizes: list[int]) -> Points:
    return [(size, fixed + hops * alpha + volume * size / width) for size in sizes]


@pytest.mark.parametrize(
    ("name", "collective", "algorithm", "hops", "volume", "planner"),
    [
        ("ring:8", "all-reduce", "ring", 14, Fraction(14, 8), "ring"),
        ("ring:8", "all-gather", "ring", 7, Fraction(7, 8), "ring"),
        ("h100:8", "reduce-scatter", "ring", 7, Fraction(7, 8), "ring"),
        ("nvl72", "all-reduce", "ring", 142, Fraction(142, 72), "ring"),
    ],
)
def test_an_exact_curve_is_recovered(
    name: str, collective: str, algorithm: str, hops: int, volume: Fraction, planner: str
) -> None:
    alpha, fixed, width = 3 * US, 40 * US, 30 * 10**9
    points = curve(fixed, hops, alpha, volume, width, [2**k for k in range(16, 30, 2)])
    found = calibrate(build(name), points, collective=collective, algorithm=algorithm, alpha=alpha)
    (only,) = found.ranges
    assert only.alpha == alpha
    assert abs(only.fixed / fixed - 1) < Fraction(1, 10**5)
    assert abs(only.bandwidth - width) < width // 10**6
    for size, time in points:
        assert abs(simulated(found.fabric, size, planner, collective) / time - 1) < Fraction(1, 10**5)


def test_protocols_are_told_apart() -> None:
    """LL up to 256 KiB, Simple above: half the bandwidth at a fifth of the latency."""
    low = curve(Fraction(0), 14, Fraction("1.0") * US, Fraction(14, 8), 180 * 10**9, [2**k for k in range(10, 19)])
    high = curve(Fraction(0), 14, Fraction("5.0") * US, Fraction(14, 8), 370 * 10**9, [2**k for k in range(20, 31)])
    found = calibrate(build("h100:8"), [*low, *high], collective="all-reduce", algorithm="ring", alpha=US)
    assert [one.name for one in found.ranges] == ["small", "large"]
    assert found.worst < 1e-3
    assert abs(found.ranges[0].bandwidth / 180e9 - 1) < 0.01
    assert abs(found.ranges[1].bandwidth / 370e9 - 1) < 0.01
    again = parse_graph(write_graph(found.fabric), "mine.json")
    assert [one.name for one in again.costs.protocols] == ["small", "large"]
    for size, time in (low[3], high[5]):
        assert abs(simulated(again, size, "ring") / time - 1) < Fraction(1, 500)


def test_alpha_gives_way_where_the_curve_leaves_no_room() -> None:
    points = curve(Fraction(0), 14, US / 2, Fraction(14, 8), 50 * 10**9, [2**k for k in range(16, 26)])
    found = calibrate(build("ring:8"), points, collective="all-reduce", algorithm="ring", alpha=2 * US)
    assert found.ranges[0].fixed == 0
    assert abs(float(found.ranges[0].alpha / US) - 0.5) < 1e-3
    assert "alpha is lowered" in found.notes[0]


def test_a_class_of_links_is_chosen_where_there_are_several() -> None:
    links = []
    for a, b, width in ((0, 1, 400), (1, 2, 25), (2, 3, 400), (3, 0, 25)):
        kind = "nvlink" if width == 400 else "nic"
        links += [Link(a, b, width * 10**9, US, 1, kind), Link(b, a, width * 10**9, US, 1, kind)]
    fabric = Fabric("two boxes", [Node("npu", f"g{k}") for k in range(4)], links)
    points = curve(Fraction(0), 6, US, Fraction(6, 4), 20 * 10**9, [2**k for k in range(20, 28)])
    with pytest.raises(InvalidInput, match="choose one with --class: 'nic', 'nvlink'"):
        calibrate(fabric, points, collective="all-reduce", algorithm="ring")
    found = calibrate(fabric, points, collective="all-reduce", algorithm="ring", link_class="nic")
    widths = {link.kind: link.bandwidth for link in found.fabric.links}
    assert widths["nvlink"] == 400 * 10**9
    assert abs(widths["nic"] / 20e9 - 1) < 1e-3


@pytest.mark.parametrize(
    ("points", "more", "message"),
    [
        (NVL72[:2], {}, "2 measurements are too few"),
        (NVL72[::-1], {}, "ascending size"),
        ([(n, 20 * US - n * US / 2**31) for n, _ in NVL72], {}, "do not grow with size"),
        (NVL72, {"ranks": 73}, "has 72 NPUs"),
        (NVL72, {"algorithm": "direct"}, "all-reduce by direct is not known"),
        (NVL72, {"link_class": "nvlnk"}, "unknown class of links"),
        (NVL72, {"protocols": 3}, "too few"),
        (NVL72, {"protocol": "ll", "protocols": 2}, "one range"),
        (NVL72, {"hold_out": 1}, "every second point at most"),
    ],
)
def test_what_cannot_be_fitted(points: Points, more: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"collective": "all-reduce", "algorithm": "ring", **more}
    with pytest.raises(InvalidInput, match=message):
        calibrate(build("nvl72"), points, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "planner", "measured"),
    [
        ("h100:8", "ring", 370),
        ("h100:8", "in-network", 480),
        ("h200:8", "in-network", 475),
        ("b200:8", "in-network", 830),
    ],
)
def test_parts_of_the_catalog_reach_what_was_measured(part: str, planner: str, measured: int) -> None:
    """Bus bandwidth of a large all-reduce in GB/s, within 10 %."""
    size = 8 * GI
    found = size / simulated(build(part), size, planner) * Fraction(14, 8) / 10**9
    assert abs(found / measured - 1) < Fraction(1, 10)
