"""The command overlap, as one would type it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("fabric-plan")


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), "overlap", *arguments], capture_output=True, text=True, check=False, timeout=120
    )


def test_mp_preempts_dp_and_dp_ends() -> None:
    job = ["--switch", "fred3:12", "-s", "MP4-DP3"]
    alone = json.loads(call(*job, "--sizes", "mp=64KiB@100ns", "--json").stdout)
    both = json.loads(call(*job, "--sizes", "dp=512KiB,mp=64KiB@100ns", "--json").stdout)
    late = both["phases"][1]["finish"] - alone["phases"][0]["finish"]
    assert 0 <= late <= (4096 + 512) / 3e12 * 1.001  # a packet on its way, and an acknowledgement
    assert [one["phase"] for one in both["timeline"]] == [0, 1, 0]
    assert both["phases"][0]["finish"] > both["phases"][1]["finish"]
    assert max(both["peak_bytes"].values()) <= 24_576 and both["peak_bytes"]["control"] <= 2_048
    assert both["retransmitted"] == both["timeouts"] == both["nacks"] == 0
    assert both["ack_overhead"] < 0.01


def test_nothing_is_lost_under_faults() -> None:
    done = call("--switch", "fred3:12", "-s", "MP4-DP3", "--sizes", "dp=256KiB,mp=64KiB@20ns", "--faults", "2%")
    assert done.returncode == 0, done.stderr
    assert f"All {12 * (256 + 64) * 1024:,} bytes delivered" in done.stdout
    assert " 0 sent again" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--switch", "fred3:12", "-s", "MP4-DP3", "--sizes", "tp=1KiB"], 2, "cannot read 'tp=1KiB'"),
        (["--switch", "fred3:12", "-s", "MP4-DP3", "--sizes", "pp=1KiB"], 2, "nothing to send"),
        (["--switch", "fred3:12", "-s", "MP4-DP4", "--sizes", "mp=1KiB"], 2, "16 workers"),
        (["--switch", "fred3:12", "-s", "MP4", "--sizes", "mp=1KiB", "--faults", "60%"], 2, "0 to 50 %"),
        (["--switch", "fred3:12", "-s", "MP4", "--sizes", "mp=1KiB", "--faults", "x"], 2, "as in 0.1%"),
        (["--switch", "fred3:12", "-s", "MP4", "--sizes", "mp=0B"], 2, "greater than zero"),
        (["--switch", "fred3:12", "-s", "MP4", "--sizes", "mp=1TiB"], 2, "smaller flows"),
        (["--switch", "fred2:6", "-s", "DP2-PP3", "--sizes", "dp=1KiB"], 1, "does not route"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], code: int, message: str) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
    assert message in done.stderr
