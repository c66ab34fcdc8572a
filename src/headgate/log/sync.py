"""A sync of everything that is not durable at one moment: the part that another thread may run."""

from __future__ import annotations

import errno
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headgate.log.filesystem import File, FileSystem
    from headgate.log.segment import Segment


class SyncRequest:
    """Made by `Log.begin_sync`; call `run` once, in any thread, then `Log.complete_sync` in the owner's.

    The files stay open until then, whatever happens to the log.
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
        """The durable size of each part before the sync; it applies again if the sync fails."""
        self.indexes: list[Segment] = []
        self.directories: list[Path] = []
        self.error: OSError | None = None
        self.has_run = False

    def run(self) -> None:
        """Sync older segments first, names last. Raises OSError, and keeps it in `error`.

        Any other exception fails the sync too.
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

    def run_quietly(self) -> None:
        """Run, and leave an OSError to `Log.complete_sync`."""
        with suppress(OSError):
            self.run()

    @property
    def only_descriptor(self) -> int | None:
        """Descriptor of the only file to sync; None if there is more to sync, or nothing."""
        if len(self.parts) != 1 or self.indexes or self.directories:
            return None
        return self.parts[0][1].descriptor

    def end(self, error: OSError | None) -> None:
        """Set the outcome of a sync that did not use `run`."""
        self.error = error
        self.has_run = True

    def release(self) -> None:
        """Release the files."""
        for segment, _, _ in self.parts:
            segment.unpin()
        self.parts = []


def run_together(requests: Sequence[SyncRequest]) -> None:
    """Run requests of different logs at the same time, as far as threads can be started. Return when all have
    run. An OSError is left to `Log.complete_sync`.
    """
    left = deque(requests)

    def work() -> None:
        while left:
            try:
                request = left.popleft()
            except IndexError:  # another thread took the last one
                return
            request.run_quietly()

    threads: list[threading.Thread] = []
    with suppress(RuntimeError):  # no more threads can be started: this one runs what is left
        while len(threads) < len(requests) - 1:
            thread = threading.Thread(target=work, name="headgate-stop-sync")
            thread.start()
            threads.append(thread)
    try:
        work()
    finally:
        for thread in threads:
            thread.join()
