"""Topics by their ids: OffsetCommit and OffsetFetch from version 10 on, and ids that outlive their topics."""

from __future__ import annotations

import uuid
from typing import Any

from tests.differential.requests import (
    NO_TOPIC,
    beat,
    commit,
    create_partitions,
    delete_topics,
    describe_groups,
    enter,
    fetch,
    fetch_all,
    join,
    offset,
    sync,
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


def what_comes_twice(ask: Script) -> None:
    """The same id, and the same partition, in one request; by names it is the same."""
    topic = ask.topic(partitions=3)
    for version, named in ((9, topic.name), (10, topic.id)):
        one, other = (
            commit(ask.group, {named: {index: index}}, version).values["topics"] for index in (0, 1)
        )
        again = commit(ask.group, {named: {0: 7, 9: 7}}, version).values["topics"]
        nobody = commit(ask.group, {_nobody(version): {0: 1}}, version).values["topics"]
        ask(commit(ask.group, {}, version).but(topics=[*one, *other, *again]), note="known twice")
        ask(commit(ask.group, {}, version).but(topics=[*nobody, *one, *nobody]), note="unknown twice")
        ask(fetch(ask.group, {named: [0, 1, 0, 0]}, version))


def topics_without_partitions(ask: Script) -> None:
    """Of one that is there nothing is said, one that is not is named; a group does not come of either."""
    topic = ask.topic()
    for version, named in ((9, topic.name), (10, topic.id)):
        ask(commit(ask.group, {named: {}}, version), note="known")
        ask(commit(ask.group, {_nobody(version): {}}, version), note="unknown")
        ask(commit(ask.group, {_nobody(version): {}, named: {0: 1}}, version), note="both")
        ask(fetch(ask.group, {named: []}, version), note="known")
        ask(fetch(ask.group, {_nobody(version): []}, version), note="unknown")
    ask(commit("nobody-at-all", {MADE_UP: {0: 1}, topic.id: {}}, 10))
    ask(commit("nobody-at-all", {topic.id: {5: 1}}, 10))
    ask(describe_groups("nobody-at-all"))


def _nobody(version: int) -> Any:
    return MADE_UP if version >= 10 else "no-such-topic"


def metadata_of_every_length(ask: Script) -> None:
    """What is too long is refused by itself; null is empty."""
    topic = ask.topic(partitions=3)
    for version, named in ((9, topic.name), (10, topic.id)):
        offsets = {0: offset(1, "x" * 4096, 7), 1: offset(1, "x" * 4097), 2: offset(1, None)}
        ask(commit(ask.group, {named: offsets}, version))
        ask(fetch(ask.group, {named: [0, 1, 2]}, version))


def members_of_a_consumer_group(ask: Script) -> None:
    """Who commits is judged after what exists is known; who fetches, before anything is told."""
    topic = ask.topic(partitions=2)
    ask(enter(ask.group, "a", [topic.name]))
    ask(beat(ask.group, "a", 2, owned={topic.id: [0, 1]}))
    for member, epoch in (("a", 2), ("a", 1), ("a", 3), ("a", -1), ("b", 2), ("", -1)):
        note = f"{member} {epoch}"
        ask(commit(ask.group, {topic.id: {0: 1, 5: 1}}, 10, member=member, epoch=epoch), note=note)
        ask(commit(ask.group, {MADE_UP: {0: 1}, topic.id: {1: 2}}, 10, member=member, epoch=epoch), note=note)
        ask(commit(ask.group, {MADE_UP: {0: 1}}, 10, member=member, epoch=epoch), note=note)
        who = {"member_id": member or None, "member_epoch": epoch}
        ask(fetch(ask.group, {topic.id: [0, 1], MADE_UP: [0]}, 10, **who), note=note)
        ask(fetch(ask.group, {MADE_UP: [0]}, 10, **who), note=note)
        ask(fetch(ask.group, None, 10, **who), note=note)
    ask(fetch(ask.group, {topic.name: [0, 1]}, 9))


def members_of_a_classic_group(ask: Script) -> None:
    """They may speak it too: generation and member id are judged as ever."""
    topic = ask.topic(partitions=2)
    member = ask(join(ask.group))["member_id"]
    ask(join(ask.group, member=member))
    ask(sync(ask.group, member, 1, {member: b""}))
    for who, generation in ((member, 1), (member, 0), (member, 2), ("stranger", 1), ("", -1)):
        note = f"{'member' if who == member else who} {generation}"
        ask(
            commit(ask.group, {topic.id: {0: 1}, MADE_UP: {0: 1}}, 10, member=who, epoch=generation),
            note=note,
        )
        ask(fetch(ask.group, {topic.id: [0], MADE_UP: [0]}, 10, member_id=who, member_epoch=5), note=note)


def partitions_that_come_later(ask: Script) -> None:
    """The id is the same, and knows them."""
    topic = ask.topic()
    ask(commit(ask.group, {topic.id: {0: 1, 1: 1}}, 10))
    ask(create_partitions({topic.name: 2}))
    ask.wait_for_partitions(topic, 2)
    ask(commit(ask.group, {topic.id: {0: 2, 1: 2}}, 10))
    ask(fetch(ask.group, {topic.id: [0, 1]}, 10))


def all_offsets_of_a_group_with_a_deleted_topic(ask: Script) -> None:
    """By names and by ids, beside each other: the topic goes from both, the other topics stay."""
    old, other = ask.topic("old", 2), ask.topic("other", 2)
    ask(commit(ask.group, {old.id: {0: 1, 1: 2}, other.name: {0: 3}}, 10).but(topics=[]), note="nothing")
    ask(commit(ask.group, {old.id: {0: 1, 1: 2}, other.id: {0: 3}}, 10))
    ask(commit(ask.group, {other.name: {1: offset(4, "by name")}}, 9))
    for version in (9, 10):
        ask(fetch(ask.group, None, version))
    ask(delete_topics(old.name))
    for version in (9, 10):
        ask.until(fetch(ask.group, None, version), lambda answer: len(answer["groups"][0]["topics"]) == 1)
    ask(fetch_all({ask.group: {old.id: [0], other.id: [0, 1]}, "nobody": {old.id: [0]}}, 10))
    ask(fetch_all({ask.group: {old.name: [0], other.name: [0, 1]}, "nobody": {old.name: [0]}}, 9))


def a_member_outlives_its_topic(ask: Script) -> None:
    """What it had it commits in vain by the old id; the topic of the same name is another, by both."""
    old = ask.topic()
    ask(enter(ask.group, "a", [old.name]))
    ask(beat(ask.group, "a", 2, owned={old.id: [0]}))
    ask(commit(ask.group, {old.id: {0: 5}}, 10, member="a", epoch=2))
    ask(delete_topics(old.name))
    ask.until(fetch(ask.group, None, 10), lambda answer: not answer["groups"][0]["topics"])
    ask(commit(ask.group, {old.id: {0: 6}}, 10, member="a", epoch=2))
    ask(commit(ask.group, {old.name: {0: 6}}, 9, member="a", epoch=2))
    new = ask.topic()
    for asked in (fetch(ask.group, {new.id: [0]}, 10), fetch(ask.group, {new.name: [0]}, 9)):
        ask(asked)
    ask(fetch(ask.group, {old.id: [0], new.id: [0]}, 10))
    ask(commit(ask.group, {old.id: {0: 7}, new.id: {0: 8}}, 10))
    ask(fetch(ask.group, None, 10))
