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
from tests.differential.share_requests import alter, beat, delete, describe, is_assigned, offsets


def _member(ask: Script, topic: Topic, group: str | None = None) -> int:
    """Member m joins and gets its partitions: its epoch."""
    group = group or ask.group
    ask(beat(group, "m", 0, topic.name))
    answer = ask.until(beat(group, "m", 2), is_assigned)
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
        ask(beat(ask.group, "m", 0, topic.name, **changes), note=str(sorted(changes)))
    for epoch in (-1, -2, -3, 1):
        ask(beat(ask.group, "m", epoch))
        ask(beat(ask.group, "", epoch))


def one_member_of_a_share_group(ask: Script) -> None:
    """It joins, beats, says its topics again, joins again, reads otherwise, and leaves."""
    one, two = ask.topic("one", 2), ask.topic("two", 1)
    epoch = _member(ask, one)
    ask(beat(ask.group, "m", epoch))
    ask(beat(ask.group, "m", epoch, one.name))
    ask(beat(ask.group, "m", epoch, rack_id="r"))
    ask(describe(ask.group))
    ask(beat(ask.group, "m", 0, one.name))
    ask(beat(ask.group, "m", 1))
    ask(beat(ask.group, "m", epoch + 9))
    ask(beat(ask.group, "other", epoch))
    ask(beat(ask.group, "m", epoch, one.name, two.name))
    ask.until(
        beat(ask.group, "m", 0, one.name, two.name),
        lambda answer: len(answer["assignment"]["topic_partitions"]) == 2,
    )
    ask(beat(ask.group, "m", -1))
    ask(beat(ask.group, "m", -1))
    ask(describe(ask.group))


def members_share_a_partition(ask: Script) -> None:
    """Both have it; one that leaves is gone."""
    topic = ask.topic()
    _member(ask, topic)
    ask(beat(ask.group, "n", 0, topic.name))
    ask(beat(ask.group, "m", 3))
    ask(describe(ask.group))
    ask(beat(ask.group, "m", -1))
    ask(describe(ask.group))


def a_topic_of_a_share_group_grows(ask: Script) -> None:
    """The new partition is initialized and assigned."""
    topic = ask.topic()
    _member(ask, topic)
    ask.learn_topics(create_partitions({topic.name: 2}))
    ask.wait_for_partitions(topic, 2)
    ask.until(
        beat(ask.group, "m", 0, topic.name),
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
    ask(describe(ask.group, "none-of-these"))
    ask(delete_groups(ask.group))
    simple, modern = ask.group + "-simple", ask.group + "-modern"
    ask(commit(simple, {topic.name: {0: 1}}))
    ask(beat(simple, "m", 0, topic.name))
    ask(describe(simple))
    ask(enter(modern, "c", [topic.name]))
    ask(beat(modern, "m", 0, topic.name))
    ask(describe(modern))
    ask(alter(modern, {topic.name: {0: 0}}))
    ask(delete(modern, topic.name))
    ask(offsets(modern))


def offsets_of_a_share_group(ask: Script) -> None:
    """Described, altered and deleted: with members, without, of an unknown group, of unknown topics."""
    topic = ask.topic("t", 2)
    none = ask.group + "-none"
    ask(offsets(none))
    ask(offsets(none, {topic.name: [0, 1]}))
    ask(offsets(none, {topic.name: [0]}, version=0))
    ask(delete(none, topic.name))
    _member(ask, topic)
    ask(offsets(ask.group))
    ask(alter(ask.group, {topic.name: {0: 0}}))
    ask(delete(ask.group, topic.name))
    ask(beat(ask.group, "m", -1))
    ask(alter(ask.group, {topic.name: {0: 0, 9: 0}, "not-there": {0: 0}}))
    ask(offsets(ask.group))
    ask(describe(ask.group))
    ask(delete(ask.group, topic.name, "not-there"))
    ask(offsets(ask.group))
    ask(delete(ask.group, topic.name))
    ask(delete(ask.group))


def a_share_group_that_offsets_create(ask: Script) -> None:
    """Altering the offsets of an unknown group creates it."""
    topic = ask.topic()
    ask(alter(ask.group, {topic.name: {0: 0}}))
    ask(offsets(ask.group))
    ask(describe(ask.group))
    ask(delete_groups(ask.group))
    ask(describe(ask.group))


def a_share_group_is_deleted(ask: Script) -> None:
    """When it is empty; then it begins anew."""
    topic = ask.topic()
    _member(ask, topic)
    ask(delete_groups(ask.group))
    ask(beat(ask.group, "m", -1))
    ask(delete_groups(ask.group))
    ask(delete_groups(ask.group))
    ask(offsets(ask.group))
    _member(ask, topic)


def settings_of_a_share_group(ask: Script) -> None:
    """Which values are accepted."""
    for name, values in {
        "share.heartbeat.interval.ms": ("499", "500", "15000", "15001"),
        "share.session.timeout.ms": ("999", "60000", "60001"),
        "share.record.lock.duration.ms": ("999", "1000", "60000", "60001"),
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
    ask(beat(ask.group, "m", -1))
    ask(delete_topics(topic.name))
    ask.until(offsets(ask.group), lambda answer: not answer["groups"][0]["topics"])
