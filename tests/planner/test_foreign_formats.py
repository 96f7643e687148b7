"""Schedules of other tools in formats of steps, trees, traces and graphs: verdicts, and what breaks them."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.files import load_fabric
from fabric_plan.planner.formats import chakra_et
from fabric_plan.planner.threads.findings import Verdict
from fabric_plan.planner.threads.stepped import kind_of
from fabric_plan.planner.threads.validate import Source, read_source, validate_source

ROOT = Path(__file__).parents[2] / "instances" / "schedules"
EXPECTED = {
    "msccl_recursive_doubling_allgather_8.xml": "hangs-above",
    "msccl_circular_receive.xml": "invalid",
    "msccl_nop_chain.xml": "invalid",
    "msccl_shared_connection.xml": "invalid",
    "msccl_fused_counts.xml": "invalid",
}


def verdict_of(data: bytes | str, name: str = "x") -> Verdict:
    content = data.encode() if isinstance(data, str) else data
    return read_source(Source(name, content, content[:65_536])).verdict


def codes(verdict: Verdict, severity: str = "error") -> set[str]:
    return {one.code for one in verdict.findings if one.severity == severity}


def text(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("path", sorted(p for p in ROOT.iterdir() if p.suffix != ".md"), ids=lambda p: p.name)
def test_every_file_of_the_project_gets_its_verdict(path: Path) -> None:
    assert validate_source(Source.of(str(path))).verdict == EXPECTED.get(path.name, "valid")


def test_the_ring_of_sccl_takes_as_long_as_the_planners_ring() -> None:
    from fabric_plan.planner import interface
    from fabric_plan.planner.problem import ScheduleProblem
    from fabric_plan.planner.schedule import SchedulePlan

    fabric = load_fabric("ring:4")
    size = Fraction(1 << 22)
    verdict = validate_source(Source.of(str(ROOT / "sccl_ring_allreduce_4.json")), fabric=fabric, size=size)
    problem = ScheduleProblem.of(fabric, "all-reduce", size, group=range(4))
    plan = interface.plan(problem, planner="ring")
    assert isinstance(plan, SchedulePlan) and plan.report is not None and plan.report.seconds is not None
    assert verdict.simulation is not None
    assert verdict.simulation["seconds"] == pytest.approx(float(plan.report.seconds), rel=1e-12)


class TestSynthesised:
    def broken(self, name: str, change: str) -> Verdict:
        document = json.loads(text(name))
        exec(change, {"d": document})
        return verdict_of(json.dumps(document))

    def test_a_send_before_its_chunk_arrives(self) -> None:
        found = self.broken("sccl_ring_allgather_4.json", "d['steps'].reverse()")
        assert "missing" in codes(found)
        assert any("gets it in step 1" in one.message for one in found.findings)

    def test_a_send_that_is_lost(self) -> None:
        found = self.broken("sccl_ring_allreduce_4.json", "d['steps'][2]['sends'].pop()")
        assert found.verdict == "invalid"
        assert any("missing what rank" in one.message for one in found.findings if one.code == "output")

    def test_a_contribution_counted_twice(self) -> None:
        found = self.broken("sccl_ring_allreduce_4.json", "d['steps'].insert(1, {'rounds': 1, 'sends': [[0, 0, 2]]})")
        assert "doubled" in codes(found)

    def test_links(self) -> None:
        assert "links" in codes(self.broken("sccl_ring_allgather_4.json", "d['steps'][0]['sends'][0][2] = 2"))
        assert "overload" in codes(self.broken("sccl_ring_allgather_4.json", "d['steps'][0]['sends'] *= 2"))
        shared = "d['topology']['switches'] = [[[0, 1, 2, 3], [0, 1, 2, 3], 4, 'plane']]"
        assert "overload" in codes(self.broken("sccl_ring_allgather_4.json", shared))
        pipelined = "d['instance']['pipeline'] = 1"
        assert "overload" in codes(self.broken("sccl_ring_allgather_4.json", pipelined))

    def test_a_label_that_is_false(self) -> None:
        found = self.broken("sccl_ring_allgather_4.json", "d['collective']['runtime_name'] = 'allreduce'")
        assert codes(found) == {"collective"}

    def test_lines(self) -> None:
        document = json.loads(text("sccl_ring_allgather_4.json"))
        document["steps"][1]["sends"][2] = [0, 2, 3]
        shown = json.dumps(document, indent=1)
        (missing,) = [one for one in verdict_of(shown).findings if one.code == "missing"]
        assert missing.line is not None
        assert shown.splitlines()[missing.line - 1].strip() == "["
        assert [int(x.strip(" ,")) for x in shown.splitlines()[missing.line : missing.line + 3]] == [0, 2, 3]

    def test_taccl_goes_by_its_times(self) -> None:
        document = json.loads(text("taccl_ring_allgather_4.json"))
        for row in document["steps"][2]["sends"]:
            row[3] = 0.0
        assert "missing" in codes(verdict_of(json.dumps(document)))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ("d['collective']['nodes'] = 10 ** 9", "collective.nodes: expected a whole number"),
            ("d['collective']['nodes'] = True", "collective.nodes"),
            ("d['steps'][0]['sends'][0][1] = 4", r"steps\[0\].sends\[0\]\[1\]"),
            ("d['steps'][0]['sends'][0][0] = 99", "no chunk has the address 99"),
            ("d['steps'][0]['rounds'] = float('nan')", r"steps\[0\].rounds"),
            ("d['steps'] = 3", "steps: expected a list"),
            ("del d['collective']", "has no 'collective'"),
            ("d['topology']['links'].pop()", "topology.links: 3 rows"),
            ("d['msccl_type'] = 'step'", "expected an algorithm"),
        ],
    )
    def test_what_cannot_be_read(self, change: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            self.broken("sccl_ring_allgather_4.json", change)


class TestTeccl:
    def test_switches_between_gpus_have_no_ranks(self) -> None:
        found = text("teccl_allgather_3.json").replace("GPU 2", "GPU 7").replace("Chunk 0 from 2", "Chunk 0 from 7")
        found = re.sub(r"over 2->", "over 7->", re.sub(r"->2 in", "->7 in", found))
        assert verdict_of(found).verdict == "valid"

    def test_more_goes_on_than_came(self) -> None:
        found = verdict_of(
            text("teccl_alltoall_line_3.json").replace(
                "1->2 with volume 0.5 in epoch 2", "1->2 with volume 0.75 in epoch 2"
            )
        )
        assert "missing" in codes(found)
        found = verdict_of(
            text("teccl_alltoall_line_3.json").replace(
                "0->1 with volume 0.5 in epoch 2", "0->1 with volume 0.5 in epoch 3"
            )
        )
        (missing,) = [one for one in found.findings if one.code == "missing"]
        assert "has passed on 1 of it by then, of which 0.5 had come" in missing.message and missing.line is not None

    def test_too_little_comes(self) -> None:
        found = verdict_of(
            text("teccl_alltoall_line_3.json").replace(
                "1->2 with volume 0.5 in epoch 3", "1->2 with volume 0.25 in epoch 3"
            )
        )
        assert codes(found) == {"output"}

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("in epoch 0", "in epoch x", "expected 'Chunk c from s"),
            ("with volume 0.5", "with volume 1e99", "volume 1e99"),
            ("with volume 0.5", "with volume 0.5.5", "volume"),
            ('"GPU 0": {', '"Gpu 0": {', "expected 'GPU <number>'"),
            ("over 0->1 with volume 1.0", "over 0->9 with volume 1.0", "nothing is demanded of or by GPU 9"),
        ],
    )
    def test_what_cannot_be_read(self, old: str, new: str, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            verdict_of(text("teccl_alltoall_line_3.json").replace(old, new, 1))


class TestForest:
    def test_a_tree_that_reaches_not_all(self) -> None:
        lines = text("forestcoll_switch_3.xml").splitlines()
        assert "tree" in codes(verdict_of("\n".join(lines[:3] + lines[4:])))

    def test_a_node_that_is_reached_twice(self) -> None:
        lines = text("forestcoll_switch_3.xml").splitlines()
        assert "tree" in codes(verdict_of("\n".join([*lines[:3], lines[2], *lines[3:]])))

    def test_a_cycle(self) -> None:
        found = text("forestcoll_switch_3.xml").replace(
            "<send src=\"(0, 'GPU', 0)\" dst=\"(0, 'GPU', 1)\" path=\"(0, 'GPU', 0),",
            "<send src=\"(0, 'GPU', 2)\" dst=\"(0, 'GPU', 1)\" path=\"(0, 'GPU', 2),",
            1,
        )
        verdict = verdict_of(found)
        assert any("is in a cycle" in one.message for one in verdict.findings)

    def test_paths_and_parts(self) -> None:
        whole = text("forestcoll_switch_3.xml")
        assert "path" in codes(
            verdict_of(whole.replace("(0, 'Switch', 0),(0, 'GPU', 1)\"", "(0, 'Switch', 0),(0, 'GPU', 2)\"", 1))
        )
        assert "path" in codes(verdict_of(whole.replace("(0, 'Switch', 0)", "(0, 'GPU', 2)", 1)))
        assert "parts" in codes(verdict_of(whole.replace('nchunkspernode="2"', 'nchunkspernode="3"')))

    def test_what_cannot_be_read(self) -> None:
        for old, new, message in (
            ("(0, 'GPU', 0)", "GPU 0", "expected nodes"),
            ('nchunks="1"', 'nchunks="1000000000"', "nchunks"),
            ("</Algo>", "", "not XML"),
            ("<Algo", "<!DOCTYPE a [<!ENTITY b 'c'>]><Algo", "document types"),
        ):
            with pytest.raises(InvalidInput, match=message):
                verdict_of(text("forestcoll_switch_3.xml").replace(old, new, 1))


class TestGraphs:
    def test_channels(self) -> None:
        whole = text("nccl_graph_4.xml")
        assert "channels" in codes(verdict_of(whole.replace('nchannels="2"', 'nchannels="3"')))
        assert "channel" in codes(verdict_of(whole.replace('rank="1"', 'rank="2"', 1)))
        assert "ring" in codes(verdict_of(whole.replace('<net dev="0"/>', "", 1)))
        assert "net" in codes(verdict_of(whole.replace('<net dev="0"/>', '<net dev="1"/>', 1)), "warning")

    def test_rings_inside_a_machine_are_timed(self) -> None:
        whole = re.sub(r"\s*<net.*/>", "", text("nccl_graph_4.xml"))
        found = read_source(Source("x", whole.encode(), whole.encode()))
        assert found.verdict.verdict == "valid" and found.program is not None
        assert found.collective is not None and found.collective.pieces == 8


class TestTraces:
    def test_alone_a_trace_is_only_counted(self, tmp_path: Path) -> None:
        path = tmp_path / "chakra_ring_3.0.et"
        path.write_bytes((ROOT / "chakra_ring_3.0.et").read_bytes())
        verdict = validate_source(Source.of(str(path)))
        assert verdict.verdict == "valid"
        assert any(
            "nothing is matched" in one.message and "16,384 bytes to 1" in one.message for one in verdict.findings
        )

    def copies(self, folder: Path, ranks: tuple[int, ...] = (0, 1, 2)) -> str:
        for rank in ranks:
            (folder / f"t.{rank}.et").write_bytes((ROOT / f"chakra_ring_3.{rank}.et").read_bytes())
        return str(folder / "t.0.et")

    def test_a_rank_that_is_missing(self, tmp_path: Path) -> None:
        verdict = validate_source(Source.of(self.copies(tmp_path, (0, 1))))
        assert "peer" in codes(verdict) and any("ranks 2 are missing" in one.message for one in verdict.findings)

    def test_messages_that_do_not_meet(self, tmp_path: Path) -> None:
        path = self.copies(tmp_path)
        trace = chakra_et.read_trace((tmp_path / "t.1.et").read_bytes(), 1)
        (tmp_path / "t.1.et").write_bytes(written(trace.nodes[:-1]))
        assert "messages" in codes(validate_source(Source.of(path)))

    def test_a_circular_wait(self, tmp_path: Path) -> None:
        path = self.copies(tmp_path)
        for rank in range(3):
            nodes = chakra_et.read_trace((tmp_path / f"t.{rank}.et").read_bytes(), rank).nodes
            first = chakra_et.TraceNode(nodes[0].id, nodes[0].name, nodes[0].type, (1,), nodes[0].attributes)
            (tmp_path / f"t.{rank}.et").write_bytes(written((first, *nodes[1:])))
        verdict = validate_source(Source.of(path))
        (deadlock,) = [one for one in verdict.findings if one.code == "deadlock"]
        assert len(deadlock.witness) >= 3

    def test_what_cannot_be_read(self) -> None:
        data = (ROOT / "chakra_ring_3.0.et").read_bytes()
        for broken in (data[:-3], b"\x05\x00" + data, data[:8] + b"\xff" * 40):
            with pytest.raises(InvalidInput, match=r"byte|not JSON"):
                verdict_of(broken)


def written(nodes: tuple[chakra_et.TraceNode, ...]) -> bytes:
    node_type, metadata = chakra_et._node_type()

    def message(body: bytes) -> bytes:
        size, head = len(body), bytearray()
        while size > 127:
            head.append(size & 127 | 128)
            size >>= 7
        return bytes([*head, size]) + body

    out = message(metadata(version=b"0").SerializeToString())
    for one in nodes:
        node = node_type(id=one.id, name=one.name.encode(), type=one.type, data_deps=one.needs)
        for name, value in one.attributes.items():
            node.attr.add(name=name, int64_val=value)
        out += message(node.SerializeToString())
    return out


def test_collectives_are_told_from_their_conditions() -> None:
    ranks, everyone = 3, {0, 1, 2}
    one = {k: {k} for k in range(3)}
    each = {k: k for k in range(3)}
    assert kind_of(ranks, one, dict.fromkeys(range(3), everyone), each) == "allgather"
    assert kind_of(ranks, one, dict.fromkeys(range(3), everyone), dict.fromkeys(range(3), 0)) == "allreduce"
    assert kind_of(ranks, one, {key: {1} for key in range(3)}, dict.fromkeys(range(3), 0)) == "reduce"
    assert kind_of(ranks, one, {key: {1} for key in range(3)}, each) == "gather"
    assert kind_of(ranks, {key: {1} for key in range(3)}, one, each) == "scatter"
    assert kind_of(ranks, {key: {1} for key in range(3)}, dict.fromkeys(range(3), everyone), each) == "broadcast"
    nine = {k: k for k in range(9)}
    assert kind_of(ranks, {k: {k % 3} for k in nine}, {k: {k // 3} for k in nine}, nine) == "alltoall"
    by_three = {k: k // 3 for k in nine}
    assert kind_of(ranks, {k: {k % 3} for k in nine}, {k: {k // 3} for k in nine}, by_three) == "reducescatter"
    assert kind_of(ranks, one, {0: {1}, 1: everyone, 2: {0}}, each) == "custom"


class TestFingerprints:
    """Where exact sets are too large, the verdict is the same, and what is wrong is still named."""

    @pytest.fixture(autouse=True)
    def small_budget(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fabric_plan.planner.threads.check_data.BUDGET", 10)

    def test_the_right_schedule(self) -> None:
        verdict = verdict_of(text("msccl_ring_allreduce_4.xml"))
        assert verdict.verdict == "valid" and "fingerprints" in codes(verdict, "info")

    def test_a_contribution_that_is_missing_is_named(self) -> None:
        whole = text("msccl_ring_allreduce_4.xml")
        broken = whole.replace('type="rrs"', 'type="rcs"', 1)
        assert broken != whole
        verdict = verdict_of(broken)
        assert verdict.verdict == "invalid"
        (first, *_) = [one for one in verdict.findings if one.code == "output"]
        assert "; missing: chunk" in first.message

    def test_all_mutants_as_exactly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from schedules import mutants, samples, table

        for make in (samples.ring_all_reduce, samples.all_pairs_all_reduce):
            for one in mutants.mutants(make(4), 3, 80):
                small = table.verdict_of(one.text)
                with monkeypatch.context() as exact:
                    exact.setattr("fabric_plan.planner.threads.check_data.BUDGET", 10**9)
                    assert table.verdict_of(one.text)[0] == small[0]


def test_the_bound_is_that_of_the_root_in_the_file(tmp_path: Path) -> None:
    """A broadcast from the rank with the wide links is not held against the bound of one with a narrow link."""
    from fabric_plan.cli.verdict_console import add_bound

    nodes = [{"id": k, "kind": "gpu"} for k in range(3)]
    wide = {(2, 0): 100, (2, 1): 100, (0, 1): 1, (1, 0): 1, (0, 2): 1, (1, 2): 1}
    links = [{"src": a, "dst": b, "cap": 1, "bw_GBps": gbps, "lat_us": 1} for (a, b), gbps in wide.items()]
    path = tmp_path / "uneven.json"
    path.write_text(json.dumps({"name": "uneven", "nodes": nodes, "links": links}))
    fabric = load_fabric(str(path))
    chunks = [{"pre": [2], "post": [0, 1, 2], "addr": 0}]
    steps = [{"rounds": 1, "sends": [[0, 2, 0], [0, 2, 1]]}]
    synthesised = {
        "msccl_type": "algorithm",
        "name": "b",
        "steps": steps,
        "collective": {"name": "Broadcast(n=3,root=2)", "nodes": 3, "chunks": chunks},
    }
    xml = """<algo name="b" proto="Simple" nchannels="1" nchunksperloop="1" ngpus="3" coll="broadcast" inplace="1" outofplace="0" minBytes="0" maxBytes="0">
  <gpu id="0" i_chunks="1" o_chunks="1" s_chunks="0"><tb id="0" send="-1" recv="2" chan="0"><step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/></tb></gpu>
  <gpu id="1" i_chunks="1" o_chunks="1" s_chunks="0"><tb id="0" send="-1" recv="2" chan="0"><step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/></tb></gpu>
  <gpu id="2" i_chunks="1" o_chunks="1" s_chunks="0"><tb id="0" send="0" recv="-1" chan="0"><step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/></tb><tb id="1" send="1" recv="-1" chan="0"><step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/></tb></gpu>
</algo>
"""
    for content in (json.dumps(synthesised), xml):
        data = content.encode()
        found = validate_source(Source("x", data, data), fabric=fabric, size=Fraction(1 << 20))
        assert found.verdict == "valid" and found.simulation is not None and found.simulation["root"] == 2
        add_bound(found.simulation, fabric)
        assert 0 < found.simulation["bound"] <= found.simulation["seconds"]
