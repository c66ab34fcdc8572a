"""One partition's log: batches in segments, in one directory.

Owned here: where the log starts and ends, how far it is durable, and whether it may be written. Rules:

1. One thread owns a log. Only `SyncRequest.run` may happen in another, while the owner goes on appending.
2. Nothing is on disk before the first append, and no descriptor need be open between two calls.
3. What is appended is readable at once, and durable when a sync that began later is completed.
4. A write that fails is cut back at once. If that fails too, or a sync does, the log takes no more appends
   until `recover` has read it again from the disk; what is readable stays readable.
5. A roll syncs the segment it closes (unless `sync_on_roll` is off), so whatever a crash leaves is a prefix
   of what was appended: a later segment never survives an earlier one.
"""

from __future__ import annotations

import errno
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headgate.log.checkpoint import Checkpoint, save_checkpoint
from headgate.log.deletion import delete_directory, remove_deleted
from headgate.log.recovery import Loading, Recovery, load
from headgate.log.retention import Retention
from headgate.log.segment import LARGEST_RELATIVE_OFFSET, Segment
from headgate.log.segments import Segments
from headgate.log.swap import carry_out, decide, discard, save_compacted_to, settle
from headgate.log.sync import SyncRequest
from headgate.log.sync_mark import SyncMark, remove_sync_mark, save_sync_mark
from headgate.log.time_search import find_largest_timestamp, find_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from headgate.log.filesystem import FileSystem
    from headgate.log.header import BatchHeader, Buffer
    from headgate.log.swap import CompactionState

__all__ = ["Log", "LogFailed", "LogSettings", "OffsetOutOfRange", "Recovery", "SyncRequest", "remove_deleted"]


SYNC_MARK_EVERY_BYTES = 1 << 20
"""About how much is written again, at most, when a log is opened after a kill."""


class LogFailed(OSError):
    """The log takes no appends: an earlier write or sync failed and `recover` has not succeeded since."""


class OffsetOutOfRange(Exception):
    """The offset lies before the log's start or past its end."""


@dataclass(slots=True, frozen=True)
class LogSettings:
    """How a log is cut up. Sizes are bytes; `segment_ms` is compared with the batches' own timestamps."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    sync_on_roll: bool = True


class Log:
    """One partition's log. Made by `Log.open`.

    `log_start_offset` is where readers may begin, `log_end_offset` what the next record gets; everything
    below `durable_offset` is known to be on disk, and below `compacted_to` each key has one record at most.
    """

    __slots__ = (
        "_checkpoint",
        "_directory_changes",
        "_directory_changes_synced",
        "_failure",
        "_files",
        "_generation",
        "_is_deleted",
        "_is_replacing",
        "_on_truncated",
        "_parent_synced",
        "_replacement_lock",
        "_segments",
        "_syncs",
        "_unmarked_bytes",
        "compacted_to",
        "directory",
        "durable_offset",
        "log_end_offset",
        "log_start_offset",
        "settings",
    )

    def __init__(
        self,
        files: FileSystem,
        directory: Path,
        settings: LogSettings,
        on_truncated: Callable[[Recovery], None] | None,
    ) -> None:
        self._files = files
        self._on_truncated = on_truncated
        self._segments = Segments()
        self._checkpoint = Checkpoint()
        # Names come and go with segments. What changed since is what a sync of the directory is for.
        self._directory_changes = 0
        self._directory_changes_synced = 0
        self._parent_synced = False
        self._syncs: list[SyncRequest] = []
        self._unmarked_bytes = 0
        # A sync that began before the log was read anew tells nothing about it.
        self._generation = 0
        self._failure: OSError | None = None
        self._is_deleted = False
        # A replacement of segments is decided in another thread: not while the log is turned inside out.
        self._replacement_lock = threading.Lock()
        self._is_replacing = False
        self.directory = directory
        self.settings = settings
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.durable_offset = 0
        self.compacted_to = 0

    @classmethod
    def open(
        cls,
        files: FileSystem,
        directory: Path,
        settings: LogSettings,
        *,
        clean: bool,
        recovery_point: int = 0,
        on_truncated: Callable[[Recovery], None] | None = None,
    ) -> Log:
        """The log in `directory`, empty where there is none.

        `clean` says that the log was closed by `close` and not touched since. Otherwise it is scanned from
        the recovery point (the larger of the argument and the log's own) and made durable; `on_truncated` is
        told of whatever had to be dropped. Raises OSError.
        """
        log = cls(files, directory, settings, on_truncated)
        log._load(clean=clean, recovery_point=recovery_point)
        return log

    def _load(
        self, *, clean: bool, recovery_point: int, synced_before: Mapping[int, int] | None = None
    ) -> Recovery | None:
        interval = self.settings.index_interval_bytes
        loaded = load(Loading(self._files, self.directory, interval, clean, recovery_point, synced_before))
        segments = loaded.segments
        start = loaded.checkpoint.log_start_offset
        self._checkpoint = loaded.checkpoint
        self._segments = Segments(segments)
        self._parent_synced = loaded.is_durable
        self.compacted_to = loaded.compacted_to
        self.log_start_offset = max(start, segments[0].base_offset) if segments else start
        self.log_end_offset = self.durable_offset = segments[-1].next_offset if segments else start
        if not clean:
            self._move_recovery_point()
        if loaded.recovery is not None and self._on_truncated is not None:
            self._on_truncated(loaded.recovery)
        return loaded.recovery

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches held."""
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        """How many segments there are."""
        return len(self._segments)

    @property
    def failure(self) -> OSError | None:
        """Why appends are refused, or None while they are not."""
        return self._failure

    @property
    def needs_sync(self) -> bool:
        """Whether something was appended that is not known to be durable."""
        return self.durable_offset < self.log_end_offset

    @property
    def has_unsynced_closed_segments(self) -> bool:
        """Whether a roll left something to sync: worth doing in the background even where `flush` is off."""
        return any(s.synced_bytes < s.size or not s.indexes_synced for s in self._segments.closed[-1:])

    # Appending.

    def append(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Append batches that are placed at the log's end, with their headers, in one write.

        Raises OSError when nothing was appended, LogFailed while the log takes nothing.
        """
        if self._failure is not None:
            self._refuse()
        first, last = headers[0], headers[-1]
        assert first.base_offset == self.log_end_offset, "a batch must be placed at the end of the log"
        segment = self._segments.active
        if segment is None or self._is_full(segment, len(data), first, last):
            segment = self._roll()
        try:
            segment.write(data, headers)
        except OSError:
            self._cut_back(segment)
            raise
        self.log_end_offset = segment.next_offset

    def _refuse(self) -> None:
        raise LogFailed(
            errno.EIO, f"the log failed and is not recovered: {self._failure}", str(self.directory)
        )

    def _is_full(self, segment: Segment, size: int, first: BatchHeader, last: BatchHeader) -> bool:
        if not segment.size:
            return False
        settings = self.settings
        if segment.size + size > settings.segment_bytes:
            return True
        if 0 <= segment.first_timestamp < first.max_timestamp - settings.segment_ms:
            return True
        return last.last_offset - segment.base_offset > LARGEST_RELATIVE_OFFSET

    def _cut_back(self, segment: Segment) -> None:
        try:
            segment.cut_back()
        except OSError as error:
            self._failure = error

    def _roll(self) -> Segment:
        closing = self._segments.active
        if closing is None:
            self._files.make_directory(self.directory)
        elif self.settings.sync_on_roll and closing.synced_bytes < closing.size:
            try:
                closing.file().datasync()
            except OSError as error:
                self._failure = error
                raise
            closing.synced_bytes = closing.size
        interval = self.settings.index_interval_bytes
        segment = Segment(self._files, self.directory, self.log_end_offset, interval)
        segment.create()
        self._directory_changes += 1
        self._segments.add(segment)
        if closing is not None:
            # Without room for them the indexes stay in memory, and are rebuilt at the next start.
            with suppress(OSError):
                closing.save_indexes()
            closing.close_file()
        return segment

    # Durability.

    def begin_sync(self) -> SyncRequest:
        """What must be synced for everything appended so far to be durable. Each one must be completed."""
        request = SyncRequest(self._files, self.log_end_offset, self._generation, self._directory_changes)
        for segment in self._segments:
            if segment.synced_bytes < segment.size:
                request.parts.append((segment, segment.pin(), segment.size))
                request.synced_before.append((segment, segment.synced_bytes))
            if not segment.indexes_synced and segment is not self._segments.active:
                request.indexes.append(segment)
        if self._directory_changes_synced < self._directory_changes:
            request.directories.append(self.directory)
            if not self._parent_synced:
                request.directories.append(self.directory.parent)
        self._syncs.append(request)
        return request

    def complete_sync(self, request: SyncRequest) -> None:
        """Take the outcome of a sync that ran; without an error all is durable that was there when it began.

        Raises the OSError of a sync that failed, and the log has failed with it; LogFailed, and nothing is
        changed, where the log failed otherwise or was recovered, truncated or deleted while the sync ran.
        """
        parts = request.parts
        request.release()
        if request in self._syncs:
            self._syncs.remove(request)
        if request.generation != self._generation:
            raise LogFailed(errno.EIO, "the log is not what it was when the sync began", str(self.directory))
        if request.error is not None:
            for segment, position in request.synced_before:
                # A roll may have synced it since, without an error: the kernel reports a failure once.
                segment.synced_bytes = min(segment.synced_bytes, position)
            self._failure = request.error
            raise request.error
        if self._failure is not None:
            self._refuse()
        for segment, _, size in parts:
            self._unmarked_bytes += max(size - segment.synced_bytes, 0)
            segment.synced_bytes = max(segment.synced_bytes, size)
        for segment in request.indexes:
            segment.indexes_synced = True
        self._directory_changes_synced = max(self._directory_changes_synced, request.directory_changes)
        self._parent_synced |= self.directory.parent in request.directories
        self.durable_offset = max(self.durable_offset, request.end_offset)
        if self._unmarked_bytes >= SYNC_MARK_EVERY_BYTES:
            self._mark_synced()
        if request.indexes:
            self._move_recovery_point()

    def abandon_sync(self, request: SyncRequest) -> None:
        """Let go of a sync that never ran, or was given up: nothing is known to be durable by it."""
        request.release()
        if request in self._syncs:
            self._syncs.remove(request)

    def fail(self, error: OSError) -> None:
        """Take no more appends until `recover`: for one who learns of a failed sync by other ways."""
        self._failure = error
        for request in [request for request in self._syncs if request.has_run]:
            request.release()
            self._syncs.remove(request)

    def _mark_synced(self) -> None:
        """Tell the next process how far the disk has the log: up to the first byte that is not synced."""
        segment = next((one for one in self._segments if one.synced_bytes < one.size), self._segments.active)
        assert segment is not None
        mark = SyncMark(segment.base_offset, segment.synced_bytes)
        self._unmarked_bytes = 0
        save_sync_mark(self._files, self.directory, mark)

    def _move_recovery_point(self) -> None:
        """Spare the next start the closed segments that are durable with their indexes."""
        point = self._checkpoint.recovery_point
        for segment in self._segments.closed:
            if segment.synced_bytes < segment.size or not segment.indexes_synced:
                break
            point = max(point, segment.next_offset)
        # It only saves time: a disk too full for it fails the next append, and says so there.
        with suppress(OSError):
            self._save_checkpoint(replace(self._checkpoint, recovery_point=point))

    def _save_checkpoint(self, checkpoint: Checkpoint) -> None:
        if checkpoint != self._checkpoint:
            save_checkpoint(self._files, self.directory, checkpoint)
            if not self._parent_synced:
                self._files.sync_directory(self.directory.parent)
                self._parent_synced = True
            self._checkpoint = checkpoint

    def recover(self) -> Recovery | None:
        """Read the log again from the disk, and take appends again if that and its sync succeed.

        What was appended after the last completed sync is kept where it is whole, and written again; what is
        not is dropped and told to `on_truncated`. Raises OSError when the disk still refuses: the log stays
        failed, and readable as far as the disk reads. A deleted log stays deleted: LogFailed.
        """
        if self._is_deleted:
            self._refuse()
        with self._replacement_lock:
            self._generation += 1
            synced_before = {segment.base_offset: segment.synced_bytes for segment in self._segments}
            for segment in self._segments:
                segment.close_file()
            recovery = self._load(clean=False, recovery_point=0, synced_before=synced_before)
            self._is_replacing = False
            self._failure = None
        return recovery

    # Reading.

    def read(
        self, offset: int, max_bytes: int, *, minimum_one: bool = True, up_to: int | None = None
    ) -> bytes:
        """Whole batches from the one that holds `offset` on, as they are on disk, from one segment.

        At most `max_bytes`, but with `minimum_one` at least one batch if there is one; never one that reaches
        `up_to` or past it. Raises OffsetOutOfRange, OSError, CorruptBatch.
        """
        limit = self.log_end_offset
        if not self.log_start_offset <= offset <= limit:
            raise OffsetOutOfRange(f"{offset} is not within {self.log_start_offset}..{limit}")
        if up_to is not None and up_to < limit:
            limit = up_to
        if offset >= limit:
            return b""
        return self._segments.read(offset, limit, max_bytes, minimum_one=minimum_one)

    def batches(self, from_offset: int = 0, up_to: int | None = None) -> Iterator[tuple[BatchHeader, bytes]]:
        """Header and bytes of every batch from the one that holds `from_offset` to the log's end, or `up_to`.

        Reads a megabyte at a time. The log may be appended to meanwhile, which this does not see. Raises
        OSError, CorruptBatch.
        """
        limit = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        return self._segments.batches(from_offset, limit)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Timestamp and offset of the first record at or after `timestamp_ms`; None when there is none."""
        return find_timestamp(self._segments, timestamp_ms, self.log_start_offset)

    def max_timestamp(self) -> tuple[int, int] | None:
        """The largest timestamp and the first offset in its batch that has it; None without timestamps."""
        return find_largest_timestamp(self._segments, self.log_start_offset)

    # Shortening.

    def delete_before(self, offset: int) -> None:
        """Let the log start at `offset`, durably, and remove the segments that lie before it altogether.

        An offset at or below the log start changes nothing. Raises OffsetOutOfRange past the log's end, and
        OSError: the start is then moved or it is not, and asking again finishes what was left.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(f"{offset} is past the end of the log, {self.log_end_offset}")
        if offset > self.log_start_offset:
            self._save_checkpoint(replace(self._checkpoint, log_start_offset=offset))
            self.log_start_offset = offset
        # The start is durable, so what of this a crash undoes is done again when the log is opened.
        self._segments.remove_before(self.log_start_offset)

    def apply_retention(
        self, now_ms: int, retention_ms: int, retention_bytes: int, up_to: int | None = None
    ) -> int:
        """Delete the oldest segments that are too old or too much; how many went. Negative limits: none.

        Only segments wholly below `up_to` go: the high watermark, by default the durable offset, or the end
        of a log that trusts the page cache. If even the active segment's time is over it is closed and goes
        as well. Raises OSError, LogFailed.
        """
        if up_to is None:
            up_to = self.durable_offset if self.settings.sync_on_roll else self.log_end_offset
        retention = Retention(now_ms, retention_ms, retention_bytes, up_to)
        start = retention.start_offset(self._segments, self.log_start_offset)
        active = self._segments.active
        if active is not None and active.size and self.log_start_offset < start == self.log_end_offset:
            if self._failure is not None:
                self._refuse()
            self._roll()
        before = len(self._segments)
        self.delete_before(start)
        return before - len(self._segments)

    def truncate(self, offset: int) -> None:
        """Drop the batches that reach `offset` or lie past it, durably. Raises OSError: then `recover`."""
        if offset >= self.log_end_offset:
            return
        try:
            with self._replacement_lock:
                self._generation += 1
                if self._is_replacing:
                    settle(self._files, self.directory, min(self.compacted_to, offset))
                    discard(self._files, self.directory)
                    self._is_replacing = False
            self._truncate(offset)
        except OSError as error:
            self._failure = error
            raise

    def _truncate(self, offset: int) -> None:
        remove_sync_mark(self._files, self.directory)
        if self.compacted_to > offset:
            save_compacted_to(self._files, self.directory, offset)
            self.compacted_to = offset
        point = min(self._checkpoint.recovery_point, offset)
        self._save_checkpoint(replace(self._checkpoint, recovery_point=point))
        self._segments.remove_after(offset)
        # Names first: a later segment must not outlive the batches before it.
        self._files.sync_directory(self.directory)
        active = self._segments.active
        if active is not None:
            active.truncate_to(active.position_of(offset))
            active.file().datasync()
            active.synced_bytes = active.size
            self.log_end_offset = active.next_offset
        self.durable_offset = min(self.durable_offset, self.log_end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        start = min(self._checkpoint.log_start_offset, self.log_start_offset)
        self._save_checkpoint(replace(self._checkpoint, log_start_offset=start))
        if active is not None:
            self._mark_synced()

    # Compaction.

    @property
    def segments(self) -> Segments:
        """The segments, to be read by whoever compacts them."""
        return self._segments

    @property
    def files(self) -> FileSystem:
        """Where the log's files are."""
        return self._files

    @property
    def generation(self) -> int:
        """Another number whenever the log was read anew, truncated or deleted."""
        return self._generation

    @property
    def is_replacing(self) -> bool:
        """Whether a replacement of segments was decided and is not settled."""
        return self._is_replacing

    def decide_replacement(self, state: CompactionState, generation: int) -> bool:
        """Let what stands aside count from here on, as `state` was prepared to say; False: the log changed.

        Runs in another thread. Raises OSError: it may be decided or not, and the log must `fail` for it.
        """
        with self._replacement_lock:
            if generation != self._generation:
                return False
            self._is_replacing = True
            decide(self._files, self.directory)
        return True

    def replace_segments(self, old: list[Segment], new: list[Segment], state: CompactionState) -> None:
        """Let `new` stand for the closed segments `old`, as was decided; nothing is synced here.

        Raises OSError when names cannot be changed: the log has failed then, and `recover` changes them.
        """
        if old:
            self._segments.replace(old, new)
        self.compacted_to = state.compacted_to
        try:
            carry_out(self._files, self.directory, state)
        except OSError as error:
            self._failure = error
            raise
        for segment in (*old, *new):
            segment.close_file()
        for segment in new:
            segment.unload_indexes()

    def settle_replacement(self, compacted_to: int, generation: int) -> None:
        """What was decided is carried out, or is not to be: make that durable.

        Runs in another thread. Raises OSError, and the log must `fail` for it.
        """
        with self._replacement_lock:
            if generation == self._generation and self._is_replacing:
                settle(self._files, self.directory, compacted_to)
                self._is_replacing = False

    # The end.

    def close_files(self) -> None:
        """Give back every descriptor and what memory can be had again; all goes on working."""
        for segment in self._segments:
            segment.close_file()
        for segment in self._segments.closed:
            if segment.indexes_synced:
                segment.unload_indexes()

    def close(self) -> None:
        """Make all durable, indexes included, and close: the next `open` may be `clean`. Raises OSError."""
        try:
            if self._failure is not None:
                self._refuse()
            active = self._segments.active
            if active is not None:
                active.save_indexes()
                request = self.begin_sync()
                request.indexes.append(active)
                request.directories = [self.directory, self.directory.parent]
                with suppress(OSError):
                    request.run()
                self.complete_sync(request)
                self._mark_synced()
        finally:
            self.close_files()

    def delete(self) -> None:
        """Remove the log from the disk, in one step out of sight; it takes nothing more.

        Raises OSError: before the first step nothing has happened, after it `remove_deleted` can finish.
        """
        self.give_up()
        delete_directory(self._files, self.directory)

    def give_up(self) -> None:
        """Take nothing more: the caller is about to delete the directory."""
        with self._replacement_lock:
            self._generation += 1
        self._is_deleted = True
        self._failure = OSError(errno.ENOENT, "the log was deleted", str(self.directory))
        for segment in self._segments:
            segment.close_file()
        self._segments = Segments()
        self.log_start_offset = self.durable_offset = self.log_end_offset
