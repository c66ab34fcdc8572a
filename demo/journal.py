"""The journal: what the members report while they run, and the checks of it.

A member writes one JSON object a line to its standard output. Times are `time.monotonic()`, which all
processes of a machine share, so that events of different members can be compared.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An acknowledged commit: a fetch after `at` may not return a lower offset."""

    partition: int
    offset: int
    at: float


@dataclass(frozen=True, slots=True)
class Fetched:
    """A committed offset that was fetched by a request sent at `asked_at`."""

    partition: int
    offset: int
    asked_at: float


@dataclass(slots=True)
class Journal:
    """All reports of the members so far."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    fetched: list[Fetched] = field(default_factory=list)
    assignments: dict[str, list[int]] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=dict)

    def take(self, library: str, line: str) -> None:
        """Add one line of a member."""
        entry: dict[str, Any] = json.loads(line)
        match entry["kind"]:
            case "assignment":
                self.assignments[library] = entry["partitions"]
            case "read":
                self.read[library] = entry["count"]
            case "acknowledged":
                for partition, offset in entry["offsets"]:
                    self.acknowledged.append(Acknowledged(partition, offset, entry["at"]))
                    self.committed[partition] = max(offset, self.committed.get(partition, 0))
            case "fetched":
                for partition, offset in entry["offsets"]:
                    self.fetched.append(Fetched(partition, offset, entry["asked_at"]))
            case "refused":
                self.refusals.append(f"{library}: {entry['reason']}")

    def steps_back(self) -> list[str]:
        """Return every fetch below a commit that was acknowledged before it; empty if all is right."""
        steps: list[tuple[float, bool, Acknowledged | Fetched]] = [
            (entry.at, False, entry) for entry in self.acknowledged
        ]
        steps += [(entry.asked_at, True, entry) for entry in self.fetched]
        steps.sort(key=lambda step: step[:2])
        highest: dict[int, int] = {}
        problems = []
        for _, is_fetch, entry in steps:
            known = highest.get(entry.partition, 0)
            if is_fetch and entry.offset < known:
                problems.append(
                    f"partition {entry.partition}: {known} acknowledged, {entry.offset} fetched later"
                )
            if not is_fetch:
                highest[entry.partition] = max(known, entry.offset)
        return problems
