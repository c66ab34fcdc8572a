"""The time until which the landed tables are complete: all that was written before it is in them.

1. A run that reads from a broker's port lands all that was written before the run.
2. A server that stops without a crash has marked all of its logs as durable. Its directory, and every copy of
   it, has all until that stop. Headgate writes the time of the stop into its marker.
3. The marker of Kafka has no time, and the time of a file is that of the copy in most copies. There the
   latest landed commit is the bound: the stop was not before it.
4. Of the directory of a running server nothing is known: it has not marked its latest writes yet.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from headgate.log.filesystem import OsFileSystem, read_or_nothing
from headgate.spark.landing import tables
from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import Progress
from headgate.spark.landing.state import LAST_TIME_KEY
from headgate.spark.options import Options
from headgate.topics.clean_stop import CLEAN_SHUTDOWN_FILE, CleanStop

_KAFKA_CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"


@dataclass(frozen=True, slots=True)
class Until:
    """A time, in us: the source has all that was written before it. An inexact one may be too late."""

    time: int
    is_exact: bool


def written_until(options: Options) -> Until | None:
    """Return until when the source has everything; None: it is not known. To be called before it is read.

    Raises OSError.
    """
    if options.path is None:
        return Until(time.time_ns() // 1000, is_exact=True)
    marker = options.path / CLEAN_SHUTDOWN_FILE
    stop = CleanStop.decode(read_or_nothing(OsFileSystem(), marker))
    if stop is not None and stop.stopped_at is not None:
        return Until(stop.stopped_at * 1000, is_exact=True)
    if stop is None:
        marker = options.path / _KAFKA_CLEAN_SHUTDOWN_FILE
    try:
        return Until(marker.stat().st_mtime_ns // 1000, is_exact=False)
    except FileNotFoundError:
        return None


def complete_until(folder: Folder, progress: Progress, until: Until | None) -> int | None:
    """Return until when the tables are complete after the source was landed; None: it is not known.

    What was complete before remains so. Raises OSError.
    """
    found = None if until is None else until.time if until.is_exact else _before(folder, progress, until.time)
    known = [each for each in (progress.landed_until, found) if each is not None]
    return max(known, default=None)


def _before(folder: Folder, progress: Progress, limit: int) -> int | None:
    """Return the time of the latest landed commit, not after a limit; None without one."""
    if tables.OFFSETS_CURRENT not in progress.tables:
        return None
    names = (tables.current_file(tables.OFFSETS_CURRENT, partition) for partition in progress.of_log())
    last = max((int((folder.footer(name).metadata or {})[LAST_TIME_KEY]) for name in names), default=-1)
    return None if last < 0 else min(last, limit)
