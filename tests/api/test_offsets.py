"""OffsetCommit, OffsetFetch and OffsetDelete as messages, in every version."""

from __future__ import annotations

import pytest
from tests.api.node import OneNode, name_of, topic_id_of

from headgate.api import (
    fetch_messages,
    k08_offset_commit,
    k09_offset_fetch,
    k16_list_groups,
    k47_offset_delete,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.wire.messages import offset_commit, offset_delete, offset_fetch
from headgate.wire.messages.list_groups import ListGroupsRequest

COMMIT, FETCH, DELETE = k08_offset_commit.API, k09_offset_fetch.API, k47_offset_delete.API
NONE, UNKNOWN_TOPIC = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_ID
COMMIT_VERSIONS = range(2, 11)
ONE_GROUP_VERSIONS = range(1, 8)
MANY_GROUP_VERSIONS = range(8, 11)


def commit(
    partitions: list[tuple[str, int, int]], *, group_id: str = "g", metadata: str | None = "", **more: object
) -> offset_commit.OffsetCommitRequest:
    """A commit of topic, partition, offset; partitions of a topic that follow each other share its entry.

    Topics have name and id: each version takes what it knows.
    """
    topics: list[offset_commit.OffsetCommitRequestTopic] = []
    for name, index, offset in partitions:
        if not topics or topics[-1].name != name:
            topics.append(offset_commit.OffsetCommitRequestTopic(name=name, topic_id=topic_id_of(name)))
        topics[-1].partitions.append(
            offset_commit.OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
        )
    return offset_commit.OffsetCommitRequest(group_id=group_id, topics=topics, **more)  # type: ignore[arg-type]


def errors(response: offset_commit.OffsetCommitResponse) -> list[tuple[str, int, int]]:
    return [
        (name_of(topic), one.partition_index, one.error_code)
        for topic in response.topics
        for one in topic.partitions
    ]


def of_topic(name: str, indexes: list[int]) -> offset_fetch.OffsetFetchRequestTopics:
    """Partitions of a topic, named in every way."""
    return offset_fetch.OffsetFetchRequestTopics(
        name=name, topic_id=topic_id_of(name), partition_indexes=indexes
    )


def fetch_one(node: OneNode, version: int, group_id: str = "g") -> list[tuple[int, int, str | None]]:
    """Partition 0 and 1 of topic t, as any version shows them: offset, leader epoch, metadata."""
    if version < 8:
        topics = [offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
        request = offset_fetch.OffsetFetchRequest(group_id=group_id, topics=topics)
        response = node.ask(FETCH, request, version)
        assert response.error_code == NONE
        found = response.topics[0].partitions
    else:
        group = offset_fetch.OffsetFetchRequestGroup(group_id=group_id, topics=[of_topic("t", [0, 1])])
        response = node.ask(FETCH, offset_fetch.OffsetFetchRequest(groups=[group]), version)
        assert response.groups[0].error_code == NONE
        found = response.groups[0].topics[0].partitions
    assert [one.partition_index for one in found] == [0, 1]
    assert all(one.error_code == NONE for one in found)
    return [(one.committed_offset, one.committed_leader_epoch, one.metadata) for one in found]


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_a_commit_is_stored_and_answered_in_order(version: int) -> None:
    """In every version, with the fields that it has."""
    node = OneNode()
    request = commit([("t", 1, 5), ("t", 0, -2), ("u", 0, 7)], metadata="note")
    assert errors(node.ask(COMMIT, request, version)) == [("t", 1, NONE), ("t", 0, NONE), ("u", 0, NONE)]
    assert fetch_one(node, 8) == [(-2, -1, "note"), (5, -1, "note")]


@pytest.mark.parametrize("version", [*ONE_GROUP_VERSIONS, *MANY_GROUP_VERSIONS])
def test_offsets_are_fetched_in_every_version(version: int) -> None:
    """The committed ones, and -1 without a commit; the leader epoch from version 5."""
    node = OneNode()
    request = commit([("t", 0, 5)], metadata="note")
    request.topics[0].partitions[0].committed_leader_epoch = 3
    node.ask(COMMIT, request, 9)
    assert fetch_one(node, version) == [(5, 3 if version >= 5 else -1, "note"), (-1, -1, "")]
    assert fetch_one(node, version, "nobody") == [(-1, -1, ""), (-1, -1, "")]


def test_null_metadata_is_empty() -> None:
    """It is fetched as empty metadata."""
    node = OneNode()
    node.ask(COMMIT, commit([("t", 0, 5)], metadata=None), 9)
    assert fetch_one(node, 9)[0] == (5, -1, "")


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_unknown_partitions_are_not_committed(version: int) -> None:
    """Each has its error in its place; the others are committed."""
    node = OneNode()
    request = commit([("t", 0, 1), ("t", 3, 1), ("t", -1, 1), ("no", 0, 1), ("t", 1, 2), ("t", 1, 4)])
    assert errors(node.ask(COMMIT, request, version)) == [
        ("t", 0, NONE),
        ("t", 3, UNKNOWN_TOPIC),
        ("t", -1, UNKNOWN_TOPIC),
        ("no", 0, UNKNOWN_TOPIC if version < 10 else UNKNOWN_ID),
        ("t", 1, NONE),
        ("t", 1, NONE),
    ]
    assert [offset for offset, _, _ in fetch_one(node, version)] == [1, 4]


def test_a_commit_of_unknown_partitions_only_creates_no_group() -> None:
    """The group is not checked either, as seen of Kafka 4.3.1."""
    node = OneNode()
    for request in (commit([]), commit([("no", 0, 1)]), commit([("no", 0, 1)], member_id="x")):
        node.ask(COMMIT, request, 9)
        node.ask(COMMIT, request, 10)
    assert node.ask(k16_list_groups.API, ListGroupsRequest(), 5).groups == []


def test_a_topic_without_partitions_is_not_answered() -> None:
    """Unless it does not exist, as seen of Kafka 4.3.1."""
    request = commit([("t", 0, 1)])
    (some,) = request.topics
    empty = [offset_commit.OffsetCommitRequestTopic(name=name) for name in ("t", "no")]
    request.topics = [*empty, some]
    answer = OneNode().ask(COMMIT, request, 9)
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("no", 0), ("t", 1)]


@pytest.mark.parametrize(
    ("version", "expected"),
    [(version, ErrorCode.ILLEGAL_GENERATION) for version in range(2, 9)]
    + [(9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_generation_of_an_unknown_group_is_refused(version: int, expected: ErrorCode) -> None:
    """On every partition that exists, as seen of Kafka 4.3.1."""
    request = commit([("t", 0, 1), ("no", 0, 1), ("t", 1, 1)], member_id="x", generation_id_or_member_epoch=1)
    assert errors(OneNode().ask(COMMIT, request, version)) == [
        ("t", 0, expected),
        ("no", 0, UNKNOWN_TOPIC),
        ("t", 1, expected),
    ]


def test_long_metadata_fails_its_partition_alone() -> None:
    """Also after unknown partitions, which the coordinator does not get."""
    node = OneNode(offset_metadata_max_bytes="4")
    request = commit([("no", 0, 1), ("t", 9, 1), ("t", 0, 1), ("t", 1, 2), ("u", 0, 1)])
    request.topics[1].partitions[2].committed_metadata = "too long"
    assert [error for _, _, error in errors(node.ask(COMMIT, request, 9))] == [
        UNKNOWN_TOPIC,
        UNKNOWN_TOPIC,
        NONE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        NONE,
    ]


@pytest.mark.parametrize(("version", "is_kept"), [(2, False), (4, False), (5, True), (9, True)])
def test_a_retention_applies_in_the_versions_that_have_one(version: int, is_kept: bool) -> None:
    """Versions 2 to 4 have one; later ones do not (R0.1)."""
    node = OneNode(offsets_retention_check_interval_ms="1000")
    node.ask(COMMIT, commit([("t", 0, 5)], retention_time_ms=500), version)
    node.advance(1_000)
    assert fetch_one(node, 9)[0][0] == (5 if is_kept else -1)


@pytest.mark.parametrize(
    "error", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE]
)
def test_the_error_of_a_shard_is_returned(error: ErrorCode) -> None:
    """On each partition of a commit; in a fetch where the version has it."""
    node = OneNode()
    node.coordinator.errors = dict.fromkeys(range(3), error)
    assert errors(node.ask(COMMIT, commit([("t", 0, 1), ("no", 0, 1)]), 5)) == [
        ("t", 0, error),
        ("no", 0, UNKNOWN_TOPIC),
    ]
    topics = [offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[2])]
    old = offset_fetch.OffsetFetchRequest(group_id="g", topics=topics)
    [partition] = node.ask(FETCH, old, 1).topics[0].partitions
    assert (partition.partition_index, partition.error_code, partition.committed_offset) == (2, error, -1)
    for version in range(2, 8):
        response = node.ask(FETCH, old, version)
        assert (response.error_code, response.topics) == (error, [])
    new = offset_fetch.OffsetFetchRequest(
        groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)]
    )
    [group] = node.ask(FETCH, new, 8).groups
    assert (group.group_id, group.error_code, group.topics) == ("g", error, [])
    request = offset_delete.OffsetDeleteRequest(group_id="g")
    assert node.ask(DELETE, request, 0).error_code == error


@pytest.mark.parametrize("version", range(2, 11))
def test_null_topics_fetch_all(version: int) -> None:
    """From version 2."""
    node = OneNode()
    node.ask(COMMIT, commit([("u", 0, 3), ("t", 2, 9), ("t", 1, 8)]), 9)
    if version < 8:
        request = offset_fetch.OffsetFetchRequest(group_id="g", topics=None)
        topics = node.ask(FETCH, request, version).topics
    else:
        groups = [offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)]
        topics = node.ask(FETCH, offset_fetch.OffsetFetchRequest(groups=groups), version).groups[0].topics
    assert [
        (name_of(topic), [(one.partition_index, one.committed_offset) for one in topic.partitions])
        for topic in topics
    ] == [("t", [(1, 8), (2, 9)]), ("u", [(0, 3)])]


def test_offsets_of_deleted_topics_are_not_fetched_by_id() -> None:
    """A fetch of all offsets by name returns them; by id they cannot be named."""
    node = OneNode()
    node.ask(COMMIT, commit([("t", 0, 5), ("u", 0, 6)]), 10)
    node.topics.delete("t")
    groups = [offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)]
    found = {
        version: [
            name_of(topic)
            for topic in node.ask(FETCH, offset_fetch.OffsetFetchRequest(groups=groups), version)
            .groups[0]
            .topics
        ]
        for version in (9, 10)
    }
    assert found == {9: ["t", "u"], 10: ["u"]}


def test_unknown_ids_come_last_with_an_error() -> None:
    """On each partition, with offset -1, as in Kafka; the others are returned."""
    node = OneNode()
    node.ask(COMMIT, commit([("t", 0, 5)]), 9)
    nobody = offset_fetch.OffsetFetchRequestTopics(name="t", partition_indexes=[7])
    topics = [of_topic("no", [0, 1]), nobody, of_topic("t", [0, 9])]
    groups = [offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=topics)]
    [group] = node.ask(FETCH, offset_fetch.OffsetFetchRequest(groups=groups), 10).groups
    assert [
        (topic.topic_id, one.partition_index, one.committed_offset, one.error_code)
        for topic in group.topics
        for one in topic.partitions
    ] == [
        (topic_id_of("t"), 0, 5, NONE),
        (topic_id_of("t"), 9, -1, NONE),
        (topic_id_of("no"), 0, -1, UNKNOWN_ID),
        (topic_id_of("no"), 1, -1, UNKNOWN_ID),
        (bytes(16), 7, -1, UNKNOWN_ID),
    ]


def test_a_fetch_by_ids_that_fails_as_a_whole_names_no_topic() -> None:
    """Not even those with unknown ids."""
    node = OneNode()
    node.coordinator.errors = dict.fromkeys(range(3), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    groups = [offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=[of_topic("no", [0])])]
    [group] = node.ask(FETCH, offset_fetch.OffsetFetchRequest(groups=groups), 10).groups
    assert (group.error_code, group.topics) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])


@pytest.mark.parametrize("version", MANY_GROUP_VERSIONS)
def test_several_groups_are_fetched_together(version: int) -> None:
    """In the order asked, whatever their shards, each with its own error."""
    node = OneNode()
    names = [f"group-{number}" for number in range(8)]
    assert len({node.coordinator.partition_of(GroupId(name)) for name in names}) == 3
    for number, name in enumerate(names):
        node.ask(COMMIT, commit([("t", 0, number)], group_id=name), 9)
    broken = node.coordinator.partition_of(GroupId(names[0]))
    node.coordinator.errors = {broken: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    groups = [
        offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=[of_topic("t", [0])])
        for name in reversed(names)
    ]
    request = offset_fetch.OffsetFetchRequest(groups=groups, require_stable=True)
    response = node.ask(FETCH, request, version)
    assert [group.group_id for group in response.groups] == names[::-1]
    for number, group in zip(range(7, -1, -1), response.groups, strict=True):
        if node.coordinator.partition_of(GroupId(group.group_id)) == broken:
            assert (group.error_code, group.topics) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
        else:
            assert group.error_code == NONE
            assert group.topics[0].partitions[0].committed_offset == number


@pytest.mark.parametrize("version", MANY_GROUP_VERSIONS)
def test_a_fetch_that_names_a_group_twice_is_refused(version: int) -> None:
    """A short request could ask for any number of long answers."""
    node = OneNode()
    node.ask(COMMIT, commit([("t", 0, 5)]), 9)
    groups = [offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "h", "g")]
    response = node.ask(FETCH, offset_fetch.OffsetFetchRequest(groups=groups * 50), version)
    refused = ErrorCode.INVALID_REQUEST
    assert [(group.group_id, group.error_code) for group in response.groups] == [
        ("g", refused),
        ("h", refused),
    ]


@pytest.mark.parametrize("others", [2, 300])
def test_what_does_not_fit_into_a_response_is_refused(others: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups that fit are answered, however often a partition of another group is named."""
    for module in (fetch_messages, k09_offset_fetch):
        monkeypatch.setattr(module, "MOST_RESPONSE_BYTES", 200_000)
    node = OneNode()
    node.ask(COMMIT, commit([("t", 0, 5)], metadata="x" * 100), 9)
    groups = [offset_fetch.OffsetFetchRequestGroup(group_id=f"h{at}", topics=None) for at in range(others)]
    groups[1] = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=[of_topic("t", [0] * 3000)])
    response = node.ask(FETCH, offset_fetch.OffsetFetchRequest(groups=groups), 9)
    assert [group.group_id for group in response.groups] == [group.group_id for group in groups]
    assert (response.groups[1].error_code, response.groups[1].topics) == (ErrorCode.INVALID_REQUEST, [])
    groups[1].topics = [of_topic("t", [0] * 1000)]
    response = node.ask(FETCH, offset_fetch.OffsetFetchRequest(groups=groups), 9)
    assert {group.error_code for group in response.groups} == {NONE}
    assert len(response.groups[1].topics[0].partitions) == 1000


def test_a_fetch_of_no_group_is_answered() -> None:
    """Without groups."""
    assert OneNode().ask(FETCH, offset_fetch.OffsetFetchRequest(), 8).groups == []


def test_a_member_and_an_epoch_are_ignored_by_a_classic_group() -> None:
    """In version 9, as seen of Kafka 4.3.1."""
    node = OneNode()
    node.ask(COMMIT, commit([("t", 0, 5)]), 9)
    group = offset_fetch.OffsetFetchRequestGroup(group_id="g", member_id="x", member_epoch=9, topics=None)
    response = node.ask(FETCH, offset_fetch.OffsetFetchRequest(groups=[group]), 9)
    assert response.groups[0].topics[0].partitions[0].committed_offset == 5


def delete(group_id: str, *partitions: tuple[str, list[int]]) -> offset_delete.OffsetDeleteRequest:
    return offset_delete.OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            offset_delete.OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    offset_delete.OffsetDeleteRequestPartition(partition_index=index) for index in indexes
                ],
            )
            for name, indexes in partitions
        ],
    )


def test_offsets_are_deleted() -> None:
    """Unknown partitions have an error in their place; one without a commit is no error."""
    node = OneNode()
    node.ask(COMMIT, commit([("t", 0, 5), ("t", 1, 6)]), 9)
    response = node.ask(DELETE, delete("g", ("no", [0]), ("t", [2, 9, 0])), 0)
    assert response.error_code == NONE
    assert [
        (topic.name, one.partition_index, one.error_code)
        for topic in response.topics
        for one in topic.partitions
    ] == [("no", 0, UNKNOWN_TOPIC), ("t", 2, NONE), ("t", 9, UNKNOWN_TOPIC), ("t", 0, NONE)]
    assert [offset for offset, _, _ in fetch_one(node, 9)] == [-1, 6]


@pytest.mark.parametrize(
    ("group_id", "expected"),
    [("", ErrorCode.INVALID_GROUP_ID), ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_deletion_that_fails_as_a_whole_names_no_partition(group_id: str, expected: ErrorCode) -> None:
    """The error is the response's, as seen of Kafka 4.3.1."""
    response = OneNode().ask(DELETE, delete(group_id, ("t", [0])), 0)
    assert (response.error_code, response.topics) == (expected, [])
