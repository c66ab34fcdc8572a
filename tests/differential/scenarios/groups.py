"""Groups of either type under one name: who coordinates them, and how they change their type."""

from __future__ import annotations

from typing import Any

from tests.differential.members import look
from tests.differential.requests import (
    beat,
    commit,
    delete_groups,
    describe_consumer_groups,
    enter,
    fetch,
    find_coordinator,
    heartbeat,
    join,
    leave,
    subscription,
    sync,
)
from tests.differential.script import Script


def who_coordinates(ask: Script) -> None:
    """Group coordinators in every version; other kinds of keys."""
    for version in range(7):
        ask(find_coordinator(ask.group, version=version))
        ask(find_coordinator("", version=version))
    for version in (4, 6):
        ask(find_coordinator(ask.group, f"{ask.group}-2", version=version))
        ask(find_coordinator(version=version))
        ask(find_coordinator(ask.group, key_type=7, version=version))
    ask(find_coordinator(ask.group, key_type=7, version=3))


def a_simple_group_becomes_classic(ask: Script) -> None:
    """With its first member; its offsets stay."""
    topic = ask.topic()
    ask(commit(ask.group, {topic.name: {0: 1}}))
    look(ask)
    first = ask(join(ask.group))["member_id"]
    look(ask)
    ask(join(ask.group, member=first))
    ask(sync(ask.group, first, 1, {first: b"x"}))
    look(ask)
    ask(leave(ask.group, first))
    look(ask)
    ask(fetch(ask.group, None))


def a_simple_group_becomes_one_of_the_new_protocol(ask: Script) -> None:
    """With its first member; its offsets stay."""
    topic = ask.topic()
    ask(commit(ask.group, {topic.name: {0: 1}}))
    ask(enter(ask.group, "m", [topic.name]))
    look(ask)
    ask(fetch(ask.group, None))
    ask(commit(ask.group, {topic.name: {0: 2}}, member="m", epoch=2))
    ask(beat(ask.group, "m", -1))
    look(ask)
    ask(fetch(ask.group, None))


def an_empty_classic_group_becomes_one_of_the_new_protocol(ask: Script) -> None:
    """Epochs start at their first value again."""
    topic = ask.topic()
    first = ask(join(ask.group))["member_id"]
    ask(join(ask.group, member=first))
    ask(sync(ask.group, first, 1, {first: b"x"}))
    ask(commit(ask.group, {topic.name: {0: 1}}, member=first, epoch=1))
    ask(leave(ask.group, first))
    ask(enter(ask.group, "m", [topic.name]))
    look(ask)
    ask(fetch(ask.group, None))
    ask(heartbeat(ask.group, first, 1))
    ask(commit(ask.group, {topic.name: {0: 3}}, member=first, epoch=1))


def an_empty_group_of_the_new_protocol_becomes_classic(ask: Script) -> None:
    """Generations start at their first value again."""
    topic = ask.topic()
    ask(enter(ask.group, "m", [topic.name]))
    ask(commit(ask.group, {topic.name: {0: 1}}, member="m", epoch=2))
    ask(beat(ask.group, "m", -1))
    # From here on it is a classic group in Kafka; in Headgate when the client has joined.
    first = ask(join(ask.group, {"range": subscription([topic.name])}))["member_id"]
    ask(join(ask.group, {"range": subscription([topic.name])}, member=first))
    ask(sync(ask.group, first, 1, {first: b"x"}))
    look(ask)
    ask(fetch(ask.group, None))
    ask(beat(ask.group, "m", 2))
    ask(commit(ask.group, {topic.name: {0: 3}}, member="m", epoch=2))


def heartbeats_to_a_classic_group_that_lives(ask: Script) -> None:
    """By members of the new protocol that are none of its own."""
    first = ask(join(ask.group))["member_id"]
    ask(join(ask.group, member=first))
    ask(sync(ask.group, first, 1, {first: b"x"}))
    for epoch in (1, -1):
        ask(beat(ask.group, "m", epoch))
        ask(beat(ask.group, first, epoch))
    ask(describe_consumer_groups(ask.group))
    ask(heartbeat(ask.group, first, 1))


def groups_of_other_types_cannot_be_converted(ask: Script) -> None:
    """A classic group of no consumers, and one whose metadata cannot be read."""
    topic = ask.topic()
    for protocol_type, metadata in (("connect", b"x"), ("consumer", b"x")):
        ask.group = f"{ask.name}-{protocol_type}"
        more: dict[str, Any] = {"protocol_type": protocol_type}
        first = ask(join(ask.group, {"range": metadata}, **more))["member_id"]
        ask(join(ask.group, {"range": metadata}, member=first, **more))
        ask(sync(ask.group, first, 1, {first: b"x"}, **more))
        ask(enter(ask.group, "m", [topic.name]))
        ask(heartbeat(ask.group, first, 1))
        look(ask)


def deleted_and_made_anew(ask: Script) -> None:
    """A deleted group's name is free for any type, and nothing of it is left."""
    topic = ask.topic()
    ask(enter(ask.group, "m", [topic.name]))
    ask(commit(ask.group, {topic.name: {0: 1}}, member="m", epoch=2))
    ask(beat(ask.group, "m", -1))
    ask(delete_groups(ask.group))
    look(ask)
    ask(fetch(ask.group, None))
    ask(beat(ask.group, "m", -1))
    first = ask(join(ask.group))["member_id"]
    ask(leave(ask.group, first))
    ask(delete_groups(ask.group))
    ask(enter(ask.group, "m", [topic.name]))
    look(ask)
    ask(fetch(ask.group, None))
