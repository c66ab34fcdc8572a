"""Members of groups of the new protocol: what they hear as others come, go, stay away, read otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from tests.differential.members import owned_by
from tests.differential.requests import (
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
    leave,
    list_groups,
    sync,
)
from tests.differential.script import Script, Topic
from tests.differential.wire import Tree

MATCHING_S = 0.5
"""Enough for an expression to be matched where nothing tells when it is."""


def _is_empty(answer: Tree) -> bool:
    return bool(answer["groups"][0]["group_state"] == "Empty")


def _has_partitions(answer: Tree) -> bool:
    return bool(answer["assignment"] and answer["assignment"]["topic_partitions"])


def _look(ask: Script) -> None:
    ask(describe_consumer_groups(ask.group))


def members_of_groups_that_are_not(ask: Script) -> None:
    """Heartbeats of members that no group has."""
    topic = ask.topic()
    for epoch in (1, 5, -1):
        ask(beat(ask.group, "m", epoch))
    ask(beat(ask.group, "m", -2, instance_id="i"))
    ask(enter(ask.group, "m", [topic.name]))
    for epoch in (1, 5, -1):
        ask(beat(ask.group, "nobody", epoch))
        ask(beat(ask.group, "nobody", epoch, instance_id="no-such-instance"))
    ask(beat(ask.group, "nobody", -2, instance_id="no-such-instance"))


def version_zero_names_its_members(ask: Script) -> None:
    """A member without an id is given one, and is known by it from then on."""
    topic = ask.topic(partitions=2)
    answer = ask(enter(ask.group, "", [topic.name], 0))
    member = answer["member_id"]
    ask(beat(ask.group, member, answer["member_epoch"], 0, owned={topic.id: [0, 1]}))
    ask(beat(ask.group, member, answer["member_epoch"], 1))
    _look(ask)
    ask(beat(ask.group, member, -1, 0))


def a_second_member_joins(ask: Script) -> None:
    """A member with too many partitions revokes some; the other member gets them when they are free."""
    topic = ask.topic(partitions=4)
    everything = {topic.id: [0, 1, 2, 3]}
    ask(enter(ask.group, "a", [topic.name]))
    ask(beat(ask.group, "a", 2, owned=everything))
    ask(enter(ask.group, "b", [topic.name]), "b")
    _look(ask)
    ask(beat(ask.group, "b", 3, owned={}), "b", note="nothing is free yet")
    kept = owned_by(ask(beat(ask.group, "a", 2)))
    _look(ask)
    ask(beat(ask.group, "a", 2, owned=everything), note="still has all of it")
    ask(beat(ask.group, "a", 2), note="says nothing")
    ask(beat(ask.group, "b", 3, owned={}), "b")
    ask(beat(ask.group, "a", 2, owned=kept), note="has revoked")
    _look(ask)
    got = owned_by(ask(beat(ask.group, "b", 3, owned={}), "b"))
    ask(beat(ask.group, "b", 3, owned=got), "b")
    _look(ask)
    ask(beat(ask.group, "b", -1), "b")
    ask(beat(ask.group, "a", 3))
    _look(ask)


def a_member_joins_again_while_it_is_in(ask: Script) -> None:
    """With epoch 0 and no owned partitions it starts again."""
    topic = ask.topic(partitions=4)
    ask(enter(ask.group, "a", [topic.name]))
    ask(enter(ask.group, "b", [topic.name]), "b")
    ask(enter(ask.group, "a", [topic.name]), note="which gives up all it had")
    _look(ask)
    ask(beat(ask.group, "b", 3, owned={}), "b")
    ask(enter(ask.group, "a", [topic.name], rebalance_timeout=1234))
    _look(ask)


def _shorten_sessions(ask: Script, session_timeout_ms: int) -> None:
    """Give the group a session timeout, and wait until its coordinator knows."""
    settings = {"consumer.session.timeout.ms": session_timeout_ms, "consumer.heartbeat.interval.ms": 500}
    ask(alter_configs(GROUP, ask.group, {name: (SET, str(value)) for name, value in settings.items()}))
    probe = enter(ask.group, "probe", [])
    ask.until(probe, lambda answer: answer["heartbeat_interval"] == 500)
    ask(beat(ask.group, "probe", -1))


def who_does_not_let_go_is_removed(ask: Script) -> None:
    """After its rebalance timeout; then the other gets all."""
    topic = ask.topic(partitions=2)
    ask(enter(ask.group, "a", [topic.name], rebalance_timeout=1_000))
    ask(enter(ask.group, "b", [topic.name]), "b")
    ask(beat(ask.group, "a", 2, owned={topic.id: [0, 1]}))
    ask.until(beat(ask.group, "b", 3, owned={}), lambda answer: _has_partitions(answer), "b")
    ask(beat(ask.group, "a", 2, owned={topic.id: [0, 1]}))
    _look(ask)


def sessions_end(ask: Script) -> None:
    """By a session timeout of the group's own: who is silent is removed, and the group may be empty."""
    topic = ask.topic(partitions=2)
    _shorten_sessions(ask, 1_000)
    ask(enter(ask.group, "a", [topic.name]))
    ask.until(describe_consumer_groups(ask.group), _is_empty)
    ask(beat(ask.group, "a", 2))
    ask(commit(ask.group, {topic.name: {0: 1}}, member="a", epoch=2), note="while nobody is in")
    ask(enter(ask.group, "a", [topic.name]))
    _look(ask)


def subscriptions_change(ask: Script) -> None:
    """To another topic, to both, to one that does not exist, to none."""
    one, two = ask.topic("one", 2), ask.topic("two", 2)
    ask(enter(ask.group, "a", [one.name]))
    held: dict[Any, list[int]] = {one.id: [0, 1]}
    epoch = 2
    for names in (
        [one.name],
        [two.name],
        [two.name, one.name],
        [one.name, two.name],
        [one.name, one.name, two.name],
        ["no-such-topic"],
        [],
        ["no-such-topic", two.name],
    ):
        for request in (
            beat(ask.group, "a", epoch, owned=held, subscribed_topic_names=names),
            beat(ask.group, "a", epoch, owned=held),
        ):
            answer = ask(request.but(member_epoch=epoch))
            epoch = answer["member_epoch"]
            if answer["assignment"] is not None:
                held = owned_by(answer)
                ask(beat(ask.group, "a", epoch, owned=held))
        _look(ask)


def members_read_different_topics(ask: Script) -> None:
    """Each gets what it reads, with both assignors."""
    one, two = ask.topic("one", 3), ask.topic("two", 3)
    for assignor in ("range", "uniform"):
        ask.group = f"{ask.name}-{assignor}"
        ask(enter(ask.group, "a", [one.name], server_assignor=assignor), "a")
        ask(enter(ask.group, "b", [two.name], server_assignor=assignor), "b")
        _look(ask)
    ask.group = f"{ask.name}-both"
    ask(enter(ask.group, "a", [one.name], server_assignor="range"), "a")
    ask(enter(ask.group, "b", [one.name, two.name], server_assignor="range"), "b")
    ask(enter(ask.group, "c", [two.name], server_assignor="range"), "c")
    ask(beat(ask.group, "a", 2, owned={one.id: [0, 1, 2]}), "a")
    _look(ask)


def some_members_read_more_topics(ask: Script) -> None:
    """The uniform assignor balances as far as the subscriptions allow."""
    one, two = ask.topic("one", 3), ask.topic("two", 3)
    ask(enter(ask.group, "a", [one.name]), "a")
    ask(enter(ask.group, "b", [one.name, two.name]), "b")
    ask(enter(ask.group, "c", [two.name]), "c")
    _look(ask)


def the_assignor_that_most_want(ask: Script) -> None:
    """Changes with the members, and raises the epoch when it does."""
    topic = ask.topic(partitions=4)
    ask(enter(ask.group, "a", [topic.name], server_assignor="range"), "a")
    _look(ask)
    ask(enter(ask.group, "b", [topic.name], server_assignor="uniform"), "b")
    _look(ask)
    ask(enter(ask.group, "c", [topic.name]), "c")
    _look(ask)
    ask(beat(ask.group, "c", 4, server_assignor="uniform"), "c")
    _look(ask)
    ask(beat(ask.group, "b", 3, server_assignor="range"), "b")
    _look(ask)


def topics_grow_and_go(ask: Script) -> None:
    """More partitions, a topic that comes into being, and one that is deleted, reach the group."""
    topic = ask.topic("one", 1)
    later = f"{ask.name}-later"
    ask(enter(ask.group, "a", [topic.name, later]))
    ask(beat(ask.group, "a", 2, owned={topic.id: [0]}))
    ask(create_partitions({topic.name: 3}))
    grown = ask.until(beat(ask.group, "a", 2, owned={topic.id: [0]}), _has_partitions)
    epoch = grown["member_epoch"]
    ask(beat(ask.group, "a", epoch, owned=owned_by(grown)))
    _look(ask)
    new = ask.topic("later", 2)
    grown = ask.until(beat(ask.group, "a", epoch, owned={topic.id: [0, 1, 2]}), _has_partitions)
    epoch = grown["member_epoch"]
    _look(ask)
    ask(beat(ask.group, "a", epoch, owned=owned_by(grown)))
    ask(delete_topics(topic.name))
    left = ask.until(
        beat(ask.group, "a", epoch, owned={topic.id: [0, 1, 2], new.id: [0, 1]}),
        lambda answer: answer["assignment"] is not None,
    )
    _look(ask)
    ask(beat(ask.group, "a", left["member_epoch"], owned={new.id: [0, 1]}))
    _look(ask)


def static_members_come_back(ask: Script) -> None:
    """Under a new id, to what they had, without a new epoch for anybody."""
    topic = ask.topic(partitions=2)
    ask(enter(ask.group, "first", [topic.name], instance_id="one"))
    ask(beat(ask.group, "first", 2, owned={topic.id: [0, 1]}, instance_id="one"))
    ask(enter(ask.group, "second", [topic.name], instance_id="one"), note="while the first lives")
    ask(beat(ask.group, "second", 2, instance_id="one"))
    ask(beat(ask.group, "second", -2, instance_id="one"))
    ask(beat(ask.group, "second", -1, instance_id="one"))
    ask(beat(ask.group, "first", -2, instance_id="one"))
    _look(ask)
    ask(beat(ask.group, "first", -2, instance_id="one"), note="twice")
    ask(beat(ask.group, "first", 2, instance_id="one"), note="while it is away")
    ask(commit(ask.group, {topic.name: {0: 1}}, member="first", epoch=-2))
    ask(commit(ask.group, {topic.name: {0: 2}}, member="first", epoch=2))
    ask(commit(ask.group, {topic.name: {0: 3}}))
    ask(enter(ask.group, "second", [topic.name], instance_id="one"))
    _look(ask)
    ask(beat(ask.group, "first", 2, instance_id="one"))
    ask(beat(ask.group, "first", 2))
    ask(commit(ask.group, {topic.name: {0: 4}}, member="first", epoch=2))
    ask(commit(ask.group, {topic.name: {0: 5}}, member="second", epoch=2))
    ask(fetch(ask.group, None))
    ask(beat(ask.group, "second", 2, owned={topic.id: [0, 1]}))
    ask(beat(ask.group, "second", -1, instance_id="one"))
    _look(ask)


def a_static_member_comes_back_under_its_own_id(ask: Script) -> None:
    """The same life, away for a moment, with the same or another subscription."""
    one, two = ask.topic("one", 2), ask.topic("two")
    ask(enter(ask.group, "m", [one.name], instance_id="i"))
    ask(beat(ask.group, "m", -2, instance_id="i"))
    ask(enter(ask.group, "m", [one.name], instance_id="i"))
    _look(ask)
    ask(beat(ask.group, "m", -2, instance_id="i"))
    ask(enter(ask.group, "n", [one.name, two.name], instance_id="i", rebalance_timeout=4321, rack_id="r"))
    _look(ask)
    ask(beat(ask.group, "n", -2), note="without its instance")
    ask(leave(ask.group, ("", "i")))
    _look(ask)


def others_see_a_static_member_go(ask: Script) -> None:
    """Away for a while it keeps what it has; when its session ends it has not."""
    topic = ask.topic(partitions=2)
    _shorten_sessions(ask, 2_000)
    before = ask(enter(ask.group, "a", [topic.name], instance_id="a"))["member_epoch"]
    epoch = ask(enter(ask.group, "b", [topic.name]), "b")["member_epoch"]
    kept = owned_by(ask(beat(ask.group, "a", before, owned={topic.id: [0, 1]}, instance_id="a")))
    ask(beat(ask.group, "a", before, owned=kept, instance_id="a"))
    got = owned_by(ask(beat(ask.group, "b", epoch, owned={}), "b"))
    ask(beat(ask.group, "a", -2, instance_id="a"))
    ask(beat(ask.group, "b", epoch, owned=got), "b")
    ask.until(beat(ask.group, "b", epoch, owned=got), _has_partitions, "b")
    _look(ask)


def regular_expressions(ask: Script) -> None:
    """Matched after the heartbeat against whole names; unmatched means nothing."""
    one, _ = ask.topic("one", 2), ask.topic("two")
    pattern = f"{ask.name}-on."
    ask(enter(ask.group, "a", None, subscribed_topic_regex=pattern))
    found = ask.until(beat(ask.group, "a", 1, owned={}), _has_partitions)
    epoch = found["member_epoch"]
    ask(beat(ask.group, "a", epoch, owned={one.id: [0, 1]}))
    _look(ask)
    ask(beat(ask.group, "a", epoch, subscribed_topic_regex="["))
    ask(beat(ask.group, "a", epoch, subscribed_topic_regex=pattern), note="the same again")
    ask(enter(ask.group, "b", [], subscribed_topic_regex=pattern), "b", note="known already")
    _look(ask)


def a_topic_that_an_expression_means_grows(ask: Script) -> None:
    """Its new partitions are assigned as those of a topic by name are."""
    topic = ask.topic("orders")
    ask(enter(ask.group, "m", None, subscribed_topic_regex=f"{ask.name}-.*"))
    ask.until(beat(ask.group, "m", 1, owned={}), lambda answer: answer["member_epoch"] == 2)
    ask(create_partitions({topic.name: 3}))
    ask.wait_for_partitions(topic, 3)
    ask.until(beat(ask.group, "m", 2, owned={topic.id: [0]}), lambda answer: answer["assignment"] is not None)
    _look(ask)


def regular_expressions_that_mean_nothing(ask: Script) -> None:
    """Part of a name, nothing at all, the empty one: the member is in, at epoch 1."""
    ask.topic("one", 2)
    for number, pattern in enumerate((f"{ask.name}-on", "no-such-topic.*", "")):
        group = f"{ask.group}-{number}"
        ask(enter(group, "a", None, subscribed_topic_regex=pattern))
        time.sleep(MATCHING_S)
        ask(beat(group, "a", 1, owned={}))
        ask(describe_consumer_groups(group))
        ask(enter(group, "b", [], subscribed_topic_regex=pattern), "b")


def names_and_an_expression(ask: Script) -> None:
    """A member may read by both, and give up either."""
    one, two = ask.topic("one"), ask.topic("two")
    ask(enter(ask.group, "a", [two.name], subscribed_topic_regex=f"{ask.name}-on."))
    both = ask.until(
        beat(ask.group, "a", 2, owned={two.id: [0]}),
        lambda answer: answer["assignment"] is not None and len(owned_by(answer)) == 2,
    )
    epoch = both["member_epoch"]
    _look(ask)
    held = {one.id: [0], two.id: [0]}
    ask(beat(ask.group, "a", epoch, owned=held, subscribed_topic_regex=""))
    _look(ask)
    ask(beat(ask.group, "a", epoch, owned={two.id: [0]}, subscribed_topic_names=[]))
    _look(ask)


def a_full_group(ask: Script) -> None:
    """The sixth of five members is refused; a member may always join again."""
    topic = ask.topic(partitions=5)
    for number in range(6):
        ask(enter(ask.group, f"m{number}", [topic.name]))
    ask(enter(ask.group, "m4", [topic.name]))
    ask(enter(ask.group, "m9", [topic.name], instance_id="i"))
    ask(beat(ask.group, "m0", -1))
    ask(enter(ask.group, "m9", [topic.name], instance_id="i"))


def classic_requests_to_a_consumer_group(ask: Script) -> None:
    """What the classic APIs say of members of the new protocol."""
    topic = ask.topic()
    ask(enter(ask.group, "a", [topic.name]))
    for version in range(5):
        ask(heartbeat(ask.group, "a", 2, version))
        ask(sync(ask.group, "a", 2, version=version))
    ask(describe_groups(ask.group, version=5))
    ask(describe_groups(ask.group, version=6))
    ask(leave(ask.group, "nobody"))
    ask(leave(ask.group, "nobody", version=2))
    ask(leave(ask.group, "a", version=2))
    _look(ask)
    ask(enter(ask.group, "a", [topic.name]))
    ask(leave(ask.group, "a", version=5))
    _look(ask)


def administration_of_a_live_group(ask: Script) -> None:
    """Commits, deletions and fetches by who is no member."""
    topic, other = ask.topic("read"), ask.topic("unread")
    ask(enter(ask.group, "a", [topic.name]))
    ask(commit(ask.group, {topic.name: {0: 1}}))
    ask(commit(ask.group, {topic.name: {0: 1}, other.name: {0: 2}}, member="a", epoch=2))
    ask(delete_offsets(ask.group, {topic.name: [0], other.name: [0, 3], "no-such-topic": [0]}))
    ask(delete_groups(ask.group))
    for more in (
        {"member_id": "a", "member_epoch": 2},
        {"member_id": "a", "member_epoch": 1},
        {"member_id": "a", "member_epoch": 3},
        {"member_id": "a", "member_epoch": -1},
        {"member_id": "nobody", "member_epoch": 2},
        {"member_id": "", "member_epoch": 2},
        {"member_id": "", "member_epoch": -1},
        {"member_id": None, "member_epoch": -1},
    ):
        ask(fetch(ask.group, {topic.name: [0]}, **more))
    ask(fetch(ask.group, {topic.name: [0]}, 8))
    ask(beat(ask.group, "a", -1))
    ask(fetch(ask.group, {topic.name: [0]}, member_id="a", member_epoch=2), note="the group is empty")
    ask(commit(ask.group, {topic.name: {0: 9}}))
    ask(delete_offsets(ask.group, {topic.name: [0]}))
    ask(delete_groups(ask.group))
    ask(describe_consumer_groups(ask.group))


def groups_are_described(ask: Script) -> None:
    """Known, unknown, of another type, in both versions."""
    topic = ask.topic(partitions=2)
    ask(enter(ask.group, "a", [topic.name], instance_id="i", rack_id="r"))
    ask(commit(f"{ask.name}-simple", {topic.name: {0: 1}}))
    for version in (0, 1):
        ask(describe_consumer_groups(ask.group, "no-such-group", f"{ask.name}-simple", version=version))
        ask(describe_consumer_groups(version=version))
        operations = describe_consumer_groups(ask.group, version=version)
        ask(operations.but(include_authorized_operations=True))
    _list(ask, [ask.group, f"{ask.name}-simple"])


def _list(ask: Script, groups: Iterable[str]) -> None:
    for types in ([], ["consumer"], ["classic"], ["CONSUMER"]):
        ask.only(list_groups(types=types), "groups", "group_id", groups)
    for states in (["Stable"], ["reconciling"], ["Assigning"]):
        ask.only(list_groups(states=states), "groups", "group_id", groups)
    for version in (0, 3, 4):
        ask.only(list_groups(version), "groups", "group_id", groups)


def groups_are_listed_in_each_state(ask: Script) -> None:
    """Empty, reconciling, stable."""
    topic: Topic = ask.topic(partitions=2)
    ask(enter(ask.group, "a", [topic.name]))
    ask(enter(ask.group, "b", [topic.name]), "b")
    _list(ask, [ask.group])
    ask(beat(ask.group, "b", -1), "b")
    ask(beat(ask.group, "a", -1))
    _list(ask, [ask.group])
