"""The partitions whose logs were there at the last clean stop, and are gone."""

from __future__ import annotations

import os
from collections.abc import Iterator

from headgate.domain.ids import TopicId
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
