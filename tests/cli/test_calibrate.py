"""The command calibrate, on logs in the form of nccl-tests (figures made up)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from fabric_plan.cli import main
from fabric_plan.planner.formats.graph_json import read_graph

pytestmark = pytest.mark.filterwarnings("error")

HEADER = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
SIZES = [2**k for k in range(16, 29, 2)]


def call(*arguments: object, stdin: str | None = None) -> tuple[int, str, str]:
    """Run a command as the installed script does; return (exit code, stdout, stderr)."""

    @click.command(context_settings={"ignore_unknown_options": True})
    def script() -> None:
        before = sys.argv
        sys.argv = ["fabric-plan", *map(str, arguments)]
        try:
            main.run()
        finally:
            sys.argv = before

    found = CliRunner().invoke(script, [], input=stdin)
    return found.exit_code, found.stdout, found.stderr


def document(*arguments: object, stdin: str | None = None) -> dict[str, Any]:
    code, out, error = call("calibrate", *arguments, "--json", stdin=stdin)
    assert code == 0, error
    loaded: dict[str, Any] = json.loads(out)
    return loaded


def time_of(size: int, ranks: int) -> float:
    """Return the us of a ring all-reduce: 30 us and 40 GB/s."""
    return 30 + 2 * (ranks - 1) / ranks * size / 40e3


def row(size: int, time: float, operation: str = "sum      -1") -> str:
    half = f"{time:8.2f}  {size / time / 1e3:6.2f}  {size / time / 1e3:6.2f}"
    return f"{size:12d}  {size // 4:12d}     float  {operation:>12}  {half}      0  {half}    N/A\n"


def log(ranks: int = 8, test: str = "all_reduce", header: str = HEADER, operation: str = "sum      -1") -> str:
    names = "".join(
        f"#  Rank {rank:2d} Group  0 Pid  {1200 + rank} on node-a device {rank:2d} [0x1b] NVIDIA H100 80GB HBM3\n"
        for rank in range(ranks)
    )
    rows = "".join(row(size, time_of(size, ranks), operation) for size in SIZES)
    return f"# Collective test starting: {test}_perf\n# Using devices\n{names}#\n{header}{rows}# Out of bounds values : 0 OK\n"


def test_a_log_becomes_a_fabric(tmp_path: Path) -> None:
    path, mine = tmp_path / "all_reduce.log", tmp_path / "mine.json"
    path.write_text(log())
    code, out, error = call("calibrate", path, "--fabric", "h100:8", "--alpha", "2us", "-o", mine)
    assert (code, error) == (0, "")
    assert "all-reduce by ring over 8 ranks on h100:8, links '370.8GB/s 1.7us'" in out
    (fit,) = (line.split() for line in out.splitlines() if line.strip().startswith("all "))
    assert fit[:4] == ["all", "-", "2us", "40GB/s"]
    assert fit[4].startswith("2.00")
    assert fit[5] == str(len(SIZES))
    assert "(outside)" in out
    assert "Largest error 0.0" in out
    assert f"Written to {mine}" in out
    fabric = read_graph(mine)
    assert {round(link.bandwidth / 1e9, 2) for link in fabric.links} == {40}
    assert {float(link.latency * 10**6) for link in fabric.links} == {1}
    assert float(fabric.costs.fixed * 10**6) == pytest.approx(2, rel=1e-2)


def test_the_document(tmp_path: Path) -> None:
    found = document("-", "-f", "h100:8", "--alpha", "2us", "--hold-out", 3, stdin=log())
    assert found["schema"] == "fabric-plan/calibration/1"
    assert (found["collective"], found["algorithm"], found["ranks"]) == ("all-reduce", "ring", 8)
    (fit,) = found["ranges"]
    assert fit["bandwidth"] == pytest.approx(40e9, rel=1e-3)
    assert [one["size"] for one in found["held_out"]] == SIZES[2::3]
    assert [one["size"] for one in found["points"]] == [size for size in SIZES if size not in SIZES[2::3]]
    assert found["worst"] < 1e-3
    assert found["worst_held_out"] < 1e-3


def test_options_reach_the_fit() -> None:
    two = document("-", "-f", "h100:8", "--protocols", 2, "--alpha", "1us", stdin=log())
    assert [one["name"] for one in two["ranges"]] == ["small", "large"]
    named = document("-", "-f", "h100:8", "--protocol", "ll128", "--alpha", "1us", stdin=log())
    assert [one["name"] for one in named["ranges"]] == ["ll128"]
    lowered = document("-", "-f", "h100:8", stdin=log())
    assert "alpha is lowered" in lowered["notes"][0]
    switches = document("-", "-f", "h100:8", "--algorithm", "in-network", stdin=log())
    assert switches["ranges"][0]["bandwidth"] == pytest.approx(40e9 * 8 / 14 / 0.85 * 6 / 5, rel=1e-3)


def test_ranks_come_from_the_log_unless_they_are_given() -> None:
    assert document("-", "-f", "hub:72", stdin=log(ranks=4))["ranks"] == 4
    given = document("-", "-f", "hub:72", "--ranks", 8, stdin=log(ranks=4))
    assert given["ranks"] == 8
    table = "size,time_us\n" + "".join(f"{size},{time_of(size, 72):.3f}\n" for size in SIZES)
    assert document("-", "-f", "hub:72", stdin=table)["ranks"] == 72


def test_the_collective_comes_from_the_log_unless_it_is_given() -> None:
    assert document("-", "-f", "hub:8", stdin=log(test="all_gather"))["collective"] == "all-gather"
    given = document("-", "-f", "hub:8", "--collective", "broadcast", stdin=log(test="all_gather"))
    assert given["collective"] == "broadcast"


def test_a_graph_on_stdout_is_all_there_is_on_stdout(tmp_path: Path) -> None:
    code, out, _ = call("calibrate", "-", "-f", "h100:8", "-o", "-", "--json", stdin=log())
    assert code == 0
    assert json.loads(out)["nodes"][0]["kind"] == "gpu"


@pytest.mark.parametrize(
    "operation",
    ["", "-1", "none      -1"],
    ids=["neither redop nor root", "no redop", "both"],
)
def test_rows_with_blank_columns_are_read_as_they_are(operation: str) -> None:
    found = document("-", "-f", "hub:8", stdin=log(test="all_gather", operation=operation))
    assert found["points"] == document("-", "-f", "hub:8", stdin=log(test="all_gather"))["points"]


def test_tests_built_for_mpi_are_known_by_their_name() -> None:
    """The collective is read, and not taken to be an all-reduce."""
    found = document("-", "-f", "hub:8", stdin=log(test="all_gather").replace("all_gather_perf", "all_gather_perf_mpi"))
    assert found["collective"] == "all-gather"


def test_older_headers_without_these_columns() -> None:
    header = HEADER.replace("redop    root", "").replace("#wrong", " error")
    found = document("-", "-f", "hub:8", stdin=log(header=header, operation=""))
    assert found["worst"] < 1e-3
    assert found["points"] == document("-", "-f", "hub:8", stdin=log())["points"]


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (["-f", "h100:4"], log(), "ranks 8: h100:4 has 4 NPUs"),
        (["-f", "h100:8"], log().replace(f"{time_of(SIZES[1], 8):8.2f}", "     N/A"), "line 14: time 'N/A'"),
        (["-f", "h100:8"], "", "no measurement found"),
        (
            ["-f", "h100:8"],
            log(test="gather"),
            "calibration of gather by ring is not known: expected one of all-reduce",
        ),
        (["-f", "h100:8"], log() + log(test="all_gather"), "a row of all-gather after rows of all-reduce"),
        (["-f", "h100:8"], HEADER + "  65536  16384  float\n", "line 2: 3 columns, but the header has 13"),
        (["-f", "a100:8", "--algorithm", "in-network"], log(), "nothing says that its switches reduce"),
        (["-f", "h100:8", "--class", "nvlnk"], log(), "unknown class of links 'nvlnk'"),
        (["-f", "h100:8", "--alpha", "soon"], log(), "'soon' is not a time"),
        (["-f", "h100:8", "--hold-out", "1"], log(), "every second point at most"),
        (["-f", "h100:8", "--protocols", "4"], log(), "'4' is not one of"),
        (["-f", "h100:8", "-o", "/none/mine.json"], log(), "there is no directory"),
        (["-f", "h1000:8"], log(), "unknown fabric"),
        ([], log(), "Missing option"),
    ],
)
def test_what_cannot_be_calibrated_is_one_line(arguments: list[str], text: str, message: str) -> None:
    code, out, error = call("calibrate", "-", *arguments, stdin=text)
    assert code == 2
    assert out == ""
    assert message in error
    assert error.count("\n") == 1
