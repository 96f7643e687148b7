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


def test_each_point_of_the_nvl72_curve_is_predicted_by_the_others() -> None:
    """Within 5 %, even where that is beyond the sizes of the fit."""
    found = calibrate(build("nvl72"), NVL72, collective="all-reduce", algorithm="ring")
    assert [point.size for point in found.held_out] == [size for size, _ in NVL72]
    assert max(abs(point.error) for point in found.held_out) <= 0.05


@pytest.mark.parametrize(
    ("left_out", "worst"),
    [((1, 2), 0.05), ((1, 3), 0.05), ((2, 3), 0.05), ((0, 1), 0.05), ((2, 4), 0.05), ((3, 4), 0.07), ((0, 4), 0.10)],
)
def test_two_points_of_the_nvl72_curve_are_predicted_by_three(left_out: tuple[int, int], worst: float) -> None:
    """Within 5 % between measured sizes; two octaves beyond them, or with both ends gone, it is up to 10 %."""
    three = [point for k, point in enumerate(NVL72) if k not in left_out]
    # A hub of 72 is fitted like the planes, only sooner.
    (only,) = calibrate(build("hub:72"), three, collective="all-reduce", algorithm="ring").ranges
    errors = [
        abs(float((only.fixed + 142 * only.alpha + Fraction(142, 72) * NVL72[k][0] / only.bandwidth) / NVL72[k][1]) - 1)
        for k in left_out
    ]
    assert max(errors) <= worst
    assert worst == 0.05 or max(errors) > 0.05


def test_a_held_out_point_is_not_seen() -> None:
    """A measurement that is far off is predicted as if it were not there."""
    curve = [(size, time * (2 if size == 2 * GI else 1)) for size, time in NVL72]
    found = calibrate(build("nvl72"), curve, collective="all-reduce", algorithm="ring")
    middle = found.held_out[2]
    assert abs(float(middle.predicted / NVL72[2][1]) - 1) < 0.05
    assert middle.error < -0.4


def test_the_calibrated_fabric_predicts() -> None:
    found = calibrate(build("nvl72"), NVL72, collective="all-reduce", algorithm="ring")
    assert parse_graph(write_graph(found.fabric), "mine.json") == found.fabric
    for point in (found.points[0], found.points[-1]):
        assert abs(simulated(found.fabric, point.size, "ring") / point.predicted - 1) < Fraction(1, 10**6)


def curve(fixed: Fraction, hops: int, alpha: Fraction, volume: Fraction, width: int, sizes: list[int]) -> Points:
    return [(size, fixed + hops * alpha + volume * size / width) for size in sizes]


@pytest.mark.parametrize(
    ("name", "collective", "algorithm", "hops", "volume", "planner"),
    [
        ("ring:8", "all-reduce", "ring", 14, Fraction(14, 8), "ring"),
        ("ring:8", "all-gather", "ring", 7, Fraction(7, 8), "ring"),
        ("h100:8", "reduce-scatter", "ring", 7, Fraction(7, 8), "ring"),
        ("nvl72", "all-reduce", "ring", 142, Fraction(142, 72), "ring"),
        ("hub:8", "all-to-all", "direct", 1, Fraction(7, 8), "direct"),
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


@pytest.mark.parametrize(
    ("name", "collective", "algorithm", "hops", "volume", "planner"),
    [
        ("ring:8", "broadcast", "ring", 7, Fraction(1), "chain"),
        ("h100:8", "all-reduce", "in-network", 1, Fraction(24, 17), "in-network"),
    ],
)
def test_pipelines_come_near_their_limit(
    name: str, collective: str, algorithm: str, hops: int, volume: Fraction, planner: str
) -> None:
    """The fit takes chunks as endlessly small; simulated ones take longer, the less the more bytes there are."""
    points = curve(40 * US, hops, 3 * US, volume, 30 * 10**9, [2**k for k in range(18, 31, 2)])
    found = calibrate(build(name), points, collective=collective, algorithm=algorithm, alpha=3 * US)
    assert found.worst < 1e-6
    size, time = points[-1]
    assert 1 <= simulated(found.fabric, size, planner, collective) / time < Fraction(103, 100)


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


RING_CURVE = curve(Fraction(0), 6, US, Fraction(6, 4), 20 * 10**9, [2**k for k in range(20, 28)])
"""All-reduce over 4 ranks: 1 us a hop, 20 GB/s."""


def ring_of(*kinds: tuple[str, int]) -> Fabric:
    """Return a ring of four, with the kind and GB/s of the links from each to the next; 1 us a link."""
    links = []
    for rank, (kind, width) in enumerate(kinds):
        ends = rank, (rank + 1) % 4
        links += [Link(*pair, width * 10**9, US, 1, kind) for pair in (ends, ends[::-1])]
    return Fabric("boxes", [Node("npu", f"g{k}") for k in range(4)], links)


BOXES = (("nvlink", 400), ("nic", 25)) * 2


def test_the_class_that_bounds_the_routes_is_fitted() -> None:
    for link_class in (None, "nic"):
        found = calibrate(ring_of(*BOXES), RING_CURVE, collective="all-reduce", algorithm="ring", link_class=link_class)
        assert found.link_class == "nic"
        widths = {link.kind: link.bandwidth for link in found.fabric.links}
        assert widths["nvlink"] == 400 * 10**9
        assert abs(widths["nic"] / 20e9 - 1) < 1e-3
        assert any("'nic' bounds them" in note for note in found.notes) == (link_class is None)


def test_an_unclear_class_is_refused() -> None:
    equal = ring_of(("nvlink", 25), ("nic", 25), ("nvlink", 25), ("nic", 25))
    with pytest.raises(InvalidInput, match="choose one with --class: 'nic', 'nvlink'"):
        calibrate(equal, RING_CURVE, collective="all-reduce", algorithm="ring")
    with pytest.raises(InvalidInput, match="more than the 15GB/s of 'nic' on the way"):
        calibrate(
            ring_of(("nvlink", 400), ("nic", 15), ("nvlink", 400), ("nic", 15)),
            RING_CURVE,
            collective="all-reduce",
            algorithm="ring",
            link_class="nvlink",
        )
    apart = ring_of(("nvlink", 400), ("nvlink", 400), ("nvlink", 400), ("nic", 25))
    fewer = curve(Fraction(0), 2, US, Fraction(1), 20 * 10**9, [2**k for k in range(20, 28)])
    with pytest.raises(InvalidInput, match="no neighbouring ranks are joined by 'nic'"):
        calibrate(apart, fewer, collective="all-reduce", algorithm="ring", ranks=2, link_class="nic")


def star(*kinds: tuple[str, int, Fraction]) -> Fabric:
    """Return four NPUs around a switch: kind, GB/s and latency of the links up, then down."""
    nodes = [*(Node("npu", f"g{k}") for k in range(4)), Node("switch", "s")]
    links = []
    for npu in range(4):
        for ends, (kind, width, latency) in zip(((npu, 4), (4, npu)), kinds, strict=True):
            links.append(Link(*ends, width * 10**9, latency, 1, kind))
    return Fabric("star", nodes, links)


def test_other_links_of_a_hop_keep_their_latency() -> None:
    """Alpha is of the whole hop: 8 us with 3 us on the way down leaves 5 us for the way up."""
    points = curve(Fraction(0), 6, 8 * US, Fraction(6, 4), 40 * 10**9, [2**k for k in range(12, 26)])
    fabric = star(("up", 50, US), ("down", 100, 3 * US))
    found = calibrate(fabric, points, collective="all-reduce", algorithm="ring", alpha=8 * US)
    assert {link.kind: link.latency for link in found.fabric.links} == {"up": 5 * US, "down": 3 * US}
    for size, time in points:
        assert abs(simulated(found.fabric, size, "ring") / time - 1) < Fraction(1, 10**5)
    with pytest.raises(InvalidInput, match="less than the 3us of the other links"):
        calibrate(fabric, points, collective="all-reduce", algorithm="ring", alpha=2 * US)


def test_latency_is_shared_out_where_there_is_none_now() -> None:
    points = curve(Fraction(0), 6, 8 * US, Fraction(6, 4), 40 * 10**9, [2**k for k in range(12, 26)])
    fabric = star(("", 50, Fraction(0)), ("", 50, Fraction(0)))
    found = calibrate(fabric, points, collective="all-reduce", algorithm="ring", alpha=8 * US)
    assert {link.latency for link in found.fabric.links} == {4 * US}


def test_links_of_a_class_keep_their_proportions() -> None:
    mixed = ring_of(("nvlink", 100), ("nvlink", 50), ("nvlink", 100), ("nvlink", 50))
    found = calibrate(mixed, RING_CURVE, collective="all-reduce", algorithm="ring")
    assert sorted({round(link.bandwidth / 1e9, 3) for link in found.fabric.links}) == [20, 40]
    with pytest.raises(InvalidInput, match="links of class 'nvlink' differ"):
        calibrate(mixed, RING_CURVE, collective="all-reduce", algorithm="ring", protocols=2)


def test_fewer_ranks_than_npus() -> None:
    points = curve(Fraction(0), 6, US, Fraction(6, 4), 20 * 10**9, [2**k for k in range(20, 28)])
    found = calibrate(build("h100:8"), points, collective="all-reduce", algorithm="ring", ranks=4, alpha=US)
    assert found.ranks == 4
    assert abs(found.ranges[0].bandwidth / 20e9 - 1) < 1e-3


def test_a_reader_is_told_what_the_fit_does_not_hold_for() -> None:
    points = curve(Fraction(0), 30, US, Fraction(30, 16), 20 * 10**9, [2**k for k in range(20, 28)])
    found = calibrate(build("torus:4x4"), points, collective="all-reduce", algorithm="ring", alpha=US)
    assert "ranks in order are 1 to 2 links apart" in found.notes[0]
    points = curve(Fraction(0), 14, US, Fraction(14, 8), 30 * 10**9, [2**k for k in range(20, 28)])
    dgx1 = calibrate(build("dgx1"), points, collective="all-reduce", algorithm="ring", alpha=US)
    assert any("routes prefer wide links" in note for note in dgx1.notes)


@pytest.mark.parametrize(("name", "told"), [("nvl72", True), ("h100:8", False)])
def test_a_reader_is_told_of_switching_that_changes(name: str, told: bool) -> None:
    found = calibrate(build(name), NVL72, collective="all-reduce", algorithm="ring")
    assert found.fabric.costs.switching == "cut-through"
    assert any("no longer store-forward" in note for note in found.notes) == told


def test_a_point_that_cannot_be_held_out_is_named() -> None:
    """Without its last point the lower range does not grow."""
    flat = [(2**k, Fraction(time) * US) for k, time in ((10, 11), (11, 10), (12, 15))]
    steep = curve(300 * US, 0, US, Fraction(14, 8), 40 * 10**9, [2**k for k in range(20, 25)])
    found = calibrate(build("ring:8"), [*flat, *steep], collective="all-reduce", algorithm="ring", protocols=2)
    assert 4096 not in [point.size for point in found.held_out]
    assert any(note.startswith("4096 bytes cannot be held out") for note in found.notes)


@pytest.mark.parametrize(
    ("points", "more", "message"),
    [
        (NVL72[:2], {}, "2 measurements are too few"),
        (NVL72[::-1], {}, "ascending size"),
        ([(n, 20 * US - n * US / 2**31) for n, _ in NVL72], {}, "do not grow with size"),
        (NVL72, {"ranks": 73}, "has 72 NPUs"),
        (NVL72, {"ranks": 1}, "a collective needs 2"),
        (NVL72, {"algorithm": "direct"}, "all-reduce by direct is not known: expected one of all-reduce by ring"),
        (NVL72, {"protocols": 4}, "1, 2 or 3 ranges"),
        ([(n, 20 * US) for n, _ in NVL72], {}, "do not grow with size"),
        ([(n, -t) for n, t in NVL72], {}, "greater than zero"),
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
    ("name", "collective", "algorithm", "message"),
    [
        ("full:8", "all-to-all", "direct", "leave over the same links"),
        ("ring:8", "all-reduce", "in-network", "nothing says that its switches reduce"),
    ],
)
def test_what_a_fabric_cannot_be_fitted_by(name: str, collective: str, algorithm: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        calibrate(build(name), NVL72, collective=collective, algorithm=algorithm)


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


def test_hops_that_wait_differently_are_told() -> None:
    """The fit takes every hop as slow as the slowest, and the simulated ring does not."""
    links = []
    for a, b, wait in ((0, 1, 1), (1, 2, 10), (2, 3, 1), (3, 0, 10)):
        links += [Link(*ends, 25 * 10**9, wait * US, 1, f"{wait}us") for ends in ((a, b), (b, a))]
    uneven = Fabric("two boxes", [Node("npu", f"g{k}") for k in range(4)], links)
    points = curve(40 * US, 6, 10 * US, Fraction(6, 4), 20 * 10**9, [2**k for k in range(14, 26)])
    found = calibrate(uneven, points, collective="all-reduce", algorithm="ring", link_class="10us")
    assert any("hops from rank to rank take 1us to 10us" in note for note in found.notes)
    assert simulated(found.fabric, 2**14, "ring") < found.points[0].predicted
    even = calibrate(build("h100:8"), points, collective="all-reduce", algorithm="ring")
    assert not any("hops from rank to rank" in note for note in even.notes)
