"""A lost marker is that of the producer that it was of, and what may have ended with it is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.log.support import DIRECTORY, Place, append, memory
from tests.log.test_mending import change, end, fates_in, flip, positions_in, segments, transactional

from headgate.log.batch import Record, encode_batch, read_header
from headgate.log.filesystem import read_file
from headgate.log.filling import Loss
from headgate.log.known_log import KnownLog
from headgate.log.log import LogSettings
from headgate.log.losses import find_losses
from headgate.log.markers import EndMarker, encode_marker
from headgate.log.mending import mend
from headgate.log.rewriting import with_place
from headgate.log.swap import save_compacted_to
from headgate.log.transaction_index import AbortedTransaction, AbortedTransactions
from headgate.log.walking import walk_batches

TRANSACTIONAL: dict[str, Any] = {
    "producer_id": 7,
    "producer_epoch": 3,
    "base_sequence": 0,
    "is_transactional": True,
}
INDEX = DIRECTORY / f"{0:020d}.txnindex"


def mended_in(place: Place) -> list[Loss]:
    found = find_losses(place.files, DIRECTORY, clean=True, known=KnownLog(transactions_to=1000))
    mend(place.files, DIRECTORY, found, 4096)
    return found.places


def write_index(place: Place, *aborted: AbortedTransaction, path: Path = INDEX) -> None:
    """Write the index of aborted transactions."""
    index = AbortedTransactions()
    for one in aborted:
        index.append(one)
    change(place, path, index.to_bytes())


def only(place: Place) -> Path:
    (path,) = segments(place)
    return path


def test_a_marker_of_another_producer_does_not_end_an_open_transaction() -> None:
    """One bit of its producer id is wrong; its own transaction has no records here."""
    place = Place(memory(), settings=LogSettings())
    log = place.open()
    transactional(log, 7)
    marker = end(log, 6, is_committed=False)
    transactional(log, 7)
    last = end(log, 7, is_committed=False)
    append(log)
    log.close()
    write_index(place, AbortedTransaction(7, 0, last, last + 1))
    fates = fates_in(place.open(clean=True))
    flip(place, only(place), positions_in(place)[marker] + 50, 1)
    (loss,) = mended_in(place)
    assert loss.what == "the marker of a transaction is wrong, and is restored"
    assert fates_in(place.open(clean=True)) == fates


def test_a_producer_whose_marker_may_be_lost_with_another_one_is_named() -> None:
    """Its transaction stays open."""
    place = Place(memory(), settings=LogSettings())
    log = place.open()
    transactional(log, 7)
    transactional(log, 5)
    committed = end(log, 7, is_committed=True)
    last = end(log, 5, is_committed=False)
    append(log)
    log.close()
    write_index(place, AbortedTransaction(5, 2, last, last + 1))
    positions = positions_in(place)
    data = bytearray(read_file(place.files, only(place)))
    data[positions[committed] : positions[last + 1]] = bytes(positions[last + 1] - positions[committed])
    change(place, only(place), bytes(data))
    (loss,) = mended_in(place)
    assert loss.transactions == (
        "the transaction of producer 5 that ended here was aborted; "
        "if the transactions of producers 7 ended here, they are open again"
    )


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_marker_with_a_wrong_base_offset_in_a_gap_ends_its_transaction(is_committed: bool) -> None:
    """More than one offset of the gap differs from it in one bit."""
    place = Place(memory(), settings=LogSettings())
    log = place.open()
    append(log, 15)
    transactional(log, 7)
    marker = end(log, 7, is_committed=is_committed)
    append(log)
    following = log.log_end_offset
    for _ in range(5):
        append(log)
    log.close()
    path = only(place)
    write_index(place, *([] if is_committed else [AbortedTransaction(7, 15, marker, marker + 1)]))
    data, positions = bytearray(read_file(place.files, path)), positions_in(place)
    data[positions[marker] + 7] ^= 2
    del data[positions[marker + 1] : positions[following]]
    change(place, path, bytes(data))
    save_compacted_to(place.files, DIRECTORY, following + 5)
    mended_in(place)
    assert list(fates_in(place.open(clean=True)).values()) == [is_committed]


@pytest.mark.parametrize("left", ["nothing", "what is before the marker"])
def test_an_abort_that_is_lost_in_a_gap_of_compaction_is_put_back(left: str) -> None:
    """The next marker of its producer is a commit, and would count for the aborted records, too."""
    place = Place(memory(), settings=LogSettings(segment_bytes=300))
    log = place.open()
    for _ in range(4):
        append(log)
    first = log.log_end_offset
    transactional(log, 7)
    for _ in range(4):
        append(log)
    marker = end(log, 7, is_committed=False)
    for _ in range(4):
        append(log)
    transactional(log, 7)
    end(log, 7, is_committed=True)
    for _ in range(4):
        append(log)
    log.close()
    fates = fates_in(place.open(clean=True))
    path = max(one for one in segments(place) if int(one.stem) <= marker)
    assert int(path.stem) > first
    write_index(place, AbortedTransaction(7, first, marker, marker + 1), path=path.with_suffix(".txnindex"))
    save_compacted_to(place.files, DIRECTORY, int(segments(place)[-1].stem))
    file = place.files.open(path)
    positions = {header.base_offset: at for at, header, _ in walk_batches(file, 0, file.size())}
    change(place, path, read_file(place.files, path)[: positions[marker] if left != "nothing" else 0])
    assert [one.first_offset for one in mended_in(place)] == [marker]
    assert fates_in(place.open(clean=True)) == fates


def test_a_marker_that_is_put_back_has_the_epoch_of_its_offset() -> None:
    """Not that of the batch before it: a second look would find it wrong."""
    place = Place(memory(), settings=LogSettings())
    log = place.open()
    batches = [
        with_place(bytes(encode_batch([Record(b"k", b"v" * 30, 1000)], **TRANSACTIONAL)), 0, 0),
        *(
            with_place(bytes(encode_batch([Record(b"k", b"v" * 30, 1000)])), offset, 1)
            for offset in range(1, 6)
        ),
        with_place(bytes(encode_marker(EndMarker(False, 4), 7, 3, 5)), 6, 1),
        *(
            with_place(bytes(encode_batch([Record(b"k", b"v" * 30, 1000)])), offset, 1)
            for offset in range(7, 12)
        ),
    ]
    for batch in batches:
        log.append(batch, [read_header(batch)])
    log.close()
    write_index(place, AbortedTransaction(7, 0, 6, 7))
    data, positions = bytearray(read_file(place.files, only(place))), positions_in(place)
    data[positions[1] : positions[7]] = bytes(positions[7] - positions[1])
    change(place, only(place), bytes(data))
    known = KnownLog([(0, 0), (1, 1)], 1, 12, transactions_to=12)
    found = find_losses(place.files, DIRECTORY, clean=True, known=known)
    mend(place.files, DIRECTORY, found, 4096)
    epochs = [header.leader_epoch for header, _ in place.open(clean=True).batches(0)]
    assert epochs == [0, *[1] * (len(epochs) - 1)]
    assert find_losses(place.files, DIRECTORY, clean=True, known=known).places == []
