"""The directories of deleted topics: renamed at once, and removed some at a time.

Until they are renamed the topic's name cannot be reused, so a directory never belongs to another topic than
the one of its name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path

from headgate.domain.ids import TopicName
from headgate.log.deletion import put_aside, removing_deleted
from headgate.log.filesystem import FileSystem
from headgate.topics.held_names import HeldNames
from headgate.topics.topic import Topic

logger = logging.getLogger(__name__)

_FILES_AT_ONCE = 32
"""Number of files of deleted topics that one call removes: each takes 0.1 ms, and 100 times as long on a busy
disk.
"""


class Leftovers:
    """The remaining directories of a node's deleted topics."""

    def __init__(
        self,
        fs: FileSystem,
        data_dir: Path,
        held_names: HeldNames,
        former_names: Callable[[], Collection[TopicName]],
    ) -> None:
        """`former_names` returns the names of deleted topics: no other directories are removed."""
        self._fs = fs
        self._data_dir = data_dir
        self._held_names = held_names
        self._former_names = former_names
        self._blocked: dict[str, list[Path]] = {}
        """Directories that belong to no topic and still have a partition's name, by topic name."""
        self._being_read: list[Topic] = []
        """Deleted topics in whose directories other threads still work; their names are held meanwhile."""
        self._has_files = False
        """Whether there may be renamed directories to remove."""
        self._removal: Iterator[None] | None = None
        """The removal of the renamed directories that were there when it began."""
        self._has_new = False
        """Whether directories were renamed after that."""

    def obstacle(self, name: str) -> Path | None:
        """Return the directory that blocks the creation of a topic of this name; None if there is none."""
        directories = self._blocked.get(name)
        return directories[0] if directories else None

    def found(self, name: str, directory: Path) -> None:
        """Note a directory, found at start, that has a partition's name but belongs to no topic."""
        self._blocked.setdefault(name, []).append(directory)

    def all_found(self) -> None:
        """Remove what may be removed, after the data directory was listed."""
        self._has_files = True
        self._remove_files()
        for name in list(self._blocked):
            self._put_aside(name)

    def remove(self, topic: Topic) -> None:
        """Remove the directories of a deleted topic."""
        directories = topic.give_up_partitions()
        if not directories:
            return
        self._blocked[topic.name] = directories
        if topic.is_being_read:
            # A thread still writes there; in a renamed path it could reach another topic's directory.
            self._being_read.append(topic)
            self._held_names.hold(topic.name)
        else:
            self._put_aside(topic.name)

    def remove_some(self) -> bool:
        """Remove some more directories. Return whether there are more to remove."""
        self._end_held()
        return self._remove_files() or bool(self._being_read)

    def try_again(self) -> None:
        """Try again to remove directories whose removal failed."""
        self._end_held()
        for name in self._blocked.keys() - {topic.name for topic in self._being_read}:
            self._put_aside(name)
        self._remove_files()

    def _end_held(self) -> None:
        """Rename the directories of deleted topics whose threads have ended."""
        for topic in [topic for topic in self._being_read if not topic.is_being_read]:
            self._being_read.remove(topic)
            self._put_aside(topic.name)
            self._held_names.release(topic.name)

    def _put_aside(self, name: str) -> None:
        """Rename the directories of a deleted topic durably; their files are removed after that.

        A directory whose topic the catalogue never knew is kept, and blocks its name.
        """
        if TopicName(name) not in self._former_names():
            logger.warning(
                "a directory belongs to no known topic and was not removed",
                extra={"path": self._blocked[name][0]},
            )
            return
        try:
            put_aside(self._fs, self._blocked[name])
            del self._blocked[name]
        except OSError as problem:
            logger.warning(
                "the directories of a deleted topic cannot be removed",
                extra={"topic": name, "error": problem},
            )
        # A removal that has begun knows the directories that it has listed: they are listed anew after it.
        self._has_files, self._has_new = True, self._removal is not None
        self._remove_files()

    def _remove_files(self) -> bool:
        """Remove some files. Return whether more can be removed now."""
        if self._has_files:
            if self._removal is None:
                self._removal, self._has_new = removing_deleted(self._fs, self._data_dir), False
            try:
                is_over = sum(1 for _ in islice(self._removal, _FILES_AT_ONCE)) < _FILES_AT_ONCE
            except OSError as problem:
                logger.warning("the files of deleted topics cannot be removed", extra={"error": problem})
                self._removal = None
                return False
            if is_over:
                self._removal, self._has_files = None, self._has_new
        return self._has_files
