"""What there is to make durable at one moment: the part of a sync that another thread may run."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.log.filesystem import File, FileSystem
    from headgate.log.segment import Segment


class SyncRequest:
    """Made by `Log.begin_sync`; `run` once, in any thread; then `Log.complete_sync` on the log's own.

    The files are held open until then, whatever else happens to the log.
    """

    __slots__ = (
        "directories",
        "directory_changes",
        "end_offset",
        "error",
        "files",
        "generation",
        "has_run",
        "indexes",
        "parts",
        "synced_before",
    )

    def __init__(self, files: FileSystem, end_offset: int, generation: int, directory_changes: int) -> None:
        self.files = files
        self.end_offset = end_offset
        self.generation = generation
        self.directory_changes = directory_changes
        self.parts: list[tuple[Segment, File, int]] = []
        self.synced_before: list[tuple[Segment, int]] = []
        """How far each part was durable: what is true again if the sync fails."""
        self.indexes: list[Segment] = []
        self.directories: list[Path] = []
        self.error: OSError | None = None
        self.has_run = False

    def run(self) -> None:
        """Make it durable: older segments first, names last. Raises OSError, and keeps it in `error`.

        Whatever else is raised has failed the sync as well.
        """
        try:
            for _, file, _ in self.parts:
                file.datasync()
            for segment in self.indexes:
                segment.sync_indexes()
            for directory in self.directories:
                self.files.sync_directory(directory)
        except OSError as error:
            self.error = error
            raise
        except BaseException as problem:
            self.error = OSError(errno.EIO, f"the sync ended with {problem!r}")
            raise
        finally:
            self.has_run = True

    @property
    def only_descriptor(self) -> int | None:
        """The operating system's number of the one file to sync; None if there is more to do, or less."""
        if len(self.parts) != 1 or self.indexes or self.directories:
            return None
        return self.parts[0][1].descriptor

    def end(self, error: OSError | None) -> None:
        """The sync has run by other ways than `run`, or could not: this is the outcome."""
        self.error = error
        self.has_run = True

    def release(self) -> None:
        """Let go of the files."""
        for segment, _, _ in self.parts:
            segment.unpin()
        self.parts = []
