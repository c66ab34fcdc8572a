"""Servers with one deliberate fault each in transactions, which the simulation must detect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from headgate.api import produced_transactions
from headgate.core.consumer import offsets as consumer_offsets
from headgate.core.offsets.pending import PendingOffsets
from headgate.core.offsets.transactions import OffsetTransactions
from headgate.core.transactions import decisions, shard, states, transitions
from headgate.core.transactions.shard import TransactionShard
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.log.segments import Segments
from headgate.log.transaction_fates import TransactionFates
from headgate.runtime.local_log import LocalLog
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.server import transactions as markers
from headgate.server.transactions import MarkerWriter
from headgate.topics.transactions import Transactions

Break = Callable[[pytest.MonkeyPatch], None]


def aborts_are_commits(patch: pytest.MonkeyPatch) -> None:
    prepared = transitions.prepared
    patch.setattr(decisions, "prepared", lambda old, is_committed, *more: prepared(old, True, *more))


def the_last_marker_is_lost(patch: pytest.MonkeyPatch) -> None:
    partitions = markers._Transaction._partitions

    def all_but_one(transaction: Any) -> Any:
        found = list(partitions(transaction))
        return iter(found[:-1] if len(found) > 2 else found)

    patch.setattr(markers._Transaction, "_partitions", all_but_one)


def zombies_are_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decisions, "_check_producer", lambda old, producer: ErrorCode.NONE)


def a_second_producer_fences_nobody(patch: pytest.MonkeyPatch) -> None:
    initialized = transitions.initialized

    def in_the_same_epoch(old: Any, *given: Any, **more: Any) -> Any:
        return replace(initialized(old, *given, **more), producer_epoch=old.producer_epoch)

    patch.setattr(decisions, "initialized", in_the_same_epoch)


def the_start_does_not_wait_for_markers(patch: pytest.MonkeyPatch) -> None:
    start = MarkerWriter.start

    async def at_once(writer: MarkerWriter) -> None:
        writer._settled.set()
        await start(writer)

    patch.setattr(MarkerWriter, "start", at_once)


def decisions_are_told_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalLog, "durable_position", property(lambda log: log._end))


def timeouts_are_forgotten_by_a_load(patch: pytest.MonkeyPatch) -> None:
    loaded = TransactionShard.loaded

    def without_deadlines(one: TransactionShard, now: Any) -> None:
        loaded(one, now)
        for transactional_id in one.by_id:
            one._deadlines.cancel(transactional_id)

    patch.setattr(TransactionShard, "loaded", without_deadlines)


def decisions_are_forgotten_by_a_load(patch: pytest.MonkeyPatch) -> None:
    loaded = TransactionShard.loaded

    def without_decisions(one: TransactionShard, now: Any) -> None:
        loaded(one, now)
        one._untold.clear()

    patch.setattr(TransactionShard, "loaded", without_decisions)


def a_load_believes_the_clock(patch: pytest.MonkeyPatch) -> None:
    """A clock that was set back keeps a transaction open for as long."""
    loaded = TransactionShard.loaded

    def by_the_clock(one: TransactionShard, now: Any) -> None:
        loaded(one, now)
        for transactional_id, each in one.by_id.items():
            if each.state is states.ONGOING:
                age_ms = one._system_time.at(now) - each.start_timestamp
                one._deadlines.set(transactional_id, Millis(now + max(each.timeout_ms - age_ms, 0)))

    patch.setattr(TransactionShard, "loaded", by_the_clock)


def a_timeout_keeps_the_epoch(patch: pytest.MonkeyPatch) -> None:
    fenced = transitions.fenced

    def in_the_same_epoch(old: Any, *given: Any) -> Any:
        return replace(fenced(old, *given), producer_epoch=old.producer_epoch)

    patch.setattr(shard, "fenced", in_the_same_epoch)


def readers_pass_the_last_stable_offset(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transactions, "last_stable_offset", lambda one, high_watermark: high_watermark)


def aborted_transactions_are_not_listed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Segments, "note_aborted", lambda segments, aborted: None)


def plain_commits_do_not_win(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingOffsets, "_outdate_each", lambda *given: None)


def removals_leave_pending_offsets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingOffsets, "_remove_each", lambda *given: None)


def the_last_marker_wins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("headgate.core.offsets.pending._outdate", lambda others, committed: None)


def checkpoints_forget_pending_offsets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PendingOffsets, "copy", lambda pending: [])


def ends_are_not_repeated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decisions, "_is_repeated", lambda old, producer: False)


def partitions_are_not_verified(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(produced_transactions, "_check", lambda node, version: None)


def compaction_drops_markers_of_batches_that_remain(patch: pytest.MonkeyPatch) -> None:
    end = TransactionFates.end
    patch.setattr(TransactionFates, "end", lambda fates, header: (False, end(fates, header)[1]))


def the_answer_of_a_rotation_is_the_old_producer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decisions, "answer_of", lambda record: (record.producer_id, record.producer_epoch))


def markers_end_offsets_of_all_groups_but_the_last(patch: pytest.MonkeyPatch) -> None:
    ending = PendingOffsets.ending

    def ending_the_first(pending: PendingOffsets, *given: Any, **more: Any) -> Iterator[Any]:
        return iter(list(ending(pending, *given, **more))[:1])

    patch.setattr(PendingOffsets, "ending", ending_the_first)


def former_owners_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consumer_offsets, "commit_error", lambda *given: ErrorCode.NONE)


def unstable_offsets_are_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetTransactions, "mark", lambda transactions, command, found: found)


def a_stopped_server_goes_on_writing(patch: pytest.MonkeyPatch) -> None:
    close = ShardRuntime.close

    def close_and_go_on(runtime: ShardRuntime[Any]) -> None:
        close(runtime)
        runtime._is_closed = False

    patch.setattr(ShardRuntime, "close", close_and_go_on)
