"""The commands validate and simulate on schedules of other tools: exit codes, documents, and what cannot be read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from cli.test_calibrate import call

pytestmark = pytest.mark.filterwarnings("error")

ROOT = Path(__file__).parents[2] / "instances" / "schedules"
RING = ROOT / "msccl_ring_allreduce_4.xml"


def told(*arguments: object, stdin: str | None = None) -> tuple[int, str]:
    code, out, error = call(*arguments, stdin=stdin)
    assert "Traceback" not in error
    return code, out + error


class TestVerdicts:
    def test_valid(self) -> None:
        code, out = told("validate", RING, "--fabric", "ring:4", "--size", "64MiB")
        assert code == 0 and ": valid: allreduce of 4 ranks" in out and "times the lower bound" in out

    def test_hangs_above(self) -> None:
        path = ROOT / "msccl_recursive_doubling_allgather_8.xml"
        assert told("validate", path)[0] == 1
        assert told("validate", path, "--all-sizes")[0] == 1
        assert told("validate", path, "--size", "8MiB")[0] == 0
        code, out = told("validate", path, "--size", "8388616")
        assert code == 1 and "hangs above 8,388,608 bytes" in out
        assert told("validate", path, "--size", "1MiB", "--all-sizes")[0] == 2

    def test_a_circular_wait_is_told_step_by_step(self) -> None:
        code, out = told("validate", ROOT / "msccl_circular_receive.xml")
        assert code == 1
        assert "[deadlock]" in out and "g1/t0/s0 (r) waits for the message of g0/t0/s1 (s)" in out

    def test_a_chain_of_nops_and_other_rules(self) -> None:
        for name, code in (
            ("msccl_nop_chain.xml", "nop-chain"),
            ("msccl_shared_connection.xml", "connection"),
            ("msccl_fused_counts.xml", "fused-count"),
        ):
            exit_code, out = told("validate", ROOT / name)
            assert exit_code == 1 and f"[{code}]" in out

    def test_only_a_named_profile_changes_the_exit_code(self, tmp_path: Path) -> None:
        path = tmp_path / "ring.xml"
        path.write_text('<?xml version="1.0"?>\n' + RING.read_text())
        assert told("validate", path)[0] == 0
        code, out = told("validate", path, "--profile", "rccl")
        assert code == 1 and "refused by rccl" in out

    def test_links_of_the_fabric(self) -> None:
        code, out = told("validate", RING, "--fabric", "mesh:2x2")
        assert code == 0 and "would have to pass it on" in out
        code, out = told("validate", RING, "--fabric", "ring:3")
        assert code == 2 and "the schedule has 4 ranks" in out

    def test_other_ways_in(self, tmp_path: Path) -> None:
        assert told("validate", "-", stdin=RING.read_text())[0] == 0
        path = tmp_path / "x.whatever.gz"
        path.write_bytes(gzip.compress(RING.read_bytes()))
        assert told("validate", path)[0] == 0


FINDING = {"severity", "code", "message", "file", "line", "witness", "profiles"}


def check_document(document: dict[str, Any]) -> None:
    assert document["schema"] == "fabric-plan/validation/1"
    assert set(document) == {"schema", "verdict", "hangs_above_bytes", "format", "summary", "findings", "simulation"}
    assert document["verdict"] in ("valid", "invalid", "hangs-above", "unreadable")
    assert document["hangs_above_bytes"] is None or isinstance(document["hangs_above_bytes"], int)
    for one in document["findings"]:
        assert set(one) == FINDING
        assert one["severity"] in ("error", "profile", "warning", "info")
        assert isinstance(one["code"], str) and isinstance(one["message"], str) and isinstance(one["file"], str)
        assert one["line"] is None or (isinstance(one["line"], int) and one["line"] > 0)
        assert one["witness"] is None or all(isinstance(step, str) for step in one["witness"])
        assert one["profiles"] is None or set(one["profiles"]) <= {"msccl", "executor", "rccl"}
    if document["simulation"] is not None:
        assert {"seconds", "size", "fabric", "links"} <= set(document["simulation"])


@pytest.mark.parametrize("path", sorted(p for p in ROOT.iterdir() if p.suffix != ".md"), ids=lambda p: p.name)
def test_documents(path: Path) -> None:
    code, out, _ = call("validate", path, "--json", "--fabric", "full:8")
    document = json.loads(out)
    check_document(document)
    assert code == (0 if document["verdict"] == "valid" else 1)
    if document["verdict"] == "valid" and document["format"] != "nccl-graph":
        assert document["simulation"]["seconds"] > 0


def test_the_document_of_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text("<algo>")
    code, out, error = call("validate", path, "--json")
    document = json.loads(out)
    check_document(document)
    assert code == 2 and document["verdict"] == "unreadable" and error.count("\n") == 1


BOMB = (
    "<!DOCTYPE algo ["
    + "".join(f'<!ENTITY e{k} "{f"&e{k - 1};" * 10 if k else "x" * 10}">' for k in range(10))
    + "]><algo>&e9;</algo>"
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"  \n ", "empty"),
        (RING.read_bytes()[:700], "not XML"),
        (BOMB.encode(), "entities are not read"),
        (RING.read_bytes().replace(b'ngpus="4"', b'ngpus="1000000000"'), "no schedule has so many"),
        (RING.read_bytes().replace(b'nchunksperloop="4"', b'nchunksperloop="1000000000"'), "no schedule has so many"),
        (RING.read_bytes().replace(b's_chunks="0"', b's_chunks="1000000000"', 1), "too large to follow"),
        (RING.read_bytes().replace(b'cnt="1"', b'cnt="NaN"', 1), "cnt"),
        (RING.read_bytes().replace(b'minBytes="0"', b'minBytes="NaN"', 1), "minBytes='NaN'"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "Chakra|JSON|expected"),
        (b"\xff\xfe" + b"<algo>".decode().encode("utf-16-le"), "UTF-16"),
        (b'{"nodes": [1, 2]}', "schema"),
        (b'{"gpus": 3}', "."),
        (b'{"7-Flows": 3}', "7-Flows"),
        (b'{"msccl_type": "algorithm"}', "has no 'collective'"),
        (b"[1, 2]", "expected an object"),
        (b'{"gpus": ' * 5000, "."),
        (b"<html><body/></html>", "XML with <html>"),
        (b"<system/>", "holds no schedule"),
        (b"plain words", "expected XML, JSON"),
        (gzip.compress(b"x", mtime=0), "."),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, content: bytes, message: str) -> None:
    import re

    path = tmp_path / "x"
    path.write_bytes(content)
    for command in (("validate", path), ("simulate", path, "--fabric", "ring:4")):
        code, out, error = call(*command)
        assert code == 2 and not out, (code, out, error)
        assert error.count("\n") == 1 and error.startswith("fabric-plan: ") and "Traceback" not in error
        if command[0] == "validate":
            assert re.search(message, error)


def test_a_directory_and_nothing(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.xml"):
        code, out, error = call("validate", path)
        assert code == 2 and not out and error.count("\n") == 1


@pytest.mark.parametrize("size", ["NaN", "inf", "-1", "0", "1e400", "ten"])
def test_sizes_that_are_none(size: str) -> None:
    code, _, error = call("validate", RING, "--size", size)
    assert code == 2 and error.count("\n") == 1


class TestSimulate:
    @pytest.mark.parametrize(
        "name", ["msccl_ring_allreduce_4.xml", "sccl_ring_allgather_4.json", "teccl_alltoall_line_3.json"]
    )
    def test_any_schedule(self, name: str, tmp_path: Path) -> None:
        trace = tmp_path / "t.json"
        code, out = told("simulate", ROOT / name, "--fabric", "full:4", "--size", "4MiB", "--trace", trace)
        assert code == 0 and "algbw" in out and json.loads(trace.read_text())
        code, out, _ = call("simulate", ROOT / name, "--fabric", "full:4", "--size", "4MiB", "--json")
        assert code == 0 and json.loads(out)["simulation"]["seconds"] > 0

    def test_more_bytes_take_longer_and_a_slow_link_too(self) -> None:
        def seconds(*more: object) -> float:
            _, out, _ = call("simulate", RING, "--fabric", "ring:4", "--json", *more)
            return float(json.loads(out)["simulation"]["seconds"])

        assert (
            seconds("--size", "1MiB")
            < seconds("--size", "2MiB")
            < seconds("--size", "2MiB", "--slow", "npu0->npu1=0.5")
        )

    def test_traces_have_no_bandwidth(self) -> None:
        code, out = told("simulate", ROOT / "chakra_ring_3.0.et", "--fabric", "ring:3")
        assert code == 0 and "algbw" not in out

    def test_what_it_needs(self) -> None:
        assert told("simulate", RING)[0] == 2
        assert told("simulate", ROOT / "msccl_circular_receive.xml", "--fabric", "ring:4")[0] == 1
        assert told("simulate", ROOT / "nccl_graph_4.xml", "--fabric", "ring:4")[0] == 2
