"""Groups with members of both protocols: static members, members that leave or are late, what is refused."""

from __future__ import annotations

from typing import Any

from tests.differential.members import join_as_new, look, owned_by, reads
from tests.differential.requests import (
    GROUP,
    SET,
    alter_configs,
    assignment,
    beat,
    commit,
    create_partitions,
    delete_groups,
    delete_offsets,
    describe_consumer_groups,
    describe_groups,
    enter,
    fetch,
    heartbeat,
    join,
    leave,
    list_groups,
    subscription,
    sync,
)
from tests.differential.script import Script, Topic
from tests.differential.wire import Tree

PARTITIONS = 4


def _sync(ask: Script, joined: Tree, on: str = "classic", **more: Any) -> Tree:
    return ask(sync(ask.group, joined["member_id"], joined["generation_id"], **more), on)


def _both(ask: Script, topic: Topic, count: int = PARTITIONS, **more: Any) -> Tree:
    """One member of each protocol, both with what they are to have; the classic one's last join."""
    ask(enter(ask.group, "new", [topic.name]), "new")
    joined = join_as_new(ask, reads(topic), **more)
    instance = more.get("instance")
    _sync(ask, joined, group_instance_id=instance)
    kept = owned_by(ask(beat(ask.group, "new", 2, owned={topic.id: range(count)}), "new"))
    ask(beat(ask.group, "new", 2, owned=kept), "new")
    member = joined["member_id"]
    ask(heartbeat(ask.group, member, 3, instance=instance), "classic")
    joined = ask(join(ask.group, reads(topic), member=member, **more), "classic")
    _sync(ask, joined, group_instance_id=instance)
    return joined


def a_cooperative_member_lets_go_of_partitions(ask: Script) -> None:
    """It joins with what it has, is told what it keeps, and joins again with that."""
    topic = ask.topic(partitions=PARTITIONS)
    member = join_as_new(ask, reads(topic))["member_id"]
    everything = {member: assignment({topic.name: range(PARTITIONS)})}
    ask(sync(ask.group, member, 1, everything), "classic")
    ask(enter(ask.group, "new", [topic.name]), "new")
    ask(heartbeat(ask.group, member, 1), "classic")
    joined = ask(join(ask.group, reads(topic, range(PARTITIONS)), member=member), "classic")
    _sync(ask, joined)
    look(ask)
    ask(beat(ask.group, "new", 2, owned={}), "new")
    for partition in (0, 3):
        ask(commit(ask.group, {topic.name: {partition: 1}}, member=member, epoch=1))
    ask(heartbeat(ask.group, member, 1), "classic")
    joined = ask(join(ask.group, reads(topic, [0, 1]), member=member), "classic")
    _sync(ask, joined)
    ask(heartbeat(ask.group, member, 2), "classic")
    ask(beat(ask.group, "new", 2, owned={}), "new")
    for epoch in (1, 2):
        for partition in (0, 3):
            ask(commit(ask.group, {topic.name: {partition: epoch}}, member=member, epoch=epoch))
    look(ask)


def members_are_removed_by_an_administrator(ask: Script) -> None:
    """By id, by instance id, with the wrong id for an instance; the last new one makes the group classic."""
    topic, other = ask.topic(partitions=PARTITIONS), ask.topic("u")
    joined = _both(ask, topic, instance="i")
    member = joined["member_id"]
    ask(enter(ask.group, "static", [other.name], instance_id="j"), "new")
    ask(leave(ask.group, ("nobody", None), ("nobody", "i"), ("", "no-such-instance"), ("static", "i")))
    ask(leave(ask.group, ("", "j")))
    look(ask)
    ask(leave(ask.group, "new"))
    look(ask)
    ask(heartbeat(ask.group, member, 3, instance="i"), "classic")
    ask(leave(ask.group, ("", "i")))
    look(ask)


def all_members_leave_at_once(ask: Script) -> None:
    """What is left is empty, and of the type it was."""
    topic = ask.topic(partitions=PARTITIONS)
    joined = _both(ask, topic)
    ask(leave(ask.group, "new", joined["member_id"]))
    ask(describe_groups(ask.group))
    ask.only(list_groups(), "groups", "group_id", [ask.group])
    ask(join(ask.group, reads(topic), member=joined["member_id"]), "classic")


def a_classic_member_leaves_with_a_new_one(ask: Script) -> None:
    """The ones who stay are all classic, but so was one who left: nothing is converted."""
    topic = ask.topic(partitions=PARTITIONS)
    joined = _both(ask, topic)
    second = join_as_new(ask, reads(topic), "second")
    ask(leave(ask.group, "new", second["member_id"]))
    ask.only(list_groups(), "groups", "group_id", [ask.group])
    ask(join(ask.group, reads(topic), member=joined["member_id"]), "classic")


def the_session_of_the_last_new_member_ends(ask: Script) -> None:
    """The group is a classic one from then on."""
    topic = ask.topic(partitions=PARTITIONS)
    settings = {"consumer.session.timeout.ms": 1_000, "consumer.heartbeat.interval.ms": 500}
    ask(alter_configs(GROUP, ask.group, {name: (SET, str(value)) for name, value in settings.items()}))
    probe = enter(ask.group, "probe", [])
    ask.wait_until(probe, lambda answer: bool(answer["heartbeat_interval"] == 500))
    ask(beat(ask.group, "probe", -1))
    ask(delete_groups(ask.group))
    joined = _both(ask, topic)
    generation = joined["generation_id"]
    again = heartbeat(ask.group, joined["member_id"], generation)
    ask.until(again, lambda answer: answer["error_code"] == "rebalance_in_progress", "classic")
    look(ask)
    joined = ask(join(ask.group, reads(topic), member=joined["member_id"]), "classic")
    _sync(ask, joined, assignments={joined["member_id"]: b""})
    look(ask)


def the_session_of_the_last_classic_member_ends(ask: Script) -> None:
    """The others get what it had."""
    topic = ask.topic(partitions=PARTITIONS)
    _both(ask, topic, session_timeout=1_000)
    again = beat(ask.group, "new", 3, owned={topic.id: [0, 1]})
    ask.until(again, lambda answer: bool(answer["member_epoch"] == 4), "new")
    look(ask)


def a_classic_member_does_not_join_again(ask: Script) -> None:
    """Who was told to and has not after its rebalance timeout is out, however often it heartbeats."""
    count = 6  # as many for each of three members: who would have one more is chance, in Kafka too
    topic = ask.topic(partitions=count)
    joined = _both(ask, topic, count, rebalance_timeout=1_000)
    member, generation = joined["member_id"], joined["generation_id"]
    ask(enter(ask.group, "other", [topic.name]), "new")
    ask(heartbeat(ask.group, member, generation), "classic")
    ask.until(
        heartbeat(ask.group, member, generation),
        lambda answer: answer["error_code"] == "unknown_member_id",
        "classic",
    )
    ask(commit(ask.group, {topic.name: {3: 1}}, member=member, epoch=generation))
    look(ask)


def a_classic_member_does_not_sync(ask: Script) -> None:
    """Who has joined and does not ask for its assignment in its rebalance timeout is out."""
    topic = ask.topic(partitions=PARTITIONS)
    ask(enter(ask.group, "new", [topic.name]), "new")
    joined = join_as_new(ask, reads(topic), rebalance_timeout=1_000)
    ask.until(
        heartbeat(ask.group, joined["member_id"], joined["generation_id"]),
        lambda answer: answer["error_code"] == "unknown_member_id",
        "classic",
    )
    _sync(ask, joined)
    look(ask)


def static_members_change_their_protocol(ask: Script) -> None:
    """Each takes its own place at once; with the last of the new protocol the group is a classic one."""
    topic = ask.topic(partitions=PARTITIONS)
    ask(enter(ask.group, "a", [topic.name], instance_id="i"), "a")
    ask(enter(ask.group, "b", [topic.name], instance_id="j"), "b")
    kept = owned_by(ask(beat(ask.group, "a", 2, instance_id="i", owned={topic.id: range(PARTITIONS)}), "a"))
    ask(beat(ask.group, "a", 2, instance_id="i", owned=kept), "a")
    ask(beat(ask.group, "b", 3, instance_id="j", owned={}), "b")
    first = join_as_new(ask, reads(topic), "a", instance="i")
    _sync(ask, first, "a", group_instance_id="i")
    ask(beat(ask.group, "a", 3, instance_id="i"), "a")
    ask(beat(ask.group, "a", 3), "a")
    ask(heartbeat(ask.group, first["member_id"], 3, instance="i"), "a")
    ask(heartbeat(ask.group, "b", 3, instance="j"), "b")
    look(ask)
    second = join_as_new(ask, reads(topic), "b", instance="j")
    _sync(ask, second, "b", group_instance_id="j")
    look(ask)
    ask(heartbeat(ask.group, first["member_id"], 3, instance="i"), "a")
    ask(heartbeat(ask.group, second["member_id"], 3, instance="j"), "b")
    ask(commit(ask.group, {topic.name: {0: 1}}, member=first["member_id"], epoch=3, group_instance_id="i"))
    ask(enter(ask.group, "a", [topic.name], instance_id="i"), "a")
    ask(heartbeat(ask.group, first["member_id"], 3, instance="i"), "a")
    ask(heartbeat(ask.group, second["member_id"], 3, instance="j"), "b")
    look(ask)


def static_members_with_ids_that_are_not_theirs(ask: Script) -> None:
    """Who names an instance and an id has to be both."""
    topic = ask.topic(partitions=PARTITIONS)
    joined = _both(ask, topic, instance="i")
    member = joined["member_id"]
    ask(join(ask.group, reads(topic), member="nobody", instance="i"), "classic")
    ask(join(ask.group, reads(topic), member=member, instance="no-such-instance"), "classic")
    ask(sync(ask.group, "nobody", 3, group_instance_id="i"), "classic")
    ask(sync(ask.group, member, 3, group_instance_id="no-such-instance"), "classic")
    ask(heartbeat(ask.group, "nobody", 3, instance="i"), "classic")
    ask(heartbeat(ask.group, member, 3, instance="no-such-instance"), "classic")
    ask(heartbeat(ask.group, "new", 3), "classic")
    ask(heartbeat(ask.group, member, 3), "classic")
    ask(beat(ask.group, "other", -1, instance_id="i"), "new")
    ask(beat(ask.group, "other", -2, instance_id="i"), "new")
    ask(enter(ask.group, "other", [topic.name], instance_id="i"), "new")
    ask(heartbeat(ask.group, member, 3, instance="i"), "classic")


def a_static_member_that_is_away_comes_back_as_a_classic_one(ask: Script) -> None:
    """It left for a while in the new protocol; nobody else notices."""
    topic = ask.topic(partitions=PARTITIONS)
    ask(enter(ask.group, "a", [topic.name], instance_id="i"), "a")
    ask(enter(ask.group, "b", []), "b")
    ask(beat(ask.group, "a", -2, instance_id="i"), "a")
    joined = join_as_new(ask, reads(topic), "a", instance="i")
    _sync(ask, joined, "a", group_instance_id="i")
    ask(heartbeat(ask.group, joined["member_id"], joined["generation_id"], instance="i"), "a")
    look(ask)


def groups_that_are_full(ask: Script) -> None:
    """Five is the most there may be, whatever they speak."""
    topic = ask.topic(partitions=PARTITIONS)
    ask(enter(ask.group, "new", [topic.name]), "new")
    for number in range(4):
        ask(join(ask.group, reads(topic), member=f"classic-{number}"), "classic")
    ask(join(ask.group, reads(topic)), "classic")
    ask(join(ask.group, reads(topic), member="classic-4"), "classic")
    ask(join(ask.group, {"roundrobin": b""}, member="classic-4"), "classic")
    ask(join(ask.group, reads(topic), member="classic-3"), "classic")
    ask(enter(ask.group, "another", [topic.name]), "new")


def subscriptions_of_all_versions(ask: Script) -> None:
    """Version 0 says nothing of what is owned, 2 has a generation, 3 a rack; later ones begin as 3 does."""
    topic = ask.topic(partitions=PARTITIONS)
    ask(enter(ask.group, "new", [topic.name]), "new")
    base = subscription([topic.name], {topic.name: [0]})[2:]
    generation, rack = (7).to_bytes(4, "big"), b"\0\4here"
    for data in (
        subscription([topic.name], version=0),
        b"\0\2" + base + generation,
        b"\0\3" + base + generation + rack,
        b"\0\3" + base + generation + b"\xff\xff",
        b"\0\x09" + base + generation + rack + b"more",
    ):
        joined = join_as_new(ask, {"range": data})
        _sync(ask, joined)
        ask(describe_consumer_groups(ask.group))
        ask(leave(ask.group, joined["member_id"]))


def topics_grow_and_are_unknown(ask: Script) -> None:
    """A classic member hears of new partitions; what does not exist is owned by nobody."""
    topic = ask.topic(partitions=1)
    ask(enter(ask.group, "new", []), "new")
    reads = {"range": subscription([topic.name, "no-such-topic"], {"no-such-topic": [0, 1]})}
    joined = join_as_new(ask, reads)
    _sync(ask, joined)
    ask(beat(ask.group, "new", 1, owned={}), "new")
    ask(create_partitions({topic.name: 2}))
    ask.wait_for_partitions(topic, 2)
    ask.until(beat(ask.group, "new", 2), lambda answer: bool(answer["member_epoch"] == 3), "new")
    ask(heartbeat(ask.group, joined["member_id"], joined["generation_id"]), "classic")
    joined = ask(join(ask.group, reads, member=joined["member_id"]), "classic")
    _sync(ask, joined)
    look(ask)


def offsets_of_mixed_groups(ask: Script) -> None:
    """Committed, fetched and deleted in the words of both."""
    topic = ask.topic(partitions=PARTITIONS)
    joined = _both(ask, topic)
    member = joined["member_id"]
    for version in (2, 5, 8, 9):
        ask(commit(ask.group, {topic.name: {2: version}}, version, member=member, epoch=3))
        ask(commit(ask.group, {topic.name: {2: 1}}, version, member=member, epoch=2))
        ask(commit(ask.group, {topic.name: {2: 1}}, version, member=member, epoch=-1))
        ask(commit(ask.group, {topic.name: {0: version}}, version, member="new", epoch=3))
    ask(commit(ask.group, {topic.name: {2: 1}}))
    for epoch in (2, 3, 4):
        ask(fetch(ask.group, None, member_id=member, member_epoch=epoch))
    ask(delete_offsets(ask.group, {topic.name: [2]}))
    ask(delete_groups(ask.group))
    ask(fetch(ask.group, None))


def several_protocols(ask: Script) -> None:
    """A classic member has to have one that all classic members have, whatever the first one says."""
    topic = ask.topic(partitions=PARTITIONS)
    ask(enter(ask.group, "new", [topic.name]), "new")
    one, other = subscription([topic.name]), subscription([])
    ask(join(ask.group, {"range": one, "roundrobin": other}, member="a"), "classic")
    ask(join(ask.group, {"roundrobin": one}, member="b"), "classic")
    ask(join(ask.group, {"range": one}, member="c"), "classic")
    ask(join(ask.group, {"sticky": other, "roundrobin": one}, member="d"), "classic")
    ask(join(ask.group, {}, member="e"), "classic")
    ask(join(ask.group, {"range": one}, member="a"), "classic")
    ask(sync(ask.group, "d", 5, protocol_name="roundrobin"), "classic")
    ask(describe_consumer_groups(ask.group))


def a_dynamic_member_changes_its_protocol_under_its_id(ask: Script) -> None:
    """A member keeps its partitions except those that it must revoke; in both directions."""
    topic = ask.topic(partitions=PARTITIONS)
    ask(enter(ask.group, "a", [topic.name]), "a")
    ask(enter(ask.group, "b", []), "b")
    joined = ask(join(ask.group, reads(topic), member="a"), "a")
    _sync(ask, joined, "a")
    ask(beat(ask.group, "a", joined["generation_id"]), "a")
    ask(heartbeat(ask.group, "a", joined["generation_id"]), "a")
    ask(join(ask.group, reads(topic), member="a"), "a")
    ask(enter(ask.group, "a", [topic.name]), "a")
    ask(heartbeat(ask.group, "a", joined["generation_id"]), "a")
    look(ask)
