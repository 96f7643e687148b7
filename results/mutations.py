"""Write results/mutations.md: mutants of schedules, what the validator says of them, and what random interleavings do to them.

``python results/mutations.py [--seed 1] [--each 120] [--runs 100]``; the executor of the interleavings is a test helper
(tests/schedules) that shares no code with the validator.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from schedules import mutants, table  # noqa: E402


def main() -> None:
    """Run the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=120, help="mutants of each base schedule")
    parser.add_argument("--runs", type=int, default=100, help="random interleavings of each mutant")
    options = parser.parse_args()
    began = time.process_time()
    found = list(table.rows(options.seed, options.each, options.runs))
    seconds = time.process_time() - began
    lines = [
        "# Mutants of schedules",
        "",
        f"`python results/mutations.py --seed {options.seed} --each {options.each} --runs {options.runs}`: {len(found):,} mutants of "
        f"{len(table.BASES)} right schedules, each checked, and run in {options.runs} random interleavings; {seconds:.0f} s of CPU.",
        "",
        "*Missed* would be a mutant that the validator accepts and that fails in some interleaving. *Never seen to fail* are mutants that "
        "it refuses and that no interleaving broke: step numbers out of order, fused reductions of unequal counts, plans whose outputs may come "
        "after their rank has ended (the interleavings end when all ranks have), and relaxed signals whose wrong order is too rare to be hit.",
        "",
        "| # | family | mutants | rejected | accepted | missed | never seen to fail |",
        "|---|---|---|---|---|---|---|",
    ]
    keys = ("mutants", "rejected", "accepted", "missed", "never seen to fail")
    total = dict.fromkeys(keys, 0)
    for family, row in sorted(table.counts(found).items()):
        lines.append(f"| {family} | {mutants.FAMILIES[family]} | " + " | ".join(str(row[key]) for key in keys) + " |")
        for key in keys:
            total[key] += row[key]
    lines.append("| | all | " + " | ".join(str(total[key]) for key in keys) + " |")
    lines += ["", "Base schedules: " + "; ".join(table.BASES) + "."]
    (ROOT / "results" / "mutations.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    for one in found:
        if one.accepted and one.outcome != "done":
            print("missed:", one.base, one.mutant.name, one.verdict, one.outcome, one.detail)
    sys.exit(any(one.accepted and one.outcome != "done" for one in found))


if __name__ == "__main__":
    main()
