"""MSCCL++ plans against random interleavings: plans that go wrong in one way each, and mutants of all samples."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from schedules import interleaving, mutants, samples
from schedules.samples import Plan, PlanBlock, here

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.threads.check_mscclpp import check
from fabric_plan.planner.threads.findings import Verdict

UNIT = 1 << 19


def verdict_of(text: str, size: int | None = None) -> Verdict | None:
    try:
        return check(text.encode(), size=size, root=0).verdict
    except InvalidInput:
        return None


def errors(text: str) -> set[str]:
    verdict = verdict_of(text)
    assert verdict is not None
    return {one.code for one in verdict.findings if one.severity == "error"}


def put_and_meet(block: PlanBlock, rank: int) -> None:
    """The block gives its rank's part of an all-gather of two to the other, and waits for the other's."""
    channel = block.channel(1 - rank)
    target = block.remote(1 - rank, "o", rank)
    block.add("put", src_buff=[here("o", rank)], dst_buff=[target], channel_type="memory").add("nop")
    block.sync("signal", [channel]).sync("wait", [channel])


def input_written_out_of_place() -> str:
    plan = Plan("allgather", 2, (1, 2, 0), in_place=False)
    for gpu in plan.gpus:
        block = gpu.block()
        block.add("copy", src_buff=[here("i", 0)], dst_buff=[here("o", gpu.rank)]).add("nop")
        put_and_meet(block, gpu.rank)
        block.add("nop").add("copy", src_buff=[here("o", 1 - gpu.rank)], dst_buff=[here("i", 0)])
    return plan.text()


def relaxed_signal_after_reading_its_own_write() -> str:
    plan = Plan("allgather", 2, (1, 2, 2), in_place=False)
    for gpu in plan.gpus:
        block = gpu.block()
        channel = block.channel(1 - gpu.rank)
        block.add("copy", src_buff=[here("i", 0)], dst_buff=[here("s", 0)]).add("nop")
        block.add("copy", src_buff=[here("s", 0)], dst_buff=[here("o", gpu.rank)]).add("nop")
        block.sync("rlxsignal", [channel]).sync("rlxwait", [channel]).add("nop")
        source = block.remote(1 - gpu.rank, "s", 0)
        block.add("get", src_buff=[source], dst_buff=[here("o", 1 - gpu.rank)], channel_type="memory")
    return plan.text()


def packets_read_before_they_are_sent() -> str:
    plan = Plan("allgather", 2, (1, 2, 1), protocol="LL", in_place=False)
    for gpu in plan.gpus:
        block = gpu.block()
        block.add("copy", src_buff=[here("i", 0)], dst_buff=[here("o", gpu.rank)])
        block.add("upkt", src_buff=[here("s", 0)], dst_buff=[here("o", 1 - gpu.rank)])
        target = block.remote(1 - gpu.rank, "s", 0)
        block.add("ppkt", src_buff=[here("i", 0)], dst_buff=[target], channel_type="memory")
    return plan.text()


def two_acquire_what_one_needs() -> str:
    """Right if the first block takes the semaphore first, stuck if the second does."""
    plan = Plan("allgather", 2, (1, 2, 0))
    for gpu in plan.gpus:
        gpu.semaphores = [1]
        first, second = gpu.block(), gpu.block()
        put_and_meet(first, gpu.rank)
        first.add("sem_acquire", semaphore_ids=[0]).add("sem_release", semaphore_ids=[0])
        second.add("sem_acquire", semaphore_ids=[0])
    return plan.text()


def either_of_two_would_do_but_none_comes() -> str:
    plan = Plan("allgather", 2, (1, 2, 0))
    for gpu in plan.gpus:
        gpu.semaphores = [0, 0]
        first, others = gpu.block(), [gpu.block(), gpu.block()]
        put_and_meet(first, gpu.rank)
        first.add("sem_acquire", semaphore_ids=[0]).add("nop")
        first.add("sem_release", semaphore_ids=[1]).add("sem_release", semaphore_ids=[1])
        for block in others:
            block.add("sem_acquire", semaphore_ids=[1]).add("nop").add("sem_release", semaphore_ids=[0])
    return plan.text()


def chunks_moved_over_themselves() -> str:
    plan = Plan("allgather", 1, (3, 3, 4), in_place=False)
    block = plan.gpus[0].block()
    block.add("copy", src_buff=[here("i", 0, 3)], dst_buff=[here("s", 0, 3)]).add("nop")
    block.add("copy", src_buff=[here("s", 0, 3)], dst_buff=[here("s", 1, 3)]).add("nop")
    block.add("copy", src_buff=[here("s", 1, 3)], dst_buff=[here("o", 0, 3)])
    return plan.text()


WRONG: dict[Callable[[], str], set[str]] = {
    input_written_out_of_place: {"input"},
    relaxed_signal_after_reading_its_own_write: {"race"},
    packets_read_before_they_are_sent: {"deadlock"},
    two_acquire_what_one_needs: {"deadlock"},
    either_of_two_would_do_but_none_comes: {"deadlock"},
    chunks_moved_over_themselves: {"output"},
}


@pytest.mark.parametrize("make", WRONG)
def test_wrong_plans(make: Callable[[], str]) -> None:
    assert errors(make()) == WRONG[make]
    assert not interleaving.runs(make(), 400).done


def one_takes_what_two_give() -> str:
    plan = Plan("allgather", 2, (1, 2, 0), in_place=False)
    for gpu in plan.gpus:
        gpu.semaphores = [0]
        first, second, third = gpu.block(), gpu.block(), gpu.block()
        first.add("copy", src_buff=[here("i", 0)], dst_buff=[here("o", gpu.rank)]).add("nop")
        first.add("sem_release", semaphore_ids=[0])
        second.add("nop").add("sem_release", semaphore_ids=[0])
        third.add("sem_acquire", semaphore_ids=[0]).add("sem_acquire", semaphore_ids=[0]).add("nop")
        put_and_meet(third, gpu.rank)
    return plan.text()


def packet_sent_again_once_it_is_read() -> str:
    plan = Plan("allgather", 2, (1, 2, 1), protocol="LL", in_place=False)
    for gpu in plan.gpus:
        block = gpu.block()
        channel, target = block.channel(1 - gpu.rank), block.remote(1 - gpu.rank, "s", 0)
        block.add("copy", src_buff=[here("i", 0)], dst_buff=[here("o", gpu.rank)])
        block.add("ppkt", src_buff=[here("i", 0)], dst_buff=[target], channel_type="memory").add("nop")
        block.add("upkt", src_buff=[here("s", 0)], dst_buff=[here("o", 1 - gpu.rank)]).add("nop")
        block.sync("signal", [channel]).sync("wait", [channel]).add("nop")
        block.add("ppkt", src_buff=[here("i", 0)], dst_buff=[target], channel_type="memory")
    return plan.text()


def packets_handed_on_one_by_one() -> str:
    """A block reads two packets of which it writes the second itself, from the first."""
    plan = Plan("allgather", 1, (2, 2, 4), protocol="LL", in_place=False)
    first, second = plan.gpus[0].block(), plan.gpus[0].block()
    first.add("cpkt", src_buff=[here("i", 0)], dst_buff=[here("s", 0)]).add("nop")
    first.add("rppkt", src_buff=[here("s", 0, 2)], dst_buff=[here("s", 1, 2)], channel_type="memory")
    second.add("upkt", src_buff=[here("s", 0)], dst_buff=[here("o", 0)])
    second.add("copy", src_buff=[here("i", 1)], dst_buff=[here("o", 1)])
    return plan.text()


@pytest.mark.parametrize(
    "make", [one_takes_what_two_give, packet_sent_again_once_it_is_read, packets_handed_on_one_by_one]
)
def test_right_plans(make: Callable[[], str]) -> None:
    verdict = verdict_of(make())
    assert verdict is not None and verdict.verdict == "valid"
    assert interleaving.runs(make(), 200).done


def test_a_store_to_many_ranks_is_one_buffer() -> None:
    plan = Plan("allgather", 12, (1, 12, 0))
    for gpu in plan.gpus:
        block = gpu.block()
        others = [rank for rank in range(12) if rank != gpu.rank]
        channels = [block.channel(rank) for rank in others]
        chunk = {"switch_channel_id": block.switch("o", list(range(12))), "index": gpu.rank, "size": 1}
        block.add("gstore", src_buff=[here("o", gpu.rank)], dst_buff=[chunk], channel_type="switch").add("nop")
        for part in (channels[:8], channels[8:]):
            block.sync("signal", part)
        for part in (channels[:8], channels[8:]):
            block.sync("wait", part)
    verdict = verdict_of(plan.text())
    assert verdict is not None and verdict.verdict == "valid"


def test_limits_count_what_the_file_says() -> None:
    plan = Plan("allgather", 2, (11, 22, 0))
    for gpu in plan.gpus:
        block = gpu.block()
        mine = range(11 * gpu.rank, 11 * gpu.rank + 11)
        targets = [block.remote(1 - gpu.rank, "o", k) for k in mine]
        block.add("put", src_buff=[here("o", k) for k in mine], dst_buff=targets, channel_type="memory")
    assert "limit" in errors(plan.text())
    document = json.loads(samples.pipeline_all_reduce())
    document["gpus"][0]["threadblocks"][0]["ops"][0]["ops"] += [{"name": "nop"}] * (
        64 - len(document["gpus"][0]["threadblocks"][0]["ops"][0]["ops"])
    )
    assert "limit" in errors(json.dumps(document))


def test_a_relaxed_block_and_a_signal_without_its_barrier(shared: Path) -> None:
    document = json.loads((shared / "data" / "schedules" / "mscclpp" / "a2a_4.json").read_text())
    for gpu in document["gpus"]:
        for block in gpu["threadblocks"]:
            ops = block["ops"]
            place = next(k for k, op in enumerate(ops) if op["name"] == "put") + 1
            assert ops.pop(place)["name"] == "nop"
    assert "race" in errors(json.dumps(document))
    assert not interleaving.runs(json.dumps(document), 100).done


def test_a_pipeline_that_runs_out_of_semaphores() -> None:
    document = json.loads(samples.pipeline_all_reduce(depth=2, unit_bytes=UNIT))
    for gpu in document["gpus"]:
        ops = gpu["threadblocks"][2]["ops"][0]["ops"]
        ops[:] = [op for op in ops if op["name"] != "sem_release"]
    text = json.dumps(document)
    verdict = verdict_of(text)
    assert verdict is not None and verdict.verdict == "hangs-above" and verdict.hangs_above == 2 * 2 * UNIT
    for size, fine in ((2 * 2 * UNIT, True), (2 * 2 * UNIT + 1, False)):
        at = verdict_of(text, size)
        assert at is not None and (at.verdict == "valid") is fine
        assert interleaving.runs(text, 60, size_bytes=size).done is fine
    document["max_message_size"] = 2 * 2 * UNIT
    inside = verdict_of(json.dumps(document))
    assert inside is not None and inside.verdict == "valid"


def test_scratch_that_comes_round_too_soon() -> None:
    """Scratch of 64 MiB has room for 4 units of 8 MiB of two chunks; 40 may be under way."""
    text = samples.pipeline_all_reduce(unit_bytes=8 << 20, depth=40)
    assert errors(text) == {"race"}
    for units, fine in ((4, True), (6, False)):
        size = units * 2 * (8 << 20)
        at = verdict_of(text, size)
        assert at is not None and (at.verdict == "valid") is fine
        assert interleaving.runs(text, 100, size_bytes=size).done is fine
    right = verdict_of(samples.pipeline_all_reduce(unit_bytes=8 << 20, depth=4))
    assert right is not None and right.verdict == "valid"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("op['iter_context']['num_chunks'] = 16_000_000", "too long to follow"),
        ("op['ops'] = [dict(op, ops=op['ops'])]", "a pipeline inside a pipeline"),
    ],
)
def test_pipelines_that_cannot_be_followed(change: str, message: str) -> None:
    document = json.loads(samples.pipeline_all_reduce())
    exec(change, {"op": document["gpus"][0]["threadblocks"][0]["ops"][0]})
    with pytest.raises(InvalidInput, match=message):
        check(json.dumps(document).encode())


def changed(document: Any, rng: random.Random) -> None:
    """Change one thing about some thread block's operations, whatever comes of it."""
    blocks = [block["ops"] for gpu in document["gpus"] for block in gpu["threadblocks"]]
    lists = [ops for ops in (*blocks, *(op["ops"] for ops in blocks for op in ops if "ops" in op)) if ops]
    if not lists:
        return
    ops = rng.choice(lists)
    place = rng.randrange(len(ops))
    kind = rng.choice(("swap", "drop", "drop", "move", "repeat", "barrier", "no barrier", "relax", "tighten"))
    if kind == "swap" and place + 1 < len(ops):
        ops[place : place + 2] = ops[place + 1], ops[place]
    elif kind == "drop":
        ops.pop(place)
    elif kind == "move":
        one = ops.pop(place)
        ops.insert(rng.randrange(len(ops) + 1), one)
    elif kind == "repeat":
        ops.insert(place, copy.deepcopy(ops[place]))
    elif kind == "barrier":
        ops.insert(place, {"name": "nop"})
    elif kind == "no barrier":
        found = [k for k, op in enumerate(ops) if op["name"] == "nop"]
        if found:
            ops.pop(rng.choice(found))
    else:
        old, new = ("signal", "rlxsignal") if kind == "relax" else ("rlxsignal", "signal")
        found = [op for one in lists for op in one if op["name"] == old and op.get("channel_type") == "memory"]
        if found:
            rng.choice(found)["name"] = new


def accepted(text: str) -> tuple[bool, int | None]:
    verdict = verdict_of(text)
    if verdict is None:
        return False, None
    return verdict.verdict in ("valid", "hangs-above"), verdict.hangs_above


def compare(name: str, made: list[str], runs: int) -> Counter[str]:
    """Check and run plans; none may be accepted that is seen to fail."""
    table: Counter[str] = Counter()
    for number, text in enumerate(made):
        fine, hangs = accepted(text)
        done = interleaving.runs(text, runs, number * 1000, size_bytes=hangs).done
        table[f"{'accepted' if fine else 'rejected'}, {'never seen to fail' if done else 'seen to fail'}"] += 1
        assert done or not fine, (name, number, text)
    return table


def structural(text: str, seed: str, count: int) -> list[str]:
    found = []
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        document = json.loads(text)
        for _ in range(rng.choice((1, 1, 2, 3))):
            changed(document, rng)
        found.append(json.dumps(document))
    return found


@pytest.mark.parametrize("name", samples.PLAN_SAMPLES)
def test_mutants(name: str) -> None:
    text = samples.PLAN_SAMPLES[name]()
    assert accepted(text) == (True, None)
    single = [one.text for one in mutants.plan_mutants(text, random.Random(f"plans {name}"), 24)]
    assert sum(compare(name, single, 30).values()) == 24
    assert sum(compare(name, structural(text, name, 24), 30).values()) == 24


@pytest.mark.slow
@pytest.mark.parametrize("name", samples.PLAN_SAMPLES)
def test_many_mutants(name: str) -> None:
    compare(name, structural(samples.PLAN_SAMPLES[name](), f"many {name}", 400), 60)
