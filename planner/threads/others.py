"""Verdicts on files that are no programs of threads: synthesisers' steps, trees, traces and graphs."""

from __future__ import annotations

import json
from array import array
from fractions import Fraction
from typing import Any

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.files import read_bytes
from fabric_plan.planner.threads.checked import Checked
from fabric_plan.planner.threads.collectives import Collective
from fabric_plan.planner.threads.findings import Findings, Verdict
from fabric_plan.planner.threads.order import Messages, cycle, matched, topological
from fabric_plan.planner.threads.program import Program
from fabric_plan.planner.threads.stepped import Stepped, follow


def _checked(
    kind: str,
    summary: str,
    findings: Findings,
    program: Program | None = None,
    messages: Messages | None = None,
    collective: Collective | None = None,
    fixed: Fraction | None = None,
) -> Checked:
    verdict = Verdict("invalid" if findings.has("error") else "valid", kind, summary, tuple(findings.summed()))
    return Checked(verdict, program, messages, None, collective, fixed=fixed)


def sniff_json(content: bytes) -> tuple[str, dict[str, Any], str]:
    """Return what kind of JSON a file is, with its content.

    Raises
    ------
    InvalidInput
        When it is no JSON, or of no kind that is known.
    """
    try:
        text = content.decode("utf-8-sig")
        document = json.loads(text)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"byte {error.start}: not text") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidInput("JSON: expected an object")
    kinds = {
        "msccl_type": "synthesised",
        "sccl_type": "synthesised",
        "7-Flows": "teccl",
        "gpus": "mscclpp",
    }
    for key, kind in kinds.items():
        if key in document:
            return kind, document, text
    shown = ", ".join(list(map(str, document))[:6])
    raise InvalidInput(
        f"JSON with the keys {shown[:80] or 'none'}: expected an MSCCL++ plan, an SCCL or TACCL algorithm, a TE-CCL schedule or a plan"
    )


def check(kind: str, content: bytes, path: str) -> Checked:
    """Check a file of a kind that :func:`sniff_json` or the first bytes told.

    Raises
    ------
    InvalidInput
        When it cannot be read, in one line.
    """
    if kind == "forestcoll":
        return _forest(content)
    if kind == "nccl-graph":
        return _graphs(content)
    if kind == "chakra":
        return _traces(content, path)
    if kind == "json":
        found, document, text = sniff_json(content)
        return _synthesised(document, text) if found == "synthesised" else _teccl(document, text)
    raise InvalidInput(f"a file of kind {kind} holds no schedule")


def _stepped(kind: str, what: str, schedule: Stepped | None, findings: Findings) -> Checked:
    if schedule is None:
        return _checked(kind, what, findings)
    collective = schedule.collective
    steps = len({send.step for send in schedule.sends})
    summary = f"{what}: {collective.name} of {collective.ranks} ranks, {len(schedule.sends):,} sends in {steps} steps"
    found = follow(schedule, findings)
    program, messages = found[:2] if found is not None else (None, None)
    return _checked(kind, summary, findings, program, messages, collective)


def _synthesised(document: dict[str, Any], text: str) -> Checked:
    from fabric_plan.planner.formats.synthesis_json import read_synthesised
    from fabric_plan.planner.threads.synthesised import of_synthesised

    findings = Findings()
    found = read_synthesised(document, text)
    kind = "taccl-json" if found.kind == "taccl" else "sccl-json"
    return _stepped(kind, found.name or found.collective, of_synthesised(found, findings), findings)


def _teccl(document: dict[str, Any], text: str) -> Checked:
    from fabric_plan.planner.formats.teccl_json import read_teccl
    from fabric_plan.planner.threads.synthesised import of_teccl

    findings = Findings()
    return _stepped("teccl-json", "TE-CCL", of_teccl(read_teccl(document, text), findings), findings)


def _forest(content: bytes) -> Checked:
    from fabric_plan.planner.formats.forestcoll_xml import read_forest
    from fabric_plan.planner.threads.synthesised import of_forest

    findings = Findings()
    forest = read_forest(content)
    return _stepped("forestcoll", f"{len(forest.trees)} trees", of_forest(forest, findings), findings)


def _graphs(content: bytes) -> Checked:
    from fabric_plan.planner.formats.nccl_graph_xml import read_graphs
    from fabric_plan.planner.threads.graphs import check_graphs, ring_all_reduce

    findings = Findings()
    graphs = read_graphs(content)
    check_graphs(graphs, findings)
    channels = ", ".join(str(len(graph.channels)) for graph in graphs)
    what = f"{len(graphs)} graphs of {channels} channels"
    rings = None if findings.has("error") else ring_all_reduce(graphs)
    return _stepped("nccl-graph", what, rings, findings)


def _traces(content: bytes, path: str) -> Checked:
    from fabric_plan.planner.formats.chakra_et import read_trace, siblings
    from fabric_plan.planner.threads.traces import program_of

    findings = Findings()
    beside = siblings(path)
    traces = []
    for rank, file in beside.items():
        try:
            traces.append(read_trace(read_bytes(file), rank))
        except InvalidInput as error:
            raise InvalidInput(str(error) if str(file) == path else f"{file}: {error}") from None
    if not traces:
        traces.append(read_trace(content))
    nodes = sum(len(trace.nodes) for trace in traces)
    summary = f"traces of {len(traces)} rank{'s' if len(traces) > 1 else ''}, {nodes:,} nodes; matching, order and volume only: a trace names no buffers"
    found = program_of(traces, findings)
    if found is None:
        return _checked("chakra", summary, findings)
    program, unit = found
    messages = matched(program, findings)
    if findings.has("error"):
        return _checked("chakra", summary, findings)
    order: array[int] = topological(program, messages)
    if len(order) < len(program):
        _, told = cycle(program, messages, order)
        left = len(program) - len(order)
        findings.add(
            "error", "deadlock", f"{left:,} of {len(program):,} nodes never run, in no order: {told[0]}", witness=told
        )
        return _checked("chakra", summary, findings)
    if len(traces) < 2:
        return _checked("chakra", summary, findings)
    collective = Collective("custom", program.ranks, 1)
    return _checked("chakra", summary, findings, program, messages, collective, Fraction(unit))
