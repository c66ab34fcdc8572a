"""The findings of a check, and the counts of what it checked.

An error means that bytes were lost or changed: neither a stop nor a crash of Headgate causes it, and the user
must act. A note is a normal trace of a crash, of a running server, or of an interrupted change, which the
server handles itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

LISTED_PER_FILE: Final = 100
"""Further findings of the same severity in the same file are only counted, because there can be thousands."""


class Severity(Enum):
    """The severity of a finding."""

    ERROR = "error"
    NOTE = "note"


@dataclass(slots=True, frozen=True)
class Finding:
    """One finding."""

    severity: Severity
    file: str
    """The path of the file, or of a directory, relative to the data directory."""
    position: int | None
    """The byte in the file, if the finding has one."""
    what: str
    """What is wrong."""
    next_step: str
    """What to do, or what the server will do."""


@dataclass(slots=True)
class CheckedCounts:
    """How much was checked."""

    topics: int = 0
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    index_entries: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class Findings:
    """Findings in order."""

    listed: list[Finding] = field(default_factory=list)
    checked: CheckedCounts = field(default_factory=CheckedCounts)
    _counts: Counter[tuple[Severity, str]] = field(default_factory=Counter)

    def error(self, file: str, what: str, next_step: str, *, position: int | None = None) -> None:
        """Add an error: something is damaged."""
        self._add(Finding(Severity.ERROR, file, position, what, next_step))

    def note(self, file: str, what: str, next_step: str, *, position: int | None = None) -> None:
        """Add a note."""
        self._add(Finding(Severity.NOTE, file, position, what, next_step))

    def _add(self, finding: Finding) -> None:
        key = finding.severity, finding.file
        self._counts[key] += 1
        if self._counts[key] <= LISTED_PER_FILE:
            self.listed.append(finding)

    def advise_all(self, next_step: str) -> None:
        """Replace the next step of every error, because this one must be done first."""
        self.listed = [
            replace(one, next_step=next_step) if one.severity is Severity.ERROR else one
            for one in self.listed
        ]

    def add_step(self, files: Set[str], next_step: str) -> None:
        """Add to the next step of every error of these files."""
        self.listed = [
            replace(one, next_step=f"{one.next_step} {next_step}")
            if one.severity is Severity.ERROR and one.file in files
            else one
            for one in self.listed
        ]

    def without_start(self, next_step: str) -> None:
        """Give this next step to whatever tells what the server does when it starts: it does not start."""
        self.listed = [
            replace(one, next_step=next_step)
            if one.severity is Severity.ERROR or "start" in one.next_step
            else one
            for one in self.listed
        ]

    def merge(self, other: Findings) -> None:
        """Add the findings and counts of a check of other files."""
        self.listed += other.listed
        self._counts.update(other._counts)
        for name in CheckedCounts.__dataclass_fields__:
            setattr(self.checked, name, getattr(self.checked, name) + getattr(other.checked, name))

    @property
    def not_listed(self) -> dict[tuple[Severity, str], int]:
        """The number of findings that are not listed, by severity and file."""
        return {
            key: count - LISTED_PER_FILE for key, count in self._counts.items() if count > LISTED_PER_FILE
        }

    @property
    def errors(self) -> int:
        """The number of errors, listed or not."""
        return sum(count for (severity, _), count in self._counts.items() if severity is Severity.ERROR)

    @property
    def notes(self) -> int:
        """The number of notes, listed or not."""
        return sum(count for (severity, _), count in self._counts.items() if severity is Severity.NOTE)
