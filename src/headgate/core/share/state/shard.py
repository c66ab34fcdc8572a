"""The share coordinator's shard: the persisted states of share-partitions. Its rules:

1. A state begins with a snapshot (`InitializeState`). A change is an update, or a snapshot after
   `share.coordinator.snapshot.update.records.per.snapshot` updates.
2. Refusals are in Kafka's order of checks (F18). A write is refused with a smaller leader epoch than the last
   reader had, or a smaller state epoch than the state was initialized with.
3. A snapshot of a share-partition that nobody changes is repeated after a time while others change, so that
   the log before it is not needed any more (`needed_position`).
4. The states of a deleted topic are removed, some in each Tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import IntEnum, auto
from itertools import islice
from typing import Any, Final

from headgate.core.commands import SystemTimeMoved, Tick
from headgate.core.contract import Effects, Producer, Reply, Token
from headgate.core.deadlines import Deadlines
from headgate.core.share.state import image
from headgate.core.share.state.changes import Changes, Decided
from headgate.core.share.state.commands import (
    DeleteState,
    InitializeState,
    ReadNeededPosition,
    ReadState,
    ReadSummary,
    ReopenState,
    WriteState,
)
from headgate.core.share.state.state import BATCHES_A_RECORD, ShareState, split
from headgate.core.system_time import SystemTime
from headgate.core.topic_image import TopicImage, TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicId
from headgate.domain.settings import Settings
from headgate.records.share_state_model import (
    ShareKey,
    ShareRecord,
    ShareSnapshot,
    ShareTombstone,
    ShareUpdate,
    UnknownShareRecord,
)

ShareEffects = Effects[ShareRecord]
NOTHING: Final[ShareEffects] = Effects()

_REMOVED_AT_ONCE: Final = 200
_SNAPSHOTS_AT_ONCE: Final = 100
_BETWEEN_SLICES_MS: Final = 5


class ShareTimer(IntEnum):
    """The deadlines of the shard."""

    COLD = auto()
    """Repeat the snapshots of share-partitions that nobody changes."""
    GONE = auto()
    """Remove the states of deleted topics."""


class ShareStateShard:
    """The states of one partition of `__share_group_state`; a `headgate.core.contract.Shard`, `Pictured`."""

    def __init__(self, settings: Settings) -> None:
        self._cold_after_ms: int = settings["share.coordinator.cold.partition.snapshot.interval.ms"]
        self._deadlines: Deadlines[ShareTimer] = Deadlines()
        self._system_time = SystemTime()
        self._topics = TopicImage()
        self._knows_topics = False
        self.states: dict[ShareKey, ShareState] = {}
        """In the order of their last snapshots."""
        self._by_topic: dict[TopicId, set[ShareKey]] = {}
        self._end = 0
        """Position after the last record."""
        self._is_loading = True
        self._is_quiet = False
        """Whether no share-partition was changed since the last round of repeated snapshots."""
        self._changes = Changes(
            self.states,
            self._topics,
            settings["share.coordinator.snapshot.update.records.per.snapshot"],
        )
        decide = self._changes
        self._handlers: Mapping[type[Any], Callable[[Any, Millis], Decided]] = {
            WriteState: decide.write,
            ReadState: decide.read,
            InitializeState: decide.initialize,
            ReadSummary: decide.summary,
            DeleteState: decide.delete,
            ReopenState: decide.reopen,
        }

    # --- durable ---

    def apply(self, record: ShareRecord, position: int, producer: Producer | None = None) -> None:
        """Apply one record to the durable state."""
        self._end = position + 1
        if isinstance(record, UnknownShareRecord):
            return
        key = record.key
        state = self.states.get(key)
        if self._is_loading and state is not None and position <= state.position:
            # The image that was restored has it already, but in the order of an earlier moment.
            if position == state.snapshot_position:
                self._put(key, state)
            return
        match record:
            case ShareSnapshot():
                self._put(key, ShareState.of(record, position))
            case ShareUpdate():
                if state is not None:
                    state.update(record, position)
            case ShareTombstone():
                if self.states.pop(key, None) is not None:
                    self._by_topic[key.topic_id].discard(key)

    def _put(self, key: ShareKey, state: ShareState) -> None:
        self.states.pop(key, None)
        self.states[key] = state
        self._by_topic.setdefault(key.topic_id, set()).add(key)

    def current_record(self, record: ShareRecord) -> ShareRecord | None:
        """Return a snapshot of the current state, or its tombstone; None for a state of several records."""
        if isinstance(record, UnknownShareRecord):
            return None
        state = self.states.get(record.key)
        if state is None:
            return ShareTombstone(record.key)
        return None if len(state.batches) > BATCHES_A_RECORD else state.snapshot_of(record.key)

    def image(self) -> Iterator[tuple[str, bytes]]:
        """Yield the durable state in parts; see `headgate.core.contract.Pictured`."""
        return image.parts_of(self.states)

    def restore(self, parts: Callable[[str], Iterable[bytes]], contents: Mapping[str, int]) -> Iterator[None]:
        """Restore the state of an image; see `headgate.core.contract.Pictured`."""
        for found in image.restored(parts):
            if found is not None:
                self._put(*found)
            yield

    def contents(self) -> Mapping[str, int]:
        """Return the number of share-partitions."""
        return {"share-partitions": len(self.states)}

    def needed_position(self) -> int:
        """Return the position of the oldest snapshot that is needed; the log before it may be removed."""
        for state in self.states.values():
            return state.snapshot_position
        return self._end

    # --- volatile ---

    def loaded(self, now: Millis) -> None:
        """Begin to serve: the first round of repeated snapshots is one interval later."""
        self._is_loading = False
        self._deadlines.set(ShareTimer.COLD, Millis(now + self._cold_after_ms))

    def next_deadline(self) -> Millis | None:
        """Return when `Tick` is due; None if no deadline is set."""
        return self._deadlines.next()

    def handle(self, command: Any, now: Millis, token: Token = 0) -> ShareEffects:
        """Decide the effects of a command."""
        decide = self._handlers.get(type(command))
        if decide is not None:
            records, result = decide(command, self._system_time.at(now))
            self._is_quiet = self._is_quiet and not records
            return Effects(records, (Reply(token, result),))
        match command:
            case Tick():
                return self._tick(now)
            case TopicsChanged():
                return self._topics_changed(command, now, token)
            case ReadNeededPosition():
                return Effects((), (Reply(token, self.needed_position()),))
            case SystemTimeMoved(ahead_ms):
                self._system_time.ahead_ms = ahead_ms
                return NOTHING
        raise AssertionError(f"the shard of share states has no {type(command).__name__}")

    def _topics_changed(self, command: TopicsChanged, now: Millis, token: Token) -> ShareEffects:
        gone = [topic_id for change in command.changes for topic_id in self._topics.change(change)]
        if not self._knows_topics or any(topic_id in self._by_topic for topic_id in gone):
            self._knows_topics = True
            self._deadlines.set(ShareTimer.GONE, now)
        return Effects((), (Reply(token, ErrorCode.NONE),))

    # --- time ---

    def _tick(self, now: Millis) -> ShareEffects:
        """Handle one due deadline: each decides by the durable state."""
        self._deadlines.begin_tick(now)
        timer = self._deadlines.pop(now)
        try:
            match timer:
                case ShareTimer.COLD:
                    return self._repeat_snapshots(now)
                case ShareTimer.GONE:
                    return self._remove_gone(now)
                case None:
                    return NOTHING
        finally:
            self._deadlines.end_tick()

    def _repeat_snapshots(self, now: Millis) -> ShareEffects:
        """Do one slice of a round: repeat old snapshots, the oldest first."""
        records: list[ShareRecord] = []
        system_time = self._system_time.at(now)
        is_done = True
        batches = 0
        for key, state in () if self._is_quiet else islice(self.states.items(), _SNAPSHOTS_AT_ONCE):
            if state.written > system_time - self._cold_after_ms:
                break
            if batches > BATCHES_A_RECORD:
                is_done = False
                break
            batches += len(state.batches)
            snapshot = replace(
                state.snapshot_of(key), snapshot_epoch=state.snapshot_epoch + 1, written=system_time
            )
            records += split(snapshot)
        else:
            is_done = self._is_quiet or len(self.states) <= _SNAPSHOTS_AT_ONCE
        self._is_quiet = self._is_quiet or is_done
        delay_ms = self._cold_after_ms if is_done else _BETWEEN_SLICES_MS
        self._deadlines.set(ShareTimer.COLD, Millis(now + delay_ms))
        return Effects(records)

    def _remove_gone(self, now: Millis) -> ShareEffects:
        """Do one slice: remove states of topics that do not exist."""
        gone = [topic_id for topic_id in self._by_topic if self._topics.name_of(topic_id) is None]
        keys = [key for topic_id in gone for key in self._by_topic[topic_id]]
        for topic_id in gone:
            if not self._by_topic[topic_id]:
                del self._by_topic[topic_id]
        if len(keys) > _REMOVED_AT_ONCE:
            self._deadlines.set(ShareTimer.GONE, Millis(now + _BETWEEN_SLICES_MS))
        return Effects([ShareTombstone(key) for key in keys[:_REMOVED_AT_ONCE]])
