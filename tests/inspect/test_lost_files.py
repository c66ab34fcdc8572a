"""Files cut short, gone, swapped, renamed or of nobody are found, and told apart by what they cost."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.inspect.damage import CATALOGUE, FIRST, LAST, MIDDLE, batch_positions, crash, flip
from tests.inspect.support import FLIGHTS, OFFSETS, errors, notes, open_topics

from headgate.domain.ids import GROUP_OFFSETS_TOPIC


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


def test_a_missing_catalogue_is_an_error_and_the_partitions_are_checked_all_the_same(data_dir: Path) -> None:
    """Its topics are then known by their directories."""
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
    assert all("does not start without a catalogue" in one.next_step for one in found)
