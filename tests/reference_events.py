"""A slow simulator in exact fractions, written from the definition of the service, as an independent reference.

It keeps the whole state, and at every moment applies whatever can happen until nothing more does; then it moves on to
the next moment at which something could. Nothing here is clever.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from fabric_plan.planner.fabric import Link
from fabric_plan.planner.simulator.program import Ints, Program
from fabric_plan.planner.simulator.service import Service

Time = Fraction
ZERO = Fraction(0)


class Run:
    """The state of a run; see the module's text."""

    def __init__(self, program: Program, links: Sequence[Link], service: Service) -> None:
        self.links, self.service = links, service
        count = len(program)
        start = [int(one) for one in program.hop_start]
        self.hops_of = [range(start[t], start[t + 1]) for t in range(count)]
        self.owner = [t for t in range(count) for _ in self.hops_of[t]]
        self.link = [int(one) for one in program.hop_link]
        self.parent = [int(one) for one in program.hop_parent]
        self.size = [Fraction(int(one), program.scale) for one in program.hop_size]
        self.children = [[k for k, up in enumerate(self.parent) if up == hop] for hop in range(len(self.link))]
        cut = [int(one) for one in program.need_start]
        self.needs = [[int(one) for one in program.need[cut[t] : cut[t + 1]]] for t in range(count)]

        def column(values: Ints | None, clock: int) -> list[Fraction]:
            return [ZERO] * count if values is None else [Fraction(int(one), clock) for one in values]

        self.release = column(program.release, program.clock)
        self.after = column(program.after, program.clock)
        self.priority = column(program.priority, 1)
        self.now = ZERO
        self.begin: list[Time | None] = [None] * count
        self.finish: list[Time | None] = [None] * count
        self.ready: list[Time | None] = [None] * len(self.link)
        self.start: list[Time | None] = [None] * len(self.link)
        self.left = [self.size[h] / links[self.link[h]].bandwidth for h in range(len(self.link))]
        self.end: list[Time | None] = [None] * len(self.link)
        self.arrival: list[Time | None] = [None] * len(self.link)
        self.busy = [ZERO] * len(links)
        self.serving: dict[int, int] = {}
        self.holds: dict[int, set[int]] = {link: set() for link in service.buffers}

    def up(self, link: int) -> bool:
        """Whether a link sends now."""
        if link not in self.service.outages:
            return True
        begin, end = self.service.outages[link]
        return not (begin <= self.now and (end is None or self.now < end))

    def past(self, time: Time | None) -> bool:
        return time is not None and time <= self.now

    def transfers(self) -> bool:
        """Begin and finish transfers; say whether anything happened."""
        moved = False
        for t in range(len(self.finish)):
            if (
                self.begin[t] is None
                and self.release[t] <= self.now
                and all(self.past(self.finish[n]) for n in self.needs[t])
            ):
                self.begin[t] = self.now
                moved = True
                if not self.hops_of[t]:
                    self.finish[t] = self.now + self.after[t]
                for hop in self.hops_of[t]:
                    if self.parent[hop] < 0:
                        self.ready[hop] = self.now
            if self.finish[t] is None and self.hops_of[t]:
                times = [self.arrival[hop] for hop in self.hops_of[t]]
                if all(self.past(time) for time in times):
                    self.finish[t] = max(time for time in times if time is not None) + self.after[t]
                    moved = True
        return moved

    def moments(self) -> list[Time]:
        """Every known time after now."""
        known = [*self.finish, *self.arrival, *self.end, *self.release]
        for begin, end in self.service.outages.values():
            known += [begin, end]
        return [time for time in known if time is not None and time > self.now]


class Fifo(Run):
    """First come, first served."""

    def room(self, hop: int) -> bool:
        link = self.link[hop]
        if link not in self.holds:
            return True
        return sum((self.size[one] for one in self.holds[link]), ZERO) + self.size[hop] <= self.service.buffers[link]

    def settle(self) -> bool:
        moved = False
        for link, hop in list(self.serving.items()):
            parent = self.parent[hop]
            waits = self.service.cut_through and parent >= 0 and not self.past(self.arrival[parent])
            if self.left[hop] == 0 and not waits:
                del self.serving[link]
                self.end[hop] = self.now
                self.arrival[hop] = self.now + self.links[link].latency
                moved = True
        for hop, parent in enumerate(self.parent):
            if parent < 0 or self.ready[hop] is not None:
                continue
            if self.service.cut_through:
                begun = self.start[parent]
                head = None if begun is None else begun + self.links[self.link[parent]].latency
                came = self.past(head)
            else:
                came = self.past(self.arrival[parent])
            if came:
                self.ready[hop] = self.now
                moved = True
        for held in self.holds.values():
            for hop in list(held):
                below = self.children[hop]
                gone = all(self.past(self.end[one]) for one in below) if below else self.past(self.arrival[hop])
                if gone:
                    held.remove(hop)
                    moved = True
        return self.transfers() or moved

    def order(self, hop: int) -> tuple[Fraction, Time, int]:
        ready = self.ready[hop]
        assert ready is not None
        return (self.priority[self.owner[hop]], ready, hop)

    def serve(self) -> bool:
        """Start (or interrupt for) one hop, the one with the least number of all that may."""
        waiting: dict[int, list[int]] = {}
        for hop, link in enumerate(self.link):
            if self.ready[hop] is not None and self.end[hop] is None and self.serving.get(link) != hop:
                waiting.setdefault(link, []).append(hop)
        heads = []
        for link, hops in waiting.items():
            head = min(hops, key=self.order)
            if link in self.serving:
                if self.priority[self.owner[head]] < self.priority[self.owner[self.serving[link]]]:
                    heads.append(head)
            elif self.room(head):
                heads.append(head)
        if not heads:
            return False
        hop = min(heads)
        link = self.link[hop]
        self.serving[link] = hop
        if self.start[hop] is None:
            self.start[hop] = self.now
            if link in self.holds:
                self.holds[link].add(hop)
        return True

    def run(self) -> list[Time | None]:
        while True:
            while self.settle():
                pass
            if self.serve():
                continue
            later = self.moments()
            for link, hop in self.serving.items():
                if self.left[hop] > 0 and self.up(link):
                    later.append(self.now + self.left[hop])
            for hop, link in enumerate(self.link):
                begun = self.start[hop]
                if self.service.cut_through and begun is not None and begun + self.links[link].latency > self.now:
                    later.append(begun + self.links[link].latency)
            if not later:
                return self.finish
            following = min(later)
            for link, hop in self.serving.items():
                if self.up(link):
                    worked = min(self.left[hop], following - self.now)
                    self.left[hop] -= worked
                    self.busy[link] += worked
            self.now = following


class Fair(Run):
    """Max-min fair shares, found anew at every moment by filling all flows evenly until a link is full."""

    def __init__(self, program: Program, links: Sequence[Link], service: Service) -> None:
        super().__init__(program, links, service)
        self.flows: list[list[int]] = []
        for hop, parent in enumerate(self.parent):
            if not service.cut_through:
                self.flows.append([hop])
            elif parent < 0:
                tree = [hop]
                for one in tree:
                    tree += self.children[one]
                self.flows.append(tree)
        self.bytes = [self.size[flow[0]] for flow in self.flows]
        self.done = [False] * len(self.flows)

    def settle(self) -> bool:
        moved = False
        for flow, hops in enumerate(self.flows):
            if not self.done[flow] and self.bytes[flow] == 0 and self.ready[hops[0]] is not None:
                self.done[flow] = moved = True
                for hop in hops:
                    path, at = ZERO, hop
                    while True:
                        path += self.links[self.link[at]].latency
                        if at == hops[0]:
                            break
                        at = self.parent[at]
                    self.arrival[hop] = self.now + path
        if not self.service.cut_through:
            for hop, parent in enumerate(self.parent):
                if parent >= 0 and self.ready[hop] is None and self.past(self.arrival[parent]):
                    self.ready[hop] = self.now
                    moved = True
        for hops in self.flows:
            for hop in hops:
                self.start[hop] = self.ready[hops[0]]
        return self.transfers() or moved

    def rates(self) -> dict[int, Fraction]:
        active = [f for f, hops in enumerate(self.flows) if self.ready[hops[0]] is not None and not self.done[f]]
        spare = {k: Fraction(one.bandwidth) if self.up(k) else ZERO for k, one in enumerate(self.links)}
        rate = dict.fromkeys(active, ZERO)
        for level in sorted({self.priority[self.owner[self.flows[f][0]]] for f in active}):
            growing = {f for f in active if self.priority[self.owner[self.flows[f][0]]] == level}
            while growing:
                users = {k: sum(self.link[h] == k for f in growing for h in self.flows[f]) for k in spare}
                step = min(spare[k] / n for k, n in users.items() if n)
                for k, n in users.items():
                    spare[k] -= n * step
                for f in growing:
                    rate[f] += step
                growing = {f for f in growing if all(spare[self.link[h]] > 0 for h in self.flows[f])}
        return rate

    def run(self) -> list[Time | None]:
        while True:
            while self.settle():
                pass
            rate = self.rates()
            later = self.moments()
            later += [self.now + self.bytes[f] / one for f, one in rate.items() if one > 0]
            if not later:
                return self.finish
            following = min(later)
            for f, one in rate.items():
                passed = one * (following - self.now)
                self.bytes[f] -= passed
                for hop in self.flows[f]:
                    self.busy[self.link[hop]] += passed / self.links[self.link[hop]].bandwidth
            self.now = following


def simulate(program: Program, links: Sequence[Link], service: Service | None = None) -> Run:
    """The end: ``begin``, ``finish`` by transfer; ``start``, ``arrival`` by hop (None: never); ``busy`` by link."""
    service = service or Service()
    last = (Fair if service.discipline == "fair" else Fifo)(program, links, service)
    last.run()
    return last


def finish_times(program: Program, links: Sequence[Link], service: Service | None = None) -> list[Time | None]:
    """Return when each transfer finishes, None for never."""
    return simulate(program, links, service).finish
