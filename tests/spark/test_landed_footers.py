"""Footers of landed files: a flipped bit is told before a reader trusts it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.spark.landing.files import Folder, UnreadableFile
from headgate.spark.landing.footers import MARK

ROWS = pa.table({"group_id": ["a", "b", "b"], "committed_offset": [1, 2, 3]})


@pytest.fixture
def landed(tmp_path: Path) -> Path:
    """Return a landed file `t` with the rows."""
    Folder(str(tmp_path)).write_table("t", ROWS)
    return tmp_path / "t"


def test_every_flipped_bit_of_a_footer_is_told(landed: Path) -> None:
    """Some of them make Arrow hang or end the process, so none may reach it."""
    folder, content = Folder(str(landed.parent)), landed.read_bytes()
    footer = content.index(MARK) + len(MARK)
    for at in range(footer, len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[at] ^= 1 << bit
            landed.write_bytes(damaged)
            for read in (folder.read_table, folder.metadata, folder.row_count, folder.schema):
                with pytest.raises(UnreadableFile, match=r"t cannot be read: .*(footer|does not end like)"):
                    read("t")


def test_a_flipped_bit_of_the_mark_does_no_harm(landed: Path) -> None:
    """The footer is as it was."""
    content = bytearray(landed.read_bytes())
    content[content.index(MARK)] ^= 1
    landed.write_bytes(content)
    assert Folder(str(landed.parent)).read_table("t").equals(ROWS)


def test_other_readers_pass_over_the_checksum(landed: Path) -> None:
    assert pq.read_table(landed, page_checksum_verification=True).equals(ROWS)


def test_a_file_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    """It has no checksum of its footer."""
    pq.write_table(ROWS, tmp_path / "t")
    folder = Folder(str(tmp_path))
    assert folder.read_table("t").equals(ROWS)
    assert folder.row_count("t") == 3


@pytest.mark.parametrize("length", [0, 3, 11])
def test_a_file_that_was_cut_short_is_told(landed: Path, length: int) -> None:
    landed.write_bytes(landed.read_bytes()[:length])
    with pytest.raises(UnreadableFile, match="t cannot be read: it does not end like a Parquet file"):
        Folder(str(landed.parent)).row_count("t")


def test_a_footer_longer_than_what_is_read_first_is_checked(tmp_path: Path) -> None:
    """Many columns make it long."""
    wide = pa.table({f"a column with the number {number}": [number] for number in range(1000)})
    folder, file = Folder(str(tmp_path)), tmp_path / "t"
    folder.write_table("t", wide)
    assert folder.read_table("t").equals(wide)
    content = bytearray(file.read_bytes())
    content[content.index(MARK) + 1000] ^= 4
    assert len(content) - content.index(MARK) > 1 << 16
    file.write_bytes(content)
    with pytest.raises(UnreadableFile, match="the checksum of its footer is wrong"):
        folder.row_count("t")
