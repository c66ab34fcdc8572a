"""Timeouts, expiry, and what the writer of markers is told, also across restarts and clocks that are set."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.core.transactions.harness import NONE, Harness

from headgate.core.commands import SystemTimeMoved
from headgate.core.contract import Producer
from headgate.core.transactions.commands import AwaitPrepared, MarkersWritten, PreparedTransactions
from headgate.core.transactions.shard import PREPARED_AT_ONCE, SWEPT_AT_ONCE
from headgate.records.transactions import TransactionState

S = TransactionState
DAY_MS = 86_400_000


@pytest.mark.parametrize("version", ["0", "2"])
def test_a_transaction_that_hangs_is_aborted_in_the_next_epoch(version: str) -> None:
    """The time counts from the first partition; later ones do not extend it."""
    shard = Harness(headgate_transaction_version=version)
    producer = shard.producer(timeout_ms=10_000)
    shard.advance(30_000)
    shard.add(producer, "t-0")
    shard.advance(9_000)
    shard.add(producer, "t-1")
    shard.advance(999)
    assert shard.state() is S.ONGOING
    shard.advance(1)
    assert shard.state() is S.PREPARE_ABORT
    (told,) = shard.complete()
    assert told.end.producer == producer._replace(epoch=1)


def test_after_a_timeout_the_producer_goes_on_in_the_epoch_that_was_raised() -> None:
    """As seen of Kafka with version 2: it sends its old epoch."""
    shard = Harness()
    producer = shard.producer(timeout_ms=10)
    shard.add(producer, "t-0")
    shard.advance(10)
    shard.complete()
    answer = shard.init(expected=producer)
    assert (answer.error, answer.producer_epoch) == (NONE, producer.epoch + 1)


def test_each_transaction_has_a_time_of_its_own() -> None:
    """The deadline of the one before does not abort the next."""
    shard = Harness()
    producer = shard.producer(timeout_ms=10_000)
    for _ in range(3):
        shard.add(producer, "t-0")
        shard.advance(8_000)
        shard.end(producer, True)
        shard.complete()
    assert shard.state() is S.COMPLETE_COMMIT


RESTARTS = [
    # off for, clock set by, left of 10 s after 4 s
    (0, 0, 6_000),
    (5_000, 0, 1_000),
    (60_000, 0, 0),
    (0, -DAY_MS, 10_000),
    (0, DAY_MS, 0),
]


@pytest.mark.parametrize(("off_for_ms", "clock_moves_ms", "left_ms"), RESTARTS)
def test_the_time_of_a_transaction_goes_on_across_a_restart(
    off_for_ms: int, clock_moves_ms: int, left_ms: int
) -> None:
    """It counts from the recorded start; a clock that was set back makes it at most the whole time again."""
    shard = Harness()
    shard.add(shard.producer(timeout_ms=10_000), "t-0")
    shard.advance(4_000)
    shard.reload(off_for_ms=off_for_ms, clock_moves_ms=clock_moves_ms)
    if left_ms:
        shard.advance(left_ms - 1)
        assert shard.state() is S.ONGOING
    shard.advance(1)
    assert shard.state() is S.PREPARE_ABORT


def test_a_clock_that_is_set_does_not_abort_an_open_transaction() -> None:
    """Steady time counts while the server runs."""
    shard = Harness()
    shard.add(shard.producer(timeout_ms=10_000), "t-0")
    shard.send(SystemTimeMoved(DAY_MS))
    shard.advance(9_999)
    assert shard.state() is S.ONGOING


def test_many_timeouts_at_once_are_handled_some_at_a_time() -> None:
    """A restart may find all of them due."""
    shard = Harness()
    shard.checks_lives = False
    for number in range(50):
        producer = shard.producer(f"x{number}", timeout_ms=1_000)
        shard.add(producer, "t-0", transactional_id=f"x{number}")
    shard.reload(off_for_ms=5_000)
    written = len(shard.log)
    shard.advance(0)
    assert len(shard.log) == written + 50
    assert {one.state for one in shard.shard.by_id.values()} == {S.PREPARE_ABORT}
    assert len(shard.complete()) == 50


def test_the_writer_is_told_of_each_transaction_once() -> None:
    """It waits, and is told of what is prepared meanwhile; another request takes the place of the first."""
    shard = Harness()
    first, second = shard.send(AwaitPrepared()), shard.send(AwaitPrepared())
    assert shard.answers[first] == PreparedTransactions(())
    producers = {name: shard.producer(name) for name in ("a", "b", "c")}
    for name, producer in producers.items():
        shard.add(producer, "t-0", transactional_id=name)
        shard.end(producer, True, transactional_id=name)
    assert [one.transactional_id for one in shard.answers[second].transactions] == ["a"]
    assert [one.transactional_id for one in shard.await_prepared()] == ["b", "c"]
    assert shard.await_prepared() == ()


def test_after_a_restart_the_writer_is_told_of_all_prepared_transactions() -> None:
    """Some at a time, and only of those."""
    shard = Harness()
    shard.checks_lives = False
    count = PREPARED_AT_ONCE + 5
    for number in range(count):
        producer = shard.producer(f"x{number}")
        shard.add(producer, "t-0", transactional_id=f"x{number}")
        shard.end(producer, False, transactional_id=f"x{number}")
    shard.add(shard.producer("open"), "t-0", transactional_id="open")
    shard.reload()
    assert len(shard.complete()) == PREPARED_AT_ONCE
    assert len(shard.complete()) == 5
    assert shard.await_prepared() == ()


def test_an_idle_id_is_forgotten() -> None:
    """Its next producer gets a new producer id. An open transaction keeps its id."""
    shard = Harness(
        transactional_id_expiration_ms="1000000",
        transaction_remove_expired_transaction_cleanup_interval_ms="1000",
    )
    shard.producer("idle")
    old = shard.producer("used", timeout_ms=2_000_000)
    shard.add(old, "t-0", transactional_id="used")
    shard.advance(999_999)
    assert shard.state("idle") is S.EMPTY
    shard.advance(1_100)
    assert (shard.state("idle"), shard.state("used")) == (None, S.ONGOING)
    assert shard.producer("idle") == Producer(1003, 0)


def test_a_sweep_is_made_in_slices() -> None:
    """A hundred thousand ids must not hold up the loop."""
    shard = Harness(transactional_id_expiration_ms="10")
    shard.checks_lives = False
    shard.producer()
    for number in range(SWEPT_AT_ONCE + 10):
        shard.write(replace(shard.of(), transactional_id=f"x{number}"))
    written = len(shard.log)
    shard.advance(3_600_000)
    assert len(shard.log) == written + SWEPT_AT_ONCE
    shard.advance(1_000)
    assert not shard.shard.by_id


def test_the_writer_is_told_of_the_rest_if_it_has_completed_the_first_ones() -> None:
    """It had them in hand when the shard was loaded again. The others must not wait for another event."""
    shard = Harness()
    shard.checks_lives = False
    for number in range(PREPARED_AT_ONCE + 1):
        producer = shard.producer(f"x{number}")
        shard.add(producer, "t-0", transactional_id=f"x{number}")
        shard.end(producer, True, transactional_id=f"x{number}")
    in_hand = shard.await_prepared()
    shard.reload()
    for one in in_hand:
        assert shard.ask(MarkersWritten(one.transactional_id, one.end.producer, one.start_timestamp)) is NONE
    assert shard.answers[shard.send(AwaitPrepared())] == PreparedTransactions(())
    assert [one.transactional_id for one in shard.await_prepared()] == [f"x{PREPARED_AT_ONCE}"]
