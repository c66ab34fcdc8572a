"""Output of rows as a table, JSON or CSV; messages on standard error.

A table is plain text in columns with headings, so that other programs can read it. A missing value is a dash
in a table, null in JSON and empty in CSV.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from headgate.admin.csv_rows import csv_writer

if TYPE_CHECKING:
    from rich.console import Console

Row = dict[str, Any]
"""The values of a row, by their names in JSON."""

Columns = Sequence[str]
"""The names of the values to print, in order. A heading is the name in capitals with dashes, or Kafka's."""

_WIDEST = 1 << 16
_HEADINGS = {"member_count": "#MEMBERS", "partition_count": "#PARTITIONS"}


def print_table(rows: Iterable[Row], columns: Columns, headings: Sequence[str] | None = None) -> None:
    """Print the rows as a table. `headings` replace those that the names of the columns make."""
    headings = headings or headings_of(columns)
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    widths = [max(map(_places, column)) for column in zip(headings, *cells, strict=True)]
    for number, line in enumerate([headings, *cells]):
        padded = (cell + " " * (width - _places(cell)) for cell, width in zip(line, widths, strict=True))
        text = " ".join(padded).rstrip()
        print(styled(text, bold=True) if number == 0 else text)


def headings_of(columns: Columns, **own: str) -> list[str]:
    """Return the headings of columns; `own` has those of one table alone, by the names of the values."""
    known = _HEADINGS | own
    return [known.get(column, column.upper().replace("_", "-")) for column in columns]


def print_csv(rows: Iterable[Row], columns: Columns, *, has_heading: bool = True) -> None:
    """Print the rows as CSV, with a heading unless it was printed before."""
    writer = csv_writer(sys.stdout)
    if has_heading:
        writer.writerow(columns)
    writer.writerows([_csv_cell(row[column]) for column in columns] for row in rows)


def print_json(document: Row) -> None:
    """Print one JSON object."""
    print(json.dumps(document, indent=2))


def print_json_line(document: Row) -> None:
    """Print one JSON object on one line, for a stream of them."""
    print(json.dumps(document))


def print_rows(rows: Sequence[Row], columns: Columns, name: str, output: str) -> None:
    """Print the rows in the format `output`: JSON under `name`, CSV, or a table if there are any."""
    if output == "json":
        print_json({name: rows})
    elif output == "csv":
        print_csv(rows, columns)
    elif rows:
        print_table(rows, columns)


def output_console() -> Console:
    """Return a console on standard output. In a pipe its lines have any length, so that no name is cut."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=_WIDEST)


def has_escapes() -> bool:
    """Tell whether standard output is a terminal that knows bold text and other escape sequences."""
    return sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def styled(text: str, **style: Any) -> str:
    """Return a text as `typer.style` makes it, bold or in a colour, if the terminal and NO_COLOR allow it."""
    return typer.style(text, **style) if has_escapes() and not os.environ.get("NO_COLOR") else text


def shell_word(text: str) -> str:
    """Return a text as one word of a command for the shell, also if it is not valid UTF-8."""
    if text.isprintable():
        return shlex.quote(text)
    escaped = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"\\'" else f"\\x{byte:02x}"
        for byte in os.fsencode(text)
    )
    return f"$'{escaped}'"


def say(problem: str) -> None:
    """Print a message on standard error."""
    typer.echo(f"headgate: {printable(problem)}", err=True)


def printable(text: str) -> str:
    """Escape control characters: clients choose names and reasons, which could change the terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]


def _places(text: str) -> int:
    """Return how many places of a terminal a text takes: wide letters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return printable(value if isinstance(value, str) else str(value))


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value
