"""Fetching, committing and deleting a group's committed offsets.

A commit can be conditional: it succeeds only if the committed offsets equal the expected ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from headgate.client.cluster import NO_OFFSET, Cluster
from headgate.client.connection import Connection
from headgate.client.errors import (
    BadResponse,
    ClientError,
    ConnectionFailed,
    OffsetsMoved,
    OutcomeUnknown,
    RequestRefused,
    RequestTimedOut,
    VersionNotSupported,
    check,
    check_parts,
)
from headgate.client.survey import Answers, Survey
from headgate.domain.errors import ErrorCode
from headgate.domain.features import CONDITIONAL_COMMIT
from headgate.domain.ids import ZERO_TOPIC_ID, GroupId, Millis, TopicId, TopicName, TopicPartition
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headgate.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from headgate.wire.wide import WideStructs

LAST_BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch that identifies topics by name."""
_GROUPS_SINCE = 8
_ALL_SINCE = 2
NO_LEADER_EPOCH = -1
_NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED
_SURELY_NOT_DONE = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
"""Retriable errors after which the commit was certainly not executed; after others it may have been."""

PartitionT = TypeVar("PartitionT")


class CommittedOffset(NamedTuple):
    """A committed offset: the offset of the next record to consume, its leader epoch and metadata."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


class Committer(NamedTuple):
    """The member that commits, and its member epoch or generation."""

    member_id: str
    epoch: int
    instance_id: str | None = None


NO_MEMBER = Committer("", -1)
"""The committer for a group without members."""

Offsets = Mapping[TopicPartition, int | CommittedOffset | None]
"""Offsets to commit. An integer has no leader epoch and no metadata.

None removes the committed offset; only conditional commits can do that.
"""

Expected = Mapping[TopicPartition, int | None]
"""Expected committed offsets; None: no committed offset."""


def fetch_offsets(
    cluster: Cluster, group_id: GroupId, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """Fetch the committed offsets of a group, sorted, of some partitions or (None) of all.

    Partitions without a committed offset are omitted. A group that does not exist has none.
    """
    asked = None if partitions is None else by_topic(dict.fromkeys(partitions, True))
    if asked is None:
        one, several = None, None
    else:
        one = [
            OffsetFetchRequestTopic(name=name, partition_indexes=list(each)) for name, each in asked.items()
        ]
        several = [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(each)) for name, each in asked.items()
        ]
    message = OffsetFetchRequest(
        group_id=group_id, topics=one, groups=[OffsetFetchRequestGroup(group_id=group_id, topics=several)]
    )

    def attempt() -> dict[TopicPartition, CommittedOffset]:
        node = cluster.coordinator(group_id)
        version = node.version_for(OffsetFetchRequest, at_most=LAST_BY_NAME)
        if asked is None:
            _check_fetches_all(node, version)
        response = node.request(message, version)
        if version < _GROUPS_SINCE:
            return _fetched(group_id, response)
        (group,) = response.groups
        return _fetched(group_id, group)

    return cluster.retrying(attempt)


def fetch_all_offsets(
    survey: Survey, group_ids: Iterable[GroupId]
) -> Answers[GroupId, dict[TopicPartition, CommittedOffset]]:
    """Fetch all committed offsets of groups; an error for a group whose coordinator does not answer."""
    return survey.of_groups(group_ids, _fetch_of_groups, lambda offsets: 1 + _count(offsets))


def _count(offsets: dict[TopicPartition, CommittedOffset] | ClientError) -> int:
    return 0 if isinstance(offsets, ClientError) else len(offsets)


def _fetch_of_groups(
    node: Connection, group_ids: list[GroupId]
) -> dict[GroupId, dict[TopicPartition, CommittedOffset] | ClientError]:
    version = node.version_for(OffsetFetchRequest, at_most=LAST_BY_NAME)
    _check_fetches_all(node, version)
    if version < _GROUPS_SINCE:
        requests = [OffsetFetchRequest(group_id=group_id, topics=None) for group_id in group_ids]
        return {
            group_id: _fetched_or_refused(group_id, node.request(request, version))
            for group_id, request in zip(group_ids, requests, strict=True)
        }
    asked = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in group_ids]
    response = node.request(OffsetFetchRequest(groups=asked), version)
    return {
        GroupId(group.group_id): _fetched_or_refused(GroupId(group.group_id), group)
        for group in response.groups
    }


def _fetched_or_refused(
    group_id: GroupId, answer: OffsetFetchResponse | OffsetFetchResponseGroup
) -> dict[TopicPartition, CommittedOffset] | ClientError:
    try:
        return _fetched(group_id, answer)
    except RequestRefused as refused:
        return refused


def _check_fetches_all(node: Connection, version: int) -> None:
    if version < _ALL_SINCE:
        raise VersionNotSupported(f"{node.address} is too old to return all offsets of a group")


def _fetched(
    group_id: GroupId, answer: OffsetFetchResponse | OffsetFetchResponseGroup
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets of one group; an old node answers for a single one."""
    check(f"offsets of group {group_id}", answer.error_code)
    found = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            where = TopicPartition(TopicName(topic.name), partition.partition_index)
            check(f"offset of group {group_id} in {where}", partition.error_code)
            if partition.committed_offset != NO_OFFSET:
                found[where] = CommittedOffset(
                    partition.committed_offset, partition.committed_leader_epoch, partition.metadata or ""
                )
    return dict(sorted(found.items()))


def commit_offsets(
    cluster: Cluster,
    group_id: GroupId,
    offsets: Offsets,
    expected: Expected | None = None,
    topic_ids: Mapping[TopicName, TopicId] | None = None,
    committer: Committer = NO_MEMBER,
    *,
    undone_at: Millis | None = None,
) -> None:
    """Commit offsets of a group without members, or as the member `committer`.

    The first committed offset creates the group. Raises `PartlyRefused` for partitions that do not exist or
    whose metadata is too long, after committing the others. Raises it for all partitions if the group refuses
    the commit (UNKNOWN_MEMBER_ID: it has members).

    With `expected`, the commit is conditional: all offsets are committed if the current ones equal
    `expected`, otherwise none. An offset of None is then removed. Raises also `OffsetsMoved` if current
    offsets differ, `OutcomeUnknown` if the response is lost, and `VersionNotSupported` if the cluster has no
    conditional commits.

    `undone_at` records a conditional commit as the undo of the change at that time, in ms.

    With `topic_ids` of all topics, topics are identified by id. Partitions of deleted topics are then refused
    (UNKNOWN_TOPIC_ID), even if another topic has the name. A cluster that does not support ids gets names.
    """
    conditions = dict(expected or {})
    if strangers := conditions.keys() - offsets.keys():
        raise ValueError(f"expected has partitions that offsets does not have: {sorted(strangers)}")
    if not conditions and None in offsets.values():
        raise ValueError("a commit without conditions cannot remove offsets; use delete_offsets")
    on_wire = {where: NO_OFFSET if offset is None else offset for where, offset in conditions.items()}
    by_name = by_topic(offsets)
    ids = topic_ids if topic_ids is not None and topic_ids.keys() >= by_name.keys() else {}
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            topic_id=ids.get(name, ZERO_TOPIC_ID),
            partitions=[
                _to_commit(partition, wanted, on_wire.get(TopicPartition(name, partition)))
                for partition, wanted in each.items()
            ],
        )
        for name, each in by_name.items()
    ]
    message = OffsetCommitRequest(
        group_id=group_id,
        member_id=committer.member_id,
        generation_id_or_member_epoch=committer.epoch,
        group_instance_id=committer.instance_id,
        topics=topics,
        undone_ms=undone_at,
    )

    def attempt() -> None:
        check_parts(_codes(_commit(cluster.coordinator(group_id), message)), what)

    def attempt_if() -> None:
        response = _ask_once(cluster.coordinator(group_id), message)
        if moved := _moved(response):
            raise OffsetsMoved(group_id, moved, conditions)
        # The reasons come first, partitions that were only not attempted come last.
        check_parts(dict(sorted(_codes(response).items(), key=lambda each: each[1] == _NOT_ATTEMPTED)), what)

    what = f"offset of group {group_id} in"
    cluster.retrying(attempt_if if conditions else attempt)


def knows_conditions(node: Connection) -> bool:
    """Tell whether a node supports conditional commits. Other nodes would ignore the condition and commit."""
    return CONDITIONAL_COMMIT in node.features


def _commit(node: Connection, message: OffsetCommitRequest) -> OffsetCommitResponse:
    """Send a commit, with topic ids if the message has them. The topics of the response always have names."""
    names = {topic.topic_id: topic.name for topic in message.topics}
    response = node.request(message, at_most=LAST_BY_NAME if ZERO_TOPIC_ID in names else None)
    for topic in response.topics:
        if topic.topic_id != ZERO_TOPIC_ID:
            topic.name = names.get(topic.topic_id, topic.name)
    return response


def _ask_once(node: Connection, message: OffsetCommitRequest) -> OffsetCommitResponse:
    """Send a conditional commit once. Raises `OutcomeUnknown` if it may have been executed."""
    if not knows_conditions(node):
        raise VersionNotSupported(f"{node.address} does not support conditional commits")
    try:
        response = _commit(node, message)
    except (ConnectionFailed, RequestTimedOut, BadResponse) as error:
        raise OutcomeUnknown(f"{error}; it is unknown whether the offsets are committed") from error
    for code in set(_codes(response).values()):
        refused = RequestRefused(f"offsets of group {message.group_id}", code)
        if refused.is_retriable and code not in _SURELY_NOT_DONE:
            raise OutcomeUnknown(f"{refused}; it is unknown whether they are committed")
    return response


def _moved(response: OffsetCommitResponse) -> dict[TopicPartition, int | None]:
    return {
        TopicPartition(TopicName(topic.name), partition.partition_index): (
            None if partition.current_offset == NO_OFFSET else partition.current_offset
        )
        for topic in response.topics
        for partition in topic.partitions
        if partition.error_code == ErrorCode.INVALID_UPDATE_VERSION
    }


def _codes(response: OffsetCommitResponse | OffsetDeleteResponse) -> dict[TopicPartition, int]:
    codes: dict[TopicPartition, int] = {}
    for topic in response.topics:
        name, partitions = TopicName(topic.name), topic.partitions
        rows: Iterable[tuple[int, int]]
        if isinstance(partitions, WideStructs):
            columns = partitions.columns
            rows = zip(columns["partition_index"].tolist(), columns["error_code"].tolist(), strict=True)
        else:
            rows = ((each.partition_index, each.error_code) for each in partitions)
        codes.update({TopicPartition(name, index): code for index, code in rows})
    return codes


def _to_commit(
    partition: int, wanted: int | CommittedOffset | None, expected: int | None
) -> OffsetCommitRequestPartition:
    if wanted is None:
        wanted = NO_OFFSET
    offset, leader_epoch, metadata = CommittedOffset(wanted) if isinstance(wanted, int) else wanted
    return OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=leader_epoch,
        committed_metadata=metadata,
        expected_offset=expected,
    )


def delete_offsets(cluster: Cluster, group_id: GroupId, partitions: Iterable[TopicPartition]) -> None:
    """Delete committed offsets of topics that the group is not subscribed to.

    Raises `RequestRefused` for the group (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP), and `PartlyRefused` for
    partitions (UNKNOWN_TOPIC_OR_PARTITION, GROUP_SUBSCRIBED_TO_TOPIC) after deleting the others.
    """
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in each]
        )
        for name, each in by_topic(dict.fromkeys(partitions, True)).items()
    ]
    message = OffsetDeleteRequest(group_id=group_id, topics=topics)

    def attempt() -> None:
        response = cluster.coordinator(group_id).request(message)
        check(f"group {group_id}", response.error_code)
        check_parts(_codes(response), f"offset of group {group_id} in")

    cluster.retrying(attempt)


def by_topic(values: Mapping[TopicPartition, PartitionT]) -> dict[TopicName, dict[int, PartitionT]]:
    """Regroup values by topic, then by partition number."""
    topics: dict[TopicName, dict[int, PartitionT]] = {}
    for (topic, partition), value in values.items():
        topics.setdefault(topic, {})[partition] = value
    return topics
