"""CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from tests.api_topics.node import OneNode
from tests.topics.disk import NOW, batch

from headgate.api import k19_create_topics, k20_delete_topics, k21_delete_records, k37_create_partitions
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import ZERO_TOPIC_ID
from headgate.log.filesystem import Fault
from headgate.topics.topic import Topic
from headgate.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headgate.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headgate.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headgate.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


def creatable(
    name: str = "new", partitions: int = 1, replicas: int = 1, **configs: str | None
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )


def assigned(
    *brokers: list[int], partitions: int = -1, replicas: int = -1, first: int = 0, **configs: str
) -> CreatableTopic:
    topic = creatable("new", partitions, replicas, **configs)
    topic.assignments = [
        CreatableReplicaAssignment(partition_index=first + index, broker_ids=ids)
        for index, ids in enumerate(brokers)
    ]
    return topic


def create(node: OneNode, *topics: CreatableTopic, version: int = 7, **more: Any) -> Any:
    return node.ask(k19_create_topics.API, CreateTopicsRequest(topics=list(topics), **more), version).topics


@pytest.mark.parametrize("version", range(2, 8))
def test_a_created_topic_is_durable(node: OneNode, version: int) -> None:
    """The response comes after the sync; from version 5 it has the settings, from 7 the id."""
    answer = create(node, creatable("new", 3, 1, retention_ms="5000"), version=version)[0]
    assert answer.error_code == ErrorCode.NONE
    node.restart(crash=True)
    topic = node.topics.by_name("new")
    assert topic is not None
    assert (topic.partition_count, topic.overrides) == (3, {"retention.ms": "5000"})
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (3, 1)
        sources = {config.name: (config.value, config.config_source) for config in answer.configs}
        assert sources["retention.ms"] == ("5000", 1)
        assert sources["retention.bytes"] == ("-1", 5)
    if version >= 7:
        assert answer.topic_id == topic.topic_id != ZERO_TOPIC_ID


def test_topics_created_together_have_each_their_own_settings(node: OneNode) -> None:
    """Also those that have the same: a request may create thousands."""
    wanted: list[dict[str, Any]] = [
        {"retention_ms": "5"},
        {},
        {"retention_ms": "5"},
        {"retention_ms": "6", "segment_bytes": "2048"},
    ]
    topics = [creatable(f"topic-{at}", **configs) for at, configs in enumerate(wanted)]
    answers = create(node, *topics, creatable("letters", partitions=0))
    told = [{one.name: one.value for one in answer.configs or ()} for answer in answers]
    assert [one.get("retention.ms") for one in told] == ["5", "604800000", "5", "6", None]
    assert told[0] == told[2] != told[3]
    assert told[3]["segment.bytes"] == "2048"


def test_minus_one_means_the_brokers_default() -> None:
    """For partitions and replicas alike."""
    node = OneNode(num_partitions="4")
    assert create(node, creatable("new", -1, -1))[0].num_partitions == 4


def test_validate_only_answers_without_a_change(node: OneNode) -> None:
    """With an id and the settings."""
    good, bad = create(node, creatable("new", 2), creatable("a b"), validate_only=True)
    assert (good.error_code, good.num_partitions) == (ErrorCode.NONE, 2)
    assert good.topic_id != ZERO_TOPIC_ID
    assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(node.topics) == 0


def test_an_assignment_decides_the_partitions(node: OneNode) -> None:
    """Each partition is on this node, the only one."""
    assert create(node, assigned([1], [1]))[0].num_partitions == 2


def test_a_request_creates_at_most_ten_thousand_partitions(node: OneNode) -> None:
    """More, of all its topics together, are refused as a whole: every client would get their metadata."""
    assert create(node, creatable("wide", 10_000), validate_only=True)[0].error_code == ErrorCode.NONE
    for topics in (
        [creatable("huge", 2**31 - 1)],
        [creatable("wide", 10_000), creatable("more", -1, -1)],
        [creatable("wide", 10_000), assigned([1])],
    ):
        for is_only_checked in (True, False):
            answers = create(node, *topics, validate_only=is_only_checked)
            assert {one.error_code for one in answers} == {ErrorCode.POLICY_VIOLATION}
            assert len(answers) == len(topics)
    assert len(node.topics) == 0
    assert create(node, creatable("wide", 10_000), creatable("none", -5))[0].error_code == ErrorCode.NONE


CREATE_REFUSALS = [
    ("taken", creatable("taken"), ErrorCode.TOPIC_ALREADY_EXISTS),
    ("no partitions", creatable(partitions=0), ErrorCode.INVALID_PARTITIONS),
    ("negative partitions", creatable(partitions=-2), ErrorCode.INVALID_PARTITIONS),
    ("no replicas", creatable(replicas=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    ("negative replicas", creatable(replicas=-2), ErrorCode.INVALID_REPLICATION_FACTOR),
    ("two replicas", creatable(replicas=2), ErrorCode.INVALID_REPLICATION_FACTOR),
    ("unknown setting", creatable(nonsense="1"), ErrorCode.INVALID_CONFIG),
    ("bad value", creatable(retention_ms="x"), ErrorCode.INVALID_CONFIG),
    ("null value", creatable(retention_ms=None), ErrorCode.INVALID_CONFIG),
    ("empty name", creatable(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("other broker", assigned([2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("broker twice", assigned([1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("nobody", assigned([]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("not from zero", assigned([1], first=1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("assigned and counted", assigned([1], partitions=1), ErrorCode.INVALID_REQUEST),
    ("assigned and replicated", assigned([1], replicas=1), ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(
    ("topic", "error"), [row[1:] for row in CREATE_REFUSALS], ids=[row[0] for row in CREATE_REFUSALS]
)
def test_an_invalid_topic_is_refused(node: OneNode, topic: CreatableTopic, error: ErrorCode) -> None:
    """It is refused with a message; the valid one of the request is created."""
    node.topic("taken")
    refused, good = create(node, topic, creatable("good"))
    assert refused.error_code == error
    assert refused.error_message
    assert good.error_code == ErrorCode.NONE
    assert [one.name for one in node.topics.all()] == ["taken", "good"]


FIRST_MISTAKES = [
    ("name, setting", creatable("a b", retention_ms=None), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("name, partitions", creatable("a b", 0, 0), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("taken, setting", creatable("taken", 0, 0, retention_ms="x"), ErrorCode.TOPIC_ALREADY_EXISTS),
    ("collides, replicas", creatable("ta_ken", 1, 2), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("setting, replicas", creatable("new", 1, 2, retention_ms="x"), ErrorCode.INVALID_CONFIG),
    ("null setting, partitions", creatable("new", 0, 1, retention_ms=None), ErrorCode.INVALID_CONFIG),
    (
        "setting, assignment",
        assigned([9], partitions=3, first=1, retention_ms="x"),
        ErrorCode.INVALID_CONFIG,
    ),
    ("no replicas, no partitions", creatable("new", 0, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    ("no partitions, two replicas", creatable("new", 0, 2), ErrorCode.INVALID_PARTITIONS),
]


@pytest.mark.parametrize(
    ("topic", "error"), [row[1:] for row in FIRST_MISTAKES], ids=[row[0] for row in FIRST_MISTAKES]
)
def test_of_several_mistakes_the_first_one_of_kafkas_order_is_told(
    node: OneNode, topic: CreatableTopic, error: ErrorCode
) -> None:
    """The name, then the settings, then the numbers."""
    node.topic("taken")
    node.topic("ta.ken")
    assert create(node, topic)[0].error_code == error


def test_every_negative_size_keeps_all_records(node: OneNode) -> None:
    """As in Kafka, which does not check retention.bytes; the broker's setting is the same."""
    for value in ("-2", str(-(1 << 63))):
        wanted = creatable(f"t{value}", retention_bytes=value, retention_ms="-1")
        assert create(node, wanted)[0].error_code == ErrorCode.NONE
        topic = node.topics.by_name(f"t{value}")
        assert topic is not None
        assert not topic.policy.may_expire
    assert OneNode(log_retention_bytes="-2").settings["log.retention.bytes"] == -2


def test_the_same_topic_twice_is_one_refusal(node: OneNode) -> None:
    """Neither is created."""
    answers = create(node, creatable("twice"), creatable("once"), creatable("twice", 2))
    assert [(one.name, one.error_code) for one in answers] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("once", ErrorCode.NONE),
    ]


def test_a_failing_disk_refuses_all(node: OneNode) -> None:
    """They share one sync; a retry works."""
    node.disk.files.inject(Fault(errno.ENOSPC, "pwrite"))
    answers = create(node, creatable("a"), creatable("b"))
    assert {one.error_code for one in answers} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert create(node, creatable("a"))[0].error_code == ErrorCode.NONE


def delete(node: OneNode, *states: DeleteTopicState, version: int = 6) -> Any:
    request = DeleteTopicsRequest(topics=list(states), topic_names=[state.name or "" for state in states])
    return node.ask(k20_delete_topics.API, request, version).responses


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_deleted_by_name(node: OneNode, version: int) -> None:
    """Durably."""
    node.topic("letters")
    assert delete(node, DeleteTopicState(name="letters"), version=version)[0].error_code == ErrorCode.NONE
    node.restart(crash=True)
    assert node.topics.by_name("letters") is None


def test_a_topic_is_deleted_by_id(node: OneNode) -> None:
    """The response has name and id; the id is unknown from then on."""
    topic = node.topic("letters")
    state = DeleteTopicState(topic_id=topic.topic_id)
    answer = delete(node, state)[0]
    assert (answer.error_code, answer.name, answer.topic_id) == (ErrorCode.NONE, "letters", topic.topic_id)
    assert delete(node, state)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


LETTERS = DeleteTopicState(name="letters")
DELETE_REFUSALS = [
    ("unknown name", [DeleteTopicState(name="x")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("unknown id", [DeleteTopicState(topic_id=b"\7" * 16)], ErrorCode.UNKNOWN_TOPIC_ID),
    ("nothing", [DeleteTopicState()], ErrorCode.INVALID_REQUEST),
    ("name and id", [DeleteTopicState(name="letters", topic_id=b"\7" * 16)], ErrorCode.INVALID_REQUEST),
    ("twice", [LETTERS, LETTERS], ErrorCode.INVALID_REQUEST),
    ("internal", [DeleteTopicState(name="__consumer_offsets")], ErrorCode.INVALID_TOPIC_EXCEPTION),
]


@pytest.mark.parametrize(
    ("states", "error"), [row[1:] for row in DELETE_REFUSALS], ids=[row[0] for row in DELETE_REFUSALS]
)
def test_an_invalid_deletion_is_refused(
    node: OneNode, states: list[DeleteTopicState], error: ErrorCode
) -> None:
    """With its error, and all topics remain."""
    node.topic("letters")
    node.topic("__consumer_offsets")
    assert {answer.error_code for answer in delete(node, *states)} == {error}
    assert len(node.topics) == 2


def test_a_topic_named_twice_is_refused_once(node: OneNode) -> None:
    """As seen of Kafka 4.3.1."""
    node.topic("letters")
    assert len(delete(node, LETTERS, LETTERS)) == 1


def test_deletion_can_be_switched_off() -> None:
    """With its own error from version 3 on."""
    node = OneNode(delete_topic_enable="false")
    node.topic("letters")
    assert delete(node, LETTERS, version=2)[0].error_code == ErrorCode.INVALID_REQUEST
    assert delete(node, LETTERS, version=3)[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED


def extend(node: OneNode, *topics: CreatePartitionsTopic, **more: Any) -> Any:
    request = CreatePartitionsRequest(topics=list(topics), **more)
    return node.ask(k37_create_partitions.API, request).results


def extension(count: int, *brokers: list[int], name: str = "letters") -> CreatePartitionsTopic:
    assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in brokers]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments or None)


def test_partitions_are_added_durably(node: OneNode) -> None:
    """With and without an assignment; validate_only adds none."""
    node.topic("letters", 2)
    assert extend(node, extension(9), validate_only=True)[0].error_code == ErrorCode.NONE
    assert extend(node, extension(3))[0].error_code == ErrorCode.NONE
    assert extend(node, extension(5, [1], [1]))[0].error_code == ErrorCode.NONE
    node.restart(crash=True)
    topic = node.topics.by_name("letters")
    assert topic is not None
    assert topic.partition_count == 5


def test_a_request_adds_at_most_ten_thousand_partitions(node: OneNode) -> None:
    """As many as one creates; a topic gets more of them in several requests."""
    topics = [node.topic("here", 1), node.topic("there", 1)]

    def grow(*counts: int) -> set[ErrorCode]:
        wanted = [
            CreatePartitionsTopic(name=topic.name, count=count, assignments=None)
            for topic, count in zip(topics, counts, strict=False)
        ]
        answer = node.ask(k37_create_partitions.API, CreatePartitionsRequest(topics=wanted), 3)
        return {ErrorCode(one.error_code) for one in answer.results}

    assert grow(2**31 - 1) == grow(6_000, 6_000) == {ErrorCode.POLICY_VIOLATION}
    assert [topic.partition_count for topic in topics] == [1, 1]
    assert grow(10_001) == grow(20_001) == {ErrorCode.NONE}


EXTEND_REFUSALS = [
    ("unknown", extension(3, name="x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("as many", extension(2), ErrorCode.INVALID_PARTITIONS),
    ("fewer", extension(1), ErrorCode.INVALID_PARTITIONS),
    ("negative", extension(-1), ErrorCode.INVALID_PARTITIONS),
    ("absurd", extension((1 << 31) - 1), ErrorCode.POLICY_VIOLATION),
    ("too few assignments", extension(4, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("another broker", extension(3, [2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("internal", extension(3, name="__consumer_offsets"), ErrorCode.INVALID_PARTITIONS),
]


@pytest.mark.parametrize(
    ("topic", "error"), [row[1:] for row in EXTEND_REFUSALS], ids=[row[0] for row in EXTEND_REFUSALS]
)
def test_an_invalid_number_of_partitions_is_refused(
    node: OneNode, topic: CreatePartitionsTopic, error: ErrorCode
) -> None:
    """The topic keeps its partitions."""
    node.topic("letters", 2)
    node.topic("__consumer_offsets", 2)
    assert extend(node, topic)[0].error_code == error
    assert [one.partition_count for one in node.topics.all()] == [2, 2]


def cut(node: OneNode, offset: int, *, topic: str = "letters", partition: int = 0) -> tuple[int, int]:
    wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])])
    answer = node.ask(k21_delete_records.API, request).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


def filled(node: OneNode, name: str = "letters", cleanup_policy: str = "delete") -> Topic:
    """A topic with the records 0 to 4, of which 4 is not durable."""
    topic = node.topic(name, cleanup_policy=cleanup_policy)
    partition = topic.partition(0)
    for offset in range(5):
        partition.append(batch(b"v"), NOW)
        if offset < 4:
            node.durability.when_durable(partition.log, partition.synced)
    return topic


def test_records_are_deleted_up_to_an_offset(node: OneNode) -> None:
    """The log start moves there, never back; -1 means all records; a crash changes nothing."""
    topic = filled(node)
    assert cut(node, 2) == (ErrorCode.NONE, 2)
    assert cut(node, 1) == (ErrorCode.NONE, 2)
    assert topic.partition(0).read(1, 100, minimum_one=True).error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert topic.partition(0).high_watermark == 4
    assert cut(node, -1) == (ErrorCode.NONE, 5)
    node.restart(crash=True)
    assert cut(node, 0) == (ErrorCode.NONE, 5)


def test_records_that_are_not_durable_yet_are_waited_for_and_deleted(node: OneNode) -> None:
    """A producer with acks=1 was told of them, so their offsets are not out of range."""
    topic = filled(node)
    assert topic.partition(0).high_watermark == 4
    assert cut(node, 5) == (ErrorCode.NONE, 5)


def test_records_that_cannot_be_made_durable_are_not_deleted(node: OneNode) -> None:
    """They are lost, so their offsets are out of range, and the records before them stay."""
    topic = filled(node)
    node.disk.files.inject(Fault(errno.EIO, "datasync"))
    assert cut(node, 5) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert topic.partition(0).log_start_offset == 0
    assert cut(node, 4) == (ErrorCode.NONE, 4)


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "error"),
    [
        ("letters", 0, 6, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("letters", 0, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("letters", 1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("x", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("compacted", 0, 0, ErrorCode.POLICY_VIOLATION),
        ("__consumer_offsets", 0, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_invalid_deletions_of_records_are_refused(
    node: OneNode, topic: str, partition: int, offset: int, error: ErrorCode
) -> None:
    """Records that were never written, and those of compacted or internal topics."""
    filled(node)
    filled(node, "compacted", cleanup_policy="compact")
    filled(node, "__consumer_offsets", cleanup_policy="compact,delete")
    assert cut(node, offset, topic=topic, partition=partition) == (error, -1)
