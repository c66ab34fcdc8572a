"""Members of a share group as processes: what they acquired, and what was refused to them.

The value of a record says what an explicit member makes of it: `reject...`, `release...` (the first time),
`renew...` (the first time, Java only), `poison...` (released always); anything else is accepted.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.compat.support.java import java_share_member_command
from tests.compat.support.talking import TalkingProcess

PROGRAM = Path(__file__).with_name("share_member_program.py")


@dataclass(frozen=True)
class ShareMembership:
    """What a member is told."""

    bootstrap: str
    group: str
    topic: str
    library: str
    explicit: bool = True
    holds: bool = False
    """Whether it keeps the first records it gets, and does nothing more."""
    acquire_mode: str = "batch_optimized"
    most: int = 500


@dataclass
class ShareMember(TalkingProcess):
    """One running member."""

    membership: ShareMembership
    records: list[tuple[int, int, str, int]] = field(default_factory=list)
    """Partition, offset, value and delivery count of each record it got."""
    polls: list[int] = field(default_factory=list)
    """Number of records of each poll."""
    refusals: list[str] = field(default_factory=list)
    acknowledged: int = 0
    """How often its acknowledgements were answered."""
    kept: list[bool] = field(default_factory=list)
    """Of each poll, whether none of its acknowledgements was refused, by the broker or by the client."""

    def __post_init__(self) -> None:
        asked = json.dumps(asdict(self.membership))
        is_java = self.membership.library == "java"
        command = java_share_member_command(asked) if is_java else [sys.executable, str(PROGRAM), asked]
        self._start(command)

    def __str__(self) -> str:
        told = f"{self.membership.library}: {len(self.records)} records, {self.refusals}"
        return f"{told}; {self.complaints()}"

    @property
    def values(self) -> list[str]:
        return [value for _, _, value, _ in self.records]

    def _hear(self, said: dict[str, Any]) -> None:
        match said["event"]:
            case "records":
                new = [(one[0], one[1], one[2], one[3]) for one in said["records"]]
                self.records += new
                self.polls.append(len(new))
            case "acknowledged":
                self.refusals += said["refusals"]
                self.kept.append(not said["refusals"])
                self.acknowledged += 1
            case "failed":
                self.refusals.append(said["error"])
