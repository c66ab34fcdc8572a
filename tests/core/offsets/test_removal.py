"""Removal of offsets: by request, with their group, with their topic, and by expiry (KIP-211)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.counted import Index
from tests.core.harness import NONE, Harness, heartbeat, join, leave

from headgate.core.classic.state import ClassicState
from headgate.core.commands import DeleteGroup, DeleteTopicOffsets, ListGroups
from headgate.core.offsets import removal
from headgate.core.offsets.commands import CommitOffsets, DeleteOffsets, OffsetToCommit
from headgate.core.offsets.expiry import Aging, GroupClock, group_clock, is_expired
from headgate.core.offsets.removal import SLICE_BYTES
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import OffsetTombstone, encode
from headgate.records.columns import records_of

MINUTE = 60_000
SWEEP = 10_000


def subscription(*topics: str) -> bytes:
    """Return the bytes of a consumer's subscription to these topics."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def expiring() -> Harness:
    """Return a shard with a retention of ten minutes and a sweep every ten seconds."""
    return Harness(offsets_retention_minutes="10", offsets_retention_check_interval_ms=str(SWEEP))


def delete(group_id: str, *topics: str) -> DeleteOffsets:
    """Return a deletion of the offsets of partitions 0 and 1 of these topics."""
    return DeleteOffsets(GroupId(group_id), [(TopicName(topic), [0, 1]) for topic in topics])


def groups(h: Harness) -> list[str]:
    """Return the ids of all listed groups."""
    return sorted(group.group_id for group in h.ask(ListGroups()).groups)


def live_on(h: Harness, generation: int, duration_ms: int, *member_ids: str) -> None:
    """Let time pass while members heartbeat."""
    for _ in range(duration_ms // 5_000):
        h.advance(5_000)
        for one in member_ids:
            assert h.ask(heartbeat(one, generation)) == NONE


# --- by request ---


def test_the_work_of_a_deletion_grows_with_the_partitions_also_if_each_names_its_topic() -> None:
    """A request that names a topic thousands of times does not stop the server."""
    h, count = Harness(), 300
    group_id, topic = GroupId("g"), TopicName("t")
    h.ask(CommitOffsets(group_id, [(topic, [OffsetToCommit(one, 1, -1, "") for one in range(count)])]))
    partitions: list[Any] = [(topic, [Index(one)]) for one in range(count)]
    Index.looks = 0
    command = DeleteOffsets(group_id, partitions)
    result, removals = removal.delete(h.shard.offsets, h.shard.pending, command, lambda topic, named: False)
    assert Index.looks < 30 * count
    assert [error for _, error in result.topics] == [NONE] * count
    removed: list[Any] = [one for change in removals for one in records_of(change)]
    assert sorted(one.partition for one in removed) == [*range(count)]


def test_deleting_offsets_of_a_group_that_is_not_there() -> None:
    """An empty group id and an unknown group are different errors, as observed in Kafka 4.3.1."""
    h = Harness()
    assert h.ask(delete("nobody", "t")).error == ErrorCode.GROUP_ID_NOT_FOUND
    assert h.ask(delete("", "t")).error == ErrorCode.INVALID_GROUP_ID


def test_deleting_offsets_leaves_the_group() -> None:
    """Also after its last offset, and without any, as observed in Kafka 4.3.1."""
    h = Harness()
    h.commit("g")
    result = h.ask(delete("g", "t", "never committed"))
    assert (result.error, result.topics) == (NONE, [("t", NONE), ("never committed", NONE)])
    assert h.offset("g") is None
    assert groups(h) == ["g"]
    assert h.ask(delete("g", "t")).error == NONE


def test_offsets_of_topics_that_are_read_stay() -> None:
    """GROUP_SUBSCRIBED_TO_TOPIC for those; the others are deleted."""
    h = Harness()
    generation = h.stable_group("a", protocols=(("range", subscription("read")),))
    for topic in ("read", "left"):
        h.commit("g", topic, member_id="a", generation=generation)
    result = h.ask(delete("g", "read", "left"))
    assert result.topics == [("read", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC), ("left", NONE)]
    assert (h.offset("g", "read"), h.offset("g", "left")) == (1, None)


def test_a_group_whose_subscription_cannot_be_read_may_read_anything() -> None:
    """So nothing of it is deleted while it has members."""
    h = Harness()
    h.stable_group("a", protocols=(("range", b"?"),))
    assert h.ask(delete("g", "t")).topics == [("t", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)]
    h.ask(leave(("a", None)))
    assert h.ask(delete("g", "t")).topics == [("t", NONE)]


def test_offsets_of_other_live_groups_stay() -> None:
    """The subscription of a group of another protocol type is unknown."""
    h = Harness()
    h.stable_group("a", protocol_type="connect")
    assert h.ask(delete("g", "t")).error == ErrorCode.NON_EMPTY_GROUP
    h.ask(leave(("a", None)))
    assert h.ask(delete("g", "t")).error == NONE


def test_a_group_is_deleted_with_everything_of_it() -> None:
    """Empty, simple or with only a pending member; afterwards nothing remains (invariant 25)."""
    h = Harness()
    h.stable_group("a")
    h.commit("g", member_id="a", generation=1)
    assert h.ask(DeleteGroup(GroupId("g"))) == ErrorCode.NON_EMPTY_GROUP
    h.ask(leave(("a", None)))
    h.commit("simple")
    h.ask(join(group_id="pending", new_member_id="p"))
    for group_id in ("g", "simple", "pending"):
        assert h.ask(DeleteGroup(GroupId(group_id))) == NONE
        assert h.ask(DeleteGroup(GroupId(group_id))) == ErrorCode.GROUP_ID_NOT_FOUND
    assert groups(h) == []
    assert h.offset("g") is None
    assert h.ask(join(group_id="pending", member_id="p")).error == ErrorCode.UNKNOWN_MEMBER_ID
    h.advance(100_000)


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    """In every group, whatever their commit times; later commits remain."""
    h = Harness()
    for group_id in ("g1", "g2"):
        for topic in ("gone", "other"):
            h.commit(group_id, topic)
    h.now = Millis(h.now - 10)
    assert h.shard.topics_with_offsets() == {"gone", "other"}
    assert h.ask(DeleteTopicOffsets(TopicName("gone"))) == NONE
    assert h.shard.topics_with_offsets() == {"other"}
    assert [h.offset(group_id, "gone") for group_id in ("g1", "g2")] == [None, None]
    assert [h.offset(group_id, "other") for group_id in ("g1", "g2")] == [1, 1]
    assert h.ask(DeleteTopicOffsets(TopicName("gone"))) == NONE
    h.commit("g1", "gone", 0, 99)
    assert h.offset("g1", "gone") == 99


def test_a_wide_removal_is_cut_into_batches() -> None:
    """No batch exceeds the limit of a log; the answer follows the last one."""
    h = Harness()
    topic = TopicName("t" * 200)
    wide = 5_000
    h.ask(CommitOffsets(GroupId("g"), [(topic, [OffsetToCommit(one, 1, -1, "") for one in range(wide)])]))
    h.batches.clear()
    token = h.send(DeleteTopicOffsets(topic))
    assert h.is_parked(token)
    assert h.shard.offset_count > 0
    h.advance(1000)
    assert h.answers[token] == NONE
    assert h.shard.offset_count == 0
    sizes = [
        sum(len(encode(record)[0]) for change in batch for record in records_of(change))
        for batch in h.batches
        if isinstance(batch[0], OffsetTombstone)
    ]
    assert len(sizes) > 1
    assert max(sizes) < SLICE_BYTES + 1000


# --- expiry ---


def test_a_simple_groups_offset_expires_after_its_own_commit() -> None:
    """Each offset separately, within one sweep; the group is removed with the last one (R0.10)."""
    h = expiring()
    h.commit("g", partition=0)
    h.advance(5 * MINUTE)
    h.commit("g", partition=1)
    h.advance(5 * MINUTE - SWEEP)
    assert h.offset("g", partition=0) == 1
    h.advance(SWEEP)
    assert (h.offset("g", partition=0), h.offset("g", partition=1)) == (None, 1)
    assert groups(h) == ["g"]
    h.advance(5 * MINUTE)
    assert h.offset("g", partition=1) is None
    assert groups(h) == []


def test_a_live_groups_offsets_do_not_expire() -> None:
    """Whatever their age, as long as members read the topic (R0.6, KAFKA-4682)."""
    h = expiring()
    generation = h.stable_group("a", protocols=(("range", subscription("t")),))
    h.commit("g", member_id="a", generation=generation)
    live_on(h, generation, 30 * MINUTE, "a")
    assert h.offset("g") == 1


def test_an_emptied_groups_offsets_expire_one_retention_after_it_became_empty() -> None:
    """All at once, and the group with them; the age of the commits does not matter (R0.4, R0.5)."""
    h = expiring()
    generation = h.stable_group("a", protocols=(("range", subscription("t")),))
    h.commit("g", member_id="a", generation=generation)
    live_on(h, generation, 9 * MINUTE, "a")
    h.commit("g", "late", member_id="a", generation=generation)
    live_on(h, generation, 11 * MINUTE, "a")
    h.ask(leave(("a", None)))
    h.advance(10 * MINUTE - SWEEP)
    assert (h.offset("g"), h.offset("g", "late")) == (1, None)
    h.advance(2 * SWEEP)  # it may have become empty between two sweeps
    assert h.offset("g") is None
    assert groups(h) == []


def test_a_rejoin_stops_the_clock() -> None:
    """A group that is joined in time keeps all offsets; when it is empty again the retention starts again."""
    h = expiring()
    h.stable_group("a", protocols=(("range", subscription("t")),))
    h.commit("g", member_id="a", generation=1)
    h.ask(leave(("a", None)))
    h.advance(9 * MINUTE)
    generation = h.stable_group("b", protocols=(("range", subscription("t")),))
    live_on(h, generation, 5 * MINUTE, "b")
    h.ask(leave(("b", None)))
    h.advance(9 * MINUTE)
    assert h.offset("g") == 1


def test_a_topic_that_is_no_longer_read_expires_alone() -> None:
    """One retention after its commit, in a Stable group with a readable subscription (R0.9)."""
    h = expiring()
    generation = h.stable_group("a", protocols=(("range", subscription("kept")),))
    for topic in ("kept", "left"):
        h.commit("g", topic, member_id="a", generation=generation)
    live_on(h, generation, 10 * MINUTE + SWEEP, "a")
    live_on(h, generation, 5_000, "a")
    assert (h.offset("g", "kept"), h.offset("g", "left")) == (1, None)
    assert h.state("g") is ClassicState.STABLE


@pytest.mark.parametrize(
    "more", [{"protocols": (("range", b"?"),)}, {"protocol_type": "connect"}], ids=["unreadable", "connect"]
)
def test_nothing_expires_from_a_live_group_that_cannot_be_read(more: dict[str, Any]) -> None:
    """It may read any topic."""
    h = expiring()
    generation = h.stable_group("a", **more)
    h.commit("g", member_id="a", generation=generation)
    live_on(h, generation, 20 * MINUTE, "a")
    assert h.offset("g") == 1


def test_an_expiry_of_its_own_counts_where_offsets_may_expire() -> None:
    """In a simple group, before or after the setting's time; not for a topic that is read (R0.11)."""
    h = expiring()
    h.commit("g", "short", retention_ms=MINUTE)
    h.commit("g", "long", retention_ms=20 * MINUTE)
    generation = h.stable_group("a", group_id="live", protocols=(("range", subscription("t")),))
    h.commit("live", member_id="a", generation=generation, retention_ms=MINUTE)
    for _ in range(12 * 15):
        h.advance(5_000)
        h.ask(heartbeat("a", generation, group_id="live"))
    assert (h.offset("g", "short"), h.offset("g", "long"), h.offset("live")) == (None, 1, 1)


def test_a_group_without_offsets_goes_with_the_next_sweep() -> None:
    """There is nothing to keep; but not while a member is about to join."""
    h = expiring()
    h.commit("bare")
    h.ask(delete("bare", "t"))
    h.ask(join(group_id="pending", new_member_id="p", session_timeout_ms=60_000))
    h.advance(SWEEP)
    assert groups(h) == ["pending"]
    token = h.send(join(group_id="pending", member_id="p"))
    h.advance(3_000)
    assert h.answers[token].error == NONE


def test_a_wide_expiry_is_cut_into_batches() -> None:
    """It continues without waiting for the next sweep."""
    h = expiring()
    topic = TopicName("t" * 200)
    offsets = [OffsetToCommit(one, 1, -1, "") for one in range(4_500)]
    h.ask(CommitOffsets(GroupId("g"), [(topic, offsets)]))
    h.batches.clear()
    h.advance(10 * MINUTE)
    assert h.shard.offset_count > 0
    h.advance(1000)
    assert h.shard.offset_count == 0
    assert groups(h) == []
    sizes = [
        sum(len(encode(record)[0]) for change in batch for record in records_of(change))
        for batch in h.batches
    ]
    assert len(sizes) > 2
    assert max(sizes) < SLICE_BYTES + 1000


def test_the_clock_survives_a_crash() -> None:
    """The time when a group became empty is in its record (R0.4)."""
    h = expiring()
    h.stable_group("a")
    h.commit("g", member_id="a", generation=1)
    h.ask(leave(("a", None)))
    h.advance(6 * MINUTE)
    h.reload()
    h.advance(4 * MINUTE - SWEEP)
    assert h.offset("g") == 1
    h.advance(2 * SWEEP)
    assert h.offset("g") is None


CLOCKS = [
    # protocol type, empty, stable, state timestamp, subscription known, how offsets age
    ("", True, False, 5, True, GroupClock(Aging.SINCE_COMMIT)),
    ("consumer", True, False, 5, True, GroupClock(Aging.SINCE_STATE, Millis(5))),
    ("connect", True, False, 5, False, GroupClock(Aging.SINCE_STATE, Millis(5))),
    ("consumer", True, False, -1, True, GroupClock(Aging.SINCE_COMMIT)),
    ("consumer", False, True, 5, True, GroupClock(Aging.SINCE_COMMIT)),
    ("consumer", False, True, 5, False, GroupClock(Aging.HELD)),
    ("consumer", False, False, 5, True, GroupClock(Aging.HELD)),
    ("connect", False, True, 5, True, GroupClock(Aging.HELD)),
]


@pytest.mark.parametrize(("protocol_type", "is_empty", "is_stable", "since", "is_known", "expected"), CLOCKS)
def test_how_a_groups_offsets_age(
    protocol_type: str, is_empty: bool, is_stable: bool, since: int, is_known: bool, expected: GroupClock
) -> None:
    """The table of KIP-211, as released Kafka implements it (R0.3-R0.12)."""
    clock = group_clock(
        protocol_type=protocol_type,
        is_empty=is_empty,
        is_stable=is_stable,
        state_timestamp=Millis(since),
        knows_subscription=is_known,
    )
    assert clock == expected


@given(st.integers(0, 50), st.integers(-1, 50), st.integers(0, 100), st.integers(1, 50))
def test_expiry_never_comes_back(commit: int, expiry: int, now: int, retention_ms: int) -> None:
    """An expired offset remains expired; a held one never is; the limit is exactly the retention."""
    held = GroupClock(Aging.HELD)
    for clock in (GroupClock(Aging.SINCE_COMMIT), GroupClock(Aging.SINCE_STATE, Millis(commit))):
        times = [
            is_expired(clock, Millis(commit), Millis(expiry), Millis(one), retention_ms)
            for one in range(now, now + 3)
        ]
        assert times == sorted(times)
        due = commit + retention_ms if expiry == -1 else expiry
        assert times[0] == (now >= due)
    assert not is_expired(held, Millis(commit), Millis(expiry), Millis(10**6), retention_ms)
