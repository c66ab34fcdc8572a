"""Functions that damage a data directory."""

from __future__ import annotations

from pathlib import Path

from tests.inspect.support import FLIGHTS

from headgate.log.filesystem import OsFileSystem
from headgate.log.walking import walk_batches

FIRST, MIDDLE, LAST = (f"{FLIGHTS}/{base:020d}.log" for base in (0, 99, 195))
CATALOGUE = f"catalogue/{0:020d}.log"

FIELDS = {
    "base offset": 7,
    "length": 10,
    "leader epoch": 15,
    "magic": 16,
    "crc": 18,
    "attributes": 22,
    "last offset delta": 26,
    "base timestamp": 30,
    "max timestamp": 40,
    "producer id": 50,
    "producer epoch": 52,
    "base sequence": 56,
    "record count": 60,
    "records": 70,
}
"""The position of a byte of each field of a batch."""


def flip(path: Path, at: int, mask: int = 0x01) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


def batch_positions(path: Path) -> list[int]:
    """Return the positions of the batches in a segment."""
    file = OsFileSystem().open(path)
    try:
        return [position for position, _, _ in walk_batches(file, 0, file.size())]
    finally:
        file.close()


def crash(data_dir: Path) -> None:
    """Remove the marker of the clean stop."""
    (data_dir / "clean-shutdown").unlink()


def append(path: Path, *batches: bytearray, epoch: int = 0) -> None:
    """Append batches to a segment, and remove its indexes, which do not have them."""
    file = OsFileSystem().open(path)
    end = [header.next_offset for _, header, _ in walk_batches(file, 0, file.size())][-1]
    file.close()
    for batch in batches:
        batch[:8] = end.to_bytes(8, "big")
        batch[12:16] = epoch.to_bytes(4, "big")
        end += int.from_bytes(batch[23:27], "big") + 1
        with path.open("ab") as log:
            log.write(batch)
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).unlink(missing_ok=True)
