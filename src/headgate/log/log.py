"""The log of one partition: batches in segments, in one directory.

This module owns the log's start and end, how far it is durable, and whether it accepts appends. Rules:

1. One thread owns a log. Only `SyncRequest.run` may run in another, while the owner continues to append.
2. Nothing is on disk before the first append. Descriptors need not stay open between calls.
3. Appended batches are readable at once, and durable when a sync that began later is completed.
4. A failed write is cut back at once. If that fails too, or a sync fails, the log accepts no appends until
   `recover` has read it again from the disk; readable records stay readable.
5. A roll syncs the segment it closes (unless `sync_on_roll` is off), so a crash always leaves a prefix of the
   appended batches: a later segment never survives an earlier one.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.log.deletion import remove_deleted
from headgate.log.durability import Durability
from headgate.log.recovery import Loading, Recovery, load
from headgate.log.replacement import Replacement
from headgate.log.retention import Retention
from headgate.log.segment import Segment
from headgate.log.segment_walk import walk_segments
from headgate.log.segments import Segments
from headgate.log.swap import carry_out, save_compacted_to
from headgate.log.sync import SyncRequest
from headgate.log.sync_mark import remove_sync_mark
from headgate.log.terms import LogFailed, LogSettings, OffsetOutOfRange
from headgate.log.time_search import Search, search_largest_timestamp, search_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from headgate.log.filesystem import FileSystem
    from headgate.log.header import BatchHeader, Buffer
    from headgate.log.swap import CompactionState

__all__ = ["Log", "LogFailed", "LogSettings", "OffsetOutOfRange", "Recovery", "SyncRequest", "remove_deleted"]

_SEGMENTS_AT_ONCE = 8
"""Number of segments whose files one call removes: each takes 0.3 ms, on a busy disk 100 times as long."""


def do_nothing() -> None:
    """Do nothing."""


class Log:
    """The log of one partition. Use `Log.open`.

    `log_start_offset` is the first readable offset, `log_end_offset` the offset of the next record.
    Everything below `durable_offset` is known to be on disk, and below `compacted_to` each key has at most
    one record.
    """

    __slots__ = (
        "_durability",
        "_failure",
        "_files",
        "_is_as_closed",
        "_is_deleted",
        "_on_truncated",
        "_segments",
        "compacted_to",
        "directory",
        "log_end_offset",
        "log_start_offset",
        "on_failed",
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
        """The compaction decides and settles here; `replace_segments` carries it out."""
        self._failure: OSError | None = None
        self.on_failed: Callable[[], None] = do_nothing
        """Called when the log accepts no more appends, whatever the reason was: also an error of a compaction
        or of closing files. Not called for a log that is given up.
        """
        self._is_as_closed = False
        """Whether the directory has exactly what the last `close` made durable."""
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
        on_truncated: Callable[[Recovery], None] | None = None,
    ) -> Log:
        """Open the log in `directory`; it is empty if there is none.

        `clean` means that the log was closed by `close` and not changed since. Otherwise it is scanned from
        its recovery point and made durable; `on_truncated` is called if anything had to be dropped. Raises
        OSError.
        """
        log = cls(files, directory, settings, on_truncated)
        log._load(clean=clean)
        return log

    def _load(self, *, clean: bool, synced_before: Mapping[int, int] | None = None) -> Recovery | None:
        settings = self.settings
        loading = Loading(
            self._files,
            self.directory,
            settings.index_interval_bytes,
            clean,
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
        self._is_as_closed = clean and all(segment.is_loaded_as_saved for segment in segments)
        if not clean:
            self._durability.move_recovery_point()
        if loaded.recovery is not None and self._on_truncated is not None:
            self._on_truncated(loaded.recovery)
        return loaded.recovery

    @property
    def size_bytes(self) -> int:
        """Size of all batches."""
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        """Number of segments."""
        return len(self._segments)

    @property
    def is_in_place(self) -> bool:
        """Whether what is appended goes to a file that the next start finds, as far as one is open."""
        active = self._segments.active
        return active is None or active.is_in_place

    @property
    def failure(self) -> OSError | None:
        """Why appends are refused; None if they are accepted."""
        return self._failure

    @property
    def durable_offset(self) -> int:
        """Everything below this offset is known to be on disk."""
        return self._durability.durable_offset

    @property
    def needs_sync(self) -> bool:
        """Whether there are appended batches not known to be durable."""
        return self.durable_offset < self.log_end_offset

    @property
    def has_unsynced_closed_segments(self) -> bool:
        """Whether a roll left something to sync, which should be synced in the background even with `flush`
        off.
        """
        return any(s.synced_bytes < s.size or not s.indexes_synced for s in self._segments.closed[-1:])

    # Appending.

    def append(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Append batches, which have the next offsets, with their headers, in one write.

        Raises OSError if nothing was appended, LogFailed while the log accepts no appends.
        """
        if self._failure is not None:
            self._refuse()
        first, last = headers[0], headers[-1]
        assert first.base_offset == self.log_end_offset, "a batch must be placed at the end of the log"
        self._is_as_closed = False
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

    def try_space(self, size: int) -> None:
        """Reserve `size` bytes after the end, and release them: raises OSError if a write would fail now."""
        if self._failure is not None:
            self._refuse()
        self._is_as_closed = False
        segment = self._segments.active or self._roll()
        try:
            segment.file().reserve(size, segment.size)
        finally:
            self._cut_back(segment)
        if self._failure is not None:
            self._refuse()

    def _refuse(self) -> None:
        raise LogFailed(
            errno.EIO, f"the log failed and is not recovered: {self._failure}", str(self.directory)
        )

    def _cut_back(self, segment: Segment) -> None:
        try:
            segment.cut_back()
        except OSError as error:
            self._fail(error)

    def _roll(self) -> Segment:
        closing = self._segments.active
        if closing is None:
            self._files.make_directory(self.directory)
        elif closing.has_room or (self.settings.sync_on_roll and closing.synced_bytes < closing.size):
            try:
                closing.finish()
            except OSError as error:
                self._fail(error)
                raise
        interval = self.settings.index_interval_bytes
        segment = Segment(self._files, self.directory, self.log_end_offset, interval)
        segment.create()
        self._durability.name_changed()
        self._segments.add(segment)
        if closing is not None:
            # Without disk space the indexes stay in memory, and are rebuilt at the next start.
            with suppress(OSError):
                closing.save_indexes()
            closing.close_file()
        return segment

    # Durability.

    def begin_sync(self) -> SyncRequest:
        """Return a sync request for everything appended so far. Each one must be completed or abandoned.

        Raises OSError if a file cannot be opened; the log has failed then.
        """
        try:
            return self._durability.begin(self.log_end_offset, self.replacement.generation)
        except OSError as error:
            self._fail(error)
            raise

    def complete_sync(self, request: SyncRequest) -> None:
        """Take over the outcome of a sync that ran: without an error, everything that existed when it began
        is durable.

        Raises the OSError of a failed sync; the log has failed then. Raises LogFailed, without a change, if
        the log failed otherwise, or was recovered, truncated or deleted while the sync ran.
        """
        try:
            if request.generation != self.replacement.generation:
                raise LogFailed(
                    errno.EIO, "the log is not what it was when the sync began", str(self.directory)
                )
            error = request.error if request.has_run else OSError(errno.EIO, "the sync did not run")
            if error is not None:
                self._durability.failed(request)
                self._fail(error)
                raise error
            if self._failure is not None:
                self._refuse()
            self._durability.completed(request)
        finally:
            self._durability.forget(request)

    def abandon_sync(self, request: SyncRequest) -> None:
        """End a sync that did not run or whose outcome is ignored; it makes nothing durable."""
        self._durability.forget(request)

    def mark(self) -> None:
        """Record on disk how far the log is durable, which is also done periodically. Never raises."""
        self._durability.mark()

    def fail(self, error: OSError) -> None:
        """Refuse appends until `recover`: for callers that learn of a failed sync in other ways."""
        self._durability.forget_run()
        self._fail(error)

    def _fail(self, error: OSError) -> None:
        self._failure = error
        self.on_failed()

    def recover(self) -> Recovery | None:
        """Read the log again from the disk, and accept appends again if that and its sync succeed.

        Complete batches appended after the last completed sync are kept and written again; incomplete ones
        are dropped and reported to `on_truncated`. Raises OSError if the disk still fails: the log stays
        failed, and readable as far as the disk can be read. Raises LogFailed for a deleted log.
        """
        if self._is_deleted:
            self._refuse()
        active = self._segments.active
        if active is not None:
            active.check_writable()
        with self.replacement.next_generation():
            synced_before = {segment.base_offset: segment.synced_bytes for segment in self._segments}
            for segment in self._segments:
                segment.close_file()
            recovery = self._load(clean=False, synced_before=synced_before)
            self.replacement.is_under_way = False
            self._failure = None
        return recovery

    # Reading.

    def read(
        self, offset: int, max_bytes: int, *, minimum_one: bool = True, up_to: int | None = None
    ) -> bytes:
        """Return whole batches, as on disk, from the one with `offset` on, from one segment.

        At most `max_bytes`, but at least one batch with `minimum_one`, if there is one; never a batch that
        reaches `up_to`. Raises OffsetOutOfRange, OSError, CorruptBatch.
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
        """Do the same as `read`, but return None, without reading, for more than `unless_bytes`."""
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

    def is_in_closed_segment(self, offset: int) -> bool:
        """Return whether the file of another segment than the active one is read for this offset."""
        active = self._segments.active
        return active is not None and offset < active.base_offset

    def header_of(self, offset: int) -> BatchHeader | None:
        """Return the header of the first batch that reaches `offset`; None without one. Raises OSError,
        CorruptBatch.
        """
        return self._segments.header_of(offset)

    def batches(self, from_offset: int = 0, up_to: int | None = None) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield header and bytes of every batch from the one with `from_offset` to the log's end, or `up_to`.

        Reads a megabyte at a time. Batches appended meanwhile are not included. Raises OSError, CorruptBatch.
        """
        limit = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        return walk_segments(self._segments, from_offset, limit)

    def search_timestamp(self, timestamp_ms: int) -> Search:
        """Find timestamp and offset of the first record at or after `timestamp_ms`, in steps
        (`log/time_search.py`); None if there is none.
        """
        return search_timestamp(self, self._segments, timestamp_ms)

    def search_largest_timestamp(self, up_to: int) -> Search:
        """Find the largest timestamp below the offset `up_to`, and the first offset that has it, in steps;
        None without timestamps.
        """
        return search_largest_timestamp(self, self._segments, up_to)

    def oldest_segment_ms(self) -> int:
        """Return the time of the oldest segment, in ms, that retention uses; -1 for a log without records.
        Raises OSError.
        """
        oldest = next(iter(self._segments), None)
        return -1 if oldest is None or not oldest.size else oldest.newest_ms()

    # Shortening.

    def delete_before(self, offset: int) -> None:
        """Move the log start to `offset`, durably, and remove some of the segments that lie wholly before it.

        `remove_segments` removes the others. An offset at or below the log start changes nothing. Raises
        OffsetOutOfRange past the log's end, and OSError: the start may be moved then.
        """
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(f"{offset} is past the end of the log, {self.log_end_offset}")
        if offset > self.log_start_offset:
            self._is_as_closed = False
            self._durability.save(replace(self._durability.checkpoint, log_start_offset=offset))
            self.log_start_offset = offset
        self.remove_segments()

    def remove_segments(self) -> bool:
        """Remove some of the segments wholly before the log start. Return whether there are more. Raises
        OSError.
        """
        if not self._segments.count_before(self.log_start_offset):
            return False
        # The start is durable: removals that a crash undoes are repeated when the log is opened.
        self._is_as_closed = False
        self._segments.remove_before(self.log_start_offset, _SEGMENTS_AT_ONCE)
        return self._segments.count_before(self.log_start_offset) > 0

    def apply_retention(
        self, now_ms: int, retention_ms: int, retention_bytes: int, up_to: int | None = None
    ) -> int:
        """Delete the oldest segments beyond the limits; return how many. A negative limit means none.

        If there are many, `remove_segments` removes the rest of their files.

        Only segments wholly below `up_to` are deleted: the high watermark, by default the durable offset, or
        the end of a log that relies on the page cache. If even the active segment is expired, it is closed
        and deleted too. Raises OSError, LogFailed.
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
        known = self._segments.count_before(self.log_start_offset)
        deleted = self._segments.count_before(start) - known
        self.delete_before(start)
        return deleted

    def truncate(self, offset: int) -> None:
        """Drop the batches that reach `offset` or lie past it, durably. After an OSError, `recover` is
        needed.
        """
        if offset >= self.log_end_offset:
            return
        self._is_as_closed = False
        try:
            with self.replacement.next_generation():
                self.replacement.revoke(min(self.compacted_to, offset))
            self._truncate(offset)
        except OSError as error:
            self._fail(error)
            raise

    def _truncate(self, offset: int) -> None:
        remove_sync_mark(self._files, self.directory)
        if self.compacted_to > offset:
            save_compacted_to(self._files, self.directory, offset)
            self.compacted_to = offset
        known = self._durability
        # A batch that reaches the offset is dropped whole, so the log may end anywhere before it: reset the
        # point.
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
        """The segments, for compaction to read."""
        return self._segments

    @property
    def files(self) -> FileSystem:
        """The file system of the log."""
        return self._files

    @property
    def generation(self) -> int:
        """A number that changes whenever the log is recovered, truncated or deleted."""
        return self.replacement.generation

    def replace_segments(self, old: list[Segment], new: list[Segment], state: CompactionState) -> None:
        """Replace the closed segments `old` by `new`, as decided; nothing is synced here.

        Raises OSError if names cannot be changed: the log has failed then, and `recover` changes them.
        """
        self._is_as_closed = False
        if old:
            self._segments.replace(old, new)
        self.compacted_to = state.compacted_to
        try:
            carry_out(self._files, self.directory, state)
        except OSError as error:
            self._fail(error)
            raise
        for segment in (*old, *new):
            segment.close_file()
        for segment in new:
            segment.unload_indexes()

    # The end.

    def close_files(self) -> None:
        """Close every descriptor and free memory that can be loaded again; the log stays usable.

        Some file systems report a failed write only once, when a file is closed: the log has failed then, as
        after a failed sync.
        """
        for segment in self._segments:
            try:
                segment.close_file()
            except OSError as error:
                self._fail(self._failure or error)
        for segment in self._segments.closed:
            if segment.can_unload:
                segment.unload_indexes()

    def close(self) -> None:
        """Make everything durable, with indexes, and close: the next `open` may be `clean`. Raises OSError.

        Nothing is written if nothing was changed since `open` found what `close` had left.
        """
        request = self.begin_close()
        if request is not None:
            request.run_quietly()
        self.end_close(request)

    def begin_close(self) -> SyncRequest | None:
        """Write what `close` makes durable. Return the sync that must run before `end_close`, or None.

        Raises OSError; the files are closed then.
        """
        try:
            if self._failure is not None:
                self._refuse()
            active = self._segments.active
            if active is None or self._is_as_closed:
                return None
            if active.has_room:
                active.finish()
            active.save_indexes()
            request = self.begin_sync()
            request.indexes.append(active)
            request.directories = [self.directory, self.directory.parent]
        except BaseException:
            self.close_files()
            raise
        return request

    def end_close(self, request: SyncRequest | None) -> None:
        """Close the files after the sync. Raises its OSError."""
        try:
            if request is not None:
                self.complete_sync(request)
                self._durability.mark()
        finally:
            self.close_files()

    def give_up(self) -> None:
        """Accept nothing more: the caller is about to delete the directory."""
        with self.replacement.next_generation():
            self._is_deleted = True
        self._failure = OSError(errno.ENOENT, "the log was deleted", str(self.directory))
        for segment in self._segments:
            with suppress(OSError):  # what could not be written is not needed
                segment.close_file()
        self._segments = Segments()
        self._durability.given_up(self._segments, self.log_end_offset)
        self.log_start_offset = self.log_end_offset
