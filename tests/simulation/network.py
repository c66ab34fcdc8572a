"""The network: delivers requests and answers, each after a delay, or never."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.audit import SETTLING_SECONDS, Audit
from tests.simulation.clock import SimulatedTime
from tests.simulation.disk import SimulatedDisk
from tests.simulation.journal import Journal
from tests.simulation.plan import Plan
from tests.simulation.requests import OnResult, Request, Violation

from headgate.core.classic.commands import JoinGroup, SyncGroup
from headgate.core.offsets.commands import CommitOffsets, OffsetColumns
from headgate.domain.partitioning import partition_for

if TYPE_CHECKING:
    from tests.simulation.life import Life

QUICK_SECONDS = 5.0
"""Maximum time of an answer that depends only on the disk, while the disk works."""


class SimulatedNetwork:
    """Connects all clients to the current life of the server; a `tests.simulation.clients.Network`."""

    def __init__(
        self,
        plan: Plan,
        random: Random,
        time: SimulatedTime,
        disk: SimulatedDisk,
        journal: Journal,
    ) -> None:
        self.random = random
        self.pace_seconds = plan.pace_seconds
        self.partition_count = plan.partition_count
        self.requests = 0
        """Number of requests that arrived."""
        self.most_requests = 0
        """The life ends with the next request."""
        self._plan = plan
        self._time = time
        self._disk = disk
        self._journal = journal
        self._numbers = 0
        self._outstanding: dict[int, Request] = {}
        self._life: Life | None = None
        self._audit: Audit | None = None

    def connect(self, life: Life, audit: Audit) -> None:
        """Connect to a life of the server; answers of the previous one are lost."""
        self._life, self._audit = life, audit
        self._outstanding.clear()

    def next_number(self) -> int:
        """Return a number that was not used before."""
        self._numbers += 1
        return self._numbers

    def later(self, delay_seconds: float, action: Callable[[], None]) -> None:
        """Run an action later, unless the server's machine is down by then."""
        assert self._life is not None
        self._life.later(delay_seconds, action)

    def send(self, group_id: str, command: Any, on_result: OnResult) -> None:
        """Send a client's request to the server."""
        self.later(self._latency(), lambda: self._arrive(group_id, command, on_result))

    def _latency(self) -> float:
        return self.random.random() ** 2 * self._plan.latency_seconds

    def _arrive(self, group_id: str, command: Any, on_result: OnResult) -> None:
        life, audit = self._life, self._audit
        assert life is not None and audit is not None
        if self.requests >= self.most_requests:
            life.end(self.random.choice(("power cuts", "kills") if self._plan.is_durable else ("kills",)))
            return
        request = self._request(group_id, command, on_result)
        audit.arrived(request)
        if isinstance(command, CommitOffsets) and _width_of(command) >= 30:
            self._journal.counts["wide commits"] += 1
        self._outstanding[request.number] = request
        is_inside = False

        def take(result: Any) -> None:
            self._answer(request, result, is_refused_at_the_door=not is_inside)

        # An answer before `submit` returns is a refusal without processing.
        life.submit(request, take)
        is_inside = True

    def _request(self, group_id: str, command: Any, on_result: OnResult) -> Request:
        self.requests += 1
        shard = partition_for(group_id, self._plan.shards)
        self._journal.trace(f"{self.requests} {group_id} {command!r}")
        time = self._time
        return Request(
            self.requests,
            group_id,
            shard,
            command,
            time.seconds,
            time.system_time(),
            on_result,
        )

    def _answer(self, request: Request, result: Any, *, is_refused_at_the_door: bool) -> None:
        life, audit = self._life, self._audit
        if life is None or audit is None or life.is_over or self._disk.is_off:
            return  # the machine is down
        self._journal.trace(f"{request.number} -> {result!r}")
        self._outstanding.pop(request.number, None)
        try:
            audit.judge(request, result, is_refused_at_the_door=is_refused_at_the_door)
        except Violation as violation:
            self._journal.report(str(violation))
            return
        self.later(self._latency(), lambda: request.on_result(result))

    def look_for_the_forgotten(self) -> None:
        """Check that no request waits forever while the disk works."""
        now = self._time.seconds
        parked_seconds = QUICK_SECONDS + 4 * self._plan.longest_session_seconds
        for request in self._outstanding.values():
            is_parked = isinstance(request.command, JoinGroup | SyncGroup)
            since = max(request.arrived_at, self._disk.refused_at + SETTLING_SECONDS)
            # Chains of timers take no longer in awake time than in steady time.
            waited = self._time.awake_seconds(since, now)
            if waited > (parked_seconds if is_parked else QUICK_SECONDS):
                self._journal.report(f"{request} was never answered")
                return
        self.later(1.0, self.look_for_the_forgotten)


def _width_of(command: CommitOffsets) -> int:
    """Return the number of partitions of a commit."""
    return sum(len(one.partitions if isinstance(one, OffsetColumns) else one) for _, one in command.topics)
