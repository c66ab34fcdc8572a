"""A data directory: the catalogue, the partitions' directories, and the marker of a clean stop.

The catalogue is read from a copy in memory by the code of the server's start, with its recovery. So the
result is what the next start would read, and the disk is not changed. A directory without a catalogue, for
example Apache Kafka's, is read too: the names of its directories then give its topics.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headgate.domain.ids import TopicName
from headgate.inspect.reading import read_start
from headgate.log.damage import LogDamaged
from headgate.log.deletion import is_out_of_sight
from headgate.log.log import Recovery
from headgate.topics.catalogue import Catalogue, CatalogueCorrupt, CatalogueEntry
from headgate.topics.catalogue_copy import read_catalogue
from headgate.topics.catalogue_opening import CATALOGUE_DIRECTORY
from headgate.topics.clean_stop import CLEAN_SHUTDOWN_FILE, CleanStop

IDENTITY_FILE: Final = "meta.properties"
LOCK_FILE: Final = ".lock"
_PARTITION_NAME: Final = re.compile(r"(.+)-(\d+)\Z")
_CLUSTER_ID_KEY: Final = "cluster.id"


class NotADataDirectory(Exception):
    """The path is not a data directory. The message says why, and what is expected."""


@dataclass(slots=True, frozen=True)
class PartitionPlace:
    """The directory of one partition, and its topic's entry in the catalogue (None: no entry)."""

    directory: Path
    topic: str
    index: int
    entry: CatalogueEntry | None


@dataclass(slots=True)
class DataDirectory:
    """The content of a data directory, according to names and small files."""

    path: Path
    catalogue: Catalogue | None = None
    catalogue_problem: str | None = None
    """Why the catalogue cannot be read. If this and `catalogue` are None, there is no catalogue."""
    catalogue_recovery: Recovery | None = None
    """The bytes of the catalogue that the next start would truncate."""
    partitions: list[PartitionPlace] = field(default_factory=list)
    """The partitions in the catalogue; without a catalogue, all directories of partitions."""
    orphans: list[str] = field(default_factory=list)
    """Directories with the name of a partition that the catalogue does not have."""
    deleted: list[str] = field(default_factory=list)
    """Directories that are being deleted."""
    other_names: list[str] = field(default_factory=list)
    """All other files and directories."""
    marker: bytes | None = None
    """The content of the file that a clean stop writes."""
    marker_problem: str | None = None
    """Why that file cannot be read."""
    is_running: bool = False
    """Whether a process has locked the directory."""

    @property
    def unrecovered(self) -> set[str] | None:
        """The partitions that a clean stop did not recover, as topic id and index; None: no clean stop."""
        stop = CleanStop.decode(self.marker) if self.marker is not None else None
        return None if stop is None else set(stop.unrecovered)

    def was_closed_well(self, place: PartitionPlace) -> bool:
        """Tell whether the next start uses a partition's files without recovery."""
        unrecovered = self.unrecovered
        if unrecovered is None:
            return False
        return place.entry is None or f"{place.entry.topic_id.hex()}-{place.index}" not in unrecovered

    @property
    def cluster_id(self) -> str | None:
        """The cluster id, as the server reads it; None if the file is missing or does not have it.

        Raises OSError for a file that cannot be read.
        """
        try:
            text = read_start(self.path / IDENTITY_FILE).decode(errors="replace")
        except FileNotFoundError:
            return None
        for line in text.splitlines():
            if line.startswith(f"{_CLUSTER_ID_KEY}="):
                return line.partition("=")[2].strip()
        return None


def read_data_directory(path: Path) -> DataDirectory:
    """Read a data directory. Raises NotADataDirectory, and OSError for a file that cannot be read."""
    if not path.exists():
        raise NotADataDirectory(f"{path} does not exist")
    if not path.is_dir():
        raise NotADataDirectory(f"{path} is a file; a server's data directory is expected")
    found = DataDirectory(path)
    names = sorted(entry.name for entry in path.iterdir())
    directories = [name for name in names if (path / name).is_dir()]
    if not any(name == CATALOGUE_DIRECTORY or _PARTITION_NAME.match(name) for name in directories):
        raise NotADataDirectory(
            f"{path} is not a data directory: it has neither a {CATALOGUE_DIRECTORY} nor a partition"
        )
    if CATALOGUE_DIRECTORY in directories:
        _read_catalogue(found)
    if CLEAN_SHUTDOWN_FILE in names:
        try:
            found.marker = read_start(path / CLEAN_SHUTDOWN_FILE)
        except OSError as problem:
            found.marker_problem = str(problem)
    found.is_running = _is_locked(path / LOCK_FILE)
    for name in names:
        if name in (CATALOGUE_DIRECTORY, CLEAN_SHUTDOWN_FILE, IDENTITY_FILE, LOCK_FILE):
            continue
        if name not in directories:
            found.other_names.append(name)
        elif is_out_of_sight(name):
            found.deleted.append(name)
        else:
            _sort_in(found, name)
    found.partitions.sort(key=lambda place: (place.topic, place.index))
    return found


def _sort_in(found: DataDirectory, name: str) -> None:
    match = _PARTITION_NAME.match(name)
    if match is None:
        found.other_names.append(name)
        return
    topic, index = match[1], int(match[2])
    entry = None
    if found.catalogue is not None:
        entry = found.catalogue.topics.get(TopicName(topic))
        if entry is None or index >= entry.partition_count or name != f"{topic}-{index}":
            found.orphans.append(name)
            return
    found.partitions.append(PartitionPlace(found.path / name, topic, index, entry))


def _read_catalogue(found: DataDirectory) -> None:
    def dropped(recovery: Recovery) -> None:
        found.catalogue_recovery = recovery

    try:
        found.catalogue = read_catalogue(found.path, dropped)
    except LogDamaged as problem:
        found.catalogue_problem = str(problem.strerror)
    except CatalogueCorrupt as problem:
        found.catalogue_problem = str(problem)


def _is_locked(path: Path) -> bool:
    """Tell whether a process holds the lock, without trying to take it."""
    try:
        status = path.stat()
        held = Path("/proc/locks").read_text()
    except OSError:
        return False
    # Compare inode numbers only, because on some file systems the two sources have different device numbers.
    number = f":{status.st_ino} "
    return any("FLOCK" in line and number in line for line in held.splitlines())
