"""Track which parts of a log are durable: records, names, and the state that the next start can rely on.

A sync covers everything that existed when it began. It runs in any thread; this module records what began,
and what is known since it ended. The sync mark and the checkpoint's recovery point record this for the next
process.
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
"""Approximate maximum of bytes that are written again when a log is opened after a kill."""


class Durability:
    """The state of one log: everything below `durable_offset` is known to be on disk."""

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
        # Names change with segments. A sync of the directory covers the changes since the last one.
        self._name_changes = 0
        self._name_changes_synced = 0
        self._parent_synced = False
        self._unmarked_bytes = 0
        self.checkpoint = Checkpoint()
        self.durable_offset = 0

    def loaded(self, loaded: Loaded, segments: Segments, end_offset: int) -> None:
        """Take over the state of a log read from the disk: everything found there is durable."""
        self.checkpoint = loaded.checkpoint
        self._segments = segments
        self._parent_synced = loaded.is_durable
        self.durable_offset = end_offset

    def given_up(self, segments: Segments, end_offset: int) -> None:
        """Take over the state of a deleted log: it has no segments to sync."""
        self._segments = segments
        self.durable_offset = end_offset

    def name_changed(self) -> None:
        """Note that a segment was created: its name must be synced too."""
        self._name_changes += 1

    # Syncs.

    def begin(self, end_offset: int, generation: int) -> SyncRequest:
        """Return a sync request that makes everything up to `end_offset`, the log's end, durable.

        Raises OSError if a file cannot be opened.
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
        """End a sync without a change of the durable state."""
        segments = [segment for segment, _, _ in request.parts]
        request.release()
        for segment in segments:
            # What it got after the sync began is not synced: an error of its close must not be lost.
            if segment is not self._segments.active and segment.synced_bytes >= segment.size:
                with suppress(OSError):  # the sync has its result
                    segment.close_file()
        if request in self._syncs:
            self._syncs.remove(request)

    def forget_run(self) -> None:
        """End all syncs that have run, without a change of the durable state."""
        for request in [request for request in self._syncs if request.has_run]:
            self.forget(request)

    def failed(self, request: SyncRequest) -> None:
        """Note that a sync failed: nothing is known of the bytes it covered."""
        for segment, position in request.synced_before:
            # A roll may have synced the segment since, without an error: the kernel reports a failure once.
            segment.synced_bytes = min(segment.synced_bytes, position)

    def completed(self, request: SyncRequest) -> None:
        """Note that everything that existed when this sync began is durable."""
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

    # State for the next process.

    def mark(self) -> None:
        """Write the sync mark: the first byte that is not synced. Never raises."""
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
        """Move the recovery point past closed segments that are durable with their indexes."""
        point = self.checkpoint.recovery_point
        for segment in self._segments.closed:
            if segment.synced_bytes < segment.size or not segment.indexes_synced:
                break
            point = max(point, segment.next_offset)
        # It only saves time. If the disk is full, the next append fails and reports it.
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
