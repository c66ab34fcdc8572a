"""A mended log opens, and has every batch that can be read, at its offset."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.log.support import DIRECTORY, SMALL, Place, append, batch_at, contents, memory

from headgate.log.batch import Record, encode_batch, read_header
from headgate.log.checkpoint import CHECKPOINT_NAME
from headgate.log.filesystem import Fault, MemoryFileSystem, PowerCut, read_file
from headgate.log.filling import Loss
from headgate.log.known_log import KnownLog
from headgate.log.log import Log, LogSettings
from headgate.log.losses import find_losses
from headgate.log.markers import EndMarker, encode_marker, read_marker
from headgate.log.mending import mend
from headgate.log.rewriting import with_place
from headgate.log.swap import COMPACTION_NAME, save_compacted_to
from headgate.log.sync_mark import SYNC_MARK_NAME, load_sync_mark
from headgate.log.transaction_index import AbortedTransaction, AbortedTransactions
from headgate.log.walking import walk_batches

COUNT = 30
BATCH = 3


def written(settings: LogSettings = SMALL) -> tuple[Place, list[bytes]]:
    """A closed log of batches of three records, and its batches."""
    place = Place(memory(), settings=settings)
    log = place.open()
    batches = [append(log, BATCH) for _ in range(COUNT)]
    log.close()
    return place, batches


def segments(place: Place) -> list[Path]:
    names = [name for name in place.files.listdir(DIRECTORY) if name.endswith(".log")]
    return [DIRECTORY / name for name in sorted(names)]


def change(place: Place, path: Path, data: bytes) -> None:
    file = place.files.open(path, create=True)
    file.truncate(0)
    file.pwrite(data, 0)
    file.datasync()


def flip(place: Place, path: Path, at: int, mask: int = 0x10) -> None:
    data = bytearray(read_file(place.files, path))
    data[at] ^= mask
    change(place, path, bytes(data))


def mended(place: Place, *, clean: bool = True) -> list[Loss]:
    """Mend the log, see that a repetition finds nothing, and return the losses."""
    found = find_losses(place.files, DIRECTORY, clean=clean, known=KnownLog())
    mend(place.files, DIRECTORY, found, place.settings.index_interval_bytes)
    again = find_losses(place.files, DIRECTORY, clean=clean, known=KnownLog())
    assert again.places == []
    assert not any(one.is_changed for one in again.segments)
    return found.places


def check(place: Place, kept: list[bytes], *, clean: bool = True, end: int = COUNT * BATCH) -> None:
    """See that the log has these batches, each at its place, and others without records between them."""
    log = place.open(clean=clean)
    assert not place.reported
    assert log.log_end_offset == end
    found = contents(log)
    assert [batch for batch in found if read_header(batch).record_count] == kept
    position = log.log_start_offset
    for header in map(read_header, found):
        assert header.base_offset == position
        position = header.next_offset
    for offset in range(log.log_start_offset, end):
        data = log.read(offset, 1, minimum_one=True)
        header = read_header(data)
        assert header.base_offset <= offset <= header.last_offset
    assert place.open(clean=False).log_end_offset == end


def test_a_whole_log_is_not_changed() -> None:
    """Not a byte of it."""
    place, batches = written()
    assert isinstance(place.files, MemoryFileSystem)
    changes = place.files.operations
    assert mended(place) == []
    assert place.files.operations - changes <= 2, "the sync mark is written again, and nothing else"
    check(place, batches)


@pytest.mark.parametrize("settings", [SMALL, LogSettings()], ids=["many segments", "one segment"])
@pytest.mark.parametrize("seed", range(40))
def test_whatever_was_flipped_every_other_batch_is_read(settings: LogSettings, seed: int) -> None:
    """Up to three bytes anywhere but in the fields without a checksum; after both kinds of ends."""
    rng = Random(seed)
    place, batches = written(settings)
    clean = bool(seed % 2)
    if not clean:
        assert isinstance(place.files, MemoryFileSystem)
        place.files.kill()
    bad = set()
    for _ in range(rng.randint(1, 3)):
        number = rng.randrange(COUNT)
        bad.add(number)
        damage(place, batches, number, rng.randrange(17, len(batches[number])), 1 << rng.randrange(8))
    kept = [batch for number, batch in enumerate(batches) if number not in bad]
    losses = mended(place, clean=clean)
    lost = {offset for one in losses for offset in range(one.first_offset, one.end_offset)}
    assert lost == {number * BATCH + at for number in bad for at in range(BATCH)}
    check(place, kept, clean=clean)


def damage(place: Place, batches: list[bytes], number: int, at: int, mask: int) -> None:
    """Change one byte of a batch. A second change of the same one does not undo the first."""
    path = max(one for one in segments(place) if int(one.stem) <= number * BATCH)
    data = read_file(place.files, path)
    first = int(path.stem) // BATCH
    position = sum(map(len, batches[first:number]))
    if data[position + 17 : position + len(batches[number])] == batches[number][17:]:
        flip(place, path, position + at, mask)


@pytest.mark.parametrize("number", [0, 7, COUNT - 1], ids=["first", "in the middle", "last"])
@pytest.mark.parametrize("at", range(17), ids=lambda at: f"byte {at}")
@pytest.mark.parametrize("mask", [0x01, 0x80])
def test_a_header_without_checksum_is_restored(number: int, at: int, mask: int) -> None:
    """Base offset, length, leader epoch, magic: all can be told from the batches around."""
    place, batches = written(LogSettings())
    flip(place, segments(place)[0], sum(map(len, batches[:number])) + at, mask)
    found = find_losses(place.files, DIRECTORY, clean=True, known=KnownLog([(0, 0)], newest=0))
    mend(place.files, DIRECTORY, found, 4096)
    assert all(one.first_offset == one.end_offset for one in found.places)
    check(place, batches)


@pytest.mark.parametrize("which", [0, 2, -1], ids=["first", "in the middle", "last"])
@pytest.mark.parametrize("left", ["nothing", "no bytes", "a part"])
def test_a_missing_segment_becomes_offsets_without_records(which: int, left: str) -> None:
    """Or an empty one, or one that was cut."""
    place, batches = written()
    path = segments(place)[which]
    data = read_file(place.files, path)
    if left == "nothing":
        place.files.remove(path)
    else:
        change(place, path, b"" if left == "no bytes" else data[: len(data) // 2])
    losses = mended(place)
    lost = {offset for one in losses for offset in range(one.first_offset, one.end_offset)}
    kept = [one for one in batches if read_header(one).base_offset not in lost]
    inside = [one for one in batches if one in data]
    assert len(batches) - len(kept) == (len(inside) if left != "a part" else (len(inside) + 1) // 2)
    check(place, kept)


def test_a_log_of_which_nothing_is_left_keeps_its_end() -> None:
    """New records get offsets that nobody has seen."""
    place, _ = written()
    for path in segments(place):
        place.files.remove(path)
    (loss,) = mended(place)
    assert (loss.first_offset, loss.end_offset) == (0, COUNT * BATCH)
    check(place, [])
    log = place.open(clean=True)
    append(log)
    assert contents(log)[-1] == batch_at(COUNT * BATCH)


def test_batches_that_are_there_twice_lose_nothing() -> None:
    """The second ones are dropped."""
    place, batches = written()
    path = segments(place)[1]
    data = read_file(place.files, path)
    change(place, path, data + data[-2 * len(batches[-1]) :])
    (loss,) = mended(place)
    assert loss.first_offset == loss.end_offset
    assert loss.dropped_bytes
    check(place, batches)


def one_segment() -> tuple[Place, list[bytes], list[int]]:
    """A closed log in one segment, its batches, and where each begins; the last position is the end."""
    place, batches = written(LogSettings())
    return place, batches, [sum(map(len, batches[:number])) for number in range(COUNT + 1)]


def overwrite(place: Place, position: int, data: bytes) -> None:
    path = segments(place)[0]
    whole = bytearray(read_file(place.files, path))
    whole[position : position + len(data)] = data
    change(place, path, bytes(whole))


@pytest.mark.parametrize("ending", ["closed", "killed"])
@pytest.mark.parametrize("shift", [100_000, 20 * BATCH, 0], ids=["higher offsets", "later", "as they are"])
def test_a_page_of_other_batches_costs_no_more_than_it_covers(shift: int, ending: str) -> None:
    """Of another log, or of this one from further behind: whole batches whose offsets do not fit."""
    place, batches, at = one_segment()
    page = bytearray(read_file(place.files, segments(place)[0])[at[20] : at[20] + 600])
    for position in range(0, 600 - 60, len(batches[0])):
        moved = BATCH * 20 + position // len(batches[0]) * BATCH + shift
        page[position : position + 8] = moved.to_bytes(8, "big")
    overwrite(place, at[5] + 40, bytes(page))
    if ending == "killed":
        assert isinstance(place.files, MemoryFileSystem)
        place.files.kill()
    clean = ending == "closed"
    mended(place, clean=clean)
    last = next(number for number in range(COUNT) if at[number] >= at[5] + 640)
    check(place, batches[:5] + batches[last:], clean=clean)


@pytest.mark.parametrize("at_field", [3, 16], ids=["base offset", "format"])
@pytest.mark.parametrize("first", [0, 10, COUNT - 3])
@pytest.mark.parametrize("count", [2, 3])
def test_neighbours_with_the_same_wrong_byte_are_restored(at_field: int, first: int, count: int) -> None:
    """No checksum covers it."""
    place, batches, at = one_segment()
    for number in range(first, first + count):
        flip(place, segments(place)[0], at[number] + at_field)
    assert all(one.first_offset == one.end_offset for one in mended(place))
    check(place, batches)


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("number", [0, 10, 28, 29])
def test_no_bit_without_a_checksum_loses_or_moves_a_batch(number: int, count: int, clean: bool) -> None:
    """Whatever the other batches are: it may then look like the next one, or lead to another one."""
    for bit in range(number % 2, 17 * 8, 2):
        place = Place(memory(), settings=LogSettings())
        log = place.open()
        batches = [append(log, count, size=30) for _ in range(30)]
        log.close()
        if not clean:
            assert isinstance(place.files, MemoryFileSystem)
            place.files.kill()
        flip(place, segments(place)[0], number * len(batches[0]) + bit // 8, 1 << bit % 8)
        found = find_losses(place.files, DIRECTORY, clean=clean, known=KnownLog([(0, 0)], newest=0))
        mend(place.files, DIRECTORY, found, 4096)
        assert contents(place.open(clean=clean)) == batches, bit


@pytest.mark.parametrize("bit", range(32))
def test_a_length_that_leads_to_another_batch_is_not_believed(bit: int) -> None:
    """Batches of 128 bytes: many wrong lengths do."""
    place = Place(memory(), settings=LogSettings())
    log = place.open()
    size = next(size for size in range(1, 90) if len(batch_at(0, size=size)) == 128)
    batches = [append(log, size=size) for _ in range(60)]
    log.close()
    flip(place, segments(place)[0], 10 * 128 + 8 + bit // 8, 1 << bit % 8)
    mended(place)
    check(place, batches, end=60)


def test_segments_with_each_others_names_keep_their_offsets() -> None:
    """Nothing of them is damaged."""
    place, batches = written()
    one, other = segments(place)[1:3]
    data = read_file(place.files, one)
    change(place, one, read_file(place.files, other))
    change(place, other, data)
    assert all(loss.first_offset == loss.end_offset for loss in mended(place))
    check(place, batches)


def test_a_segment_that_is_there_twice_is_served_once() -> None:
    """The other one is lost."""
    place, batches = written()
    one, other, after = segments(place)[1:4]
    change(place, other, read_file(place.files, one))
    mended(place)
    lost = range(int(other.stem), int(after.stem))
    check(place, [batch for batch in batches if read_header(batch).base_offset not in lost])


def test_a_copy_behind_the_end_is_no_new_record() -> None:
    """Whatever its offset was."""
    for number in range(COUNT):
        place, batches, _ = one_segment()
        overwrite(place, len(b"".join(batches)), batches[number])
        mended(place)
        check(place, batches)


def test_batches_in_another_order_are_put_into_theirs() -> None:
    """Two neighbours, written in each other's place."""
    place, batches, at = one_segment()
    overwrite(place, at[10], batches[11] + batches[10])
    assert all(one.first_offset == one.end_offset for one in mended(place))
    check(place, batches)


def test_a_wrong_base_offset_before_a_destroyed_header_is_restored() -> None:
    """The batch itself is whole."""
    place, batches, at = one_segment()
    flip(place, segments(place)[0], at[5] + 5)
    overwrite(place, at[6], Random(1).randbytes(16))
    mended(place)
    check(place, batches[:6] + batches[7:])


def test_batches_in_a_value_do_not_count_where_lengths_lead_on() -> None:
    """Also if several batches in a row are damaged."""
    place = Place(memory(), settings=LogSettings())
    log = place.open()
    first = [append(log) for _ in range(3)]
    inner = b"".join(batch_at(200 + number) for number in range(5))
    outer = bytes(encode_batch([Record(b"k", inner, 1)], base_offset=3))
    log.append(outer, [read_header(outer)])
    damaged = append(log)
    rest = [append(log) for _ in range(5)]
    log.close()
    flip(place, segments(place)[0], sum(map(len, first)) + 40)
    flip(place, segments(place)[0], sum(map(len, first)) + len(outer) + 40)
    assert len(damaged) < len(outer)
    mended(place)
    check(place, first + rest, end=10)


@pytest.mark.parametrize("which", [0, 1, -1], ids=["first", "second", "last"])
@pytest.mark.parametrize("moved", [5, -6])
def test_a_segment_with_a_wrong_name_loses_nothing(which: int, moved: int) -> None:
    """Its first batch tells where it begins."""
    place, batches = written()
    path = segments(place)[which]
    base = int(path.stem) + moved
    if base < 0:
        return
    data = read_file(place.files, path)
    for suffix in (".log", ".index", ".timeindex"):
        place.files.remove(path.with_suffix(suffix))
    change(place, path.with_name(f"{base:020d}.log"), data)
    losses = mended(place)
    assert all(one.first_offset == one.end_offset for one in losses)
    assert any("its name is wrong" in one.what for one in losses)
    check(place, batches)


@pytest.mark.parametrize("name", [f"{9 * 10**18:020d}", f"{10**12:020d}"])
def test_a_name_that_no_segment_can_have_is_refused(name: str) -> None:
    """The log does not reach so far."""
    place, _ = written()
    change(place, DIRECTORY / f"{name}.log", b"")
    with pytest.raises(OSError, match="move it away"):
        find_losses(place.files, DIRECTORY, clean=True, known=KnownLog())


@pytest.mark.parametrize("name", ["9" * 20, "\u0661" * 20])
def test_other_names_are_no_segments(name: str) -> None:
    """No offset is so large, and digits are those of ASCII."""
    place, batches = written()
    change(place, DIRECTORY / f"{name}.log", b"")
    assert mended(place) == []
    check(place, batches)


def test_the_end_that_another_file_knows_is_kept() -> None:
    """Without a sync mark, after a clean stop."""
    place, batches, at = one_segment()
    place.files.remove(DIRECTORY / SYNC_MARK_NAME)
    for number in (COUNT - 2, COUNT - 1):
        flip(place, segments(place)[0], at[number] + 40)
    found = find_losses(place.files, DIRECTORY, clean=True, known=KnownLog(end_offset=COUNT * BATCH))
    mend(place.files, DIRECTORY, found, 4096)
    check(place, batches[:-2])


@pytest.mark.parametrize("at_field", [9, 11, 16], ids=["length", "last byte of the length", "format"])
def test_headers_are_restored_in_a_compacted_log(at_field: int) -> None:
    """Gaps around a batch do not matter: its base offset is right."""
    place, batches, _ = one_segment()
    kept = batches[:4] + batches[6:7] + batches[9:]
    data = bytearray(b"".join(kept))
    data[sum(map(len, kept[:4])) + at_field] ^= 1
    change(place, segments(place)[0], bytes(data))
    save_compacted_to(place.files, DIRECTORY, COUNT * BATCH)
    assert all(one.first_offset == one.end_offset for one in mended(place))
    assert contents(place.open(clean=True)) == kept


def test_a_batch_in_a_record_of_a_damaged_batch_is_not_taken_for_one() -> None:
    """Its length leads to the next one; without the length, a batch must be followed by another."""
    place = Place(memory(), settings=LogSettings())
    log = place.open()
    inner = batch_at(1, 50)
    outer = bytes(encode_batch([Record(b"k", inner, 1)], base_offset=0))
    log.append(outer, [read_header(outer)])
    following = [append(log) for _ in range(3)]
    log.close()
    path = segments(place)[0]
    flip(place, path, 40)
    flip(place, path, 9)
    (loss,) = mended(place)
    assert (loss.first_offset, loss.end_offset) == (0, 1)
    check(place, following, end=4)


def test_what_was_being_written_at_a_crash_is_left_to_recovery() -> None:
    """No offset of it was durable."""
    place, batches = written(LogSettings())
    assert isinstance(place.files, MemoryFileSystem)
    place.files.kill()
    path = segments(place)[0]
    torn = batch_at(COUNT * BATCH)[:50]
    change(place, path, read_file(place.files, path) + torn)
    assert mended(place, clean=False) == []
    log = place.open()
    assert contents(log) == batches
    assert place.reported[0].dropped_bytes == len(torn)


def test_the_start_of_a_log_is_kept() -> None:
    """Deleted records do not come back, and those below the start are not missed."""
    place, batches = written()
    log = place.open(clean=True)
    log.delete_before(40)
    log.close()
    flip(place, segments(place)[-1], 30)
    number = int(segments(place)[-1].stem) // BATCH
    place.files.remove(DIRECTORY / CHECKPOINT_NAME)
    losses = mended(place)
    assert [(one.file, one.first_offset) for one in losses] == [
        (CHECKPOINT_NAME, 40),
        (segments(place)[-1].name, number * BATCH),
    ]
    log = place.open(clean=True)
    assert log.log_start_offset == 40
    kept = [one for at, one in enumerate(batches) if at != number and read_header(one).last_offset >= 40]
    assert [one for one in contents(log) if read_header(one).record_count] == kept


def test_a_damaged_checkpoint_is_written_anew() -> None:
    """The log then starts where its first segment does, as far as nothing else is known."""
    place, batches = written()
    change(place, DIRECTORY / CHECKPOINT_NAME, b"no checkpoint")
    (loss,) = mended(place)
    assert (loss.file, loss.first_offset) == (CHECKPOINT_NAME, 0)
    check(place, batches)


@pytest.mark.parametrize("number", [2, 20, COUNT - 2])
def test_an_old_sync_mark_costs_no_batch_behind_it(number: int) -> None:
    """A full disk refused a newer one before the clean stop."""
    place, batches, at = one_segment()
    mark = load_sync_mark(place.files, DIRECTORY)
    old = replace(mark, end_offset=10 * BATCH, position=at[10], last_crc=read_header(batches[9]).crc)
    change(place, DIRECTORY / SYNC_MARK_NAME, old.to_bytes())
    flip(place, segments(place)[0], at[number] + 40)
    mended(place)
    check(place, batches[:number] + batches[number + 1 :])


def test_a_damaged_sync_mark_is_removed() -> None:
    """The log is used without it, too."""
    place, batches = written()
    change(place, DIRECTORY / SYNC_MARK_NAME, b"no mark")
    (loss,) = mended(place)
    assert loss.file == SYNC_MARK_NAME
    assert not place.files.exists(DIRECTORY / SYNC_MARK_NAME)
    check(place, batches)


def test_another_end_than_the_mark_tells_is_kept() -> None:
    """Whole batches, but others than were durable: nothing says which of them."""
    place, batches = written(LogSettings())
    other = batch_at((COUNT - 1) * BATCH, BATCH, size=21)
    data = b"".join(batches[:-1]) + other
    change(place, segments(place)[0], data)
    with pytest.raises(OSError, match="another batch ends at 90"):
        place.open(clean=True)
    (loss,) = mended(place)
    assert loss.what == "another batch ends at 90 than what the disk had; it is kept"
    check(place, [*batches[:-1], other])


def test_gaps_of_a_compaction_stay() -> None:
    """Below the end of the compacted part offsets may be missing."""
    place, batches = written(LogSettings())
    data = b"".join(batch for at, batch in enumerate(batches) if at not in (3, 4, 10))
    change(place, segments(place)[0], data)
    save_compacted_to(place.files, DIRECTORY, 40)
    assert mended(place) == []
    log = place.open(clean=True)
    assert b"".join(contents(log)) == data


def test_offsets_without_records_have_the_epochs_of_their_places() -> None:
    """A client that asks where its epoch ended gets no other end because of them."""
    place, _ = written(LogSettings())
    place.files.remove(segments(place)[0])
    found = find_losses(place.files, DIRECTORY, clean=True, known=KnownLog([(0, 0), (3, 20), (4, 50)]))
    mend(place.files, DIRECTORY, found, 4096)
    headers = [read_header(one) for one in contents(place.open(clean=True))]
    assert [(one.base_offset, one.leader_epoch) for one in headers] == [(0, 0), (20, 3), (50, 4)]


def test_more_offsets_than_a_segment_can_have_get_more_segments() -> None:
    """A segment counts its offsets in 31 bits."""
    place, _ = written()
    for path in segments(place):
        place.files.remove(path)
    mark = load_sync_mark(place.files, DIRECTORY)
    end = (1 << 32) + 5
    change(place, DIRECTORY / SYNC_MARK_NAME, replace(mark, end_offset=end).to_bytes())
    mended(place)
    log = place.open(clean=True)
    assert log.log_end_offset == end
    assert [one.name for one in segments(place)] == [f"{at:020d}.log" for at in (0, 1 << 31, 1 << 32)]


def damaged_twice() -> tuple[Place, MemoryFileSystem]:
    """A log with a damaged batch, and without its last segment. All of it, and the mark, is durable."""
    place, _ = written()
    files = place.files
    assert isinstance(files, MemoryFileSystem)
    flip(place, segments(place)[1], 30)
    files.remove(segments(place)[-1])
    files.open(DIRECTORY / SYNC_MARK_NAME).datasync()
    files.sync_directory(DIRECTORY)
    return place, files


@pytest.mark.parametrize("kind", ["kill", "lose all", "lose some"])
def test_a_crash_at_any_change_is_mended_by_a_repetition(kind: str) -> None:
    """The log is then the same as without the crash."""
    place, _ = damaged_twice()
    mended(place)
    whole = contents(place.open(clean=True))
    for changes in range(200):
        place, files = damaged_twice()
        files.cut_power_after(changes, torn_bytes=changes % 50)
        try:
            mended(place)
        except PowerCut:
            pass
        else:
            break
        if kind == "kill":
            files.kill()
        else:
            files.crash(Random(changes) if kind == "lose some" else None)
        mended(place)
        assert contents(place.open(clean=True)) == whole, changes
    else:
        pytest.fail("mending never came to its end")


@pytest.mark.parametrize("operation", ["pwrite", "datasync", "rename", "open", "sync_directory"])
def test_a_full_or_failing_disk_changes_nothing(operation: str) -> None:
    """The copies are removed, and mending succeeds when there is space again."""
    place, batches = written()
    files = place.files
    assert isinstance(files, MemoryFileSystem)
    flip(place, segments(place)[1], 30)
    before = {path: read_file(files, path) for path in segments(place)}
    files.inject(Fault(errno.ENOSPC, operation, path_ends=".cleaned"))
    found = find_losses(files, DIRECTORY, clean=True, known=KnownLog())
    if operation in ("pwrite", "datasync", "open"):
        with pytest.raises(OSError, match="space"):
            mend(files, DIRECTORY, found, 200)
        assert {path: read_file(files, path) for path in segments(place)} == before
        assert not [name for name in files.listdir(DIRECTORY) if name.endswith(".cleaned")]
    files.heal()
    mended(place)
    assert len(contents(place.open(clean=True))) == len(batches)


def test_a_file_that_may_decide_about_segments_is_not_guessed() -> None:
    """Without it, it is not known which files belong to the log."""
    place, _ = written()
    change(place, DIRECTORY / COMPACTION_NAME, b"headgate log compaction 1\n")
    with pytest.raises(OSError, match=f"{COMPACTION_NAME} cannot be read"):
        find_losses(place.files, DIRECTORY, clean=True, known=KnownLog())


def transactional(log: Log, producer_id: int) -> None:
    """Append a batch of two records within a transaction."""
    records = [Record(b"k", b"v" * 30, 1000 + log.log_end_offset)] * 2
    batch = encode_batch(
        records,
        base_offset=log.log_end_offset,
        producer_id=producer_id,
        producer_epoch=3,
        base_sequence=0,
        is_transactional=True,
    )
    log.append(bytes(batch), [read_header(batch)])


def end(log: Log, producer_id: int, *, is_committed: bool, coordinator_epoch: int = 4) -> int:
    """Append a marker, note an abort; return its offset."""
    offset = log.log_end_offset
    batch = with_place(
        bytes(encode_marker(EndMarker(is_committed, coordinator_epoch), producer_id, 3, 5)), offset, 0
    )
    log.append(batch, [read_header(batch)])
    return offset


TRANSACTIONS = [(5, True), (6, True), (5, False), (6, False), (5, True), (5, False), (6, True), (5, True)]
"""The producers of transactions that follow each other, each with one batch; whether they were committed."""


def with_transactions() -> tuple[Place, list[int], AbortedTransactions]:
    """A closed log of `TRANSACTIONS`, the offsets of their markers, and what its .txnindex has."""
    place = Place(memory(), settings=LogSettings())
    log = place.open()
    markers, aborted = [], AbortedTransactions()
    for producer_id, is_committed in TRANSACTIONS:
        first = log.log_end_offset
        transactional(log, producer_id)
        markers.append(end(log, producer_id, is_committed=is_committed))
        if not is_committed:
            aborted.append(AbortedTransaction(producer_id, first, markers[-1], log.log_end_offset))
    log.close()
    return place, markers, aborted


def ends_in(log: Log) -> list[tuple[int, bool]]:
    """The offsets of all markers, and whether they commit."""
    found = []
    for header, batch in log.batches(0):
        if header.is_control and (marker := read_marker(batch)) is not None:
            found.append((header.base_offset, marker.is_committed))
    return found


def whole_ends(markers: list[int]) -> list[tuple[int, bool]]:
    return [(at, is_committed) for at, (_, is_committed) in zip(markers, TRANSACTIONS, strict=True)]


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("at", [30, 40, 50, 52, 64, 70, 76])
def test_a_damaged_marker_is_restored_by_its_checksum(number: int, at: int) -> None:
    """There are few markers that it can be."""
    place, markers, _ = with_transactions()
    flip(place, segments(place)[0], positions_in(place)[markers[number]] + at)
    (loss,) = mended(place)
    assert loss.what == "the marker of a transaction is wrong, and is restored"
    assert ends_in(place.open(clean=True)) == whole_ends(markers)


@pytest.mark.parametrize("number", range(8))
def test_no_bit_of_a_marker_changes_the_fate_of_a_transaction(number: int) -> None:
    """The checksum tells which marker it was; if the checksum is wrong, all else does."""
    for bit in range(number % 5, 78 * 8, 5):
        place, markers, _ = with_transactions()
        fates = fates_in(place.open(clean=True))
        flip(place, segments(place)[0], positions_in(place)[markers[number]] + bit // 8, 1 << bit % 8)
        mended(place)
        assert fates_in(place.open(clean=True)) == fates, bit


@pytest.mark.parametrize("number", range(8))
def test_a_transaction_whose_end_is_not_known_counts_as_aborted(number: int) -> None:
    """Its records may not count. It is told."""
    place, markers, _ = with_transactions()
    spoil(place, markers[number])
    (loss,) = mended(place)
    assert loss.transactions.endswith("ended is not known: it counts as aborted")
    assert dict(ends_in(place.open(clean=True))) == dict(whole_ends(markers)) | {markers[number]: False}


def spoil(place: Place, offset: int) -> None:
    """Overwrite the timestamps and the record of a marker."""
    path = segments(place)[0]
    data = bytearray(read_file(place.files, path))
    position = positions_in(place)[offset]
    for at in (*range(27, 43), *range(62, 78)):
        data[position + at] ^= 0x55
    change(place, path, bytes(data))


def positions_in(place: Place) -> dict[int, int]:
    """Where each batch of the first segment begins, by base offset."""
    file = place.files.open(segments(place)[0])
    return {header.base_offset: at for at, header, _ in walk_batches(file, 0, file.size())}


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("is_in_segment", [True, False], ids=["index", "lone index"])
def test_a_lost_marker_is_that_of_the_index(number: int, is_in_segment: bool) -> None:
    """Also of a segment that is missing: its index is a file of its own."""
    place, markers, aborted = with_transactions()
    name = f"{0 if is_in_segment else 99:020d}.txnindex"
    change(place, DIRECTORY / name, aborted.to_bytes())
    spoil(place, markers[number])
    found = find_losses(place.files, DIRECTORY, clean=True, known=KnownLog(transactions_to=1000))
    mend(place.files, DIRECTORY, found, 4096)
    (loss,) = found.places
    kind = "committed" if TRANSACTIONS[number][1] else "aborted"
    assert (
        loss.transactions
        == f"the transaction of producer {TRANSACTIONS[number][0]} that ended here was {kind}"
    )
    assert ends_in(place.open(clean=True)) == whole_ends(markers)


@pytest.mark.parametrize("seed", range(60))
def test_no_reader_gets_aborted_records_or_misses_committed_ones(seed: int) -> None:
    """Whatever part of the log is lost, with its markers: the fate of each batch that is left is the same."""
    rng = Random(seed)
    place, _, aborted = with_transactions()
    log = place.open(clean=True)
    fates = fates_in(log)
    change(place, DIRECTORY / f"{0:020d}.txnindex", aborted.to_bytes())
    path = segments(place)[0]
    data = bytearray(read_file(place.files, path))
    start = rng.randrange(len(data) - 100)
    stop = min(start + rng.randint(1, 700), len(data))
    data[start:stop] = rng.randbytes(stop - start)
    change(place, path, bytes(data))
    found = find_losses(place.files, DIRECTORY, clean=True, known=KnownLog(transactions_to=1000))
    mend(place.files, DIRECTORY, found, 4096)
    left = fates_in(place.open(clean=True))
    last = found.places[-1].end_offset if found.places else 0
    for first, fate in left.items():
        # What was open at a part that reaches to the end of what is known may stay open.
        assert fate in (fates[first], None if fates[first] and first < last else fates[first])


def fates_in(log: Log) -> dict[int, bool | None]:
    """Whether each transactional batch counts, by offset; None: its transaction is open."""
    fates: dict[int, bool | None] = {}
    open_by: dict[int, list[int]] = {}
    for header, batch in log.batches(0):
        if header.is_control and (marker := read_marker(batch)) is not None:
            for first in open_by.pop(header.producer_id, []):
                fates[first] = marker.is_committed
        elif header.is_transactional:
            fates[header.base_offset] = None
            open_by.setdefault(header.producer_id, []).append(header.base_offset)
    return fates
