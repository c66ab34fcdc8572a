"""Read the catalogue of a data directory without changing it, also while its server runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headgate.log.filesystem import MemoryFileSystem, write_fully
from headgate.log.log import Log, LogSettings, Recovery
from headgate.topics.catalogue import Catalogue
from headgate.topics.catalogue_opening import CATALOGUE_DIRECTORY


def read_catalogue(
    data_dir: Path, on_truncated: Callable[[Recovery], None] = lambda recovery: None
) -> Catalogue:
    """Return a copy in memory of the catalogue of a data directory.

    `on_truncated` is told of a change at its end that is not complete. Raises OSError (LogDamaged for a
    damaged log, FileNotFoundError without a catalogue), CatalogueCorrupt.
    """
    copy, directory = MemoryFileSystem(), Path("/catalogue")
    copy.make_directory(directory)
    for entry in sorted((data_dir / CATALOGUE_DIRECTORY).iterdir()):
        if entry.is_file():
            write_fully(copy.open(directory / entry.name, create=True), entry.read_bytes(), 0)
    settings = LogSettings(keeps_all=True)
    return Catalogue(Log.open(copy, directory, settings, clean=False, on_truncated=on_truncated))
