"""A lost marker is that of the producer that it was of, and what may have ended with it is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.log.support import DIRECTORY, Place, append, memory
from tests.log.test_mending import change, end, fates_in, flip, positions_in, segments, transactional

from headgate.log.filesystem import read_file
from headgate.log.filling import Loss
from headgate.log.known_log import KnownLog
from headgate.log.log import LogSettings
from headgate.log.losses import find_losses
from headgate.log.mending import mend
from headgate.log.swap import save_compacted_to
from headgate.log.transaction_index import AbortedTransaction, AbortedTransactions

INDEX = DIRECTORY / f"{0:020d}.txnindex"


def mended_in(place: Place) -> list[Loss]:
    found = find_losses(place.files, DIRECTORY, clean=True, known=KnownLog(transactions_to=1000))
    mend(place.files, DIRECTORY, found, 4096)
    return found.places


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
    aborted = AbortedTransactions()
    aborted.append(AbortedTransaction(7, 0, last, last + 1))
    change(place, INDEX, aborted.to_bytes())
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
    aborted = AbortedTransactions()
    aborted.append(AbortedTransaction(5, 2, last, last + 1))
    change(place, INDEX, aborted.to_bytes())
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
    aborted = AbortedTransactions()
    if not is_committed:
        aborted.append(AbortedTransaction(7, 15, marker, marker + 1))
    change(place, INDEX, aborted.to_bytes())
    data, positions = bytearray(read_file(place.files, path)), positions_in(place)
    data[positions[marker] + 7] ^= 2
    del data[positions[marker + 1] : positions[following]]
    change(place, path, bytes(data))
    save_compacted_to(place.files, DIRECTORY, following + 5)
    mended_in(place)
    assert list(fates_in(place.open(clean=True)).values()) == [is_committed]
