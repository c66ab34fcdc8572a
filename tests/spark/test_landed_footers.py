"""Footers of landed files: a flipped bit is told before a reader trusts it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.spark.landing.files import Folder, UnreadableFile
from headgate.spark.landing.footers import MARK

ROWS = pa.table({"group_id": ["a", "b", "b"], "committed_offset": [1, 2, 3]})


def start_of_footer(content: bytes | bytearray) -> int:
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


@pytest.fixture
def landed(tmp_path: Path) -> Path:
    """Return a landed file `t` with the rows."""
    Folder(str(tmp_path)).write_table("t", ROWS)
    return tmp_path / "t"


def test_every_flipped_bit_of_a_footer_is_told(landed: Path) -> None:
    """Some of them make Arrow hang or end the process, so none may reach it."""
    folder, content = Folder(str(landed.parent)), landed.read_bytes()
    mark = content.index(MARK)
    for at in range(start_of_footer(content), len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[at] ^= 1 << bit
            landed.write_bytes(damaged)
            if mark <= at < mark + len(MARK):  # the rest of the footer is as it was
                assert folder.read_table("t").equals(ROWS)
                continue
            for read in (folder.read_table, folder.footer):
                with pytest.raises(UnreadableFile, match=r"t cannot be read: .*(footer|does not end like)"):
                    read("t")


def test_other_readers_pass_over_the_checksum(landed: Path) -> None:
    assert pq.read_table(landed, page_checksum_verification=True).equals(ROWS)


def test_a_file_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    """It has no checksum of its footer."""
    pq.write_table(ROWS, tmp_path / "t")
    folder = Folder(str(tmp_path))
    assert folder.read_table("t").equals(ROWS)
    assert folder.footer("t").num_rows == 3


@pytest.mark.parametrize("length", [0, 3, 11])
def test_a_file_that_was_cut_short_is_told(landed: Path, length: int) -> None:
    landed.write_bytes(landed.read_bytes()[:length])
    with pytest.raises(UnreadableFile, match="t cannot be read: it does not end like a Parquet file"):
        Folder(str(landed.parent)).footer("t")


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """Return a landed file `t` whose footer is longer than a mebibyte: it has many columns."""
    folder, file = Folder(str(tmp_path)), tmp_path / "t"
    table = pa.table({f"a column with the number {number}": [number] for number in range(6000)})
    folder.write_table("t", table)
    content = file.read_bytes()
    assert len(content) - start_of_footer(content) > 1 << 20
    assert folder.read_table("t").equals(table)
    return file


def test_a_footer_longer_than_what_is_read_first_is_checked(wide: Path) -> None:
    content = bytearray(wide.read_bytes())
    content[start_of_footer(content) + 1000] ^= 4
    wide.write_bytes(content)
    with pytest.raises(UnreadableFile, match="the checksum of its footer is wrong"):
        Folder(str(wide.parent)).footer("t")


def test_a_wrong_length_of_a_long_footer_is_told(wide: Path) -> None:
    content = wide.read_bytes()
    for at in range(len(content) - 8, len(content) - 4):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[at] ^= 1 << bit
            wide.write_bytes(damaged)
            with pytest.raises(
                UnreadableFile, match=r"t cannot be read: the (checksum|length) of its footer"
            ):
                Folder(str(wide.parent)).footer("t")


@pytest.mark.parametrize("is_sealed", [True, False])
def test_names_may_have_the_bytes_of_the_mark(tmp_path: Path, is_sealed: bool) -> None:
    """A client chooses the ids of groups, and a file of an earlier release has no mark of its own."""
    rows = pa.table({"group_id": [MARK.decode(), "b", "b"], "committed_offset": [1, 2, 3]})
    folder = Folder(str(tmp_path))
    if is_sealed:
        folder.write_table("t", rows)
    else:
        pq.write_table(rows, tmp_path / "t")
    assert folder.read_table("t").equals(rows)


def test_attached_bytes_are_returned_and_other_readers_pass_over_them(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.write_table("t", ROWS.replace_schema_metadata({b"size": b"3000"}), b"abc" * 1000)
    found, attached = folder.read_with_attached("t", b"size")
    assert found.equals(ROWS)
    assert attached == b"abc" * 1000
    assert pq.read_table(tmp_path / "t").equals(ROWS)
