"""One partition's log: batches in segments, in one directory.

Owned here: the order of segments, where the log starts and ends, and how far it is durable. Rules:

1. One thread owns a log. Only `SyncRequest.run` may happen in another, while the owner goes on appending.
2. Nothing is on disk before the first append, and no descriptor need be open between two calls.
3. What is appended is readable at once and durable when a sync that began later is completed:
   `log_start_offset <= durable_offset <= log_end_offset`, but for a log start moved past what is durable.
4. A write that fails is cut back at once. If that fails too, or a sync does, the log takes no more appends
   until `recover` has read it again from the disk; what is readable stays readable.
5. A roll syncs the segment it closes (unless `sync_on_roll` is off), so whatever a crash leaves is a prefix
   of what was appended: a later segment never survives an earlier one.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headgate.log.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from headgate.log.recovery import Loading, Recovery, load_segments, sync_segments
from headgate.log.segment import LARGEST_RELATIVE_OFFSET, Segment, walk_batches
from headgate.log.time_search import find_largest_timestamp, find_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from headgate.log.filesystem import File, FileSystem
    from headgate.log.header import BatchHeader, Buffer

__all__ = [
    "Log",
    "LogFailed",
    "LogSettings",
    "OffsetOutOfRange",
    "Recovery",
    "SyncRequest",
    "remove_deleted",
]

DELETED_SUFFIX: Final = ".delete"


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


@dataclass(slots=True)
class SyncRequest:
    """What there was to sync at one moment. `run` once, in any thread; then `Log.complete_sync`."""

    end_offset: int
    generation: int
    directory_changes: int
    parts: list[tuple[Segment, File, int]] = field(default_factory=list)
    indexes: list[Segment] = field(default_factory=list)
    directories: list[Path] = field(default_factory=list)
    sync_directory: Callable[[Path], None] | None = None
    error: OSError | None = None

    def run(self) -> None:
        """Make it durable: older segments first, names last. Raises nothing; a failure is kept in `error`."""
        try:
            for _, file, _ in self.parts:
                file.datasync()
            for segment in self.indexes:
                segment.sync_indexes()
            for directory in self.directories:
                assert self.sync_directory is not None
                self.sync_directory(directory)
        except OSError as error:
            self.error = error


class Log:
    """One partition's log. Made by `Log.open`."""

    __slots__ = (
        "_base_offsets",
        "_checkpoint",
        "_directory_changes",
        "_directory_changes_synced",
        "_failure",
        "_files",
        "_generation",
        "_on_truncated",
        "_parent_synced",
        "_segments",
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
        self._segments: list[Segment] = []
        self._base_offsets: list[int] = []
        self._checkpoint = Checkpoint()
        self._directory_changes = 0
        self._directory_changes_synced = 0
        self._parent_synced = False
        self._generation = 0
        self._failure: OSError | None = None
        self.directory = directory
        self.settings = settings
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.durable_offset = 0

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
        the recovery point (the larger of the argument and the log's own) and made durable; `on_truncated`
        is told of whatever had to be dropped. Raises OSError.
        """
        log = cls(files, directory, settings, on_truncated)
        log._load(clean=clean, recovery_point=recovery_point)
        return log

    def _load(
        self, *, clean: bool, recovery_point: int, synced_before: Mapping[int, int] | None = None
    ) -> Recovery | None:
        self._checkpoint = load_checkpoint(self._files, self.directory)
        loading = Loading(
            self._files,
            self.directory,
            self.settings.index_interval_bytes,
            self._checkpoint,
            clean,
            max(recovery_point, self._checkpoint.recovery_point),
        )
        segments, recovery = load_segments(loading)
        start = self._checkpoint.log_start_offset
        unsynced = [s for s in segments if s.synced_bytes < s.size or recovery is not None]
        if unsynced:
            sync_segments(unsynced, synced_before)
        if segments and segments[-1].next_offset < start:
            # Records were deleted past what survived: the log is empty and goes on at its start.
            for segment in segments:
                segment.remove()
                segment.remove()
            segments = []
        if segments and (unsynced or not clean):
            self._files.sync_directory(self.directory)
            self._files.sync_directory(self.directory.parent)
        self._parent_synced = bool(segments)
        self._directory_changes_synced = self._directory_changes
        self._set_segments(segments)
        self.log_start_offset = max(start, segments[0].base_offset) if segments else start
        self.log_end_offset = self.durable_offset = segments[-1].next_offset if segments else start
        self._settle_indexes([segment for segment in unsynced if segment is not self._active])
        if recovery is not None and self._on_truncated is not None:
            self._on_truncated(recovery)
        return recovery

    def _settle_indexes(self, rebuilt: Sequence[Segment]) -> None:
        """Save what a scan rebuilt for closed segments, so that the next one need not."""
        # Indexes are derived: without room for them the log works as well, and starts slower next time.
        with suppress(OSError):
            for segment in rebuilt:
                segment.save_indexes()
                segment.sync_indexes()
                segment.indexes_synced = True
                segment.unload_indexes()
                segment.close_file()
            if rebuilt:
                self._save_checkpoint(recovery_point=self._base_offsets[-1])

    def _set_segments(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._base_offsets = [segment.base_offset for segment in segments]

    @property
    def _active(self) -> Segment | None:
        return self._segments[-1] if self._segments else None

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches held."""
        return sum(segment.size for segment in self._segments)

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
        """Whether a roll left something to sync: worth one in the background even where `flush` is off."""
        return any(s.synced_bytes < s.size or not s.indexes_synced for s in self._segments[-2:-1])

    # Appending.

    def append(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Append batches that are placed at the log's end, with their headers, in one write.

        Raises OSError when nothing was appended, LogFailed while the log takes nothing.
        """
        if self._failure is not None:
            raise LogFailed(errno.EIO, f"the log failed and is not recovered: {self._failure}")
        first, last = headers[0], headers[-1]
        assert first.base_offset >= self.log_end_offset, "a batch must be placed at the end of the log"
        segment = self._segments[-1] if self._segments else None
        if segment is None or self._is_full(segment, len(data), first, last):
            segment = self._roll(first.base_offset)
        try:
            segment.write(data, headers)
        except OSError:
            self._cut_back(segment)
            raise
        self.log_end_offset = last.base_offset + last.last_offset_delta + 1

    def _is_full(self, segment: Segment, size: int, first: BatchHeader, last: BatchHeader) -> bool:
        if not segment.size:
            return False
        settings = self.settings
        return (
            segment.size + size > settings.segment_bytes
            or last.last_offset - segment.base_offset > LARGEST_RELATIVE_OFFSET
            or (
                segment.first_timestamp >= 0
                and first.max_timestamp - segment.first_timestamp > settings.segment_ms
            )
        )

    def _cut_back(self, segment: Segment) -> None:
        try:
            segment.cut_back()
        except OSError as error:
            self._failure = error

    def _roll(self, base_offset: int) -> Segment:
        closing = self._active
        if closing is None:
            self._files.make_directory(self.directory)
        elif self.settings.sync_on_roll and closing.synced_bytes < closing.size:
            try:
                closing.file().datasync()
            except OSError as error:
                self._failure = error
                raise
            closing.synced_bytes = closing.size
        segment = Segment(self._files, self.directory, base_offset, self.settings.index_interval_bytes)
        segment.create()
        self._directory_changes += 1
        self._segments.append(segment)
        self._base_offsets.append(base_offset)
        if closing is not None:
            # Without room for them the indexes stay in memory, and are rebuilt at the next start.
            with suppress(OSError):
                closing.save_indexes()
            closing.close_file()
        return segment

    # Durability.

    def begin_sync(self) -> SyncRequest:
        """What must be synced for everything appended so far to be durable. Each one must be completed."""
        request = SyncRequest(self.log_end_offset, self._generation, self._directory_changes)
        closed = self._segments[:-1]
        request.indexes = [
            segment for segment in closed if not segment.indexes_synced and segment.synced_bytes
        ]
        for segment in self._segments:
            if segment.synced_bytes < segment.size:
                request.parts.append((segment, segment.pin(), segment.size))
        if self._directory_changes_synced < self._directory_changes:
            request.sync_directory = self._files.sync_directory
            request.directories.append(self.directory)
            if not self._parent_synced:
                request.directories.append(self.directory.parent)
        return request

    def complete_sync(self, request: SyncRequest) -> None:
        """Take the outcome of a sync that ran. Raises its OSError, after which the log has failed.

        A request from before a `recover`, `truncate` or `delete` tells nothing any more and changes nothing.
        """
        for segment, _, _ in request.parts:
            segment.unpin()
        if request.generation != self._generation:
            return
        if request.error is not None:
            self._failure = request.error
            raise request.error
        for segment, _, size in request.parts:
            segment.synced_bytes = max(segment.synced_bytes, size)
        for segment in request.indexes:
            segment.indexes_synced = True
        self._directory_changes_synced = max(self._directory_changes_synced, request.directory_changes)
        self._parent_synced |= self.directory.parent in request.directories
        self.durable_offset = max(self.durable_offset, request.end_offset)
        if request.indexes:
            self._move_recovery_point()

    def _move_recovery_point(self) -> None:
        """Spare the next start the closed segments that are durable with their indexes."""
        point = self._checkpoint.recovery_point
        for segment, following in zip(self._segments, self._base_offsets[1:], strict=False):
            if segment.synced_bytes < segment.size or not segment.indexes_synced:
                break
            point = max(point, following)
        if point > self._checkpoint.recovery_point:
            # It only saves time: a disk too full for it fails the next append, and says so there.
            with suppress(OSError):
                self._save_checkpoint(recovery_point=point)

    def _save_checkpoint(
        self, *, log_start_offset: int | None = None, recovery_point: int | None = None
    ) -> None:
        old = self._checkpoint
        checkpoint = Checkpoint(
            old.log_start_offset if log_start_offset is None else log_start_offset,
            old.recovery_point if recovery_point is None else recovery_point,
        )
        if checkpoint != old:
            save_checkpoint(self._files, self.directory, checkpoint)
            self._checkpoint = checkpoint

    def recover(self) -> Recovery | None:
        """Read the log again from the disk, and take appends again if that and its sync succeed.

        What was appended after the last completed sync is kept where it is whole, and written again; what is
        not is dropped and told to `on_truncated`. Raises OSError when the disk still refuses: the log stays
        failed and readable.
        """
        self._generation += 1
        synced_before = {segment.base_offset: segment.synced_bytes for segment in self._segments}
        for segment in self._segments:
            segment.close_file()
        recovery = self._load(clean=False, recovery_point=0, synced_before=synced_before)
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
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"{offset} is not within {self.log_start_offset}..{self.log_end_offset}")
        limit = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        at = max(bisect_right(self._base_offsets, offset) - 1, 0)
        while offset < limit and at < len(self._segments):
            segment = self._segments[at]
            if segment.base_offset >= limit:
                break
            start = segment.position_of(offset)
            end = segment.position_of(limit) if limit < segment.next_offset else segment.size
            if start < end:
                return segment.read(start, end, max_bytes, minimum_one=minimum_one)
            at += 1
        return b""

    def batches(self, from_offset: int = 0, up_to: int | None = None) -> Iterator[tuple[BatchHeader, bytes]]:
        """Header and bytes of every batch from the one that holds `from_offset` to the log's end, or `up_to`.

        Reads a megabyte at a time. The log may be appended to meanwhile, which this does not see. Raises
        OSError, CorruptBatch.
        """
        limit = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        at = max(bisect_right(self._base_offsets, from_offset) - 1, 0)
        for segment in self._segments[at:]:
            if segment.base_offset >= limit:
                return
            end = segment.position_of(limit) if limit < segment.next_offset else segment.size
            start = segment.position_of(from_offset) if from_offset > segment.base_offset else 0
            for _, header, batch in walk_batches(segment.file(), start, end):
                yield header, bytes(batch)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Timestamp and offset of the first record at or after `timestamp_ms`; None when there is none."""
        return find_timestamp(self._segments, timestamp_ms, self.log_start_offset)

    def max_timestamp(self) -> tuple[int, int] | None:
        """The largest timestamp and the first offset in its batch that has it; None without records."""
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
            self._save_checkpoint(log_start_offset=offset)
            self.log_start_offset = offset
        self._remove_before_start()

    def _remove_before_start(self) -> int:
        count = max(bisect_right(self._base_offsets, self.log_start_offset) - 1, 0)
        for _ in range(count):
            self._segments[0].remove()
            self._set_segments(self._segments[1:])
        if count:
            self._directory_changes += 1
        return count

    def apply_retention(
        self, now_ms: int, retention_ms: int, retention_bytes: int, up_to: int | None = None
    ) -> int:
        """Delete the oldest segments that are too old or too much; how many went. Negative limits: none.

        A segment is too old when its newest timestamp is; one without timestamps never is. Only segments
        wholly below `up_to` (the high watermark) go. If all of the log is too old, the active segment is
        closed and goes as well. Raises OSError, LogFailed.
        """
        limit = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        surplus = self.size_bytes - retention_bytes if retention_bytes >= 0 else -1
        start = self.log_start_offset
        for segment in list(self._segments):
            is_surplus = surplus >= segment.size
            segment.offset_index  # noqa: B018  the newest timestamp is known when the indexes are loaded
            is_old = 0 <= retention_ms < now_ms - segment.max_timestamp and segment.max_timestamp >= 0
            if not segment.size or segment.next_offset > limit or not (is_old or is_surplus):
                break
            surplus -= segment.size
            if segment is self._active:
                if self._failure is not None:
                    raise LogFailed(errno.EIO, f"the log failed and is not recovered: {self._failure}")
                self._roll(self.log_end_offset)
            start = segment.next_offset
        if start > self.log_start_offset:
            self._save_checkpoint(log_start_offset=start)
            self.log_start_offset = start
        return self._remove_before_start()

    def truncate(self, offset: int) -> None:
        """Drop the batches that reach `offset` or lie past it, durably. Raises OSError: then `recover`."""
        if offset >= self.log_end_offset:
            return
        self._generation += 1
        try:
            self._truncate(offset)
        except OSError as error:
            self._failure = error
            raise

    def _truncate(self, offset: int) -> None:
        self._save_checkpoint(
            log_start_offset=min(self._checkpoint.log_start_offset, offset),
            recovery_point=min(self._checkpoint.recovery_point, offset),
        )
        keep = max(bisect_right(self._base_offsets, offset), 1)
        for segment in reversed(self._segments[keep:]):
            segment.remove()
            self._set_segments(self._segments[:-1])
        self._files.sync_directory(self.directory)
        segment = self._segments[-1]
        segment.truncate_to(segment.position_of(offset))
        self.log_end_offset = max(segment.next_offset, min(offset, self.log_start_offset))
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        segment.file().datasync()
        segment.synced_bytes = segment.size
        self.durable_offset = min(self.durable_offset, self.log_end_offset)

    # The end.

    def close_files(self) -> None:
        """Give back every descriptor and what memory can be had again; all goes on working."""
        for segment in self._segments:
            segment.close_file()
        for segment in self._segments[:-1]:
            if segment.indexes_synced:
                segment.unload_indexes()

    def close(self) -> None:
        """Make all durable, indexes included, and close: the next `open` may be `clean`. Raises OSError."""
        if self._failure is None and self._segments:
            self._segments[-1].save_indexes()
            request = self.begin_sync()
            request.indexes.append(self._segments[-1])
            request.sync_directory = self._files.sync_directory
            request.directories = [self.directory, self.directory.parent]
            request.run()
            self.complete_sync(request)
        self.close_files()

    def delete(self) -> None:
        """Remove the log from the disk: in one step out of sight, then file by file.

        Raises OSError: before the first step nothing has happened, after it `remove_deleted` can finish.
        """
        self._generation += 1
        self._failure = OSError(errno.ENOENT, "the log was deleted", str(self.directory))
        for segment in self._segments:
            segment.close_file()
        self._set_segments([])
        self.log_start_offset = self.durable_offset = self.log_end_offset
        if self._files.exists(self.directory):
            doomed = self.directory.with_name(self.directory.name + DELETED_SUFFIX)
            _remove_tree(self._files, doomed)
            self._files.rename(self.directory, doomed)
            self._files.sync_directory(self.directory.parent)
            _remove_tree(self._files, doomed)


def remove_deleted(files: FileSystem, data_directory: Path) -> list[str]:
    """Finish the deletions that were interrupted; the names of the directories that went. Raises OSError."""
    names = [name for name in files.listdir(data_directory) if name.endswith(DELETED_SUFFIX)]
    for name in names:
        _remove_tree(files, data_directory / name)
    return names


def _remove_tree(files: FileSystem, directory: Path) -> None:
    if files.exists(directory):
        for name in files.listdir(directory):
            files.remove(directory / name)
        files.remove_directory(directory)
