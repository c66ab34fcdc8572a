"""The log directories of one stopped Kafka broker.

A broker may have several (`log.dirs`); one of them has the metadata log. Kafka holds a POSIX lock on the file
`.lock` of each while it runs. After a crash the file is still there, and is locked here, so that Kafka cannot
start meanwhile. A clean stop removes it; a start meanwhile is noticed at the end. Nothing is changed.
"""

from __future__ import annotations

import base64
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headgate.domain.ids import TopicId
from headgate.takeover.cluster_metadata import METADATA_DIRECTORY
from headgate.takeover.errors import ImportRefused

IDENTITY_FILE: Final = "meta.properties"
LOCK_FILE: Final = ".lock"
_CLEAN_STOP_FILE: Final = ".kafka_cleanshutdown"
_PARTITION_FILE: Final = "partition.metadata"
HIGH_WATERMARKS_FILE: Final = "replication-offset-checkpoint"
_LOG_STARTS: Final = "log-start-offset-checkpoint"
_GREATEST_OFFSET: Final = (1 << 63) - 1

Offsets = Mapping[tuple[str, int], int]
"""An offset for each topic and partition."""


@dataclass(frozen=True, slots=True)
class KafkaDirectory:
    """One log directory, and what its small files say."""

    path: Path
    clean_stop_ns: int | None
    """When the broker wrote the mark of its clean stop, in ns; None without the mark."""
    had_lock: bool
    """Whether it has a lock file, which a clean stop removes."""
    high_watermarks: Offsets
    log_starts: Offsets

    @property
    def was_stopped_cleanly(self) -> bool:
        """Return whether the broker closed the logs of this directory."""
        return self.clean_stop_ns is not None


@dataclass(frozen=True, slots=True)
class KafkaBroker:
    """The log directories of a broker."""

    directories: Sequence[KafkaDirectory]
    cluster_id: str
    node_id: int
    metadata_directory: Path
    partitions: Mapping[tuple[str, int], KafkaDirectory] = field(repr=False)
    """Where the directory of each partition is."""

    @property
    def was_stopped_cleanly(self) -> bool:
        """Return whether the broker closed the logs of every directory."""
        return all(directory.was_stopped_cleanly for directory in self.directories)

    def check_still_stopped(self) -> None:
        """Raise ImportRefused if the broker was started since, also if it was stopped again.

        A start removes the mark of a clean stop, and the next clean stop writes a new one.
        """
        for directory in self.directories:
            was_stopped = _clean_stop_ns(directory.path) == directory.clean_stop_ns
            if not was_stopped or (directory.path / LOCK_FILE).exists() != directory.had_lock:
                raise ImportRefused(f"a Kafka broker was started on {directory.path} during the import")

    def topic_id_of(self, name: str, index: int) -> TopicId | None:
        """Return the topic id in a partition's directory; None without a readable one."""
        return _topic_id(self.partitions[name, index].path / f"{name}-{index}" / _PARTITION_FILE)


@contextmanager
def stopped_broker(paths: Sequence[Path]) -> Iterator[KafkaBroker]:
    """Read the directories of a broker, and keep it from starting within the `with` block.

    Raises ImportRefused for a broker that runs, and for directories that are not those of one broker;
    OSError.
    """
    paths = list(dict.fromkeys(path.resolve() for path in paths))
    with ExitStack() as stack:
        for path in paths:
            if not (path / IDENTITY_FILE).is_file():
                raise ImportRefused(
                    f"{path} is not a log directory of a Kafka broker: it has no {IDENTITY_FILE}; give a "
                    "directory of log.dirs of its server.properties"
                )
            _lock(path, stack)
        yield _read_broker(paths)


def _lock(path: Path, stack: ExitStack) -> None:
    """Hold a shared lock on Kafka's lock file: Kafka takes an exclusive one."""
    try:
        descriptor = os.open(path / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # a copy of a directory
    stack.callback(os.close, descriptor)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        raise ImportRefused(f"a Kafka broker runs on {path}; stop it first") from None


def _read_broker(paths: Sequence[Path]) -> KafkaBroker:
    identities = {path: _properties(path / IDENTITY_FILE) for path in paths}
    clusters = {identity.get("cluster.id", "") for identity in identities.values()}
    nodes = {identity.get("node.id", identity.get("broker.id", "")) for identity in identities.values()}
    if len(clusters) > 1 or len(nodes) > 1:
        raise ImportRefused("the directories are not those of one broker: cluster.id or node.id differ")
    cluster_id, node_id = clusters.pop(), nodes.pop()
    if not cluster_id or not node_id.isdecimal():
        raise ImportRefused(
            f"{paths[0] / IDENTITY_FILE} has no cluster.id or no node.id: it is not that of a Kafka broker; "
            "a data directory of Headgate is copied as a whole, without an import"
        )
    metadata = [path / METADATA_DIRECTORY for path in paths if (path / METADATA_DIRECTORY).is_dir()]
    if not metadata:
        raise ImportRefused(
            f"there is no {METADATA_DIRECTORY} in {', '.join(map(str, paths))}; give all of log.dirs, and "
            "metadata.log.dir if it is set. A broker that used ZooKeeper must be migrated to KRaft first"
        )
    directories = [_read_directory(path) for path in paths]
    return KafkaBroker(directories, cluster_id, int(node_id), metadata[0], _partitions(directories))


def _read_directory(path: Path) -> KafkaDirectory:
    return KafkaDirectory(
        path,
        _clean_stop_ns(path),
        (path / LOCK_FILE).exists(),
        _offsets(path / HIGH_WATERMARKS_FILE),
        _offsets(path / _LOG_STARTS),
    )


def _clean_stop_ns(path: Path) -> int | None:
    try:
        return (path / _CLEAN_STOP_FILE).stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _partitions(directories: Iterable[KafkaDirectory]) -> dict[tuple[str, int], KafkaDirectory]:
    found: dict[tuple[str, int], KafkaDirectory] = {}
    for directory in directories:
        for entry in directory.path.iterdir():
            topic, _, number = entry.name.rpartition("-")
            # Directories of deleted and moving partitions end in -delete, -stray and -future.
            if not topic or not number.isdecimal() or not entry.is_dir():
                continue
            place = (topic, int(number))
            if place in found:
                raise ImportRefused(
                    f"{entry.name} is in {found[place].path} and in {directory.path}: remove the one that "
                    "Kafka does not use"
                )
            found[place] = directory
    return found


def _properties(path: Path) -> dict[str, str]:
    """Return the pairs of a Java properties file without escapes."""
    lines = path.read_text(errors="replace").splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _offsets(path: Path) -> dict[tuple[str, int], int]:
    """Return the offsets in a checkpoint file of Kafka: a version, a count, `topic partition offset` lines.

    An empty file has none: Kafka creates it so, and fills it some time later. Raises ImportRefused for a file
    that is damaged.
    """
    try:
        text = path.read_text()
        if not text:
            return {}
        version, count, *lines = text.split("\n")
    except FileNotFoundError:
        return {}
    except ValueError:
        raise _damaged(path) from None
    try:
        rows = [line.split(" ") for line in lines if line]
        if int(version) != 0 or int(count) != len(rows):
            raise _damaged(path)
        offsets = {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except ValueError:
        raise _damaged(path) from None
    if not all(0 <= offset <= _GREATEST_OFFSET for offset in offsets.values()):
        raise _damaged(path)
    return offsets


def _damaged(path: Path) -> ImportRefused:
    return ImportRefused(f"{path} is damaged; start Kafka once and stop it, which writes the file again")


def _topic_id(path: Path) -> TopicId | None:
    """Return the topic id in a `partition.metadata`, where it is printed as base64; None without one."""
    try:
        pairs = dict(line.split(":", 1) for line in path.read_text().splitlines())
        return TopicId(base64.urlsafe_b64decode(pairs["topic_id"].strip() + "=="))
    except (OSError, ValueError, KeyError):
        return None
