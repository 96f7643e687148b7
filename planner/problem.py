"""The problems of the four families: frozen, checked when they are made, and written to files as they stand.

Every type is a msgspec structure, so a file is read strictly: a missing, unknown or ill-typed field is an error that
names its path. Collective sizes are exact fractions of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar, Literal, Protocol

import msgspec

from fabric_plan.planner.collective import PATTERNS
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.parallelism import DIMENSIONS, Strategy
from fabric_plan.planner.workload import Volume

Algorithm = Literal["ring", "unicast", "multicast", "direct"]
Order = Literal["fixed", "free"]
Direction = Literal["forward", "both"]

_RING_PATTERNS = ("all-reduce", "reduce-scatter", "all-gather")
_ALGORITHMS = {
    "ring": _RING_PATTERNS,
    "unicast": ("point-to-point",),
    "multicast": ("point-to-point",),
    "direct": ("all-to-all",),
}


class Demand(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What the groups along one dimension communicate in an iteration.

    Parameters
    ----------
    dimension
        mp, cp, ep, dp or pp.
    pattern
        The collective, or point-to-point along a pipeline.
    algorithm
        ``ring``: each member sends to its successor. ``unicast``: each worker of a stage sends to its counterpart in the
        next. ``multicast``: the worker with MP digit 0 sends to all workers of the next stage that share its other
        digits (FRED paper, section 8.1). ``direct``: every member sends to every other.
    size, count
        Bytes per iteration (see :mod:`fabric_plan.planner.collective`), over ``count`` collectives one after another;
        None to count flows.
    order
        ``fixed``: rings run in the order of the digit. ``free``: their order is for the planner to choose.
    direction
        Of a pipeline: ``forward``, stage s to s+1; or ``both``, gradients go back as well.
    weight
        Of this phase in the objective, when phases are minimised apart.
    """

    dimension: str
    pattern: str
    algorithm: Algorithm
    size: Fraction | None = None
    count: int = 1
    order: Order = "fixed"
    direction: Direction = "forward"
    weight: int = 1

    def __post_init__(self) -> None:
        if self.dimension not in DIMENSIONS:
            raise InvalidProblem(
                f"demand: unknown dimension {self.dimension!r}: expected one of {', '.join(DIMENSIONS)}"
            )
        if self.pattern not in PATTERNS or self.pattern not in _ALGORITHMS[self.algorithm]:
            fitting = ", ".join(_ALGORITHMS[self.algorithm])
            raise InvalidProblem(f"demand {self.dimension}: {self.algorithm} carries {fitting}, not {self.pattern!r}")
        if (self.pattern == "point-to-point") != (self.dimension == "pp"):
            raise InvalidProblem(
                f"demand {self.dimension}: point-to-point is for the pp dimension, and pp for nothing else"
            )
        if self.size is not None and self.size <= 0:
            raise InvalidProblem(f"demand {self.dimension}: the size must be greater than zero")
        if self.weight < 1 or self.count < 1:
            raise InvalidProblem(f"demand {self.dimension}: weight and count must be at least 1")


def demands_for(
    strategy: Strategy,
    *,
    volumes: Mapping[str, Volume] | None = None,
    ring: Order = "fixed",
    pp: Literal["unicast", "multicast"] = "unicast",
    direction: Direction = "forward",
) -> tuple[Demand, ...]:
    """Return the usual demand of each dimension larger than one: rings for mp, cp, dp; all-to-all for ep; a pipeline.

    Raises
    ------
    InvalidProblem
        When ``volumes`` are given for some of these dimensions but not for all, or for a dimension that has none.
    """
    wanted = [name for name in strategy.dimensions if strategy.size(name) > 1]
    if volumes is not None:
        for name in volumes:
            if name not in wanted:
                there = ", ".join(wanted) or "none"
                raise InvalidProblem(
                    f"volumes: {name} has one worker a group in {strategy}; dimensions that communicate: {there}"
                )
        missing = [name for name in wanted if name not in volumes]
        if missing:
            raise InvalidProblem(
                f"volumes: none given for {', '.join(missing)} of {strategy}: give every dimension's, or none"
            )
    found = []
    for name in wanted:
        volume = volumes[name] if volumes is not None else None
        size, count = (volume.size, volume.count) if volume is not None else (None, 1)
        if name == "pp":
            demand = Demand(
                dimension=name, pattern="point-to-point", algorithm=pp, size=size, count=count, direction=direction
            )
        elif name == "ep":
            demand = Demand(dimension=name, pattern="all-to-all", algorithm="direct", size=size, count=count)
        else:
            pattern = "all-gather" if name == "cp" else "all-reduce"
            demand = Demand(dimension=name, pattern=pattern, algorithm="ring", size=size, count=count, order=ring)
        found.append(demand)
    return tuple(found)


class PlacementProblem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Which seat of a fabric each worker of a strategy takes.

    ``objective`` is ``congestion`` (largest link load: flows per parallel link, or seconds once every demand has a
    size) or ``time`` (that plus the latency of the slowest route in every step; needs sizes). With ``concurrent`` all
    groups load the links at once, otherwise each dimension is a phase of its own and the phases' values are summed,
    weighted. Both are reached by :func:`fabric_plan.plan`.
    """

    family: ClassVar[str] = "placement"

    fabric: Fabric
    strategy: Strategy
    demands: tuple[Demand, ...]
    objective: Literal["congestion", "time"] = "congestion"
    concurrent: bool = True

    def __post_init__(self) -> None:
        workers, seats = self.strategy.workers, len(self.fabric.seats)
        if workers > seats:
            raise InvalidProblem(
                f"strategy {self.strategy} has {workers} workers, fabric {self.fabric.name} only {seats} NPUs{_what_fits(self.strategy, seats)}"
            )
        seen = [demand.dimension for demand in self.demands]
        for name in seen:
            if seen.count(name) > 1:
                raise InvalidProblem(f"demands: {name} is given twice")
            if self.strategy.size(name) < 2:
                raise InvalidProblem(
                    f"demands: {name} has one worker a group in {self.strategy}, so nothing to communicate"
                )
        sized = [demand.size is not None for demand in self.demands]
        if any(sized) and not all(sized):
            raise InvalidProblem("demands: some have a size and some have none: give every dimension's, or none")
        multicast = self.strategy.size("mp") > 1 and any(demand.algorithm == "multicast" for demand in self.demands)
        if multicast and self.fabric.routing == "planes" and len(self.fabric.plane_sets) > 1:
            raise InvalidProblem("multicast over planes needs every NPU on the same planes: use --pp unicast")
        if self.objective == "time" and not all(sized):
            raise InvalidProblem("objective time needs sizes: give --workload or --volumes")

    @classmethod
    def of(
        cls,
        fabric: Fabric | str,
        strategy: Strategy | str,
        *,
        workload: str | None = None,
        volumes: Mapping[str, Volume | Fraction | int | str] | None = None,
        objective: Literal["congestion", "time"] = "congestion",
        concurrent: bool = True,
        ring: Order = "fixed",
        pp: Literal["unicast", "multicast"] = "unicast",
        direction: Direction | None = None,
    ) -> PlacementProblem:
        """Make a problem from names (a fabric's may be a graph file), as the command line does.

        ``volumes`` (bytes, "64MiB", or "64MiB*312") replace those of ``workload`` where both are given. ``direction`` is forward,
        unless a workload is given: then gradients go back through the pipeline too.
        """
        from fabric_plan.planner.files import load_fabric
        from fabric_plan.planner.workload import workload as find

        fabric = load_fabric(fabric) if isinstance(fabric, str) else fabric
        strategy = Strategy.parse(strategy) if isinstance(strategy, str) else strategy
        given = {name: _volume(value) for name, value in (volumes or {}).items()}
        sizes = find(workload).volumes(strategy, given) if workload is not None else given or None
        direction = direction or ("both" if workload is not None else "forward")
        demands = demands_for(strategy, volumes=sizes, ring=ring, pp=pp, direction=direction)
        return cls(fabric=fabric, strategy=strategy, demands=demands, objective=objective, concurrent=concurrent)


def _volume(value: Volume | Fraction | int | str) -> Volume:
    if isinstance(value, Volume):
        return value
    return Volume.parse(value) if isinstance(value, str) else Volume(Fraction(value))


def _what_fits(strategy: Strategy, seats: int) -> str:
    """Return ": ... would fit", with the dimension lowered that leaves the most workers."""
    fitting = []
    for name, size in strategy.sizes:
        lowered = seats * size // strategy.workers
        if 1 <= lowered < size:
            fitting.append(Strategy(tuple((one, lowered if one == name else old) for one, old in strategy.sizes)))
    if not fitting:
        return f": at most {seats} workers fit"
    best = max(fitting, key=lambda one: (one.workers, one.size("mp"), one.size("pp")))
    return f": {best} would fit"


class SwitchFlow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A flow through a FRED switch: reduce over ``inputs``, broadcast to ``outputs`` (FRED paper, section 5.1)."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def __post_init__(self) -> None:
        for side, ports in (("inputs", self.inputs), ("outputs", self.outputs)):
            if not ports:
                raise InvalidProblem(f"flow: it has no {side}")
            if len(set(ports)) != len(ports):
                raise InvalidProblem(f"flow: a port is named twice among the {side} {list(ports)}")


WayOut = Literal["nothing", "block", "phases", "move", "middle", "decompose"]
"""What may be done where not all flows route at once: leave some out, take turns, move workers to other ports, more middle
networks, or run collectives as rings of unicast flows."""


class RoutingProblem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which middle network each flow takes at every level of a Fred_m(P) switch (FRED paper, sections 4 and 5).

    ``fabric`` names the two-level fabric instead: its ports are 20 NPUs and 18 I/O controllers, and a flow that leaves its L1
    also takes an L2 chiplet and uplinks (:mod:`fabric_plan.planner.fred_two_level`).
    """

    family: ClassVar[str] = "routing"

    middles: int
    ports: int
    flows: tuple[SwitchFlow, ...]
    allow: WayOut = "nothing"
    fabric: Literal["", "fred-20"] = ""

    def __post_init__(self) -> None:
        if self.fabric and (self.middles, self.ports) != (3, 38):
            raise InvalidProblem(
                f"{self.fabric}: it has 3 middle networks and 38 ports, not {self.middles} and {self.ports}"
            )
        if self.fabric and self.allow not in ("nothing", "block", "phases"):
            raise InvalidProblem(
                f"{self.fabric}: flows may be left out or take turns (block, phases), not {self.allow!r}"
            )
        if self.middles < 2 or self.ports < 2:
            raise InvalidProblem(f"switch {self.switch}: it needs at least 2 middle networks and 2 ports")
        for side in ("inputs", "outputs"):
            used: set[int] = set()
            for index, flow in enumerate(self.flows):
                for port in getattr(flow, side):
                    if not 0 <= port < self.ports:
                        raise InvalidProblem(
                            f"flow {index}: port {port} does not exist: ports go from 0 to {self.ports - 1}"
                        )
                    if port in used:
                        raise InvalidProblem(f"flow {index}: port {port} is already among the {side} of another flow")
                    used.add(port)

    @property
    def switch(self) -> str:
        """The switch as people write it: ``fred3:12``, or the fabric."""
        return self.fabric or f"fred{self.middles}:{self.ports}"


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One collective of a schedule: its group of seats, size in bytes, release time in seconds, and priority (0 first).

    ``name`` is for readers; a job that has none is written to files without it.
    """

    pattern: str
    group: tuple[int, ...]
    size: Fraction
    release: Fraction = Fraction(0)
    priority: int = 0
    name: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def label(self) -> str:
        """Its name, or its collective and ranks: "all-reduce 0,1,5"."""
        if isinstance(self.name, str):
            return self.name
        shown = ",".join(map(str, self.group[:6])) + (",..." if len(self.group) > 6 else "")
        return f"{self.pattern} {shown}"

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise InvalidProblem(f"job: unknown collective {self.pattern!r}: expected one of {', '.join(PATTERNS)}")
        if len(set(self.group)) != len(self.group) or len(self.group) < 2:
            raise InvalidProblem(f"job: the group {list(self.group)} must hold at least two different seats")
        if self.size <= 0 or self.release < 0:
            raise InvalidProblem("job: the size must be greater than zero and the release time not negative")


class ScheduleProblem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When each chunk of one or several concurrent collectives crosses each link.

    Parameters
    ----------
    chunks
        Into how many chunks an algorithm that sends them one after another cuts the data; None: as many as suit it.
    slots
        How many chunks a switch that reduces can have under way; None: no limit.
    """

    family: ClassVar[str] = "schedule"

    fabric: Fabric
    jobs: tuple[Job, ...]
    chunks: int | None = None
    slots: int | None = None
    objective: Literal["latency", "bandwidth", "time"] = "time"

    def __post_init__(self) -> None:
        seats = len(self.fabric.seats)
        if not self.jobs:
            raise InvalidProblem("schedule: there must be at least one job")
        for index, job in enumerate(self.jobs):
            for seat in job.group:
                if not 0 <= seat < seats:
                    raise InvalidProblem(f"job {index}: seat {seat} does not exist: seats go from 0 to {seats - 1}")
        if (self.chunks is not None and self.chunks < 1) or (self.slots is not None and self.slots < 1):
            raise InvalidProblem("schedule: there must be at least one chunk, and one slot")

    @classmethod
    def of(
        cls,
        fabric: Fabric | str,
        pattern: str,
        size: Fraction | int | str,
        *,
        group: Sequence[int] | None = None,
        chunks: int | None = None,
        slots: int | None = None,
        release: Fraction = Fraction(0),
    ) -> ScheduleProblem:
        """Make the problem of one collective from names, as the command line does; the group is all seats by default."""
        from fabric_plan.planner.files import load_fabric
        from fabric_plan.planner.units import parse_size

        fabric = load_fabric(fabric) if isinstance(fabric, str) else fabric
        size = parse_size(size) if isinstance(size, str) else Fraction(size)
        seats = tuple(range(len(fabric.seats))) if group is None else tuple(group)
        return cls(
            fabric=fabric,
            jobs=(Job(pattern=pattern, group=seats, size=size, release=release),),
            chunks=chunks,
            slots=slots,
        )

    @property
    def seen(self) -> Fabric:
        """The fabric under the protocol of the largest job: links have one speed and latency, whoever uses them."""
        return self.fabric.for_size(max(job.size for job in self.jobs))


class Problem(Protocol):
    """What the problems of all families have; those of balance are in :mod:`fabric_plan.planner.balance`."""

    family: ClassVar[str]
