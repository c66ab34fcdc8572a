"""Open the catalogue of a data directory; refuse one that is damaged or an outdated copy."""

from __future__ import annotations

import errno
import logging
import re
from pathlib import Path

from headgate.domain.ids import TopicName
from headgate.log.damage import LogDamaged
from headgate.log.filesystem import FileSystem
from headgate.log.log import Log, LogSettings, Recovery
from headgate.log.segment_file import LOG_SUFFIX
from headgate.topics import catalogue as events
from headgate.topics.catalogue import RESTORE, Catalogue, CatalogueCorrupt

logger = logging.getLogger(__name__)

CATALOGUE_DIRECTORY = "catalogue"
KAFKA_METADATA_DIRECTORY = "__cluster_metadata-0"
"""Where Kafka has its own catalogue."""
PARTITION_DIRECTORY = re.compile(r"(.+)-(0|[1-9]\d*)\Z")


def open_catalogue(fs: FileSystem, data_dir: Path, least_end_offset: int) -> Catalogue:
    """Open the catalogue; create it if the data directory is new. Raises OSError, CatalogueCorrupt.

    `least_end_offset` is the end offset that the last clean stop recorded; 0 if there is none.
    """
    directory = data_dir / CATALOGUE_DIRECTORY
    names = fs.listdir(data_dir)
    if CATALOGUE_DIRECTORY not in names:
        if KAFKA_METADATA_DIRECTORY in names:
            raise CatalogueCorrupt(
                "this is a directory of Apache Kafka. Nothing was changed. `headgate import --from-kafka-log "
                f"{data_dir} --data-dir NEW` takes it over"
            )
        partitions = sorted(name for name in names if _holds_log(fs, data_dir, name))
        if partitions or least_end_offset:
            found = f"{partitions[0]} is there" if partitions else "there was one when the server stopped"
            raise CatalogueCorrupt(f"there is no catalogue, and {found}. {RESTORE}")
        fs.make_directory(directory)
        fs.sync_directory(data_dir)
    settings = LogSettings(segment_bytes=events.SEGMENT_BYTES, keeps_all=True)
    try:
        log = Log.open(fs, directory, settings, clean=False, on_truncated=_log_lost_changes)
    except LogDamaged as problem:
        raise CatalogueCorrupt(f"the catalogue is damaged: {problem.strerror}. {RESTORE}") from None
    catalogue = Catalogue(log)
    if too_short := how_too_short(catalogue, least_end_offset):
        raise CatalogueCorrupt(f"{too_short}. {RESTORE}")
    for name in names:
        if not is_stray_log(fs, data_dir, catalogue, name):
            continue
        if not catalogue.end_offset:
            raise CatalogueCorrupt(f"the catalogue is empty, and {name} holds a log. {RESTORE}")
        raise CatalogueCorrupt(
            f"{name} holds a log, and the catalogue knows no such partition: it is an old copy, "
            f"or somebody put the directory there. Move it away if it does not belong there. {RESTORE}"
        )
    return catalogue


def how_too_short(catalogue: Catalogue, least_end_offset: int) -> str | None:
    """Return what is wrong with a catalogue that is shorter than at the last clean stop; None if it is not.

    The server does not start with such a catalogue.
    """
    if catalogue.end_offset >= least_end_offset:
        return None
    why = "it is an old copy" if catalogue.end_offset else "it was emptied"
    return (
        f"the catalogue ends at {catalogue.end_offset}, it ended at {least_end_offset} when the server "
        f"stopped: {why}"
    )


def is_stray_log(fs: FileSystem, data_dir: Path, catalogue: Catalogue, name: str) -> bool:
    """Return whether a directory holds the log of a partition that the catalogue does not know.

    The server does not start with it. Raises OSError if the directory cannot be read.
    """
    return not _is_accounted_for(catalogue, name) and _holds_log(fs, data_dir, name)


def _is_accounted_for(catalogue: Catalogue, name: str) -> bool:
    """Return whether a directory belongs to a current or former topic, or is no partition's directory."""
    match = PARTITION_DIRECTORY.match(name)
    if match is None:
        return True
    topic = catalogue.topics.get(TopicName(match[1]))
    if topic is None:
        return match[1] in catalogue.former_names
    return int(match[2]) < topic.partition_count


def _holds_log(fs: FileSystem, data_dir: Path, name: str) -> bool:
    """Return whether a name is that of a partition's directory with a segment in it. Raises OSError."""
    if PARTITION_DIRECTORY.match(name) is None:
        return False
    path = data_dir / name
    try:
        return any(one.endswith(LOG_SUFFIX) for one in fs.listdir(path))
    except NotADirectoryError:
        return False
    except FileNotFoundError:
        why = "a link to nothing, and no catalogue has this partition: mount its disk, or move the link away"
        raise FileNotFoundError(errno.ENOENT, why, str(path)) from None


def _log_lost_changes(recovery: Recovery) -> None:
    """Log the bytes that recovery dropped: a change torn by a power failure, or damage."""
    logger.error(
        "end of the catalogue dropped in recovery",
        extra={"bytes": recovery.dropped_bytes, "reason": recovery.reason},
    )
