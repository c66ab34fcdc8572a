"""Partitions that are not there: gone since the last clean stop, or never created."""

from __future__ import annotations

import os
from collections.abc import Iterator

from headgate.domain.ids import TopicId, TopicName
from headgate.domain.wording import counted
from headgate.inspect.directory import DataDirectory
from headgate.topics.clean_stop import CleanStop, indexes_in


def missing_logs(directory: DataDirectory) -> Iterator[tuple[str, str]]:
    """Yield the directories of partitions that are missing or empty, each with what is wrong."""
    stop = CleanStop.decode(directory.marker or b"")
    if stop is None or directory.catalogue is None:
        return
    for topic_id, ranges in stop.written.items():
        entry = directory.catalogue.by_id.get(TopicId(bytes.fromhex(topic_id)))
        if entry is None:
            continue
        for index in indexes_in(ranges):
            name = f"{entry.name}-{index}"
            if index >= entry.partition_count:
                continue
            path = directory.path / name
            if not os.path.lexists(path):
                yield name, "the directory of this partition is missing: it was there when the server stopped"
            elif path.is_dir() and os.access(path, os.R_OK) and not any(path.iterdir()):
                yield name, "the directory of this partition is empty"


def beyond_its_topic(directory: DataDirectory, name: str) -> str | None:
    """Return what a topic has, if a partition's name has a number that is too large for it."""
    topic, _, index = name.rpartition("-")
    entry = directory.catalogue.topics.get(TopicName(topic)) if directory.catalogue is not None else None
    if entry is None or not index.isdecimal() or int(index) < entry.partition_count:
        return None
    return f"{topic} has {counted(entry.partition_count, 'partition')}, numbered from 0"
