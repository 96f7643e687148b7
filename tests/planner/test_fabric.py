from __future__ import annotations

import itertools
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
import random_problems
import reference

from fabric_plan.planner.catalog import CATALOG, build
from fabric_plan.planner.costs import Costs, Protocol
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Fabric, Link, Node, coordinates, orbits, seat_at
from fabric_plan.planner.formats import graph_json

GB = 10**9

MESHES = [
    "mesh:1x1",
    "mesh:1x2",
    "mesh:2x2",
    "mesh:1x6",
    "mesh:6x1",
    "mesh:3x4",
    "mesh:4x5",
    "mesh:2x3x4",
    "mesh:2x1x3",
    "mesh:2x2x2x2",
]
TORI = [
    "ring:1",
    "ring:2",
    "ring:3",
    "ring:4",
    "ring:5",
    "ring:8",
    "torus:2x2",
    "torus:2x3",
    "torus:3x2",
    "torus:3x3",
    "torus:4x4",
    "torus:3x5",
    "torus:4x1",
    "torus:1x6",
    "torus:2x3x4",
    "torus:4x2x3",
    "torus:2x2x2",
]
PARTS = ["a100:8", "h100:2", "b200:8"]
OTHERS = ["full:1", "full:2", "full:5", "hub:1", "hub:2", "hub:7", "dgx1", "nvl72", "fred-20", *PARTS]


def pairs(fabric: Fabric, most: int = 5000) -> list[tuple[int, int]]:
    """Return all pairs of different seats, or a sample of them."""
    found = list(itertools.permutations(range(len(fabric.seats)), 2))
    return found if len(found) <= most else random.Random(0).sample(found, most)


def ends(fabric: Fabric, path) -> list[tuple[int, int]]:
    return [(fabric.links[link].source, fabric.links[link].target) for link in path]


# Routes


@pytest.mark.parametrize("name", MESHES + TORI)
def test_grid_routes_are_dimension_order(name: str) -> None:
    fabric = build(name)
    for s, t in pairs(fabric):
        assert [list(path) for path in fabric.route(s, t)] == reference.paths_of(fabric, s, t), (s, t)


@pytest.mark.parametrize("seed", range(12))
def test_routes_of_random_graphs_are_the_best_paths(seed: int) -> None:
    source = random.Random(seed)
    fabric = random_problems.fabric(source)
    for s, t in pairs(fabric):
        expected = reference.paths_of(fabric, s, t)
        if expected:
            assert [list(path) for path in fabric.route(s, t)] == expected, (fabric, s, t)
        else:
            with pytest.raises(InvalidInput, match="no path from seat"):
                fabric.route(s, t)


@pytest.mark.parametrize("name", ["dgx1", "fred-20", "full:5", "hub:6"])
def test_where_paths_tie_the_route_is_one_of_the_best(name: str) -> None:
    fabric = build(name)
    for s, t in pairs(fabric):
        (path,) = fabric.route(s, t)
        assert list(path) in reference.best_paths(fabric, s, t)


def test_equal_paths_of_a_cube_are_all_used() -> None:
    links = [Link(a, a ^ bit, GB, Fraction(0)) for a in range(8) for bit in (1, 2, 4)]
    cube = Fabric("cube", [Node("npu", f"n{k}") for k in range(8)], links)
    for s, t in pairs(cube):
        assert list(cube.route(s, t)[0]) in reference.best_paths(cube, s, t)
    used = Counter(link for s, t in pairs(cube) for link in cube.route(s, t)[0])
    assert set(used) == set(range(24))
    assert max(used.values()) <= 1.5 * sum(used.values()) / 24


def test_routing_does_not_depend_on_where_other_nodes_stand_in_the_file() -> None:
    """A host listed before the NPUs shifts node ids away from seats; the grid's routes stay what they are."""
    mesh = build("mesh:2x3")
    links = [Link(link.source + 1, link.target + 1, link.bandwidth, link.latency) for link in mesh.links]
    links += [Link(0, 1, GB, Fraction(0)), Link(1, 0, GB, Fraction(0))]
    moved = Fabric("hosted", [Node("io", "host"), *mesh.nodes], links, "xy", shape=(2, 3))
    for s, t in pairs(mesh):
        assert moved.route(s, t) == mesh.route(s, t), (s, t)


def test_links_of_a_grid_are_named_by_position_wherever_the_nodes_stand() -> None:
    mesh = build("mesh:2x2")
    links = [Link(link.source + 1, link.target + 1, link.bandwidth, link.latency) for link in mesh.links]
    moved = Fabric("hosted", [Node("io", "host"), *mesh.nodes], links, "xy", shape=(2, 2))
    assert [moved.link_name(k) for k in range(len(links))] == [mesh.link_name(k) for k in range(len(links))]


def test_planes_stripe_over_every_shared_plane() -> None:
    fabric = build("nvl72")
    route = fabric.route(5, 60)
    assert len(route) == 18
    assert [list(path) for path in route] == reference.paths_of(fabric, 5, 60)
    assert {ends(fabric, path)[0][1] for path in route} == set(range(72, 90))


def test_a_torus_goes_up_on_a_tie() -> None:
    ring = build("ring:4")
    assert [ends(ring, path) for path in ring.route(0, 2)] == [[(0, 1), (1, 2)]]
    assert [ends(ring, path) for path in ring.route(3, 1)] == [[(3, 0), (0, 1)]]


def test_a_mesh_goes_along_the_row_first() -> None:
    mesh = build("mesh:3x3")
    assert [ends(mesh, path) for path in mesh.route(0, 8)] == [[(0, 1), (1, 2), (2, 5), (5, 8)]]


def test_up_down_never_climbs_again_and_never_relays_at_an_npu() -> None:
    nodes = [Node("npu", f"n{k}") for k in range(4)] + [Node("switch", "a"), Node("switch", "b"), Node("switch", "top")]
    both = [(0, 4), (1, 4), (1, 5), (2, 5), (3, 5), (4, 6)]
    links = [Link(*end, GB, Fraction(0)) for a, b in both for end in ((a, b), (b, a))]
    with pytest.raises(InvalidInput, match="no path"):
        Fabric("tree", nodes, links, "up-down").route(0, 2)
    relayed = Fabric("tree", nodes, links, "shortest").route(0, 2)
    assert ends(Fabric("tree", nodes, links), relayed[0]) == [(0, 4), (4, 1), (1, 5), (5, 2)]


def test_wider_of_two_equally_short_paths() -> None:
    nodes = [Node("npu", "a"), Node("npu", "b"), Node("switch", "x"), Node("switch", "y")]
    links = [
        Link(0, 2, 5, Fraction(0)),
        Link(2, 1, 9, Fraction(0)),
        Link(0, 3, 7, Fraction(0)),
        Link(3, 1, 6, Fraction(0)),
    ]
    assert Fabric("f", nodes, links).route(0, 1) == ((2, 3),)


def test_a_longer_path_over_switches_beats_a_relaying_npu() -> None:
    nodes = [Node("npu", "a"), Node("npu", "b"), Node("npu", "c"), *[Node("switch", f"s{k}") for k in range(3)]]
    links = [Link(0, 2, 9, Fraction(0)), Link(2, 1, 9, Fraction(0))]
    links += [Link(a, b, 1, Fraction(0)) for a, b in ((0, 3), (3, 4), (4, 5), (5, 1))]
    assert Fabric("f", nodes, links).route(0, 1) == ((2, 3, 4, 5),)


# Symmetries


@pytest.mark.parametrize("name", MESHES + TORI + OTHERS)
def test_declared_symmetries_keep_links_and_routes(name: str) -> None:
    fabric = build(name)
    between = {(link.source, link.target): link for link in fabric.links}
    assert len(between) == len(fabric.links)
    for image in fabric.symmetries:
        assert sorted(image) == list(range(len(fabric.nodes)))
        for node, moved in enumerate(image):
            assert fabric.nodes[node].kind == fabric.nodes[moved].kind
        for link in fabric.links:
            other = between[image[link.source], image[link.target]]
            assert (other.bandwidth, other.latency, other.multiplicity) == (
                link.bandwidth,
                link.latency,
                link.multiplicity,
            )
    for image, seats in zip(fabric.symmetries, fabric.seat_symmetries, strict=True):
        for s, t in pairs(fabric, 700):
            here = [[(image[a], image[b]) for a, b in ends(fabric, path)] for path in fabric.route(s, t)]
            there = [ends(fabric, path) for path in fabric.route(seats[s], seats[t])]
            assert sorted(here) == sorted(there), (image, s, t)


@pytest.mark.parametrize(
    ("name", "classes"),
    [("mesh:4x5", 6), ("mesh:2x2", 1), ("torus:4x4", 1), ("ring:7", 1), ("full:5", 1), ("nvl72", 1), ("fred-20", 2)],
)
def test_orbits_are_as_coarse_as_the_symmetries_allow(name: str, classes: int) -> None:
    assert len(set(build(name).seat_orbits)) == classes


def test_orbits_name_the_least_member() -> None:
    assert orbits(6, [(0, 2, 1, 4, 5, 3)]) == (0, 1, 1, 3, 3, 3)
    assert orbits(3, []) == (0, 1, 2)


# The catalog


@pytest.mark.parametrize("name", MESHES + TORI)
def test_grids_have_the_links_of_a_grid(name: str) -> None:
    fabric = build(name)
    wraps = not name.startswith("mesh")
    expected = set()
    for a, b in itertools.permutations(range(len(fabric.seats)), 2):
        apart = [
            abs(p - q)
            for p, q in zip(reference.position(a, fabric.shape), reference.position(b, fabric.shape), strict=True)
        ]
        if wraps:
            apart = [min(d, side - d) for d, side in zip(apart, fabric.shape, strict=True)]
        if sum(apart) == 1:
            expected.add((a, b))
    assert sorted(expected) == sorted((link.source, link.target) for link in fabric.links)


@pytest.mark.parametrize("name", [entry.example for entry in CATALOG.values()])
def test_a_catalog_name_rebuilds_its_fabric(name: str) -> None:
    fabric = build(name)
    assert fabric.in_catalog
    assert build(fabric.name) == fabric
    assert build(f"  {name.upper()} ") == fabric


def test_figures_of_the_catalog() -> None:
    mesh, torus, nvl72, dgx1, fred = (build(n) for n in ("mesh:4x5", "torus:4x4", "nvl72", "dgx1", "fred-20"))
    assert {(link.bandwidth, link.latency) for link in mesh.links} == {(750 * GB, Fraction(20, 10**9))}
    assert {(link.bandwidth, link.latency) for link in torus.links} == {(50 * GB, Fraction(1, 2 * 10**6))}
    for node in range(72):
        assert sum(nvl72.links[link].bandwidth for link in nvl72.outgoing[node]) == 900 * GB
    for node in range(8):
        assert sum(dgx1.links[link].multiplicity for link in dgx1.outgoing[node]) == 6
        assert sum(dgx1.links[link].bandwidth for link in dgx1.outgoing[node]) == 150 * GB
    assert Counter(node.kind for node in fred.nodes) == {"npu": 20, "switch": 6, "io": 18}
    for leaf in range(20, 25):
        below = [link for link in fred.incoming[leaf] if fred.links[link].source < 20]
        assert len(below) == 4
        assert sum(fred.links[link].bandwidth for link in below) == 12000 * GB


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("h100:9", "at most 8 GPUs"),
        ("b200", "expected b200:N"),
        ("mash:4x5", "did you mean mesh"),
        ("mesh", "expected mesh:RxC"),
        ("mesh:4", "expected mesh:RxC"),
        ("mesh:4x", "expected mesh:RxC"),
        ("mesh:0x4", "at least 1"),
        ("ring:4x4", "expected ring:N"),
        ("dgx1:2", "takes no size"),
        ("mesh:1000000x1000000", "more than can be built"),
        ("full:100000", "more than can be built"),
        ("", "unknown fabric"),
    ],
)
def test_bad_names(name: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        build(name)
    assert reason in str(caught.value)


def test_a_size_of_very_many_digits_is_an_error_of_the_input() -> None:
    with pytest.raises(InvalidInput):
        build("ring:" + "9" * 5000)


def test_coordinates_are_row_major() -> None:
    assert coordinates(7, (4, 5)) == (1, 2)
    for seat in range(24):
        assert list(coordinates(seat, (2, 3, 4))) == reference.position(seat, (2, 3, 4))
        assert seat_at(coordinates(seat, (2, 3, 4)), (2, 3, 4)) == seat


def test_names_of_seats_and_links() -> None:
    assert build("mesh:4x5").seat_name(7) == "1,2"
    assert build("mesh:4x5").link_name(0) == "(0,0)->(0,1)"
    assert build("dgx1").seat_name(3) == "gpu3"
    assert build("nvl72").link_name(0) == "gpu0->plane0"


def test_distance_and_diameter() -> None:
    mesh = build("mesh:4x5")
    assert mesh.distance(0, 19) == 7
    assert mesh.distance(3, 3) == 0
    assert mesh.diameter() == 7
    assert build("torus:4x4").diameter() == 4
    apart = Fabric("apart", [Node("npu", "a"), Node("npu", "b")], [])
    assert apart.diameter() is None


@pytest.mark.parametrize(
    ("links", "reason"),
    [
        ([Link(0, 5, 1, Fraction(0))], "no such node"),
        ([Link(-1, 0, 1, Fraction(0))], "no such node"),
        ([Link(1, 1, 1, Fraction(0))], "two different nodes"),
        ([Link(0, 1, 0, Fraction(0))], "bandwidth must be greater"),
        ([Link(0, 1, 1, Fraction(-1))], "latency must not be negative"),
        ([Link(0, 1, 1, Fraction(0), 0)], "number of parallel links"),
    ],
)
def test_links_are_checked(links: list[Link], reason: str) -> None:
    with pytest.raises(InvalidInput, match="fabric bad: link 0") as caught:
        Fabric("bad", [Node("npu", "a"), Node("npu", "b")], links)
    assert reason in str(caught.value)


def test_nodes_are_checked() -> None:
    with pytest.raises(InvalidInput, match="unknown kind 'tpu'"):
        Fabric("bad", [Node("tpu", "a")], [])
    with pytest.raises(InvalidInput, match="no NPU"):
        Fabric("bad", [Node("switch", "a")], [])
    with pytest.raises(InvalidInput, match="unknown routing rule"):
        Fabric("bad", [Node("npu", "a"), Node("npu", "b")], [], "hot-potato").route(0, 1)


# Costs and protocols


@pytest.mark.parametrize(
    ("name", "usable", "share"),
    [
        ("a100:8", 240, None),
        ("h100:8", Fraction("370.8"), Fraction(17, 24)),
        ("h200:4", Fraction("370.8"), Fraction(17, 24)),
        ("b200:8", Fraction("721.8"), Fraction(37, 60)),
    ],
)
def test_parts_have_the_figures_of_their_source(name: str, usable: Fraction, share: Fraction | None) -> None:
    part = build(name)
    assert {link.bandwidth for link in part.links} == {usable * GB}
    assert sum(part.links[link].latency for link in part.route(0, 1)[0]) == Fraction(34, 10**7)
    assert part.costs.in_network == share


def test_which_switches_reduce() -> None:
    for name in ("nvl72", "hub:5", "fred-20"):
        assert build(name).costs.in_network == 1
    for name in ("mesh:2x3", "ring:4", "full:3", "dgx1", "a100:8"):
        assert build(name).costs.in_network is None


def two_kinds(costs: Costs | None = None, **kinds: str) -> Fabric:
    """Return two NPUs under a switch: one on links of 50 GB/s, one on links of 200 GB/s."""
    nodes = [Node("npu", "a"), Node("npu", "b"), Node("switch", "s")]
    links = [
        Link(a, b, width * GB, Fraction(1, 10**6), 1, kinds.get(kind, ""))
        for end, width, kind in ((0, 50, "slow"), (1, 200, "fast"))
        for a, b in ((end, 2), (2, end))
    ]
    return Fabric("two", nodes, links, costs=costs)


def test_links_that_are_alike_are_a_class() -> None:
    assert list(two_kinds().link_classes.items()) == [("200GB/s 1us", (2, 3)), ("50GB/s 1us", (0, 1))]
    assert two_kinds(slow="nic", fast="nvlink").link_classes == {"nvlink": (2, 3), "nic": (0, 1)}
    assert two_kinds(slow="wire", fast="wire").link_classes == {"wire": (0, 1, 2, 3)}
    assert len(build("nvl72").link_classes["50GB/s 500ns"]) == 72 * 18 * 2


def test_a_size_sees_its_protocol() -> None:
    low = Protocol(
        name="ll",
        max_size=Fraction(1000),
        fixed=Fraction(3, 10**6),
        bandwidth={"nvlink": 100 * GB},
        latency={"nvlink": Fraction(1, 10**7)},
    )
    costs = Costs(
        fixed=Fraction(1), gamma=Fraction(2), in_network=Fraction(1, 2), protocols=(low, Protocol(name="rest"))
    )
    fabric = two_kinds(costs, slow="nic", fast="nvlink")
    small, large = fabric.for_size(1000), fabric.for_size(1001)
    assert [(link.bandwidth // GB, link.latency) for link in small.links[1:3]] == [
        (50, Fraction(1, 10**6)),
        (100, Fraction(1, 10**7)),
    ]
    assert small.costs == Costs(fixed=Fraction(3, 10**6), gamma=Fraction(2), in_network=Fraction(1, 2))
    assert large.links == fabric.links
    assert large.costs.fixed == 0
    assert fabric.for_size(1) is small
    assert small.for_size(10**9) is small
    assert (small.nodes, small.routing, small.shape) == (fabric.nodes, fabric.routing, fabric.shape)


def test_without_protocols_every_size_sees_the_fabric_itself() -> None:
    mesh = build("mesh:2x3")
    assert mesh.for_size(1) is mesh
    assert mesh.for_size(2**40) is mesh


def test_what_was_changed_is_no_longer_from_the_catalog() -> None:
    hub = build("hub:4")
    costly = hub.changed(costs=Costs(fixed=Fraction(1, 10**6)))
    assert not costly.in_catalog
    assert costly != hub
    assert costly.symmetries == hub.symmetries
    assert hub.in_catalog
    with_protocol = hub.changed(costs=Costs(protocols=(Protocol(name="ll", latency={"50GB/s 500ns": Fraction(0)}),)))
    assert not with_protocol.for_size(1).in_catalog
    assert {link.latency for link in with_protocol.for_size(1).links} == {0}


# Topology files


def described(fabric: Fabric, *, figures: bool = True) -> list[tuple]:
    return sorted(
        (link.source, link.target, *((link.bandwidth, link.latency, link.multiplicity) if figures else ()))
        for link in fabric.links
    )


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("dgx1", "dgx1"),
        ("nvl72", "nvl72_18plane"),
        ("ring:4", "ring4"),
        ("ring:8", "ring8"),
        ("ring:16", "ring16"),
        ("full:8", "fc8"),
        ("torus:3x3", "torus2d_3x3"),
        ("torus:4x4", "torus2d_4x4"),
        ("torus:8x8", "torus2d_8x8"),
        ("torus:3x3x3", "torus3d_3x3x3"),
        ("torus:4x4x4", "torus3d_4x4x4"),
    ],
)
def test_catalog_matches_the_topology_file(topologies: Path, name: str, file: str) -> None:
    assert described(build(name)) == described(graph_json.read_graph(topologies / f"{file}.json"))


@pytest.mark.parametrize(
    ("name", "file"), [("mesh:4x4", "mesh2d_4x4"), ("mesh:5x5", "mesh2d_5x5"), ("mesh:8x8", "mesh2d_8x8")]
)
def test_catalog_meshes_have_the_links_of_the_files(topologies: Path, name: str, file: str) -> None:
    """Their figures differ: the catalog's meshes are the wafer of the FRED paper."""
    other = graph_json.read_graph(topologies / f"{file}.json")
    assert described(build(name), figures=False) == described(other, figures=False)


def test_every_topology_file_reads(topologies: Path) -> None:
    files = sorted(topologies.glob("*.json"))
    assert len(files) > 30
    for file in files:
        fabric = graph_json.read_graph(file)
        assert fabric.name == file.stem
        assert fabric.note
        again = graph_json.parse_graph(graph_json.write_graph(fabric), file.name)
        assert again == fabric
        for s, t in random.Random(1).sample(pairs(fabric), min(20, len(pairs(fabric)))):
            for path in fabric.route(s, t):
                steps = ends(fabric, path)
                assert steps[0][0] == fabric.seats[s]
                assert steps[-1][1] == fabric.seats[t]
                assert all(a[1] == b[0] for a, b in itertools.pairwise(steps))
