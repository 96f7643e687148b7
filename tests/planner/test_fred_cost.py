"""What FRED costs, against the paper's tables 3 and 4."""

from __future__ import annotations

from fractions import Fraction

import pytest

from fabric_plan.planner.fred_cost import BUDGET_WATTS, fred_20_cost, switch_cost, wafer_watts
from fabric_plan.planner.simulator.routing import configuration_bits


def test_table_4() -> None:
    lines = fred_20_cost()
    assert sum(line.area for line in lines if line.area is not None) == 25_195
    power = sum(line.power for line in lines)
    assert power == Fraction("179.35")
    assert wafer_watts(Fraction(power)) < BUDGET_WATTS
    assert wafer_watts(Fraction(power), npus=21) > BUDGET_WATTS - 700


def test_more_middle_networks_cost_more() -> None:
    for ports in (8, 10, 11, 12, 20, 64):
        costs = [switch_cost(middles, ports) for middles in (2, 3, 4, 5)]
        assert [one.power for one in costs] == sorted(one.power for one in costs)
        if ports not in (10, 11, 12):
            assert all(one.estimated for one in costs)
            assert [one.area for one in costs] == sorted(one.area for one in costs)
    wider = fred_20_cost(4)
    assert sum(line.power for line in wider) > Fraction("179.35")


@pytest.mark.parametrize(("ports", "area", "power"), [(12, 685, "3.75"), (11, 678, "3.40"), (10, 814, "3.11")])
def test_the_papers_chiplets(ports: int, area: int, power: str) -> None:
    one = switch_cost(3, ports)
    assert (one.area, one.power, one.estimated) == (area, Fraction(power), False)


def test_configurations_fit_the_papers_memory() -> None:
    """1.5 KB hold the configurations of a job's phases: MP, DP, PP both ways, and the default."""
    for ports in (10, 11, 12):
        assert 5 * configuration_bits(3, ports) <= 1.5 * 1024 * 8
    assert configuration_bits(3, 2) == 4
