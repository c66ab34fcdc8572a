"""Offsets that are committed in transactions: pending, stable, and what removes or outdoes them."""

from __future__ import annotations

from tests.differential.members import look
from tests.differential.record_requests import list_offsets
from tests.differential.requests import (
    Offsets,
    commit,
    delete_groups,
    delete_offsets,
    delete_topics,
    describe_groups,
    fetch,
    fetch_all,
    list_groups,
    offset,
)
from tests.differential.script import Script, Topic
from tests.differential.transaction_requests import (
    Producer,
    add_offsets,
    again,
    complete,
    describe,
    end,
    ended,
    init,
    new,
    txn_commit,
    write,
)
from tests.differential.wire import Tree

NOBODY = 10**15
"""A producer id that no broker has given out yet."""
ADDS_SINCE = 5
"""From this version on TxnOffsetCommit adds the group to the transaction."""


def _stable(ask: Script, topic: Topic, *partitions: int, note: str = "") -> Tree:
    """Fetch offsets that must be stable, of these partitions or of partition 0."""
    return ask(fetch(ask.group, {topic.name: partitions or (0,)}, require_stable=True), note=note)


def _fetch_every_way(ask: Script, topic: Topic) -> None:
    for stable in (False, True):
        for partitions in ({topic.name: [0, 1, 2]}, None):
            ask(fetch(ask.group, partitions, require_stable=stable), note=f"stable {stable}, {partitions}")


def committed_in_every_version(ask: Script) -> None:
    """To a group that was added, or adds itself; committed and aborted in turn."""
    topic = ask.topic(partitions=3)
    producer = new(ask)
    for version in range(6):
        for is_committed in (False, True):
            if version < ADDS_SINCE:
                ask(add_offsets(producer, ask.group))
            offsets = {topic.name: {0: offset(10 * version + is_committed, f"by {version}", 3)}}
            ask(txn_commit(producer, ask.group, offsets, version))
            _fetch_every_way(ask, topic)
            producer = ended(ask, producer, commit=is_committed, version=5 if version == ADDS_SINCE else 4)
            _fetch_every_way(ask, topic)


def a_group_that_was_not_added(ask: Script) -> None:
    """Is refused, before anything is asked about members; the latest version adds it."""
    topic = ask.topic()
    producer = new(ask)
    offsets = {topic.name: {0: 1}}
    for version in range(5):
        ask(txn_commit(producer, ask.group, offsets, version))
    for version in (3, 4):
        ask(txn_commit(producer, ask.group, offsets, version, member="nobody", generation=3))
    ask(add_offsets(producer, ask.group))
    for version in (3, 4):
        ask(txn_commit(producer, f"{ask.group}-other", offsets, version), note="another of the same shard")
    ask(txn_commit(producer, ask.group, offsets))
    ask(describe(producer))
    ended(ask, producer, commit=True)
    ask(txn_commit(producer, ask.group, offsets, 4), note="after the end")
    _stable(ask, topic)


def committed_by_others(ask: Script) -> None:
    """By a producer of another epoch, of another id, of an id that nobody has."""
    topic = ask.topic()
    old = new(ask)
    producer = again(ask, old)
    others = {
        "old": old,
        "future": producer.with_epoch(producer.epoch + 1),
        "foreign": producer._replace(id=NOBODY),
        "unknown": Producer(f"{ask.name}-unknown", producer.id, producer.epoch),
        "no name": Producer("", producer.id, producer.epoch),
    }
    for state in ("nothing open", "open"):
        for version in range(6):
            for note, other in others.items():
                request = txn_commit(other, ask.group, {topic.name: {0: 7}}, version)
                ask(request, note=f"{note}, {state}")
        ask(add_offsets(producer, ask.group))
    _stable(ask, topic)
    ask(describe(producer))


def committed_after_a_fence(ask: Script) -> None:
    """What was pending is aborted; the old producer commits nothing more."""
    topic = ask.topic()
    old = new(ask)
    ask(txn_commit(old, ask.group, {topic.name: {0: 1}}))
    ask(init(Producer(old.name)), note="while it is open")
    complete(ask, old)
    producer = again(ask, Producer(old.name))
    _stable(ask, topic)
    for version in range(6):
        ask(txn_commit(old, ask.group, {topic.name: {0: 2}}, version))
    ask(txn_commit(producer, ask.group, {topic.name: {0: 3}}))
    ended(ask, producer, commit=True)
    _stable(ask, topic)


def what_is_wrong_with_a_commit(ask: Script) -> None:
    """Partitions and topics that are not there, metadata that is too long, a group without a name."""
    topic = ask.topic(partitions=2)
    producer = new(ask)
    ask(add_offsets(producer, ask.group))
    wrong: dict[str, Offsets] = {
        "none": {},
        "no partitions": {topic.name: {}},
        "no such partition": {topic.name: {0: 1, 9: 1}},
        "no such topic": {topic.name: {0: 2}, "no-such-topic": {0: 1}},
        "nothing that is there": {"no-such-topic": {0: 1}},
        "too long": {topic.name: {0: offset(3, "m" * 4097), 1: offset(3, "m" * 4096)}},
        "negative": {topic.name: {0: -1, 1: -5}},
        "no metadata": {topic.name: {0: offset(4, None)}},
        "an internal topic": {"__consumer_offsets": {0: 1}},
    }
    for version in (2, 3, 5):
        for note, offsets in wrong.items():
            ask(txn_commit(producer, ask.group, offsets, version), note=note)
        ask(txn_commit(producer, "", {topic.name: {0: 1}}, version), note="no group")
    producer = ended(ask, producer, commit=True)
    ask(fetch(ask.group, None))
    ask(txn_commit(producer, f"{ask.group}-none", {}, 5))
    ask(describe(producer), note="nothing was added")


def fetched_in_every_version(ask: Script) -> None:
    """While it is pending over a committed one, and alone."""
    topic = ask.topic(partitions=3)
    producer = new(ask)
    ask(commit(ask.group, {topic.name: {0: 1, 1: 1}}))
    ask(txn_commit(producer, ask.group, {topic.name: {1: 2, 2: 2}}))
    for version in range(1, 10):
        for stable in (False, True):
            for partitions in ({topic.name: [0, 1, 2]}, {topic.name: [0]}, None):
                if partitions is None and version < 2:
                    continue
                request = fetch(ask.group, partitions, version, require_stable=stable)
                ask(request, note=f"{partitions}, stable {stable}")
    other = f"{ask.group}-other"
    ask(fetch_all({ask.group: None, other: None}).but(require_stable=True), note="two groups")
    for version in (9, 10):
        by_id = {topic.id if version == 10 else topic.name: [0, 1, 2]}
        ask(fetch(ask.group, by_id, version, require_stable=True), note="by name or id")
    ended(ask, producer, commit=True)
    _fetch_every_way(ask, topic)


def a_plain_commit_while_one_is_pending(ask: Script) -> None:
    """The later of the two counts, whatever comes to an end when."""
    topic = ask.topic(partitions=3)
    producer = new(ask)
    for is_committed in (True, False):
        ask(commit(ask.group, {topic.name: {0: 1, 1: 1}}), note="before")
        ask(txn_commit(producer, ask.group, {topic.name: {0: 2, 1: 2, 2: 2}}))
        ask(commit(ask.group, {topic.name: {1: 3}}), note="after")
        _fetch_every_way(ask, topic)
        producer = ended(ask, producer, commit=is_committed)
        _fetch_every_way(ask, topic)


def several_commits_in_one_transaction(ask: Script) -> None:
    """The last one counts, and what only an earlier one had is kept."""
    topic = ask.topic(partitions=3)
    producer = new(ask)
    ask(txn_commit(producer, ask.group, {topic.name: {0: 5, 1: 5}}))
    ask(txn_commit(producer, ask.group, {topic.name: {0: 3, 2: 3}}))
    _fetch_every_way(ask, topic)
    ended(ask, producer, commit=True)
    _fetch_every_way(ask, topic)


def several_producers_commit(ask: Script) -> None:
    """The later commit counts, though its transaction ends first."""
    topic = ask.topic(partitions=3)
    one, two = new(ask, "one"), new(ask, "two")
    ask(txn_commit(one, ask.group, {topic.name: {0: 1, 1: 1}}))
    ask(txn_commit(two, ask.group, {topic.name: {0: 2, 2: 2}}))
    two = ended(ask, two, commit=True)
    _fetch_every_way(ask, topic)
    one = ended(ask, one, commit=True)
    _fetch_every_way(ask, topic)
    ask(txn_commit(one, ask.group, {topic.name: {0: 10}}))
    ask(txn_commit(two, ask.group, {topic.name: {0: 20}}))
    ended(ask, one, commit=False)
    _fetch_every_way(ask, topic)
    ended(ask, two, commit=True)
    _fetch_every_way(ask, topic)


def several_groups_in_one_transaction(ask: Script) -> None:
    """They change together."""
    topic = ask.topic()
    producer = new(ask)
    groups = [f"{ask.group}-{number}" for number in range(3)]
    for number, group in enumerate(groups):
        ask(txn_commit(producer, group, {topic.name: {0: number}}))
    ask(describe(producer))
    ended(ask, producer, commit=True)
    ask(fetch_all(dict.fromkeys(groups)).but(require_stable=True))


def pending_offsets_that_are_deleted(ask: Script) -> None:
    """By OffsetDelete: they never come, whether something was committed before or not."""
    topic = ask.topic(partitions=3)
    producer = new(ask)
    ask(commit(ask.group, {topic.name: {0: 1}}))
    ask(txn_commit(producer, ask.group, {topic.name: {0: 2, 1: 2, 2: 2}}))
    ask(delete_offsets(ask.group, {topic.name: [0, 1, 9]}))
    _fetch_every_way(ask, topic)
    ended(ask, producer, commit=True)
    _fetch_every_way(ask, topic)


def pending_offsets_of_a_group_that_is_deleted(ask: Script) -> None:
    """It may be deleted, and they never come; what is committed after that does."""
    topic = ask.topic(partitions=3)
    producer = new(ask)
    ask(commit(ask.group, {topic.name: {0: 1}}))
    ask(txn_commit(producer, ask.group, {topic.name: {0: 2, 1: 2}}))
    ask(delete_groups(ask.group))
    _fetch_every_way(ask, topic)
    ask(delete_groups(ask.group), note="again")
    ask(txn_commit(producer, ask.group, {topic.name: {2: 3}}))
    ended(ask, producer, commit=True)
    _fetch_every_way(ask, topic)


def pending_offsets_of_a_topic_that_is_deleted(ask: Script) -> None:
    """They never come."""
    one, two = ask.topic("one"), ask.topic("two")
    producer = new(ask)
    ask(txn_commit(producer, ask.group, {one.name: {0: 1}, two.name: {0: 1}}))
    ask(delete_topics(one.name))
    ask.wait_until(
        list_offsets(one.name, {0: -1}), lambda answer: "unknown_topic_or_partition" in str(answer)
    )
    ended(ask, producer, commit=True)
    ask(fetch(ask.group, {two.name: [0]}, require_stable=True))


def a_group_that_has_pending_offsets_alone(ask: Script) -> None:
    """Whether there is such a group, before and after the end."""
    topic = ask.topic()
    producer = new(ask)
    for is_committed in (False, True):
        ask(txn_commit(producer, ask.group, {topic.name: {0: 1}}))
        look(ask)
        producer = ended(ask, producer, commit=is_committed)
        ask(describe_groups(ask.group))
        ask.only(list_groups(), "groups", "group_id", [ask.group])


def records_and_offsets_in_one_transaction(ask: Script) -> None:
    """They read, write and commit; a part of them is the older protocol's."""
    topic = ask.topic(partitions=2)
    producer = new(ask)
    for number, is_committed in enumerate((True, False, True)):
        ask(write(producer, topic, f"{number}"))
        ask(txn_commit(producer, ask.group, {topic.name: {1: number}}))
        ask(describe(producer))
        ask(end(producer, commit=is_committed))
        complete(ask, producer)
        _stable(ask, topic, 1)
        ask(list_offsets(topic.name, {0: -1}, isolation_level=1))
        producer = again(ask, producer)
