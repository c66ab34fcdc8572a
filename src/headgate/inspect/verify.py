"""The check of a whole data directory: the files of the node, the catalogue, all partitions."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headgate.domain.ids import TopicName
from headgate.inspect.directory import (
    IDENTITY_FILE,
    DataDirectory,
    read_data_directory,
)
from headgate.inspect.findings import Findings
from headgate.inspect.missing import missing_logs
from headgate.inspect.verify_log import LogCheck, LogToCheck
from headgate.inspect.wording import CUT_OFF
from headgate.log.filesystem import OsFileSystem
from headgate.log.segment_file import LOG_SUFFIX
from headgate.topics.catalogue import Catalogue
from headgate.topics.catalogue_opening import (
    CATALOGUE_DIRECTORY,
    KAFKA_METADATA_DIRECTORY,
    how_too_short,
    is_stray_log,
)
from headgate.topics.clean_stop import CLEAN_SHUTDOWN_FILE, CleanStop
from headgate.topics.unfinished_import import UNFINISHED_IMPORT_FILE

_RECHECKS = 3
_RECHECK_AFTER_S = 0.2
_NO_START = "The server does not start and changes nothing."
_NO_START_YET = (
    "The server does not start without its catalogue and changes nothing. "
    "Restore the catalogue, and check again."
)
_UNRECOVERED = re.compile(r"[0-9a-f]{32}-\d+\Z")


@dataclass(slots=True, frozen=True)
class Report:
    """The directory and its findings."""

    directory: DataDirectory
    findings: Findings


def size_to_check(path: Path) -> int:
    """Return the bytes of all segments, to which the time of a check is proportional. Raises OSError."""
    total = 0
    for directory in path.iterdir():
        if directory.is_dir():
            for file in directory.iterdir():
                if file.name.endswith(LOG_SUFFIX):
                    try:
                        total += file.stat().st_size
                    except FileNotFoundError:
                        continue
    return total


def verify(path: Path, on_progress: Callable[[int], None] = lambda size: None) -> Report:
    """Check everything in a data directory. `on_progress` is called with the number of bytes checked since.

    Raises NotADataDirectory, and OSError if the directory itself cannot be read.
    """
    directory = read_data_directory(path)
    findings = Findings()
    if directory.is_running:
        findings.note(
            ".",
            "a server is running on this directory",
            "Nothing; writes in progress can look incomplete.",
        )
    _check_node_files(directory, findings)
    _check_catalogue(directory, findings, on_progress)
    _check_directories(directory, findings)
    _check_written(directory, findings)
    epoch = directory.catalogue.leader_epoch if directory.catalogue is not None else None
    for place in directory.partitions:
        log = LogToCheck(
            place.directory,
            place.directory.name,
            place,
            directory.was_closed_well(place),
            epoch,
            directory.is_running,
        )
        found = Findings()
        _check_log(log, found, on_progress, is_running=directory.is_running)
        if directory.catalogue is None:
            found.without_start(_NO_START_YET)
        findings.merge(found)
        findings.checked.partitions += 1
    if directory.catalogue is not None:
        findings.checked.topics = len(directory.catalogue.topics)
    else:
        findings.checked.topics = len({place.topic for place in directory.partitions})
    findings.add_step({one.file for one in findings.listed if _is_empty(path / one.file)}, CUT_OFF)
    return Report(directory, findings)


def _is_empty(path: Path) -> bool:
    try:
        return path.is_file() and not path.stat().st_size
    except OSError:
        return False


def _check_log(
    log: LogToCheck, findings: Findings, on_progress: Callable[[int], None], *, is_running: bool
) -> None:
    """Check one log. If a server is running, repeat a check with errors, because the files can change."""
    found = _check_log_once(log, on_progress)
    for _ in range(_RECHECKS if is_running else 0):
        if not found.errors:
            break
        time.sleep(_RECHECK_AFTER_S)
        found = _check_log_once(log, lambda size: None)
    findings.merge(found)


def _check_log_once(log: LogToCheck, on_progress: Callable[[int], None]) -> Findings:
    findings = Findings()
    try:
        LogCheck(log, findings, on_progress).run()
    except FileNotFoundError:
        findings.note(log.name, "the directory was removed meanwhile", "Nothing: the topic was deleted.")
    except OSError as problem:
        findings.error(log.name, f"it cannot be read: {problem}", _while_unreadable(log))
    return findings


def _while_unreadable(log: LogToCheck) -> str:
    """Return the consequence and the advice for a log with unreadable files."""
    if log.place is None:
        return f"{_NO_START} Check the permissions, and the disk."
    return (
        "The server does not open this log and does not change it, as long as that is so. Check the "
        "permissions, and the disk."
    )


def _check_catalogue(
    directory: DataDirectory, findings: Findings, on_progress: Callable[[int], None]
) -> None:
    path = directory.path / CATALOGUE_DIRECTORY
    if not path.is_dir() and (directory.path / KAFKA_METADATA_DIRECTORY).is_dir():
        findings.error(
            KAFKA_METADATA_DIRECTORY,
            "this is a directory of Apache Kafka",
            f"{_NO_START} `headgate import --from-kafka-log {directory.path} --data-dir NEW` takes it over.",
        )
        return
    if not path.is_dir():
        findings.error(
            CATALOGUE_DIRECTORY,
            "there is no catalogue: the topics' ids and settings are unknown",
            f"{_NO_START} Restore the data directory from a backup.",
        )
        return
    if directory.catalogue_problem is not None:
        findings.error(
            CATALOGUE_DIRECTORY,
            f"the catalogue cannot be read: {directory.catalogue_problem}",
            "The server does not start with it. Restore it from a backup.",
        )
    was_closed_well = directory.unrecovered is not None
    log = LogToCheck(path, CATALOGUE_DIRECTORY, None, was_closed_well, 0, directory.is_running)
    _check_log(log, findings, on_progress, is_running=directory.is_running)
    if too_short := _how_too_short(directory):
        findings.error(
            CATALOGUE_DIRECTORY, too_short, f"{_NO_START} Restore the directory from a copy of this stop."
        )
    elif _is_new(directory):
        findings.note(
            CATALOGUE_DIRECTORY, "the first start was interrupted", "Nothing: the next start repeats it."
        )
    elif directory.catalogue is not None and not directory.catalogue.end_offset:
        findings.error(
            CATALOGUE_DIRECTORY,
            "the catalogue is empty",
            "Restore it from a backup, unless the server was never started here.",
        )


def _how_too_short(directory: DataDirectory) -> str | None:
    stop = CleanStop.decode(directory.marker or b"")
    if stop is None or directory.catalogue is None:
        return None
    return how_too_short(directory.catalogue, stop.catalogue_end)


def _is_new(directory: DataDirectory) -> bool:
    """Tell whether the first start was interrupted before anything was stored in the directory."""
    return (
        directory.catalogue is not None
        and not directory.catalogue.end_offset
        and not (directory.path / IDENTITY_FILE).exists()
        and not directory.partitions
        and not directory.orphans
    )


def _check_directories(directory: DataDirectory, findings: Findings) -> None:
    former = directory.catalogue.former_names if directory.catalogue is not None else set()
    for name in directory.orphans:
        if name.rpartition("-")[0] in former:
            findings.note(name, "remainder of a deleted topic", "Nothing: the next start removes it.")
        else:
            findings.error(
                name, "the catalogue does not have this partition", _of_unknown_partition(directory, name)
            )
    for name in directory.deleted:
        findings.note(name, "remainder of a deleted topic", "Nothing: the next start removes it.")
    for name in directory.other_names:
        if name == UNFINISHED_IMPORT_FILE:
            findings.error(
                name,
                "an import into this directory did not finish",
                f"{_NO_START} Run `headgate import` again, or remove the directory.",
            )
        elif _is_in_the_way(directory, name):
            is_link = (directory.path / name).is_symlink()
            findings.error(
                name,
                f"a {'link to nothing' if is_link else 'file'} with the name of a partition's directory",
                "The server does not open this log and changes nothing. "
                "Restore the data directory from a backup.",
            )
        elif _is_unknown_link(directory, name):
            findings.error(
                name,
                "a link to nothing with the name of a partition that the catalogue does not have",
                _of_unknown_partition(directory, name),
            )
        elif name.endswith(".tmp"):
            findings.note(name, "a temporary file of an interrupted write", "Nothing: it is overwritten.")
        else:
            findings.note(name, "not a file of a server", "Check what it is: the server ignores it.")


def _of_unknown_partition(directory: DataDirectory, name: str) -> str:
    """Return what a start does with a directory of an unknown partition, and what to do."""
    catalogue = directory.catalogue
    if catalogue is None or not catalogue.end_offset or _how_too_short(directory):
        return _NO_START_YET  # It is the catalogue that lacks something.
    effect = _NO_START if _is_refused(directory, catalogue, name) else "The server ignores it."
    return f"{effect} Move it away, or restore the catalogue from a backup if the topic should exist."


def _check_written(directory: DataDirectory, findings: Findings) -> None:
    """Report partitions that had a directory at the last clean stop and have none, or an empty one, now."""
    for name, what in missing_logs(directory):
        step = "The next start begins its log anew at offset 0. Restore the data directory from a backup."
        findings.error(name, what, step)


def _is_in_the_way(directory: DataDirectory, name: str) -> bool:
    topic, _, index = name.rpartition("-")
    entry = directory.catalogue.topics.get(TopicName(topic)) if directory.catalogue is not None else None
    return entry is not None and index.isdecimal() and int(index) < entry.partition_count


def _is_unknown_link(directory: DataDirectory, name: str) -> bool:
    """Return whether a name is that of a link to nothing that keeps a server from starting."""
    catalogue = directory.catalogue
    if catalogue is None or not (directory.path / name).is_symlink():
        return False
    return _is_refused(directory, catalogue, name)


def _is_refused(directory: DataDirectory, catalogue: Catalogue, name: str) -> bool:
    """Return whether a start is refused because of the log of a partition that no catalogue has."""
    try:
        return is_stray_log(OsFileSystem(), directory.path, catalogue, name)
    except OSError:  # A start cannot read it either.
        return True


def _check_node_files(directory: DataDirectory, findings: Findings) -> None:
    if directory.catalogue is None and directory.catalogue_problem is None:
        return  # The directory is Kafka's, and so are these files.
    _check_identity(directory, findings)
    if directory.marker_problem is not None:
        findings.error(
            CLEAN_SHUTDOWN_FILE,
            f"it cannot be read: {directory.marker_problem}",
            f"{_NO_START} Check the permissions, and the disk.",
        )
        return
    if directory.marker is None:
        if not directory.is_running:
            findings.note(
                CLEAN_SHUTDOWN_FILE,
                "the server did not stop cleanly",
                "Nothing: the next start recovers every log from its recovery point on.",
            )
        return
    why = _why_no_marker(directory)
    if why is not None:
        findings.error(CLEAN_SHUTDOWN_FILE, why, "The next start ignores it and recovers every log.")


def _check_identity(directory: DataDirectory, findings: Findings) -> None:
    if _is_new(directory):
        return
    known = directory.catalogue.cluster_id if directory.catalogue is not None else None
    try:
        found = directory.cluster_id
    except OSError as problem:
        findings.error(
            IDENTITY_FILE,
            f"it cannot be read: {problem.strerror}",
            f"{_NO_START} Check the permissions, and the disk.",
        )
        return
    if not (directory.path / IDENTITY_FILE).exists():
        if known is not None:
            findings.note(
                IDENTITY_FILE,
                "the cluster id is missing",
                "Nothing: the next start writes the file again from the catalogue.",
            )
        else:
            findings.error(
                IDENTITY_FILE,
                "the cluster id is missing",
                f"{_NO_START} Restore the data directory from a backup.",
            )
    elif not _is_id(found) or (known is not None and found != known):
        what = f"it has {found}, the catalogue {known}" if _is_id(found) else "it has no valid cluster id"
        remedy = "." if known is None else ", or remove it: the next start writes it from the catalogue."
        findings.error(
            IDENTITY_FILE,
            what,
            f"{_NO_START} Restore the data directory from a backup{remedy}",
        )


def _is_id(cluster_id: str | None) -> bool:
    if cluster_id is None:
        return False
    try:
        return len(base64.b64decode(cluster_id + "==", altchars=b"-_", validate=True)) == 16
    except ValueError:
        return False


def _why_no_marker(directory: DataDirectory) -> str | None:
    stop = CleanStop.decode(directory.marker or b"")
    if stop is None:
        return "it does not have the content that a clean stop writes"
    for name in stop.unrecovered:
        if _UNRECOVERED.match(name) is None:
            return f"it names {name}, which is not a partition"
    return None
