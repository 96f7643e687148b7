"""Which single failure, drain or repair costs or gains most, and in how few windows drains can be done above a floor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from ortools.sat.python import cp_model

from fabric_plan.models import solve
from fabric_plan.models.balance.standing import Standing, Value
from fabric_plan.planner.balance import BalanceProblem
from fabric_plan.planner.dsf import Dsf, DsfLink
from fabric_plan.planner.errors import Infeasible, InvalidInput, LimitReached
from fabric_plan.planner.interface import Budget

Change = Literal["failure", "drain", "repair"]


@dataclass(frozen=True)
class Ranked:
    """A change, and what it makes of its copies: totals add up, the worst pair is that of the worst copy.

    ``total`` and ``impossible`` are differences to now; ``worst`` is the worst pair afterwards.
    """

    kind: Change
    name: str
    total: int
    worst: int | None
    impossible: int


def links_of(dsf: Dsf, name: str) -> list[DsfLink]:
    """Return the links that a name stands for: a link, or all links of a device in all copies (``zone/device``, or a spine's name).

    Raises
    ------
    InvalidInput
        When there is no such link or device.
    """
    return dsf.device_links(name) if ":" not in name else [dsf.link(name)]


def candidates(problem: BalanceProblem, kinds: Sequence[Change]) -> Iterator[tuple[Change, str, list[DsfLink]]]:
    """Yield what could change: repairs of failed links, drains of devices, failures of live links.

    Links at devices that have lost some already come first, since they hurt most; parallel links of the same two devices are alike.
    """
    dsf = problem.fabric
    failed = set(problem.failures)
    if "repair" in kinds:
        for name, link in zip(problem.failed, problem.failures, strict=True):
            yield "repair", name, [link]
    if "drain" in kinds:
        for name in dsf.fabric_devices():
            links = [one for one in dsf.device_links(name) if one not in failed]
            if links:
                yield "drain", name, links
    if "failure" in kinds:
        hurt = {(one.copy, one.zone, one.kind, k, end) for one in failed for k, end in enumerate((one.a, one.b))}
        first: list[DsfLink] = []
        rest: list[DsfLink] = []
        for link in dsf.all_links():
            if link in failed or (link.number and _other(link, failed)):
                continue
            near = any((link.copy, link.zone, link.kind, k, end) in hurt for k, end in enumerate((link.a, link.b)))
            (first if near else rest).append(link)
        for link in (*first, *rest):
            yield "failure", dsf.link_name(link), [link]


def _other(link: DsfLink, failed: set[DsfLink]) -> bool:
    """Whether a parallel link with a lower number is alive, which stands for this one."""
    return any(
        DsfLink(link.zone, link.kind, link.a, link.b, number, link.copy) not in failed for number in range(link.number)
    )


def rank(
    problem: BalanceProblem,
    kinds: Sequence[Change],
    budget: Budget,
    on_progress: Callable[[int], None] = lambda done: None,
) -> tuple[list[Ranked], bool]:
    """Return (changes, the most costly or most useful first; whether all were tried within the budget)."""
    standing = {copy: Standing(problem, copy) for copy in range(problem.fabric.copies)}
    now = {copy: one.value for copy, one in standing.items()}
    found = []
    complete = True
    for done, (kind, name, links) in enumerate(candidates(problem, kinds)):
        if budget.left <= 0:
            complete = False
            break
        after = dict(now)
        for copy in sorted({one.copy for one in links}):
            after[copy] = standing[copy].after(links, repaired=kind == "repair").value
        total = sum(one.total for one in after.values()) - sum(one.total for one in now.values())
        impossible = sum(one.impossible for one in after.values()) - sum(one.impossible for one in now.values())
        found.append(Ranked(kind, name, total, _worst(after.values()), impossible))
        on_progress(done + 1)
    found.sort(
        key=lambda one: (-abs(one.impossible), one.worst if one.worst is not None else -1, -abs(one.total), one.name)
    )
    return found, complete


def _worst(values: object) -> int | None:
    worst = [one.worst for one in values if one.worst is not None]  # type: ignore[attr-defined]
    return min(worst, default=None)


@dataclass(frozen=True)
class Windows:
    """Drains by window, the value while each is open, and how many windows are proved necessary."""

    windows: tuple[tuple[str, ...], ...]
    values: tuple[Value, ...]
    floor: int
    bound: int


def plan_drains(problem: BalanceProblem, names: Sequence[str], floor: Fraction, budget: Budget) -> Windows:
    """Return the fewest windows in which all drains can be done, each window's together, with the worst pair at the floor or above.

    ``floor`` is a share of the worst pair's capacity now. Whether a set of drains keeps to the floor is asked of the best selections; a set that
    does not is made smaller as long as it still does not, and never put in one window again.

    Raises
    ------
    Infeasible
        When one drain alone passes below the floor, naming it.
    LimitReached
        When the budget ends before any plan.
    """
    standing = {copy: Standing(problem, copy) for copy in range(problem.fabric.copies)}
    now = {copy: one.value for copy, one in standing.items()}
    worst = _worst(now.values())
    least = -(-int((worst or 0) * floor.numerator) // floor.denominator)
    items = [links_of(problem.fabric, name) for name in names]
    for name in names:
        if ":" not in name and name.strip().lower() not in {one.lower() for one in problem.fabric.fabric_devices()}:
            raise InvalidInput(
                f"drain {name}: an interface node takes its own traffic along: drain its links, or fabric nodes and spines"
            )
    known: dict[frozenset[int], Value] = {}

    def value(chosen: frozenset[int]) -> Value:
        if chosen not in known:
            links = [link for k in chosen for link in items[k]]
            after = dict(now)
            for copy in {one.copy for one in links}:
                after[copy] = standing[copy].after(links).value
            rows = after.values()
            known[chosen] = Value(sum(one.total for one in rows), _worst(rows), sum(one.impossible for one in rows))
        return known[chosen]

    before = sum(one.impossible for one in now.values())

    def keeps(chosen: frozenset[int]) -> bool:
        one = value(chosen)
        return one.impossible == before and (one.worst or 0) >= least

    for k, name in enumerate(names):
        if not keeps(frozenset([k])):
            raise Infeasible(
                f"draining {name} alone leaves the worst pair with {value(frozenset([k])).worst or 0} links, below the floor of {least}"
            )
    banned: list[frozenset[int]] = []
    bound = 1 if names else 0
    while budget.left > 0:
        chosen = _packed(len(names), bound, banned, budget)
        if chosen is None:
            bound += 1
            continue
        if chosen is False:
            break
        wrong = [one for one in chosen if not keeps(one)]
        if not wrong:
            windows = [tuple(names[k] for k in sorted(one)) for one in chosen]
            return Windows(tuple(windows), tuple(value(one) for one in chosen), least, bound)
        for one in wrong:
            small = one
            for k in sorted(one):
                if len(small) > 1 and not keeps(small - {k}):
                    small = small - {k}
            banned.append(small)
    raise LimitReached("no order of the drains was found in time: give more --time-limit, or a lower --floor")


def _packed(
    count: int, windows: int, banned: Sequence[frozenset[int]], budget: Budget
) -> list[frozenset[int]] | Literal[False] | None:
    """Return an assignment to windows without a banned set together; None where there is none, False where time ran out."""
    model = cp_model.CpModel()
    place = [[model.new_bool_var("") for _ in range(windows)] for _ in range(count)]
    for k, row in enumerate(place):
        model.add_exactly_one(row)
        for w in range(k + 1, windows):
            model.add(row[w] == 0)
    for together in banned:
        for w in range(windows):
            model.add_bool_or([place[k][w].negated() for k in together])
    outcome = solve.run(model, budget, wanted=[one for row in place for one in row])
    if outcome.values is None:
        return None if outcome.answer is solve.Answer.INFEASIBLE else False
    values = iter(outcome.values)
    where = [[next(values) for _ in row].index(1) for row in place]
    return [frozenset(k for k in range(count) if where[k] == w) for w in range(windows) if w in where]
