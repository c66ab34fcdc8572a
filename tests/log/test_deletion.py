"""Removing the directories of deleted partitions from a real disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.log.deletion import delete_directory, remove_deleted
from headgate.log.filesystem import OsFileSystem


def test_a_partition_behind_a_link_is_removed(tmp_path: Path) -> None:
    """Its files go, and the link; what the link led to is left empty."""
    elsewhere = tmp_path / "disk2"
    elsewhere.mkdir()
    (elsewhere / "00000000000000000000.log").write_bytes(b"records")
    data = tmp_path / "data"
    data.mkdir()
    (data / "t-0").symlink_to(elsewhere)
    delete_directory(OsFileSystem(), data / "t-0")
    assert list(data.iterdir()) == []
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("at_most", [None, 2, 32])
def test_a_directory_that_cannot_be_removed_keeps_no_other(tmp_path: Path, at_most: int | None) -> None:
    """Whatever stands in it: the error is told when the others have gone."""
    for name in ("a-0.delete", "b-0.delete", "c-0.delete", "d-0"):
        (tmp_path / name).mkdir()
    for name in ("a-0.delete", "b-0.delete"):
        (tmp_path / name / "not ours").mkdir()
    with pytest.raises(OSError, match="not ours"):
        remove_deleted(OsFileSystem(), tmp_path, at_most)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-0.delete", "b-0.delete", "d-0"]


def test_no_more_directories_are_removed_than_asked_for(tmp_path: Path) -> None:
    """Even if one of them cannot be."""
    for number in range(5):
        (tmp_path / f"t-{number}.delete").mkdir()
    (tmp_path / "t-2.delete" / "not ours").mkdir()
    assert len(remove_deleted(OsFileSystem(), tmp_path, 2)) == 2
    assert len(list(tmp_path.iterdir())) == 3
