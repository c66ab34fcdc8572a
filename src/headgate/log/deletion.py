"""Remove a partition's directory so that a crash never leaves a part of it under its name."""

from __future__ import annotations

import re
from collections import deque
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from headgate.log.filesystem import FileSystem

DELETED_SUFFIX: Final = ".delete"
LONGEST_NAME: Final = 255
"""Maximum length of a file name in bytes; names of partitions are ASCII."""
_OURS: Final = re.compile(r".+-\d+\Z")
_CUT: Final = re.compile(r".+\.[0-9a-f]{16}\Z")


def is_out_of_sight(name: str) -> bool:
    """Return whether a directory name is that of a deleted partition; other names may end the same way."""
    stem = name.removesuffix(DELETED_SUFFIX)
    if stem == name:
        return False
    return _OURS.match(stem) is not None or (len(name) == LONGEST_NAME and _CUT.match(stem) is not None)


def put_aside(files: FileSystem, directories: Sequence[Path]) -> None:
    """Rename directories of one parent to names of deleted ones, durably, with one sync; `remove_deleted`
    removes them. A link to a disk that is not mounted is renamed, too: a later directory of the old name must
    not be the one on that disk.

    Raises OSError: some may be renamed then, and another call renames the rest.
    """
    for directory in directories:
        if files.is_taken(directory):
            files.rename(directory, _free_name(files, directory))
    if directories:
        files.sync_directory(directories[0].parent)


def removing_deleted(files: FileSystem, data_directory: Path) -> Iterator[None]:
    """Remove the directories of deleted partitions; yield after each file and each directory.

    Raises the first OSError after all others were removed.
    """
    problem: OSError | None = None
    for name in files.listdir(data_directory):
        if is_out_of_sight(name):
            try:
                yield from _removing_tree(files, data_directory / name)
            except OSError as error:
                problem = problem or error
    if problem is not None:
        raise problem


def remove_deleted(files: FileSystem, data_directory: Path) -> None:
    """Do the same without a pause."""
    deque(removing_deleted(files, data_directory), 0)


def _free_name(files: FileSystem, directory: Path) -> Path:
    """Return a name of a deleted directory that is not taken by one whose removal is not finished."""
    doomed = _out_of_sight(directory)
    for number in count(1):
        if not files.is_taken(doomed):
            break
        doomed = _out_of_sight(directory.with_name(f"{directory.name}{DELETED_SUFFIX}-{number}"))
    return doomed


def _out_of_sight(directory: Path) -> Path:
    """Return the name of a deleted directory; a long name is cut and made unique by a digest."""
    name = directory.name
    if len(name) + len(DELETED_SUFFIX) > LONGEST_NAME:
        digest = blake2b(name.encode(), digest_size=8).hexdigest()
        name = f"{name[: LONGEST_NAME - len(DELETED_SUFFIX) - len(digest) - 1]}.{digest}"
    return directory.with_name(name + DELETED_SUFFIX)


def _removing_tree(files: FileSystem, directory: Path) -> Iterator[None]:
    if files.exists(directory):
        for name in files.listdir(directory):
            files.remove(directory / name)
            yield
        files.remove_directory(directory)
        yield
