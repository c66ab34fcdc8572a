"""Servers with one deliberate fault each, which the simulation must detect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.clock import SimulatedTime

from headgate.core.classic import join
from headgate.core.classic import offsets as classic_offsets
from headgate.core.classic.group import ClassicGroup
from headgate.core.consumer import admission, reconcile
from headgate.core.consumer import offsets as consumer_offsets
from headgate.core.consumer import removal as removal_of_members
from headgate.core.consumer.context import ConsumerContext
from headgate.core.consumer.group import ConsumerGroup
from headgate.core.consumer.groups import ConsumerGroups
from headgate.core.consumer.patterns import PatternMatching
from headgate.core.consumer.reconcile import union as reconcile_union
from headgate.core.contract import Effects
from headgate.core.migration import classic_members, migration
from headgate.core.offsets import expiry, removal
from headgate.core.offsets.conditions import refuse
from headgate.core.offsets.history import HistoryCollector, TopicLife
from headgate.core.offsets.table import OffsetTable
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import ZERO_TOPIC_ID
from headgate.history.offset_history import OffsetHistory
from headgate.history.writer import HistoryWriter
from headgate.log import recovery
from headgate.log.compaction_output import CompactionOutput
from headgate.log.key_table import KeyTable, key_hash
from headgate.log.log import Log
from headgate.log.segment import Segment
from headgate.log.swap import CLEANED_SUFFIX
from headgate.log.sync_mark import SyncMark
from headgate.records import ConsumerGroupCurrentAssignment, ConsumerGroupMetadata
from headgate.records.runs import RunReader
from headgate.runtime import group_commit
from headgate.runtime.checkpoints import CheckpointWriter
from headgate.runtime.local_log import LocalLog
from headgate.runtime.shard_runtime import ShardRuntime
from headgate.topics.compactor import NO_RULES

Break = Callable[[pytest.MonkeyPatch], None]


def replies_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalLog, "durable_position", property(lambda log: log._end))


def parts_of_a_commit_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunReader, "take", lambda reader, record, place: (record,))


def torn_commits_stay_the_last_of_their_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShardRuntime, "_commit_current_values", lambda runtime: None)


def failed_syncs_are_ignored(patch: pytest.MonkeyPatch) -> None:
    def complete(log: Log, request: Any) -> bool:
        with suppress(OSError):
            log.complete_sync(request)
        return True

    patch.setattr(group_commit, "_complete", complete)


def failed_syncs_count_as_done(patch: pytest.MonkeyPatch) -> None:
    complete_sync = Log.complete_sync

    def complete(log: Log, request: Any) -> None:
        request.error = None
        complete_sync(log, request)

    patch.setattr(Log, "complete_sync", complete)


def an_older_join_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    park_join = ClassicGroup.park_join

    def park(group: ClassicGroup, member: Any, token: int) -> None:
        park_join(group, member, token)

    patch.setattr(ClassicGroup, "park_join", park)


def members_of_old_generations_may_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(classic_offsets, "commit_error", lambda group, command: ErrorCode.NONE)


def offsets_expire_too_early(patch: pytest.MonkeyPatch) -> None:
    is_expired = expiry.is_expired
    patch.setattr(
        removal,
        "is_expired",
        lambda clock, committed, expires, now, retention_ms: is_expired(
            clock, committed, expires, now, retention_ms // 2
        ),
    )


def offsets_never_expire(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(removal, "is_expired", lambda *given: False)


def sessions_begin_anew_only_at_a_crash(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "headgate.core.classic.context.ClassicContext.start_session", lambda context, group, member: None
    )


def a_wide_commit_misses_its_last_partition(patch: pytest.MonkeyPatch) -> None:
    def put(table: OffsetTable, commits: Any) -> None:
        for commit in list(commits.each())[:-1]:
            table.put(commit)

    patch.setattr(OffsetTable, "put_columns", put)


def members_are_forgotten_by_a_load(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "headgate.core.classic.groups.ClassicGroups.loaded", lambda groups, turn: groups.live.clear()
    )


def conditions_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("headgate.core.offset_dispatch.refuse", lambda table, command, metadata_limit: None)


def a_condition_is_judged_by_the_first_partition(patch: pytest.MonkeyPatch) -> None:
    def refuse_at_first(table: Any, command: Any, metadata_limit: int) -> Any:
        refusal = refuse(table, command, metadata_limit)
        return refusal if refusal is None or (0, 0) in (refusal.current or {}) else None

    patch.setattr("headgate.core.offset_dispatch.refuse", refuse_at_first)


def torn_commits_count_in_compaction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetHistory, "rules_of", lambda history, partition: NO_RULES)


def compaction_trusts_the_page_cache(patch: pytest.MonkeyPatch) -> None:
    def finish(output: Any) -> None:
        output.flush()
        output.segment.save_indexes_aside(CLEANED_SUFFIX)
        output.segment.synced_bytes = output.segment.size
        output.segment.indexes_synced = True

    patch.setattr(CompactionOutput, "finish", finish)


def compaction_keeps_the_first_record_of_a_key(patch: pytest.MonkeyPatch) -> None:
    put = KeyTable.put

    def put_first(table: KeyTable, hashed: bytes, offset: int) -> int:
        return 0 if table.get(hashed) >= 0 else put(table, hashed, offset)

    def put_each(table: KeyTable, keys: Sequence[bytes], offsets: Sequence[int]) -> None:
        for key, offset in zip(keys, offsets, strict=True):
            put_first(table, key_hash(key), int(offset))

    patch.setattr(KeyTable, "put", put_first)
    patch.setattr(KeyTable, "put_each", put_each)


def pages_of_a_failed_sync_are_trusted_by_the_next_process(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "load_sync_mark", lambda files, directory: SyncMark(1 << 62, 0))


def closed_segments_keep_their_room(patch: pytest.MonkeyPatch) -> None:
    def finish(segment: Segment) -> None:
        segment.file().datasync()
        segment.synced_bytes = segment.size

    patch.setattr(Segment, "finish", finish)


def a_static_member_comes_back_without_its_assignment(patch: pytest.MonkeyPatch) -> None:
    replace = ClassicGroup.replace

    def forget(group: ClassicGroup, old: Any, member_id: Any) -> Any:
        member = replace(group, old, member_id)
        member.assignment = b""
        return member

    patch.setattr(ClassicGroup, "replace", forget)


def a_static_member_loses_its_place_in_a_crash(patch: pytest.MonkeyPatch) -> None:
    replace_static = join._replace_static

    def unwritten(*given: Any) -> Any:
        return Effects((), replace_static(*given).replies)

    patch.setattr(join, "_replace_static", unwritten)


def a_checkpoint_claims_what_came_while_it_was_written(patch: pytest.MonkeyPatch) -> None:
    bond = CheckpointWriter._bond
    patch.setattr(
        CheckpointWriter, "_bond", lambda writer, position: bond(writer, writer._runtime.written_position)
    )


# Faults in the promises about the history.


def compaction_moves_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HistoryWriter, "offer", lambda *given: None)
    patch.setattr(HistoryWriter, "offer_columns", lambda *given: None)


def what_is_moved_is_not_durable_before_it_is_dropped(patch: pytest.MonkeyPatch) -> None:
    def flush(writer: HistoryWriter) -> Any:
        yield from writer.flush()

    patch.setattr(HistoryWriter, "settle", flush)


def removals_are_not_moved(patch: pytest.MonkeyPatch) -> None:
    offer = HistoryWriter.offer

    def offer_commits(writer: HistoryWriter, offset: int, record: Any) -> None:
        if record.value is not None:
            offer(writer, offset, record)

    patch.setattr(HistoryWriter, "offer", offer_commits)


def parts_of_a_commit_are_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("headgate.history.scan._Scan._ends", lambda *given: True)


def history_is_deleted_too_early(patch: pytest.MonkeyPatch) -> None:
    overrides = OffsetHistory._overrides
    patch.setattr(OffsetHistory, "_overrides", lambda history: overrides(history) | {"retention.ms": "5000"})


def the_search_ends_too_early(patch: pytest.MonkeyPatch) -> None:
    is_answered = HistoryCollector.is_answered
    patch.setattr(
        HistoryCollector,
        "is_answered",
        lambda collector, moved_until: is_answered(collector, moved_until - 3000),
    )


def a_new_topic_owns_the_past_of_its_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopicLife, "owns", lambda life, entry: life.topic_id != ZERO_TOPIC_ID)


# Faults in the promises of consumer groups.


def commits_of_zombies_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consumer_offsets, "_all_assigned_by", lambda *given: True)


def owners_have_to_commit_in_their_present_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consumer_offsets, "_all_assigned_by", lambda *given: False)


def heartbeats_of_zombies_are_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission, "_with_valid_epoch", lambda member, command: admission.Admitted(member))


def a_lost_answer_fences_its_member(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission, "owns_no_more", lambda reported, current: False)


def partitions_are_given_before_they_are_let_go(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile, "_has_any", lambda reported, partitions: False)


def partitions_that_others_have_are_given_away(patch: pytest.MonkeyPatch) -> None:
    next_of = reconcile._next
    patch.setattr(
        reconcile,
        "_next",
        lambda current, aim, reported: next_of(current, replace(aim, owner_of=lambda *part: None), reported),
    )


def what_was_let_go_first_is_given_away_in_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconcile, "union", lambda one, other: other if one else reconcile_union(one, other))


def assignment_epochs_are_not_persisted(patch: pytest.MonkeyPatch) -> None:
    apply = ConsumerGroup.apply

    def without_epochs(group: ConsumerGroup, record: Any) -> None:
        if isinstance(record, ConsumerGroupCurrentAssignment):
            assigned = {
                topic: dict.fromkeys(each, max(record.member_epoch, 0))
                for topic, each in record.assigned.items()
            }
            record = replace(record, assigned=assigned)
        apply(group, record)

    patch.setattr(ConsumerGroup, "apply", without_epochs)


def a_static_member_comes_back_in_its_old_epochs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(removal_of_members, "_kept_while_away", lambda assigned, paused: assigned)


def silent_members_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerContext, "start_session", lambda *given: None)


def members_may_keep_what_they_are_to_let_go(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerContext, "wait_for_revocation", lambda *given: None)


def sessions_of_a_group_are_forgotten_by_a_load(patch: pytest.MonkeyPatch) -> None:
    loaded = ConsumerGroups.loaded

    def loaded_with_standard(groups: ConsumerGroups, now: Any) -> None:
        overrides, groups._overrides = groups._overrides, {}
        loaded(groups, now)
        groups._overrides = overrides

    patch.setattr(ConsumerGroups, "loaded", loaded_with_standard)


def who_goes_is_not_replaced(patch: pytest.MonkeyPatch) -> None:
    remove = removal_of_members.remove_members

    def without_raising(turn: Any, group: Any, member_ids: Any) -> Any:
        records = remove(turn, group, member_ids)
        return [one for one in records if not isinstance(one, ConsumerGroupMetadata)]

    for module in (removal_of_members, migration):
        patch.setattr(module, "remove_members", without_raising)


def groups_do_not_look_at_topics_again(patch: pytest.MonkeyPatch) -> None:
    topics_changed = ConsumerGroups.topics_changed

    def unnoticed(groups: ConsumerGroups, *given: Any) -> None:
        verified = set(groups.verified)
        topics_changed(groups, *given)
        groups.verified = verified

    patch.setattr(ConsumerGroups, "topics_changed", unnoticed)


def expressions_are_matched_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PatternMatching, "topics_changed", lambda matching, group, changes: False)


def checkpoints_forget_members(patch: pytest.MonkeyPatch) -> None:
    records = ConsumerGroup.records

    def without_members(group: ConsumerGroup) -> Any:
        return (one for one in records(group) if not isinstance(one, ConsumerGroupCurrentAssignment))

    patch.setattr(ConsumerGroup, "records", without_members)


def classic_members_are_not_told_to_join_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(classic_members, "_has_to_join", lambda *given: False)


def the_systems_clock_is_read_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShardRuntime, "_now", lambda runtime: runtime._clock.steady_time())


def deadlines_follow_the_systems_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedTime, "steady_time", SimulatedTime.system_time)


def what_is_moved_bears_the_time_of_a_clock_that_was_set_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HistoryWriter, "_now", lambda writer: writer._clock.system_time())


def former_owners_may_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consumer_offsets, "commit_error", lambda *given: ErrorCode.NONE)
