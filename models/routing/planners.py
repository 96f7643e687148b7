"""The planners of routings: the joint model with each way out, and the level-by-level protocols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import msgspec
from ortools.sat.python import cp_model

from fabric_plan.models import solve
from fabric_plan.models.routing.moves import fewest_moves
from fabric_plan.models.routing.protocols import Colouring, dsatur, exactly, first_fit, level_by_level
from fabric_plan.models.routing.two_level import TwoLevel, route_two_level
from fabric_plan.models.routing.words import Joint, Routed
from fabric_plan.planner.errors import Infeasible, InvalidInput, LimitReached
from fabric_plan.planner.fred import Word
from fabric_plan.planner.fred_two_level import Chiplet
from fabric_plan.planner.interface import Budget, OnProgress, Progress
from fabric_plan.planner.plan import Baseline, Certificate, Key, RoutingPlan, Status
from fabric_plan.planner.problem import Problem, RoutingProblem, SwitchFlow
from fabric_plan.planner.simulator.routing import OBJECTIVES, value_of
from fabric_plan.planner.switch_flows import flow_name

FOUND = (solve.Answer.OPTIMAL, solve.Answer.FEASIBLE)


def _plan(
    problem: RoutingProblem,
    words: Sequence[Word | None],
    bound: int | None,
    budget: Budget,
    *,
    planner: str,
    proof: str = "",
    middles: int | None = None,
    flows: Sequence[SwitchFlow] | None = None,
    origins: Sequence[int] | None = None,
    rounds: Sequence[int] | None = None,
    moves: Sequence[tuple[int, int]] = (),
    chiplets: Sequence[tuple[Chiplet, ...]] = (),
    baselines: Sequence[Baseline] = (),
) -> RoutingPlan:
    flows = problem.flows if flows is None else flows
    draft = RoutingPlan(
        problem=problem,
        middles=problem.middles if middles is None else middles,
        flows=tuple(flows),
        origins=tuple(range(len(flows)) if origins is None else origins),
        words=tuple(words),
        rounds=tuple([0] * len(flows) if rounds is None else rounds),
        certificate=Certificate(status=Status.UNKNOWN, keys=()),
        moves=tuple(moves),
        chiplets=tuple(chiplets),
        baselines=tuple(baselines),
        planner=planner,
        seed=budget.seed,
        seconds=None if budget.deterministic else budget.elapsed,
    )
    name, unit = OBJECTIVES[problem.allow]
    least = None if bound is None else Fraction(bound)
    key = Key(name=name, value=Fraction(value_of(draft)), bound=least, unit=unit)
    status = Status.OPTIMAL if key.closed else Status.FEASIBLE
    certificate = Certificate(status=status, keys=(key,), proof=(proof,) if proof else ())
    return msgspec.structs.replace(draft, certificate=certificate)


def conflicting_set(flows: Sequence[SwitchFlow], ports: int, middles: int, budget: Budget) -> tuple[int, ...] | None:
    """Return flows that do not route together, none of which can be left out; None if time runs out."""

    def build(names: frozenset[str]) -> cp_model.CpModel:
        return Joint([flow for k, flow in enumerate(flows) if str(k) in names], ports, middles).model

    core = solve.smallest_core(build, [str(k) for k in range(len(flows))], budget)
    return None if core is None else tuple(map(int, core))


def protocols(problem: RoutingProblem, budget: Budget) -> tuple[list[Baseline], list[Word] | None]:
    """Return how the level-by-level protocols do (flows blocked: none, or at least one), and the words of the best."""
    ways: dict[str, Colouring] = {"first-fit": first_fit, "dsatur": dsatur, "level-by-level": exactly(budget)}
    found, best = [], None
    for name, colour in ways.items():
        words = level_by_level(problem.flows, problem.ports, problem.middles, colour)
        best = best or words
        note = "routes all" if words is not None else "does not route all flows at once"
        found.append(Baseline(name=name, value=Fraction(0 if words is not None else 1), note=note))
    return found, best


class AutoPlanner:
    """The protocols, then the joint model; where that has no solution, the way out that the problem allows."""

    def solve(self, problem: Problem, budget: Budget, on_progress: OnProgress) -> RoutingPlan:
        """Return the routing, with the least that the allowed way out costs."""
        assert isinstance(problem, RoutingProblem)
        if problem.fabric:
            return _two_level(problem, budget, on_progress)
        baselines, hint = protocols(problem, budget)
        if hint is not None:
            # Words that a protocol found are as good as any: only where all of them fail is the joint model needed.
            routed = Routed(solve.Answer.OPTIMAL, tuple(hint), (0,) * len(hint), 0)
        else:
            routed = Joint(problem.flows, problem.ports, problem.middles).solve(budget)
        on_progress(Progress(budget.elapsed, None, None, "flows", f"all at once: {routed.answer}"))
        if problem.allow == "middle":
            return self._middle(problem, budget, routed)
        if routed.answer in FOUND:
            bound = 1 if problem.allow == "phases" else 0
            least = min(1, len(problem.flows)) if problem.allow == "phases" else bound
            return _plan(
                problem,
                routed.words,
                least,
                budget,
                planner="auto",
                proof="all flows route at once",
                baselines=baselines,
            )
        if routed.answer is not solve.Answer.INFEASIBLE:
            raise LimitReached("the flows were neither routed nor proved to conflict in time: give more --time-limit")
        if problem.allow == "nothing":
            core = conflicting_set(problem.flows, problem.ports, problem.middles, budget)
            names = tuple(f"flow {k} {flow_name(problem.flows[k])}" for k in core or range(len(problem.flows)))
            raise Infeasible(
                f"{problem.switch} cannot route all {len(problem.flows)} flows at once, proved; "
                "ways out: --allow block, phases, move, middle or decompose",
                core=names,
            )
        ways = {"block": self._block, "phases": self._phases, "move": self._move, "decompose": self._decompose}
        return msgspec.structs.replace(ways[problem.allow](problem, budget), baselines=tuple(baselines))

    def _block(self, problem: RoutingProblem, budget: Budget) -> RoutingPlan:
        found = Joint(problem.flows, problem.ports, problem.middles, block=True).solve(budget)
        if found.answer not in FOUND:
            raise LimitReached("no set of flows to leave out was found in time: give more --time-limit")
        return _plan(problem, found.words, max(1, found.bound), budget, planner="auto", proof="all at once was refuted")

    def _phases(self, problem: RoutingProblem, budget: Budget) -> RoutingPlan:
        proved = True
        for rounds in range(2, len(problem.flows) + 1):
            found = Joint(problem.flows, problem.ports, problem.middles, rounds=rounds).solve(budget)
            if found.answer in FOUND:
                turns = sorted(set(found.rounds))
                return _plan(
                    problem,
                    found.words,
                    rounds if proved else 2,
                    budget,
                    planner="auto",
                    proof=f"{rounds - 1} round(s) were refuted" if proved else "one round was refuted",
                    rounds=[turns.index(one) for one in found.rounds],
                )
            proved = proved and found.answer is solve.Answer.INFEASIBLE
        raise LimitReached("no rounds were found in time: give more --time-limit")

    def _middle(self, problem: RoutingProblem, budget: Budget, routed: Routed) -> RoutingPlan:
        proved = True
        for middles in range(2, max(3, len(problem.flows) + 1)):
            found = routed if middles == problem.middles else Joint(problem.flows, problem.ports, middles).solve(budget)
            if found.answer in FOUND:
                proof = f"{middles - 1} middle networks were refuted" if middles > 2 else "no switch has fewer"
                least = middles if proved else 2
                return _plan(
                    problem, found.words, least, budget, planner="auto", proof=proof if proved else "", middles=middles
                )
            proved = proved and found.answer is solve.Answer.INFEASIBLE
        raise LimitReached("no number of middle networks was found in time: give more --time-limit")

    def _move(self, problem: RoutingProblem, budget: Budget) -> RoutingPlan:
        found = fewest_moves(problem.flows, problem.ports, problem.middles, budget)
        if found.answer is solve.Answer.INFEASIBLE:
            raise Infeasible("no arrangement of the workers on the ports routes all flows, proved")
        if found.answer not in FOUND:
            raise LimitReached("no arrangement of the workers was found in time: give more --time-limit")
        moves = [(port, new) for port, new in enumerate(found.ports) if port != new]
        table = dict(moves)
        flows = [
            SwitchFlow(
                inputs=tuple(table.get(port, port) for port in flow.inputs),
                outputs=tuple(table.get(port, port) for port in flow.outputs),
            )
            for flow in problem.flows
        ]
        # Whoever moves takes a place that another leaves, or an idle one: one move alone needs an idle port.
        return _plan(problem, found.words, found.bound, budget, planner="auto", flows=flows, moves=moves)

    def _decompose(self, problem: RoutingProblem, budget: Budget) -> RoutingPlan:
        flows: list[SwitchFlow] = list(problem.flows)
        origins = list(range(len(flows)))
        for index, flow in enumerate(problem.flows):
            if set(flow.inputs) == set(flow.outputs) and len(flow.inputs) > 1:
                ring = [*flow.inputs[1:], flow.inputs[0]]
                flows += [SwitchFlow(inputs=(a,), outputs=(b,)) for a, b in zip(flow.inputs, ring, strict=True)]
                origins += [index] * len(flow.inputs)
        joint = Joint(flows, problem.ports, problem.middles, block=True)
        whole = len(problem.flows)
        for k, one in enumerate(joint.present):
            assert one is not None
            if k >= whole:
                original = joint.present[origins[k]]
                assert original is not None
                joint.model.add(one + original == 1)
            elif origins.count(k) == 1:
                joint.model.add(one == 1)
        joint.model.maximize(sum(one for one in joint.present[:whole] if one is not None))
        found = joint.solve(budget)
        if found.answer not in FOUND:
            whole_for_good = [flow for k, flow in enumerate(problem.flows) if origins.count(k) == 1]
            alone = Joint(whole_for_good, problem.ports, problem.middles).solve(budget)
            if alone.answer is solve.Answer.INFEASIBLE:
                raise Infeasible("the flows that are no all-reduce conflict among themselves, so no ring helps: proved")
            raise LimitReached("no all-reduces to run as rings, in the order given, were found")
        kept = [k for k, word in enumerate(found.words) if word is not None]
        # Rings are tried in the order given, so the model proves nothing for others; but the flows that stay whole route
        # together, so at least as many are decomposed as would have to be left out.
        bound = max(1, Joint(problem.flows, problem.ports, problem.middles, block=True).solve(budget).bound)
        return _plan(
            problem,
            [found.words[k] for k in kept],
            bound,
            budget,
            planner="auto",
            proof="as many as would have to be left out",
            flows=[flows[k] for k in kept],
            origins=[origins[k] for k in kept],
        )


ONE_CHIPLET = "each flow over one L2 chiplet a slice"


def _two_level(problem: RoutingProblem, budget: Budget, on_progress: OnProgress) -> RoutingPlan:
    """Route over the two-level fabric: all at once, or with the fewest flows left out, or in the fewest rounds."""

    def plan(found: TwoLevel, bound: int, proof: str) -> RoutingPlan:
        served = sorted({turn for turn in found.rounds if turn is not None}) or [0]
        return _plan(
            problem,
            [None if turn is None else () for turn in found.rounds],
            bound,
            budget,
            planner="auto",
            proof=f"{proof} ({ONE_CHIPLET})",
            rounds=[0 if turn is None else served.index(turn) for turn in found.rounds],
            chiplets=[found.turns[turn] for turn in served],
        )

    found = route_two_level(problem.flows, budget)
    on_progress(Progress(budget.elapsed, None, None, "flows", f"all at once: {found.answer}"))
    if found.answer in FOUND:
        return plan(found, min(1, len(problem.flows)) if problem.allow == "phases" else 0, "all flows route at once")
    late = LimitReached("the flows were neither routed nor proved to conflict in time: give more --time-limit")
    if found.answer is not solve.Answer.INFEASIBLE:
        raise late
    if problem.allow == "block":
        found = route_two_level(problem.flows, budget, block=True)
        if found.answer in FOUND:
            return plan(found, max(1, found.bound), "all at once was refuted")
        raise late
    if problem.allow == "phases":
        least = 2
        for rounds in range(2, len(problem.flows) + 1):
            found = route_two_level(problem.flows, budget, rounds=rounds)
            if found.answer in FOUND:
                return plan(found, least, f"{least - 1} round(s) were refuted")
            least += found.answer is solve.Answer.INFEASIBLE and least == rounds
        raise late
    core = conflicting_two_level(problem.flows, budget)
    raise Infeasible(
        f"fred-20 cannot route all {len(problem.flows)} flows at once in its slices ({ONE_CHIPLET}), proved; "
        "ways out: --allow block or phases, or another --order (fabric-plan prove placement --fabric fred-20 --order all finds one)",
        core=tuple(f"flow {k} {flow_name(problem.flows[k])}" for k in core),
    )


def conflicting_two_level(flows: Sequence[SwitchFlow], budget: Budget) -> tuple[int, ...]:
    """Return flows that do not route together over the two-level fabric, given that all do not; small, as far as time allows."""
    core = list(range(len(flows)))
    for one in list(core):
        without = [k for k in core if k != one]
        if route_two_level([flows[k] for k in without], budget).answer is solve.Answer.INFEASIBLE:
            core = without
    return tuple(core)


class _Protocol:
    """The paper's protocol: level by level, never going back."""

    def __init__(self, name: str, colouring: Callable[[Budget], Colouring]) -> None:
        self.name, self._colouring = name, colouring

    def solve(self, problem: Problem, budget: Budget, on_progress: OnProgress) -> RoutingPlan:
        """Return what the protocol finds; it knows no ways out and proves nothing."""
        assert isinstance(problem, RoutingProblem)
        if problem.fabric:
            raise InvalidInput(f"{self.name} knows one switch, not {problem.fabric}: use auto")
        words = level_by_level(problem.flows, problem.ports, problem.middles, self._colouring(budget))
        if words is None:
            raise LimitReached(f"{self.name} reports a conflict, which proves nothing: use auto")
        bound = {"phases": min(1, len(problem.flows)), "middle": 2}.get(problem.allow, 0)
        return _plan(problem, words, bound, budget, planner=self.name)


def first_fit_planner() -> _Protocol:
    """Return the protocol with colours by first fit."""
    return _Protocol("first-fit", lambda budget: first_fit)


def dsatur_planner() -> _Protocol:
    """Return the protocol with colours by DSATUR."""
    return _Protocol("dsatur", lambda budget: dsatur)


def level_planner() -> _Protocol:
    """Return the protocol with exact colours at each level."""
    return _Protocol("level-by-level", exactly)
