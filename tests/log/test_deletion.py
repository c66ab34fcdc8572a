"""Removing the directories of deleted partitions from a real disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.log.support import DATA, memory

from headgate.log.deletion import is_out_of_sight, put_aside, remove_deleted, removing_deleted
from headgate.log.filesystem import OsFileSystem


def test_a_partition_behind_a_link_is_removed(tmp_path: Path) -> None:
    """Its files go, and the link; what the link led to is left empty."""
    elsewhere = tmp_path / "disk2"
    elsewhere.mkdir()
    (elsewhere / "00000000000000000000.log").write_bytes(b"records")
    data = tmp_path / "data"
    data.mkdir()
    (data / "t-0").symlink_to(elsewhere)
    put_aside(OsFileSystem(), [data / "t-0"])
    remove_deleted(OsFileSystem(), data)
    assert list(data.iterdir()) == []
    assert list(elsewhere.iterdir()) == []


def test_a_failed_removal_does_not_stop_others(tmp_path: Path) -> None:
    """The error is raised after the others were removed."""
    for name in ("a-0.delete", "b-0.delete", "c-0.delete", "d-0"):
        (tmp_path / name).mkdir()
    for name in ("a-0.delete", "b-0.delete"):
        (tmp_path / name / "not ours").mkdir()
    with pytest.raises(OSError, match="not ours"):
        remove_deleted(OsFileSystem(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-0.delete", "b-0.delete", "d-0"]


def test_a_removal_pauses_after_each_file(tmp_path: Path) -> None:
    """A directory may have files of thousands of segments."""
    for number in range(5):
        (tmp_path / f"t-{number}.delete").mkdir()
        for name in range(100):
            (tmp_path / f"t-{number}.delete" / str(name)).touch()
    removing = removing_deleted(OsFileSystem(), tmp_path)
    for left in range(504, -1, -1):
        next(removing)
        assert sum(1 for _ in tmp_path.glob("**/*")) == left
    assert list(removing) == []


def test_a_long_name_is_cut_and_made_unique(tmp_path: Path) -> None:
    """248 bytes and the suffix are 255; longer names get a digest."""
    files = OsFileSystem()
    names = ["a" * 246 + "-0", "b" * 247 + "-0", "c" * 247 + "-1", "c" * 247 + "-2"]
    for name in names:
        (tmp_path / name).mkdir()
    put_aside(files, [tmp_path / name for name in (*names, "never was")])
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found[0] == "a" * 246 + "-0.delete"
    assert [len(name) for name in found] == [255] * 4
    assert [name[:231] for name in found[1:]] == ["b" * 231, "c" * 231, "c" * 231]
    assert len(set(found)) == 4
    remove_deleted(files, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_deletion_is_durable_and_repeatable() -> None:
    """Remains of an earlier deletion of that name are kept for the removal; a missing one is ignored."""
    files = memory()
    directory = DATA / "t-0"
    for name in ("t-0", "t-0.delete"):
        files.make_directory(DATA / name)
        files.open(DATA / name / "file", create=True)
        files.sync_directory(DATA / name)
    files.sync_directory(DATA)
    put_aside(files, [directory])
    files.crash()
    assert files.listdir(DATA) == ["t-0.delete", "t-0.delete-1.delete"]
    assert all(map(is_out_of_sight, files.listdir(DATA)))
    operations = files.operations
    put_aside(files, [])
    assert files.operations == operations
    files.make_directory(directory)
    files.open(directory / "file", create=True)
    put_aside(files, [directory])
    remove_deleted(files, DATA)
    assert files.listdir(DATA) == []
    files.crash()
    assert directory.name not in files.listdir(DATA)
