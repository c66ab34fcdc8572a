"""The segment files of a partition in a broker's data directory, as of one moment.

The broker may be running, and compaction replaces files. Headgate records in `headgate.compaction` which
files a replacement in progress removes and adds; Kafka names new files `.swap` until the old ones are
removed. A listing of the directory is valid if no replacement is in progress and a second listing is equal.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headgate.log.filesystem import OsFileSystem, read_or_nothing
from headgate.log.segment_file import LOG_SUFFIX
from headgate.log.swap import CLEANED_SUFFIX, COMPACTION_NAME, CompactionState
from headgate.spark.plan import MissingData
from headgate.topics.catalogue import CatalogueCorrupt
from headgate.topics.catalogue_copy import read_catalogue
from headgate.topics.clean_stop import CLEAN_SHUTDOWN_FILE, CleanStop

SETTLE_S = 2.0
"""Maximum time in s to wait for a replacement of files."""

_LOOK_AGAIN_S = 0.01
_SEGMENT_NAME = re.compile(r"\d{20}\.log")
_FOLDER_NAME = re.compile(r"(.+)-(\d+)")


class CompactedWhileRead(MissingData):
    """Compaction replaced files after a read was planned: the remaining files are not the planned ones."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path} was compacted after its read was planned: run again, with a new DataFrame in Spark"
        )

    def __reduce__(self) -> tuple[type[CompactedWhileRead], tuple[str]]:
        """Pickle the path: an exception is made of its message otherwise."""
        return CompactedWhileRead, (self.path,)


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One segment file: its identity, not only its name, and its size at that time."""

    path: Path
    base_offset: int
    inode: int
    size: int

    def is_same(self, other: os.stat_result) -> bool:
        """Return whether an opened file of this name is this file; it may have grown since."""
        return other.st_ino == self.inode


def topics_in(data_directory: Path) -> dict[str, dict[int, Path]]:
    """Return the directories of all partitions, by topic and partition. Raises MissingData."""
    if not data_directory.is_dir():
        raise MissingData(f"there is no data directory {data_directory}")
    found: dict[str, dict[int, Path]] = {}
    for entry in sorted(data_directory.iterdir()):
        match = _FOLDER_NAME.fullmatch(entry.name)
        if match and entry.is_dir():
            found.setdefault(match[1], {})[int(match[2])] = entry
    return found


def unwritten_topics(data_directory: Path) -> dict[str, int]:
    """Return the topics of Headgate's catalogue that were never written, with their numbers of partitions.

    Those whose files are missing are not among them: by the marker of the last stop, or by a link to nothing.
    Of a directory of Kafka, or if the catalogue cannot be read, there are none.
    """
    with suppress(OSError, CatalogueCorrupt):
        catalogue = read_catalogue(data_directory)
        stop = CleanStop.decode(read_or_nothing(OsFileSystem(), data_directory / CLEAN_SHUTDOWN_FILE))
        written = stop.written if stop is not None else {}
        folders = (_FOLDER_NAME.fullmatch(entry.name) for entry in data_directory.iterdir())
        there = {match[1] for match in folders if match}
        return {
            name: entry.partition_count
            for name, entry in catalogue.topics.items()
            if name not in there and entry.topic_id.hex() not in written
        }
    return {}


def segment_files(directory: Path) -> list[SegmentFile]:
    """Return the segments of a partition, in order. Raises MissingData if a replacement does not end."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        state = _replacement(directory)
        found = _look(directory, state)
        settled = state is None and not any(directory.glob("*.swap"))
        if settled or time.monotonic() > deadline:
            again = _look(directory, _replacement(directory))
            if found is not None and again is not None and _names(found) == _names(again):
                if not settled and state is None:
                    raise MissingData(f"a compaction of {directory} was cut short; start its broker once")
                return again
            if time.monotonic() > deadline:
                raise MissingData(f"the files of {directory} change all the time, run again")
        time.sleep(_LOOK_AGAIN_S)


def _replacement(directory: Path) -> CompactionState | None:
    """Return the replacement in progress, in a log of Headgate."""
    try:
        state = CompactionState.from_bytes((directory / COMPACTION_NAME).read_bytes())
    except FileNotFoundError:
        return None
    return state if state is not None and (state.removed or state.added) else None


def _look(directory: Path, state: CompactionState | None) -> list[SegmentFile] | None:
    """Return the valid files; None if one was removed during the listing."""
    paths = {int(entry.stem): entry for entry in directory.iterdir() if _SEGMENT_NAME.fullmatch(entry.name)}
    if state is not None:
        for base_offset in state.removed:
            paths.pop(base_offset, None)
        for base_offset in state.added:
            path = directory / f"{base_offset:020d}{LOG_SUFFIX}"
            aside = path.with_name(path.name + CLEANED_SUFFIX)
            paths[base_offset] = aside if aside.exists() else path
    files = []
    for base_offset, path in sorted(paths.items()):
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
        files.append(SegmentFile(path, base_offset, status.st_ino, status.st_size))
    return files


def _names(files: list[SegmentFile]) -> list[tuple[Path, int]]:
    return [(file.path, file.inode) for file in files]
