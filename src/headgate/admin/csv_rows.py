"""CSV that reads back as it was written, whatever the names in it."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _csv import Writer


def csv_writer(file: TextIO) -> Writer:
    """Return a writer of CSV whose lines end with a line feed.

    It also quotes names with a carriage return: without quotes every reader takes that for the end of a line,
    and the rest of the name for another name.
    """
    return csv.writer(_Lines(file), lineterminator="\r\n")


class _Lines:
    """Ends the lines of a writer with a line feed; the writer quotes what its own line ends contain."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> int:
        """Write one line, which the writer passes whole."""
        return self._file.write(line.removesuffix("\r\n") + "\n")
