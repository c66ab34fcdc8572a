"""Topics by their ids: OffsetCommit and OffsetFetch from version 10 on, and ids that outlive their topics."""

from __future__ import annotations

import uuid

from tests.differential.requests import (
    NO_TOPIC,
    commit,
    delete_topics,
    fetch,
    fetch_all,
    offset,
)
from tests.differential.script import Script

MADE_UP = uuid.UUID(int=0xABCDEF)


def ids_and_names_side_by_side(ask: Script) -> None:
    """What is committed by one is read by the other."""
    topic = ask.topic(partitions=2)
    ask(commit(ask.group, {topic.id: {0: offset(1, "by id")}}, 10))
    ask(commit(ask.group, {topic.name: {1: offset(2, "by name")}}, 9))
    ask(fetch(ask.group, {topic.id: [0, 1]}, 10))
    ask(fetch(ask.group, None, 10))
    ask(fetch_all({ask.group: {topic.id: [0]}, "nobody": None}, 10))


def unknown_ids(ask: Script) -> None:
    """Ids nobody has fail by themselves, and the rest is committed."""
    topic = ask.topic(partitions=2)
    ask(commit(ask.group, {MADE_UP: {0: 1}, topic.id: {0: 1, 2: 2}}, 10))
    ask(commit(ask.group, {NO_TOPIC: {0: 1}, topic.id: {1: 1}}, 10))
    ask(fetch(ask.group, {topic.id: [0, 7], MADE_UP: [0]}, 10))
    ask(fetch("nobody-knows-this", {topic.id: [0], MADE_UP: [0]}, 10))


def a_topic_made_anew_has_none_of_the_old_offsets(ask: Script) -> None:
    """The old id is nobody's, and the offsets went with it."""
    old = ask.topic()
    ask(commit(ask.group, {old.name: {0: 1}}))
    ask(delete_topics(old.name))
    ask.until(fetch(ask.group, None), lambda answer: not answer["groups"][0]["topics"])
    ask(commit(ask.group, {old.id: {0: 2}}, 10))
    ask(fetch(ask.group, {old.id: [0]}, 10))
    ask(commit(ask.group, {old.name: {0: 2}}, 9))
    new = ask.topic()
    ask(fetch(ask.group, {new.name: [0]}, 9))
    ask(commit(ask.group, {new.name: {0: 3}}, 9))
    ask(commit(ask.group, {old.id: {0: 4}}, 10))
    ask(fetch(ask.group, None, 9))
