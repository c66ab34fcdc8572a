"""Assignment epochs (KIP-1251): which commits of a member count while its epoch rises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.differential.requests import beat, commit, delete_topics, enter, fetch
from tests.differential.script import Script, Topic

EVERY_PARTITION = (0, 1, 2, 3)


def _two_members(ask: Script) -> tuple[Topic, list[int], list[int]]:
    """Members "a" and "b" in epoch 3: "a" since 2 with the first half, "b" since 3 with the rest."""
    topic = ask.topic(partitions=4)
    ask(enter(ask.group, "a", [topic.name]))
    ask(beat(ask.group, "a", 2, owned={topic.id: EVERY_PARTITION}))
    ask(enter(ask.group, "b", [topic.name]), "b")
    kept = _partitions(ask(beat(ask.group, "a", 2)))
    ask(beat(ask.group, "a", 2, owned={topic.id: kept}))
    got = _partitions(ask(beat(ask.group, "b", 3, owned={}), "b"))
    ask(beat(ask.group, "b", 3, owned={topic.id: got}), "b")
    return topic, kept, got


def _partitions(answer: Mapping[str, Any]) -> list[int]:
    (one,) = answer["assignment"]["topic_partitions"]
    return sorted(one["partitions"])


def each_partition_at_each_epoch(ask: Script) -> None:
    """Kept since the older epoch, moved, and never had; by owner, former owner and nobody."""
    topic, kept, got = _two_members(ask)
    for member in ("a", "b", "nobody", ""):
        for epoch in (-2, -1, 0, 1, 2, 3, 4):
            for partition in (kept[0], got[0]):
                ask(commit(ask.group, {topic.name: {partition: epoch}}, member=member, epoch=epoch))
    ask(fetch(ask.group, None))


def each_version(ask: Script) -> None:
    """Before version 9 members of the new protocol are refused; strangers are strangers first."""
    topic, kept, got = _two_members(ask)
    for version in range(2, 10):
        for member, epoch in (("a", 3), ("a", 2), ("a", 1), ("a", 4), ("nobody", 3), ("", -1)):
            ask(commit(ask.group, {topic.name: {kept[0]: version}}, version, member=member, epoch=epoch))
        ask(commit(ask.group, {topic.name: {got[0]: version}}, version, member="a", epoch=2))
    ask(fetch(ask.group, None))


def one_partition_spoils_all(ask: Script) -> None:
    """A commit that is stale for one partition is refused for all, and nothing is written."""
    topic, kept, got = _two_members(ask)
    other = ask.topic("other")
    ask(commit(ask.group, {topic.name: {kept[0]: 1, got[0]: 1}}, member="a", epoch=2))
    ask(commit(ask.group, {topic.name: {kept[0]: 2}, other.name: {0: 2}}, member="a", epoch=2))
    ask(commit(ask.group, {topic.name: {kept[0]: 3}, "no-such-topic": {0: 3}}, member="a", epoch=2))
    ask(commit(ask.group, {topic.name: {got[0]: 3}, "no-such-topic": {0: 3}}, member="a", epoch=2))
    ask(commit(ask.group, {topic.name: {kept[0]: 4, 9: 4}}, member="a", epoch=2))
    ask(commit(ask.group, {topic.name: {kept[1]: 5, got[0]: 5}, other.name: {0: 5}}, member="a", epoch=3))
    ask(fetch(ask.group, None))


def what_is_to_be_let_go_still_counts(ask: Script) -> None:
    """Between the request to revoke partitions and the acknowledgement."""
    topic = ask.topic(partitions=4)
    ask(enter(ask.group, "a", [topic.name]))
    ask(enter(ask.group, "b", [topic.name]), "b")
    ask(commit(ask.group, {topic.name: dict.fromkeys(EVERY_PARTITION, 1)}, member="a", epoch=2))
    kept = _partitions(ask(beat(ask.group, "a", 2, owned={topic.id: EVERY_PARTITION})))
    ask(commit(ask.group, {topic.name: dict.fromkeys(EVERY_PARTITION, 2)}, member="a", epoch=2))
    ask(commit(ask.group, {topic.name: dict.fromkeys(EVERY_PARTITION, 9)}, member="a", epoch=1))
    ask(beat(ask.group, "a", 2, owned={topic.id: kept}))
    for partition in EVERY_PARTITION:
        ask(commit(ask.group, {topic.name: {partition: 3}}, member="a", epoch=2))
        ask(commit(ask.group, {topic.name: {partition: 4}}, member="a", epoch=3))
    ask(fetch(ask.group, None))


def a_partition_that_comes_back(ask: Script) -> None:
    """Given away and given back: the old epoch is stale though the owner is the same."""
    topic, kept, got = _two_members(ask)
    ask(beat(ask.group, "b", -1), "b")
    ask(beat(ask.group, "a", 3, owned={topic.id: kept}))
    for epoch in (2, 3, 4):
        for partition in (kept[0], got[0]):
            ask(commit(ask.group, {topic.name: {partition: epoch}}, member="a", epoch=epoch))
    ask(fetch(ask.group, None))


def joining_again_starts_epochs_anew(ask: Script) -> None:
    """A member that joined again holds its partitions since then."""
    topic, kept, got = _two_members(ask)
    ask(enter(ask.group, "a", [topic.name]))
    for epoch in (0, 2, 3, 4):
        for partition in (kept[0], got[0]):
            ask(commit(ask.group, {topic.name: {partition: epoch}}, member="a", epoch=epoch))
    ask(fetch(ask.group, None))


def epochs_of_static_members(ask: Script) -> None:
    """Away, all epochs are 0; the next life commits from there on, the last one no more."""
    topic = ask.topic(partitions=2)
    ask(enter(ask.group, "a", [topic.name], instance_id="i"))
    ask(beat(ask.group, "a", -2, instance_id="i"))
    for epoch in (-2, -1, 0, 1, 2):
        ask(commit(ask.group, {topic.name: {0: epoch}}, member="a", epoch=epoch))
    ask(enter(ask.group, "b", [topic.name], instance_id="i"))
    for member in ("a", "b"):
        for epoch in (-2, -1, 0, 1, 2, 3):
            ask(commit(ask.group, {topic.name: {0: epoch}}, member=member, epoch=epoch))
    ask(fetch(ask.group, None))


def an_empty_group_takes_any_negative_epoch(ask: Script) -> None:
    """Former members may commit without one while nobody is in."""
    topic, _, _ = _two_members(ask)
    ask(beat(ask.group, "a", -1))
    ask(beat(ask.group, "b", -1), "b")
    for member in ("a", "nobody", ""):
        for epoch in (-2, -1, 0, 3, 4):
            ask(commit(ask.group, {topic.name: {0: epoch}}, member=member, epoch=epoch))
    ask(fetch(ask.group, None))


def topics_that_went(ask: Script) -> None:
    """A member's commit for a topic that was deleted."""
    gone, stays = ask.topic("gone"), ask.topic("stays")
    ask(enter(ask.group, "a", [gone.name, stays.name]))
    ask(commit(ask.group, {gone.name: {0: 1}, stays.name: {0: 1}}, member="a", epoch=2))
    ask(delete_topics(gone.name))
    ask.until(fetch(ask.group, None), lambda answer: len(answer["groups"][0]["topics"]) == 1)
    ask(commit(ask.group, {gone.name: {0: 2}, stays.name: {0: 2}}, member="a", epoch=2))
    ask(fetch(ask.group, None))
