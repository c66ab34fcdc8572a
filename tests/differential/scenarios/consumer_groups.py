"""Groups that the server balances: who is let in, what moves when, what is fenced, whose commits count."""

from __future__ import annotations

import time
from typing import Any

from tests.differential.requests import (
    DELETE,
    GROUP,
    SET,
    alter_configs,
    beat,
    commit,
    create_partitions,
    delete_groups,
    delete_offsets,
    delete_topics,
    describe_consumer_groups,
    describe_groups,
    enter,
    fetch,
    heartbeat,
    join,
    leave,
    sync,
)
from tests.differential.script import Script, Topic

COORDINATORS_DELAY_S = 0.5
"""Kafka's group coordinator hears of what changes a little later than everybody else."""


def what_is_wrong_with_a_heartbeat(ask: Script) -> None:
    """Every check of the request itself, one at a time, and what comes first when two fail."""
    topic = ask.topic()
    for version in (0, 1):
        for changes in (
            {"member_id": ""},
            {"group_id": ""},
            {"instance_id": ""},
            {"rack_id": ""},
            {"rebalance_timeout": -1},
            {"owned": None},
            {"owned": {topic.id: [0]}},
            {"subscribed_topic_names": None},
            {"server_assignor": "other"},
            {"server_assignor": ""},
            {"member_id": "", "server_assignor": "other"},
            {"owned": None, "server_assignor": "other"},
        ):
            if version == 0 and changes.get("member_id") == "" and "server_assignor" not in changes:
                continue  # a valid join: the id is made by the broker, and is no part of a story
            ask(enter(ask.group, "m", [topic.name], version, **changes), note=str(sorted(changes)))
    for epoch in (-1, -2, -3, 1):
        ask(beat(ask.group, "m", epoch))
        ask(beat(ask.group, "", epoch))
        ask(beat(ask.group, "m", epoch, instance_id="i"))
        ask(beat(ask.group, "m", epoch, server_assignor="other"))


def one_member(ask: Script) -> None:
    """It joins, beats, says everything, joins again, reads otherwise, and leaves."""
    one, two = ask.topic("one", 3), ask.topic("two", 2)
    ask(enter(ask.group, "m", [one.name]))
    everything = {one.id: [0, 1, 2]}
    ask(beat(ask.group, "m", 2, owned=everything))
    ask(beat(ask.group, "m", 2))
    full: dict[str, Any] = {
        "owned": everything,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": [one.name],
    }
    ask(beat(ask.group, "m", 2, **full))
    ask(enter(ask.group, "m", [one.name]))
    ask(describe_consumer_groups(ask.group))
    ask(beat(ask.group, "m", 2, subscribed_topic_names=[two.name, one.name], owned=everything))
    ask(beat(ask.group, "m", 3, subscribed_topic_names=[two.name], owned=everything | {two.id: [0, 1]}))
    ask(beat(ask.group, "m", 3, owned={two.id: [0, 1]}))
    ask(describe_consumer_groups(ask.group))
    ask(beat(ask.group, "m", -1))
    ask(beat(ask.group, "m", -1))
    ask(beat(ask.group, "m", 4))
    ask(describe_consumer_groups(ask.group))
    ask(enter(ask.group, "n", [one.name]))
    ask(describe_consumer_groups(ask.group))


def a_member_that_reads_nothing(ask: Script) -> None:
    """No names, an empty expression, a topic that is not there."""
    ask(enter(ask.group, "m", [], subscribed_topic_regex=""))
    ask(describe_consumer_groups(ask.group))
    ask(beat(ask.group, "m", 1))
    ask(enter(ask.group, "n", ["no-such-topic"]))
    ask(describe_consumer_groups(ask.group))
    ask(enter(f"{ask.group}-2", "m", []))


def _shared(ask: Script) -> tuple[Topic, list[int], int]:
    """Members a and b share two partitions in epoch 3: the topic, what a kept, and what moved to b."""
    topic = ask.topic(partitions=2)
    ask(enter(ask.group, "a", [topic.name]))
    ask(enter(ask.group, "b", [topic.name]))
    answer = ask(beat(ask.group, "a", 2, owned={topic.id: [0, 1]}))
    kept = answer["assignment"]["topic_partitions"][0]["partitions"]
    ask(beat(ask.group, "b", 3, owned={}))
    ask(describe_consumer_groups(ask.group))
    ask(beat(ask.group, "a", 2, owned={topic.id: kept}))
    ask(beat(ask.group, "b", 3, owned={}))
    ask(describe_consumer_groups(ask.group))
    (moved,) = {0, 1} - set(kept)
    return topic, kept, moved


def a_partition_moves(ask: Script) -> None:
    """Two members share what one had; then one of them leaves."""
    topic, _, moved = _shared(ask)
    ask(beat(ask.group, "a", -1))
    ask(beat(ask.group, "b", 3, owned={topic.id: [moved]}))
    ask(describe_consumer_groups(ask.group))


def epochs_that_are_fenced(ask: Script) -> None:
    """Too new, too old, and the one before with too much."""
    topic, kept, _ = _shared(ask)
    for epoch in (4, 1):
        ask(beat(ask.group, "a", epoch, owned={topic.id: kept}))
    for owned in ({}, {topic.id: kept}, None, {topic.id: [0, 1]}):
        ask(beat(ask.group, "a", 2, owned=owned))
    ask(beat(ask.group, "a", 3, owned={topic.id: [0, 1]}))
    ask(beat(ask.group, "nobody", 3, owned={}))


def commits_of_members(ask: Script) -> None:
    """By epoch, for what was kept, what moved, both, and by nobody (KIP-1251)."""
    topic, kept, moved = _shared(ask)
    for epoch in (2, 3, 4, 1, 0, -1, -2):
        for partitions in (kept, [moved], [*kept, moved]):
            ask(commit(ask.group, {topic.name: dict.fromkeys(partitions, 7)}, 9, member="a", epoch=epoch))
    for member, epoch in (("nobody", 3), ("", -1), ("", 3)):
        ask(commit(ask.group, {topic.name: {0: 8}}, 9, member=member, epoch=epoch))
    for version in (2, 5, 8):
        ask(commit(ask.group, {topic.name: {0: 8}}, version, member="a", epoch=3))
        ask(commit(ask.group, {topic.name: {0: 8}}, version, member="nobody", epoch=3))
    ask(fetch(ask.group, None))


def fetches_of_members(ask: Script) -> None:
    """Only in the present epoch."""
    topic, _, _ = _shared(ask)
    ask(commit(ask.group, {topic.name: {0: 7}}, 9, member="a", epoch=3))
    for member, epoch in (("a", 3), ("a", 2), ("a", 4), ("nobody", 3), ("a", -1), ("", -1), (None, -1)):
        ask(fetch(ask.group, {topic.name: [0]}, member_id=member, member_epoch=epoch))


def a_commit_before_a_revocation(ask: Script) -> None:
    """Partitions pending revocation still belong to the member."""
    topic = ask.topic(partitions=2)
    ask(enter(ask.group, "a", [topic.name]))
    ask(enter(ask.group, "b", [topic.name]))
    ask(beat(ask.group, "a", 2, owned={topic.id: [0, 1]}))
    for epoch in (1, 2, 3):
        ask(commit(ask.group, {topic.name: {0: 5, 1: 6}}, 9, member="a", epoch=epoch))


def an_empty_group(ask: Script) -> None:
    """Who may commit, and that it can be deleted."""
    topic = ask.topic()
    ask(enter(ask.group, "m", [topic.name]))
    ask(commit(ask.group, {topic.name: {0: 5}}, 9, member="m", epoch=2))
    ask(delete_groups(ask.group))
    ask(delete_offsets(ask.group, {topic.name: [0]}))
    ask(beat(ask.group, "m", -1))
    for member, epoch in (("", -1), ("m", -1), ("m", 2), ("", 2)):
        ask(commit(ask.group, {topic.name: {0: 6}}, 9, member=member, epoch=epoch))
    ask(delete_offsets(ask.group, {topic.name: [0]}))
    ask(delete_groups(ask.group))
    ask(describe_consumer_groups(ask.group))
    ask(fetch(ask.group, None))


def static_members(ask: Script) -> None:
    """Away and back, while somebody else tries; then for good."""
    topic = ask.topic(partitions=2)
    me: dict[str, Any] = {"instance_id": "i"}
    ask(enter(ask.group, "s", [topic.name], **me))
    ask(enter(ask.group, "x", [topic.name], **me))
    ask(beat(ask.group, "x", 2, **me))
    ask(beat(ask.group, "x", -2, **me))
    ask(beat(ask.group, "x", -1, **me))
    ask(beat(ask.group, "s", 2, instance_id="j"))
    ask(beat(ask.group, "s", -2, **me))
    ask(describe_consumer_groups(ask.group))
    ask(commit(ask.group, {topic.name: {0: 5}}, 9, member="s", epoch=-2))
    ask(commit(ask.group, {topic.name: {0: 5}}, 9, member="s", epoch=2))
    ask(beat(ask.group, "s", -2, **me))
    ask(beat(ask.group, "s", 2, **me))
    ask(enter(ask.group, "s2", [topic.name], **me))
    ask(describe_consumer_groups(ask.group))
    ask(commit(ask.group, {topic.name: {0: 5}}, 9, member="s2", epoch=1))
    ask(commit(ask.group, {topic.name: {0: 5}}, 9, member="s", epoch=2))
    ask(enter(ask.group, "s2", [topic.name], **me), note="its first answer was lost")
    ask(beat(ask.group, "s2", -1, **me))
    ask(describe_consumer_groups(ask.group))


def expressions(ask: Script) -> None:
    """Topics by a regular expression, which has to match whole names."""
    topic = ask.topic("abc", 2)
    ask(enter(ask.group, "m", None, subscribed_topic_regex=f"{ask.name}-a.c"))
    ask.until(beat(ask.group, "m", 1, owned={}), lambda answer: answer["member_epoch"] == 2)
    ask(describe_consumer_groups(ask.group))
    ask(enter(ask.group, "n", None, subscribed_topic_regex="("))
    ask(enter(f"{ask.group}-2", "m", None, subscribed_topic_regex=f"{ask.name}-a"))
    ask(enter(ask.group, "p", [topic.name], subscribed_topic_regex=""))


def the_assignor_of_the_majority(ask: Script) -> None:
    """Two topics shared by ranges, then uniformly."""
    one, two = ask.topic("one", 3), ask.topic("two", 3)
    names = [one.name, two.name]
    ask(enter(ask.group, "a", names, server_assignor="range"))
    ask(enter(ask.group, "b", names, server_assignor="range"))
    ask(describe_consumer_groups(ask.group))


def classic_requests_to_its_members(ask: Script) -> None:
    """They are none of that protocol, but may be removed by it."""
    topic = ask.topic()
    ask(enter(ask.group, "m", [topic.name]))
    ask(heartbeat(ask.group, "m", 2))
    ask(sync(ask.group, "m", 2))
    ask(describe_groups(ask.group))
    ask(describe_groups(ask.group, version=5))
    ask(leave(ask.group, "nobody", "m"))
    ask(describe_consumer_groups(ask.group))


def from_one_type_to_another(ask: Script) -> None:
    """An empty group changes with its first member; offsets stay."""
    topic = ask.topic()
    ask(commit(ask.group, {topic.name: {0: 5}}))
    ask(describe_consumer_groups(ask.group))
    ask(beat(ask.group, "m", 1))
    ask(enter(ask.group, "m", [topic.name]))
    ask(fetch(ask.group, None))
    ask(beat(ask.group, "m", -1))
    ask(join(ask.group, version=3))
    ask(fetch(ask.group, None))
    ask(describe_consumer_groups(ask.group))


def topics_that_change(ask: Script) -> None:
    """More partitions, a topic that comes into being, one that goes: each raises the epoch."""
    one = ask.topic("one", 1)
    ask(enter(ask.group, "m", [one.name, f"{ask.name}-two"]))
    ask(create_partitions({one.name: 3}))
    ask.wait_for_partitions(one, 3)
    time.sleep(COORDINATORS_DELAY_S)
    ask(beat(ask.group, "m", 2, owned={one.id: [0]}))
    two = ask.topic("two", 1)
    ask(beat(ask.group, "m", 3, owned={one.id: [0, 1, 2]}))
    ask(delete_topics(one.name))
    time.sleep(COORDINATORS_DELAY_S)
    ask(describe_consumer_groups(ask.group))
    ask(beat(ask.group, "m", 4, owned={one.id: [0, 1, 2], two.id: [0]}))
    ask(commit(ask.group, {two.name: {0: 5}}, 9, member="m", epoch=4))
    ask(beat(ask.group, "m", 4, owned={two.id: [0]}))
    ask(describe_consumer_groups(ask.group))


def settings_of_a_group(ask: Script) -> None:
    """A heartbeat interval of its own, and values that are refused."""
    topic = ask.topic()
    ask(enter(ask.group, "m", [topic.name]))
    for name, value in (
        ("consumer.heartbeat.interval.ms", "7000"),
        ("consumer.heartbeat.interval.ms", "499"),
        ("consumer.heartbeat.interval.ms", "15001"),
        ("consumer.session.timeout.ms", "999"),
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.session.timeout.ms", "abc"),
        ("consumer.assignment.interval.ms", "15001"),
        ("no.such.setting", "1"),
    ):
        ask(alter_configs(GROUP, ask.group, {name: (SET, value)}), note=f"{name}={value}")
    time.sleep(COORDINATORS_DELAY_S)
    ask(beat(ask.group, "m", 2))
    ask(alter_configs(GROUP, ask.group, {"consumer.heartbeat.interval.ms": (DELETE, None)}))
    time.sleep(COORDINATORS_DELAY_S)
    ask(beat(ask.group, "m", 2))


def three_members(ask: Script) -> None:
    """Who waits for whom, in every step until all are stable, and after one of them left."""
    topic = ask.topic(partitions=6)
    owned: dict[str, dict[Any, Any]] = {}
    epochs: dict[str, int] = {}

    def step(member: str) -> None:
        if member in epochs:
            answer = ask(beat(ask.group, member, epochs[member], owned=owned[member]), note=member)
        else:
            answer = ask(enter(ask.group, member, [topic.name]), note=member)
            owned[member] = {}
        epochs[member] = answer["member_epoch"]
        if answer["assignment"] is not None:
            given = answer["assignment"]["topic_partitions"]
            owned[member] = {one["topic_id"]: one["partitions"] for one in given}

    for member in ("a", "b", "c", "a", "b", "c", "a", "b", "c", "a", "b", "c"):
        step(member)
    ask(describe_consumer_groups(ask.group))
    ask(beat(ask.group, "b", -1))
    for member in ("a", "c", "a", "c", "a", "c"):
        step(member)
    ask(describe_consumer_groups(ask.group))


def a_classic_group_with_members_of_another_kind(ask: Script) -> None:
    """Its members are no consumers: a member of the new protocol cannot come in."""
    topic = ask.topic()
    joined = ask(join(ask.group, version=3, protocol_type="connect"))
    ask(enter(ask.group, "m", [topic.name]))
    ask(beat(ask.group, "m", 1))
    ask(describe_consumer_groups(ask.group))
    ask(heartbeat(ask.group, joined["member_id"], 1))


def an_answer_that_was_lost(ask: Script) -> None:
    """The same request again: nothing more happens, and a full one is told everything."""
    topic = ask.topic(partitions=2)
    ask(enter(ask.group, "a", [topic.name]))
    ask(enter(ask.group, "a", [topic.name]))
    ask(enter(ask.group, "b", [topic.name]))
    first = ask(beat(ask.group, "a", 2, owned={topic.id: [0, 1]}))
    ask(beat(ask.group, "a", 2, owned={topic.id: [0, 1]}))
    kept = first["assignment"]["topic_partitions"][0]["partitions"]
    ask(beat(ask.group, "a", 2, owned={topic.id: kept}))
    ask(beat(ask.group, "a", 2, owned={topic.id: kept}))
    full: dict[str, Any] = {"rebalance_timeout": 10_000, "subscribed_topic_names": [topic.name]}
    ask(beat(ask.group, "a", 2, owned={topic.id: kept}, **full))
    ask(beat(ask.group, "b", 3, owned={}, **full))
    ask(describe_consumer_groups(ask.group))
