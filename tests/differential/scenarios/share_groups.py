"""Share groups: who is let in, what epochs there are, whose offsets change, what other protocols hear."""

from __future__ import annotations

from typing import Any

from tests.differential.requests import (
    DELETE,
    GROUP,
    SET,
    alter_configs,
    commit,
    create_partitions,
    delete_groups,
    delete_offsets,
    delete_topics,
    describe_consumer_groups,
    describe_groups,
    enter,
    fetch,
    join,
)
from tests.differential.script import Script, Topic
from tests.differential.wire import Request, Tree


def _beat(group: str, member: str, epoch: int, *topics: str, **more: Any) -> Request:
    values = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "subscribed_topic_names": list(topics) or None,
    }
    return Request("share_group_heartbeat", 1, values | more)


def _describe(*groups: str) -> Request:
    values = {"group_ids": list(groups), "include_authorized_operations": False}
    return Request("share_group_describe", 1, values)


def _offsets(group: str, topics: dict[str, list[int]] | None = None, version: int = 1) -> Request:
    asked = None
    if topics is not None:
        asked = [{"topic_name": name, "partitions": partitions} for name, partitions in topics.items()]
    values = {"groups": [{"group_id": group, "topics": asked}]}
    return Request("describe_share_group_offsets", version, values)


def _alter(group: str, topics: dict[str, dict[int, int]]) -> Request:
    altered = [
        {
            "topic_name": name,
            "partitions": [{"partition_index": one, "start_offset": start} for one, start in starts.items()],
        }
        for name, starts in topics.items()
    ]
    return Request("alter_share_group_offsets", 0, {"group_id": group, "topics": altered})


def _delete(group: str, *topics: str) -> Request:
    values = {"group_id": group, "topics": [{"topic_name": name} for name in topics]}
    return Request("delete_share_group_offsets", 0, values)


def _is_assigned(answer: Tree) -> bool:
    return bool(answer["assignment"] and answer["assignment"]["topic_partitions"])


def _member(ask: Script, topic: Topic, group: str | None = None) -> int:
    """Member m joins and gets its partitions: its epoch."""
    group = group or ask.group
    ask(_beat(group, "m", 0, topic.name))
    answer = ask.until(_beat(group, "m", 2), _is_assigned)
    epoch: int = answer["member_epoch"]
    return epoch


def what_is_wrong_with_a_share_heartbeat(ask: Script) -> None:
    """Every check of the request itself, one at a time, and what comes first when two fail."""
    topic = ask.topic()
    wrong: tuple[dict[str, Any], ...] = (
        {"member_id": ""},
        {"group_id": ""},
        {"rack_id": ""},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"member_id": "m" * 37},
        {"group_id": "", "member_id": ""},
        {"rack_id": "", "subscribed_topic_names": None},
    )
    for changes in wrong:
        ask(_beat(ask.group, "m", 0, topic.name, **changes), note=str(sorted(changes)))
    for epoch in (-1, -2, -3, 1):
        ask(_beat(ask.group, "m", epoch))
        ask(_beat(ask.group, "", epoch))


def one_member_of_a_share_group(ask: Script) -> None:
    """It joins, beats, says its topics again, joins again, reads otherwise, and leaves."""
    one, two = ask.topic("one", 2), ask.topic("two", 1)
    epoch = _member(ask, one)
    ask(_beat(ask.group, "m", epoch))
    ask(_beat(ask.group, "m", epoch, one.name))
    ask(_beat(ask.group, "m", epoch, rack_id="r"))
    ask(_describe(ask.group))
    ask(_beat(ask.group, "m", 0, one.name))
    ask(_beat(ask.group, "m", 1))
    ask(_beat(ask.group, "m", epoch + 9))
    ask(_beat(ask.group, "other", epoch))
    ask(_beat(ask.group, "m", epoch, one.name, two.name))
    ask.until(
        _beat(ask.group, "m", 0, one.name, two.name),
        lambda answer: len(answer["assignment"]["topic_partitions"]) == 2,
    )
    ask(_beat(ask.group, "m", -1))
    ask(_beat(ask.group, "m", -1))
    ask(_describe(ask.group))


def members_share_a_partition(ask: Script) -> None:
    """Both have it; one that leaves is gone."""
    topic = ask.topic()
    _member(ask, topic)
    ask(_beat(ask.group, "n", 0, topic.name))
    ask(_beat(ask.group, "m", 3))
    ask(_describe(ask.group))
    ask(_beat(ask.group, "m", -1))
    ask(_describe(ask.group))


def a_topic_of_a_share_group_grows(ask: Script) -> None:
    """The new partition is initialized and assigned."""
    topic = ask.topic()
    _member(ask, topic)
    ask.learn_topics(create_partitions({topic.name: 2}))
    ask.wait_for_partitions(topic, 2)
    ask.until(
        _beat(ask.group, "m", 0, topic.name),
        lambda answer: answer["assignment"]["topic_partitions"][0]["partitions"] in ((0, 1), [0, 1]),
    )


def what_other_protocols_hear_of_a_share_group(ask: Script) -> None:
    """In joins, commits, fetches, deletions and descriptions; and the other way round."""
    topic = ask.topic()
    _member(ask, topic)
    ask(join(ask.group))
    ask(enter(ask.group, "c", [topic.name]))
    ask(commit(ask.group, {topic.name: {0: 1}}))
    ask(fetch(ask.group, {topic.name: [0]}))
    ask(delete_offsets(ask.group, {topic.name: [0]}))
    ask(describe_groups(ask.group))
    ask(describe_consumer_groups(ask.group))
    ask(_describe(ask.group, "none-of-these"))
    ask(delete_groups(ask.group))
    simple, modern = ask.group + "-simple", ask.group + "-modern"
    ask(commit(simple, {topic.name: {0: 1}}))
    ask(_beat(simple, "m", 0, topic.name))
    ask(_describe(simple))
    ask(enter(modern, "c", [topic.name]))
    ask(_beat(modern, "m", 0, topic.name))
    ask(_describe(modern))
    ask(_alter(modern, {topic.name: {0: 0}}))
    ask(_delete(modern, topic.name))
    ask(_offsets(modern))


def offsets_of_a_share_group(ask: Script) -> None:
    """Described, altered and deleted: with members, without, of an unknown group, of unknown topics."""
    topic = ask.topic("t", 2)
    none = ask.group + "-none"
    ask(_offsets(none))
    ask(_offsets(none, {topic.name: [0, 1]}))
    ask(_offsets(none, {topic.name: [0]}, version=0))
    ask(_delete(none, topic.name))
    _member(ask, topic)
    ask(_offsets(ask.group))
    ask(_alter(ask.group, {topic.name: {0: 0}}))
    ask(_delete(ask.group, topic.name))
    ask(_beat(ask.group, "m", -1))
    ask(_alter(ask.group, {topic.name: {0: 0, 9: 0}, "not-there": {0: 0}}))
    ask(_offsets(ask.group))
    ask(_describe(ask.group))
    ask(_delete(ask.group, topic.name, "not-there"))
    ask(_offsets(ask.group))
    ask(_delete(ask.group, topic.name))
    ask(_delete(ask.group))


def a_share_group_that_offsets_create(ask: Script) -> None:
    """Altering the offsets of an unknown group creates it."""
    topic = ask.topic()
    ask(_alter(ask.group, {topic.name: {0: 0}}))
    ask(_offsets(ask.group))
    ask(_describe(ask.group))
    ask(delete_groups(ask.group))
    ask(_describe(ask.group))


def a_share_group_is_deleted(ask: Script) -> None:
    """When it is empty; then it begins anew."""
    topic = ask.topic()
    _member(ask, topic)
    ask(delete_groups(ask.group))
    ask(_beat(ask.group, "m", -1))
    ask(delete_groups(ask.group))
    ask(delete_groups(ask.group))
    ask(_offsets(ask.group))
    _member(ask, topic)


def settings_of_a_share_group(ask: Script) -> None:
    """Which values are accepted."""
    for name, values in {
        "share.heartbeat.interval.ms": ("4999", "5000", "15000", "15001"),
        "share.session.timeout.ms": ("44999", "60000", "60001"),
        "share.record.lock.duration.ms": ("14999", "15000", "60000", "60001"),
        "share.delivery.count.limit": ("1", "2", "10", "11"),
        "share.partition.max.record.locks": ("99", "100", "4000", "4001"),
        "share.auto.offset.reset": (
            "latest",
            "earliest",
            "none",
            "by_duration:PT1H",
            "by_duration:1h",
            "by_duration:-PT1H",
        ),
        "share.isolation.level": ("read_committed", "read_uncommitted", "serializable"),
        "share.renew.acknowledge.enable": ("true", "false", "maybe"),
    }.items():
        for value in values:
            ask(alter_configs(GROUP, ask.group, {name: (SET, value)}), note=value)
        ask(alter_configs(GROUP, ask.group, {name: (DELETE, None)}))


def a_deleted_topic_of_a_share_group(ask: Script) -> None:
    """Its offsets are not described any more."""
    topic = ask.topic()
    _member(ask, topic)
    ask(_beat(ask.group, "m", -1))
    ask(delete_topics(topic.name))
    ask.until(_offsets(ask.group), lambda answer: not answer["groups"][0]["topics"])
