"""The decisions of the share coordinator's shard: from a command and a state to records and a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from headgate.core.share.state.commands import (
    UNKNOWN_START,
    DeleteState,
    InitializeState,
    ReadState,
    ReadStateResult,
    ReadSummary,
    ReopenState,
    StateResult,
    SummaryResult,
    WriteState,
)
from headgate.core.share.state.merging import above, combined, kept_few, replaced
from headgate.core.share.state.state import BATCHES_A_RECORD, ShareState, split
from headgate.core.topic_image import TopicImage
from headgate.domain import dead_letters
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.records.share_batches import (
    PERSISTED_STATES,
    DeliveryState,
    StateBatch,
    StateBatches,
)
from headgate.records.share_state_model import (
    UNCHANGED,
    UNKNOWN_COUNT,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareTombstone,
    ShareUpdate,
)

Decided: TypeAlias = "tuple[Sequence[ShareRecord], object]"
"""The records and the result of a command."""
_Refusal: TypeAlias = "tuple[ErrorCode, str] | None"

_LARGEST_COUNT: Final = 2**15 - 1
_LARGEST_OFFSET: Final = 2**63 - 2
_STATES: Final = sorted(PERSISTED_STATES)
_INVALID: Final = "A state batch has invalid offsets, or a delivery state or count that cannot be persisted."
_UNINITIALIZED: Final = "operation on uninitialized share partition not allowed."


class Changes:
    """Decides by the states and the topics of a shard, both live."""

    __slots__ = ("_states", "_topics", "_updates_per_snapshot")

    def __init__(
        self, states: Mapping[ShareKey, ShareState], topics: TopicImage, updates_per_snapshot: int
    ) -> None:
        self._states = states
        self._topics = topics
        self._updates_per_snapshot = updates_per_snapshot

    def initialize(self, command: InitializeState, system_time: Millis) -> Decided:
        """Decide a new state."""
        key, epoch = command.key, command.state_epoch
        state = self._states.get(key)
        refusal = _negative(key) or _fenced_state(state, epoch) or self._unknown(key)
        if refusal is None and command.start_offset < UNKNOWN_START:
            refusal = ErrorCode.INVALID_REQUEST, f"The start offset {command.start_offset} is negative."
        if refusal is None and command.keeps_letters and state is not None and _has_letters(state):
            refusal = ErrorCode.REBALANCE_IN_PROGRESS, dead_letters.WAIT
        if refusal is not None:
            return (), _refused(StateResult, refusal)
        snapshot = ShareSnapshot(
            key=key,
            snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
            state_epoch=epoch if epoch != UNCHANGED else 0 if state is None else state.state_epoch,
            leader_epoch=0,
            start_offset=command.start_offset,
            delivery_complete_count=UNKNOWN_COUNT if command.start_offset == UNKNOWN_START else 0,
            created=system_time,
            written=system_time,
        )
        return (snapshot,), StateResult()

    def read(self, command: ReadState, system_time: Millis) -> Decided:
        """Decide the answer to the partition's leader; a new leader epoch is recorded."""
        key, epoch = command.key, command.leader_epoch
        state = self._states.get(key)
        refusal = (
            _negative(key)
            or _uninitialized(state, "Read")
            or _fenced_leader(state, epoch)
            or self._unknown(key)
        )
        if refusal is not None or state is None:
            return (), _refused(ReadStateResult, refusal)
        result = ReadStateResult(
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            batches=state.batches.batches(),
            dead_letters=state.dead_letters,
        )
        if epoch in (UNCHANGED, state.leader_epoch):
            return (), result
        update = ShareUpdate(
            key=key, snapshot_epoch=state.snapshot_epoch, leader_epoch=epoch, start_offset=UNCHANGED
        )
        return self._change(state, update, system_time), result

    def write(self, command: WriteState, system_time: Millis) -> Decided:
        """Decide a change of batches and start offset."""
        key = command.key
        state = self._states.get(key)
        refusal = (
            _negative(key)
            or _uninitialized(state, "Write")
            or _fenced_leader(state, command.leader_epoch)
            or _fenced_state(state, command.state_epoch)
            or self._unknown(key)
        )
        if refusal is not None or state is None:
            return (), _refused(StateResult, refusal)
        given = command.batches
        given = given if isinstance(given, StateBatches) else StateBatches.of(given)
        reason = _why_invalid(given, command.start_offset)
        if reason is not None:
            return (), _refused(StateResult, (ErrorCode.INVALID_REQUEST, reason))
        start = max(command.start_offset, state.start_offset)
        update = ShareUpdate(
            key=key,
            snapshot_epoch=state.snapshot_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=UNCHANGED if start == state.start_offset else start,
            delivery_complete_count=_complete_count(state, command),
            batches=_kept(given, start),
            dead_letters=command.dead_letters,
        )
        return self._change(state, update, system_time), StateResult()

    def reopen(self, command: ReopenState, system_time: Millis) -> Decided:
        """Decide that records are delivered again: a snapshot, since no update can say so."""
        key = command.key
        state = self._states.get(key)
        refusal = (
            _uninitialized(state, "Reopen")
            or _fenced_leader(state, command.leader_epoch)
            or _fenced_state(state, command.state_epoch)
        )
        if state is not None and len(state.batches) > BATCHES_A_RECORD:
            refusal = ErrorCode.INVALID_REQUEST, f"The state has more than {BATCHES_A_RECORD} batches."
        if refusal is not None or state is None:
            return (), _refused(StateResult, refusal)
        start = min(command.offsets[0][0], state.start_offset)
        rows = state.batches.batches().rows
        if start < state.start_offset:
            below = StateBatch(start, state.start_offset - 1, DeliveryState.ACKNOWLEDGED, 0)
            rows = np.concatenate((StateBatches.of([below]).rows, rows))
        snapshot = replace(
            state.snapshot_of(key),
            snapshot_epoch=state.snapshot_epoch + 1,
            start_offset=start,
            delivery_complete_count=command.delivery_complete_count,
            written=system_time,
            batches=StateBatches(replaced(rows, command.offsets)),
            dead_letters=None,
        )
        return split(snapshot), StateResult()

    def delete(self, command: DeleteState, system_time: Millis) -> Decided:
        """Decide the removal of a state; without a state nothing is to do."""
        key = command.key
        refusal = _negative(key)
        if refusal is not None:
            return (), _refused(StateResult, refusal)
        return (ShareTombstone(key),) if key in self._states else (), StateResult()

    def summary(self, command: ReadSummary, system_time: Millis) -> Decided:
        """Return a state without its batches."""
        key = command.key
        state = self._states.get(key)
        refusal = _negative(key) or self._unknown(key)
        if refusal is not None:
            return (), _refused(SummaryResult, refusal)
        if state is None:
            return (), SummaryResult()
        return (), SummaryResult(
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )

    def _unknown(self, key: ShareKey) -> _Refusal:
        name = self._topics.name_of(key.topic_id)
        topic = None if name is None else self._topics.find(name)
        if topic is None or key.partition >= topic.partition_count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        return None

    def _change(self, state: ShareState, update: ShareUpdate, system_time: Millis) -> Sequence[ShareRecord]:
        """Return an update, or the snapshot that is due."""
        if not state.is_snapshot_due(self._updates_per_snapshot):
            return (update,)
        start = max(update.start_offset, state.start_offset)
        blocks = state.batches.copy()
        blocks.drop_below(start)
        blocks.merge(update.batches, start)
        count = update.delivery_complete_count
        return split(
            ShareSnapshot(
                key=update.key,
                snapshot_epoch=state.snapshot_epoch + 1,
                state_epoch=state.state_epoch,
                leader_epoch=update.leader_epoch,
                start_offset=start,
                delivery_complete_count=state.delivery_complete_count if count == UNKNOWN_COUNT else count,
                created=state.created,
                written=system_time,
                batches=blocks.batches(),
                dead_letters=update.dead_letters or state.dead_letters,
            )
        )


def _has_letters(state: ShareState) -> bool:
    return state.batches.batches().has_state(DeliveryState.ARCHIVING)


def _complete_count(state: ShareState, command: WriteState) -> int:
    """Return the delivery complete count after a write, which may have been overtaken by another one."""
    start, count = command.start_offset, command.delivery_complete_count
    if start in (UNCHANGED, state.start_offset):
        return max(count, state.delivery_complete_count)
    return count if start > state.start_offset else state.delivery_complete_count


def _kept(batches: StateBatches, start_offset: int) -> StateBatches:
    """Return any batches as a combined list of what is not below the start offset."""
    if batches.few is None:
        return StateBatches(above(combined(batches.rows), start_offset))
    return StateBatches.of_few(tuple(kept_few(batches.few, start_offset)))


def _why_invalid(batches: StateBatches, start_offset: int) -> str | None:
    if start_offset < UNCHANGED:
        return f"The start offset {start_offset} is negative."
    if batches.few is not None:
        return None if all(map(_is_valid, batches.few)) else _INVALID
    first, last, state, count = batches.rows.T
    is_invalid = (first < 0) | (last < first) | (last > _LARGEST_OFFSET)
    is_invalid |= ~np.isin(state, _STATES) | (count < 0) | (count > _LARGEST_COUNT)
    return _INVALID if is_invalid.any() else None


def _is_valid(batch: StateBatch) -> bool:
    first, last, state, count = batch
    return 0 <= first <= last <= _LARGEST_OFFSET and state in _STATES and 0 <= count <= _LARGEST_COUNT


# --- refusals ---


def _refused(result_type: type, refusal: _Refusal) -> object:
    assert refusal is not None, "a state that exists is not refused"
    error, message = refusal
    return result_type(error=error, message=message)


def _negative(key: ShareKey) -> _Refusal:
    if key.partition < 0:
        return ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number."
    return None


def _uninitialized(state: ShareState | None, operation: str) -> _Refusal:
    return (ErrorCode.INVALID_REQUEST, f"{operation} {_UNINITIALIZED}") if state is None else None


def _fenced_leader(state: ShareState | None, epoch: int) -> _Refusal:
    if state is not None and epoch != UNCHANGED and epoch < state.leader_epoch:
        return (
            ErrorCode.FENCED_LEADER_EPOCH,
            "The leader epoch in the request is older than the epoch on the broker.",
        )
    return None


def _fenced_state(state: ShareState | None, epoch: int) -> _Refusal:
    if state is not None and epoch != UNCHANGED and epoch < state.state_epoch:
        return (
            ErrorCode.FENCED_STATE_EPOCH,
            "The share coordinator rejected the request because the share-group state epoch did not match.",
        )
    return None
