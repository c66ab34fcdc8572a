"""Offsets of groups that nobody is in: commit, fetch, delete."""

from __future__ import annotations

from tests.differential.requests import commit, delete_groups, delete_offsets, fetch, fetch_all, offset
from tests.differential.script import Script

COMMIT_VERSIONS = range(2, 10)
FETCH_VERSIONS = range(1, 10)


def every_version_commits_and_fetches(ask: Script) -> None:
    """What one version commits every version reads."""
    topic = ask.topic(partitions=2)
    for version in COMMIT_VERSIONS:
        ask(
            commit(
                ask.group, {topic.name: {0: offset(version, f"by {version}", 3), 1: 100 + version}}, version
            )
        )
        for reading in FETCH_VERSIONS:
            ask(fetch(ask.group, {topic.name: [0, 1]}, reading))


def a_fetch_of_everything(ask: Script) -> None:
    """Null for the topics asks for all of the group's offsets, from version 2 on."""
    one, two = ask.topic("one", 2), ask.topic("two")
    ask(commit(ask.group, {one.name: {0: 1, 1: 2}, two.name: {0: 3}}))
    for version in FETCH_VERSIONS[1:]:
        ask(fetch(ask.group, None, version))
        ask(fetch("nobody-knows-this", None, version))
        ask(fetch(ask.group, {}, version))


def what_was_never_committed(ask: Script) -> None:
    """Unknown groups, topics, partitions and ids in a fetch."""
    topic = ask.topic()
    ask(commit(ask.group, {topic.name: {0: 1}}))
    for version in range(1, 10):
        ask(fetch("nobody-knows-this", {topic.name: [0, 7]}, version))
        ask(fetch(ask.group, {topic.name: [0, 7, -1], "no-such-topic": [0]}, version))
    ask(fetch("", {topic.name: [0]}))


def what_does_not_exist_is_not_committed(ask: Script) -> None:
    """Unknown topics, partitions and ids fail by themselves, and the rest is committed."""
    topic = ask.topic(partitions=2)
    for version in range(2, 10):
        group = f"{ask.group}-{version}"
        ask(commit(group, {"no-such-topic": {0: 1}, topic.name: {5: 1}}, version))
        ask(fetch(group, {"no-such-topic": [0], topic.name: [0, 5]}))
        ask(commit(group, {"no-such-topic": {0: 1}, topic.name: {0: 1, 2: 2, -1: 3}}, version))
        ask(fetch(group, None))


def the_limit_of_metadata(ask: Script) -> None:
    """4096 UTF-16 units; what is longer fails alone."""
    topic = ask.topic(partitions=6)
    texts = ["x" * 4096, "x" * 4097, "é" * 4096, "😀" * 2048, "😀" * 2049, None]
    for version in (2, 7, 8, 9):
        ask(commit(ask.group, {topic.name: {i: offset(i, text) for i, text in enumerate(texts)}}, version))
        ask(fetch(ask.group, None))


def offsets_that_are_odd(ask: Script) -> None:
    """Negative offsets and epochs, the largest ones, one partition twice."""
    topic = ask.topic(partitions=4)
    ask(commit(ask.group, {topic.name: {0: -1, 1: -2, 2: 2**63 - 1, 3: offset(5, "", 2**31 - 1)}}))
    ask(fetch(ask.group, None))
    ask(commit(ask.group, {topic.name: {3: offset(6, "", -5)}}))
    twice = commit(ask.group, {topic.name: {0: 1}})
    (entry,) = twice.values["topics"]
    ask(
        twice.but(
            topics=[
                entry
                | {"partitions": [*entry["partitions"], entry["partitions"][0] | {"committed_offset": 9}]}
            ]
        )
    )
    ask(fetch(ask.group, None))
    ask(twice.but(topics=[entry, entry]))
    ask(fetch(ask.group, {topic.name: [0, 0, 3]}))


def a_generation_without_a_group(ask: Script) -> None:
    """Who commits as a member of a group that is none."""
    topic = ask.topic()
    for version in range(2, 10):
        group = f"{ask.group}-{version}"
        ask(commit(group, {topic.name: {0: 1}}, version, epoch=0), note="no such group")
        ask(commit(group, {topic.name: {0: 1}}, version, member="m", epoch=3))
        ask(commit(group, {topic.name: {0: 1}}, version, member="m", epoch=-1))
        ask(commit(group, {topic.name: {0: 1}}, version, epoch=-7), note="any negative one is none")
        ask(commit(group, {topic.name: {0: 2}}, version, epoch=0), note="the group is there now")
        ask(commit(group, {topic.name: {0: 2}}, version, member="m", epoch=3))
        ask(commit(group, {topic.name: {0: 2}}, version, member="m", epoch=-1))
        ask(fetch(group, None))


def nothing_to_commit(ask: Script) -> None:
    """No topics, no partitions, an empty group id: no group comes of it."""
    topic = ask.topic()
    ask(commit(ask.group, {}))
    ask(commit(ask.group, {topic.name: {}, "no-such-topic": {}}))
    ask(commit(ask.group, {"no-such-topic": {0: 1}}))
    ask(fetch(ask.group, None))
    ask(commit("", {topic.name: {0: 1}}, 2))
    ask(commit("", {topic.name: {0: 1}}, 9))
    ask(delete_offsets(ask.group, {topic.name: [0]}), note="there is no group")
    ask(delete_groups(""))


def offsets_are_deleted_one_by_one(ask: Script) -> None:
    """OffsetDelete: known, unknown, never committed, all of them."""
    topic = ask.topic(partitions=3)
    ask(delete_offsets("nobody-knows-this", {topic.name: [0]}))
    ask(delete_offsets("", {topic.name: [0]}))
    ask(commit(ask.group, {topic.name: {0: 1, 1: 2}}))
    ask(delete_offsets(ask.group, {topic.name: [0, 2, 9], "no-such-topic": [0]}))
    ask(fetch(ask.group, None))
    ask(delete_offsets(ask.group, {}))
    ask(delete_offsets(ask.group, {topic.name: [1]}))
    ask(fetch(ask.group, None))
    ask(delete_offsets(ask.group, {topic.name: [1]}), note="the group is left without an offset")


def several_groups_in_one_fetch(ask: Script) -> None:
    """From version 8 on: each group has its own answer and its own error."""
    topic = ask.topic(partitions=2)
    ask(commit(f"{ask.group}-a", {topic.name: {0: 1}}))
    ask(commit(f"{ask.group}-b", {topic.name: {1: 2}}))
    for version in (8, 9):
        ask(
            fetch_all(
                {f"{ask.group}-a": None, f"{ask.group}-b": {topic.name: [0, 1]}, "nobody": None}, version
            )
        )
        ask(fetch_all({}, version))
    ask(fetch(ask.group, {topic.name: [0]}, 9, member_id="m", member_epoch=3))
    ask(fetch(f"{ask.group}-a", {topic.name: [0]}, 9, member_id="m", member_epoch=3))
    ask(fetch(f"{ask.group}-a", {topic.name: [0]}, 9, member_id=None, member_epoch=3))
    ask(fetch(f"{ask.group}-a", {topic.name: [0]}, 7, require_stable=True))
