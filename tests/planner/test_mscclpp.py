"""MSCCL++ plans: our samples, what breaks them, and what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from schedules import samples

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.threads.check_mscclpp import check
from fabric_plan.planner.threads.findings import Verdict

GOOD: dict[str, Callable[[], str]] = {
    "memory": lambda: samples.memory_all_reduce(3),
    "scratch": lambda: samples.scratch_all_reduce(3),
    "ports": lambda: samples.port_all_gather(3),
    "port ring": lambda: samples.port_ring_all_gather(4),
    "packets": lambda: samples.packet_all_reduce(3),
    "relay": lambda: samples.packet_relay_broadcast(3),
    "switch": lambda: samples.switch_all_reduce(3),
    "group": samples.group_reduce,
    "pipeline": samples.pipeline_all_reduce,
    "all-to-all": lambda: samples.memory_all_to_all(3),
    "get": lambda: samples.get_all_gather(3),
}


def verdict_of(document: Any) -> Verdict:
    return check(json.dumps(document).encode(), root=0).verdict


def codes(verdict: Verdict, severity: str = "error") -> set[str]:
    return {one.code for one in verdict.findings if one.severity == severity}


def load(name: str) -> Any:
    return json.loads(GOOD[name]())


def ops_of(document: Any, name: str) -> list[tuple[list[Any], int]]:
    return [
        (block["ops"], k)
        for gpu in document["gpus"]
        for block in gpu["threadblocks"]
        for k, op in enumerate(block["ops"])
        if op["name"] == name
    ]


@pytest.mark.parametrize("name", GOOD)
def test_right_plans(name: str) -> None:
    assert check(GOOD[name]().encode(), root=0).verdict.verdict == "valid"


def test_lines_and_witnesses() -> None:
    text = json.dumps(load("scratch"), indent=1)
    document = json.loads(text)
    ops, k = ops_of(document, "put")[0]
    ops[k]["dst_buff"][0]["index"] = 99
    shown = json.dumps(document, indent=1)
    (one,) = [f for f in check(shown.encode()).verdict.findings if f.code == "bounds"]
    assert one.line is not None and '"name": "put"' in shown.splitlines()[one.line - 1]
    assert "s[99:100]" in one.message


def test_a_lost_signal_is_counted() -> None:
    document = load("memory")
    ops, k = ops_of(document, "signal")[0]
    del ops[k]
    verdict = verdict_of(document)
    assert "signal" in codes(verdict)
    assert any("waits" in one.message and "come" in one.message for one in verdict.findings)


def test_the_block_barrier_between_a_put_and_its_signal() -> None:
    document = load("scratch")
    for ops, k in ops_of(document, "signal"):
        if ops[k - 1]["name"] == "nop" and ops[k - 2]["name"] == "put":
            del ops[k - 1]
            break
    assert "race" in codes(verdict_of(document))


def test_packets_that_nobody_writes() -> None:
    document = load("packets")
    ops, k = ops_of(document, "ppkt")[0]
    del ops[k]
    assert "packet" in codes(verdict_of(document))


def test_barriers() -> None:
    document = load("pipeline")
    for gpu in document["gpus"]:
        for block in gpu["threadblocks"]:
            block["ops"].insert(0, {"name": "barrier", "barrier_id": 0, "num_threadblocks": len(gpu["threadblocks"])})
    assert verdict_of(document).verdict == "valid"
    document["gpus"][0]["threadblocks"][0]["ops"][0]["num_threadblocks"] += 1
    assert "barrier" in codes(verdict_of(document))


def test_circular_semaphores() -> None:
    document = load("pipeline")
    document["gpus"][0]["semaphores"] = [{"init_value": 0} for _ in document["gpus"][0]["semaphores"]]
    verdict = verdict_of(document)
    assert codes(verdict) & {"deadlock", "signal"}


def test_an_output_that_comes_after_the_end() -> None:
    document = load("ports")
    for gpu in document["gpus"]:
        for block in gpu["threadblocks"]:
            block["ops"] = [op for op in block["ops"] if op["name"] != "wait"]
    assert "late" in codes(verdict_of(document))


def test_limits_and_quirks() -> None:
    document = load("memory")
    document["gpus"][0]["threadblocks"][0]["ops"] += [{"name": "nop"}] * 70
    assert "limit" in codes(verdict_of(document))
    document = load("get")
    ops, k = ops_of(document, "get")[0]
    ops[k]["src_buff"][0]["index"] = (ops[k]["dst_buff"][0]["index"] + 1) % 3
    assert "get-offsets" in codes(verdict_of(document), "warning")
    assert "switch" in codes(verdict_of(load("switch")), "info")
    assert "pipeline" in codes(verdict_of(load("pipeline")), "info")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("d['gpus'] = 3", "gpus: expected a list"),
        ("d['gpus'] = []", "gpus: expected 1 to"),
        ("d['gpus'].reverse()", "expected the ids 0, 1, 2"),
        ("del d['inplace']", "has no 'inplace'"),
        ("d['collective'] = 4", "the plan.collective: expected text"),
        ("d['gpus'][0]['input_chunks'] = 10 ** 9", "input_chunks: expected a whole number"),
        ("d['gpus'][0]['input_chunks'] = True", "input_chunks"),
        ("d['gpus'][0]['channels'][0]['channel_type'] = 'rdma'", "channel_type: expected memory, port, switch"),
        ("d['gpus'][0]['channels'][0]['connected_to'][0] = 9", "connected_to"),
        ("d['gpus'][0]['channels'][0]['connected_to'][0] = 0", "rank 0 to itself"),
        ("d['gpus'][0]['threadblocks'][0]['id'] = 7", "id: expected 0, found 7"),
        ("d['gpus'][0]['threadblocks'][0]['ops'][0]['name'] = 'glre'", "does not know the operation 'glre'"),
        ("d['gpus'][0]['threadblocks'][0]['channels'] = []", "no memory channel"),
        ("d['gpus'][0]['remote_buffers'] = []", "no remote buffer"),
    ],
)
def test_what_the_executor_would_not_load(change: str, message: str) -> None:
    document = load("memory")
    exec(change, {"d": document})
    with pytest.raises(InvalidInput, match=message):
        verdict_of(document)


def v1() -> Any:
    """Two ranks exchange and add one chunk each."""
    gpus = []
    for rank in (0, 1):
        pair = {"src": "i", "dst": "i"}
        cids = [{"id": 0, "off": 0}]
        sync = {"ctype": "sm", "cnt": 1}
        ops = [
            {"name": "signal", "o_buff": pair, "o_cids": cids, **sync},
            {"name": "wait", "i_buff": pair, "i_cids": cids, **sync},
            {"name": "nop", "deps": [{"tb": 0, "step": 1}]},
            {
                "name": "rrcs",
                "i_buff": pair,
                "i_cids": [{"id": 0, "off": rank}],
                "o_buff": pair,
                "o_cids": [{"id": 0, "off": rank}],
                "srcbuff": "i",
                "srcoff": rank,
                "dstbuff": "i",
                "dstoff": rank,
                **sync,
            },
            {"name": "nop", "deps": [{"tb": 0, "step": 3}]},
            {"name": "signal", "o_buff": pair, "o_cids": cids, **sync},
            {"name": "wait", "i_buff": pair, "i_cids": cids, **sync},
        ]
        block = {"id": 0, "ops": ops, "channels": [{"src": "i", "dst": "i", "ctype": "sm", "cids": [0]}]}
        channels = [{"srcbuff": "i", "dstbuff": "i", "type": "sm", "connectedTo": [1 - rank]}]
        gpus.append(
            {
                "id": rank,
                "inputChunks": 2,
                "outputChunks": 0,
                "scratchChunks": 0,
                "chunkGroups": 1,
                "threadblocks": [block],
                "channels": channels,
            }
        )
    return {"name": "v1", "colletive": "allreduce", "protocol": "Simple", "inplace": True, "gpus": gpus}


def test_version_1_and_the_misspelt_key() -> None:
    verdict = verdict_of(v1())
    assert verdict.verdict == "valid" and verdict.kind == "mscclpp-v1"
    assert "colletive" in codes(verdict, "warning")
    document = v1()
    document["gpus"][0]["threadblocks"][0]["ops"][3]["name"] = "copy"
    assert verdict_of(document).verdict == "invalid"
    document = v1()
    del document["gpus"][1]["threadblocks"][0]["ops"][0]
    assert "signal" in codes(verdict_of(document))
    document = v1()
    document["gpus"][0]["threadblocks"][0]["ops"][2]["deps"] = [{"tb": 3, "step": 1}]
    assert "dependency" in codes(verdict_of(document))


def test_time_on_a_fabric_grows_with_size() -> None:
    from fractions import Fraction

    from fabric_plan.planner.files import load_fabric
    from fabric_plan.planner.threads.validate import Source, validate_source

    data = GOOD["memory"]().encode()
    times = []
    for size in (1 << 20, 1 << 22):
        found = validate_source(Source("x", data, data), fabric=load_fabric("full:3"), size=Fraction(size))
        assert found.simulation is not None
        times.append(found.simulation["seconds"])
    assert 0 < times[0] < times[1]
