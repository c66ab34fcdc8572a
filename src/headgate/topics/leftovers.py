"""The directories of deleted topics: put out of sight at once, and removed some at a time.

Until they are out of sight the topic's name cannot be used again; so a directory never belongs to another
topic than the one of its name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from pathlib import Path

from headgate.domain.ids import TopicName
from headgate.log.deletion import put_aside, remove_deleted
from headgate.log.filesystem import FileSystem
from headgate.topics.held_names import HeldNames
from headgate.topics.topic import Topic

logger = logging.getLogger(__name__)

_DIRECTORIES_AT_ONCE = 32
"""Of how many partitions of deleted topics the files are removed in one go."""


class Leftovers:
    """What is left of the topics of a node that are no more."""

    def __init__(
        self,
        fs: FileSystem,
        data_dir: Path,
        held_names: HeldNames,
        former_names: Callable[[], Collection[TopicName]],
    ) -> None:
        """`former_names` are those of the topics that the catalogue once knew: nothing else is removed."""
        self._fs = fs
        self._data_dir = data_dir
        self._held_names = held_names
        self._former_names = former_names
        self._blocked: dict[str, list[Path]] = {}
        """Directories in sight that are no topic's any more, by the topic's name."""
        self._being_read: list[Topic] = []
        """Deleted topics in whose directories other threads work; their names are held meanwhile."""
        self._has_files = False
        """Whether something out of sight may have to be removed."""

    def obstacle(self, name: str) -> Path | None:
        """The directory that keeps a topic of this name from being created; None if there is none."""
        directories = self._blocked.get(name)
        return directories[0] if directories else None

    def found(self, name: str, directory: Path) -> None:
        """A directory was there at the start that is no partition's of a topic."""
        self._blocked.setdefault(name, []).append(directory)

    def all_found(self) -> None:
        """The data directory was listed: remove what may be removed."""
        self._has_files = True
        self._remove_files()
        for name in list(self._blocked):
            self._put_aside(name)

    def remove(self, topic: Topic) -> None:
        """Remove what is left of a topic that was deleted."""
        directories = topic.give_up_partitions()
        if not directories:
            return
        self._blocked[topic.name] = directories
        if topic.is_being_read:
            # A thread writes there; under the new name it would find what is another topic's by then.
            self._being_read.append(topic)
            self._held_names.hold(topic.name)
        else:
            self._put_aside(topic.name)

    def remove_some(self) -> bool:
        """Remove some more directories; whether there are others left to go on with."""
        self._end_held()
        return self._remove_files() or bool(self._being_read)

    def try_again(self) -> None:
        """Remove what could not be removed before."""
        self._end_held()
        for name in self._blocked.keys() - {topic.name for topic in self._being_read}:
            self._put_aside(name)
        self._remove_files()

    def _end_held(self) -> None:
        """Put the directories of deleted topics out of sight in which no thread works any more."""
        for topic in [topic for topic in self._being_read if not topic.is_being_read]:
            self._being_read.remove(topic)
            self._put_aside(topic.name)
            self._held_names.release(topic.name)

    def _put_aside(self, name: str) -> None:
        """Put the directories of a deleted topic out of sight, for good; their files are removed after that.

        What the catalogue never knew is left alone, and its name with it.
        """
        if TopicName(name) not in self._former_names():
            logger.warning("%s is not a topic's and is left alone", self._blocked[name][0])
            return
        try:
            put_aside(self._fs, self._blocked[name])
            del self._blocked[name]
        except OSError as problem:
            logger.warning("cannot remove what is left of the deleted topic %s: %s", name, problem)
        self._has_files = True
        self._remove_files()

    def _remove_files(self) -> bool:
        """Remove some files; whether more can be removed now."""
        if self._has_files:
            try:
                removed = remove_deleted(self._fs, self._data_dir, _DIRECTORIES_AT_ONCE)
                self._has_files = len(removed) == _DIRECTORIES_AT_ONCE
            except OSError as problem:
                logger.warning("cannot remove the files of deleted topics: %s", problem)
                return False
        return self._has_files
