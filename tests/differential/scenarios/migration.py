"""Groups that change their protocol while members are in: in both directions, both kinds side by side."""

from __future__ import annotations

from typing import Any

from tests.differential.members import join_as_new, look, owned_by, reads
from tests.differential.requests import (
    assignment,
    beat,
    commit,
    enter,
    fetch,
    heartbeat,
    join,
    leave,
    subscription,
    sync,
)
from tests.differential.script import Script, Topic

PARTITIONS = 4


def _classic(ask: Script, topic: Topic, **more: Any) -> str:
    """One classic member in generation 1 that has all partitions; its id."""
    member: str = join_as_new(ask, reads(topic), **more)["member_id"]
    everything = {member: assignment({topic.name: range(PARTITIONS)})}
    instance = more.get("instance")
    ask(sync(ask.group, member, 1, everything, group_instance_id=instance), "classic")
    return member


def a_new_member_converts_a_classic_group(ask: Script) -> None:
    """The classic one hears of it in its heartbeat, joins again, and shares."""
    topic = ask.topic(partitions=PARTITIONS)
    classic = _classic(ask, topic)
    ask(commit(ask.group, {topic.name: {0: 1}}, member=classic, epoch=1))
    ask(enter(ask.group, "new", [topic.name]), "new")
    look(ask)
    ask(heartbeat(ask.group, classic, 1), "classic")
    for epoch in (0, 1, 2):
        ask(commit(ask.group, {topic.name: {0: 1, 3: 1}}, member=classic, epoch=epoch))
    again = ask(join(ask.group, reads(topic), member=classic), "classic")
    ask(sync(ask.group, classic, again["generation_id"]), "classic")
    look(ask)
    ask(heartbeat(ask.group, classic, again["generation_id"]), "classic")
    ask(beat(ask.group, "new", 2, owned={}), "new")
    ask(fetch(ask.group, None))
    ask(leave(ask.group, classic), "classic")
    ask(beat(ask.group, "new", 2, owned={}), "new")
    look(ask)


def the_last_new_member_leaves(ask: Script) -> None:
    """What is left is a classic group again, and its members start a generation."""
    topic = ask.topic(partitions=PARTITIONS)
    classic = _classic(ask, topic)
    ask(enter(ask.group, "new", [topic.name]), "new")
    again = ask(join(ask.group, reads(topic), member=classic), "classic")
    ask(sync(ask.group, classic, again["generation_id"]), "classic")
    ask(beat(ask.group, "new", -1), "new")
    look(ask)
    ask(heartbeat(ask.group, classic, again["generation_id"]), "classic")
    last = ask(join(ask.group, reads(topic), member=classic), "classic")
    ask(sync(ask.group, classic, last["generation_id"], {classic: b"x"}), "classic")
    look(ask)


def a_classic_member_joins_a_group_of_the_new_protocol(ask: Script) -> None:
    """It is given what is free, in the words of its own protocol."""
    topic = ask.topic(partitions=PARTITIONS)
    ask(enter(ask.group, "new", [topic.name]), "new")
    pending = ask(join(ask.group, reads(topic)), "classic")["member_id"]
    look(ask)
    joined = ask(join(ask.group, reads(topic), member=pending), "classic")
    generation = joined["generation_id"]
    ask(sync(ask.group, pending, generation), "classic")
    look(ask)
    kept = owned_by(ask(beat(ask.group, "new", 2, owned={topic.id: range(PARTITIONS)}), "new"))
    ask(beat(ask.group, "new", 2, owned=kept), "new")
    ask(heartbeat(ask.group, pending, generation), "classic")
    joined = ask(join(ask.group, reads(topic), member=pending), "classic")
    ask(sync(ask.group, pending, joined["generation_id"]), "classic")
    look(ask)
    for epoch in range(1, 5):
        ask(commit(ask.group, {topic.name: {3: epoch}}, member=pending, epoch=epoch))
    ask(commit(ask.group, {topic.name: {3: 9}}, 8, member=pending, epoch=joined["generation_id"]))
    ask(fetch(ask.group, {topic.name: [3]}))


def classic_members_of_a_mixed_group_are_refused(ask: Script) -> None:
    """Wrong protocols, generations, ids: in the classic words."""
    # Who is new has a topic of its own: among members that are alike, ids of the broker's making decide.
    topic, other = ask.topic(partitions=PARTITIONS), ask.topic("u")
    classic = _classic(ask, topic)
    ask(enter(ask.group, "new", [topic.name]), "new")
    again = ask(join(ask.group, reads(topic), member=classic), "classic")
    generation = again["generation_id"]
    for version in (0, 4, 9):
        ask(join(ask.group, {"roundrobin": b""}, version, member=classic), "classic")
        ask(join(ask.group, {"range": b"x"}, version, member=classic), "classic")
        ask(join(ask.group, reads(other), version, member="nobody"), "classic")
        ask(join(ask.group, reads(topic), version, protocol_type="connect", member=classic), "classic")
    for wrong in (-1, 0, generation - 1, generation + 1):
        ask(heartbeat(ask.group, classic, wrong), "classic")
        ask(sync(ask.group, classic, wrong), "classic")
    ask(heartbeat(ask.group, "nobody", generation), "classic")
    ask(sync(ask.group, "nobody", generation), "classic")
    ask(sync(ask.group, classic, generation, protocol_name="roundrobin"), "classic")
    ask(sync(ask.group, classic, generation), "classic")
    ask(leave(ask.group, "nobody", classic), "classic")
    look(ask)


def a_static_member_changes_its_protocol(ask: Script) -> None:
    """The same instance id over the new protocol takes the classic one's place at once, and back again."""
    topic = ask.topic(partitions=PARTITIONS)
    classic = _classic(ask, topic, instance="i")
    ask(enter(ask.group, "new", [topic.name], instance_id="i"), "new")
    look(ask)
    ask(heartbeat(ask.group, classic, 1, instance="i"), "classic")
    ask(heartbeat(ask.group, classic, 1), "classic")
    ask(commit(ask.group, {topic.name: {0: 1}}, member=classic, epoch=1))
    ask(commit(ask.group, {topic.name: {0: 2}}, member="new", epoch=2))
    ask(join(ask.group, reads(topic), instance="i"), "classic")
    look(ask)
    ask(beat(ask.group, "new", -2, instance_id="i"), "new")
    look(ask)
    ask(join(ask.group, reads(topic), instance="i"), "classic")
    look(ask)


def what_cannot_be_read_is_not_converted(ask: Script) -> None:
    """User data, an unreadable subscription, an unreadable assignment."""
    topic = ask.topic(partitions=PARTITIONS)
    with_user_data = subscription([topic.name], version=0)[:-4] + b"\0\0\0\1x"
    for number, (metadata, assigned) in enumerate(
        (
            (with_user_data, assignment({topic.name: [0, 1]})),
            (subscription([topic.name]), b"x"),
            (subscription([topic.name]), assignment({topic.name: [0]})[:-4] + b"\0\0\0\1x"),
        )
    ):
        ask.group = f"{ask.name}-{number}"
        member = ask(join(ask.group, {"range": metadata}, 3), "classic")["member_id"]
        ask(sync(ask.group, member, 1, {member: assigned}), "classic")
        ask(enter(ask.group, "new", [topic.name]), "new")
        ask(heartbeat(ask.group, member, 1), "classic")


def a_rebalance_under_way_is_answered(ask: Script) -> None:
    """Whoever waits in the classic group when a new member comes is told to join again."""
    # Each has a topic of its own to share: among members that are alike, ids of the broker's making decide.
    topic, other = ask.topic(partitions=PARTITIONS), ask.topic("u")
    leader = _classic(ask, topic, rebalance_timeout=2_000)
    second = ask(join(ask.group, reads(other)), "second")["member_id"]
    waiting = ask.later(join(ask.group, reads(other), member=second), "second")
    ask.until(heartbeat(ask.group, leader, 1), lambda answer: answer["error_code"] != "none", "classic")
    ask(enter(ask.group, "new", [topic.name]), "new")
    waiting()
    look(ask)
