from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path

import pytest
import random_problems

from fabric_plan.planner.catalog import build
from fabric_plan.planner.costs import Costs, Protocol
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats import graph_json

PLAIN: dict = {
    "name": "pair",
    "nodes": [{"id": 7, "kind": "gpu"}, {"id": 3, "kind": "GPU", "name": "first"}],
    "links": [{"src": 3, "dst": 7, "bw_GBps": 12.5, "lat_us": 0.7, "cap": 2}],
}


def read(**changes) -> object:
    return graph_json.parse_graph(json.dumps({**PLAIN, **changes}).encode(), "file.json")


def test_figures_are_read_exactly() -> None:
    fabric = read()
    assert [node.name for node in fabric.nodes] == ["first", "gpu7"]
    (link,) = fabric.links
    assert (link.source, link.target, link.multiplicity) == (0, 1, 2)
    assert link.bandwidth == 12_500_000_000
    assert link.latency == Fraction(7, 10**7)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"links": [{"src": 3, "dst": 7}]}, "$.links[0]"),
        ({"links": [{"src": 3, "dst": 9, "bw_GBps": 1}]}, "links[0] names node 9"),
        ({"links": [{"src": 3, "dst": 7, "bw_GBps": "fast"}]}, "$.links[0].bw_GBps"),
        ({"links": [{"src": 3, "dst": 7, "bw_GBps": 0}]}, "bandwidth must be greater"),
        ({"links": [{"src": 3, "dst": 7, "bw_GBps": 1, "width": 3}]}, "width"),
        ({"nodes": [{"id": 7, "kind": "gpu"}, {"id": 7, "kind": "gpu"}]}, "node id 7 is given twice"),
        ({"nodes": [{"id": 3, "kind": "gpu"}, {"id": 7, "kind": "toaster"}]}, "unknown kind 'toaster'"),
        ({"nodes": [{"id": 3, "kind": "switch"}, {"id": 7, "kind": "switch"}]}, "no NPU"),
        ({"routing": "magic"}, "unknown routing 'magic'"),
        ({"routing": "xy"}, "needs a shape"),
        ({"shape": [3, 3]}, "has 9 seats, but there are 2 NPUs"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_errors_name_the_file_and_the_place(changes: dict, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(**changes)
    assert str(caught.value).startswith("file.json: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff\xfe", b"null", b"[" * 100_000])
def test_what_is_no_graph_is_an_error(data: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"^file.json: "):
        graph_json.parse_graph(data, "file.json")


@pytest.mark.parametrize("seed", range(10))
def test_what_is_written_reads_back(seed: int) -> None:
    fabric = random_problems.fabric(random.Random(seed))
    assert graph_json.parse_graph(graph_json.write_graph(fabric), "x") == fabric


@pytest.mark.parametrize("name", ["mesh:2x3", "dgx1", "fred-20", "ring:5", "h100:8", "nvl72"])
def test_catalog_fabrics_survive_as_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / "fabric.json"
    path.write_bytes(graph_json.write_graph(build(name)))
    assert graph_json.read_graph(path) == build(name)
    assert not graph_json.read_graph(path).in_catalog


COSTS: dict = {
    "fixed_us": 4.5,
    "gamma_ps_per_byte": "1/3",
    "in_network": 0.85,
    "switching": "cut-through",
    "protocols": [
        {"name": "ll", "max_bytes": 65536, "fixed_us": "7/3", "classes": {"nvlink": {"bw_GBps": 6.25, "lat_us": 0.47}}},
        {"name": "simple", "classes": {"nvlink": {"lat_us": "17/7"}}},
    ],
}
CLASSED: list = [{**PLAIN["links"][0], "class": "nvlink"}]


def test_costs_are_read_exactly() -> None:
    fabric = read(costs=COSTS, links=CLASSED)
    assert fabric.costs == Costs(
        fixed=Fraction(45, 10**7),
        gamma=Fraction(1, 3 * 10**12),
        in_network=Fraction(85, 100),
        switching="cut-through",
        protocols=(
            Protocol(
                name="ll",
                max_size=Fraction(65536),
                fixed=Fraction(7, 3 * 10**6),
                bandwidth={"nvlink": 6_250_000_000},
                latency={"nvlink": Fraction(47, 10**8)},
            ),
            Protocol(name="simple", latency={"nvlink": Fraction(17, 7 * 10**6)}),
        ),
    )
    assert fabric.links[0].kind == "nvlink"
    assert fabric.for_size(65536).links[0].bandwidth == 6_250_000_000


def test_costs_and_classes_are_written_and_read_back() -> None:
    fabric = read(costs=COSTS, links=CLASSED)
    written = graph_json.write_graph(fabric)
    assert json.loads(written)["costs"]["protocols"][1]["classes"] == {"nvlink": {"lat_us": "17/7"}}
    again = graph_json.parse_graph(written, "x")
    assert again == fabric
    assert again.costs == fabric.costs
    assert again.links == fabric.links
    assert "costs" not in json.loads(graph_json.write_graph(read()))


@pytest.mark.parametrize(
    ("costs", "reason"),
    [
        ({"fixed": 4}, "fixed"),
        ({"fixed_us": -1}, "must not be negative"),
        ({"fixed_us": "one"}, "costs.fixed_us: expected a number"),
        ({"in_network": 1.5}, "in_network must be greater than 0"),
        ({"switching": "wormhole"}, "wormhole"),
        ({"protocols": [{"max_bytes": 3}]}, "name"),
        ({"protocols": [{"name": "ll", "classes": {"nvlink": {"bw": 3}}}]}, "bw"),
        ({"protocols": [{"name": "ll", "classes": {"nvlnk": {"lat_us": 3}}}]}, "no links of class 'nvlnk'"),
        ({"protocols": [{"name": "ll", "max_bytes": 3}, {"name": "ll"}]}, "names of their own"),
        ({"protocols": [{"name": "a", "max_bytes": 3}, {"name": "b", "max_bytes": 2}]}, "ascending max_size"),
    ],
)
def test_bad_costs_are_named(costs: dict, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(costs=costs, links=CLASSED)
    assert str(caught.value).startswith("file.json: ")
    assert reason in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        graph_json.read_graph(tmp_path / "none.json")
