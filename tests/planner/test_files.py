from __future__ import annotations

import gzip
import json
import random
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
import random_problems
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric_plan.planner import files
from fabric_plan.planner.balance import BalanceProblem
from fabric_plan.planner.catalog import build
from fabric_plan.planner.dsf_catalog import mini
from fabric_plan.planner.errors import InvalidInput, InvalidPlan
from fabric_plan.planner.interface import Budget, plan
from fabric_plan.planner.plan import PlacementPlan
from fabric_plan.planner.problem import (
    Job,
    PlacementProblem,
    Problem,
    RoutingProblem,
    ScheduleProblem,
    SwitchFlow,
)

PROBLEMS: list[Problem] = [
    PlacementProblem.of("mesh:4x5", "MP3-DP3-PP2", pp="multicast", direction="both", concurrent=False),
    PlacementProblem.of("nvl72", "MP8-DP9", ring="free", volumes={"mp": Fraction(10**30, 7), "dp": "64MiB*312"}),
    PlacementProblem.of("fred-20", "MP2-DP5-PP2", workload="gpt3", objective="time"),
    RoutingProblem(
        middles=3,
        ports=12,
        flows=(SwitchFlow(inputs=(0, 1), outputs=(2,)), SwitchFlow(inputs=(5,), outputs=(0, 1))),
        allow="phases",
    ),
    BalanceProblem(fabric=mini(), failed=("x/rdsw3:fdsw1", "x/fdsw1:sdsw1#1"), objective="worst"),
    ScheduleProblem(
        fabric=build("dgx1"),
        jobs=(
            Job(pattern="all-gather", group=tuple(range(8)), size=Fraction(10**9, 3)),
            Job(pattern="all-reduce", group=(1, 0), size=Fraction(5), release=Fraction(1, 3), priority=2),
        ),
        chunks=4,
        objective="latency",
    ),
]


def document(problem: Problem) -> dict:
    """Return a problem as the content of its file, by way of JSON."""
    return json.loads(files.dump({"schema": files.PROBLEM_SCHEMA, "family": problem.family, **files.encode(problem)}))


def parse(content: object) -> Problem:
    return files.parse_problem(json.dumps(content).encode(), "p.json")


@pytest.fixture(scope="module")
def made() -> PlacementPlan:
    problem = PlacementProblem.of("mesh:2x3", "MP3-DP2", ring="free", volumes={"mp": "1MB", "dp": "3MB"})
    return plan(problem, planner="megatron", budget=Budget(seconds=30, workers=1, deterministic=True))


# There and back


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda one: one.family)
def test_problems_read_back_as_they_were(tmp_path: Path, problem: Problem) -> None:
    for name in ("p.json", "p.json.gz"):
        files.write_problem(problem, tmp_path / name)
        assert files.parse_problem(files.read_bytes(tmp_path / name), name) == problem


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_problems_read_back_as_they_were(first: int) -> None:
    for seed in range(first, first + 50):
        problem = random_problems.problem(seed)
        again = parse(document(problem))
        assert again == problem, seed


@pytest.mark.parametrize("name", ["plan.json", "plan.json.gz"])
def test_plans_read_back_as_they_were(tmp_path: Path, made: PlacementPlan, name: str) -> None:
    files.write_plan(made, tmp_path / name)
    again, faults = files.read_plan(tmp_path / name)
    assert faults == []
    assert again == made
    assert again.report == made.report
    assert again.report is not None


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.fractions())
def test_fractions_read_back(value: Fraction) -> None:
    encoded = json.loads(json.dumps(files.encode({"x": value})))
    assert files.decode(encoded, dict[str, Fraction]) == {"x": value}


@pytest.mark.parametrize("value", [1.5, "1.5", "1/0", "a", "1/-2", "", None, True, [], "1 /2", "9" * 401, "1e9", "１"])
def test_what_is_no_fraction_is_an_error(value: object) -> None:
    with pytest.raises(InvalidInput):
        files.decode({"x": value}, dict[str, Fraction])


def test_a_latency_that_is_no_decimal_reads_back() -> None:
    """A certificate is checked against the fabric in its file, so the file must hold exactly that fabric."""
    from fabric_plan.planner.fabric import Fabric, Link, Node

    links = [Link(0, 1, 10**9, Fraction(1, 3 * 10**6)), Link(1, 0, 10**9, Fraction(1, 3 * 10**6))]
    fabric = Fabric("third", [Node("npu", "a"), Node("npu", "b")], links)
    problem = PlacementProblem.of(fabric, "MP2", volumes={"mp": "1MB"}, objective="time")
    assert parse(document(problem)) == problem


def test_a_fabric_with_a_name_is_written_by_its_name() -> None:
    assert document(PROBLEMS[0])["fabric"] == "mesh:4x5"
    assert document(PROBLEMS[0])["strategy"] == "MP3-DP3-PP2"
    unnamed = next(one for one in map(random_problems.problem, range(50)) if not one.fabric.in_catalog)
    assert document(unnamed)["fabric"]["name"] == unnamed.fabric.name


# Strictness


def paths(content: object, at: tuple = ()) -> list[tuple]:
    """Return the path of every field and item of a document."""
    found: list[tuple] = []
    if isinstance(content, dict):
        for key, value in content.items():
            found += [(*at, key), *paths(value, (*at, key))]
    elif isinstance(content, list):
        for index, value in enumerate(content):
            found += paths(value, (*at, index))
    return found


def changed(content: dict, path: tuple, value: object) -> dict:
    """Return a copy of a document with one field replaced, or left out when the value is ``...``."""
    copy = json.loads(json.dumps(content))
    inner = copy
    for step in path[:-1]:
        inner = inner[step]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copy


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda one: one.family)
def test_ill_typed_fields_are_errors_that_name_their_path(problem: Problem) -> None:
    content = document(problem)
    for path in paths(content):
        if path == ("family",):
            continue
        for value in ({"no": "such"}, [[[None]]]):
            with pytest.raises(InvalidInput) as caught:
                parse(changed(content, path, value))
            text = str(caught.value)
            assert text.startswith("p.json: ")
            assert str(path[0]) in text, (path, text)
            assert "\n" not in text


@pytest.mark.parametrize("family", [{"no": "such"}, ["placement"], None, 3])
def test_a_family_that_is_no_word_is_an_error(made: PlacementPlan, family: object) -> None:
    with pytest.raises(InvalidInput, match="family"):
        parse({**document(PROBLEMS[0]), "family": family})
    content = json.loads(files.dump(files.plan_document(made)))
    with pytest.raises(InvalidPlan, match="family"):
        files.parse_plan(json.dumps({**content, "family": family}).encode(), "p.json")


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda one: one.family)
def test_unknown_fields_are_errors_that_name_them(problem: Problem) -> None:
    content = document(problem)
    inner = {path[:-1] for path in paths(content)}
    for at in inner:
        with pytest.raises(InvalidInput) as caught:
            parse(changed(content, (*at, "surprise"), 1))
        assert "surprise" in str(caught.value)


@pytest.mark.parametrize(
    ("index", "path"),
    [
        (0, ("fabric",)),
        (0, ("strategy",)),
        (0, ("demands",)),
        (0, ("demands", 1, "pattern")),
        (3, ("middles",)),
        (3, ("flows", 0, "outputs")),
        (3, ("allow",)),
        (4, ("fabric", "zones")),
        (5, ("jobs", 1, "size")),
    ],
)
def test_missing_fields_are_errors_that_name_them(index: int, path: tuple) -> None:
    content = document(PROBLEMS[index])
    if path == ("allow",):
        assert parse(changed(content, path, ...)) == msgspec.structs.replace(PROBLEMS[index], allow="nothing")
        return
    with pytest.raises(InvalidInput, match=str(path[-1])):
        parse(changed(content, path, ...))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schema": "fabric-plan/problem/2"}, "$.schema"),
        ({"family": "poetry"}, "family 'poetry'"),
        ({"strategy": "MP30-DP30"}, "only 20 NPUs"),
        ({"fabric": "mash:4x5"}, "did you mean mesh"),
        ({"strategy": "XY3"}, "unknown dimension"),
        ({"objective": "beauty"}, "$.objective"),
    ],
)
def test_wrong_values_are_errors_that_say_so(changes: dict, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse({**document(PROBLEMS[0]), **changes})
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"3", b"{", b"\xff", b"[" * 100_000, b'{"schema": "fabric-plan/problem/1"}']
)
def test_what_is_no_document_is_an_error(data: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"^p.json: "):
        files.parse_problem(data, "p.json")
    with pytest.raises(InvalidPlan, match=r"^p.json: "):
        files.parse_plan(data, "p.json")


def test_every_field_of_a_plan_is_checked(made: PlacementPlan) -> None:
    content = json.loads(files.dump(files.plan_document(made)))
    for path in paths(content):
        if path in (("digest",), ("family",)):
            continue
        with pytest.raises(InvalidPlan, match=r"^p.json: "):
            files.parse_plan(json.dumps(changed(content, path, {"no": "such"})).encode(), "p.json")
    for at in {path[:-1] for path in paths(content)} - {("rings",)}:
        with pytest.raises(InvalidPlan, match="surprise"):
            files.parse_plan(json.dumps(changed(content, (*at, "surprise"), 1)).encode(), "p.json")


# Digests


def test_any_edit_shows_in_the_digest(made: PlacementPlan) -> None:
    content = json.loads(files.dump(files.plan_document(made)))
    edits = {
        ("certificate", "keys", 0, "bound"): content["certificate"]["keys"][0]["value"],
        ("certificate", "status"): "optimal",
        ("certificate", "proof"): ["trust me"],
        ("baselines", 0, "value"): 1000,
        ("seats",): list(reversed(content["seats"])),
        ("seed",): 7,
        ("planner",): "placement.exact",
    }
    for path, value in edits.items():
        edited = changed(content, path, value) if path[0] != "baselines" or content.get("baselines") else None
        if edited is None or edited == content:
            continue
        _, faults = files.parse_plan(json.dumps(edited).encode(), "p.json")
        assert len(faults) == 1, path
        assert faults[0].startswith("digest: "), path


def test_formatting_does_not_matter_to_the_digest(made: PlacementPlan) -> None:
    content = json.loads(files.dump(files.plan_document(made)))
    turned = dict(reversed(content.items()))
    for text in (json.dumps(turned, indent=3), json.dumps(content, separators=(",", ":"))):
        again, faults = files.parse_plan(text.encode(), "p.json")
        assert (again, faults) == (made, [])


@pytest.mark.parametrize("value", [..., None, 5])
def test_a_plan_without_a_digest_is_refused(made: PlacementPlan, value: object) -> None:
    content = json.loads(files.dump(files.plan_document(made)))
    with pytest.raises(InvalidPlan, match="digest"):
        files.parse_plan(json.dumps(changed(content, ("digest",), value)).encode(), "p.json")


# Reading and writing


def test_compressed_files_are_smaller_and_always_the_same(tmp_path: Path) -> None:
    data = b"0123456789" * 1000
    files.write_atomically(tmp_path / "a.gz", data)
    files.write_atomically(tmp_path / "b.gz", data)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == data
    assert files.read_bytes(tmp_path / "a.gz") == data


def test_a_broken_compressed_file_is_an_error_of_the_input(tmp_path: Path) -> None:
    whole = gzip.compress(bytes(random.Random(0).randrange(8) for _ in range(1500)), mtime=0)
    for where in range(len(whole)):
        path = tmp_path / "x.json.gz"
        path.write_bytes(whole[:where] + bytes([whole[where] ^ 0xFF]) + whole[where + 1 :])
        try:
            files.read_bytes(path)
        except InvalidInput as error:
            assert "cannot be read" in str(error)
    path.write_bytes(whole[:-9])
    with pytest.raises(InvalidInput, match="cannot be read"):
        files.read_bytes(path)
    path.write_bytes(b"plain")
    with pytest.raises(InvalidInput, match="cannot be read"):
        files.read_bytes(path)


def test_a_file_that_is_too_large_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    files.write_atomically(tmp_path / "bomb.gz", bytes(10_000_000))
    assert (tmp_path / "bomb.gz").stat().st_size < 20_000
    with pytest.raises(InvalidInput, match="larger than"):
        files.read_bytes(tmp_path / "bomb.gz", limit=1_000_000)


def test_writing_leaves_the_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    files.write_atomically(path, b"one")
    path.chmod(0o640)
    files.write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]
    files.check_writable(path)
    files.check_writable(tmp_path / "y.json")
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    files.write_atomically(path, b"old")

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InvalidInput, match=r"x\.json: cannot be written: No space left"):
        files.write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "x.json"):
        with pytest.raises(InvalidInput, match="cannot be written"):
            files.write_atomically(path, b"x")
        with pytest.raises(InvalidInput, match="cannot be written"):
            files.check_writable(path)
    assert list(tmp_path.iterdir()) == []


def test_standard_output_and_input(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    files.write_atomically("-", b"hello")
    assert capfdbinary.readouterr().out == b"hello"


def test_a_fabric_is_a_name_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fabric_plan.planner.formats import graph_json

    (tmp_path / "rig").write_bytes(graph_json.write_graph(build("ring:5")))
    (tmp_path / "rig.json.gz").write_bytes(gzip.compress(graph_json.write_graph(build("ring:5"))))
    monkeypatch.chdir(tmp_path)
    assert files.load_fabric("ring:5").in_catalog
    for name in ("rig", "./rig", str(tmp_path / "rig"), "rig.json.gz"):
        assert files.load_fabric(name) == build("ring:5")
        assert not files.load_fabric(name).in_catalog
    with pytest.raises(InvalidInput, match="cannot be read"):
        files.load_fabric("none.json")
    with pytest.raises(InvalidInput, match="unknown fabric"):
        files.load_fabric("none")
