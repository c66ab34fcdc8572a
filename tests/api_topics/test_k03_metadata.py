"""Metadata: by name, by id, and automatic creation of topics."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tests.api.node import drive_request
from tests.api_topics.node import OneNode
from tests.topics.disk import NOW

from headgate.api import k03_metadata
from headgate.api.topic_answers import find_or_create
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import ZERO_TOPIC_ID, TopicName
from headgate.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def ask(node: OneNode, *names: str, version: int = 13, **more: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return node.ask(k03_metadata.API, MetadataRequest(topics=topics, **more), version)


@pytest.mark.parametrize("version", range(14))
def test_every_version_has_broker_and_partitions(node: OneNode, version: int) -> None:
    """This node leads every partition and is its only replica."""
    topic = node.topic("letters", 2)
    answer = ask(node, "letters", version=version)
    broker = answer.brokers[0]
    assert (broker.node_id, broker.host, broker.port) == (1, "localhost", 9092)
    found = answer.topics[0]
    assert (found.error_code, found.name) == (ErrorCode.NONE, "letters")
    assert found.topic_id == (topic.topic_id if version >= 10 else ZERO_TOPIC_ID)
    partitions = [(one.partition_index, one.leader_id, one.replica_nodes) for one in found.partitions]
    assert partitions == [(0, 1, [1]), (1, 1, [1])]


@pytest.mark.parametrize(
    ("version", "topics", "count"), [(0, [], 2), (1, [], 0), (1, None, 2), (13, None, 2)]
)
def test_how_a_request_asks_for_all_topics(
    node: OneNode, version: int, topics: list[Any] | None, count: int
) -> None:
    """In version 0 by an empty list, later by null; an empty list then means none."""
    node.topic("letters")
    node.topic("numbers")
    assert len(node.ask(k03_metadata.API, MetadataRequest(topics=topics), version).topics) == count


def test_topics_by_id(node: OneNode) -> None:
    """From version 12; an unknown id has its own error and no name."""
    topic = node.topic("letters")
    wanted = [MetadataRequestTopic(topic_id=one, name=None) for one in (topic.topic_id, b"\7" * 16)]
    known, unknown = node.ask(k03_metadata.API, MetadataRequest(topics=wanted), 12).topics
    assert (known.error_code, known.name) == (ErrorCode.NONE, "letters")
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (
        ErrorCode.UNKNOWN_TOPIC_ID,
        None,
        b"\7" * 16,
    )
    for version in (10, 11):
        answer = node.ask(k03_metadata.API, MetadataRequest(topics=wanted), version).topics[1]
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_neither_name_nor_id_is_refused(node: OneNode) -> None:
    """A topic without either is an error."""
    wanted = [MetadataRequestTopic(name=None)]
    answer = node.ask(k03_metadata.API, MetadataRequest(topics=wanted), 12)
    assert answer.topics[0].error_code == ErrorCode.INVALID_REQUEST


def test_a_missing_topic_is_created_where_that_is_allowed() -> None:
    """With the broker's default number of partitions, and in the same response."""
    node = OneNode(num_partitions="3")
    answer = ask(node, "new", "new", allow_auto_topic_creation=True)
    assert [len(one.partitions) for one in answer.topics] == [3]
    assert node.topics.by_name("new") is not None


def test_a_deleted_topic_is_unknown_though_it_is_created_again(node: OneNode) -> None:
    """The new topic is returned from the next request on."""
    assert node.topics.delete(node.topic("letters"), NOW) is None
    errors = [
        ask(node, "letters", "letters", allow_auto_topic_creation=True).topics[0].error_code for _ in range(2)
    ]
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]


def test_a_topic_that_another_client_creates_meanwhile_is_found(node: OneNode) -> None:
    """Clients that start together ask for a missing topic together: each gets it, and none an error."""
    names = ["first", "second"]
    requests = [find_or_create(node, names, may_create=True) for _ in range(2)]
    for _, steps in product(names, requests):
        next(steps)
    found = [drive_request(steps) for steps in requests]
    assert found[0] == found[1] == {name: node.topics.by_name(name) for name in names}


def test_a_topic_that_is_created_and_deleted_meanwhile_is_unknown(node: OneNode) -> None:
    """A retriable error, until its name can be used again."""
    steps = find_or_create(node, ["first", "second"], may_create=True)
    for _ in range(2):  # the first is looked up between the two
        next(steps)
    node.topics.held_names.hold(TopicName("first"))
    assert drive_request(steps)["first"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("enabled", "allowed", "name", "error"),
    [
        ("true", False, "new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("false", True, "new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("true", True, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("true", True, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("true", True, "__transaction_state", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("true", True, "taken_name", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_a_missing_topic_is_not_created(enabled: str, allowed: bool, name: str, error: ErrorCode) -> None:
    """Disabled by the broker or the request, or with an invalid name."""
    node = OneNode(auto_create_topics_enable=enabled)
    node.topic("taken.name")
    answer = ask(node, name, allow_auto_topic_creation=allowed)
    assert answer.topics[0].error_code == error
    assert len(node.topics) == 1


def test_authorized_operations_are_returned_on_request(node: OneNode) -> None:
    """Without access rules all of them; otherwise the value for "not asked"."""
    node.topic("letters")
    for version in (8, 10):
        asked = ask(
            node,
            "letters",
            version=version,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        assert (asked.topics[0].topic_authorized_operations, asked.cluster_authorized_operations) == (
            3576,
            8096,
        )
    assert ask(node, "letters").topics[0].topic_authorized_operations == -(1 << 31)


def test_a_topic_is_described_once_however_often_it_is_named(node: OneNode) -> None:
    """By its name or by its id, whatever name stands beside that: a short request has a short response."""
    topic = node.topic("letters", 3)
    named = ["letters", "nowhere", "letters", "nowhere", "letters"]
    assert [one.name for one in ask(node, *named, version=9).topics] == ["letters", "nowhere"]
    topics = [MetadataRequestTopic(name=f"{number}", topic_id=topic.topic_id) for number in range(4)]
    answer = node.ask(k03_metadata.API, MetadataRequest(topics=topics), 12)
    assert [(one.name, len(one.partitions)) for one in answer.topics] == [("letters", 3)]
