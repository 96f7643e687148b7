"""Every file of the shared corpus of schedules gets the verdict that its manifest states, and is refused by the runtimes that it names."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.threads.findings import PROFILES, Verdict
from fabric_plan.planner.threads.validate import Source, validate_source

FILES = [
    "msccl-scheduler/ndv4__a2a2ll.xml",
    "msccl-scheduler/ndv4__ag-1k-512k.xml",
    "msccl-scheduler/ndv4__ap-1pass.xml",
    "msccl-scheduler/ndv4__r48ll128.xml",
    "msccl-scheduler/ncv4__ag_hier_4_Simple.xml",
    "rccl/allreduce-allpairs-8n-ll-32tb.xml",
    "rccl/allreduce-1step-4n-ll-1pass.xml",
    "rccl/allreduce-allpairs-8n-simple.xml",
    "msccl-tools/ar_ring_n4.xml",
    "msccl-tools/ar_ring_n8_ch4_ins2.xml",
    "msccl-tools/ar_ring_n64.xml",
    "msccl-tools/ar_allpairs_n4.xml",
    "msccl-tools/ar_hier_8x4.xml",
    "msccl-tools/a2a_2step_2x4.xml",
    "msccl-tools/ag_rd_n8.xml",
    "msccl-tools/rs_allpairs_n8.xml",
    "ForestColl/fc_allgather_a100_1x8.xml",
    "ForestColl/tree_a100_1x8.xml",
    "TE-CCL/teccl__schedules__mesh_4.json",
    "teccl-msccl/teccl__output__nvswitch16__AllGather__Fast__64MB_msccl_strict.xml",
    "sccl/ap_1.29c6135b.xml",
    "sccl/alltonext_2in.xml",
    "msccl/ar_ll.66fa2e89.xml",
    "msccl/ar_ll.4ea59702.xml",
    "msccl_tools_lyd/allreduce_binary_tree_h_p_1ch_intra_2ch_inter_Simple_gpu64_ins1.xml",
    "mscclpp/allreduce.json",
    "mscclpp/allreduce_packet.json",
    "mscclpp/reduce_nvls.json",
    "mscclpp/reduce_tbg.json",
    "mscclpp/allreduce_pipeline.json",
    "mscclpp/ag_mn_2x4.json",
    "mscclpp/a2a_4.json",
    "mscclpp/v1_allreduce.json",
    "mscclpp/v1_allreduce_packet.json",
    "astra-sim/custom_allreduce.0.et",
]

OURS = {
    # Each tree spans the eight GPUs by single sends through the NVSwitch, and each GPU's data is in exactly one tree.
    "ForestColl/tree_a100_1x8.xml": "valid",
    # All 240 flows leave after what they carry has come, and all 240 demands are met in the 8 epochs.
    "TE-CCL/teccl__schedules__mesh_4.json": "valid",
    # Rank 0's trace alone: a chain without a cycle; whether its peers answer cannot be told without theirs.
    "astra-sim/custom_allreduce.0.et": "valid",
    # Both version 1 plans end with the whole sum everywhere, in every order that their waits and packets allow.
    "mscclpp/v1_allreduce.json": "valid",
    "mscclpp/v1_allreduce_packet.json": "valid",
}
"""Verdicts on files of which the manifest says nothing, with the reason."""

DISAGREED = {
    # Accepted by the manifest with a star, if groups of thread blocks cut each chunk. The executor cuts each operation's whole range
    # (execution_plan.cc, calcOffset of the range's size): block 0 of rank 1 copies all of s[0], and block 1 of rank 0, which only
    # waits for block 1 of rank 1, reads the second half of it. Random interleavings see uninitialised data come out.
    "mscclpp/reduce_tbg.json": "invalid",
}
"""Verdicts that are not those of the manifest, with the proof."""

NAMES = {
    "ACCEPT": "valid",
    "ACCEPT*": "valid",
    "REJECT": "invalid",
    "HANG-SIZE": "hangs-above",
    "UNREADABLE": "unreadable",
}


@cache
def manifest(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "MANIFEST.tsv").open(newline="") as stream:
        return {row["file"]: row for row in csv.DictReader(stream, delimiter="\t")}


def verdict_of(path: Path) -> Verdict | None:
    try:
        return validate_source(Source.of(str(path)))
    except InvalidInput:
        return None


@pytest.mark.parametrize("name", FILES)
def test_verdict(shared: Path, name: str) -> None:
    folder = shared / "data" / "schedules"
    row = manifest(folder)[name]
    verdict = verdict_of(folder / name)
    found = "unreadable" if verdict is None else verdict.verdict
    stated = row["expected_verdict"]
    assert found == DISAGREED.get(name, NAMES[stated] if stated else OURS.get(name))
    if verdict is not None and stated == "ACCEPT":
        refused = row["profiles"].split(":")[0] if row["profiles"] else ""
        for profile in refused.split(","):
            assert not profile or verdict.refused_by(profile.strip())
        if verdict.kind == "msccl-xml" and verdict.verdict == "valid" and refused:
            assert any(not verdict.refused_by(profile) for profile in PROFILES)


def test_the_list_is_the_manifest(shared: Path) -> None:
    assert set(FILES) == set(manifest(shared / "data" / "schedules"))


def message(shared: Path, name: str, code: str) -> str:
    verdict = verdict_of(shared / "data" / "schedules" / name)
    assert verdict is not None
    found = [one for one in verdict.findings if one.code == code]
    assert found, [one.code for one in verdict.findings]
    return found[0].message + " " + " ".join(found[0].witness)


def test_what_is_wrong_is_named(shared: Path) -> None:
    circle = message(
        shared, "teccl-msccl/teccl__output__nvswitch16__AllGather__Fast__64MB_msccl_strict.xml", "deadlock"
    )
    assert "waits for the message of" in circle and "comes after" in circle
    assert "no dependency of its own" in message(shared, "msccl/ar_ll.66fa2e89.xml", "nop-chain")
    assert "hangs above 8,388,608 bytes" in message(shared, "msccl-tools/ag_rd_n8.xml", "hangs-above")
    assert "race" in message(shared, "sccl/alltonext_2in.xml", "race")


def test_groups_that_cut_ranges_are_seen_to_fail(shared: Path) -> None:
    from schedules import interleaving

    path = shared / "data" / "schedules" / "mscclpp" / "reduce_tbg.json"
    assert interleaving.runs(path.read_text(), 300).kind == "wrong"
    assert "would be right if groups" in message(shared, "mscclpp/reduce_tbg.json", "group-slices")
