"""What a check finds, and how much it looked at.

An error is what Headgate does not leave behind, whatever ends it: bytes were lost or changed, and something
must be done. A note is the normal trace of a crash, of a running server, or of an interrupted change: the
server deals with it by itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

LISTED_PER_FILE: Final = 100
"""More findings of one severity in one file are counted, not listed: one lost megabyte has thousands."""


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    NOTE = "note"


@dataclass(slots=True, frozen=True)
class Finding:
    """One thing that is not as it should be, or worth knowing."""

    severity: Severity
    file: str
    """The path below the data directory; of a directory where the finding is about no one file."""
    position: int | None
    """The byte in the file, where there is one to point at."""
    what: str
    """What is wrong."""
    next_step: str
    """What to do, or what the server will do."""


@dataclass(slots=True)
class Looked:
    """How much was looked at."""

    topics: int = 0
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    index_entries: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class Findings:
    """Findings in the order they were made."""

    listed: list[Finding] = field(default_factory=list)
    looked: Looked = field(default_factory=Looked)
    _counts: Counter[tuple[Severity, str]] = field(default_factory=Counter)

    def error(self, file: str, what: str, next_step: str, *, position: int | None = None) -> None:
        """Something is damaged."""
        self._add(Finding(Severity.ERROR, file, position, what, next_step))

    def note(self, file: str, what: str, next_step: str, *, position: int | None = None) -> None:
        """Something is worth knowing."""
        self._add(Finding(Severity.NOTE, file, position, what, next_step))

    def _add(self, finding: Finding) -> None:
        key = finding.severity, finding.file
        self._counts[key] += 1
        if self._counts[key] <= LISTED_PER_FILE:
            self.listed.append(finding)

    def advise_all(self, next_step: str) -> None:
        """Give every error this next step: what else is wrong is of no account beside it."""
        self.listed = [
            replace(one, next_step=next_step) if one.severity is Severity.ERROR else one
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
        """Take over what another check found, of other files."""
        self.listed += other.listed
        self._counts.update(other._counts)
        for name in Looked.__dataclass_fields__:
            setattr(self.looked, name, getattr(self.looked, name) + getattr(other.looked, name))

    @property
    def not_listed(self) -> dict[tuple[Severity, str], int]:
        """How many more there are in files with more than can be listed."""
        return {
            key: count - LISTED_PER_FILE for key, count in self._counts.items() if count > LISTED_PER_FILE
        }

    @property
    def errors(self) -> int:
        """How many errors there are, listed or not."""
        return sum(count for (severity, _), count in self._counts.items() if severity is Severity.ERROR)

    @property
    def notes(self) -> int:
        """How many notes there are, listed or not."""
        return sum(count for (severity, _), count in self._counts.items() if severity is Severity.NOTE)
