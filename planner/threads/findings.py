"""What a validation finds, and the verdict that follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "profile", "warning", "info"]
PROFILES = ("msccl", "executor", "rccl")
"""Runtimes: microsoft/msccl, the msccl-executor, RCCL."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Parameters
    ----------
    severity
        ``error``: wrong for some interleaving, at every size; ``profile``: a runtime refuses or truncates it; ``warning``; ``info``.
    code
        Short and stable, such as ``deadlock`` or ``missing``.
    line
        Of the file, from 1; None where there is none.
    witness
        What shows it, step by step: a cycle, a racing pair, contributions.
    profiles
        Of a ``profile`` finding: the runtimes that it concerns.
    """

    severity: Severity
    code: str
    message: str
    line: int | None = None
    witness: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()


@dataclass
class Findings:
    """Collects findings; of each code so many are kept as a reader wants, and the rest are counted."""

    most: int = 8
    kept: list[Finding] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(
        self,
        severity: Severity,
        code: str,
        message: str,
        *,
        line: int | None = None,
        witness: Sequence[str] = (),
        profiles: Iterable[str] = (),
    ) -> None:
        """Add one."""
        key = severity, code
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] <= self.most:
            self.kept.append(Finding(severity, code, message, line, tuple(witness), tuple(profiles)))

    def has(self, severity: Severity) -> bool:
        """Whether there is one of a severity."""
        return any(kind == severity for kind, _ in self.counts)

    def summed(self) -> list[Finding]:
        """Return all that are kept, and one more for each code of which some were left out."""
        rest = [
            Finding(severity, code, f"{count - self.most} more findings of this kind")  # type: ignore[arg-type]
            for (severity, code), count in self.counts.items()
            if count > self.most
        ]
        return [*self.kept, *rest]


@dataclass(frozen=True)
class Verdict:
    """What is known of a schedule.

    Parameters
    ----------
    verdict
        ``valid``, ``invalid``, ``hangs-above`` or ``unreadable``.
    hangs_above
        Bytes of the collective's buffer up to which it is right; above, it stops for ever. None: it does not, or the file allows no
        such size.
    simulation
        What the fabric makes of it: seconds, bound, links.
    """

    verdict: Literal["valid", "invalid", "hangs-above", "unreadable"]
    kind: str
    summary: str
    findings: tuple[Finding, ...]
    hangs_above: int | None = None
    simulation: dict[str, Any] | None = None

    def refused_by(self, profile: str) -> bool:
        """Whether a runtime refuses it."""
        return any(one.severity == "profile" and profile in one.profiles for one in self.findings)


def unreadable(text: str) -> Verdict:
    """Return the verdict on a file that cannot be read, with the reason."""
    return Verdict("unreadable", "", text, (Finding("error", "unreadable", text),))
