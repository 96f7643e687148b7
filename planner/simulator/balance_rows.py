"""Every device's input and output towards every destination, as operators' tools list them, before and after withdrawals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fabric_plan.planner.balance import BalanceProblem, Profile
from fabric_plan.planner.simulator.balance import propagated
from fabric_plan.planner.simulator.reach import Pair


@dataclass(frozen=True)
class Row:
    """A device of a zone, or a spine above it, towards one destination.

    Parameters
    ----------
    zone, home, destination
        The zone that sends, and the zone and number of the interface node that receives.
    kind, index
        ``spine`` or ``fabric``, and its number.
    before, input, output
        Live links that come in, those that still do after withdrawals, and those that lead on.
    input_failed, output_failed
        Links that are down on the side that comes in and on the side that leads on.
    """

    zone: int
    home: int
    destination: int
    kind: str
    index: int
    before: int
    input: int
    output: int
    input_failed: int
    output_failed: int

    @property
    def feasible(self) -> bool:
        """Whether no more comes in than leads on: the rule of input-balanced mode."""
        return self.input <= self.output

    @property
    def operator_balanced(self) -> bool:
        """What the open operator tool says: an equality that counts failed links, stricter than the rule."""
        return self.input + max(0, self.input_failed - self.output_failed) == self.output


def rows(problem: BalanceProblem, profiles: tuple[Profile, ...], copy: int) -> Iterator[Row]:
    """Yield the rows of a copy, destination by destination: spines first."""
    live = problem.live(copy)
    lower, upper = problem.fabric.built
    for pair in propagated(problem, profiles, copy):
        up, down = live.upper[pair.zone], live.lower[pair.zone]
        lost_up, lost_down = upper[pair.zone] - up, lower[pair.zone] - down
        lost_home = upper[pair.home] - live.upper[pair.home]
        for index in range(problem.fabric.spines):
            yield Row(
                *_ends(pair),
                "spine",
                index,
                int(up[:, index].sum()) if pair.output[index] else 0,
                int(pair.upper[:, index].sum()),
                int(pair.output[index]),
                int(lost_up[:, index].sum()),
                int(lost_home[:, index].sum()),
            )
        for index in range(up.shape[0]):
            output = int(pair.upper[index].sum())
            yield Row(
                *_ends(pair),
                "fabric",
                index,
                int(down[:, index].sum()) if output else 0,
                int(pair.lower[:, index].sum()),
                output,
                int(lost_down[:, index].sum()),
                int(lost_up[index].sum()),
            )


def _ends(pair: Pair) -> tuple[int, int, int]:
    return pair.zone, pair.home, pair.destination


def device_name(problem: BalanceProblem, row: Row) -> str:
    """Return ``sdsw0`` or ``x/fdsw1``."""
    if row.kind == "spine":
        return problem.fabric.spine_list[row.index]
    zone = problem.fabric.zones[row.zone]
    return f"{zone.name}/{zone.fabric_names[row.index]}"
