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
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.log.deletion import delete_directory, remove_deleted
from headgate.log.durability import Durability
from headgate.log.recovery import Loading, Recovery, load
from headgate.log.replacement import Replacement
from headgate.log.retention import Retention
from headgate.log.segment import Segment
from headgate.log.segments import Segments, walk_segments
from headgate.log.swap import carry_out, save_compacted_to
from headgate.log.sync import SyncRequest
from headgate.log.sync_mark import remove_sync_mark
from headgate.log.terms import LogFailed, LogSettings, OffsetOutOfRange
from headgate.log.time_search import Search, found_now, search_largest_timestamp, search_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from headgate.log.filesystem import FileSystem
    from headgate.log.header import BatchHeader, Buffer
    from headgate.log.swap import CompactionState

__all__ = ["Log", "LogFailed", "LogSettings", "OffsetOutOfRange", "Recovery", "SyncRequest", "remove_deleted"]


class Log:
    """One partition's log. Made by `Log.open`.

    `log_start_offset` is where readers may begin, `log_end_offset` what the next record gets; everything
    below `durable_offset` is known to be on disk, and below `compacted_to` each key has one record at most.
    """

    __slots__ = (
        "_durability",
        "_failure",
        "_files",
        "_is_deleted",
        "_on_truncated",
        "_segments",
        "compacted_to",
        "directory",
        "log_end_offset",
        "log_start_offset",
        "replacement",
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
        self._durability = Durability(files, directory)
        self.replacement = Replacement(files, directory)
        """Who compacts the log decides and settles here what `replace_segments` carries out."""
        self._failure: OSError | None = None
        self._is_deleted = False
        self.directory = directory
        self.settings = settings
        self.log_start_offset = 0
        self.log_end_offset = 0
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
        settings = self.settings
        loading = Loading(
            self._files,
            self.directory,
            settings.index_interval_bytes,
            clean,
            recovery_point,
            synced_before,
            has_room=settings.has_room,
            keeps_all=settings.keeps_all,
        )
        loaded = load(loading)
        segments = loaded.segments
        start = loaded.checkpoint.log_start_offset
        self._segments = Segments(segments)
        self.compacted_to = loaded.compacted_to
        self.log_start_offset = max(start, segments[0].base_offset) if segments else start
        self.log_end_offset = segments[-1].next_offset if segments else start
        self._durability.loaded(loaded, self._segments, self.log_end_offset)
        if not clean:
            self._durability.move_recovery_point()
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
    def durable_offset(self) -> int:
        """Everything below is known to be on disk."""
        return self._durability.durable_offset

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
        if segment is None or self.settings.is_full(segment, len(data), first, last):
            segment = self._roll()
        try:
            end = segment.size + len(data)
            if end > segment.reserved_to and (ahead := self.settings.room_for(end)):
                segment.make_room(len(data) + ahead)
            segment.write(data, headers)
        except OSError:
            self._cut_back(segment)
            raise
        self.log_end_offset = segment.next_offset

    def _refuse(self) -> None:
        raise LogFailed(
            errno.EIO, f"the log failed and is not recovered: {self._failure}", str(self.directory)
        )

    def _cut_back(self, segment: Segment) -> None:
        try:
            segment.cut_back()
        except OSError as error:
            self._failure = error

    def _roll(self) -> Segment:
        closing = self._segments.active
        if closing is None:
            self._files.make_directory(self.directory)
        elif closing.has_room or (self.settings.sync_on_roll and closing.synced_bytes < closing.size):
            try:
                closing.finish()
            except OSError as error:
                self._failure = error
                raise
        interval = self.settings.index_interval_bytes
        segment = Segment(self._files, self.directory, self.log_end_offset, interval)
        segment.create()
        self._durability.name_changed()
        self._segments.add(segment)
        if closing is not None:
            # Without room for them the indexes stay in memory, and are rebuilt at the next start.
            with suppress(OSError):
                closing.save_indexes()
            closing.close_file()
        return segment

    # Durability.

    def begin_sync(self) -> SyncRequest:
        """What must be synced for everything appended so far to be durable. Each one must be completed.

        Raises OSError when a file cannot be opened, and the log has failed with it.
        """
        try:
            return self._durability.begin(self.log_end_offset, self.replacement.generation)
        except OSError as error:
            self._failure = error
            raise

    def complete_sync(self, request: SyncRequest) -> None:
        """Take the outcome of a sync that ran; without an error all is durable that was there when it began.

        Raises the OSError of a sync that failed, and the log has failed with it; LogFailed, and nothing is
        changed, where the log failed otherwise or was recovered, truncated or deleted while the sync ran.
        """
        try:
            if request.generation != self.replacement.generation:
                raise LogFailed(
                    errno.EIO, "the log is not what it was when the sync began", str(self.directory)
                )
            error = request.error if request.has_run else OSError(errno.EIO, "the sync did not run")
            if error is not None:
                self._durability.failed(request)
                self._failure = error
                raise error
            if self._failure is not None:
                self._refuse()
            self._durability.completed(request)
        finally:
            self._durability.forget(request)

    def abandon_sync(self, request: SyncRequest) -> None:
        """Let go of a sync that never ran, or was given up: nothing is known to be durable by it."""
        self._durability.forget(request)

    def mark(self) -> None:
        """Leave word of how far the log is durable; else that is done now and then. Never raises."""
        self._durability.mark()

    def fail(self, error: OSError) -> None:
        """Take no more appends until `recover`: for one who learns of a failed sync by other ways."""
        self._failure = error
        self._durability.forget_run()

    def recover(self) -> Recovery | None:
        """Read the log again from the disk, and take appends again if that and its sync succeed.

        What was appended after the last completed sync is kept where it is whole, and written again; what is
        not is dropped and told to `on_truncated`. Raises OSError when the disk still refuses: the log stays
        failed, and readable as far as the disk reads. A deleted log stays deleted: LogFailed.
        """
        if self._is_deleted:
            self._refuse()
        with self.replacement.next_generation():
            synced_before = {segment.base_offset: segment.synced_bytes for segment in self._segments}
            for segment in self._segments:
                segment.close_file()
            recovery = self._load(clean=False, recovery_point=0, synced_before=synced_before)
            self.replacement.is_under_way = False
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
        found = self.read_unless(
            offset,
            max_bytes,
            minimum_one=minimum_one,
            up_to=self.log_end_offset if up_to is None else up_to,
            unless_bytes=max_bytes,
        )
        assert found is not None
        return found

    def read_unless(
        self, offset: int, max_bytes: int, *, minimum_one: bool, up_to: int, unless_bytes: int
    ) -> bytes | None:
        """The same as `read`; but None, and nothing is read, if that were more than `unless_bytes`."""
        limit = self.log_end_offset
        if not self.log_start_offset <= offset <= limit:
            raise OffsetOutOfRange(f"{offset} is not within {self.log_start_offset}..{limit}")
        if up_to < limit:
            limit = up_to
        if offset >= limit:
            return b""
        return self._segments.read(
            offset, limit, max_bytes, minimum_one=minimum_one, unless_bytes=unless_bytes
        )

    def header_of(self, offset: int) -> BatchHeader | None:
        """The header of the first batch that reaches `offset`, None without one. OSError, CorruptBatch."""
        return self._segments.header_of(offset)

    def batches(self, from_offset: int = 0, up_to: int | None = None) -> Iterator[tuple[BatchHeader, bytes]]:
        """Header and bytes of every batch from the one that holds `from_offset` to the log's end, or `up_to`.

        Reads a megabyte at a time. The log may be appended to meanwhile, which this does not see. Raises
        OSError, CorruptBatch.
        """
        limit = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        return walk_segments(self._segments, from_offset, limit)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Timestamp and offset of the first record at or after `timestamp_ms`; None when there is none."""
        return found_now(self.search_timestamp(timestamp_ms))

    def max_timestamp(self) -> tuple[int, int] | None:
        """The largest timestamp and the first offset in its batch that has it; None without timestamps."""
        return found_now(self.search_largest_timestamp())

    def search_timestamp(self, timestamp_ms: int) -> Search:
        """The same as `offset_for_timestamp` in steps (`log/time_search.py`)."""
        return search_timestamp(self, self._segments, timestamp_ms)

    def search_largest_timestamp(self) -> Search:
        """The same as `max_timestamp` in steps."""
        return search_largest_timestamp(self, self._segments)

    def oldest_segment_timestamp(self) -> int:
        """The newest timestamp of the oldest segment, which is what retention goes by; -1 without one."""
        return next((segment.max_timestamp for segment in self._segments), -1)

    # Shortening.

    def delete_before(self, offset: int) -> None:
        """Let the log start at `offset`, durably, and remove the segments that lie before it altogether.

        An offset at or below the log start changes nothing. Raises OffsetOutOfRange past the log's end, and
        OSError: the start is then moved or it is not, and asking again finishes what was left.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(f"{offset} is past the end of the log, {self.log_end_offset}")
        if offset > self.log_start_offset:
            self._durability.save(replace(self._durability.checkpoint, log_start_offset=offset))
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
            with self.replacement.next_generation():
                self.replacement.revoke(min(self.compacted_to, offset))
            self._truncate(offset)
        except OSError as error:
            self._failure = error
            raise

    def _truncate(self, offset: int) -> None:
        remove_sync_mark(self._files, self.directory)
        if self.compacted_to > offset:
            save_compacted_to(self._files, self.directory, offset)
            self.compacted_to = offset
        known = self._durability
        # A batch that reaches the offset goes whole, so the log may end anywhere before: no point is past it.
        known.save(replace(known.checkpoint, recovery_point=0))
        self._segments.remove_after(offset)
        # Names first: a later segment must not outlive the batches before it.
        self._files.sync_directory(self.directory)
        active = self._segments.active
        if active is not None:
            active.truncate_to(active.position_of(offset))
            active.file().datasync()
            active.synced_bytes = active.size
            self.log_end_offset = active.next_offset
        known.durable_offset = min(known.durable_offset, self.log_end_offset)
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        start = min(known.checkpoint.log_start_offset, self.log_start_offset)
        known.save(replace(known.checkpoint, log_start_offset=start))
        if active is not None:
            known.mark()

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
        return self.replacement.generation

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

    # The end.

    def close_files(self) -> None:
        """Give back every descriptor and what memory can be had again; all goes on working.

        Some file systems tell of a failed write when a file is closed, and never again: the log has failed
        then as if a sync had.
        """
        for segment in self._segments:
            try:
                segment.close_file()
            except OSError as error:
                self._failure = self._failure or error
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
                if active.has_room:
                    active.finish()
                active.save_indexes()
                request = self.begin_sync()
                request.indexes.append(active)
                request.directories = [self.directory, self.directory.parent]
                with suppress(OSError):
                    request.run()
                self.complete_sync(request)
                self._durability.mark()
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
        with self.replacement.next_generation():
            self._is_deleted = True
        self._failure = OSError(errno.ENOENT, "the log was deleted", str(self.directory))
        for segment in self._segments:
            segment.close_file()
        self._segments = Segments()
        self._durability.given_up(self._segments, self.log_end_offset)
        self.log_start_offset = self.log_end_offset
