"""Directories that are not damaged, but not as a server leaves them: what `verify` says is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.inspect.support import FLIGHTS, NOW, OFFSETS, errors, notes, open_topics

from headgate.domain.errors import ErrorCode
from headgate.topics.catalogue import CatalogueCorrupt


def test_a_first_start_that_was_interrupted_is_no_damage(tmp_path: Path) -> None:
    """The next start begins anew, and that is what is told."""
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
def test_a_directory_where_a_file_is_due_is_told(data_dir: Path, name: str) -> None:
    """The log is not opened while that is so."""
    _put_directory(data_dir / FLIGHTS / name)
    assert any("does not open this log" in error.next_step for error in errors(data_dir))
    topics = open_topics(data_dir)
    flights = topics.by_name("flights")
    assert flights is not None
    assert flights.partition(0).read(0, 1000, minimum_one=True).error == ErrorCode.KAFKA_STORAGE_ERROR
    topics.close()


def test_an_index_that_cannot_be_read_is_told_by_its_name(data_dir: Path) -> None:
    """After a crash it is built anew, and the log opens."""
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


def test_a_checkpoint_of_a_shard_that_cannot_be_read_is_done_without(data_dir: Path) -> None:
    """It is derived."""
    _put_directory(data_dir / OFFSETS / "shard.checkpoint")
    (error,) = errors(data_dir)
    assert error.file == f"{OFFSETS}/shard.checkpoint"
    assert "reads the whole log instead" in error.next_step


@pytest.mark.parametrize("name", ["clean-shutdown", "catalogue"])
def test_a_file_of_the_node_that_cannot_be_read_keeps_it_from_starting(data_dir: Path, name: str) -> None:
    """A check tells so, and does not fail itself."""
    path = data_dir / name
    if path.is_dir():
        path.rename(data_dir.parent / name)
        path.write_text("not a directory")
    else:
        _put_directory(path)
    assert any(error.file == name and "does not start" in error.next_step for error in errors(data_dir))
    with pytest.raises((OSError, CatalogueCorrupt)):
        open_topics(data_dir)


def test_a_foreign_directory_is_left_alone_whatever_its_name(data_dir: Path) -> None:
    """It keeps no log from opening, and nothing in it is removed."""
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
    """A crash left it to be checked, and there is nothing left to check."""
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
