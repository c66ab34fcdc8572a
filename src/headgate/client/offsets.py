"""Committed offsets as a client outside the group sees them: fetch, commit, delete.

A commit may be conditional: it takes place if offsets are what they are expected to be, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from headgate.client.cluster import NO_OFFSET, Cluster
from headgate.client.connection import Connection
from headgate.client.errors import (
    BadResponse,
    ConnectionFailed,
    OffsetsMoved,
    OutcomeUnknown,
    RequestRefused,
    RequestTimedOut,
    VersionNotSupported,
    check,
    check_parts,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.features import CONDITIONAL_COMMIT
from headgate.domain.ids import ZERO_TOPIC_ID, GroupId, TopicId, TopicName, TopicPartition
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
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from headgate.wire.wide import WideStructs

LAST_BY_NAME = 9
"""Of OffsetCommit and OffsetFetch: above this version topics go by id; the name is what is known here."""
_GROUPS_SINCE = 8
_ALL_SINCE = 2
NO_LEADER_EPOCH = -1
_NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED
_SURELY_NOT_DONE = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
"""Refusals before anything was decided; others that pass may come after the commit was written."""

PartitionT = TypeVar("PartitionT")


class CommittedOffset(NamedTuple):
    """Where a group is in a partition: the next record it wants, and what it wrote beside that."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


class Committer(NamedTuple):
    """The member of a group that commits, and its epoch or generation."""

    member_id: str
    epoch: int
    instance_id: str | None = None


NO_MEMBER = Committer("", -1)
"""Who commits to a group without members."""

Offsets = Mapping[TopicPartition, int | CommittedOffset | None]
"""Offsets to commit; a bare number has no leader epoch and no metadata.

None removes the offset, which only a commit with conditions can.
"""

Expected = Mapping[TopicPartition, int | None]
"""Offsets that must be committed now; None: that nothing is."""


def fetch_offsets(
    cluster: Cluster, group_id: GroupId, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """The committed offsets of a group, of some partitions or (None) of all, in order.

    Left out is what was never committed; a group that is not there has none.
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
        if asked is None and version < _ALL_SINCE:
            raise VersionNotSupported(f"{node.address} is too old to tell all offsets of a group")
        return _fetched(group_id, node.request(message, version), version)

    return cluster.retrying(attempt)


def _fetched(
    group_id: GroupId, response: OffsetFetchResponse, version: int
) -> dict[TopicPartition, CommittedOffset]:
    topics: list[OffsetFetchResponseTopic] | list[OffsetFetchResponseTopics] = response.topics
    error_code = response.error_code
    if version >= _GROUPS_SINCE:
        (group,) = response.groups
        topics, error_code = group.topics, group.error_code
    check(f"offsets of group {group_id}", error_code)
    found = {}
    for topic in topics:
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
) -> None:
    """Set the offsets of a group without members, or as the member `committer`; a group is created by its
    first offset.

    Raises `PartlyRefused` for partitions that do not exist or whose metadata is too long, the others being
    committed, and for all of them when the group is not taken (UNKNOWN_MEMBER_ID: it has members).

    With `expected`, offsets that must be committed now in these partitions, everything is committed or
    nothing, and None among the offsets removes what is committed. Raises also `OffsetsMoved`, where they are
    not; `OutcomeUnknown`, where the answer is lost; and `VersionNotSupported`, where the cluster knows no
    conditions.

    With `topic_ids` of all topics, these are meant and no others that bear their names by then: partitions of
    topics that are gone are refused (UNKNOWN_TOPIC_ID). A cluster that is too old for ids is sent names.
    """
    conditions = dict(expected or {})
    if strangers := conditions.keys() - offsets.keys():
        raise ValueError(f"offsets are expected in partitions that are not committed: {sorted(strangers)}")
    if not conditions and None in offsets.values():
        raise ValueError("only a commit with conditions removes offsets; delete_offsets does without")
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
    )

    def attempt() -> None:
        check_parts(_codes(_commit(cluster.coordinator(group_id), message)), what)

    def attempt_if() -> None:
        response = _ask_once(cluster.coordinator(group_id), message)
        if moved := _moved(response):
            raise OffsetsMoved(group_id, moved, conditions)
        # What stopped the commit is told before what it stopped.
        check_parts(dict(sorted(_codes(response).items(), key=lambda each: each[1] == _NOT_ATTEMPTED)), what)

    what = f"offset of group {group_id} in"
    cluster.retrying(attempt_if if conditions else attempt)


def knows_conditions(node: Connection) -> bool:
    """Whether a node commits on condition; one that does not would commit all the same."""
    return CONDITIONAL_COMMIT in node.features


def _commit(node: Connection, message: OffsetCommitRequest) -> OffsetCommitResponse:
    """The answer to a commit, by topics' ids if they are there, by their names in any case."""
    names = {topic.topic_id: topic.name for topic in message.topics}
    response = node.request(message, at_most=LAST_BY_NAME if ZERO_TOPIC_ID in names else None)
    for topic in response.topics:
        if topic.topic_id != ZERO_TOPIC_ID:
            topic.name = names.get(topic.topic_id, topic.name)
    return response


def _ask_once(node: Connection, message: OffsetCommitRequest) -> OffsetCommitResponse:
    """The answer to a commit that may have taken place even though no answer came."""
    if not knows_conditions(node):
        raise VersionNotSupported(f"{node.address} does not commit on condition")
    try:
        response = _commit(node, message)
    except (ConnectionFailed, RequestTimedOut, BadResponse) as error:
        raise OutcomeUnknown(f"{error}; whether the offsets are committed is not known") from error
    for code in set(_codes(response).values()):
        refused = RequestRefused(f"offsets of group {message.group_id}", code)
        if refused.is_retriable and code not in _SURELY_NOT_DONE:
            raise OutcomeUnknown(f"{refused}; whether they are committed is not known")
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
    """Delete committed offsets of topics that the group does not read now.

    Raises `RequestRefused` for the group (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP), `PartlyRefused` for
    partitions (UNKNOWN_TOPIC_OR_PARTITION, GROUP_SUBSCRIBED_TO_TOPIC), the others being deleted.
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
    """What is kept by partition, by topic and then by the partition's number."""
    topics: dict[TopicName, dict[int, PartitionT]] = {}
    for (topic, partition), value in values.items():
        topics.setdefault(topic, {})[partition] = value
    return topics
