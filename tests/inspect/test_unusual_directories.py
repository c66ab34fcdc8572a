"""Unusual directories without damage: the server behaves as `verify` says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.inspect.support import FLIGHTS, NOW, OFFSETS, errors, notes, open_topics

from headgate.domain.errors import ErrorCode
from headgate.topics.catalogue import CatalogueCorrupt


def test_an_interrupted_first_start_is_no_damage(tmp_path: Path) -> None:
    """The next start repeats it, and the note says so."""
    open_topics(tmp_path)  # and killed at once
    (tmp_path / "catalogue" / "headgate.checkpoint").unlink(missing_ok=True)
    assert errors(tmp_path) == []
    assert "catalogue" in {note.file for note in notes(tmp_path)}
    open_topics(tmp_path).close()


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.log",
        "headgate.checkpoint",
        "headgate.synced",
        "leader-epoch-checkpoint",
        "producers.snapshot",
    ],
)
def test_a_directory_in_place_of_a_file_is_reported(data_dir: Path, name: str) -> None:
    """The server does not open the log."""
    _put_directory(data_dir / FLIGHTS / name)
    assert any("does not open this log" in error.next_step for error in errors(data_dir))
    topics = open_topics(data_dir)
    flights = topics.by_name("flights")
    assert flights is not None
    assert flights.partition(0).read(0, 1000, minimum_one=True).error == ErrorCode.KAFKA_STORAGE_ERROR
    topics.close()


@pytest.mark.parametrize(
    "name",
    [
        f"{FLIGHTS}/00000000000000000000.log",
        f"{FLIGHTS}/00000000000000000000.index",
        f"{FLIGHTS}/headgate.checkpoint",
        f"{FLIGHTS}/headgate.synced",
        f"{FLIGHTS}/producers.snapshot",
        f"{OFFSETS}/shard.checkpoint",
        "clean-shutdown",
        "catalogue/00000000000000000000.log",
    ],
)
def test_a_pipe_in_place_of_a_file_is_reported(data_dir: Path, name: str) -> None:
    """The check does not wait for a writer."""
    (data_dir / name).unlink(missing_ok=True)
    os.mkfifo(data_dir / name)
    assert [error for error in errors(data_dir) if error.file in (name, name.partition("/")[0])]


@pytest.mark.parametrize("name", ["headgate.synced", "headgate.checkpoint", "producers.snapshot"])
def test_the_rest_of_an_endless_file_is_not_read(data_dir: Path, name: str) -> None:
    """A sparse file may have more bytes than the machine has memory."""
    os.truncate(data_dir / FLIGHTS / name, 1 << 42)
    assert [error for error in errors(data_dir) if error.file.startswith(FLIGHTS)]
    open_topics(data_dir).close()


def test_an_unreadable_index_is_reported_by_its_name(data_dir: Path) -> None:
    """After a crash it is rebuilt, and the server opens the log."""
    (data_dir / "clean-shutdown").unlink()
    index = max((data_dir / FLIGHTS).glob("*.index"))
    _put_directory(index)
    (error,) = errors(data_dir)
    assert error.file == f"{FLIGHTS}/{index.name}"
    assert "opens the log" in error.next_step
    flights = open_topics(data_dir).by_name("flights")
    assert flights is not None
    partition = flights.partition(0)
    assert partition.read(partition.log_start_offset, 1000, minimum_one=True).error == ErrorCode.NONE


def test_an_unreadable_checkpoint_of_a_shard_is_ignored(data_dir: Path) -> None:
    """A checkpoint is derived from the log."""
    _put_directory(data_dir / OFFSETS / "shard.checkpoint")
    (error,) = errors(data_dir)
    assert error.file == f"{OFFSETS}/shard.checkpoint"
    assert "reads the whole log instead" in error.next_step


@pytest.mark.parametrize("name", ["clean-shutdown", "catalogue"])
def test_the_server_does_not_start_with_an_unreadable_file_of_the_node(data_dir: Path, name: str) -> None:
    """The check reports it and does not fail."""
    path = data_dir / name
    if path.is_dir():
        path.rename(data_dir.parent / name)
        path.write_text("not a directory")
    else:
        _put_directory(path)
    assert any(error.file == name and "does not start" in error.next_step for error in errors(data_dir))
    with pytest.raises((OSError, CatalogueCorrupt)):
        open_topics(data_dir)


def test_a_foreign_directory_is_ignored_whatever_its_name(data_dir: Path) -> None:
    """All logs open, and nothing in the directory is removed."""
    foreign = [data_dir / FLIGHTS / "mine.tmp", data_dir / "mine.delete", data_dir / FLIGHTS / "sub"]
    for path in foreign:
        path.mkdir()
        (path / "letter").write_text("dear")
    (data_dir / "plain.delete").write_text("mine")
    assert errors(data_dir) == []
    assert {str(path.relative_to(data_dir)) for path in foreign} <= {note.file for note in notes(data_dir)}
    assert not any("removes it" in note.next_step for note in notes(data_dir))
    (data_dir / "clean-shutdown").unlink()
    topics = open_topics(data_dir)
    flights = topics.by_name("flights")
    assert flights is not None
    assert flights.partition(0).log.log_end_offset > 0
    topics.close()
    assert [path for path in foreign if not (path / "letter").exists()] == []
    assert (data_dir / "plain.delete").exists()


def test_a_clean_stop_names_no_partition_of_a_deleted_topic(data_dir: Path) -> None:
    """After a crash the topic was to be recovered, but it was deleted."""
    (data_dir / "clean-shutdown").unlink()
    topics = open_topics(data_dir)
    flights = topics.by_name("flights")
    assert flights is not None
    topics.delete(flights, NOW)
    topics.close()
    assert flights.topic_id.hex() not in (data_dir / "clean-shutdown").read_text()
    assert errors(data_dir) == []


def _put_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()
