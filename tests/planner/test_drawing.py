"""Drawings show every worker once, at its seat, and every link with the load that the report states."""

from __future__ import annotations

import functools
import itertools
import math
import re
import sys
from fractions import Fraction
from html.parser import HTMLParser
from xml.etree import ElementTree

import msgspec
import pytest

from fabric_plan.planner import interface
from fabric_plan.planner.drawing import labels, layout, page, picture, png, shapes, svg, text, tiers
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Fabric, Link, Node
from fabric_plan.planner.plan import PlacementPlan
from fabric_plan.planner.problem import PlacementProblem

CASES = [
    ("mesh:4x5", "MP3-DP3-PP2"),
    ("mesh:2x3", "MP2-DP3"),
    ("ring:8", "MP4-PP2"),
    ("ring:8", "MP8"),
    ("ring:60", "MP12-DP5"),
    ("torus:6x6", "MP12-DP3"),
    ("torus:4x4x4", "MP4-DP4-PP4"),
    ("torus:2x3x2x2", "MP2-DP3-PP4"),
    ("full:8", "MP2-DP2-PP2"),
    ("dgx1", "MP4-DP2"),
    ("fred-20", "MP3-DP3-PP2"),
    ("nvl72", "MP8-DP3-PP3"),
    ("hub:16", "DP11"),
]
EVIL = "</text><script>alert(1)</script>\"'&\x1b[31m"
SVG = "{http://www.w3.org/2000/svg}"


@functools.cache
def planned(fabric: str | Fabric, strategy: str, workload: str | None = None) -> PlacementPlan:
    problem = PlacementProblem.of(fabric, strategy, workload=workload)
    plan = interface.plan(problem, planner="megatron")
    assert isinstance(plan, PlacementPlan)
    return plan


def wired(name: str, nodes: list[Node], pairs: list[tuple[int, int]]) -> Fabric:
    links = [Link(*ends, 10**9, Fraction(1, 10**6)) for a, b in pairs for ends in ((a, b), (b, a))]
    return Fabric(name, nodes, links)


def rails() -> Fabric:
    """Return two boxes of four GPUs with a switch each, a rail switch for each position, and one spine."""
    nodes = [Node("npu", f"gpu{g}") for g in range(8)]
    nodes += [Node("switch", f"box{b}") for b in range(2)] + [Node("switch", f"rail{r}") for r in range(4)]
    nodes += [Node("switch", "spine"), Node("switch", "unplugged")]
    pairs = [(g, 8 + g // 4) for g in range(8)] * 2 + [(g, 10 + g % 4) for g in range(8)]
    return wired("rails", nodes, pairs + [(10 + r, 14) for r in range(4)] + [(0, 1), (2, 3)])


def evil() -> Fabric:
    return wired(EVIL, [Node("npu", EVIL), Node("npu", "a,b\n"), Node("switch", EVIL)], [(0, 2), (1, 2)])


def names_of(plan: PlacementPlan) -> list[str]:
    strategy = plan.problem.strategy
    return [strategy.name(worker) for worker in range(strategy.workers)]


def groups(root: ElementTree.Element, role: str) -> list[ElementTree.Element]:
    return [one for one in root.iter(f"{SVG}g") if role in one.attrib.get("class", "").split()]


def title(element: ElementTree.Element) -> str:
    return element.findtext(f"{SVG}title") or ""


@pytest.fixture(params=CASES, ids=lambda case: "-".join(case))
def plan(request: pytest.FixtureRequest) -> PlacementPlan:
    return planned(*request.param)


def test_svg_shows_each_worker_once(plan: PlacementPlan) -> None:
    root = ElementTree.fromstring(svg.write_svg(plan))
    words = [one.text for one in root.iter(f"{SVG}text") if one.attrib["class"] == "fp-worker"]
    assert sorted(map(str, words)) == sorted(names_of(plan))
    taken = [title(one) for one in groups(root, "fp-cell") if "rank" in title(one)]
    assert len(taken) == len(plan.seats)
    for rank, seat in enumerate(plan.seats):
        assert sum(f"rank {rank}, seat {seat}" in re.split(r" \(|$", one)[0] for one in taken) == 1


def test_worker_stands_in_its_seats_cell(plan: PlacementPlan) -> None:
    scene = picture.scene(plan)
    by_name = {one.text: one.at for one in scene.words if one.role == "worker"}
    for rank, (name, seat) in enumerate(zip(names_of(plan), plan.seats, strict=True)):
        cell = next(one for one in scene.cells if re.search(rf": rank {rank}, seat {seat}\b", one.title))
        assert math.dist(cell.middle, by_name[name]) < 6


@pytest.mark.parametrize("phase", ["all", "mp", "dp", "pp"])
def test_strokes_carry_the_loads_of_the_phase(phase: str) -> None:
    plan = planned("mesh:4x5", "MP3-DP3-PP2")
    found = labels.phase_of(plan, phase)
    root = ElementTree.fromstring(svg.write_svg(plan, phase=phase))
    drawn = [one for one in groups(root, "fp-link") if "fp-sample" not in one.attrib["class"].split()]
    shown = {title(one).split(": ")[0]: Fraction(one.attrib.get("data-load", "0")) for one in drawn}
    fabric = plan.problem.fabric
    stated = dict(zip(found.links, found.loads, strict=True))
    assert shown == {fabric.link_name(index): stated.get(index, 0) for index in range(len(fabric.links))}
    assert all(title(one).endswith(": idle") == ("data-load" not in one.attrib) for one in drawn)


def test_every_link_is_drawn_once_with_the_largest_load_of_its_wire(plan: PlacementPlan) -> None:
    scene = picture.scene(plan)
    stated = labels.loads_of(labels.phase_of(plan))
    drawn = [link for stroke in scene.strokes for link in stroke.links]
    assert len(drawn) == len(set(drawn))
    assert set(stated) <= set(drawn)
    for stroke in scene.strokes:
        assert stroke.load == max(stated.get(link, Fraction(0)) for link in stroke.links)
        assert bool(stroke.heads) == bool(stroke.load)


def test_heavier_strokes_are_wider_and_lie_on_top(plan: PlacementPlan) -> None:
    strokes = picture.scene(plan).strokes
    for a, b in itertools.pairwise(strokes):
        assert a.load <= b.load
        assert (a.load < b.load) == (a.width < b.width)


def test_strokes_leave_their_source_and_arrive_at_their_target(plan: PlacementPlan) -> None:
    fabric = plan.problem.fabric
    drawing = layout.lay_out(fabric, 4)
    reach = math.hypot(*drawing.cell) / 2 + 10
    seat_of = {node: seat for seat, node in enumerate(fabric.seats)}
    for wire in drawing.wires:
        link = fabric.links[wire.links[0]]
        for node, point in ((link.source, wire.curves[0].start), (link.target, wire.curves[-1].end)):
            if node in seat_of:
                assert math.dist(point, drawing.seats[seat_of[node]]) < reach


def test_the_two_directions_of_a_cable_lie_apart(plan: PlacementPlan) -> None:
    strokes = [one for one in picture.scene(plan).strokes if one.load]
    ends = [(stroke.curves[0].start, stroke.heads[-1][0]) for stroke in strokes]
    for (a, b), (c, d) in itertools.combinations(ends, 2):
        assert math.dist(a, d) + math.dist(b, c) > 2


def test_nothing_overlaps_and_nothing_is_cut_off(plan: PlacementPlan) -> None:
    scene = picture.scene(plan)
    cells = [one for one in scene.cells if one.size[0] > 20]
    assert len(cells) == len(plan.problem.fabric.seats)
    for a, b in itertools.combinations(cells, 2):
        apart = abs(a.middle[0] - b.middle[0]) >= a.size[0], abs(a.middle[1] - b.middle[1]) >= a.size[1]
        assert any(apart)
    points = [point for stroke in scene.strokes for curve in stroke.curves for point in (curve.start, curve.end)]
    points += [(x + side * width, y) for bar in scene.bars for x, y, width, _ in bar.rectangles for side in (0, 1)]
    points += [(x + side * one.size[0] / 2, y) for one in scene.cells for x, y in [one.middle] for side in (-1, 1)]
    points += [one.at for one in scene.words]
    assert all(0 < x < scene.width and 0 < y < scene.height for x, y in points)


def test_planes_of_nvl72_are_one_box() -> None:
    plan = planned("nvl72", "MP8-DP3-PP3")
    scene = picture.scene(plan)
    assert len(scene.bars) == 1
    assert len(scene.strokes) == 2 * 72
    assert all(len(stroke.links) == 18 for stroke in scene.strokes)
    assert max(stroke.load for stroke in scene.strokes) == labels.phase_of(plan).max_load
    assert any("18 switches" in one.text for one in scene.words)


def test_tiers_of_fred() -> None:
    found = tiers.tiers(planned("fred-20", "MP3-DP3-PP2").problem.fabric)
    assert sorted(found.levels) == [1, 1, 1, 1, 1, 2]
    assert [block.seats for block in found.blocks] == [tuple(range(4 * k, 4 * k + 4)) for k in range(5)]
    assert found.hidden == 18


def test_rails_lie_below_and_the_spine_above_the_seats() -> None:
    plan = planned(rails(), "MP4-DP2")
    found = tiers.tiers(plan.problem.fabric)
    assert [block.seats for block in found.blocks] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert found.hidden == 1
    drawing = layout.lay_out(plan.problem.fabric, 2)
    heights = {bar.label: bar.rectangles[0][1] for bar in drawing.bars}
    seats = {y for _, y in drawing.seats}
    assert len(seats) == 1
    assert heights["spine"] < heights["box0"] == heights["box1"] < seats.pop() < heights["rail0"]
    root = ElementTree.fromstring(svg.write_svg(plan))
    # Parallel links are one wire: 16 + 8 cables to switches, 4 to the spine, 2 between GPUs, two directions each.
    assert len([one for one in groups(root, "fp-link") if "fp-sample" not in one.attrib["class"]]) == 2 * (
        8 + 8 + 4 + 2
    )


def test_a_link_across_a_grid_is_a_bow() -> None:
    nodes = [Node("npu", f"npu{n}") for n in range(9)]
    pairs = [(n, n + 1) for n in range(9) if n % 3 < 2] + [(n, n + 3) for n in range(6)] + [(0, 8)]
    links = [Link(*ends, 10**9, Fraction(0)) for a, b in pairs for ends in ((a, b), (b, a))]
    drawing = layout.lay_out(Fabric("express", nodes, links, shape=(3, 3)), 2)
    bows = [wire for wire in drawing.wires if wire.curves[0].control is not None]
    assert [(links[wire.links[0]].source, links[wire.links[0]].target) for wire in bows] == [(0, 8), (8, 0)]
    assert drawing.notes == ()


def test_wraps_and_slices_are_short_ends() -> None:
    drawing = layout.lay_out(planned("torus:4x4x4", "MP4-DP4-PP4").problem.fabric, 3)
    stubs = [wire for wire in drawing.wires if len(wire.curves) == 2]
    # Along the slowest axis all 128 links, along the two others the 32 each that wrap.
    assert len(stubs) == 128 + 2 * 32
    assert [one.text for one in drawing.captions] == ["0,*,*", "1,*,*", "2,*,*", "3,*,*"]
    longest = max(math.dist(curve.start, curve.end) for wire in drawing.wires for curve in wire.curves)
    assert longest < 100


def test_short_ends_point_the_way_the_link_goes() -> None:
    fabric = planned("torus:4x4x4", "MP4-DP4-PP4").problem.fabric
    drawing = layout.lay_out(fabric, 3)
    ways = {(1, 0): (3, 0), (0, 1): (12, 0), (1, -1): (48, 0)}  # right, down, up to the right: the last to the first
    curves = {(fabric.links[w.links[0]].source, fabric.links[w.links[0]].target): w.curves for w in drawing.wires}
    for way, (last, first) in ways.items():
        for sign, ends in ((1, (last, first)), (-1, (first, last))):
            for curve in curves[ends]:
                moved = (curve.end[0] - curve.start[0], curve.end[1] - curve.start[1])
                assert [round(m / 100, 1) and math.copysign(1, m) for m in moved] == [sign * w for w in way]
            (x, y), start = drawing.seats[ends[0]], curves[ends][0].start
            assert (start[0] - x) * sign * way[0] + (start[1] - y) * sign * way[1] > 0


def test_folded_links_show_the_hottest_of_them() -> None:
    plan = planned("nvl72", "MP8-DP3-PP3")
    assert plan.report is not None
    together = plan.report.together
    doubled = msgspec.structs.replace(
        together, loads=(together.loads[0] * 2, *together.loads[1:]), max_load=together.loads[0] * 2
    )
    report = msgspec.structs.replace(plan.report, together=doubled)
    strokes = picture.scene(msgspec.structs.replace(plan, report=report)).strokes
    hot = [stroke for stroke in strokes if together.links[0] in stroke.links]
    assert [stroke.load for stroke in hot] == [doubled.max_load]


def test_title_states_the_certificate() -> None:
    plan = planned("mesh:4x5", "MP3-DP3-PP2")
    certificate = plan.certificate
    words = " ".join(one.text for one in picture.scene(plan).words)
    assert f"{certificate.status.value}: congestion {certificate.objective} flows" in words
    assert f"proven bound {certificate.bound}" in words
    assert "PP alone: largest link load" in " ".join(one.text for one in picture.scene(plan, phase="pp").words)


def test_colours() -> None:
    assert len({shapes.stage_colour(digit) for digit in range(64)}) == 64
    assert shapes.heat(1.0) != shapes.heat(0.5) != shapes.heat(0.1)
    stages = {one.colour for one in picture.scene(planned("mesh:4x5", "MP3-DP3-PP2")).cells}
    assert stages == {shapes.stage_colour(0), shapes.stage_colour(1), None}


def test_colour_dimension() -> None:
    from fabric_plan.planner.parallelism import Strategy

    expected = {"MP3-DP3-PP2": "pp", "MP3-DP3-PP1": "dp", "MP8": None, "PP8": "pp", "MP1": None}
    assert {name: labels.colour_dimension(Strategy.parse(name)) for name in expected} == expected


# Text


def test_text_shows_each_worker_once(plan: PlacementPlan) -> None:
    drawn = text.grid(plan, width=120)
    # The notes below the drawing name links, and with them other numbers.
    seats = re.split(r"\n(?:on the links|largest load|no link)", drawn)[0]
    names = names_of(plan)
    one_dimension = len(plan.problem.strategy.dimensions) == 1
    tokens = re.findall(r"\[([0-9]+)\]", seats) if one_dimension else re.split(r"[─\s]+", seats)
    assert sorted(token for token in tokens if token in set(names)) == sorted(names)
    assert seats.count(text.SPARE) == len(plan.problem.fabric.seats) - len(names)
    assert max(map(len, drawn.splitlines())) <= 120


def test_text_of_a_small_grid() -> None:
    assert text.grid(planned("mesh:2x2", "MP2-DP2")).splitlines()[:3] == ["00─1─10", "1    1", "01─1─11"]


def test_text_of_a_mesh_is_seven_lines_and_a_note() -> None:
    plan = planned("mesh:4x5", "MP3-DP3-PP2")
    lines = text.grid(plan).splitlines()
    assert len(lines) == 8
    loads = labels.loads_of(labels.phase_of(plan))
    largest = {}
    for index, link in enumerate(plan.problem.fabric.links):
        ends = tuple(sorted((link.source, link.target)))
        largest[ends] = max(largest.get(ends, Fraction(0)), loads.get(index, Fraction(0)))
    first = re.sub(r"[0-9]{3}", "", lines[0]).replace("─", " ").split()
    assert first == [str(largest[c, c + 1]) for c in range(4)]
    assert lines[1].split() == [str(largest[c, c + 5] or "│") for c in range(5)]


def test_text_in_percent_never_looks_like_a_worker() -> None:
    plan = planned("mesh:4x5", "MP3-DP3-PP2", "transformer-17b")
    drawn = text.grid(plan)
    assert "─max─" in drawn
    assert drawn.count("100") == 1
    assert "% of the largest load" in drawn


def test_text_of_a_torus_has_slices() -> None:
    drawn = text.grid(planned("torus:4x4x4", "MP4-DP4-PP4"))
    assert [f"{k},*,*" in drawn for k in range(5)] == [True, True, True, True, False]


def test_text_marks_the_hottest_links_only_where_asked() -> None:
    plan = planned("mesh:4x5", "MP3-DP3-PP2")
    styled, bare = text.grid(plan, styled=True), text.grid(plan)
    assert re.sub(r"\x1b\[[0-9;]*m", "", styled) == bare
    largest = str(labels.phase_of(plan).max_load)
    marked = re.findall(r"\x1b\[1;31m[─ ]*([^─ \x1b]*)[─ ]*\x1b\[0m", styled)
    assert marked
    assert set(marked) == {largest}


def test_text_says_why_it_does_not_draw() -> None:
    assert "columns" in text.grid(planned("mesh:4x5", "MP3-DP3-PP2"), width=12)
    assert "links do not fit" in text.grid(planned("mesh:4x5", "MP3-DP3-PP2"), width=24)
    assert "420 NPUs" in text.grid(planned("mesh:20x21", "MP2"))


def test_text_in_ascii() -> None:
    plan = planned("fred-20", "MP3-DP3-PP2")
    assert text.plain(text.grid(plan)).isascii()
    assert text.plain(text.grid(planned("mesh:4x5", "MP3-DP3-PP2"))).isascii()


# HTML


class _Reader(HTMLParser):
    """Collects the tags of a page, and whether they close as they open."""

    VOID = frozenset({"meta", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(html: bytes) -> _Reader:
    reader = _Reader()
    reader.feed(html.decode())
    assert reader.open == []
    return reader


def test_page_needs_nothing_else(plan: PlacementPlan) -> None:
    html = page.write_page(plan)
    assert set(re.findall(rb"[a-z]+://[^\"'\s]*", html)) == {b"http://www.w3.org/2000/svg"}
    tags = read(html).tags
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in tags}
    assert not {"src", "href", "xlink:href"} & {name for _, attributes in tags for name in attributes}
    assert b"@import" not in html
    assert b"url(" not in html


def test_page_states_certificate_phases_and_problem() -> None:
    plan = planned("mesh:4x5", "MP3-DP3-PP2")
    html = page.write_page(plan).decode()
    assert plan.report is not None
    for line in plan.certificate.proof:
        assert page.escape(line) in html
    for phase in plan.report.phases:
        assert f"<td>{phase.name.upper()}</td><td class=n>{phase.max_load}</td>" in html
    assert f"<strong>{plan.certificate.status.value}</strong>" in html
    assert "mesh:4x5: 20 NPUs" in html
    assert html.count("<svg") == 1 + len(plan.report.phases)
    assert page.write_page(plan, phase="dp").count(b"<svg") == 1


def test_page_lists_the_largest_loads_first() -> None:
    plan = planned("nvl72", "MP8-DP3-PP3")
    html = page.write_page(plan).decode()
    table = html[html.index("Link loads") :]
    assert table.count('<td class=n>1/6</td><td class=bar><i style="width:100%">') == page.MOST_LINKS
    assert f"{len(labels.phase_of(plan).links) - page.MOST_LINKS:,} more links" in table


def test_page_lists_baselines() -> None:
    from fabric_plan.planner.plan import Baseline

    rows = (Baseline(name="worse", value=Fraction(9)), Baseline(name="better", value=Fraction(7, 2), note=EVIL))
    plan = msgspec.structs.replace(planned("mesh:4x5", "MP3-DP3-PP2"), baselines=rows)
    html = page.write_page(plan).decode()
    assert html.index("<td>better</td><td class=n>3.5 (7/2)</td>") < html.index("<td>worse</td><td class=n>9</td>")
    assert "<script" not in html


def test_names_from_files_are_only_text() -> None:
    plan = planned(evil(), "MP2")
    root = ElementTree.fromstring(svg.write_svg(plan))
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>alert(1)</script>" in (one.text or "") for one in root.iter(f"{SVG}text"))
    html = page.write_page(plan)
    assert "script" not in {tag for tag, _ in read(html).tags}
    assert b"\x1b" not in html
    assert "\x1b" not in text.grid(plan)


# Errors


def test_unknown_phase_names_the_known_ones() -> None:
    plan = planned("mesh:4x5", "MP3-DP3-PP2")
    for draw in (svg.write_svg, page.write_page, text.grid):
        with pytest.raises(InvalidInput, match="expected all, mp, dp, pp"):
            draw(plan, phase="ep")  # type: ignore[operator]


def test_a_plan_that_was_not_simulated_is_refused() -> None:
    plan = msgspec.structs.replace(planned("mesh:4x5", "MP3-DP3-PP2"), report=None)
    with pytest.raises(InvalidInput, match="validate"):
        svg.write_svg(plan)


def test_pictures_that_nobody_could_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned("mesh:4x5", "MP3-DP3-PP2")
    monkeypatch.setattr(picture, "MAX_STROKES", 10)
    with pytest.raises(InvalidInput, match="links that carry traffic are too many"):
        svg.write_svg(plan)
    monkeypatch.setattr(picture, "MAX_SEATS", 19)
    with pytest.raises(InvalidInput, match="20 NPUs are too many"):
        svg.write_svg(plan)


def test_idle_links_are_left_out_of_crowded_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned("mesh:4x5", "MP3-DP3-PP2")
    assert any(not stroke.load for stroke in picture.scene(plan).strokes)
    monkeypatch.setattr(picture, "MAX_IDLE", 10)
    assert all(stroke.load for stroke in picture.scene(plan).strokes)
    assert any("left out" in one.text for one in picture.scene(plan).words)


def test_nothing_to_communicate() -> None:
    plan = planned("mesh:2x2", "MP1")
    assert "no link carries anything" in text.grid(plan)
    ElementTree.fromstring(svg.write_svg(plan))
    read(page.write_page(plan))


# PNG


@pytest.mark.parametrize("case", [CASES[0], CASES[6], CASES[10]], ids=lambda case: case[0])
def test_png_is_an_image_and_the_same_each_time(case: tuple[str, str]) -> None:
    pytest.importorskip("matplotlib")
    plan = planned(*case)
    data = png.write_png(plan)
    scene = picture.scene(plan)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    assert width / height == pytest.approx(scene.width / scene.height, rel=0.01)
    assert data == png.write_png(plan)


def test_png_without_matplotlib_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InvalidInput, match=r"fabric-plan\[plot\]"):
        png.write_png(planned("mesh:4x5", "MP3-DP3-PP2"))


def test_drawing_loads_neither_a_solver_nor_matplotlib() -> None:
    import subprocess

    code = (
        "import sys; from fabric_plan.planner.drawing import page, picture, png, svg, text;"
        "print([name for name in ('ortools', 'matplotlib', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
