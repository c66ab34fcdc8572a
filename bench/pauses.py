"""Measures of paused partitions (KIP-1249), which only Headgate has.

The members are of this process, all on one connection, and answer at once: they are asked for heartbeats in a
closed loop, and revoke what is no longer assigned. Meanwhile a process of its own (`python -m bench.pauses`)
sends small requests one after another; its longest wait is the longest stall of the broker's loop, plus the
time for which the machine kept one of the two waiting.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from select import select
from struct import unpack
from typing import ClassVar

from bench.figures import Effort, Figure, Measured, MeasureFailed
from bench.peers import Durability, Peer, create_topic
from headgate.client.cluster import Cluster
from headgate.client.connection import Connection
from headgate.client.errors import ClientError
from headgate.client.membership import MemberSettings, MemberState, new_member_id
from headgate.client.pauses import pause
from headgate.domain.ids import GroupId, TopicName, TopicPartition
from headgate.wire.framing import request_frame
from headgate.wire.messages.api_versions import ApiVersionsRequest

BOTH = (Durability.PAGE_CACHE, Durability.DURABLE)
READ = (Durability.PAGE_CACHE,)
TIMEOUT_S = 60.0
BURST = 500
"""Heartbeats sent at once."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of the consumer protocol that read one topic, and how much of it each pauses."""

    count: int
    members: int
    partitions: int
    paused: int


WIDE = Groups(count=1, members=10, partitions=10_000, paused=10_000)
MANY = Groups(count=1_000, members=1, partitions=4, paused=1)


_CREATED: set[tuple[str, str]] = set()
"""Brokers whose topics exist."""


class Members:
    """The settled members of some groups, on one connection."""

    def __init__(self, bootstrap: str, groups: Groups, prefix: str) -> None:
        self._groups = groups
        self._cluster = Cluster(bootstrap, TIMEOUT_S)
        self._topic = TopicName(f"paused-{groups.partitions}")
        if (bootstrap, self._topic) not in _CREATED:
            create_topic(bootstrap, self._topic, groups.partitions)
            _CREATED.add((bootstrap, self._topic))
        self.group_ids = [GroupId(f"{prefix}-{number}") for number in range(groups.count)]
        self.states = [
            MemberState(MemberSettings(group_id=group_id, topics=(self._topic,)), new_member_id())
            for group_id in self.group_ids
            for _ in range(groups.members)
        ]
        self._connection: Connection = self._cluster.coordinator(self.group_ids[0])
        self.beat_until(groups.partitions)

    def close(self) -> None:
        """Leave the groups."""
        for state in self.states:
            self._connection.request(state.leaving())
        self._cluster.close()

    def beat_until(self, owned: int) -> None:
        """Send heartbeats until the members of each group own so many partitions. Raises MeasureFailed."""
        deadline = time.monotonic() + TIMEOUT_S
        waiting: Sequence[MemberState] = self.states
        while waiting:
            if time.monotonic() > deadline:
                raise MeasureFailed(f"{len(waiting)} members are not settled after {TIMEOUT_S:g} s")
            for state in waiting:
                self._beat(state)
            waiting = self._unsettled(owned)

    def _beat(self, state: MemberState) -> None:
        message = state.heartbeat()
        state.take(message, self._connection.request(message))
        state.release(state.owned)

    def _unsettled(self, owned: int) -> list[MemberState]:
        totals: dict[GroupId, int] = {}
        for state in self.states:
            group_id = state.settings.group_id
            totals[group_id] = totals.get(group_id, 0) + len(state.owned)
        return [state for state in self.states if state.has_news or totals[state.settings.group_id] != owned]

    def pause(self) -> None:
        """Pause partitions of each group."""
        partitions = [TopicPartition(self._topic, one) for one in range(self._groups.paused)]
        for group_id in self.group_ids:
            pause(self._cluster, group_id, partitions, "bench", "bench")

    def heartbeats_per_s(self, seconds: float) -> float:
        """Send heartbeats for so long, many at once."""
        version = self._connection.version_for(type(self.states[0].heartbeat()))
        frames = [request_frame(one.heartbeat(), version, 1, "bench") for one in self.states]
        bursts = [b"".join(frames[at : at + BURST]) for at in range(0, len(frames), BURST)]
        answered, began = 0, time.monotonic()
        with closing(_connect(self._connection.address)) as link:
            while time.monotonic() < began + seconds:
                for burst in bursts:
                    link.sendall(burst)
                    _read_responses(link, min(BURST, len(frames)))
                answered += len(frames)
        return answered / (time.monotonic() - began)


def _connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def _read_responses(link: socket.socket, wanted: int) -> None:
    """Read so many responses. Raises MeasureFailed."""
    received = bytearray()
    at = 0
    while wanted:
        data = link.recv(1 << 18)
        if not data:
            raise MeasureFailed("the broker closed the connection")
        received += data
        while wanted and len(received) >= at + 4:
            (size,) = unpack(">i", received[at : at + 4])
            if len(received) < at + 4 + size:
                break
            at += 4 + size
            wanted -= 1


@contextmanager
def longest_wait(bootstrap: str) -> Iterator[Callable[[], float]]:
    """Measure during the block; the function, called once, ends the measurement and returns milliseconds."""
    command = [sys.executable, "-m", "bench.pauses", bootstrap]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()

        def ended() -> float:
            return float(process.communicate("\n", TIMEOUT_S)[0])

        try:
            yield ended
        finally:
            process.kill()


class PauseMeasured(Measured):
    """The common part of the measures of pauses."""

    __slots__ = ()

    def fits(self, peer: Peer, durability: Durability) -> bool:
        """Return whether the peer supports the measure at that durability."""
        return peer.name == "headgate" and durability in peer.bootstraps


_PREFIXES = (f"pauses-{number:03}" for number in count())


@contextmanager
def _members(peer: Peer, durability: Durability, groups: Groups) -> Iterator[Members]:
    try:
        with closing(Members(peer.bootstrap(durability), groups, next(_PREFIXES))) as members:
            yield members
    except ClientError as error:
        raise MeasureFailed(str(error)) from error


@dataclass(frozen=True, slots=True)
class ReleaseMeasure(PauseMeasured):
    """Time from the first request to pause until all members have released the partitions.

    The processor time is per partition. With `is_stall` the value is the longest stall meanwhile, in ms.
    """

    name: str
    title: str
    groups: Groups
    is_stall: bool = False
    durabilities: tuple[Durability, ...] = BOTH
    is_cost: ClassVar[bool] = True

    @property
    def unit(self) -> str:
        """Return the unit."""
        return "ms" if self.is_stall else "s"

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once, with new groups. Raises MeasureFailed."""
        groups = self.groups
        with _members(peer, durability, groups) as members:
            if self.is_stall:
                with longest_wait(peer.bootstrap(durability)) as ended:
                    self._release(members)
                    return Figure(ended())
            before_s, began = peer.processor_s(durability), time.monotonic()
            self._release(members)
            seconds, used_s = time.monotonic() - began, peer.processor_s(durability) - before_s
        return Figure(seconds, used_s / (groups.count * groups.paused) * 1e6)

    def _release(self, members: Members) -> None:
        members.pause()
        members.beat_until(self.groups.partitions - self.groups.paused)


@dataclass(frozen=True, slots=True)
class PausedHeartbeatMeasure(PauseMeasured):
    """Heartbeats of settled members that Headgate answers per second, with or without paused partitions."""

    name: str
    title: str
    is_paused: bool
    durabilities: tuple[Durability, ...] = READ
    unit: str = "requests/s"

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once, with new groups. Raises MeasureFailed."""
        with _members(peer, durability, MANY) as members:
            if self.is_paused:
                members.pause()
                members.beat_until(MANY.partitions - MANY.paused)
            members.heartbeats_per_s(effort.warm_up_seconds)
            before_s, began = peer.processor_s(durability), time.monotonic()
            value = members.heartbeats_per_s(effort.seconds)
            share = (peer.processor_s(durability) - before_s) / (time.monotonic() - began)
        return Figure(value, share / value * 1e6)


PauseMeasure = ReleaseMeasure | PausedHeartbeatMeasure

PAUSE_MEASURES: tuple[PauseMeasure, ...] = (
    ReleaseMeasure("pause-wide", "pause of 10,000 partitions of 10 members: request to release", WIDE),
    ReleaseMeasure("pause-wide-stall", "longest stall meanwhile", WIDE, is_stall=True),
    ReleaseMeasure("pause-many", "pause of a partition of each of 1,000 groups, one after another", MANY),
    ReleaseMeasure("pause-many-stall", "longest stall meanwhile", MANY, is_stall=True),
    PausedHeartbeatMeasure("heartbeat-unpaused", "heartbeats of 1,000 groups, nothing paused", False),
    PausedHeartbeatMeasure(
        "heartbeat-paused", "heartbeats of 1,000 groups, a partition of each paused", True
    ),
)


def probe(bootstrap: str) -> None:
    """Print a line, then send requests until a line comes in; print the longest wait in ms."""
    frame = request_frame(ApiVersionsRequest(), 0, 1, None)
    longest_s = 0.0
    with closing(_connect(bootstrap)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print("probing", flush=True)
        while not select([sys.stdin], [], [], 0.0005)[0]:
            began = time.perf_counter()
            link.sendall(frame)
            _read_responses(link, 1)
            longest_s = max(longest_s, time.perf_counter() - began)
    print(1000 * longest_s)


if __name__ == "__main__":
    probe(sys.argv[1])
