"""The data directory that an import writes.

Rules:

1. It is new, empty, or has an import that did not finish: that one is removed first.
2. The marker of an unfinished import is written before anything else, and removed when all is durable. A
   crash leaves a directory on which no server starts, and which the next import writes anew.
3. At the end every log is opened as after a crash, which checks it and rebuilds what is derived from it, and
   closed. So the server starts as after a clean stop.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from headgate.domain.ids import Millis, TopicName
from headgate.domain.settings import Settings
from headgate.log.checkpoint import Checkpoint, save_checkpoint
from headgate.log.filesystem import OsFileSystem, replace_file
from headgate.takeover.errors import ImportRefused
from headgate.topics import catalogue as events
from headgate.topics.catalogue import CatalogueEntry, Event
from headgate.topics.catalogue_opening import open_catalogue
from headgate.topics.leader_epochs import LeaderEpochs
from headgate.topics.partition_files import save_leader_epochs
from headgate.topics.topics import Topics
from headgate.topics.unfinished_import import UNFINISHED_IMPORT_FILE

LOCK_FILE: Final = ".lock"
IDENTITY_FILE: Final = "meta.properties"
_EVENTS_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class NewNode:
    """What the catalogue of the new data directory says."""

    cluster_id: str
    leader_epoch: int
    producer_ids_end: int
    topics: Sequence[CatalogueEntry]
    group_overrides: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def records(self) -> Iterator[Event]:
        """Yield the records of the catalogue."""
        yield events.cluster_named(self.cluster_id)
        yield events.leader_epoch_raised(self.leader_epoch)
        yield events.producer_ids_reserved(self.producer_ids_end)
        yield from map(events.topic_created, self.topics)
        for group_id, overrides in self.group_overrides.items():
            yield events.group_configured(group_id, overrides)


class Target:
    """A data directory that is being written. Use `new_data_directory`."""

    def __init__(self, files: OsFileSystem, path: Path) -> None:
        self._files = files
        self.path = path

    def write_catalogue(self, node: NewNode, now: Millis) -> None:
        """Write the catalogue and the identity, durably. Raises OSError."""
        catalogue = open_catalogue(self._files, self.path, 0)
        records = node.records()
        while some := list(islice(records, _EVENTS_AT_ONCE)):
            catalogue.commit(some, now)
        catalogue.close()
        identity = f"version=1\ncluster.id={node.cluster_id}\n"
        replace_file(self._files, self.path / IDENTITY_FILE, identity.encode())

    def new_partition(self, name: str, index: int) -> Path:
        """Create the directory of a partition. Raises OSError."""
        directory = self.path / f"{name}-{index}"
        directory.mkdir()
        return directory

    def begin_empty(self, directory: Path, offset: int) -> None:
        """Let the empty log in `directory` begin at `offset`. Raises OSError."""
        save_checkpoint(self._files, directory, Checkpoint(offset, offset, directory.name))

    def write_leader_epochs(self, directory: Path, epochs: LeaderEpochs) -> None:
        """Write the leader epochs of a partition. Raises OSError."""
        save_leader_epochs(self._files, directory, epochs)

    def finish(self, starts: Mapping[tuple[str, int], int], now: Millis) -> Iterator[None]:
        """Open, check and close every log, one in each step; move its start to that in `starts`.

        Raises OSError.
        """
        topics = Topics.open(self._files, self.path, Settings(), now)
        try:
            for topic in topics.all():
                for index in topic.written_partitions():
                    partition = topic.partition(index)
                    partition.log.delete_before(starts.get((TopicName(topic.name), index), 0))
                    partition.close()
                    yield
        finally:
            topics.close()
        self._files.sync_directory(self.path)
        (self.path / UNFINISHED_IMPORT_FILE).unlink()
        self._files.sync_directory(self.path)


@contextmanager
def new_data_directory(path: Path) -> Iterator[Target]:
    """Create or clear the data directory, locked within the `with` block; mark it as unfinished.

    Raises ImportRefused for a directory that is not empty or in use, OSError.
    """
    check_target(path)
    files = OsFileSystem()
    path.mkdir(parents=True, exist_ok=True)
    files.sync_directory(path.absolute().parent)
    try:
        lock = files.lock(path / LOCK_FILE)
    except BlockingIOError:
        raise ImportRefused(f"{path} is in use by another headgate process") from None
    try:
        check_target(path)
        replace_file(files, path / UNFINISHED_IMPORT_FILE, b"")
        files.sync_directory(path)
        _clear(path)
        yield Target(files, path)
    finally:
        lock.release()


def check_target(path: Path) -> None:
    """Raise ImportRefused for a directory that is not new, empty, or an unfinished import."""
    if not path.exists():
        return
    if not path.is_dir():
        raise ImportRefused(f"{path} is a file; a directory is expected with --data-dir")
    names = {entry.name for entry in path.iterdir()} - {LOCK_FILE, "lost+found"}
    if names and UNFINISHED_IMPORT_FILE not in names:
        raise ImportRefused(
            f"{path} is not empty (it has {sorted(names)[0]}); an import needs a new or empty directory"
        )


def _clear(path: Path) -> None:
    for entry in _written(path):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _written(path: Path) -> Iterable[Path]:
    kept = (LOCK_FILE, UNFINISHED_IMPORT_FILE, "lost+found")
    return [entry for entry in path.iterdir() if entry.name not in kept]
