"""Logs in the forms that nccl-tests and rccl-tests print (figures made up)."""

from __future__ import annotations

from fractions import Fraction

import pytest

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.nccl_tests import parse_log

HEAD = """# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1201 on     node-a device  0 [0x1b] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1202 on     node-a device  1 [0x43] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   1203 on     node-b device  0 [0x1b] NVIDIA H100 80GB HBM3
#
"""
COLUMNS = """#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
ROWS = """     1048576        262144     float     sum      -1    40.50   25.89   34.52      0    39.10   26.82   35.76      0
     2097152        524288     float     sum      -1    61.00   34.38   45.84      0    60.20   34.84   46.45      0
     4194304       1048576     float     sum      -1    102.3   41.00   54.67    N/A    101.0   41.53   55.37    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 45.4
"""
EXPECTED = ((1048576, Fraction("40.5")), (2097152, Fraction(61)), (4194304, Fraction("102.3")))


def points(text: str) -> tuple[tuple[int, Fraction], ...]:
    return tuple((size, time * 10**6) for size, time in parse_log(text, "x.log").points)


def test_a_log() -> None:
    found = parse_log(HEAD + COLUMNS + ROWS, "x.log")
    assert found.ranks == 3
    assert found.collective is None
    assert points(HEAD + COLUMNS + ROWS) == EXPECTED


def test_the_test_is_named_in_newer_logs() -> None:
    for name, collective in (
        ("all_reduce", "all-reduce"),
        ("alltoall", "all-to-all"),
        ("reduce_scatter", "reduce-scatter"),
    ):
        assert parse_log(f"# Collective test starting: {name}_perf\n" + COLUMNS + ROWS, "x").collective == collective


def test_launchers_prefix_lines_and_libraries_talk_between() -> None:
    text = "".join(f"[1,0]<stdout>:{line}\n" for line in (HEAD + COLUMNS + ROWS).splitlines())
    assert points(text) == EXPECTED
    assert parse_log(text, "x").ranks == 3
    for words in (
        "Connected all rings",
        "Channel 00/02 :    0   1   2   3   4   5   6   7",
        "comm 0x1 rank 0 nranks 8 - 1 2 3 ",
    ):
        talk = ROWS.replace("\n", f"\nnode-a:1201:1201 [0] NCCL INFO {words}\n")
        assert points(HEAD + COLUMNS + talk) == EXPECTED


def test_older_logs_call_the_last_column_error() -> None:
    assert points(COLUMNS.replace("#wrong", " error") + ROWS) == EXPECTED


def test_repeated_sizes_count_by_their_median() -> None:
    more = ROWS.replace("40.50", "90.00") + ROWS.replace("40.50", "41.00")
    assert points(COLUMNS + ROWS + more)[0] == (1048576, Fraction(41))


def test_a_table_of_two_columns() -> None:
    assert points("size,time_us\n1048576,40.5\n2097152,61\n4194304,102.3\n") == EXPECTED
    assert points("\ufeffsize,time_us\n1048576,40.5\n\n# more\n2097152,61\n4194304,102.3\n") == EXPECTED
    assert points("size time_us\n4194304 102.3\n1048576 40.5\n2097152 61\n") == EXPECTED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.log: no measurement found"),
        (HEAD, "x.log: no measurement found"),
        (ROWS, "x.log: line 1: a row before any header"),
        (COLUMNS + "  1048576   262144 float\n", "x.log: line 4: 3 columns"),
        (COLUMNS + ROWS.replace("61.00", "  N/A"), "x.log: line 5: time 'N/A' is not a number"),
        ("size,time_us\n4,-1\n", "x.log: line 2: time '-1'"),
        ("size,time_us\n4,nan\n", "x.log: line 2: time 'nan'"),
        ("size,time_us\n4,0\n", "x.log: line 2: time '0'"),
        ("size,time_us\n1024,5\n1e6,40\n", "x.log: line 3: size '1e6' is not a whole number"),
        ("size,time_us\n-4,40\n", "x.log: line 2: size '-4' is not a whole number"),
        ("size,time_us\n²,40\n", "x.log: line 2: size '²' is not a whole number"),
        ("size,time_us\n1,048,576,40.5\n", "x.log: line 2: 4 columns, but the header has 2: write 1048576"),
        (COLUMNS + ROWS.replace("2097152", "20x7152"), "x.log: line 5: size '20x7152' is not a whole number"),
        (COLUMNS + ROWS.replace("2097152", "    N/A"), "x.log: line 5: size 'N/A' is not a whole number"),
        ("size,time_us\n" + "9" * 30 + ",5\n", "x.log: line 2: size 9+ is more than any buffer holds"),
    ],
)
def test_bad_lines_are_named(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_log(text, "x.log")
