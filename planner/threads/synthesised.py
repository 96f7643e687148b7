"""What synthesisers wrote, as schedules of steps: SCCL, msccl-tools, TACCL, TE-CCL and ForestColl, with the checks of their own rules."""

from __future__ import annotations

from collections import defaultdict

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.forestcoll_xml import Forest, Node, Tree, is_compute
from fabric_plan.planner.formats.synthesis_json import Synthesised
from fabric_plan.planner.formats.teccl_json import TecclSchedule
from fabric_plan.planner.threads.collectives import NAMES, Collective
from fabric_plan.planner.threads.findings import Findings
from fabric_plan.planner.threads.stepped import Place, Send, Stepped, kind_of


def _collective(kind: str, ranks: int, pieces: int, root: int = 0) -> Collective:
    """Return a collective whose pieces divide as it needs; where they do not, it is one of its own."""
    try:
        return Collective(kind, ranks, pieces, root)
    except InvalidInput:
        return Collective("custom", ranks, pieces)


def of_synthesised(found: Synthesised, findings: Findings) -> Stepped:
    """Return an SCCL or TACCL algorithm as steps; findings of its name and of its links are added.

    A TACCL step is what begins at one time; sends of SCCL's steps share their links' rounds.
    """
    addresses = {k: chunk.address for k, chunk in enumerate(found.chunks)}
    origins = {k: set(chunk.pre) for k, chunk in enumerate(found.chunks)}
    goals = {k: set(chunk.post) for k, chunk in enumerate(found.chunks)}
    kind = kind_of(found.ranks, origins, goals, addresses)
    _check_name(found, kind, findings)
    start: dict[Place, set[int]] = defaultdict(set)
    wanted: dict[Place, set[int]] = defaultdict(set)
    for k, chunk in enumerate(found.chunks):
        for rank in chunk.pre:
            start[rank, chunk.address].add(k)
        for rank in chunk.post:
            wanted[rank, chunk.address].add(k)
    sends = []
    for number, step in enumerate(found.steps):
        for k, (address, source, target) in enumerate(step.sends):
            sends.append(Send(address, source, target, number, step.lines[k]))
    if found.kind == "taccl":
        times = [time for step in found.steps for time in step.times]
        order = {time: place for place, time in enumerate(sorted(set(times)))}
        sends = [
            Send(one.address, one.source, one.target, order[time], one.line)
            for one, time in zip(sends, times, strict=True)
        ]
    else:
        _check_links(found, findings)
    pieces = len(set(addresses.values()))
    if kind == "alltoall":
        pieces = found.ranks * max(1, -(-pieces // (found.ranks * found.ranks)))
    roots = {next(iter(goal)) for goal in goals.values() if len(goal) == 1}
    root = min(roots) if kind in ("reduce", "gather") and roots else 0
    if kind in ("broadcast", "scatter"):
        root = next(iter(origins[0]))
    return Stepped(
        _collective(kind, found.ranks, pieces, root),
        {place: frozenset(held) for place, held in start.items()},
        {place: frozenset(held) for place, held in wanted.items()},
        sends,
        source_of={k: min(chunk.pre, default=0) for k, chunk in enumerate(found.chunks)},
    )


def _check_name(found: Synthesised, kind: str, findings: Findings) -> None:
    stated = found.collective.split("(")[0].split(",")[0].strip().lower().replace("_", "").replace("-", "")
    runtime = (found.runtime_name or "").lower().replace("_", "")
    for name, severity, what in ((stated, "warning", "name"), (runtime, "error", "runtime_name")):
        if name in NAMES and name != "custom" and NAMES[name] != kind:
            findings.add(
                severity,  # type: ignore[arg-type]
                "collective",
                f"the collective's {what} is {name}, but its pre- and postconditions are those of {kind}",
            )


def _check_links(found: Synthesised, findings: Findings) -> None:
    """Compare what each link and switch carries in a step (and the steps that overlap it) with its rounds."""
    if found.links is None:
        findings.add("info", "links", "the file has no topology: links are not checked")
        return
    loads: list[dict[Place, int]] = []
    for number, step in enumerate(found.steps):
        load: dict[Place, int] = defaultdict(int)
        for k, (_, source, target) in enumerate(step.sends):
            if (source, target) not in found.links:
                findings.add(
                    "error",
                    "links",
                    f"steps[{number}].sends[{k}]: the topology has no link {source}->{target}",
                    line=step.lines[k],
                )
            load[source, target] += 1
        loads.append(load)
    limits = [(f"link {a}->{b}", frozenset((a,)), frozenset((b,)), width) for (a, b), width in found.links.items()]
    limits += list(found.switches)
    for number, step in enumerate(found.steps):
        overlapping = range(number, len(found.steps), found.pipeline) if found.pipeline else [number]
        for name, sources, targets, width in limits:
            if len(sources) == 1 and len(targets) == 1:
                pair = next(iter(sources)), next(iter(targets))
                used = sum(loads[other].get(pair, 0) for other in overlapping)
            else:
                used = sum(
                    many
                    for other in overlapping
                    for (a, b), many in loads[other].items()
                    if a in sources and b in targets
                )
            if used > width * step.rounds + 1e-9:
                findings.add(
                    "error",
                    "overload",
                    f"step {number}: {name} carries {used} chunks in {step.rounds:g} rounds of {width:g}",
                    line=step.lines[0] if step.lines else None,
                )


def of_teccl(found: TecclSchedule, findings: Findings) -> Stepped:
    """Return a TE-CCL schedule as steps; rank k is the k-th GPU by number (numbers in between are switches)."""
    gpus = sorted({gpu for origin, _, end in found.demands for gpu in (origin, end)})
    rank_of = {gpu: rank for rank, gpu in enumerate(gpus)}
    chunks = sorted({(origin, chunk) for origin, chunk, _ in found.demands})
    address_of = {key: k for k, key in enumerate(chunks)}
    goals: dict[int, set[int]] = defaultdict(set)
    for origin, chunk, end in found.demands:
        goals[address_of[origin, chunk]].add(rank_of[end])
    origins = {k: {rank_of[origin]} for k, (origin, _) in enumerate(chunks)}
    for k, goal in goals.items():
        if len(goal) > 1:
            goal |= origins[k]
    kind = kind_of(len(gpus), origins, goals, {k: k for k in address_of.values()})
    sends = []
    for flow in found.flows:
        if flow.source not in rank_of or flow.target not in rank_of:
            odd = flow.source if flow.source not in rank_of else flow.target
            raise InvalidInput(
                f"{'' if flow.line is None else f'line {flow.line}: '}flow over {flow.source}->{flow.target}: nothing is demanded of or by GPU {odd}"
            )
        key = flow.origin, flow.chunk
        if key not in address_of:
            text = f"flow of chunk {flow.chunk} of {flow.origin} over {flow.source}->{flow.target}: nobody asks for it"
            findings.add("warning", "unwanted", text, line=flow.line)
            continue
        sends.append(
            Send(address_of[key], rank_of[flow.source], rank_of[flow.target], flow.epoch, flow.line, flow.volume)
        )
    late = max((send.step for send in sends), default=-1) + 1
    if found.epochs is not None and late > found.epochs:
        findings.add("warning", "epochs", f"flows leave in epoch {late - 1}, but the file says {found.epochs} epochs")
    each = max(1, len(chunks) // len(gpus))
    pieces = len(gpus) * (-(-(each) // max(1, len(gpus) - 1)) if kind == "alltoall" else each)
    return Stepped(
        _collective(kind, len(gpus), pieces),
        {(rank_of[origin], address_of[origin, chunk]): frozenset((k,)) for k, (origin, chunk) in enumerate(chunks)},
        {(end, k): frozenset((k,)) for k, goal in goals.items() for end in goal},
        sends,
        told=lambda address: f"chunk {chunks[address][1]} of GPU {chunks[address][0]}",
        source_of={k: rank_of[origin] for k, (origin, _) in enumerate(chunks)},
    )


def of_forest(forest: Forest, findings: Findings) -> Stepped | None:
    """Return trees as the steps of an all-gather, None where one is no spanning tree; loads of links are added as a finding."""
    gpus = sorted(
        {
            node
            for tree in forest.trees
            for send in tree.sends
            for node in (send.source, send.target)
            if is_compute(node)
        }
        | {tree.root for tree in forest.trees}
    )
    rank_of = {node: rank for rank, node in enumerate(gpus)}
    sends, first, fine = [], dict[int, int](), True
    total: dict[int, int] = defaultdict(int)
    load: dict[tuple[Node, Node], int] = defaultdict(int)
    for tree in forest.trees:
        depth = _depths(tree, gpus, findings)
        if depth is None:
            fine = False
            continue
        root = rank_of[tree.root]
        part, total[root] = total[root], total[root] + tree.chunks
        for send in tree.sends:
            for a, b in zip(send.path, send.path[1:], strict=False):
                load[a, b] += tree.chunks
            for k in range(part, min(part + tree.chunks, forest.chunks_each)):
                address = root * forest.chunks_each + k
                first.setdefault(address, tree.line)
                step = depth[send.source]
                sends.append(Send(address, rank_of[send.source], rank_of[send.target], step, send.line))
    for node in gpus:
        if total[rank_of[node]] != forest.chunks_each and fine:
            findings.add(
                "error",
                "parts",
                f"the trees of {_told(node)} carry {total[rank_of[node]]} parts, its data has {forest.chunks_each}",
            )
    if load:
        (a, b), most = max(load.items(), key=lambda item: item[1])
        findings.add(
            "info",
            "load",
            f"the busiest link, {_told(a)}->{_told(b)}, carries {most} parts of {forest.chunks_each} parts a GPU ({most / forest.chunks_each:.4g} times a GPU's data)",
        )
    if not fine or findings.has("error"):
        return None
    sends.sort(key=lambda send: send.step)
    addresses = range(len(gpus) * forest.chunks_each)
    each = forest.chunks_each
    return Stepped(
        Collective("allgather", len(gpus), len(gpus) * each),
        {(k // each, k): frozenset((k,)) for k in addresses},
        {(rank, k): frozenset((k,)) for k in addresses for rank in range(len(gpus))},
        sends,
        told=lambda address: f"part {address % each} of {_told(gpus[address // each])}",
        source_of={k: k // each for k in addresses},
    )


def _told(node: Node) -> str:
    return f"{node[1]} {node[0]}.{node[2]}"


def _depths(tree: Tree, gpus: list[Node], findings: Findings) -> dict[Node, int] | None:
    """Return how far each GPU is from the root of a tree, None (with findings) where it does not span them all once."""
    where = f"tree {tree.index} of {_told(tree.root)}"
    parent: dict[Node, Node] = {}
    fine = True

    def wrong(code: str, text: str, line: int) -> None:
        nonlocal fine
        fine = False
        findings.add("error", code, text, line=line)

    for send in tree.sends:
        inner = send.path[1:-1]
        if send.path[0] != send.source or send.path[-1] != send.target:
            wrong("path", f"{where}: the path of {_told(send.source)}->{_told(send.target)} has other ends", send.line)
        if any(is_compute(node) for node in inner) or not (is_compute(send.source) and is_compute(send.target)):
            wrong(
                "path",
                f"{where}: {_told(send.source)}->{_told(send.target)}: sends go from GPU to GPU by switches",
                send.line,
            )
        if send.target in parent or send.target == tree.root:
            wrong("tree", f"{where}: {_told(send.target)} gets its part twice", send.line)
        parent[send.target] = send.source
    depth = {tree.root: 0}
    for node in gpus:
        path = []
        while node not in depth and node in parent and node not in path:
            path.append(node)
            node = parent[node]
        if node not in depth:
            what = "is in a cycle" if node in path else "is not reached"
            wrong("tree", f"{where}: {_told(node)} {what}", tree.line)
            return None
        for one in reversed(path):
            depth[one] = depth[parent[one]] + 1
    if tree.height is not None and fine and max(depth.values()) != tree.height:
        findings.add(
            "warning",
            "height",
            f"{where}: its height is {max(depth.values())}, the file says {tree.height}",
            line=tree.line,
        )
    return depth if fine else None
