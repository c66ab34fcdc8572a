"""Invalid records with a right checksum are errors; torn runs are notes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.inspect.damage import CATALOGUE, LAST, append
from tests.inspect.support import NOW, OFFSETS, commit_of, coordinator_batch, errors, notes

from headgate.log.batch import Record, encode_batch
from headgate.log.header import CRC_END


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"{", "is not JSON"),
        (b"[]", "has no version"),
        (b'{"v": 1}', "has no type"),
        (b'{"v": 3, "type": "topic-deleted", "id": ""}', "has version 3"),
        (b'{"v": 1, "type": "topic-deleted", "id": "no hexadecimal"}', "is not a catalogue record"),
    ],
)
def test_an_invalid_catalogue_record_is_an_error(data_dir: Path, value: bytes, says: str) -> None:
    """Its checksum is right, but no server starts with it."""
    append(data_dir / CATALOGUE, encode_batch([Record(None, value, NOW)]))
    assert any(says in error.what for error in errors(data_dir))


def test_records_that_do_not_unpack_are_an_error(data_dir: Path) -> None:
    """A producer can send invalid records with a right checksum. Reading them fails."""
    batch = encode_batch([Record(b"k", b"v" * 100, NOW)])
    batch[-1] = 9  # more headers than there are bytes
    from crc32c import crc32c

    batch[17:21] = crc32c(batch[CRC_END:]).to_bytes(4, "big")
    append(data_dir / LAST, batch, epoch=1)
    (error,) = errors(data_dir)
    assert (error.file, "are invalid" in error.what) == (LAST, True)


OFFSETS_LOG = f"{OFFSETS}/{0:020d}.log"


def test_a_coordinator_record_that_does_not_decode_is_an_error(data_dir: Path) -> None:
    """The coordinator cannot load this log."""
    append(data_dir / OFFSETS_LOG, encode_batch([Record(b"\x00\x01\x00\x09x", b"", NOW)]), epoch=1)
    assert any("not a record of the coordinator" in error.what for error in errors(data_dir))


def run_of(total: int, parts: list[int], first_offset: int) -> list[bytearray]:
    """Return the batches of a run, with `parts` records each."""
    batches, at = [], 0
    for size in parts:
        commits = [commit_of(partition, 9) for partition in range(at, at + size)]
        batches.append(coordinator_batch(*commits, run=(first_offset, at, total)))
        at += size
    return batches


@pytest.mark.parametrize(
    ("parts", "is_followed", "says"),
    [
        ([3, 3], False, None),
        ([3, 2], False, "is at the end of the log: 5 of 6 records from offset 6"),
        ([3, 2], True, "ends before here: 5 of 6 records from offset 6"),
    ],
)
def test_torn_runs_are_noted_with_their_place(
    data_dir: Path, parts: list[int], is_followed: bool, says: str | None
) -> None:
    """A complete run has no note. The next start repairs a torn one at the end; others are harmless."""
    batches = run_of(6, parts, first_offset=6)
    if is_followed:
        batches.append(coordinator_batch(commit_of(0, 10)))
    append(data_dir / OFFSETS_LOG, *batches, epoch=1)
    assert errors(data_dir) == []
    said = [note.what for note in notes(data_dir) if "over several batches" in note.what]
    assert len(said) == (says is not None)
    assert says is None or says in said[0]
