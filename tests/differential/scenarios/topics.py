"""Topics as the group clients need them: made, grown, deleted, shown."""

from __future__ import annotations

import uuid
from typing import Any

from tests.differential.requests import (
    create_partitions,
    create_topic_entries,
    create_topics,
    delete_topic_ids,
    delete_topics,
    metadata,
)
from tests.differential.script import Script
from tests.differential.wire import Request, Tree


def _is_gone(answer: Tree) -> bool:
    return bool(answer["topics"][0]["error_code"] == "unknown_topic_or_partition")


def _create(ask: Script, request: Request) -> None:
    """Create topics, and call those that come into being by their names."""
    ask.learn_topics(request)


def topics_are_created_in_every_version(ask: Script) -> None:
    """With a number of partitions, and by default."""
    for version in range(2, 8):
        _create(ask, create_topics({f"{ask.name}-v{version}": 2}, version))
        _create(ask, create_topics({f"{ask.name}-v{version}": 2}, version))
        ask.until(metadata(f"{ask.name}-v{version}"), lambda answer: not _is_gone(answer))
    for version in (4, 7):
        entry = {"name": f"{ask.name}-default{version}", "num_partitions": -1, "replication_factor": -1}
        _create(ask, create_topic_entries(entry, version=version))


def topics_that_cannot_be(ask: Script) -> None:
    """Names, numbers, settings and assignments that are wrong."""
    entries: tuple[dict[str, Any], ...] = (
        {"name": ""},
        {"name": "."},
        {"name": ".."},
        {"name": "a b"},
        {"name": "x" * 250},
        {"name": "naïve"},
        {"name": "__consumer_offsets"},
        {"num_partitions": 0},
        {"num_partitions": -2},
        {"replication_factor": 0},
        {"replication_factor": 2},
        {"replication_factor": -2},
        {"configs": [{"name": "no.such.setting", "value": "1"}]},
        {"configs": [{"name": "retention.ms", "value": "soon"}]},
        {"configs": [{"name": "retention.ms", "value": None}]},
        {"configs": [{"name": "cleanup.policy", "value": "shred"}]},
        {"assignments": [{"partition_index": 0, "broker_ids": [1]}]},
        {"num_partitions": -1, "assignments": [{"partition_index": 0, "broker_ids": [1]}]},
        {
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 1, "broker_ids": [1]}],
        },
        {
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 0, "broker_ids": [77]}],
        },
    )
    for number, entry in enumerate(entries):
        named = {"name": f"{ask.name}-{number}"} | entry
        for version in (4, 7):
            _create(ask, create_topic_entries(named, version=version))


def more_partitions_than_one_request_may_create(ask: Script) -> None:
    """Of one topic, of several together, and with other mistakes: none is created."""
    many: dict[str, Any] = {"name": f"{ask.name}-many", "num_partitions": 10_001}
    half: dict[str, Any] = {"name": f"{ask.name}-half", "num_partitions": 5_001}
    few: dict[str, Any] = {"name": f"{ask.name}-few", "num_partitions": 5_000}
    bad = {"configs": [{"name": "no.such.setting", "value": "1"}]}
    for entries in (
        (many,),
        (half, few),
        (half, few | {"num_partitions": -2}, half),
        (many | bad, few),
        (many | {"replication_factor": 0},),
        (many | {"name": "a b"},),
        (many, many),
        (many, half, half),
    ):
        for version in (4, 7):
            _create(ask, create_topic_entries(*entries, version=version).but(validate_only=version == 4))
    ask(metadata(many["name"], half["name"], few["name"]))


def topics_with_several_mistakes(ask: Script) -> None:
    """One of them is told; what no broker checks is accepted."""
    bad, null = ({"name": "retention.ms", "value": value} for value in ("soon", None))
    entries: tuple[dict[str, Any], ...] = (
        {"name": "a b", "configs": [null], "num_partitions": 0},
        {"name": "__consumer_offsets", "configs": [bad], "replication_factor": 0},
        {"configs": [bad], "num_partitions": 0},
        {"configs": [null], "replication_factor": 2},
        {"configs": [bad], "assignments": [{"partition_index": 1, "broker_ids": [77]}]},
        {"num_partitions": 0, "replication_factor": 0},
        {"num_partitions": 0, "replication_factor": 2},
        {"configs": [{"name": "retention.bytes", "value": "-2"}]},
    )
    for number, entry in enumerate(entries):
        _create(ask, create_topic_entries({"name": f"{ask.name}-{number}"} | entry))
    missing = [{"name": f"{ask.name}-none"}, {"name": "a b"}]
    values = {"topics": missing, "response_partition_limit": 9, "cursor": None}
    ask(Request("describe_topic_partitions", 0, values))


def several_topics_in_one_request(ask: Script) -> None:
    """Each has its own fate; the same name twice has one."""
    names = [f"{ask.name}-{letter}" for letter in "abc"]
    _create(ask, create_topics({names[0]: 1, names[1]: 0, names[2]: 1}))
    _create(ask, create_topic_entries(*({"name": f"{ask.name}-{letter}"} for letter in "dde")))
    _create(ask, create_topics({}))
    ask(metadata(f"{ask.name}-d"))


def only_validated(ask: Script) -> None:
    """What could be created is said, and nothing comes of it."""
    name = f"{ask.name}-t"
    request = create_topics({name: 3}, configs={"retention.ms": "1000"}).but(validate_only=True)
    answer = ask.learn_topics(request)
    assert answer["topics"][0]["error_code"] == "none"
    ask(metadata(name))
    ask(create_topics({name: 0}).but(validate_only=True))
    ask(create_topics({name: 1}, 4).but(validate_only=True))


def settings_at_creation(ask: Script) -> None:
    """The answer of version 5 on tells all settings, and where they come from."""
    configs = {"retention.ms": "123456", "cleanup.policy": "compact", "max.message.bytes": "2000000"}
    for version in (5, 7):
        _create(ask, create_topics({f"{ask.name}-v{version}": 1}, version, configs))


def topics_are_deleted_in_every_version(ask: Script) -> None:
    """By name, twice, unknown ones."""
    for version in range(1, 7):
        topic = ask.topic(f"v{version}")
        ask(delete_topics(topic.name, "no-such-topic", version=version))
        ask.until(metadata(topic.name), _is_gone)
        ask(delete_topics(topic.name, version=version))
    ask(delete_topics())


def topics_are_deleted_by_id(ask: Script) -> None:
    """Known ids, unknown ids, both at once."""
    one, two = ask.topic("one"), ask.topic("two")
    ask(delete_topic_ids(uuid.UUID(int=7)))
    ask(delete_topic_ids(one.id, uuid.UUID(int=7)))
    ask.until(metadata(one.name), _is_gone)
    ask(delete_topic_ids(one.id))
    both = [{"name": two.name, "topic_id": two.id}]
    ask(delete_topics().but(topics=both))
    ask(delete_topics().but(topics=[{"name": None, "topic_id": None}]))
    ask(delete_topics(two.name, two.name))
    ask(metadata(two.name))


def partitions_are_added(ask: Script) -> None:
    """More, as many, fewer, none; of a topic that is not there; only validated."""
    topic = ask.topic(partitions=2)
    for version in range(4):
        ask(create_partitions({topic.name: 2, "no-such-topic": 3}, version))
        ask(create_partitions({topic.name: 1}, version))
        ask(create_partitions({topic.name: 0}, version))
        ask(create_partitions({topic.name: -1}, version))
        ask(create_partitions({topic.name: 9}, version).but(validate_only=True))
        ask(create_partitions({topic.name: 3 + version}, version))
        ask.wait_for_partitions(topic, 3 + version)
    entry = {"name": topic.name, "count": 8}
    ask(create_partitions({}).but(topics=[entry | {"assignments": [{"broker_ids": [1]}]}]))
    ask(create_partitions({}).but(topics=[entry | {"assignments": [{"broker_ids": [1]}] * 2}]))
    ask(create_partitions({}).but(topics=[entry | {"assignments": [{"broker_ids": [77]}] * 2}]))
    ask(create_partitions({}).but(topics=[entry | {"assignments": None}] * 2))
    ask(create_partitions({}))
    ask(metadata(topic.name))


def metadata_in_every_version(ask: Script) -> None:
    """Of a topic that is there, one that is not, and of an id."""
    topic = ask.topic(partitions=2)
    for version in range(14):
        ask(metadata(topic.name, version=version))
        ask(metadata("no-such-topic", "bad name", version=version) if version >= 4 else metadata(topic.name))
    for version in (12, 13):
        by_id = [{"name": None, "topic_id": topic.id}, {"name": None, "topic_id": uuid.UUID(int=7)}]
        ask(metadata(version=version).but(topics=by_id))
        ask(metadata(version=version).but(topics=[]))
