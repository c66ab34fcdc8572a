"""What of a log is known to be on the disk: its records, its names, and how far the next start can trust it.

One sync covers all that was there when it began. It runs anywhere; here is noted what has begun, and what is
known since it ended. A mark and the checkpoint's recovery point tell the next process as much.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.log.checkpoint import Checkpoint, save_checkpoint
from headgate.log.segments import Segments, last_crc
from headgate.log.sync import SyncRequest
from headgate.log.sync_mark import SyncMark, save_sync_mark

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.log.filesystem import FileSystem
    from headgate.log.recovery import Loaded

SYNC_MARK_EVERY_BYTES = 1 << 20
"""About how much is written again, at most, when a log is opened after a kill."""


class Durability:
    """Of one log: everything below `durable_offset` is known to be on disk."""

    __slots__ = (
        "_directory",
        "_files",
        "_name_changes",
        "_name_changes_synced",
        "_parent_synced",
        "_segments",
        "_syncs",
        "_unmarked_bytes",
        "checkpoint",
        "durable_offset",
    )

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._segments = Segments()
        self._syncs: list[SyncRequest] = []
        # Names come and go with segments. What changed since is what a sync of the directory is for.
        self._name_changes = 0
        self._name_changes_synced = 0
        self._parent_synced = False
        self._unmarked_bytes = 0
        self.checkpoint = Checkpoint()
        self.durable_offset = 0

    def loaded(self, loaded: Loaded, segments: Segments, end_offset: int) -> None:
        """The log was read from the disk: all that was found there is durable."""
        self.checkpoint = loaded.checkpoint
        self._segments = segments
        self._parent_synced = loaded.is_durable
        self.durable_offset = end_offset

    def given_up(self, segments: Segments, end_offset: int) -> None:
        """The log is deleted: it has no segments that could be made durable, and nobody waits for any."""
        self._segments = segments
        self.durable_offset = end_offset

    def name_changed(self) -> None:
        """A segment came: its name is to be synced as well."""
        self._name_changes += 1

    # Syncs.

    def begin(self, end_offset: int, generation: int) -> SyncRequest:
        """What must be synced for everything up to `end_offset`, which is all there is, to be durable.

        Raises OSError when a file cannot be opened.
        """
        request = SyncRequest(self._files, end_offset, generation, self._name_changes)
        try:
            for segment in self._segments:
                if segment.synced_bytes < segment.size:
                    request.parts.append((segment, segment.pin(), segment.size))
                    request.synced_before.append((segment, segment.synced_bytes))
                if not segment.indexes_synced and segment is not self._segments.active:
                    request.indexes.append(segment)
        except OSError:
            request.release()
            raise
        if self._name_changes_synced < self._name_changes:
            request.directories.append(self._directory)
            if not self._parent_synced:
                request.directories.append(self._directory.parent)
        self._syncs.append(request)
        return request

    def forget(self, request: SyncRequest) -> None:
        """A sync is over, or is not to be; nothing is known by that."""
        request.release()
        if request in self._syncs:
            self._syncs.remove(request)

    def forget_run(self) -> None:
        """The same of all that have run, whatever came of it."""
        for request in [request for request in self._syncs if request.has_run]:
            self.forget(request)

    def failed(self, request: SyncRequest) -> None:
        """A sync failed: nothing is known of what it was to make durable."""
        for segment, position in request.synced_before:
            # A roll may have synced it since, without an error: the kernel reports a failure once.
            segment.synced_bytes = min(segment.synced_bytes, position)

    def completed(self, request: SyncRequest) -> None:
        """All is durable that was there when this sync began."""
        for segment, _, size in request.parts:
            self._unmarked_bytes += max(size - segment.synced_bytes, 0)
            segment.synced_bytes = max(segment.synced_bytes, size)
        for segment in request.indexes:
            segment.indexes_synced = True
        self._name_changes_synced = max(self._name_changes_synced, request.directory_changes)
        if request.directories and not self._parent_synced:
            self._parent_synced = self._directory.parent in request.directories
        self.durable_offset = max(self.durable_offset, request.end_offset)
        if self._unmarked_bytes >= SYNC_MARK_EVERY_BYTES:
            self.mark()
        if request.indexes:
            self.move_recovery_point()

    # What the next process is told.

    def mark(self) -> None:
        """Tell how far the disk has the log: up to the first byte that is not synced. Never raises."""
        segment = next((one for one in self._segments if one.synced_bytes < one.size), self._segments.active)
        assert segment is not None
        self._unmarked_bytes = 0
        mark = SyncMark(
            segment.base_offset,
            segment.synced_bytes,
            self.durable_offset,
            self.checkpoint.log_start_offset,
            last_crc(self._segments, self.durable_offset),
        )
        save_sync_mark(self._files, self._directory, mark)

    def move_recovery_point(self) -> None:
        """Spare the next start the closed segments that are durable with their indexes."""
        point = self.checkpoint.recovery_point
        for segment in self._segments.closed:
            if segment.synced_bytes < segment.size or not segment.indexes_synced:
                break
            point = max(point, segment.next_offset)
        # It only saves time: a disk too full for it fails the next append, and says so there.
        with suppress(OSError):
            self.save(replace(self.checkpoint, recovery_point=point))

    def save(self, checkpoint: Checkpoint) -> None:
        """Make this the checkpoint, durably. Raises OSError."""
        if checkpoint != self.checkpoint:
            checkpoint = replace(checkpoint, log=self._directory.name)
            save_checkpoint(self._files, self._directory, checkpoint)
            if not self._parent_synced:
                self._files.sync_directory(self._directory.parent)
                self._parent_synced = True
            self.checkpoint = checkpoint
