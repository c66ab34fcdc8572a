"""The state of one share-partition, and the records that restore it or change it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from headgate.core.share.state.batch_blocks import BatchBlocks
from headgate.domain.ids import Millis
from headgate.records.share_batches import NO_BATCHES, BatchRows, StateBatches
from headgate.records.share_state_model import (
    UNCHANGED,
    UNKNOWN_COUNT,
    DeadLetterMark,
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareUpdate,
)

BATCHES_A_RECORD: Final = 20_000
"""More batches than this are several records: a snapshot with the first ones, and updates with the others."""


@dataclass(slots=True)
class ShareState:
    """The durable state of one share-partition."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    created: Millis
    written: Millis
    """When the last snapshot was made, system time."""
    snapshot_position: int
    """Position of the last snapshot: the log is needed from there on."""
    position: int
    """Position of the last record."""
    updates: int = 0
    """Number of updates since the last snapshot."""
    updated_batches: int = 0
    """Number of batches in these updates."""
    batches: BatchBlocks = field(default_factory=BatchBlocks)
    dead_letters: DeadLetterMark | None = None

    @classmethod
    def of(cls, record: ShareSnapshot, position: int) -> ShareState:
        """Return the state of a snapshot at a position of the log."""
        state = cls(
            snapshot_epoch=record.snapshot_epoch,
            state_epoch=record.state_epoch,
            leader_epoch=record.leader_epoch,
            start_offset=record.start_offset,
            delivery_complete_count=record.delivery_complete_count,
            created=record.created,
            written=record.written,
            snapshot_position=position,
            position=position,
            dead_letters=record.dead_letters,
        )
        state.batches.merge(record.batches, record.start_offset)
        return state

    def update(self, record: ShareUpdate, position: int) -> None:
        """Apply an update at a position of the log."""
        if record.leader_epoch != UNCHANGED:
            self.leader_epoch = record.leader_epoch
        if record.delivery_complete_count != UNKNOWN_COUNT:
            self.delivery_complete_count = record.delivery_complete_count
        if record.dead_letters is not None:
            self.dead_letters = record.dead_letters
        if record.start_offset > self.start_offset:
            self.start_offset = record.start_offset
            self.batches.drop_below(record.start_offset)
        self.batches.merge(record.batches, self.start_offset)
        self.position = position
        self.updates += 1
        self.updated_batches += len(record.batches)

    def is_snapshot_due(self, updates_per_snapshot: int) -> bool:
        """Return whether the next change must be a snapshot.

        A snapshot of very many batches waits until the updates have as many, so that it costs no more than
        they do.
        """
        count = len(self.batches)
        return self.updates >= updates_per_snapshot and (
            count <= BATCHES_A_RECORD or self.updated_batches >= count
        )

    def snapshot_of(self, key: ShareKey) -> ShareSnapshot:
        """Return a snapshot that restores this state, with all batches in one record."""
        return ShareSnapshot(
            key=key,
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            created=self.created,
            written=self.written,
            batches=self.batches.batches(),
            dead_letters=self.dead_letters,
        )


def split(snapshot: ShareSnapshot) -> list[ShareRecord]:
    """Return records that together restore the state of a snapshot, none of them with too many batches."""
    pieces = list(_pieces(snapshot.batches)) if snapshot.batches.few is None else []
    if len(pieces) < 2:
        return [snapshot]
    first = ShareSnapshot(
        key=snapshot.key,
        snapshot_epoch=snapshot.snapshot_epoch,
        state_epoch=snapshot.state_epoch,
        leader_epoch=snapshot.leader_epoch,
        start_offset=snapshot.start_offset,
        delivery_complete_count=snapshot.delivery_complete_count,
        created=snapshot.created,
        written=snapshot.written,
        batches=pieces[0],
        dead_letters=snapshot.dead_letters,
    )
    others = [
        ShareUpdate(
            key=snapshot.key,
            snapshot_epoch=snapshot.snapshot_epoch,
            leader_epoch=UNCHANGED,
            start_offset=UNCHANGED,
            batches=piece,
        )
        for piece in pieces[1:]
    ]
    return [first, *others]


def _pieces(batches: StateBatches) -> Iterator[StateBatches]:
    """Yield the batches in parts for one record each. The arrays are not copied: there may be a thousand."""
    new = StateBatches.combined if batches.are_combined else StateBatches
    held: list[BatchRows] = []
    count = 0
    for part in batches.parts:
        if held and count + len(part) > BATCHES_A_RECORD:
            yield new(*held)
            held, count = [], 0
        held.append(part)
        count += len(part)
    yield new(*held) if held else NO_BATCHES
