"""Paused partitions of a consumer group, as a client outside the group sees them (KIP-1249)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headgate.client.cluster import NO_OFFSET, Cluster
from headgate.client.connection import Connection
from headgate.client.errors import ClientError, RequestRefused, check, check_parts
from headgate.client.offsets import by_topic
from headgate.client.survey import Answers, Survey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicId, TopicName, TopicPartition, topic_id_text
from headgate.wire.extensions.list_paused_partitions import (
    ListPausedPartitionsRequest,
    ListPausedPartitionsResponse,
    ListPausedPartitionsResponsePartition,
)
from headgate.wire.extensions.pause_partitions import PausePartitionsRequest, PausePartitionsResponse
from headgate.wire.extensions.paused_topics import PartitionToChange, TopicToChange
from headgate.wire.extensions.resume_partitions import ResumePartitionsRequest, ResumePartitionsResponse

_NOT_PAUSED: Final = 0
_PAUSING: Final = 1


class PauseState(StrEnum):
    """How far a pause is."""

    PAUSING = "pausing"
    """A member still owns the partition: its offset cannot be set yet."""
    PAUSED = "paused"
    """Nobody owns the partition: its offset may be set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedPartition:
    """A paused partition of a group."""

    partition: TopicPartition
    topic_id: str
    """The id as Kafka's tools print it."""
    state: PauseState
    owner: str | None
    """The id of the member that has not released it; None if it is released."""
    since: Millis
    """System time of the pause, in ms; -1 if it is not known."""
    caller: str
    """Who paused it."""
    reason: str
    offset: int | None
    """What is committed; None: nothing."""

    @property
    def is_released(self) -> bool:
        """Whether nobody owns it."""
        return self.state is PauseState.PAUSED


def pause(
    cluster: Cluster, group_id: GroupId, partitions: Iterable[TopicPartition], reason: str, caller: str
) -> None:
    """Pause partitions; returns when that is durable, which is before they are released.

    Raises `RequestRefused` for the group (GROUP_ID_NOT_FOUND: it cannot be paused, and why), `PartlyRefused`
    for partitions that do not exist, the others being paused, and `VersionNotSupported`.
    """
    topics = _topics(partitions)
    message = PausePartitionsRequest(group_id=group_id, topics=topics, reason=reason, caller=caller)
    cluster.retrying(lambda: _check(group_id, cluster.coordinator(group_id).request(message)))


def resume(cluster: Cluster, group_id: GroupId, partitions: Iterable[TopicPartition]) -> None:
    """Resume partitions; one that is not paused is no error. Raises what `pause` raises."""
    message = ResumePartitionsRequest(group_id=group_id, topics=_topics(partitions))
    cluster.retrying(lambda: _check(group_id, cluster.coordinator(group_id).request(message)))


def resume_of_rewinds(
    cluster: Cluster, group_id: GroupId, partitions: Iterable[TopicPartition]
) -> set[TopicPartition]:
    """Resume what rewinds have paused. Return which of the partitions are not paused any more.

    One that does not exist any more is not paused. Raises what `resume` raises otherwise.
    """
    message = ResumePartitionsRequest(group_id=group_id, topics=_topics(partitions), only_of_rewinds=True)

    def attempt() -> set[TopicPartition]:
        response = cluster.coordinator(group_id).request(message)
        _check(group_id, response, but=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {
            TopicPartition(TopicName(topic.name), one.partition_index)
            for topic in response.responses
            for one in topic.partitions
            if one.state == _NOT_PAUSED
        }

    return cluster.retrying(attempt)


def list_paused(cluster: Cluster, group_id: GroupId) -> dict[TopicPartition, PausedPartition]:
    """Return what is paused in a group, in order.

    Raises `RequestRefused` for a group that cannot be paused (GROUP_ID_NOT_FOUND) and `VersionNotSupported`.
    """

    message = ListPausedPartitionsRequest(group_id=group_id)
    return cluster.retrying(lambda: _listed(group_id, cluster.coordinator(group_id).request(message)))


def list_on_nodes(
    survey: Survey, group_ids: Iterable[GroupId]
) -> Answers[GroupId, dict[TopicPartition, PausedPartition]]:
    """Return the same for many groups; nothing for those whose coordinator cannot pause partitions."""

    def ask(
        node: Connection, some: list[GroupId]
    ) -> Mapping[GroupId, dict[TopicPartition, PausedPartition] | ClientError]:
        if ListPausedPartitionsRequest.API_KEY not in node.versions:
            return {group_id: {} for group_id in some}
        responses = node.requests([ListPausedPartitionsRequest(group_id=group_id) for group_id in some])
        found: dict[GroupId, dict[TopicPartition, PausedPartition] | ClientError] = {}
        for group_id, response in zip(some, responses, strict=True):
            try:
                found[group_id] = _listed(group_id, response)
            except RequestRefused as refused:
                found[group_id] = refused
        return found

    return survey.of_groups(group_ids, ask)


def _listed(
    group_id: GroupId, response: ListPausedPartitionsResponse
) -> dict[TopicPartition, PausedPartition]:
    check(f"paused partitions of group {group_id}", response.error_code, response.error_message)
    found = {}
    for topic in response.topics:
        for one in topic.partitions:
            where = TopicPartition(TopicName(topic.name), one.partition_index)
            found[where] = _paused(where, TopicId(topic.topic_id), one)
    return dict(sorted(found.items()))


def knows_pauses(cluster: Cluster, group_id: GroupId) -> bool:
    """Return whether the group's coordinator can pause partitions."""
    return ListPausedPartitionsRequest.API_KEY in cluster.coordinator(group_id).versions


def _topics(partitions: Iterable[TopicPartition]) -> list[TopicToChange]:
    by_name: Mapping[TopicName, Mapping[int, bool]] = by_topic(dict.fromkeys(partitions, True))
    return [
        TopicToChange(name=name, partitions=[PartitionToChange(partition_index=index) for index in indexes])
        for name, indexes in by_name.items()
    ]


def _check(
    group_id: GroupId,
    response: PausePartitionsResponse | ResumePartitionsResponse,
    but: ErrorCode = ErrorCode.NONE,
) -> None:
    """Raise the errors of a response, `but` this one of a partition."""
    check(f"group {group_id}", response.error_code, response.error_message)
    codes = {
        TopicPartition(TopicName(topic.name), one.partition_index): one.error_code
        for topic in response.responses
        for one in topic.partitions
        if one.error_code != but
    }
    check_parts(codes, "partition")


def _paused(
    where: TopicPartition, topic_id: TopicId, one: ListPausedPartitionsResponsePartition
) -> PausedPartition:
    return PausedPartition(
        partition=where,
        topic_id=topic_id_text(topic_id),
        state=PauseState.PAUSING if one.state == _PAUSING else PauseState.PAUSED,
        owner=one.owner,
        since=Millis(one.since_ms),
        caller=one.caller,
        reason=one.reason,
        offset=None if one.offset == NO_OFFSET else one.offset,
    )
