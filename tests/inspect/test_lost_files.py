"""Truncated, missing, swapped, renamed and unknown files are found, each with its consequence."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.inspect.damage import CATALOGUE, FIRST, LAST, MIDDLE, batch_positions, crash, flip
from tests.inspect.support import FLIGHTS, NOW, OFFSETS, errors, notes, open_topics, produce

from headgate.domain.ids import GROUP_OFFSETS_TOPIC, TopicId
from headgate.topics.catalogue import CatalogueCorrupt
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic
from headgate.topics.unfinished_import import UNFINISHED_IMPORT_FILE


@pytest.mark.parametrize("name", [FIRST, MIDDLE, LAST, CATALOGUE])
@pytest.mark.parametrize("is_between_batches", [False, True])
def test_a_log_truncated_after_a_clean_stop_is_damage(
    data_dir: Path, name: str, is_between_batches: bool
) -> None:
    """Inside of a batch or between two: after a clean stop there is no torn tail."""
    path = data_dir / name
    cut = batch_positions(path)[-1]
    os.truncate(path, cut if is_between_batches else cut + 30)
    found = errors(data_dir)
    assert found
    if not is_between_batches:
        assert (name, cut) in [(error.file, error.position) for error in found]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        (f"{FLIGHTS}/{99:020d}.index", -3),
        (f"{FLIGHTS}/{99:020d}.index", -8),
        (f"{FLIGHTS}/{99:020d}.timeindex", -3),
        (f"{FLIGHTS}/{99:020d}.timeindex", -12),
        (f"{FLIGHTS}/{99:020d}.timeindex", 0),
        (f"{FLIGHTS}/leader-epoch-checkpoint", -5),
        (f"{FLIGHTS}/leader-epoch-checkpoint", 0),
        (f"{FLIGHTS}/producers.snapshot", -1),
        (f"{FLIGHTS}/producers.snapshot", 0),
        (f"{FLIGHTS}/headgate.checkpoint", -1),
        (f"{FLIGHTS}/headgate.checkpoint", 0),
        (f"{FLIGHTS}/headgate.synced", 0),
        (f"{OFFSETS}/shard.checkpoint", -1),
        (f"{OFFSETS}/shard.checkpoint", 0),
        ("clean-shutdown", -1),
        ("clean-shutdown", 0),
        ("meta.properties", 20),
        ("meta.properties", 0),
    ],
)
def test_another_truncated_file_is_found(data_dir: Path, name: str, left: int) -> None:
    """Also an index that ends with a whole entry, but before its segment ends."""
    path = data_dir / name
    os.truncate(path, left if left >= 0 else path.stat().st_size + left)
    found = [error for error in errors(data_dir) if error.file == name]
    assert found
    assert all(error.next_step.endswith("copy the directory again.") == (left == 0) for error in found)


def test_a_checkpoint_that_does_not_match_the_log_is_noted(data_dir: Path) -> None:
    """It is undamaged, but the next start ignores it and reads the log instead."""
    (data_dir / "clean-shutdown").unlink()
    topics = open_topics(data_dir)
    offsets = topics.by_name(GROUP_OFFSETS_TOPIC)
    assert offsets is not None
    log = offsets.partition(0).log
    log.truncate(3)
    topics.close()
    name = f"{OFFSETS}/shard.checkpoint"
    assert not [error for error in errors(data_dir) if error.file == name]
    (found,) = [note for note in notes(data_dir) if note.file == name]
    assert "but the checkpoint at" in found.what


def test_a_checkpoint_of_an_older_version_is_noted(data_dir: Path) -> None:
    """The first start of this version ignores it."""
    path = data_dir / OFFSETS / "shard.checkpoint"
    path.write_bytes(path.read_bytes().replace(b"headgate shard 2", b"headgate shard 1", 1))
    assert errors(data_dir) == []
    assert f"{OFFSETS}/shard.checkpoint" in {found.file for found in notes(data_dir)}


def test_an_empty_index_is_noted_because_the_setting_may_have_changed(data_dir: Path) -> None:
    """A segment smaller than `index.interval.bytes` has no entries, and that setting can have been larger."""
    os.truncate(data_dir / FLIGHTS / f"{99:020d}.index", 0)
    assert errors(data_dir) == []
    assert any("the log needs 6 entries" in note.what for note in notes(data_dir))


def every_file(data_dir: Path, base: int) -> list[Path]:
    return [data_dir / FLIGHTS / f"{base:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")]


@pytest.mark.parametrize("base", [0, 48, 99, 150, 195])
def test_a_missing_segment_is_found(data_dir: Path, base: int) -> None:
    """The first, one in the middle and the last one, with or without its indexes."""
    log, *indexes = every_file(data_dir, base)
    log.unlink()
    assert errors(data_dir)
    for index in indexes:
        index.unlink()
    assert errors(data_dir)


def test_swapped_segments_are_found(data_dir: Path) -> None:
    """Both of two segments with swapped names are reported."""
    for one, other in zip(every_file(data_dir, 48), every_file(data_dir, 99), strict=True):
        aside = one.with_name("aside")
        one.rename(aside)
        other.rename(one)
        aside.rename(other)
    found = {error.file for error in errors(data_dir)}
    assert {f"{FLIGHTS}/{48:020d}.log", f"{FLIGHTS}/{99:020d}.log"} <= found


def test_a_segment_under_a_wrong_name_is_found(data_dir: Path) -> None:
    """The name of a segment is its first offset."""
    log = every_file(data_dir, 99)[0]
    log.rename(log.with_name(f"{100:020d}.log"))
    assert any(
        error.file.endswith(f"{100:020d}.log") and "starts at 99" in error.what for error in errors(data_dir)
    )


def test_renamed_files_are_found(data_dir: Path) -> None:
    """A log with an invalid name leaves indexes without a segment, and is an unknown file."""
    log, index, _ = every_file(data_dir, 99)
    log.rename(log.with_suffix(".bak"))
    assert any("is missing" in error.what and error.file.endswith(index.name) for error in errors(data_dir))
    assert any(note.file.endswith(".bak") for note in notes(data_dir))


def test_a_missing_index_is_noted_because_it_is_rebuilt(data_dir: Path) -> None:
    """An index is derived from the log."""
    every_file(data_dir, 99)[1].unlink()
    assert errors(data_dir) == []
    assert any(note.file == f"{FLIGHTS}/{99:020d}.index" for note in notes(data_dir))


@pytest.mark.parametrize("name", [FLIGHTS, OFFSETS])
def test_a_missing_directory_of_a_partition_is_found_after_a_clean_stop(data_dir: Path, name: str) -> None:
    """The server would begin an empty log; after a crash nothing tells it from one that was never written."""
    assert errors(data_dir) == []
    for file in (data_dir / name).iterdir():
        file.unlink()
    (error,) = errors(data_dir)
    assert (error.file, error.what) == (name, "the directory of this partition is empty")
    (data_dir / name).rmdir()
    (error,) = errors(data_dir)
    assert error.file == name
    assert "missing" in error.what
    crash(data_dir)
    assert errors(data_dir) == []


@pytest.mark.parametrize(
    ("name", "starts"), [("nobodys-0", False), ("flights-2", False), ("flights-00", True)]
)
def test_a_directory_that_the_catalogue_does_not_have_is_an_error(
    data_dir: Path, name: str, starts: bool
) -> None:
    """An unknown topic, an unknown partition, or a number with leading zeros. With a log of the first two no
    server starts; an empty directory is ignored.
    """
    shutil.copytree(data_dir / FLIGHTS, data_dir / name)
    (error,) = errors(data_dir)
    assert (error.file, "does not start" in error.next_step) == (name, not starts)
    if starts:
        open_topics(data_dir).close()
        return
    with pytest.raises(CatalogueCorrupt, match=name):
        open_topics(data_dir)
    for file in (data_dir / name).iterdir():
        file.unlink()
    (error,) = errors(data_dir)
    assert error.next_step.startswith("The server ignores it.")


def test_a_link_to_nothing_that_the_catalogue_does_not_have_is_an_error(data_dir: Path) -> None:
    """It may be the log of a topic that an old copy of the catalogue lacks: no server starts."""
    (data_dir / "nobodys-0").symlink_to(data_dir.parent / "disk")
    (error,) = errors(data_dir)
    assert (error.file, "link to nothing" in error.what) == ("nobodys-0", True)
    assert "does not start" in error.next_step
    with pytest.raises(FileNotFoundError, match=r"link to nothing.*nobodys-0"):
        open_topics(data_dir)


def test_a_partition_whose_disk_is_not_mounted_is_not_begun_anew(data_dir: Path) -> None:
    """Its directory is a link then. A log that ended at 0 would make readers begin anew."""
    shutil.move(data_dir / FLIGHTS, data_dir.parent / "disk")
    (data_dir / FLIGHTS).symlink_to(data_dir.parent / "disk")
    assert errors(data_dir) == []
    (data_dir.parent / "disk").rename(data_dir.parent / "unmounted")
    (error,) = errors(data_dir)
    assert (error.file, "link to nothing" in error.what) == (FLIGHTS, True)
    assert "The server does not open this log" in error.next_step
    topics = open_topics(data_dir)
    flights = topics.by_name("flights")
    assert flights is not None
    with pytest.raises(FileNotFoundError, match="a disk that is not mounted"):
        assert flights.partition(0).log
    (data_dir.parent / "unmounted").rename(data_dir.parent / "disk")
    assert flights.partition(0).high_watermark > 0
    topics.close()


def test_a_topic_deleted_while_its_disk_is_not_mounted_leaves_nothing_to_the_next_of_its_name(
    data_dir: Path,
) -> None:
    """The link is renamed, like a directory, and the records are removed when the disk is there again."""
    disk, unmounted = data_dir.parent / "disk", data_dir.parent / "unmounted"
    shutil.move(data_dir / FLIGHTS, unmounted)
    (data_dir / FLIGHTS).symlink_to(disk)
    topics = open_topics(data_dir)
    for topic_id in (TopicId(b"1" * 16), TopicId(b"2" * 16)):
        flights = topics.by_name("flights")
        assert flights is not None
        assert topics.delete(flights, NOW) is None
        successor = topics.create(NewTopic("flights", topic_id, 1), NOW)
        assert isinstance(successor, Topic)
        produce(successor, 0, 1)
        assert successor.partition(0).log.log_end_offset == 3
    unmounted.rename(disk)
    topics.close()
    open_topics(data_dir).close()
    assert list(disk.iterdir()) == []


def test_an_import_that_did_not_finish_is_an_error(data_dir: Path) -> None:
    """No server starts on it."""
    (data_dir / UNFINISHED_IMPORT_FILE).touch()
    (error,) = errors(data_dir)
    assert (error.file, "does not start" in error.next_step) == (UNFINISHED_IMPORT_FILE, True)


@pytest.mark.parametrize("is_emptied", [False, True])
def test_a_catalogue_that_ends_before_the_last_stop_is_an_error(data_dir: Path, is_emptied: bool) -> None:
    """Every file of an old copy is whole, and no server starts with it."""
    copy = shutil.copytree(data_dir / "catalogue", data_dir.parent / "copy")
    topics = open_topics(data_dir)
    topics.create(NewTopic("later", TopicId(b"l" * 16), 1), NOW)
    topics.close()
    shutil.copytree(data_dir / FLIGHTS, data_dir / "later-0")
    shutil.rmtree(data_dir / "catalogue")
    shutil.copytree(copy, data_dir / "catalogue")
    if is_emptied:
        for file in (data_dir / "catalogue").iterdir():
            os.truncate(file, 0)
    found = [error for error in errors(data_dir) if error.file == "catalogue"]
    with pytest.raises(CatalogueCorrupt) as refused:
        open_topics(data_dir)
    assert [str(refused.value).startswith(error.what) for error in found] == [True]
    assert "does not start" in found[0].next_step
    (of_later,) = [error for error in errors(data_dir) if error.file == "later-0"]
    assert "Move it away" not in of_later.next_step, "it is right, and the catalogue is wrong"


def test_the_remainder_of_a_deletion_is_noted(data_dir: Path) -> None:
    """The next start removes a directory of a deleted topic and one that was already renamed."""
    shutil.copytree(data_dir / FLIGHTS, data_dir / "gone-0")
    shutil.copytree(data_dir / FLIGHTS, data_dir / "gone-0.delete")
    assert errors(data_dir) == []
    assert {"gone-0", "gone-0.delete"} <= {note.file for note in notes(data_dir)}


def test_unknown_files_are_noted(data_dir: Path) -> None:
    """The server ignores unknown files. Temporary files of an interrupted write have their own note."""
    (data_dir / "README").write_text("hello")
    (data_dir / FLIGHTS / "headgate.checkpoint.tmp").write_text("half")
    (data_dir / FLIGHTS / "notes.txt").write_text("hello")
    assert errors(data_dir) == []
    noted = {note.file: note.what for note in notes(data_dir)}
    assert {"README", f"{FLIGHTS}/notes.txt"} <= noted.keys()
    assert "a temporary file" in noted[f"{FLIGHTS}/headgate.checkpoint.tmp"]


def test_a_missing_catalogue_is_an_error_and_the_partitions_are_checked(data_dir: Path) -> None:
    """The names of the directories then give the topics."""
    shutil.rmtree(data_dir / "catalogue")
    flip(data_dir / MIDDLE, 70)
    assert {error.file for error in errors(data_dir)} == {"catalogue", MIDDLE}


def test_what_a_lost_segment_makes_too_long_is_no_note(data_dir: Path) -> None:
    """After a crash the server opens no log that misses durable records: nothing else is told beside that."""
    crash(data_dir)
    for suffix in (".log", ".index", ".timeindex"):
        (data_dir / LAST).with_suffix(suffix).unlink(missing_ok=True)
    (error,) = errors(data_dir)
    assert error.file == FLIGHTS
    assert "does not open this log" in error.what
    assert not [found for found in notes(data_dir) if found.file.startswith(FLIGHTS)]


@pytest.mark.parametrize("is_missing", [True, False])
def test_nothing_is_promised_of_a_start_that_does_not_come(data_dir: Path, is_missing: bool) -> None:
    """Without a catalogue that reads no log is opened, cut or tidied up."""
    crash(data_dir)
    if is_missing:
        shutil.rmtree(data_dir / "catalogue")
    else:
        flip(data_dir / CATALOGUE, 100)
    with (data_dir / LAST).open("ab") as file:
        file.write(b"torn")
    (data_dir / FLIGHTS / "shard.tmp").touch()
    flip(data_dir / MIDDLE, 300)
    found = [one for one in (*errors(data_dir), *notes(data_dir)) if one.file.startswith(FLIGHTS)]
    assert {Path(one.file).name for one in found} >= {Path(MIDDLE).name, "shard.tmp"}
    assert all("does not start without its catalogue" in one.next_step for one in found)
