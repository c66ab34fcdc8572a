"""One shard of the group coordinator: it routes commands, applies records, and knows the next deadline.

    durable    offsets (the table), the records of groups          changed only by `apply`
    volatile   other state of groups, deadlines, upkeep            changed by `handle`, reset by `loaded`
    context    distance of the system time, topics                 set by commands, before `loaded` and on

A group belongs to one shard, so that no command needs another. Differences between kinds of groups are in
the kinds (`headgate.core.kinds`); the shard treats them all alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

from headgate.core.commands import (
    DeleteGroup,
    DeleteTopicOffsets,
    DescribeExpiry,
    ListExpiring,
    ListGroups,
    ListMoreGroups,
    RetentionConfigured,
    SystemTimeMoved,
    Tick,
)
from headgate.core.contract import Producer, Token, TransactionEnd, finish
from headgate.core.deadlines import Deadlines
from headgate.core.effects import NOTHING, GroupEffects, answer, together
from headgate.core.events import Events, GroupDeleted
from headgate.core.expiry_forecast import ExpiryForecasts, ForecastSteps
from headgate.core.group_deletion import GroupDeletions
from headgate.core.groups import GroupCounts, Groups
from headgate.core.image import apply_record_parts
from headgate.core.kinds import GroupCommands, GroupKind, Handler, ShardContext
from headgate.core.offset_dispatch import OffsetDispatch
from headgate.core.offsets import pending_image
from headgate.core.offsets.commit import CommitCounts
from headgate.core.offsets.table import OffsetTable
from headgate.core.offsets.transactions import OffsetTransactions
from headgate.core.pause.dispatch import PauseDispatch
from headgate.core.pause.paused import PausedGroups
from headgate.core.retentions import Retentions
from headgate.core.standard_kinds import standard_kinds
from headgate.core.system_time import SystemTime
from headgate.core.timers import Timer, TimerKind
from headgate.core.topic_image import TopicImage, TopicsChanged
from headgate.core.upkeep import ExpiryCounts, Upkeep
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicName
from headgate.domain.settings import Settings
from headgate.records import (
    Change,
    ChangeAuthor,
    ColumnBatch,
    OffsetBatch,
    OffsetCommit,
    OffsetTombstone,
    PausedTopicPartitions,
    PausedTopicPartitionsTombstone,
    Record,
    UnknownRecord,
)
from headgate.records.offset_rows import OffsetRows

_OFFSETS = OffsetBatch, OffsetCommit, ColumnBatch, OffsetRows
_WIDE = OffsetBatch, ColumnBatch, OffsetRows
_FAILED_TIMER_PAUSE_MS = 10_000
"""After this time a deadline whose handler raised is due again."""
_MOST_AT_ONCE = 16
"""More offsets of open transactions, or beside them, are applied in steps."""
KindsOfGroups = Callable[[ShardContext, Groups], Sequence[tuple[GroupKind, GroupCommands]]]
"""Creates the kinds of groups of one shard, each with its commands, in the order of their precedence."""


class GroupShard:
    """The groups and offsets of one partition of `__consumer_offsets`; a `headgate.core.contract.Shard`."""

    def __init__(self, settings: Settings, kinds: KindsOfGroups = standard_kinds) -> None:
        self.offsets = OffsetTable()
        self.transactions = OffsetTransactions(self.offsets)
        self.pending = self.transactions.pending
        self.finishes_later = False
        self.unfinished: deque[Iterator[None]] = deque()
        """See `headgate.core.contract.FinishesLater`: only pending offsets take many steps."""
        self._deadlines: Deadlines[Timer] = Deadlines()
        self._system_time = SystemTime()
        self._topics = TopicImage()
        self.paused = PausedGroups()
        self.events = Events()
        context = ShardContext(
            settings, self._deadlines, self._system_time, self._topics, self.paused, self.events
        )
        self.groups = Groups(self.offsets, self.paused)
        with_commands = kinds(context, self.groups)
        self._kinds = [kind for kind, _ in with_commands]
        self.groups.consist_of(self._kinds)
        self.retentions = Retentions(settings)
        self._upkeep = Upkeep(context, self.offsets, self.pending, self.groups, self.retentions)
        self._forecasts = ExpiryForecasts(
            self.offsets, self.pending, self.groups, self.paused, self.retentions
        )
        self._deletions = GroupDeletions(self.offsets, self.pending, self.groups, self._deadlines)
        pausing = {kind.NAME: commands.pausing() for kind, commands in with_commands}
        self._pauses = PauseDispatch(context, self.groups, self.offsets, pausing)
        self._of_offsets = OffsetDispatch(
            context, self.offsets, self.transactions, self.groups, self._kinds, self._pauses
        )
        self._commands_by_timer: dict[IntEnum, GroupCommands] = {}
        self._without_records: set[IntEnum] = set()
        """Deadlines whose handlers use volatile state only. All others read durable state."""
        self._handlers: dict[type[Any], Handler] = {
            ListGroups: self._list,
            ListMoreGroups: self._list_more,
            DeleteGroup: self._delete_group,
            DeleteTopicOffsets: self._delete_topic_offsets,
            DescribeExpiry: self._describe_expiry,
            ListExpiring: self._list_expiring,
            RetentionConfigured: self._retention_configured,
            TopicsChanged: self._topics_changed,
            SystemTimeMoved: self._system_time_moved,
            Tick: self._tick,
            **self._pauses.handlers(),
            **self._of_offsets.handlers(),
        }
        for _, commands in with_commands:
            self._handlers.update(commands.handlers())
            for timer_kind, reads_records in commands.TIMERS.items():
                self._commands_by_timer[timer_kind] = commands
                if not reads_records:
                    self._without_records.add(timer_kind)

    # --- the contract ---

    def handle(self, command: Any, now: Millis, token: Token = 0) -> GroupEffects:
        """Decide the effects of a command; see `headgate.core.contract.Shard`."""
        return self._handlers[type(command)](command, now, token)

    def apply(self, record: Change, position: int, producer: Producer | None = None) -> None:
        """Apply a record to the durable state. Records of unknown types in a log change nothing.

        A committed offset of a producer is pending until `end_transaction`; other records count at once.
        Raises UnknownKind for one of our records that belongs to no kind of groups.
        """
        if self.unfinished:
            self._leave(self._applying(record, position, producer))
        elif producer is not None and isinstance(record, _OFFSETS):
            if isinstance(record, OffsetCommit) or len(record) <= _MOST_AT_ONCE:
                self.transactions.apply(record, position, producer)
            else:
                self._leave(self.transactions.applying(record, position, producer))
        elif self.pending.by_place:
            self._apply_beside_pending(record)
        else:
            self._apply(record)

    def _apply_beside_pending(self, record: Change) -> None:
        self._apply(record)
        self.offsets.changed()  # a tombstone of a pending offset alone changes no row
        if isinstance(record, _WIDE) and len(record) > _MOST_AT_ONCE:
            self._leave(self.pending.noting(record))
        else:
            self.pending.note(record)

    def _applying(self, record: Change, position: int, producer: Producer | None) -> Iterator[None]:
        """Apply a record after others that took more than one step."""
        if producer is not None and isinstance(record, _OFFSETS):
            yield from self.transactions.applying(record, position, producer)
        else:
            self._apply(record)
            yield from self.pending.noting(record)

    def _leave(self, steps: Iterator[None]) -> None:
        """Leave steps to be taken later, or take them now."""
        self.unfinished.append(steps)
        if not self.finishes_later:
            for _ in finish(self.unfinished):
                pass

    def _apply(self, record: Change) -> None:
        match record:
            case OffsetBatch():
                self.offsets.put_batch(record)
            case OffsetCommit():
                self.offsets.put(record)
            case ColumnBatch():
                self.offsets.put_columns(record)
            case OffsetRows():
                self.offsets.put_rows(record)
            case OffsetTombstone(group_id, topic, partition):
                self.offsets.remove(group_id, topic, partition)
            case PausedTopicPartitions() | PausedTopicPartitionsTombstone():
                self.paused.apply(record)
            case UnknownRecord() | ChangeAuthor():
                pass
            case _:
                if self.groups.kind_of_record(record).apply(record):
                    self.offsets.forget_group(record.group_id)

    def apply_rows(self, rows: OffsetRows) -> None:
        """Apply many offset records; see `headgate.core.contract.TakesRows`."""
        if self.unfinished:
            self._leave(self._applying(rows, 0, None))
        elif self.pending.by_place:
            self._apply_beside_pending(rows)
        else:
            self.offsets.put_rows(rows)

    def end_transaction(self, end: TransactionEnd, position: int) -> None:
        """Commit or drop pending offsets; see `headgate.core.contract.TakesTransactions`."""
        self._leave(self.transactions.ending(end, position))

    # --- images ---

    def image(self) -> Iterator[tuple[str, bytes]]:
        """Yield the durable state in parts; see `headgate.core.contract.Pictured`."""
        for _ in finish(self.unfinished):
            pass
        yield from pending_image.parts_of(self.pending.copy())  # copied before all else is read
        yield from self.offsets.image()
        yield from self.groups.parts()

    def restore(self, parts: Callable[[str], Iterable[bytes]], contents: Mapping[str, int]) -> Iterator[None]:
        """Restore the state of an image; see `headgate.core.contract.Pictured`."""
        yield from pending_image.restore(self.pending, parts)
        yield from self.offsets.restore(parts, contents.get("offsets", 0))
        yield from apply_record_parts(self.apply, parts)

    def contents(self) -> Mapping[str, int]:
        """Return the numbers of offsets and groups."""
        return {"offsets": len(self.offsets), "groups": self.offsets.group_count}

    def current_record(self, record: Change) -> Record | None:
        """Return a record that restores the current value of `record`'s key; None if no single record can.

        None for unknown types, and for a group without a record, whose tombstone would remove it. Columns are
        never passed: records read from a log are single ones.
        """
        match record:
            case OffsetCommit(group_id, topic, partition) | OffsetTombstone(group_id, topic, partition):
                if self.pending.has(group_id, topic, partition):
                    return None  # a record now would override the pending offset
                stored = self.offsets.get(group_id, topic, partition)
                if stored is None or self.groups.find(group_id) is None:  # they are being deleted
                    return OffsetTombstone(group_id, topic, partition)
                return OffsetCommit(
                    group_id,
                    topic,
                    partition,
                    stored.offset,
                    stored.leader_epoch,
                    stored.metadata,
                    stored.commit_timestamp,
                    stored.expire_timestamp,
                )
            case PausedTopicPartitions(group_id=group_id) | PausedTopicPartitionsTombstone(group_id):
                return self.paused.current(group_id)
            case UnknownRecord() | ChangeAuthor() | ColumnBatch() | OffsetRows() | OffsetBatch():
                return None
            case _:
                return self.groups.kind_of_record(record).current_record(record)

    def loaded(self, now: Millis) -> None:
        """Restart session timers after a load; the first sweep is one interval later."""
        self.offsets.forget_prefixes()
        for kind in self._kinds:
            kind.loaded(now)
        self._upkeep.loaded(now)
        self._deletions.loaded(now)

    def next_deadline(self) -> Millis | None:
        """Return when `Tick` is due; None if no deadline is set."""
        return self._deadlines.next()

    # --- for the metrics ---

    @property
    def offset_count(self) -> int:
        """Number of committed offsets."""
        return len(self.offsets)

    @property
    def commit_counts(self) -> CommitCounts:
        """How commits were recorded."""
        return self._of_offsets.commit_counts

    def topics_with_offsets(self) -> set[TopicName]:
        """Return the topics with committed or pending offsets of any group."""
        return self.offsets.topics_with_offsets() | self.pending.topics()

    def forecasts(self) -> ForecastSteps:
        """Return the forecasts of expiry of all groups without members, in small steps."""
        return self._forecasts.of_empty_groups()

    def counting_expiring_groups(self, untils: Sequence[Millis]) -> Generator[None, None, list[int]]:
        """Return for each time how many groups without members have an offset that expires by then."""
        return self._forecasts.counting(untils)

    @property
    def expiry_counts(self) -> ExpiryCounts:
        """Numbers of expired offsets and groups since the shard was loaded."""
        return self._upkeep.counts

    def counting_groups_by_state(self) -> Generator[None, None, GroupCounts]:
        """Return the numbers of groups and of their members by the state of the group, in small steps."""
        return self.groups.counting()

    # --- time ---

    def _system_time_moved(self, command: SystemTimeMoved, now: Millis, token: Token) -> GroupEffects:
        self._system_time.ahead_ms = command.ahead_ms
        return NOTHING

    def _tick(self, command: Tick, now: Millis, token: Token) -> GroupEffects:
        """Handle due deadlines in order, as long as none needs records of this tick that are not applied yet.

        A deadline that reads durable state waits for the next tick if this one has decided records. It is the
        last one of its tick, as the next one may read what it decides. If a handler raises, the effects of
        the deadlines before it in the tick are kept, and it is called again after a pause.
        """
        effects: list[GroupEffects] = []
        deadlines = self._deadlines
        deadlines.begin_tick(now)
        while (timer := deadlines.peek(now)) is not None:
            reads_records = timer.kind not in self._without_records
            if reads_records and any(one.records for one in effects):
                break
            deadlines.pop(now)
            try:
                effects.append(self._on_timer(timer, now))
            except Exception:
                deadlines.end_tick()
                if not any(one.records or one.replies for one in effects):
                    if deadlines.due_at(timer) is None:
                        deadlines.set(timer, Millis(now + _FAILED_TIMER_PAUSE_MS))
                    raise
                deadlines.set(timer, now)
                break
            if reads_records:
                break
        deadlines.end_tick()
        return together(*effects)

    def _on_timer(self, timer: Timer, now: Millis) -> GroupEffects:
        match timer.kind:
            case TimerKind.SWEEP:
                return self._upkeep.sweep(now)
            case TimerKind.ERASE:
                return self._upkeep.go_on_erasing(now)
            case TimerKind.DELETE:
                return self._deletions.go_on(now)
            case TimerKind.RECLAIM:
                return self._upkeep.reclaim(now)
            case _:
                return self._commands_by_timer[timer.kind].on_timer(timer, now)

    # --- offsets ---

    def _delete_topic_offsets(self, command: DeleteTopicOffsets, now: Millis, token: Token) -> GroupEffects:
        return self._upkeep.erase(command.topic, now, token)

    # --- expiry ---

    def _retention_configured(self, command: RetentionConfigured, now: Millis, token: Token) -> GroupEffects:
        self.retentions.configure(command.group_id, command.retention_ms)
        return answer(token, ErrorCode.NONE)

    def _describe_expiry(self, command: DescribeExpiry, now: Millis, token: Token) -> GroupEffects:
        return answer(token, self._forecasts.of_group(command.group_id) or ErrorCode.GROUP_ID_NOT_FOUND)

    def _list_expiring(self, command: ListExpiring, now: Millis, token: Token) -> GroupEffects:
        return answer(token, self._forecasts.of_empty_groups())

    # --- groups of any kind ---

    def _list(self, command: ListGroups, now: Millis, token: Token) -> GroupEffects:
        return answer(token, self.groups.list(command))

    def _list_more(self, command: ListMoreGroups, now: Millis, token: Token) -> GroupEffects:
        return answer(token, self.groups.list_more(command))

    def _delete_group(self, command: DeleteGroup, now: Millis, token: Token) -> GroupEffects:
        effects = self._deletions.begin(command, now, token)
        if effects.records:
            self.events.report(GroupDeleted(command.group_id))
        return effects

    # --- topics ---

    def _topics_changed(self, command: TopicsChanged, now: Millis, token: Token) -> GroupEffects:
        gone = [topic_id for change in command.changes for topic_id in self._topics.change(change)]
        for kind in self._kinds:
            kind.topics_changed(command, now)
        return together(self._pauses.topics_changed(gone, now), answer(token, ErrorCode.NONE))
