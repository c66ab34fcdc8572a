"""The marker of a data directory into which an import is being written, or was when it was interrupted.

Such a directory is incomplete: a server does not start on it. The import can be repeated, and begins anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headgate.log.filesystem import FileSystem

UNFINISHED_IMPORT_FILE: Final = "import-unfinished"


def refuse_unfinished_import(files: FileSystem, data_dir: Path) -> None:
    """Raise OSError for a directory with an import that did not finish."""
    if files.exists(data_dir / UNFINISHED_IMPORT_FILE):
        raise OSError(
            f"{data_dir} has an import that did not finish; run `headgate import` again, or remove the "
            "directory"
        )
