"""The first protocol (transaction.version 0 and 1): clients add partitions, and keep their epoch."""

from __future__ import annotations

import pytest
from tests.core.transactions.harness import NONE, Harness, parts

from headgate.core.contract import Producer
from headgate.core.transactions.commands import InitProducerId, MarkersWritten
from headgate.domain.errors import ErrorCode
from headgate.records.transactions import NO_TIME, TransactionState

S = TransactionState


def test_a_transaction_from_its_first_partition_to_its_markers() -> None:
    """Empty, Ongoing, PrepareCommit, CompleteCommit; the epoch stays, the markers have it."""
    shard = Harness()
    producer = shard.producer()
    assert shard.of().start_timestamp == NO_TIME
    assert shard.add(producer, "t-0", "u-3") is NONE
    started = shard.now
    shard.advance(5)
    assert shard.add(producer, "t-1") is NONE
    assert (shard.state(), shard.of().partitions) == (S.ONGOING, parts("t-0", "t-1", "u-3"))
    assert shard.of().start_timestamp == started
    assert shard.end(producer, is_committed=True).error is NONE
    assert shard.state() is S.PREPARE_COMMIT
    (told,) = shard.complete()
    assert (told.end.producer, told.end.is_committed) == (producer, True)
    assert told.partitions == parts("t-0", "t-1", "u-3")
    assert (shard.state(), shard.of().partitions) == (S.COMPLETE_COMMIT, {})


def test_the_answer_of_an_end_has_no_producer() -> None:
    """Clients of the first protocol keep their producer id and epoch."""
    shard = Harness()
    producer = shard.producer()
    shard.add(producer, "t-0")
    answer = shard.end(producer, is_committed=False)
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_adding_what_is_there_writes_nothing() -> None:
    """A repeated request is answered from the state."""
    shard = Harness()
    producer = shard.producer()
    shard.add(producer, "t-0", "t-1")
    written = len(shard.log)
    assert shard.add(producer, "t-1") is NONE
    assert len(shard.log) == written


@pytest.mark.parametrize("is_committed", [True, False])
def test_an_end_twice_the_same_way_is_right(is_committed: bool) -> None:
    """A client repeats a request whose answer it lost; the other way it is INVALID_TXN_STATE."""
    shard = Harness()
    producer = shard.producer()
    shard.add(producer, "t-0")
    shard.end(producer, is_committed)
    assert shard.end(producer, is_committed).error is ErrorCode.CONCURRENT_TRANSACTIONS
    shard.complete()
    assert shard.end(producer, is_committed).error is NONE
    assert shard.end(producer, not is_committed).error is ErrorCode.INVALID_TXN_STATE


def test_nothing_open_cannot_be_ended() -> None:
    """Without a transaction both ways are INVALID_TXN_STATE."""
    shard = Harness()
    producer = shard.producer()
    for is_committed in (True, False):
        assert shard.end(producer, is_committed).error is ErrorCode.INVALID_TXN_STATE


REFUSALS = [
    ("unknown", Producer(1001, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ("x", Producer(1, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ("x", Producer(2**63 - 1, 32767), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ("x", Producer(1001, -1), ErrorCode.PRODUCER_FENCED),
    ("x", Producer(1001, 1), ErrorCode.PRODUCER_FENCED),
]


@pytest.mark.parametrize(("transactional_id", "producer", "error"), REFUSALS)
def test_requests_of_other_producers(transactional_id: str, producer: Producer, error: ErrorCode) -> None:
    """Adding, verifying and ending check the producer in the same way."""
    shard = Harness()
    shard.add(shard.producer(), "t-0")
    assert shard.add(producer, "t-0", transactional_id=transactional_id) is error
    assert shard.verify(producer, "t-0", transactional_id=transactional_id).error is error
    assert shard.end(producer, True, transactional_id=transactional_id).error is error
    assert shard.state() is S.ONGOING


def test_while_it_is_prepared_a_producer_has_to_wait() -> None:
    """The next transaction may not begin before the markers are durable."""
    shard = Harness()
    producer = shard.producer()
    shard.add(producer, "t-0")
    shard.end(producer, True)
    wait = ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.add(producer, "t-0") is wait
    assert shard.verify(producer, "t-0").error is wait
    assert shard.init().error is wait
    shard.complete()
    assert shard.add(producer, "t-0") is NONE


def test_partitions_are_verified_one_by_one() -> None:
    """Those that were not added are named."""
    shard = Harness()
    producer = shard.producer()
    assert shard.verify(producer, "t-0").missing == {("t", 0)}
    shard.add(producer, "t-0")
    found = shard.verify(producer, "t-0", "t-1", "u-0")
    assert found.error is NONE
    assert found.missing == {("t", 1), ("u", 0)}


def test_each_new_producer_of_an_id_fences_the_ones_before() -> None:
    """The producer id stays, the epoch grows."""
    shard = Harness()
    first, second = shard.producer(), shard.producer()
    assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 1)
    assert shard.add(first, "t-0") is ErrorCode.PRODUCER_FENCED
    assert shard.add(second, "t-0") is NONE


def test_an_id_needs_a_producer_id_only_once() -> None:
    """Ids are not wasted on repeated requests."""
    shard = Harness()
    shard.producer()
    assert shard.ask(InitProducerId("x", 1)).error is NONE


@pytest.mark.parametrize("version", ["0", "2"])
def test_a_new_producer_aborts_the_transaction_of_the_one_before(version: str) -> None:
    """The markers have the next epoch, the new producer the one after it."""
    shard = Harness(headgate_transaction_version=version)
    old = shard.producer()
    shard.add(old, "t-0")
    assert shard.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert shard.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    (told,) = shard.complete()
    assert (told.end.producer, told.end.is_committed) == (old._replace(epoch=old.epoch + 1), False)
    assert shard.state() is S.COMPLETE_ABORT
    assert shard.producer().epoch == old.epoch + 2


def test_markers_that_were_written_for_another_transaction_complete_nothing() -> None:
    """The writer may be late: the next transaction has the same epoch, and another start."""
    shard = Harness()
    producer = shard.producer()
    shard.add(producer, "t-0")
    shard.end(producer, True)
    (first,) = shard.complete()
    late = MarkersWritten("x", producer, first.start_timestamp)
    assert shard.ask(late) is ErrorCode.INVALID_TXN_STATE
    shard.add(producer, "t-0")
    shard.end(producer, True)
    assert shard.ask(late) is ErrorCode.INVALID_TXN_STATE
    assert shard.state() is S.PREPARE_COMMIT
    assert shard.ask(MarkersWritten("y", producer, first.start_timestamp)) is ErrorCode.INVALID_TXN_STATE
