from __future__ import annotations

from fractions import Fraction

import pytest

from fabric_plan.planner.errors import InvalidInput, InvalidProblem
from fabric_plan.planner.parallelism import Strategy
from fabric_plan.planner.problem import PlacementProblem
from fabric_plan.planner.workload import WORKLOADS, Volume, workload


@pytest.mark.parametrize(
    ("name", "billions"), [("transformer-17b", 17), ("gpt3", 175), ("transformer-1t", 1008), ("resnet-152", 0.0602)]
)
def test_parameters_are_those_the_models_are_known_for(name: str, billions: float) -> None:
    assert WORKLOADS[name].parameters / 1e9 == pytest.approx(billions, rel=0.02)


def test_gpt3_volumes_by_hand() -> None:
    """MP: 4 all-reduces for each of 96/2 layers, of 16 samples x 2048 tokens x 12288 values x 2 bytes."""
    found = workload("gpt3").volumes(Strategy.parse("MP2-DP5-PP2"))
    activations = 16 * 2048 * 12288 * 2
    assert found["mp"] == Volume(Fraction(4 * 48 * activations), 4 * 48 * 8)
    assert found["pp"] == Volume(Fraction(activations), 8)
    parameters = 12 * 96 * 12288**2 + 50_257 * 12288
    assert found["dp"] == Volume(Fraction(2 * parameters, 4), 1)


def test_uneven_stages_count_the_longest() -> None:
    """128 layers in 5 stages: the longest holds 26."""
    found = workload("transformer-1t").volumes(Strategy.parse("MP2-PP5"))
    assert found["mp"].count == 4 * 26 * 8
    assert found["mp"].size == 4 * 26 * 16 * 2048 * 25600 * 2


def test_a_dimension_of_one_has_no_volume() -> None:
    assert set(workload("gpt3").volumes(Strategy.parse("MP2-DP1-PP2"))) == {"mp", "pp"}


def test_given_volumes_replace_the_models() -> None:
    given = {"mp": Volume(Fraction(5), 2), "ep": Volume(Fraction(7))}
    found = workload("gpt3").volumes(Strategy.parse("MP2-EP2-DP2"), given)
    assert found["mp"] == given["mp"]
    assert found["ep"] == given["ep"]
    assert found["dp"].size == Fraction(2 * WORKLOADS["gpt3"].parameters, 2)


@pytest.mark.parametrize(("name", "strategy"), [("gpt3", "EP2-DP2"), ("gpt3", "CP2"), ("resnet-152", "MP2-DP2")])
def test_a_volume_that_does_not_follow_is_asked_for(name: str, strategy: str) -> None:
    with pytest.raises(InvalidProblem, match=f"workload {name} has no volume for"):
        workload(name).volumes(Strategy.parse(strategy))


@pytest.mark.parametrize("name", ["GPT3", "gpt-3", " gpt3 ", "GPT-3"])
def test_names_are_forgiving(name: str) -> None:
    assert workload(name).name == "gpt3"


def test_an_unknown_workload_suggests_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="did you mean gpt3"):
        workload("gtp3")


@pytest.mark.parametrize(
    ("text", "size", "count"), [("64MiB", 64 * 2**20, 1), ("64MiB*312", 312 * 64 * 2**20, 312), ("1.5 * 2", 3, 2)]
)
def test_volumes_are_read(text: str, size: int, count: int) -> None:
    assert Volume.parse(text) == Volume(Fraction(size), count)


@pytest.mark.parametrize(
    "text", ["", "64MiB*0", "64MiB*x", "*3", "64MiB*-1", "64MiB*1.5", "64MiB*2*2", "64MiB*²", "8MiB*"]
)
def test_bad_volumes(text: str) -> None:
    with pytest.raises(InvalidInput):
        Volume.parse(text)


def test_a_workload_makes_gradients_go_back_through_the_pipeline() -> None:
    problem = PlacementProblem.of("mesh:4x5", "MP2-DP5-PP2", workload="gpt3")
    ways = {demand.dimension: demand.direction for demand in problem.demands}
    assert ways["pp"] == "both"
    assert all(demand.size is not None for demand in problem.demands)


def test_some_volumes_but_not_all_is_an_error() -> None:
    with pytest.raises(InvalidProblem, match="none given for dp"):
        PlacementProblem.of("mesh:2x2", "MP2-DP2", volumes={"mp": "1MB"})
    with pytest.raises(InvalidProblem, match="pp has one worker a group"):
        PlacementProblem.of("mesh:2x2", "MP2-DP2", volumes={"mp": "1MB", "dp": "1MB", "pp": "1MB"})
