"""The share coordinator's shard: initialize, read, write, delete; snapshots; images; deleted topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.core.share.state_life import KEY, TOPIC, TOPIC_ID, StateLife, durable

from headgate.core.commands import Tick
from headgate.core.share.state.commands import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateResult,
    ReadSummary,
    StateResult,
    SummaryResult,
    WriteState,
)
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId
from headgate.domain.partitioning import partition_for
from headgate.records.share_batches import StateBatch, StateBatches
from headgate.records.share_state_model import ShareKey, ShareSnapshot, ShareTombstone, ShareUpdate

OK = StateResult()
MINUTE = 60_000


def write(start: int, *batches: tuple[int, int, int, int], count: int = 0, key: ShareKey = KEY) -> WriteState:
    """A write of the leader with epoch 2, to a state with epoch 5."""
    return WriteState(
        key=key,
        state_epoch=5,
        leader_epoch=2,
        start_offset=start,
        delivery_complete_count=count,
        batches=[StateBatch(*one) for one in batches],
    )


@pytest.fixture
def life() -> StateLife:
    """With one state that begins at offset 100, read by the leader with epoch 2."""
    life = StateLife(share_coordinator_snapshot_update_records_per_snapshot="3")
    assert life.ask(InitializeState(key=KEY, state_epoch=5, start_offset=100)) == OK
    assert life.ask(ReadState(key=KEY, leader_epoch=2)).error == ErrorCode.NONE
    return life


def batches_of(life: StateLife, key: ShareKey = KEY) -> list[tuple[int, ...]]:
    return [tuple(one) for one in life.ask(ReadState(key=key)).batches]


def test_the_worked_example_of_kip_932(life: StateLife) -> None:
    """R4.5, step by step: each write, the start offset and the batches after it."""
    steps: list[tuple[WriteState, int, list[tuple[int, ...]]]] = [
        (write(110, (100, 109, 2, 1)), 110, []),
        (write(-1, (110, 110, 0, 1)), 110, [(110, 110, 0, 1)]),
        (
            write(-1, (111, 118, 0, 0), (119, 119, 2, 1)),
            110,
            [(110, 110, 0, 1), (111, 118, 0, 0), (119, 119, 2, 1)],
        ),
        (write(-1, (111, 112, 0, 1)), 110, [(110, 112, 0, 1), (113, 118, 0, 0), (119, 119, 2, 1)]),
        (write(-1, (113, 118, 2, 1)), 110, [(110, 112, 0, 1), (113, 119, 2, 1)]),
        (write(111, (110, 110, 2, 2)), 111, [(111, 112, 0, 1), (113, 119, 2, 1)]),
        (write(120, (111, 112, 2, 2)), 120, []),
    ]
    for command, start, batches in steps:
        assert life.ask(command) == OK
        assert (life.ask(ReadSummary(key=KEY)).start_offset, batches_of(life)) == (start, batches)
    assert life.ask(ReadState(key=KEY)) == ReadStateResult(
        state_epoch=5, start_offset=120, delivery_complete_count=0
    )


def test_a_new_state_is_a_snapshot_and_a_change_is_an_update(life: StateLife) -> None:
    """After three updates, the leader's read among them, the next change is a snapshot with all batches."""
    life.ask(write(-1, (100, 100, 2, 1)))
    assert [type(one) for one in life.decided] == [ShareUpdate]
    life.ask(write(-1, (102, 102, 2, 1)))
    life.ask(write(101, (104, 104, 4, 3), count=2))
    (snapshot,) = life.decided
    assert isinstance(snapshot, ShareSnapshot)
    assert (snapshot.snapshot_epoch, snapshot.state_epoch, snapshot.leader_epoch) == (1, 5, 2)
    assert (snapshot.created, snapshot.written, snapshot.delivery_complete_count) == (1500 + 1, 1501, 2)
    assert list(snapshot.batches) == [(102, 102, 2, 1), (104, 104, 4, 3)]
    life.ask(write(-1, (106, 106, 2, 1)))
    assert [type(one) for one in life.decided] == [ShareUpdate]


REFUSED: list[tuple[Any, ErrorCode]] = [
    (replace(write(-1), leader_epoch=1), ErrorCode.FENCED_LEADER_EPOCH),
    (replace(write(-1), state_epoch=4), ErrorCode.FENCED_STATE_EPOCH),
    (replace(write(-1), leader_epoch=1, state_epoch=4), ErrorCode.FENCED_LEADER_EPOCH),
    (write(-1, key=ShareKey(GroupId("other"), TOPIC_ID, 0)), ErrorCode.INVALID_REQUEST),
    (write(-1, key=ShareKey(GroupId("g"), TOPIC_ID, -1)), ErrorCode.INVALID_REQUEST),
    (write(-2), ErrorCode.INVALID_REQUEST),
    (write(-1, (5, 4, 2, 1)), ErrorCode.INVALID_REQUEST),
    (write(-1, (-1, 4, 2, 1)), ErrorCode.INVALID_REQUEST),
    (write(-1, (0, 2**63 - 1, 2, 1)), ErrorCode.INVALID_REQUEST),
    (write(-1, (0, 4, 1, 1)), ErrorCode.INVALID_REQUEST),
    (write(-1, (0, 4, 0, 2**15)), ErrorCode.INVALID_REQUEST),
    (write(-1, (0, 4, 0, -1)), ErrorCode.INVALID_REQUEST),
    (write(-1, *[(one, one, 2, 1) for one in range(200, 300, 2)], (0, 4, 1, 1)), ErrorCode.INVALID_REQUEST),
    (write(-1, *[(one, one, 2, 1) for one in range(200, 300, 2)], (5, 4, 2, 1)), ErrorCode.INVALID_REQUEST),
    (ReadState(key=KEY, leader_epoch=1), ErrorCode.FENCED_LEADER_EPOCH),
    (ReadState(key=ShareKey(GroupId("other"), TOPIC_ID, 0)), ErrorCode.INVALID_REQUEST),
    (InitializeState(key=KEY, state_epoch=4), ErrorCode.FENCED_STATE_EPOCH),
    (InitializeState(key=KEY, state_epoch=5, start_offset=-2), ErrorCode.INVALID_REQUEST),
    (
        InitializeState(key=ShareKey(GroupId("g"), TOPIC_ID, 3), state_epoch=0),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    (
        InitializeState(key=ShareKey(GroupId("g"), TopicId(b"x" * 16), 0), state_epoch=0),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    (ReadSummary(key=ShareKey(GroupId("g"), TOPIC_ID, 3)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (DeleteState(key=ShareKey(GroupId("g"), TOPIC_ID, -1)), ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("command", "error"), REFUSED)
def test_what_is_refused_changes_nothing(life: StateLife, command: Any, error: ErrorCode) -> None:
    """With an error of the protocol and a message."""
    result = life.ask(command)
    assert (result.error, life.decided) == (error, [])
    assert result.message


def test_the_start_offset_never_moves_backward(life: StateLife) -> None:
    """A write that was overtaken still has its batches merged, above the start offset; its count is old."""
    life.ask(write(120, count=3))
    life.ask(write(110, (105, 125, 2, 1), count=9))
    found = life.ask(ReadState(key=KEY))
    assert (found.start_offset, found.delivery_complete_count) == (120, 3)
    assert list(found.batches) == [(120, 125, 2, 1)]


def test_an_unknown_epoch_is_not_checked(life: StateLife) -> None:
    """-1 in a write and in a read; neither changes the epochs."""
    assert life.ask(replace(write(-1), leader_epoch=-1, state_epoch=-1)) == OK
    assert life.ask(ReadState(key=KEY)).error == ErrorCode.NONE
    summary = life.ask(ReadSummary(key=KEY))
    assert (summary.state_epoch, summary.leader_epoch) == (5, 2)


def test_initializing_again_begins_anew(life: StateLife) -> None:
    """With the next snapshot epoch, without batches, and without the epoch of a leader."""
    life.ask(write(-1, (100, 109, 2, 1)))
    assert life.ask(InitializeState(key=KEY, state_epoch=6)) == OK
    assert life.ask(ReadSummary(key=KEY)) == SummaryResult(state_epoch=6, start_offset=-1)
    assert life.shard.states[KEY].snapshot_epoch == 1
    assert life.ask(replace(write(-1), state_epoch=5)).error == ErrorCode.FENCED_STATE_EPOCH


def test_a_state_with_dead_letters_that_are_due_may_be_kept(life: StateLife) -> None:
    """An administrator's new start waits for them; a new state without this wish does not."""
    anew = InitializeState(key=KEY, state_epoch=6, keeps_letters=True)
    life.ask(write(-1, (100, 104, 2, 1), (105, 105, 3, 1)))
    before = batches_of(life)
    refused = life.ask(anew)
    assert (refused.error, life.decided) == (ErrorCode.REBALANCE_IN_PROGRESS, [])
    assert "dead letters" in refused.message
    assert batches_of(life) == before
    life.ask(write(106, (105, 105, 4, 1)))
    assert life.ask(anew) == OK
    life.ask(replace(write(-1, (100, 100, 3, 1)), state_epoch=6, leader_epoch=0))
    assert life.ask(InitializeState(key=KEY, state_epoch=7)) == OK


def test_a_deleted_state_is_gone(life: StateLife) -> None:
    """Its summary is that of no state; deleting it once more is no error and writes nothing."""
    assert life.ask(DeleteState(key=KEY)) == OK
    assert life.decided == [ShareTombstone(KEY)]
    assert life.ask(ReadSummary(key=KEY)) == SummaryResult()
    assert life.ask(DeleteState(key=KEY)) == OK
    assert life.decided == []


def test_states_of_a_deleted_topic_are_removed(life: StateLife) -> None:
    """In slices, also if the topic was deleted while the shard was not there."""
    for number in range(450):
        key = ShareKey(GroupId(f"g{number}"), TOPIC_ID, 1)
        life.ask(InitializeState(key=key, state_epoch=0)) if number < 3 else life.shard.apply(
            ShareSnapshot(
                key=key,
                snapshot_epoch=0,
                state_epoch=0,
                leader_epoch=0,
                start_offset=0,
                created=life.now,
                written=life.now,
            ),
            len(life.log),
        )
    life.shard.handle(TopicsChanged([TopicChange(TOPIC, None)]), life.now)
    slices = []
    for _ in range(3):
        life.now = life.shard.next_deadline() or life.now
        effects = life.shard.handle(Tick(), life.now)
        slices.append(len(effects.records))
        for record in effects.records:
            life.shard.apply(record, 10_000)
    assert (slices, life.shard.states) == ([200, 200, 51], {})


def test_a_shard_starts_from_an_image_and_the_log_after_it(life: StateLife) -> None:
    """Also when the log is read from before the image; a state of many batches takes several entries."""
    other = ShareKey(GroupId("g"), TOPIC_ID, 1)
    life.ask(InitializeState(key=other, state_epoch=5, start_offset=0))
    holes = np.arange(45_000) * 2
    rows = np.stack((holes, holes, np.full_like(holes, 2), np.ones_like(holes)), axis=1)
    life.ask(replace(write(-1, key=other), leader_epoch=-1, batches=StateBatches(rows)))
    at = len(life.log)
    parts = [*life.shard.image()]
    life.ask(write(-1, (100, 100, 2, 1)))
    life.ask(write(3, (7, 7, 4, 2), key=other))
    expected = durable(life.shard)
    for start in (0, 1, at - 1, at):
        assert durable(life.loaded_from(start, parts)) == expected


def test_a_snapshot_of_very_many_batches_is_several_records() -> None:
    """Which together restore it. It waits until the updates have as many batches as the state."""
    life = StateLife(share_coordinator_snapshot_update_records_per_snapshot="1")
    life.ask(InitializeState(key=KEY, state_epoch=5, start_offset=0))
    holes = np.arange(45_000) * 2
    rows = np.stack((holes, holes, np.full_like(holes, 2), np.ones_like(holes)), axis=1)
    life.ask(replace(write(-1), batches=StateBatches(rows)))
    assert [type(one) for one in life.decided] == [ShareUpdate]
    life.ask(write(-1, (1, 1, 2, 1)))
    assert [type(one) for one in life.decided] == [ShareSnapshot, ShareUpdate, ShareUpdate]
    life.ask(write(-1, (3, 3, 2, 1)))
    assert [type(one) for one in life.decided] == [ShareUpdate]
    assert batches_of(life)[:2] == [(0, 4, 2, 1), (6, 6, 2, 1)]
    assert len(life.ask(ReadState(key=KEY)).batches) == 44_998


def test_a_snapshot_of_very_many_batches_copies_none_of_them() -> None:
    """Its records have the arrays of the state: neither the decision nor the application takes long."""
    life = StateLife(share_coordinator_snapshot_update_records_per_snapshot="1")
    life.ask(InitializeState(key=KEY, state_epoch=5, start_offset=0))
    offsets = np.arange(45_000)
    rows = np.stack((offsets, offsets, 2 + 2 * (offsets % 2), np.ones_like(offsets)), axis=1)
    life.ask(replace(write(-1), batches=StateBatches(rows)))
    before = life.shard.states[KEY].batches.batches().parts
    life.ask(write(-1, (44_998, 44_998, 4, 2)))
    assert isinstance(life.decided[0], ShareSnapshot)
    told = [part for one in life.decided for part in one.batches.parts]  # type: ignore[union-attr]
    after = life.shard.states[KEY].batches.batches().parts
    assert [id(part) for part in told] == [id(part) for part in after]
    assert sum(part is old for part, old in zip(after, before, strict=False)) >= len(before) - 2


def test_snapshots_of_cold_share_partitions_are_repeated_while_others_change(life: StateLife) -> None:
    """Then the log before them is not needed. While nothing changes, nothing is written."""
    other = ShareKey(GroupId("g"), TOPIC_ID, 1)
    life.ask(InitializeState(key=other, state_epoch=5))
    assert life.shard.needed_position() == 0
    life.advance(5 * MINUTE)
    assert life.shard.needed_position() == 0  # both are younger than five minutes
    life.ask(write(-1, (7, 7, 2, 1), key=other))
    before = len(life.log)
    life.advance(5 * MINUTE)
    assert life.shard.needed_position() == before
    assert [life.shard.states[key].snapshot_epoch for key in (KEY, other)] == [1, 1]
    assert batches_of(life, other) == [(7, 7, 2, 1)]
    before = len(life.log)
    life.advance(20 * MINUTE)
    assert len(life.log) == before
    assert durable(life.loaded_from(life.shard.needed_position())) == durable(life.shard)


def test_compaction_and_recovery_restore_current_states(life: StateLife) -> None:
    """By a snapshot, or by a tombstone for a state that is gone."""
    life.ask(write(101, (103, 103, 2, 1)))
    (update,) = life.decided
    restored = life.shard.current_record(update)
    assert isinstance(restored, ShareSnapshot)
    assert (restored.start_offset, list(restored.batches)) == (101, [(103, 103, 2, 1)])
    life.ask(DeleteState(key=KEY))
    assert life.shard.current_record(update) == ShareTombstone(KEY)


def test_a_new_partition_of_a_topic_is_known_at_once(life: StateLife) -> None:
    """Without a restart."""
    command = InitializeState(key=ShareKey(GroupId("g"), TOPIC_ID, 3), state_epoch=0)
    life.ask(TopicsChanged([TopicChange(TOPIC, KnownTopic(TOPIC_ID, 4))]))
    assert life.ask(command) == OK


def test_a_share_partition_has_kafkas_key() -> None:
    """Group, topic id in URL-safe Base64, partition: its hash decides the shard."""
    key = ShareKey(GroupId("g"), TopicId(bytes(range(240, 256))), 7)
    assert key.name == "g:8PHy8_T19vf4-fr7_P3-_w:7"
    assert partition_for(key.name, 50) == 45
