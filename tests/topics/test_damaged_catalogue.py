"""A damaged catalogue is neither opened nor changed; a crash may tear the last change only."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.topics.disk import DATA, NOW, Disk, append, create, told, values

from headgate.log.filesystem import MemoryFileSystem, read_file
from headgate.log.walking import walk_batches
from headgate.server.identity import FILE_NAME, check_identity, cluster_id
from headgate.topics.catalogue import CatalogueCorrupt
from headgate.topics.clean_stop import CLEAN_SHUTDOWN_FILE, CleanStop, indexes_in, ranges_of
from headgate.topics.topics import Topics

CATALOGUE = DATA / "catalogue"
LOG = CATALOGUE / f"{0:020d}.log"
TOPICS = 20


def filled(disk: Disk, *, is_closed: bool) -> list[object]:
    """Create twenty topics, each by its own change; return what clients see of them."""
    topics = disk.start()
    cluster_id(disk.files, topics, NOW)
    for number in range(TOPICS):
        create(topics, disk, f"topic-{number}", partitions=2)
    found = told(topics)
    if is_closed:
        topics.close()
    disk.files.kill()
    return found


def start_checked(disk: Disk) -> Topics:
    """Start as a node does, with the check of the cluster id before anything is changed."""
    check = partial(check_identity, disk.files, DATA)
    return Topics.open(disk.files, DATA, disk.settings, NOW, check)


def contents(files: MemoryFileSystem, directory: Path = DATA) -> dict[str, bytes]:
    """Return every file below a directory."""
    found: dict[str, bytes] = {}
    for name in files.listdir(directory):
        try:
            found |= contents(files, directory / name)
        except NotADirectoryError:
            found[str(directory / name)] = read_file(files, directory / name)
    return found


def positions(disk: Disk) -> list[int]:
    """Return the positions of the catalogue's changes, and of its end."""
    file = disk.files.open(LOG)
    return [position for position, _, _ in walk_batches(file, 0, file.size())] + [file.size()]


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("which", [0, 9, TOPICS - 1, TOPICS])
@pytest.mark.parametrize("at", [3, 9, 16, 19, 30, 75])
def test_a_catalogue_with_a_flipped_byte_is_not_opened(
    disk: Disk, is_closed: bool, which: int, at: int
) -> None:
    """In the first, a middle or the last change: answered changes are never dropped."""
    before = filled(disk, is_closed=is_closed)
    file, position = disk.files.open(LOG), positions(disk)[which] + at
    file.pwrite(bytes([file.pread(1, position)[0] ^ 0x11]), position)
    damaged = contents(disk.files)
    for _ in range(2):
        with pytest.raises(CatalogueCorrupt, match="Restore the directory `catalogue` from a copy"):
            disk.start()
        assert contents(disk.files) == damaged
    file = disk.files.open(LOG)
    file.pwrite(bytes([file.pread(1, position)[0] ^ 0x11]), position)
    assert told(disk.start()) == before


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("cut", ["all", "half", "last", "within the last", "segment", "directory", "doubled"])
def test_a_catalogue_that_lacks_changes_is_not_opened(disk: Disk, is_closed: bool, cut: str) -> None:
    """Cut between two changes or within one, or removed: the loss of answered changes is detected."""
    filled(disk, is_closed=is_closed)
    at = positions(disk)
    file = disk.files.open(LOG)
    if cut == "doubled":
        file.pwrite(file.pread(at[-1], at[10]), at[-1])
    elif cut in ("segment", "directory"):
        for name in disk.files.listdir(CATALOGUE):
            if cut == "directory" or not name.startswith("headgate"):
                disk.files.remove(CATALOGUE / name)
        if cut == "directory":
            disk.files.remove_directory(CATALOGUE)
    else:
        file.truncate({"all": 0, "half": at[10], "last": at[-2], "within the last": at[-2] + 40}[cut])
    damaged = contents(disk.files)
    if cut == "directory" and not is_closed:
        with pytest.raises(OSError, match="catalogue beside it is empty"):  # nothing else is left to tell
            start_checked(disk)
        return
    if cut == "doubled":
        assert len(disk.start().all()) == TOPICS
        return
    with pytest.raises(CatalogueCorrupt, match="Restore the directory `catalogue` from a copy"):
        disk.start()
    assert contents(disk.files) == damaged


def test_the_change_that_was_being_written_may_be_torn(disk: Disk) -> None:
    """It was not answered: the start drops it."""
    before = filled(disk, is_closed=False)
    file = disk.files.open(LOG)
    last = file.pread(file.size(), positions(disk)[-2])
    file.pwrite(last[: len(last) // 2], file.size())
    assert told(disk.start()) == before


@pytest.mark.parametrize("is_closed", [True, False])
def test_an_old_copy_of_the_catalogue_is_refused(disk: Disk, is_closed: bool) -> None:
    """There are logs of unknown topics or partitions, or it ends before the offset of the clean stop."""
    filled(disk, is_closed=True)
    copy = {name: read_file(disk.files, CATALOGUE / name) for name in disk.files.listdir(CATALOGUE)}
    topics = disk.start()
    append(create(topics, disk, "later"), b"a")
    if is_closed:
        topics.close()
    disk.files.kill()
    for name, data in copy.items():
        disk.files.remove(CATALOGUE / name)
        disk.files.open(CATALOGUE / name, create=True).pwrite(data, 0)
    damaged = contents(disk.files)
    with pytest.raises(CatalogueCorrupt, match="old copy"):
        disk.start()
    assert contents(disk.files) == damaged


def test_a_directory_without_a_log_is_ignored(disk: Disk) -> None:
    """Only an unknown log shows that the catalogue is an old copy."""
    before = filled(disk, is_closed=True)
    disk.files.make_directory(DATA / "notes-1")
    disk.files.open(DATA / "notes-2", create=True).pwrite(b"a file", 0)
    assert told(disk.start()) == before


def test_a_start_with_partitions_and_no_catalogue_is_refused(disk: Disk) -> None:
    """An empty catalogue would treat them as leftovers."""
    topics = disk.start()
    append(create(topics, disk, "letters"), b"a")
    disk.files.kill()
    for name in disk.files.listdir(CATALOGUE):
        disk.files.remove(CATALOGUE / name)
    disk.files.remove_directory(CATALOGUE)
    damaged = contents(disk.files)
    with pytest.raises(CatalogueCorrupt, match="letters-0 is there"):
        disk.start()
    assert contents(disk.files) == damaged


def test_the_cluster_id_does_not_change(disk: Disk) -> None:
    """A missing file is written again from the catalogue; that of another cluster is refused."""
    topics = disk.start()
    made = cluster_id(disk.files, topics, NOW)
    topics.close()
    topics = disk.start()
    assert cluster_id(disk.files, topics, NOW) == made
    disk.files.remove(DATA / FILE_NAME)
    assert cluster_id(disk.files, topics, NOW) == made
    assert made.encode() in read_file(disk.files, DATA / FILE_NAME)
    file = disk.files.open(DATA / FILE_NAME)
    file.pwrite(b"X" if made[3] != "X" else b"Y", len("version=1\ncluster.id=") + 3)
    topics.close()
    damaged = contents(disk.files)
    with pytest.raises(OSError, match="the catalogue that it is"):
        start_checked(disk)
    assert contents(disk.files) == damaged


def test_the_cluster_id_of_an_older_directory_is_recorded(disk: Disk) -> None:
    """The catalogue gets it from the file once."""
    topics = disk.start()
    create(topics, disk, "letters")
    disk.files.open(DATA / FILE_NAME, create=True).pwrite(b"version=1\ncluster.id=abc\n", 0)
    assert cluster_id(disk.files, topics, NOW) == "abc"
    assert topics.cluster_id == "abc"
    disk.files.kill()
    disk.files.remove(DATA / FILE_NAME)
    assert cluster_id(disk.files, disk.start(), NOW) == "abc"


def test_an_invalid_clean_stop_marker_is_ignored(disk: Disk) -> None:
    """The start is then one after a crash."""
    before = filled(disk, is_closed=True)
    stop = CleanStop(("ab-0", "cd-1"), 7, {"ab": "0-4,7"}, NOW)
    assert CleanStop.decode(stop.encode()) == stop
    timeless = replace(stop, stopped_at=None)
    assert CleanStop.decode(timeless.encode()) == timeless, "as an older Headgate wrote it"
    for text in (
        stop.encode().replace(b"ab-0", b"ab-1"),
        stop.encode().replace(b" 7", b" 3"),
        stop.encode().replace(b'"stopped": 1', b'"stopped": 2'),
        b'{"v": 1, "unrecovered": [], "catalogue": 7, "stopped": "today"}',
        b"",
        b'{"v": 1, "unrecovered": [], "catalogue": "many"}',
        b'{"v": 1, "unrecovered": [], "catalogue": 7, "written": []}',
        b'{"v": 1, "unrecovered": [], "catalogue": 7, "written": {"ab": 3}}',
        b'{"v": 1, "unrecovered": [], "catalogue": 7, "written": {"ab": "0-"}}',
        b'{"v": 1}',
        b"[]",
        b'{"v": 2}',
    ):
        disk.files.open(DATA / CLEAN_SHUTDOWN_FILE, create=True).pwrite(text, 0)
        disk.files.open(DATA / CLEAN_SHUTDOWN_FILE).truncate(len(text))
        topics = disk.start()
        assert told(topics) == before
        assert CLEAN_SHUTDOWN_FILE not in disk.files.listdir(DATA)


@given(st.sets(st.integers(0, 40)))
def test_ranges_of_partitions_have_each_of_them(indexes: set[int]) -> None:
    """A topic has up to a million partitions, and most were written in order."""
    assert ranges_of(range(5000)) == "0-4999"
    if indexes:
        assert list(indexes_in(ranges_of(sorted(indexes)))) == sorted(indexes)


def test_a_start_reports_directories_that_were_there_at_the_stop(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    """Their logs begin anew, and nobody else would notice; a partition that was never written has none."""
    topics = disk.start()
    letters = create(topics, disk, "letters", partitions=9)
    for index in (0, 2, 3, 4, 7):
        append(letters, b"x", partition=index)
    topics.close()
    for index in (2, 3, 7):
        directory = DATA / f"letters-{index}"
        for name in disk.files.listdir(directory):
            disk.files.remove(directory / name)
        disk.files.remove_directory(directory)
    again = disk.start()
    (line,) = [record for record in caplog.records if "directories of partitions" in record.message]
    assert (line.topic, line.partitions) == ("letters", "2-3,7")  # type: ignore[attr-defined]
    caplog.clear()
    again.close()
    disk.start()
    assert not caplog.records


def test_a_directory_that_lost_its_files_is_told_when_its_log_is_opened(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    """As a copy to a full disk leaves it. Once, when the log is used, also after another clean stop."""
    topics = disk.start()
    letters = create(topics, disk, "letters", partitions=3)
    for index in range(3):
        append(letters, b"x", partition=index)
    topics.close()
    for name in disk.files.listdir(DATA / "letters-1"):
        disk.files.remove(DATA / "letters-1" / name)
    disk.start().close()
    assert not caplog.records
    for expected in (["1"], []):
        topics = disk.start()
        found = topics.by_name("letters")
        assert found is not None
        assert [values(found, index) for index in range(3)] == [[b"x"], [], [b"x"]]
        lines = [record for record in caplog.records if "has no segments" in record.message]
        assert [f"{line.partition}" for line in lines] == expected  # type: ignore[attr-defined]
        caplog.clear()
        topics.close()


def test_a_directory_that_never_had_a_file_is_not_told(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    """A crash came before its first file: nothing is missing after the next stops, used or not."""
    topics = disk.start()
    letters = create(topics, disk, "letters", partitions=2)
    append(letters, b"x", partition=1)
    disk.files.make_directory(DATA / "letters-0")
    disk.files.crash()
    for is_used in (True, False, True):
        topics = disk.start()
        found = topics.by_name("letters")
        assert found is not None
        if is_used:
            assert values(found, 0) == []
        topics.close()
        assert not [record for record in caplog.records if "no segments" in record.message]
