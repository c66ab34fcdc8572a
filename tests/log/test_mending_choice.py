"""Of batches that contradict each other mending keeps what most of the log agrees on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.log.support import DIRECTORY, SMALL, Place, append, contents, memory
from tests.log.test_mending import (
    COUNT,
    change,
    check,
    flip,
    mended,
    one_segment,
    overwrite,
    segments,
    written,
)

from headgate.log.batch import Record, encode_batch, read_header
from headgate.log.checkpoint import CHECKPOINT_NAME
from headgate.log.filesystem import File, read_file
from headgate.log.filling import Loss
from headgate.log.known_log import EpochOf, KnownLog, agreed_starts
from headgate.log.log import LogSettings
from headgate.log.losses import find_losses
from headgate.log.mending import mend
from headgate.log.pieces import pieces_in
from headgate.log.swap import save_compacted_to
from headgate.log.sync_mark import SYNC_MARK_NAME

THREE = 3
KNOWN = KnownLog([(0, 0)], 0, COUNT * THREE)


def filled_in(place: Place, known: KnownLog = KNOWN, *, clean: bool = True) -> list[Loss]:
    """Mend the log, and return the losses."""
    found = find_losses(place.files, DIRECTORY, clean=clean, known=known)
    mend(place.files, DIRECTORY, found, place.settings.index_interval_bytes)
    return found.places


def lost(losses: list[Loss]) -> set[int]:
    return {offset for one in losses for offset in range(one.first_offset, one.end_offset)}


def rename(place: Place, path: Path, base_offset: int) -> None:
    data = read_file(place.files, path)
    for suffix in (".log", ".index", ".timeindex"):
        place.files.remove(path.with_suffix(suffix))
    change(place, path.with_name(f"{base_offset:020d}.log"), data)


# Stretches that reach over a border.


def test_a_batch_that_is_also_at_the_end_of_the_segment_before_costs_nothing() -> None:
    """Only the copy is dropped."""
    place, batches = written()
    before, path = segments(place)[1:3]
    change(place, before, read_file(place.files, before) + batches[int(path.stem) // THREE])
    assert not lost(mended(place))
    check(place, batches)


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_segment_with_the_batches_of_the_next_one_too_costs_nothing(is_removed: bool) -> None:
    """Whether the next one is there or not."""
    place, batches = written()
    before, path = segments(place)[1:3]
    change(place, before, read_file(place.files, before) + read_file(place.files, path))
    if is_removed:
        place.files.remove(path)
    assert not lost(mended(place))
    check(place, batches)


@pytest.mark.parametrize("is_named_so", [True, False])
def test_a_segment_that_begins_with_the_last_batch_of_the_one_before_costs_nothing(is_named_so: bool) -> None:
    """Whatever its name says."""
    place, batches = written()
    path = segments(place)[2]
    base = int(path.stem)
    change(place, path, batches[base // THREE - 1] + read_file(place.files, path))
    if is_named_so:
        rename(place, path, base - THREE)
    assert not lost(mended(place))
    check(place, batches)


@pytest.mark.parametrize("size", [412, 471, 700])
def test_bytes_that_were_written_twice_cost_no_batch_behind_them(size: int) -> None:
    """A copy that was tried again: at most the batch that is cut is lost."""
    place, batches, at = one_segment()
    path = segments(place)[0]
    data = read_file(place.files, path)
    change(place, path, data[: at[20] + size] + data[at[20] :])
    mended(place)
    check(place, batches)


# Names.


@pytest.mark.parametrize("which", [-1, 10])
@pytest.mark.parametrize("mask", [0x03, 0x48, 0x4D, 0x5A, 0x7F])
@pytest.mark.parametrize("clean", [True, False])
def test_one_batch_does_not_overrule_the_name_of_its_segment(which: int, mask: int, clean: bool) -> None:
    """Its base offset has several wrong bits."""
    place, batches = written(LogSettings(segment_bytes=150, index_interval_bytes=200))
    flip(place, segments(place)[which], 7, mask)
    assert not lost(filled_in(place, KNOWN if clean else KnownLog(), clean=clean))
    check(place, batches, clean=clean)


@pytest.mark.parametrize("which", [0, 2, -1])
@pytest.mark.parametrize("bit", [0, 1, 2, 3, 4, 5])
def test_one_wrong_bit_in_a_name_costs_nothing(which: int, bit: int) -> None:
    """The batches agree against it."""
    place, batches = written()
    path = segments(place)[which]
    rename(place, path, int(path.stem) ^ 1 << bit)
    assert not lost(mended(place))
    check(place, batches)


def foreign(first: int, count: int) -> bytes:
    record = Record(b"F", b"of another log", 1000)
    return b"".join(bytes(encode_batch([record] * 3, base_offset=first + 3 * at)) for at in range(count))


@pytest.mark.parametrize("which", [0, 1, 2, 4])
@pytest.mark.parametrize("first", [0, 10, 33, 51, 93, 500, 1 << 34])
@pytest.mark.parametrize("count", [6, 40])
def test_the_segment_of_another_log_displaces_no_other_one(which: int, first: int, count: int) -> None:
    """It is dropped, and its place filled."""
    place, batches = written()
    paths = segments(place)
    limits = [*(int(one.stem) for one in paths), COUNT * THREE]
    low, high = limits[which], limits[which + 1]
    if first >= low and first + 3 * count <= high:
        return
    change(place, paths[which], foreign(first, count))
    assert lost(filled_in(place)) == set(range(low, high))
    check(place, [one for one in batches if not low <= read_header(one).base_offset < high])


# Single batches.


def carrying(inner_first: int, count: int) -> tuple[Place, list[bytes], int]:
    """A log, its batches, and the position of one that has batches in the value of a record."""
    place = Place(memory(), settings=LogSettings())
    log = place.open()
    batches = [append(log, THREE) for _ in range(10)]
    position = sum(map(len, batches))
    inner = b"".join(
        bytes(encode_batch([Record(b"", b"inner", 5)], base_offset=inner_first + at)) for at in range(count)
    )
    batches.append(bytes(encode_batch([Record(b"k", inner, 1000)] * 3, base_offset=30)))
    log.append(batches[-1], [read_header(batches[-1])])
    batches += [append(log, THREE) for _ in range(19)]
    log.close()
    return place, batches, position


@pytest.mark.parametrize("inner_first", [31, 33, 60, 200])
@pytest.mark.parametrize("count", [5, 100])
@pytest.mark.parametrize(("at", "mask"), [(11, 0x20), (9, 0x02), (7, 0x02), (16, 0x01), (26, 0x01)])
def test_batches_in_a_value_never_count(inner_first: int, count: int, at: int, mask: int) -> None:
    """One bit of the batch that carries them is wrong: its length, base offset, format or offset delta."""
    place, batches, position = carrying(inner_first, count)
    flip(place, segments(place)[0], position + at, mask)
    losses = filled_in(place)
    kept = batches if at < 17 else batches[:10] + batches[11:]
    assert lost(losses) == (set() if at < 17 else {30, 31, 32})
    check(place, kept)


@pytest.mark.parametrize(("gone", "other"), [(16, 24), (16, 17), (16, 20), (24, 16), (5, 21)])
def test_a_wrong_base_offset_does_not_move_a_batch_to_a_lost_one(gone: int, other: int) -> None:
    """Its position in the file tells its place."""
    place = Place(memory(), settings=LogSettings())
    log = place.open()
    batches = [append(log) for _ in range(30)]
    log.close()
    size = len(batches[0])
    overwrite(place, gone * size, bytes(size))
    flip(place, segments(place)[0], other * size + 7, gone ^ other)
    assert lost(mended(place)) == {gone}
    check(place, batches[:gone] + batches[gone + 1 :], end=30)


def test_a_batch_between_two_destroyed_headers_is_kept() -> None:
    """Nothing but its own bytes tells where it begins."""
    place, batches, at = one_segment()
    for number in (10, 12):
        overwrite(place, at[number], bytes(range(100, 117)))
    mended(place)
    check(place, [*batches[:10], batches[11], *batches[13:]])


@pytest.mark.parametrize("byte", range(8))
def test_a_wrong_base_offset_behind_a_damaged_batch_is_restored(byte: int) -> None:
    """Whichever of its bits it is."""
    place, batches, at = one_segment()
    flip(place, segments(place)[0], at[10] + 70)
    flip(place, segments(place)[0], at[11] + byte)
    mended(place)
    check(place, [*batches[:10], *batches[11:]])


def test_a_wrong_length_before_a_destroyed_header_is_restored() -> None:
    """The checksum fits one length only."""
    place, batches, at = one_segment()
    flip(place, segments(place)[0], at[10] + 9, 1)
    overwrite(place, at[12], bytes(range(100, 117)))
    mended(place)
    check(place, [*batches[:12], *batches[13:]])


# Compacted logs.


def test_a_compacted_segment_is_few_pieces() -> None:
    """So the time does not depend on the number of its gaps."""
    place, batches = written(LogSettings())
    data = bytearray(b"".join(batches[::2]))
    data[7 * len(batches[0]) + 70] ^= 1
    change(place, segments(place)[0], bytes(data))
    file = place.files.open(segments(place)[0])
    assert len(pieces_in(file, len(data), 0, COUNT * THREE)) == THREE


@pytest.mark.parametrize("byte", range(8))
@pytest.mark.parametrize("mask", [0x20, 0x40])
def test_a_wrong_base_offset_in_a_compacted_log_is_restored(byte: int, mask: int) -> None:
    """If one bit leads into the gap, and only one."""
    place, batches, _ = one_segment()
    kept = [one for number, one in enumerate(batches) if number not in (9, 11)]
    data = bytearray(b"".join(kept))
    data[sum(map(len, kept[:9])) + byte] ^= mask
    change(place, segments(place)[0], bytes(data))
    save_compacted_to(place.files, DIRECTORY, COUNT * THREE)
    assert not lost(mended(place))
    assert contents(place.open(clean=True)) == kept


# What other files say.


def test_a_lost_first_segment_is_told_without_the_checkpoint() -> None:
    """The sync mark knows where the log began."""
    place, _ = written()
    first, second = segments(place)[:2]
    place.files.remove(first)
    change(place, DIRECTORY / CHECKPOINT_NAME, b"no checkpoint")
    (loss,) = mended(place)
    assert (loss.first_offset, loss.end_offset) == (0, int(second.stem))


def test_the_indexes_of_a_missing_last_segment_tell_its_offsets() -> None:
    """After a kill, without a sync mark."""
    place, _ = written(SMALL)
    last = segments(place)[-1]
    place.files.remove(last)
    place.files.remove(DIRECTORY / SYNC_MARK_NAME)
    (loss,) = mended(place, clean=False)
    assert loss.first_offset == int(last.stem) < loss.end_offset
    assert not [name for name in place.files.listdir(DIRECTORY) if name == f"{last.stem}.index"]


AS_WRITTEN = [(0, 0), (1, 60)]


@pytest.mark.parametrize(
    "said",
    [AS_WRITTEN, [(0, 0), (3, 60)], [(0, 0), (1, 61)], [(0, 0), (1, 20)], [(0, 1), (1, 60)], [(0, 0)]],
)
def test_batches_that_agree_are_right_about_their_epoch(said: list[tuple[int, int]]) -> None:
    """`leader-epoch-checkpoint` has no checksum."""
    batches = [EpochOf(0, 0, 60, 20), EpochOf(1, 60, 90, 10)]
    assert agreed_starts(batches, KnownLog(said, newest=1)) == AS_WRITTEN


@pytest.mark.parametrize("wrong", [1, 2, 1 << 20, -5])
@pytest.mark.parametrize("at", [0, 30, 54])
def test_a_single_batch_is_wrong_about_its_epoch(wrong: int, at: int) -> None:
    """Also if it would fit between the others."""
    batches = [
        EpochOf(0, 0, at, at // THREE),
        EpochOf(wrong, at, at + THREE, 1),
        EpochOf(0, at + THREE, 60, 19 - at // THREE),
        EpochOf(1, 60, 90, 10),
    ]
    batches = [one for one in batches if one.batches]
    assert agreed_starts(batches, KnownLog(AS_WRITTEN, newest=2)) == AS_WRITTEN


def test_a_missing_file_of_epochs_is_that_of_the_batches() -> None:
    """The server writes it before the first batch of an epoch."""
    batches = [EpochOf(0, 0, 60, 20), EpochOf(1, 60, 90, 10)]
    assert agreed_starts(batches, KnownLog(newest=1, misses_epochs=True)) == AS_WRITTEN


def test_the_first_epoch_of_a_log_begins_where_the_log_does() -> None:
    """Its first segment is lost, and filled."""
    batches = [EpochOf(1, 60, 90, 10)]
    assert agreed_starts(batches, KnownLog(newest=1, misses_epochs=True), 30) == [(1, 30)]


# Zeros, and copies in the place of others.


@pytest.mark.parametrize("clean", [True, False])
def test_zeros_behind_a_segment_that_is_not_the_last_one_are_cut_off(clean: bool) -> None:
    """There they are no reserved space: the next start would end the log at them, and drop what follows."""
    place, batches = written()
    for path in segments(place)[:-1]:
        change(place, path, read_file(place.files, path) + bytes(4096))
        assert not lost(mended(place, clean=clean))
        check(place, batches, clean=clean)


def test_a_segment_of_zeros_in_a_compacted_log_is_told_as_lost() -> None:
    """Nothing says whether compaction had removed its offsets."""
    place, batches = written()
    save_compacted_to(place.files, DIRECTORY, COUNT * THREE)
    path, following = segments(place)[1:3]
    change(place, path, bytes(len(read_file(place.files, path))))
    gone = range(int(path.stem), int(following.stem))
    assert lost(filled_in(place)) == set(gone)
    check(place, [one for one in batches if read_header(one).base_offset not in gone])


@pytest.mark.parametrize(("original", "place_of"), [(16, 17), (8, 24), (17, 21), (21, 20)])
def test_a_copy_in_the_place_of_another_batch_is_not_restored_there(original: int, place_of: int) -> None:
    """A misdirected write. One bit between two base offsets is no proof: the original is where it says."""
    place = Place(memory(), settings=LogSettings())
    log = place.open()
    batches = [append(log, size=20) for _ in range(30)]
    log.close()
    overwrite(place, sum(map(len, batches[:place_of])), batches[original])
    assert lost(mended(place)) == {place_of}
    check(place, [*batches[:place_of], *batches[place_of + 1 :]], end=30)


def test_a_copy_of_a_segment_is_not_restored_under_its_name() -> None:
    """Of one batch; its name and the base offset differ in one byte, as those of all near segments do."""
    place = Place(memory(), settings=LogSettings(segment_bytes=100))
    log = place.open()
    batches = [append(log, size=20) for _ in range(30)]
    log.close()
    paths = segments(place)
    change(place, paths[11], read_file(place.files, paths[10]))
    assert lost(mended(place)) == {11}
    check(place, [*batches[:11], *batches[12:]], end=30)


SECTOR = 512


def of_one_record(count: int = 150) -> tuple[Place, list[bytes]]:
    """A closed log in one segment; batches of 93 bytes cross the borders of sectors."""
    place = Place(memory(), settings=LogSettings())
    log = place.open()
    batches = [append(log, size=20) for _ in range(count)]
    log.close()
    return place, batches


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("size", [SECTOR, 4096])
@pytest.mark.parametrize("from_before", [True, False], ids=["the one before", "the one behind"])
def test_a_sector_with_the_bytes_of_its_neighbour_costs_no_batch_outside_of_it(
    size: int, clean: bool, from_before: bool
) -> None:
    """Each batch is served once, and the mended log opens."""
    for at in range(size, 8192, size):
        place, batches = of_one_record()
        data = read_file(place.files, segments(place)[0])
        source = at - size if from_before else at + size
        overwrite(place, at, data[source : source + size])
        ends = [sum(map(len, batches[: number + 1])) for number in range(len(batches))]
        whole = [
            one for one, end in zip(batches, ends, strict=True) if end <= at or end - len(one) >= at + size
        ]
        mended(place, clean=clean)
        log = place.open(clean=clean)
        found = [one for one in contents(log) if read_header(one).record_count]
        assert log.log_end_offset == len(batches)
        log.close()
        assert [one for one in whole if one not in found] == []
        offsets = [read_header(one).base_offset for one in found]
        assert offsets == sorted(set(offsets))
        assert all(one == batches[read_header(one).base_offset] for one in found)


@pytest.mark.parametrize("bit", range(41))
def test_a_wrong_bit_in_the_last_base_offset_of_a_killed_log_is_restored(bit: int) -> None:
    """Its checksum is right, and the offset before fits: it was not being written."""
    place, batches = of_one_record(30)
    place.files.remove(DIRECTORY / SYNC_MARK_NAME)
    flip(place, segments(place)[0], sum(map(len, batches[:-1])) + 7 - bit // 8, 1 << bit % 8)
    mended(place, clean=False)
    check(place, batches, clean=False, end=30)


# Limits of the work.


def test_bytes_that_look_like_headers_are_not_each_followed_to_the_end_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any binary value can have the two and the zeros of a header, and a length of megabytes before them."""
    like = b"\0" * 8 + (1 << 22).to_bytes(4, "big") + b"\0" * 4 + b"\x02abcd" + b"\0" * 44
    batches = [
        encode_batch([Record(b"", like * 400 + bytes([number % 251]), 1000)], base_offset=number)
        for number in range(400)
    ]
    data = bytearray(b"".join(batches))
    data[len(batches[0]) : len(batches[0]) + 512] = bytes(512)
    place, _ = written(LogSettings())
    path = segments(place)[0]
    change(place, path, bytes(data))
    file = place.files.open(path)
    read: list[int] = []
    pread = type(file).pread

    def counted(self: File, size: int, position: int) -> bytes:
        found = pread(self, size, position)
        read.append(len(found))
        return found

    monkeypatch.setattr(type(file), "pread", counted)
    assert [piece.offsets for piece in pieces_in(file, len(data), 0, 0)] == [1, 0, 398]
    assert sum(read) < 20 * len(data)
