"""The snapshot file beside a log, for faster starts: it is used completely or not at all."""

from __future__ import annotations

import errno
import sys
from dataclasses import replace

import pytest
from tests.log.support import DIRECTORY, Place, append, batch_at

from headgate.log.batch import read_header
from headgate.log.filesystem import Fault, MemoryFileSystem, read_file
from headgate.log.log import Log
from headgate.log.memory_filesystem import PowerCut
from headgate.log.state_file import (
    STATE_NAME,
    Bond,
    StateFile,
    StateFileUnusable,
    StateFileWriter,
    bind,
    open_state_file,
    why_not,
)

TOPIC = bytes(range(16))
SECTIONS = [("offsets", b"first"), ("groups", b""), ("offsets", b"second" * 50)]
CONTENTS = {"offsets": 2, "groups": 0}
PATH = DIRECTORY / STATE_NAME


def three_batches(place: Place) -> Log:
    """Return a log of ten records in batches that begin at 0, 4 and 7."""
    log = place.open()
    for count in (4, 3, 3):
        append(log, count)
    return log


def write(files: MemoryFileSystem, bond: Bond) -> None:
    writer = StateFileWriter(files, DIRECTORY)
    writer.begin()
    for kind, data in SECTIONS:
        writer.add(kind, data)
    writer.finish(bond, CONTENTS)


def opened(files: MemoryFileSystem) -> StateFile:
    state = open_state_file(files, DIRECTORY)
    assert state is not None
    return state


def test_a_file_is_read_back_after_a_power_cut(files: MemoryFileSystem, place: Place) -> None:
    """After its rename it is durable, and no temporary file is left."""
    log = three_batches(place)
    log.close()
    bond = bind(log, TOPIC, 3, 2, 7)
    assert open_state_file(files, DIRECTORY) is None
    write(files, bond)
    files.crash()
    state = opened(files)
    assert (state.bond, state.contents, state.size) == (bond, CONTENTS, files.size(PATH))
    assert [(one.kind, state.read(one)) for one in state.sections] == SECTIONS
    assert list(state.of_kind("offsets")) == [b"first", b"second" * 50]
    assert list(state.of_kind("members")) == []
    assert [name for name in files.listdir(DIRECTORY) if name.startswith(STATE_NAME)] == [STATE_NAME]
    state.close()


def test_a_bond_identifies_its_log(place: Place) -> None:
    """By topic, partition, log start, and the batch at its end with offset, size and CRC."""
    log = three_batches(place)
    header = read_header(batch_at(4, 3))
    assert bind(log, TOPIC, 3, 2, 7) == Bond(TOPIC.hex(), 3, 0, 2, 7, (4, header.size, header.crc))


def test_the_first_batch_may_be_the_last(place: Place) -> None:
    """A log of one record has a file."""
    log = place.open()
    append(log)
    assert bind(log, TOPIC, 0, 1, 1).last_batch[0] == 0


@pytest.mark.parametrize("end_offset", [0, 5, 8, 11])
def test_a_bond_needs_a_batch_that_ends_at_its_offset(place: Place, end_offset: int) -> None:
    """That batch identifies the log."""
    with pytest.raises(StateFileUnusable, match=f"no batch ends at {end_offset}"):
        bind(three_batches(place), TOPIC, 3, 0, end_offset)


def test_a_deleted_batch_does_not_identify_a_log(place: Place) -> None:
    """At the log start there is no batch before it; one offset later there is."""
    log = three_batches(place)
    log.delete_before(7)
    with pytest.raises(StateFileUnusable, match="no batch ends at 7"):
        bind(log, TOPIC, 3, 7, 7)
    assert bind(log, TOPIC, 3, 7, 10).log_start_offset == 7


def test_a_snapshot_is_not_of_a_log_whose_beginning_was_deleted_past_its_position(place: Place) -> None:
    """It does not have the deleted records, such as tombstones."""
    log = three_batches(place)
    log.delete_before(7)
    with pytest.raises(StateFileUnusable, match="starts at 7, past the position 6"):
        bind(log, TOPIC, 3, 6, 10)


def test_a_file_fits_its_log_while_that_only_grows(place: Place) -> None:
    """Also when it is compacted up to the file's position."""
    log = three_batches(place)
    bond = bind(log, TOPIC, 3, 4, 10)
    assert why_not(bond, log, TOPIC, 3) is None
    log.compacted_to = 4
    append(log)
    assert why_not(bond, log, TOPIC, 3) is None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"topic_id": bytes(16).hex()}, "belongs to partition 3 of topic 0000"),
        ({"partition": 4}, "belongs to partition 4"),
        ({"log_start_offset": 1}, "starts at 0, no longer at 1"),
        ({"position": 1}, "compacted to 2, past the file's position 1"),
        ({"end_offset": 11}, "ends at 10, the file covers it to 11"),
        ({"end_offset": 7}, "another batch ends at 7"),
        ({"end_offset": 6}, "another batch ends at 6"),
        ({"last_batch": (7, 1, 1)}, "another batch ends at 10"),
    ],
)
def test_a_file_of_another_log_is_refused(place: Place, changed: dict[str, object], why: str) -> None:
    """By each property of the bond alone."""
    log = three_batches(place)
    log.compacted_to = 2
    bond = bind(log, TOPIC, 3, 2, 10)
    assert why_not(bond, log, TOPIC, 3) is None
    told = why_not(replace(bond, **changed), log, TOPIC, 3)  # type: ignore[arg-type]
    assert told is not None and why in told


def readable(files: MemoryFileSystem) -> object:
    """Everything that a file says; None where it is refused."""
    try:
        state = open_state_file(files, DIRECTORY)
        return state and (state.bond, state.contents, [state.read(one) for one in state.sections])
    except StateFileUnusable:
        return None


def test_a_damaged_file_is_refused(files: MemoryFileSystem, place: Place) -> None:
    """With any changed byte, and with missing or additional ones."""
    write(files, bind(three_batches(place), TOPIC, 3, 2, 10))
    whole = read_file(files, PATH)
    assert readable(files)
    for at in range(len(whole)):
        files.open(PATH).pwrite(bytes([whole[at] ^ 0x11]), at)
        assert readable(files) is None, at
        files.open(PATH).pwrite(whole[at : at + 1], at)
    for data in [whole[:at] for at in range(len(whole))] + [whole + b"\0"]:
        files.open(PATH).truncate(0)
        files.open(PATH).pwrite(data, 0)
        assert readable(files) is None, len(data)


def test_a_file_of_another_format_has_its_own_error(files: MemoryFileSystem, place: Place) -> None:
    """That of a later version is distinguished from an unknown file."""
    write(files, bind(three_batches(place), TOPIC, 3, 2, 10))
    files.open(PATH).pwrite(b"3", 15)
    with pytest.raises(StateFileUnusable, match="of another format, 'headgate shard 3'"):
        open_state_file(files, DIRECTORY)
    files.open(PATH).pwrite(b"H", 0)
    with pytest.raises(StateFileUnusable, match="title is wrong"):
        open_state_file(files, DIRECTORY)


def test_a_file_of_a_machine_of_another_byte_order_is_not_used(
    files: MemoryFileSystem, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its arrays would be misread."""
    bond = bind(three_batches(place), TOPIC, 3, 2, 10)
    other = "big" if sys.byteorder == "little" else "little"
    with monkeypatch.context() as patched:
        patched.setattr("headgate.log.state_file.sys.byteorder", other)
        write(files, bond)
    with pytest.raises(StateFileUnusable, match=f"{other}-endian"):
        open_state_file(files, DIRECTORY)


def test_a_crash_during_a_write_leaves_the_old_file_or_the_new_one(
    files: MemoryFileSystem, place: Place
) -> None:
    """The next write replaces either."""
    log = three_batches(place)
    log.close()
    old, new = bind(log, TOPIC, 3, 1, 7), bind(log, TOPIC, 3, 2, 10)
    write(files, old)
    before = files.operations
    write(files, new)
    changes = files.operations - before
    assert changes > 5
    for at in range(changes):
        write(files, old)
        files.cut_power_after(at, torn_bytes=3)
        with pytest.raises(PowerCut):
            write(files, new)
        files.crash()
        assert opened(files).bond in ((old,) if at < changes - 1 else (old, new))


def test_a_discarded_file_is_removed(files: MemoryFileSystem, place: Place) -> None:
    """If the disk refuses that, nothing is raised: the next write replaces it."""
    bond = bind(three_batches(place), TOPIC, 3, 2, 10)
    for is_refused in (True, False):
        writer = StateFileWriter(files, DIRECTORY)
        writer.begin()
        writer.add("offsets", b"x" * 10_000)
        if is_refused:
            files.inject(Fault(errno.EIO, "remove"))
        writer.discard()
        files.heal()
        assert files.exists(DIRECTORY / f"{STATE_NAME}.tmp") == is_refused
        write(files, bond)
        assert opened(files).bond == bond
    StateFileWriter(files, DIRECTORY).discard()


def test_a_large_file_is_synced_as_it_is_written(files: MemoryFileSystem, place: Place) -> None:
    """Every eight megabytes, so that every sync is short."""
    three_batches(place)
    writer = StateFileWriter(files, DIRECTORY)
    writer.begin()
    files.inject(Fault(errno.EIO, "datasync"))
    writer.add("offsets", bytes((8 << 20) - 17))
    with pytest.raises(OSError, match="Input/output"):
        writer.add("offsets", b"x")
    files.heal()
    writer.add("offsets", b"x")
    files.inject(Fault(errno.EIO, "datasync"))
    writer.add("offsets", bytes((8 << 20) - 1))
    with pytest.raises(OSError, match="Input/output"):
        writer.add("offsets", b"x")
    writer.discard()
