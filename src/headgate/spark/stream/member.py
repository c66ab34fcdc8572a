"""The membership of a stream in its group.

The stream is one static member whose instance id is in the checkpoint, through the stream id in its offsets.
So a stream that is started again knows the member that a killed predecessor left behind, and takes its place
without waiting for the end of its session. The stream waits until any other member has left: two readers
would share the partitions. Spark does not wait for the reader of a query that it stops, so a member may be
about to leave. A member that left temporarily does not count; it is removed.

When the stream stops, it leaves finally: the group is empty at once, and every tool can set its offsets.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterable
from types import FrameType
from typing import NamedTuple

from headgate.client.cluster import Cluster
from headgate.client.errors import RequestRefused, RequestTimedOut
from headgate.client.groups import MemberDescription, describe_groups
from headgate.client.membership import MemberSettings, Membership, remove_member
from headgate.client.pauses import knows_pauses, list_paused
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicId, TopicName, TopicPartition
from headgate.domain.wording import counted
from headgate.spark.stream.options import StreamOptions

CLIENT_ID = "headgate-spark-stream"
_WAIT_S = 0.05
_HURRY_S = 0.25
"""The time between heartbeats while partitions are missing; coordinators ask for one in some seconds only."""
_SILENT_WAIT_S = 1.0
"""How long the stream waits for others to leave before it says so."""
_ALONE = "a stream must be alone in its group. Stop that member, or give the stream a group.id of its own"


class GroupInUse(RuntimeError):
    """The group has another member that does not leave."""


def new_stream_id() -> str:
    """Return a random id for a new checkpoint."""
    return uuid.uuid4().hex[:16]


def join(options: StreamOptions, stream_id: str, cluster: Cluster) -> Membership:
    """Join the group, in the place of a predecessor with the same checkpoint, when all others have left.

    Raises `GroupInUse` if another member does not leave within the timeout, and the errors of
    `headgate.client.errors`.
    """
    instance_id = InstanceId(f"{CLIENT_ID}-{stream_id}")
    _make_room(cluster, options.group_id, instance_id, options.read.timeout_s)
    settings = MemberSettings(
        group_id=options.group_id,
        topics=options.topics,
        topic_regex=options.pattern,
        instance_id=instance_id,
    )
    member = Membership(
        options.servers,
        settings,
        timeout_s=options.read.timeout_s,
        client_id=CLIENT_ID,
        waits_for_nodes=True,
        security=options.read.security,
    )
    member.join()
    return member


def _make_room(cluster: Cluster, group_id: GroupId, instance_id: InstanceId, timeout_s: float) -> None:
    """Wait for other members to leave, then remove the predecessor and members that left temporarily."""
    began = time.monotonic()
    is_told = False
    while True:
        members = _members(cluster, group_id)
        others = _others(members, instance_id)
        if not others:
            break
        waited_s = time.monotonic() - began
        problem = f"group {group_id} has another member, {_named(others[0])}"
        if waited_s > timeout_s:
            raise GroupInUse(
                f"{problem}, which did not leave within {timeout_s:g} s: {_ALONE}. A process that was "
                "killed stays a member until its session times out"
            )
        if waited_s > _SILENT_WAIT_S and not is_told:
            is_told = True
            print(f"headgate: {problem}; waiting until it has left, up to {timeout_s:g} s", file=sys.stderr)
        time.sleep(_WAIT_S)
    for member in members:
        remove_member(
            cluster,
            group_id,
            MemberId(member.member_id),
            None if member.instance_id is None else InstanceId(member.instance_id),
        )


def _members(cluster: Cluster, group_id: GroupId) -> tuple[MemberDescription, ...]:
    group = describe_groups(cluster, [group_id])[group_id]
    return () if group is None else group.members


def _others(members: Iterable[MemberDescription], instance_id: InstanceId | None) -> list[MemberDescription]:
    """Return the members that take part, other than the stream."""
    return [each for each in members if each.instance_id != instance_id and not each.is_away]


def _named(member: MemberDescription) -> str:
    name = member.member_id if member.instance_id is None else f"{member.instance_id} ({member.member_id})"
    return f"{name} of client {member.client_id} at {member.host}"


def wait_until_assigned(
    member: Membership, cluster: Cluster, wanted: frozenset[TopicPartition], timeout_s: float
) -> None:
    """Wait until every partition is assigned to the member or paused.

    Raises `GroupInUse` if another member has joined, and `RequestTimedOut`.
    """
    began = time.monotonic()
    deadline, hurried_at = began + timeout_s, began
    group_id = member.settings.group_id
    while missing := wanted - member.view().assigned:
        missing -= paused(cluster, group_id)
        if not missing:
            return
        if time.monotonic() - hurried_at > _HURRY_S:
            hurried_at = time.monotonic()
            member.hurry()
        if time.monotonic() > deadline:
            problem = (
                f"group {group_id} did not assign {len(missing)} of {counted(len(wanted), 'partition')} to "
                f"the stream within {timeout_s:g} s, among them {min(missing)}"
            )
            if others := _others(_members(cluster, group_id), member.settings.instance_id):
                raise GroupInUse(f"{problem}: the group has another member, {_named(others[0])}; {_ALONE}")
            raise RequestTimedOut(problem)
        time.sleep(_WAIT_S)


def paused(cluster: Cluster, group_id: GroupId) -> frozenset[TopicPartition]:
    """Return the paused partitions of the group; none if the cluster cannot pause."""
    if not knows_pauses(cluster, group_id):
        return frozenset()
    try:
        return frozenset(list_paused(cluster, group_id))
    except RequestRefused as refusal:
        if refusal.error is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return frozenset()


class Topic(NamedTuple):
    """A topic as it is now."""

    topic_id: TopicId
    partitions: list[int]


def subscribed_topics(cluster: Cluster, options: StreamOptions) -> dict[TopicName, Topic]:
    """Return the subscribed topics that exist, by name or pattern; their leaders are known afterwards."""
    if options.pattern is None:
        return topics_that_exist(cluster, options.topics)
    existing = topics_that_exist(cluster, None)
    return {name: existing[name] for name in options.read.topics.among(existing)}


def topics_that_exist(cluster: Cluster, topics: tuple[TopicName, ...] | None) -> dict[TopicName, Topic]:
    """Return those of the topics (None: of all) that exist; their leaders are known afterwards."""
    response = cluster.metadata(topics)
    cluster.learn_leaders(response)
    return {
        TopicName(str(topic.name)): Topic(
            TopicId(topic.topic_id), sorted(each.partition_index for each in topic.partitions)
        )
        for topic in response.topics
        if topic.error_code == ErrorCode.NONE
    }


def stop_on_sigterm() -> None:
    """Let a SIGTERM unwind the process's stack: Spark ends the reader's process with it, without a `stop`.

    Spark may send it twice, when a query is stopped in a call of the reader: the second one must not end the
    first one's leaving of the group.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)
