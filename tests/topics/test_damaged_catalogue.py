"""A catalogue that is damaged is not opened and not changed; of a crash only the last change may be torn."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.topics.disk import DATA, NOW, Disk, append, create, told

from headgate.log.filesystem import MemoryFileSystem, read_file
from headgate.log.walking import walk_batches
from headgate.server.identity import FILE_NAME, check_identity, cluster_id
from headgate.topics.catalogue import CatalogueCorrupt
from headgate.topics.clean_stop import CLEAN_SHUTDOWN_FILE, CleanStop
from headgate.topics.topics import Topics

CATALOGUE = DATA / "catalogue"
LOG = CATALOGUE / f"{0:020d}.log"
TOPICS = 20


def filled(disk: Disk, *, is_closed: bool) -> list[object]:
    """Twenty topics, each made by a change of its own; what clients are told of them."""
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
    """Start as a node does, which looks at the cluster's id before anything is changed."""
    check = partial(check_identity, disk.files, DATA)
    return Topics.open(disk.files, DATA, disk.settings, NOW, check)


def contents(files: MemoryFileSystem, directory: Path = DATA) -> dict[str, bytes]:
    """Every file below a directory."""
    found: dict[str, bytes] = {}
    for name in files.listdir(directory):
        try:
            found |= contents(files, directory / name)
        except NotADirectoryError:
            found[str(directory / name)] = read_file(files, directory / name)
    return found


def positions(disk: Disk) -> list[int]:
    """Where the changes of the catalogue begin, and where they end."""
    file = disk.files.open(LOG)
    return [position for position, _, _ in walk_batches(file, 0, file.size())] + [file.size()]


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("which", [0, 9, TOPICS - 1, TOPICS])
@pytest.mark.parametrize("at", [3, 9, 16, 19, 30, 75])
def test_a_flipped_byte_keeps_the_catalogue_shut(disk: Disk, is_closed: bool, which: int, at: int) -> None:
    """In the first change, in the midst and in the last: nothing goes on without what was answered."""
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
    """Between two changes or within one, or gone: what was answered is missed."""
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
    """It was not answered: the start goes on without it."""
    before = filled(disk, is_closed=False)
    file = disk.files.open(LOG)
    last = file.pread(file.size(), positions(disk)[-2])
    file.pwrite(last[: len(last) // 2], file.size())
    assert told(disk.start()) == before


@pytest.mark.parametrize("is_closed", [True, False])
def test_an_old_copy_of_the_catalogue_is_not_taken_for_the_new_one(disk: Disk, is_closed: bool) -> None:
    """Logs of topics it does not know, or of partitions, are there; or it ends before it was closed."""
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


def test_a_directory_that_holds_no_log_is_nobodys_business(disk: Disk) -> None:
    """Only a log is missed by a catalogue that does not know it."""
    before = filled(disk, is_closed=True)
    disk.files.make_directory(DATA / "notes-1")
    disk.files.open(DATA / "notes-2", create=True).pwrite(b"a file", 0)
    assert told(disk.start()) == before


def test_partitions_without_a_catalogue_are_not_started_on(disk: Disk) -> None:
    """An empty catalogue would take them for nobody's."""
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


def test_the_cluster_id_is_what_it_was(disk: Disk) -> None:
    """A file that is gone is written again from the catalogue; another cluster's is refused."""
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


def test_the_cluster_id_of_an_older_directory_is_noted(disk: Disk) -> None:
    """The catalogue learns it from the file once."""
    topics = disk.start()
    create(topics, disk, "letters")
    disk.files.open(DATA / FILE_NAME, create=True).pwrite(b"version=1\ncluster.id=abc\n", 0)
    assert cluster_id(disk.files, topics, NOW) == "abc"
    assert topics.cluster_id == "abc"
    disk.files.kill()
    disk.files.remove(DATA / FILE_NAME)
    assert cluster_id(disk.files, disk.start(), NOW) == "abc"


def test_the_marker_of_a_clean_stop_that_says_nothing_is_none(disk: Disk) -> None:
    """Then the start is one after a crash."""
    before = filled(disk, is_closed=True)
    stop = CleanStop(("ab-0", "cd-1"), 7)
    assert CleanStop.decode(stop.encode()) == stop
    for text in (
        stop.encode().replace(b"ab-0", b"ab-1"),
        stop.encode().replace(b" 7", b" 3"),
        b"",
        b'{"v": 1, "unrecovered": [], "catalogue": "many"}',
        b'{"v": 1}',
        b"[]",
        b'{"v": 2}',
    ):
        disk.files.open(DATA / CLEAN_SHUTDOWN_FILE, create=True).pwrite(text, 0)
        disk.files.open(DATA / CLEAN_SHUTDOWN_FILE).truncate(len(text))
        topics = disk.start()
        assert told(topics) == before
        assert CLEAN_SHUTDOWN_FILE not in disk.files.listdir(DATA)
