"""Mend the logs of a stopped server's partitions: what cannot be read becomes batches without records.

This is the only part of the room that changes a directory, and only with `execute`. Else each log is read on
an `Overlay`, which keeps the changes of an unfinished compaction in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from headgate.domain.wording import did_you_mean
from headgate.inspect.directory import LOCK_FILE, DataDirectory, PartitionPlace, read_data_directory
from headgate.inspect.missing import beyond_its_topic, missing_logs
from headgate.inspect.next_start import next_start, settings_of
from headgate.inspect.overlay import Overlay
from headgate.inspect.partition import read_leader_epochs
from headgate.inspect.reading import read_start
from headgate.log.filesystem import FileSystem, OsFileSystem
from headgate.log.filling import Loss
from headgate.log.known_log import KnownLog
from headgate.log.losses import find_losses
from headgate.log.mending import mend
from headgate.log.segment_file import LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from headgate.log.transaction_index import AbortedTransactions
from headgate.topics.leader_epochs import LeaderEpochs
from headgate.topics.partition_files import LEADER_EPOCHS_FILE, PRODUCERS_FILE, save_leader_epochs
from headgate.topics.snapshot import Snapshot


class NotMended(Exception):
    """Nothing can be mended in this directory. The message says why."""


@dataclass(slots=True, frozen=True)
class MendedLog:
    """One log with losses, or one that cannot be mended."""

    partition: str
    losses: list[Loss]
    problem: str | None
    """Why it is not mended, or, if it is, why the next start does not open it nevertheless."""
    is_mended: bool = False


def mend_directory(
    path: Path,
    partition: str | None,
    *,
    execute: bool,
    on_progress: Callable[[int], None] = lambda size: None,
) -> list[MendedLog]:
    """Find the losses of all partitions, or of one such as `orders-0`; with `execute` mend them.

    Raises NotADataDirectory, NotMended, OSError.
    """
    directory = read_data_directory(path)
    if directory.catalogue is None:
        why = directory.catalogue_problem or "there is none"
        raise NotMended(f"{path}: the catalogue cannot be read ({why}); restore the directory from a copy")
    places = [one for one in directory.partitions if partition in (None, one.directory.name)]
    if partition is not None and not places:
        hint = beyond_its_topic(directory, partition)
        hint = hint or did_you_mean(partition, (one.directory.name for one in directory.partitions))
        hint = hint or "a partition is named like orders-0"
        raise NotMended(f"{path} has no log {partition}; {hint}")
    with _locked(path, directory, execute=execute):
        logs = [_mend_log(directory, place, on_progress, execute=execute) for place in places]
    gone = [MendedLog(name, [], what) for name, what in missing_logs(directory) if partition in (None, name)]
    return [one for one in logs if one.losses or one.problem is not None] + gone


@contextmanager
def _locked(path: Path, directory: DataDirectory, *, execute: bool) -> Iterator[None]:
    in_use = f"{path} is in use by a server: stop it first"
    if directory.is_running:
        raise NotMended(in_use)
    if not execute:
        yield
        return
    try:
        lock = OsFileSystem().lock(path / LOCK_FILE)
    except BlockingIOError:
        raise NotMended(in_use) from None
    try:
        yield
    finally:
        lock.release()


def _mend_log(
    directory: DataDirectory, place: PartitionPlace, on_progress: Callable[[int], None], *, execute: bool
) -> MendedLog:
    name, clean = place.directory.name, directory.was_closed_well(place)
    settings = settings_of(place)
    overlay = Overlay()
    files: FileSystem = OsFileSystem() if execute else overlay
    losses: list[Loss] = []
    try:
        known = _known_of(directory, place)
        with _same_owner(place.directory) if execute else nullcontext():
            found = find_losses(files, place.directory, clean=clean, known=known, on_progress=on_progress)
            losses = found.places
            if found.epochs is not None:
                what = "it contradicts the batches, or is missing, and is written anew"
                losses = [*losses, Loss(LEADER_EPOCHS_FILE, 0, 0, 0, 0, what)]
            if execute and losses:
                mend(files, place.directory, found, settings.index_interval_bytes)
                if found.epochs is not None:
                    save_leader_epochs(files, place.directory, _epochs_of(found.epochs))
    except OSError as problem:
        where = Path(problem.filename).name if problem.filename else name
        return MendedLog(name, losses, f"{'' if where == name else where + ': '}{problem.strerror}")
    finally:
        overlay.close()
    if not execute:
        return MendedLog(name, losses, None)
    refusal = next_start(place.directory, settings, clean=clean).refusal
    return MendedLog(name, losses, refusal, is_mended=bool(losses))


@contextmanager
def _same_owner(directory: Path) -> Iterator[None]:
    """Give new files the owner and the mode of those that they replace, or of the log's others.

    An operator is another user than the server.
    """
    before = {path.name: path.stat() for path in directory.iterdir()}
    segment = next((status for name, status in before.items() if name.endswith(LOG_SUFFIX)), None)
    try:
        yield
    finally:
        of_directory = directory.stat()
        for path in directory.iterdir():
            old = before.get(path.name)
            wanted = old or of_directory
            found = path.stat()
            if (found.st_uid, found.st_gid) != (wanted.st_uid, wanted.st_gid):
                os.chown(path, wanted.st_uid, wanted.st_gid)
            mode = (old or segment or found).st_mode
            if path.is_file() and found.st_mode != mode:
                path.chmod(mode & 0o7777)


def _known_of(directory: DataDirectory, place: PartitionPlace) -> KnownLog:
    read, is_there = read_leader_epochs(place.directory)
    starts = read.starts() if read is not None and is_there else ()
    misses_epochs = read is None or not is_there
    newest = directory.catalogue.leader_epoch if directory.catalogue is not None else None
    try:
        snapshot = Snapshot.decode(read_start(place.directory / PRODUCERS_FILE))
    except FileNotFoundError:
        snapshot = None
    if snapshot is None:
        return KnownLog(starts, newest, misses_epochs=misses_epochs)
    end_offset, is_complete = snapshot.end_offset, _has_aborted(place.directory, snapshot)
    transactions_to = end_offset if is_complete else 0
    return KnownLog(starts, newest, end_offset, transactions_to, misses_epochs)


def _epochs_of(starts: list[tuple[int, int]]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, start in starts:
        epochs.begin(epoch, start)
    return epochs


def _has_aborted(directory: Path, snapshot: Snapshot) -> bool:
    """Return whether the .txnindex files have all transactions that were aborted before a snapshot."""
    for base_offset, indexed in snapshot.segments.items():
        path = directory / f"{base_offset:020d}{TRANSACTION_INDEX_SUFFIX}"
        if not path.exists() and not path.with_suffix(LOG_SUFFIX).exists():
            continue  # deleted since
        if AbortedTransactions.load(OsFileSystem(), path, *indexed) is None:
            return False
    return True
