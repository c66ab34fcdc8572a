"""Servers that deliver to share groups with one deliberate fault each, which the model must notice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headgate.core.share.partition import acknowledging, share_partition, taking_back
from headgate.core.share.partition.model import StateChange
from headgate.core.share.partition.ranges import ACQUIRED, AVAILABLE, Ranges
from headgate.core.share.partition.share_partition import SharePartition
from headgate.core.share.state import state as state_module
from headgate.core.share.state.state import ShareState
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.transaction_index import NO_TRANSACTIONS
from headgate.records.share_batches import NO_BATCHES
from headgate.records.share_state_model import ShareSnapshot
from headgate.server.shares import source_log
from headgate.server.shares.reading import read_batches
from headgate.server.shares.source_log import SourceLog
from headgate.server.shares.writing import StateWriter
from headgate.topics.partition import Partition


def acknowledgements_are_answered_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    persist = StateWriter.persist

    def hasty(
        writer: StateWriter, change: StateChange, on_done: Any = lambda error: None, mark: Any = None
    ) -> None:
        persist(writer, change, mark=mark)
        on_done(ErrorCode.NONE)

    patch.setattr(StateWriter, "persist", hasty)


def the_limit_of_deliveries_is_ignored(patch: pytest.MonkeyPatch) -> None:
    for module in (taking_back, acknowledging):
        patch.setattr(module, "state_without_member", lambda delivery, limits: AVAILABLE)


def anybody_may_acknowledge(patch: pytest.MonkeyPatch) -> None:
    def acquired(partition: SharePartition, batch: Any, owner: int) -> Any:
        ranges = partition._ranges
        if batch.last_offset >= ranges.end:
            return ErrorCode.INVALID_REQUEST
        pieces = list(ranges.pieces(max(batch.first_offset, ranges.start), batch.last_offset))
        if any(piece.delivery.state != ACQUIRED for piece in pieces):
            return ErrorCode.INVALID_RECORD_STATE
        return pieces

    patch.setattr(SharePartition, "_acquired", acquired)


def locks_end_early(patch: pytest.MonkeyPatch) -> None:
    acquire = SharePartition.acquire
    patch.setattr(
        SharePartition, "acquire", lambda partition, wish, now: acquire(partition, wish, Millis(now - 700))
    )


def renewed_locks_end_as_before(patch: pytest.MonkeyPatch) -> None:
    acknowledge = SharePartition.acknowledge
    patch.setattr(
        SharePartition,
        "acknowledge",
        lambda partition, member, batches, now: acknowledge(partition, member, batches, Millis(now - 990)),
    )


def released_records_keep_no_count(patch: pytest.MonkeyPatch) -> None:
    state_batches = acknowledging.state_batches

    def forgetful(pieces: Any) -> Any:
        return [
            batch._replace(delivery_count=0) if batch.delivery_state == AVAILABLE else batch
            for batch in state_batches(pieces)
        ]

    patch.setattr(share_partition, "state_batches", forgetful)


def snapshots_forget_batches(patch: pytest.MonkeyPatch) -> None:
    of = ShareState.of.__func__  # type: ignore[attr-defined]

    def empty(cls: type[ShareState], record: ShareSnapshot, position: int) -> ShareState:
        state: ShareState = of(cls, record, position)
        state.batches = type(state.batches)()
        return state

    patch.setattr(state_module.ShareState, "of", classmethod(empty))


def updates_move_the_start_only(patch: pytest.MonkeyPatch) -> None:
    update = ShareState.update

    def partial(state: ShareState, record: Any, position: int) -> None:
        object.__setattr__(record, "batches", NO_BATCHES)
        update(state, record, position)

    patch.setattr(ShareState, "update", partial)


def the_start_passes_what_is_in_flight(patch: pytest.MonkeyPatch) -> None:
    change = SharePartition._change

    def hasty(partition: SharePartition, batches: Any, write: int = 0) -> StateChange:
        found = change(partition, batches, write)
        last = max((batch.last_offset for batch in batches), default=-1)
        return StateChange(
            write=found.write,
            start_offset=max(found.start_offset, last),
            delivery_complete_count=0,
            batches=found.batches,
        )

    patch.setattr(SharePartition, "_change", hasty)


def records_of_aborted_transactions_are_delivered(patch: pytest.MonkeyPatch) -> None:
    def all_of_them(offset: int, records: bytes, aborted: Sequence[Any], enough: int) -> Any:
        return read_batches(offset, records, NO_TRANSACTIONS, enough)

    patch.setattr(source_log, "read_batches", all_of_them)


def records_of_open_transactions_are_delivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SourceLog, "visible_end", lambda log, partition: partition.high_watermark)
    read = Partition.read

    def uncommitted(partition: Any, *given: Any, is_committed: bool = False, **more: Any) -> Any:
        return read(partition, *given, is_committed=False, **more)

    patch.setattr(Partition, "read", uncommitted)


def failed_writes_leave_records_pending(patch: pytest.MonkeyPatch) -> None:
    finish = SharePartition.finish_write

    def only_durable(partition: SharePartition, write: int, *, is_durable: bool, now: Millis) -> Any:
        return finish(partition, write, is_durable=True, now=now) if is_durable else None

    patch.setattr(SharePartition, "finish_write", only_durable)


def records_are_delivered_before_the_start_is_durable(patch: pytest.MonkeyPatch) -> None:
    persist_start = StateWriter.persist_start

    def hasty(writer: StateWriter, machine: SharePartition, on_done: Any = lambda error: None) -> None:
        persist_start(writer, machine)
        on_done(ErrorCode.NONE)

    patch.setattr(StateWriter, "persist_start", hasty)


def starts_behind_the_last_record_are_not_persisted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StateWriter, "persist_what_nobody_acknowledges", lambda writer, machine: None)


def what_could_not_be_written_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StateWriter, "_was_not_written", lambda writer, change, is_awaited: None)


def complete_ranges_are_dropped_anywhere(patch: pytest.MonkeyPatch) -> None:
    drop = Ranges.drop_complete

    def hasty(ranges: Ranges) -> None:
        drop(ranges)
        if ranges.end - ranges.start > 8:
            ranges.trim(ranges.start + 4)

    patch.setattr(Ranges, "drop_complete", hasty)
