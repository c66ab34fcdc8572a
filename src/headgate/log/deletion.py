"""Removing a partition's directory so that a crash never leaves half of one in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headgate.log.filesystem import FileSystem

DELETED_SUFFIX: Final = ".delete"


def delete_directory(files: FileSystem, directory: Path) -> None:
    """Remove a partition's directory: in one step out of sight, then file by file. Raises OSError."""
    if not files.exists(directory):
        return
    doomed = directory.with_name(directory.name + DELETED_SUFFIX)
    _remove_tree(files, doomed)
    files.rename(directory, doomed)
    files.sync_directory(directory.parent)
    _remove_tree(files, doomed)


def put_aside(files: FileSystem, directories: Sequence[Path]) -> None:
    """Put directories beside each other out of sight, for good, with one sync; `remove_deleted` removes them.

    Raises OSError: some may be out of sight then, and asking again does the rest.
    """
    for directory in directories:
        if files.exists(directory):
            doomed = directory.with_name(directory.name + DELETED_SUFFIX)
            _remove_tree(files, doomed)
            files.rename(directory, doomed)
    if directories:
        files.sync_directory(directories[0].parent)


def remove_deleted(files: FileSystem, data_directory: Path, at_most: int | None = None) -> list[str]:
    """Finish deletions, that of `at_most` directories; the names of those that went. Raises OSError."""
    names = [name for name in files.listdir(data_directory) if name.endswith(DELETED_SUFFIX)][:at_most]
    for name in names:
        _remove_tree(files, data_directory / name)
    return names


def _remove_tree(files: FileSystem, directory: Path) -> None:
    if files.exists(directory):
        for name in files.listdir(directory):
            files.remove(directory / name)
        files.remove_directory(directory)
