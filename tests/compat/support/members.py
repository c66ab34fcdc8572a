"""A member of a group that lives in a process of its own, so that it can be killed like one.

The process is member_program.py (Python libraries), node/member.js or java/GroupMember.java; all are told
what to do in one JSON argument, say what happens to them in lines of JSON, and close when they read the line
`close`.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.compat.support.java import java_member_command
from tests.compat.support.kafkajs import NODE
from tests.compat.support.talking import TalkingProcess
from tests.waiting import wait_until

PROGRAM = Path(__file__).with_name("member_program.py")
SESSION_TIMEOUT_MS = 6_000  # the least that a broker allows
HEARTBEAT_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a member is told."""

    library: str
    bootstrap: str
    topic: str
    group: str
    instance_id: str | None = None
    assignor: str = "range"
    """"range", which all libraries have, or for confluent-kafka also "cooperative-sticky"."""
    protocol: str = "classic"
    """"consumer": the server balances (KIP-848), and assignments come piece by piece; for confluent-kafka
    and java."""
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    heartbeat_ms: int = HEARTBEAT_MS


@dataclass
class Member(TalkingProcess):
    """One running member: what it owns, what it has read, what it has committed."""

    membership: Membership
    partitions: list[int] = field(default_factory=list)
    """What it owns now; empty between a revocation and the next assignment."""
    rebalances: int = 0
    """How often it was given an assignment, or an addition to it."""
    revocations: int = 0
    records: list[tuple[int, int, str]] = field(default_factory=list)
    unconfirmed: dict[tuple[int, int], str] = field(default_factory=dict)
    """What it has read of the partitions it owns and not said yet that it committed: partition and offset,
    value."""
    confirmed: list[str] = field(default_factory=list)
    """Values of what it has read and committed."""
    committed: dict[int, int] = field(default_factory=dict)
    refused_commits: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        asked = json.dumps(asdict(self.membership))
        if self.membership.library == "kafkajs":
            command = ["node", str(NODE / "member.js"), asked]
        elif self.membership.library == "java":
            command = java_member_command(asked)
        else:
            command = [sys.executable, str(PROGRAM), asked]
        self._start(command)

    def __str__(self) -> str:
        state = f"owns {self.partitions}, {self.rebalances} rebalances, {len(self.records)} records"
        return f"{self.membership.library} ({state}{self.trouble()})"

    def values(self) -> list[str]:
        """The values of the records it has read, in order of arrival."""
        return [value for _partition, _offset, value in self.records]

    def wait_until_it_owns(self, partitions: list[int], timeout_s: float = 15) -> None:
        """Returns when its assignment is just that."""
        wait_until(lambda: self.partitions == partitions, lambda: f"{self} owns {partitions}", timeout_s)

    def end(self) -> None:
        """Makes sure that nothing of it is left."""
        super().end()
        self.partitions = []

    def trouble(self) -> str:
        """What it complained about, for the message of a failing test."""
        said = "; ".join(self.failures + self.refused_commits) + self.complaints()
        return f"; it says: {said}" if said else ""

    def _hear(self, said: dict[str, Any]) -> None:
        match said["event"]:
            case "assigned":
                self.partitions = sorted(said["partitions"])
                self.rebalances += 1
            case "added":
                self.partitions = sorted({*self.partitions, *said["partitions"]})
                self.rebalances += 1
            case "removed":
                self._give_up(said["partitions"])
            case "revoked":
                self._give_up(self.partitions)
            case "records":
                self.records += [tuple(record) for record in said["records"]]
                self.unconfirmed |= {(place, offset): value for place, offset, value in said["records"]}
            case "committed":
                self._confirm({int(partition): offset for partition, offset in said["offsets"].items()})
            case "commit-refused":
                self.refused_commits.append(said["error"])
            case "failed":
                self.failures.append(said["error"])

    def _give_up(self, partitions: list[int]) -> None:
        """Whoever has them next reads on from the last commit."""
        self.partitions = sorted(set(self.partitions) - set(partitions))
        self.revocations += 1
        self.unconfirmed = {
            where: value for where, value in self.unconfirmed.items() if where[0] not in partitions
        }

    def _confirm(self, upto: dict[int, int]) -> None:
        self.committed |= upto
        done = [where for where in self.unconfirmed if where[1] < upto.get(where[0], 0)]
        self.confirmed += [self.unconfirmed.pop(where) for where in done]


class Join:
    """Starts members of groups at one broker; at the end of its block, what is left of them is killed."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._ends = ExitStack()

    def __enter__(self) -> Join:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def __call__(
        self,
        library: str,
        topic: str,
        group: str,
        instance_id: str | None = None,
        *,
        assignor: str = "range",
        protocol: str = "classic",
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> Member:
        membership = Membership(
            library=library,
            bootstrap=self._bootstrap,
            topic=topic,
            group=group,
            instance_id=instance_id,
            assignor=assignor,
            protocol=protocol,
            session_timeout_ms=session_timeout_ms,
        )
        member = Member(membership)
        self._ends.callback(member.end)
        return member


def wait_until_shared(members: list[Member], partitions: int, timeout_s: float = 20) -> None:
    """Returns when every member owns something, every partition has one owner, and it stays so."""
    stable_since = [0.0, 0.0]

    def shared() -> bool:
        owned = [partition for member in members for partition in member.partitions]
        count = sum(member.rebalances for member in members)
        if sorted(owned) != list(range(partitions)) or not all(member.partitions for member in members):
            return False
        if stable_since[0] != count:
            stable_since[:] = [count, time.monotonic()]
        return time.monotonic() - stable_since[1] > 2 * HEARTBEAT_MS / 1000

    try:
        wait_until(shared, "every partition has one owner", timeout_s)
    except AssertionError as error:
        raise AssertionError(f"{error}: {', '.join(map(str, members))}") from None
