"""Membership of a consumer group (KIP-848): heartbeats, assignment, revocation and commits of one member.

`MemberState` is the protocol without input and output: it creates the next heartbeat and takes its response.
`Membership` sends the heartbeats from a thread of its own, so that a caller that works for minutes keeps its
partitions.

A partition passes through three sets. The coordinator assigns it (`assigned`); the member owns it at once
(`owned`); when the coordinator no longer assigns it, the member still owns it until the caller calls
`release`, so that the caller can commit first. The coordinator gives the partition to another member only
after the next heartbeat has reported the release.
"""

from __future__ import annotations

import base64
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from headgate.client.cluster import RETRY_DELAY_S, Cluster, is_passing
from headgate.client.errors import ClientError, ConnectionFailed, RequestTimedOut, check
from headgate.client.offsets import CommittedOffset, Committer, commit_offsets
from headgate.client.security import NOT_SECURED, Security
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicId, TopicName, TopicPartition
from headgate.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_FOR_NOW_EPOCH: Final = -2
"""Sent by a static member that leaves temporarily: it keeps its partitions until its session times out."""

_ABSENT = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})
"""The coordinator does not have the member any more, or not even its group."""

Partitions = frozenset[tuple[TopicId, int]]
NO_PARTITIONS: Final[Partitions] = frozenset()


def new_member_id() -> MemberId:
    """Return a random member id of 22 characters, in the format of Kafka's clients."""
    return MemberId(base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """What a member sends to the coordinator when it joins. Either `topics` or `topic_regex` is given."""

    group_id: GroupId
    topics: tuple[TopicName, ...] = ()
    topic_regex: str | None = None
    instance_id: InstanceId | None = None
    """Makes the member static: after a restart it gets the same partitions."""
    rebalance_timeout_ms: int = 300_000
    """How long the coordinator waits for `release` before it fences the member."""


class MemberState:
    """One member as the protocol sees it. `lost` counts how often the coordinator fenced it."""

    def __init__(self, settings: MemberSettings, member_id: MemberId) -> None:
        self.settings = settings
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.assigned = NO_PARTITIONS
        self.owned = NO_PARTITIONS
        self.lost = 0
        self._reported: Partitions | None = None
        """The owned partitions that the coordinator knows; None: the next heartbeat reports everything."""

    @property
    def has_failed(self) -> bool:
        """Whether the last heartbeat got no response or fenced the member."""
        return self._reported is None

    @property
    def has_news(self) -> bool:
        """Whether the next heartbeat must be sent now, because the owned partitions changed."""
        return self._reported != self.owned

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """Return the next heartbeat. It has the subscription and owned partitions only if they changed."""
        message = ConsumerGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.settings.instance_id,
            topic_partitions=None,
        )
        if self.epoch == JOIN_EPOCH or self._reported is None:
            message.rebalance_timeout_ms = self.settings.rebalance_timeout_ms
            message.subscribed_topic_names = list(self.settings.topics)
            message.subscribed_topic_regex = self.settings.topic_regex
        if self.has_news:
            message.topic_partitions = _on_wire(self.owned)
        return message

    def leaving(self, *, finally_: bool = False) -> ConsumerGroupHeartbeatRequest:
        """Return the heartbeat with which the member leaves: temporarily if it is static, else finally."""
        instance_id = self.settings.instance_id
        epoch = LEAVE_EPOCH if finally_ or instance_id is None else LEAVE_FOR_NOW_EPOCH
        return _leave_message(self.settings.group_id, self.member_id, instance_id, epoch)

    def take(self, sent: ConsumerGroupHeartbeatRequest, answer: ConsumerGroupHeartbeatResponse) -> None:
        """Take the response to `sent`. Raises `RequestRefused` for errors that rejoining does not resolve."""
        if answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH:
            self._lose()
            return
        # The answer to a member that joins is GROUP_ID_NOT_FOUND if the group is of another kind.
        if answer.error_code in _ABSENT and sent.member_epoch != JOIN_EPOCH:
            self._lose()
            # The epochs of a new group begin anew: a commit under an old one must find no such member.
            self.member_id = new_member_id()
            return
        check(f"group {self.settings.group_id}", answer.error_code, answer.error_message)
        self.epoch = answer.member_epoch
        if sent.topic_partitions is not None:
            self._reported = _from_wire(sent.topic_partitions)
        if answer.assignment is not None:
            self.assigned = _from_wire(answer.assignment.topic_partitions)
            self.owned |= self.assigned

    def answer_lost(self) -> None:
        """Record that the last heartbeat got no response: the next one reports everything."""
        self._reported = None

    def release(self, partitions: Partitions) -> None:
        """Release those of the partitions that are no longer assigned. The others are kept."""
        self.owned -= partitions - self.assigned

    def _lose(self) -> None:
        """Drop all partitions, because the member was fenced, and join again with the next heartbeat."""
        self.epoch = JOIN_EPOCH
        self.assigned = self.owned = NO_PARTITIONS
        self._reported = None
        self.lost += 1


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member at one moment."""

    member_id: MemberId
    epoch: int
    assigned: frozenset[TopicPartition]
    revoked: frozenset[TopicPartition]
    """Owned partitions that are no longer assigned. Release them after a last commit."""
    lost: int
    """How often the coordinator fenced the member. Then its partitions were lost without a release."""
    topic_ids: Mapping[TopicName, TopicId]
    """The ids of the topics of the assigned partitions."""


class Membership:
    """A member of a consumer group. Call `join` and `leave`, or use it in a `with` block.

    `timeout_s` limits each request. With `waits_for_nodes` a commit waits this long for a reachable node.
    Call the methods from one thread. Heartbeats are sent from another one.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        settings: MemberSettings,
        *,
        member_id: MemberId | None = None,
        timeout_s: float = 10.0,
        client_id: str = "headgate",
        waits_for_nodes: bool = False,
        security: Security = NOT_SECURED,
    ) -> None:
        self.settings = settings
        self._state = MemberState(settings, member_id or new_member_id())
        self._names: dict[TopicId, TopicName] = {}
        self._heartbeats = Cluster(bootstrap_servers, timeout_s, client_id, security=security)
        self._commits = Cluster(
            bootstrap_servers, timeout_s, client_id, waits_for_nodes=waits_for_nodes, security=security
        )
        self._interval_s = 0.0
        self._releases_at_once = False
        self._is_hurried = False
        """Whether the next heartbeat is sent before its time."""
        self._changed = threading.Condition()
        """Guards the state; notified at each change of it and when the member leaves."""
        self._error: ClientError | None = None
        self._is_leaving = False
        self._thread: threading.Thread | None = None

    @property
    def member_id(self) -> MemberId:
        """The member id. It changes if the coordinator does not have the member any more."""
        return self._state.member_id

    def join(self) -> None:
        """Join the group and start the thread that sends heartbeats.

        Raises the errors of `headgate.client.errors`; `RequestRefused` with UNRELEASED_INSTANCE_ID if
        another member uses the instance id. The assignment can arrive later: see `wait_for_assignment`.
        """
        try:
            self._heartbeats.retrying(self._beat)
        except BaseException as failure:
            if isinstance(failure, RequestTimedOut):  # the coordinator may have let it in
                self._send_leave(self._state.leaving())
            self._close()
            raise
        self._thread = threading.Thread(target=self._keep_alive, name="headgate-member", daemon=True)
        self._thread.start()

    def view(self) -> MemberView:
        """Return the member's current epoch and partitions. Raises the error that ended the membership."""
        with self._changed:
            self._check()
            state = self._state
            return MemberView(
                state.member_id,
                state.epoch,
                self._named(state.assigned),
                self._named(state.owned - state.assigned),
                state.lost,
                {
                    self._names[topic_id]: topic_id
                    for topic_id, _ in state.assigned
                    if topic_id in self._names
                },
            )

    def wait_for_assignment(self, timeout_s: float) -> MemberView:
        """Wait until partitions are assigned and return them. Raises `RequestTimedOut`."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not self._state.assigned:
                self._check()
                left = deadline - time.monotonic()
                if left <= 0:
                    group_id = self.settings.group_id
                    raise RequestTimedOut(f"group {group_id} assigned no partition within {timeout_s:g} s")
                self._changed.wait(left)
            return self.view()

    def hurry(self) -> None:
        """Send the next heartbeat now, for a caller that waits for partitions.

        A coordinator may assign them later than it answers the join, and tells it with the next heartbeat.
        """
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Release revoked partitions. The next heartbeat is sent immediately, so that others can get them."""
        with self._changed:
            released = frozenset(partitions)
            owned = self._state.owned
            self._state.release(frozenset(each for each in owned if self._named({each}) & released))
            self._changed.notify_all()

    def release_at_once(self, is_wanted: bool) -> None:
        """Choose whether revoked partitions are released by heartbeats, without a call of `release`."""
        with self._changed:
            self._releases_at_once = is_wanted
            self._release_revoked()

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        view: MemberView | None = None,
        topic_ids: Mapping[TopicName, TopicId] | None = None,
    ) -> None:
        """Commit offsets of partitions that the member owns, under its current epoch or that of a view.

        With `topic_ids` of all topics, offsets of a deleted topic are refused (UNKNOWN_TOPIC_ID), even if
        another topic has its name.

        Raises `PartlyRefused` or `RequestRefused`. STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID and
        GROUP_ID_NOT_FOUND mean that the partitions were taken from the member since that epoch.
        """
        with self._changed:
            self._check()
            at = self._state if view is None else view
            committer = Committer(at.member_id, at.epoch, self.settings.instance_id)
        group_id = self.settings.group_id
        commit_offsets(self._commits, group_id, offsets, topic_ids=topic_ids, committer=committer)

    def leave(self, *, finally_: bool = False) -> None:
        """Leave the group and end the thread. A second call does nothing.

        A static member leaves temporarily: it keeps its partitions until its session times out. With
        `finally_` it leaves like other members: the group can be empty at once. If the coordinator cannot be
        reached, it removes the member when the session times out.
        """
        with self._changed:
            self._is_leaving = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._send_leave(self._state.leaving(finally_=finally_))
        self._close()

    def __enter__(self) -> Self:
        self.join()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    # --- in the thread of heartbeats ---

    def _keep_alive(self) -> None:
        try:
            while self._wait():
                self._try_beat()
                if self._state.has_failed:
                    self._pause()
        except ClientError as error:
            self._end(error)
        except Exception as fault:  # the caller must not go on with partitions that others will have
            ended = ClientError(f"group {self.settings.group_id}: heartbeats ended: {fault!r}")
            ended.__cause__ = fault
            self._end(ended)

    def _try_beat(self) -> None:
        """Send a heartbeat. Raises the errors after which the membership ends."""
        try:
            self._beat()
        except ClientError as error:
            if not is_passing(error) and not isinstance(error, (ConnectionFailed, RequestTimedOut)):
                raise
            self._heartbeats.forget()
            with self._changed:
                self._state.answer_lost()

    def _pause(self) -> None:
        """Wait before sending a heartbeat again after it failed or was refused."""
        with self._changed:
            if not self._is_leaving:
                self._changed.wait(RETRY_DELAY_S)

    def _wait(self) -> bool:
        """Sleep until the next heartbeat is due. Return False if the member leaves instead."""
        deadline = time.monotonic() + self._interval_s
        with self._changed:
            while not self._is_leaving and not self._state.has_news and not self._is_hurried:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            self._is_hurried = False
            return not self._is_leaving

    def _beat(self) -> None:
        with self._changed:
            message = self._state.heartbeat()
        answer = self._heartbeats.coordinator(self.settings.group_id).request(message)
        assigned = () if answer.assignment is None else _from_wire(answer.assignment.topic_partitions)
        self._learn_names({topic_id for topic_id, _ in (*assigned, *self._state.owned)})
        with self._changed:
            self._state.take(message, answer)
            self._release_revoked()
            self._interval_s = max(0.01, answer.heartbeat_interval_ms / 1000)
            self._changed.notify_all()

    def _release_revoked(self) -> None:
        owned = self._state.owned
        if not self._releases_at_once:
            # Only of topics that were deleted before their names were learned: no caller sees these.
            owned = frozenset(each for each in owned if each[0] not in self._names)
        self._state.release(owned)

    def _learn_names(self, topic_ids: set[TopicId]) -> None:
        unknown = topic_ids - self._names.keys()
        if unknown:
            found = self._heartbeats.topic_names(unknown)
            with self._changed:
                self._names.update(found)

    def _end(self, error: ClientError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    # --- in the caller's thread ---

    def _close(self) -> None:
        self._heartbeats.close()
        self._commits.close()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _named(self, partitions: Iterable[tuple[TopicId, int]]) -> frozenset[TopicPartition]:
        """Return partitions by topic name. Partitions of deleted topics are omitted."""
        return frozenset(
            TopicPartition(self._names[topic_id], index)
            for topic_id, index in partitions
            if topic_id in self._names
        )

    def _send_leave(self, message: ConsumerGroupHeartbeatRequest) -> None:
        if self._error is not None:
            return
        try:
            node = self._heartbeats.coordinator(self.settings.group_id)
            check("leaving", node.request(message).error_code)
        except ClientError:
            return


def remove_member(
    cluster: Cluster, group_id: GroupId, member_id: MemberId, instance_id: InstanceId | None
) -> None:
    """Remove a member from a group, as if it left: for a member whose process is known to have ended.

    Raises `RequestRefused`; not if the member is no longer there.
    """
    answer = cluster.ask_coordinator(group_id, _leave_message(group_id, member_id, instance_id, LEAVE_EPOCH))
    if answer.error_code not in (*_ABSENT, ErrorCode.FENCED_INSTANCE_ID):
        check(f"removal of member {member_id} of group {group_id}", answer.error_code, answer.error_message)


def _leave_message(
    group_id: GroupId, member_id: MemberId, instance_id: InstanceId | None, epoch: int
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=instance_id,
        topic_partitions=None,
    )


def _on_wire(partitions: Partitions) -> list[TopicPartitions]:
    topics: dict[TopicId, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return [TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in topics.items()]


def _from_wire(topics: Iterable[TopicPartitions]) -> Partitions:
    return frozenset((TopicId(topic.topic_id), index) for topic in topics for index in topic.partitions)
