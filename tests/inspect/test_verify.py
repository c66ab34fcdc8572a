"""Every fault put into a data directory is found, and told apart from what a crash leaves."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.inspect.support import (
    FLIGHTS,
    NOW,
    OFFSETS,
    commit_of,
    coordinator_batch,
    errors,
    notes,
    open_topics,
    produce,
)

from headgate.domain.ids import GROUP_OFFSETS_TOPIC
from headgate.inspect.findings import LISTED_PER_FILE, Severity
from headgate.inspect.verify import verify
from headgate.log.batch import Record, encode_batch
from headgate.log.filesystem import OsFileSystem
from headgate.log.header import CRC_END, HEADER_BYTES
from headgate.log.log import Log, LogSettings, Recovery
from headgate.log.swap import COMPACTION_NAME, CompactionState, decide, prepare, save_compacted_to
from headgate.log.walking import walk_batches

FIRST, MIDDLE, LAST = (f"{FLIGHTS}/{base:020d}.log" for base in (0, 99, 195))
CATALOGUE = f"catalogue/{0:020d}.log"

FIELDS = {
    "base offset": 7,
    "length": 10,
    "leader epoch": 15,
    "magic": 16,
    "crc": 18,
    "attributes": 22,
    "last offset delta": 26,
    "base timestamp": 30,
    "max timestamp": 40,
    "producer id": 50,
    "producer epoch": 52,
    "base sequence": 56,
    "record count": 60,
    "records": 70,
}
"""A byte of each field of a batch."""


def flip(path: Path, at: int, mask: int = 0x01) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


def batch_positions(path: Path) -> list[int]:
    """Where the batches of a segment begin."""
    file = OsFileSystem().open(path)
    try:
        return [position for position, _, _ in walk_batches(file, 0, file.size())]
    finally:
        file.close()


def crash(data_dir: Path) -> None:
    """Take the trace of the clean stop away."""
    (data_dir / "clean-shutdown").unlink()


def snapshot(data_dir: Path) -> dict[Path, tuple[int, bytes]]:
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes()) for path in data_dir.rglob("*") if path.is_file()
    }


def test_a_directory_closed_well_has_nothing_wrong_and_is_not_changed(data_dir: Path) -> None:
    """Everything is looked at, nothing is found, and not a file is touched."""
    before = snapshot(data_dir)
    report = verify(data_dir)
    assert report.findings.errors == 0
    assert [found.file for found in report.findings.listed] == [OFFSETS]  # the record of an unknown type
    looked = report.findings.looked
    assert (looked.topics, looked.partitions, looked.segments) == (2, 3, 8)
    assert looked.records >= 3 * 83
    assert looked.size_bytes == sum(path.stat().st_size for path in data_dir.rglob("*.log"))
    assert snapshot(data_dir) == before


# Flipped bytes.


@pytest.mark.parametrize("which", ["first", "middle", "last"])
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", [FIRST, MIDDLE, LAST, CATALOGUE])
def test_a_flipped_byte_in_a_batch_is_found_there(data_dir: Path, name: str, field: str, which: str) -> None:
    """Every field of a batch counts, in every segment, also those that no checksum covers."""
    positions = batch_positions(data_dir / name)
    position = {"first": positions[0], "middle": positions[len(positions) // 2], "last": positions[-1]}[which]
    flip(data_dir / name, position + FIELDS[field])
    found = [error for error in errors(data_dir) if error.file == name]
    assert found
    following = [each for each in positions if each > position]
    # An offset that is too large shows where the next one follows.
    assert found[0].position in (position, *following[:1], None)


@pytest.mark.parametrize(
    "name",
    [
        f"{FLIGHTS}/{99:020d}.index",
        f"{FLIGHTS}/{195:020d}.index",
        f"{FLIGHTS}/{99:020d}.timeindex",
        f"{FLIGHTS}/{195:020d}.timeindex",
        f"{FLIGHTS}/leader-epoch-checkpoint",
        f"{FLIGHTS}/producers.snapshot",
        f"{FLIGHTS}/headgate.checkpoint",
        f"{FLIGHTS}/headgate.synced",
        f"{OFFSETS}/shard.checkpoint",
        "clean-shutdown",
    ],
)
def test_a_flipped_byte_beside_the_log_is_found(data_dir: Path, name: str) -> None:
    """Indexes, snapshots and markers: whichever byte is wrong, there is an error that names the file."""
    path = data_dir / name
    whole = path.read_bytes()
    chance = random.Random(name)
    for at in sorted(chance.sample(range(len(whole)), min(len(whole), 14))):
        flip(path, at, 1 << chance.randrange(8))
        found = errors(data_dir)
        assert found, f"byte {at}"
        # Wrong leader epochs show in the batches that do not agree with them.
        assert name in {error.file for error in found} or "leader-epoch-checkpoint" in found[0].what
        path.write_bytes(whole)
    assert errors(data_dir) == []


def test_a_cluster_id_that_is_none_is_found(data_dir: Path) -> None:
    """The node's identity must be there and read."""
    path = data_dir / "meta.properties"
    path.write_text("version=1\ncluster.id=short\n")
    assert [error.file for error in errors(data_dir)] == ["meta.properties"]
    path.unlink()
    assert [error.file for error in errors(data_dir)] == ["meta.properties"]


# Files cut short.


@pytest.mark.parametrize("name", [FIRST, MIDDLE, LAST, CATALOGUE])
@pytest.mark.parametrize("is_between_batches", [False, True])
def test_a_log_cut_short_after_a_clean_stop_is_damage(
    data_dir: Path, name: str, is_between_batches: bool
) -> None:
    """Within a batch or between two: after a clean stop there is no torn tail."""
    path = data_dir / name
    cut = batch_positions(path)[-1]
    os.truncate(path, cut if is_between_batches else cut + 30)
    found = errors(data_dir)
    assert found
    if not is_between_batches:
        assert (found[0].file, found[0].position) == (name, cut)


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
def test_a_file_beside_the_log_cut_short_is_found(data_dir: Path, name: str, left: int) -> None:
    """An index that ends before its segment does is as wrong as one that ends within an entry."""
    path = data_dir / name
    os.truncate(path, left if left >= 0 else path.stat().st_size + left)
    assert name in {error.file for error in errors(data_dir)}


def test_a_checkpoint_of_no_use_is_noted_because_the_log_is_read_instead(data_dir: Path) -> None:
    """It is whole, but the log went another way: the next start does without it."""
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
    assert "it stands for" in found.what


def test_an_empty_index_is_noted_because_a_wider_spacing_explains_it(data_dir: Path) -> None:
    """A segment smaller than `index.interval.bytes` has no entry, and that setting may have changed."""
    os.truncate(data_dir / FLIGHTS / f"{99:020d}.index", 0)
    assert errors(data_dir) == []
    assert any("the log calls for 6 entries" in note.what for note in notes(data_dir))


# Whole files gone, swapped, renamed.


def every_file(data_dir: Path, base: int) -> list[Path]:
    return [data_dir / FLIGHTS / f"{base:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")]


@pytest.mark.parametrize("base", [0, 48, 99, 150, 195])
def test_a_segment_that_is_gone_is_missed(data_dir: Path, base: int) -> None:
    """The first, one in the middle and the last: with its indexes or without them."""
    log, *indexes = every_file(data_dir, base)
    log.unlink()
    assert errors(data_dir)
    for index in indexes:
        index.unlink()
    assert errors(data_dir)


def test_swapped_segments_are_found(data_dir: Path) -> None:
    """Two segments under each other's names are told to be out of place, both of them."""
    for one, other in zip(every_file(data_dir, 48), every_file(data_dir, 99), strict=True):
        aside = one.with_name("aside")
        one.rename(aside)
        other.rename(one)
        aside.rename(other)
    found = {error.file for error in errors(data_dir)}
    assert {f"{FLIGHTS}/{48:020d}.log", f"{FLIGHTS}/{99:020d}.log"} <= found


def test_a_segment_under_a_wrong_name_is_found(data_dir: Path) -> None:
    """The name is the first offset."""
    log = every_file(data_dir, 99)[0]
    log.rename(log.with_name(f"{100:020d}.log"))
    assert any(
        error.file.endswith(f"{100:020d}.log") and "begins at 99" in error.what for error in errors(data_dir)
    )


def test_files_renamed_away_are_missed_and_noted(data_dir: Path) -> None:
    """A log under a name that is none leaves its indexes behind, and a name nobody knows."""
    log, index, _ = every_file(data_dir, 99)
    log.rename(log.with_suffix(".bak"))
    assert any("is missing" in error.what and error.file.endswith(index.name) for error in errors(data_dir))
    assert any(note.file.endswith(".bak") for note in notes(data_dir))


def test_an_index_that_is_gone_is_noted_because_it_is_built_again(data_dir: Path) -> None:
    """Nothing is lost with an index."""
    every_file(data_dir, 99)[1].unlink()
    assert errors(data_dir) == []
    assert any(note.file == f"{FLIGHTS}/{99:020d}.index" for note in notes(data_dir))


@pytest.mark.parametrize("name", ["nobodys-0", "flights-2", "flights-00"])
def test_a_directory_the_catalogue_does_not_know_is_an_error(data_dir: Path, name: str) -> None:
    """No such topic, no such partition, or a number written in another way."""
    shutil.copytree(data_dir / FLIGHTS, data_dir / name)
    assert [error.file for error in errors(data_dir)] == [name]


def test_what_a_deletion_left_is_noted(data_dir: Path) -> None:
    """A directory of a deleted topic, or one already out of sight, goes at the next start."""
    shutil.copytree(data_dir / FLIGHTS, data_dir / "gone-0")
    shutil.copytree(data_dir / FLIGHTS, data_dir / "gone-0.delete")
    assert errors(data_dir) == []
    assert {"gone-0", "gone-0.delete"} <= {note.file for note in notes(data_dir)}


def test_files_of_nobody_are_noted(data_dir: Path) -> None:
    """What a server does not know it leaves alone; an interrupted write is told to be one."""
    (data_dir / "README").write_text("hello")
    (data_dir / FLIGHTS / "headgate.checkpoint.tmp").write_text("half")
    (data_dir / FLIGHTS / "notes.txt").write_text("hello")
    assert errors(data_dir) == []
    noted = {note.file: note.what for note in notes(data_dir)}
    assert {"README", f"{FLIGHTS}/notes.txt"} <= noted.keys()
    assert "written aside" in noted[f"{FLIGHTS}/headgate.checkpoint.tmp"]


# The catalogue.


def test_a_missing_catalogue_is_an_error_and_the_partitions_are_checked_all_the_same(data_dir: Path) -> None:
    """Its topics are then known by their directories."""
    shutil.rmtree(data_dir / "catalogue")
    flip(data_dir / MIDDLE, 70)
    assert {error.file for error in errors(data_dir)} == {"catalogue", MIDDLE}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"{", "is not JSON"),
        (b"[]", "has no version"),
        (b'{"v": 1}', "has no type"),
        (b'{"v": 2, "type": "topic-deleted", "id": ""}', "has version 2"),
        (b'{"v": 1, "type": "topic-deleted", "id": "no hexadecimal"}', "is not one of ours"),
    ],
)
def test_a_catalogue_record_that_says_nothing_is_an_error(data_dir: Path, value: bytes, says: str) -> None:
    """Its checksum holds, and yet no server starts with it."""
    append(data_dir / CATALOGUE, encode_batch([Record(None, value, NOW)]))
    assert any(says in error.what for error in errors(data_dir))


def append(path: Path, *batches: bytearray, epoch: int = 0) -> None:
    """Put batches at the end of a segment, and take its indexes away, which do not know them."""
    file = OsFileSystem().open(path)
    end = [header.next_offset for _, header, _ in walk_batches(file, 0, file.size())][-1]
    file.close()
    for batch in batches:
        batch[:8] = end.to_bytes(8, "big")
        batch[12:16] = epoch.to_bytes(4, "big")
        end += int.from_bytes(batch[23:27], "big") + 1
        with path.open("ab") as log:
            log.write(batch)
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).unlink(missing_ok=True)


# After a crash.


def dropped_at_start(data_dir: Path) -> list[Recovery]:
    """What the next start drops from the log of flights-0, told by the start itself."""
    dropped: list[Recovery] = []
    files = OsFileSystem()
    log = Log.open(files, data_dir / FLIGHTS, LogSettings(), clean=False, on_truncated=dropped.append)
    log.close_files()
    return dropped


@pytest.mark.parametrize("left", [1, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 1, -1])
def test_a_tail_torn_by_a_crash_is_noted_with_the_bytes_the_next_start_cuts(
    data_dir: Path, left: int
) -> None:
    """However much of the last batch is there: what is foretold is what recovery does."""
    crash(data_dir)
    (data_dir / FLIGHTS / "headgate.synced").unlink()  # no sync had reached it
    path = data_dir / LAST
    last = batch_positions(path)[-1]
    size = path.stat().st_size
    os.truncate(path, last + left if left > 0 else size + left)
    assert errors(data_dir) == []
    (note,) = [note for note in notes(data_dir) if note.file == LAST]
    assert note.position == last
    foretold = re.search(r"cuts these (\d+) bytes", note.next_step)
    assert foretold is not None
    assert [recovery.dropped_bytes for recovery in dropped_at_start(data_dir)] == [int(foretold[1])]
    assert not [note for note in notes(data_dir) if note.file == LAST]


@pytest.mark.parametrize("tail", [b"\x00" * 500, b"\xff" * 500, b"garbage " * 60])
def test_a_tail_of_anything_is_noted_after_a_crash(data_dir: Path, tail: bytes) -> None:
    """Zeros are what a file system leaves of a file that grew before its contents came."""
    crash(data_dir)
    with (data_dir / LAST).open("ab") as log:
        log.write(tail)
    assert errors(data_dir) == []
    assert any(note.file == LAST and "cuts these" in note.next_step for note in notes(data_dir))


@pytest.mark.parametrize("at", ["crc", "records", "length", "base offset"])
def test_a_bad_batch_with_whole_ones_behind_it_is_damage_even_after_a_crash(data_dir: Path, at: str) -> None:
    """A crash tears the end only; and what is whole behind the damage would be lost at the next start."""
    crash(data_dir)
    positions = batch_positions(data_dir / LAST)
    flip(data_dir / LAST, positions[-3] + FIELDS[at])
    found = [error for error in errors(data_dir) if error.file == LAST]
    assert found[0].position == positions[-3]
    assert "before the next start" in found[0].next_step


def test_damage_in_a_closed_segment_is_damage_even_after_a_crash(data_dir: Path) -> None:
    """A segment is closed when it is durable, so no crash explains a torn one."""
    crash(data_dir)
    os.truncate(data_dir / MIDDLE, batch_positions(data_dir / MIDDLE)[-1] + 20)
    assert MIDDLE in {error.file for error in errors(data_dir)}


def test_an_index_the_next_start_builds_anew_is_only_noted(data_dir: Path) -> None:
    """After a crash the last segment is read whole; below the recovery point indexes are believed."""
    crash(data_dir)
    flip(data_dir / FLIGHTS / f"{195:020d}.index", 3)
    assert errors(data_dir) == []
    assert any(note.file.endswith(".index") for note in notes(data_dir))
    flip(data_dir / FLIGHTS / f"{99:020d}.index", 3)
    assert [error.file for error in errors(data_dir)] == [f"{FLIGHTS}/{99:020d}.index"]


def test_a_life_that_ends_in_a_crash_leaves_notes_only(data_dir: Path) -> None:
    """The index a clean stop left is behind the log, and the new epoch may have written nothing yet."""
    crash(data_dir)
    topics = open_topics(data_dir)
    flights = topics.by_name("flights")
    assert flights is not None
    produce(flights, 80, 5)
    produce(flights, 3, 1, partition=1)
    flights.partition(0).log.close_files()
    flights.partition(1).log.close_files()
    assert errors(data_dir) == []
    assert [note.file for note in notes(data_dir)] == ["clean-shutdown", OFFSETS]


def test_records_the_disk_had_and_has_no_more_are_found(data_dir: Path) -> None:
    """What was synced cannot be torn: a log shorter than that lost something, after a crash too."""
    crash(data_dir)
    path = data_dir / LAST
    os.truncate(path, batch_positions(path)[-1])
    assert f"{FLIGHTS}/headgate.synced" in {error.file for error in errors(data_dir)}


# Records.


def test_records_that_do_not_unpack_under_a_checksum_that_holds_are_an_error(data_dir: Path) -> None:
    """A producer may send anything under a good checksum; readers fail on it."""
    batch = encode_batch([Record(b"k", b"v" * 100, NOW)])
    batch[-1] = 9  # more headers than there are bytes
    from crc32c import crc32c

    batch[17:21] = crc32c(batch[CRC_END:]).to_bytes(4, "big")
    append(data_dir / LAST, batch, epoch=1)
    (error,) = errors(data_dir)
    assert (error.file, "do not read" in error.what) == (LAST, True)


OFFSETS_LOG = f"{OFFSETS}/{0:020d}.log"


def test_a_coordinator_record_that_does_not_decode_is_an_error(data_dir: Path) -> None:
    """The coordinator could not load this log."""
    append(data_dir / OFFSETS_LOG, encode_batch([Record(b"\x00\x01\x00\x09x", b"", NOW)]), epoch=1)
    assert any("none of the coordinator's" in error.what for error in errors(data_dir))


def run_of(total: int, parts: list[int], first_offset: int) -> list[bytearray]:
    """Batches with so many records each of a run."""
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
        ([3, 2], False, "breaks off at the end of the log: 5 of 6 records from offset 6"),
        ([3, 2], True, "broke off before here: 5 of 6 records from offset 6"),
    ],
)
def test_torn_runs_are_noted_by_where_they_are(
    data_dir: Path, parts: list[int], is_followed: bool, says: str | None
) -> None:
    """Whole: nothing to say. At the tail: the next start mends it. In the middle: harmless."""
    batches = run_of(6, parts, first_offset=6)
    if is_followed:
        batches.append(coordinator_batch(commit_of(0, 10)))
    append(data_dir / OFFSETS_LOG, *batches, epoch=1)
    assert errors(data_dir) == []
    said = [note.what for note in notes(data_dir) if "over several batches" in note.what]
    assert len(said) == (says is not None)
    assert says is None or says in said[0]


# Compaction, and too much of everything.


@pytest.fixture
def compacted(data_dir: Path) -> Path:
    """The coordinator's log in many segments; compaction took a batch out of the second and the third."""
    topics = open_topics(data_dir)
    offsets = topics.by_name(GROUP_OFFSETS_TOPIC)
    assert offsets is not None
    topics.set_overrides(offsets, {**offsets.overrides, "segment.bytes": "1024"}, NOW)
    for number in range(56):
        offsets.partition(0).append_internal([coordinator_batch(commit_of(number, number))])
    topics.close()
    logs = sorted((data_dir / OFFSETS).glob("*.log"))
    assert len(logs) > 5
    for path in logs[1:3]:
        take_out(path, 1)
    save_compacted_to(OsFileSystem(), data_dir / OFFSETS, int(logs[3].stem))
    return data_dir


def take_out(path: Path, which: int) -> None:
    """Remove a batch from a segment, and its indexes, which do not know of it."""
    positions = batch_positions(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: positions[which]] + whole[positions[which + 1] :])
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).unlink()


def test_gaps_are_nothing_wrong_where_compaction_was_and_damage_where_it_was_not(compacted: Path) -> None:
    """Compaction says how far it came: beyond that no record may be missing, compacted topic or not."""
    assert errors(compacted) == []
    logs = sorted((compacted / OFFSETS).glob("*.log"))
    take_out(logs[4], 1)
    take_out(logs[-1], 1)
    assert [error.file for error in errors(compacted)] == [
        f"{OFFSETS}/{logs[4].name}",
        f"{OFFSETS}/{logs[-1].name}",
    ]


def test_whole_segments_missing_past_what_was_compacted_are_missed(compacted: Path) -> None:
    """Also in the coordinator's log."""
    gone = sorted((compacted / OFFSETS).glob("*.log"))[4]
    for suffix in (".log", ".index", ".timeindex"):
        gone.with_suffix(suffix).unlink()
    (error,) = errors(compacted)
    assert f"begins where offset {int(gone.stem)} was due" in error.what


def test_a_flipped_byte_in_what_compaction_noted_is_found(compacted: Path) -> None:
    """Every byte of it counts."""
    path = compacted / OFFSETS / COMPACTION_NAME
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        flip(path, at)
        assert any(error.file == f"{OFFSETS}/{COMPACTION_NAME}" for error in errors(compacted)), at
        path.write_bytes(whole)


def test_a_compaction_a_crash_interrupted_is_checked_as_the_next_start_will_see_it(compacted: Path) -> None:
    """Decided: the new files count, though they still stand aside. Undecided: they are a leftover."""
    crash(compacted)
    directory = compacted / OFFSETS
    bases = [int(path.stem) for path in sorted(directory.glob("*.log"))]
    kept, removed = directory / f"{bases[3]:020d}.log", directory / f"{bases[4]:020d}.log"
    aside = kept.with_name(kept.name + ".cleaned")
    aside.write_bytes(kept.read_bytes() + removed.read_bytes())
    assert errors(compacted) == []
    assert any(note.file == f"{OFFSETS}/{aside.name}" for note in notes(compacted))

    files = OsFileSystem()
    prepare(files, directory, CompactionState(bases[5], (bases[3], bases[4]), (bases[3],)))
    decide(files, directory)
    removed.unlink()
    assert errors(compacted) == []
    noted = {note.file for note in notes(compacted)}
    assert f"{OFFSETS}/{COMPACTION_NAME}" in noted
    assert f"{OFFSETS}/{aside.name}" not in noted
    flip(aside, 70)
    assert [error.file for error in errors(compacted)] == [f"{OFFSETS}/{aside.name}"]


def test_of_thousands_of_findings_in_a_file_a_hundred_are_listed(data_dir: Path) -> None:
    """The rest is counted."""
    index = data_dir / FLIGHTS / f"{99:020d}.index"
    index.write_bytes(b"".join(at.to_bytes(4, "big") * 2 for at in range(1, 400)))
    findings = verify(data_dir).findings
    name = f"{FLIGHTS}/{index.name}"
    assert sum(found.file == name for found in findings.listed) == LISTED_PER_FILE
    assert findings.not_listed[Severity.ERROR, name] == findings.errors - LISTED_PER_FILE > 100


def test_whatever_the_bytes_a_check_ends_with_findings(data_dir: Path) -> None:
    """Random damage of many kinds never raises, and is never taken for a whole directory."""
    chance = random.Random(2013)
    files = [path for path in data_dir.rglob("*") if path.stat().st_size and path.suffix != ".properties"]
    faults: list[Callable[[bytes, int], bytes]] = [
        lambda data, at: data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :],
        lambda data, at: data[:at] + bytes(len(data) - at),
        lambda data, at: data[:at] + chance.randbytes(40) + data[at:],
        lambda data, at: data[:at] + data[at + 5 :],
    ]
    for _ in range(100):
        path = chance.choice([path for path in files if path.is_file()])
        whole = path.read_bytes()
        damaged = chance.choice(faults)(whole, chance.randrange(len(whole)))
        path.write_bytes(damaged)
        assert errors(data_dir) or damaged == whole, path
        path.write_bytes(whole)
    assert json.loads((data_dir / "clean-shutdown").read_text())["v"] == 1
