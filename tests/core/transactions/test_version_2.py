"""Version 2 of the protocol (KIP-890): every end of a transaction raises the epoch."""

from __future__ import annotations

import pytest
from tests.core.transactions.harness import NONE, Harness

from headgate.core.contract import Producer
from headgate.core.transactions.commands import ProducerAnswer
from headgate.domain.errors import ErrorCode
from headgate.records.transactions import TransactionState

S = TransactionState
FENCED = ErrorCode.PRODUCER_FENCED
ITS = ErrorCode.INVALID_TXN_STATE


def ended(shard: Harness, producer: Producer, is_committed: bool) -> Producer:
    """End a transaction; the producer of the next one."""
    answer = shard.end(producer, is_committed, version=2)
    assert answer.error is NONE
    return Producer(answer.producer_id, answer.producer_epoch)


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_markers_and_the_next_transaction_have_the_next_epoch(is_committed: bool) -> None:
    """A late batch of the transaction has the old epoch and cannot reach the next one."""
    shard = Harness()
    producer = shard.producer()
    assert shard.add(producer, "t-0", version=2) is NONE
    following = ended(shard, producer, is_committed)
    assert following == producer._replace(epoch=1)
    (told,) = shard.complete()
    assert (told.end.producer, told.transaction_version) == (following, 2)
    assert shard.add(producer, "t-0", version=2) is FENCED
    assert shard.add(following, "t-0", version=2) is NONE


def test_while_it_is_prepared_every_request_has_to_wait() -> None:
    """Whatever the epoch is: the producer may already use the next one."""
    shard = Harness()
    producer = shard.producer()
    shard.add(producer, "t-0", version=2)
    following = ended(shard, producer, True)
    for one in (producer, following, Producer(5, 5)):
        assert shard.add(one, "t-0", version=2) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert shard.end(one, True, version=2).error is ErrorCode.CONCURRENT_TRANSACTIONS


BUMP = "bump"
"""A new, empty transaction is aborted. An epoch of -1 below is a repeated request."""
MATRIX = [
    (S.EMPTY, False, -1, FENCED),
    (S.EMPTY, False, 0, BUMP),
    (S.EMPTY, True, -1, FENCED),
    (S.EMPTY, True, 0, ITS),
    (S.COMPLETE_ABORT, False, -1, NONE),
    (S.COMPLETE_ABORT, False, 0, BUMP),
    (S.COMPLETE_ABORT, True, -1, ITS),
    (S.COMPLETE_ABORT, True, 0, ITS),
    (S.COMPLETE_COMMIT, False, -1, ITS),
    (S.COMPLETE_COMMIT, False, 0, BUMP),
    (S.COMPLETE_COMMIT, True, -1, NONE),
    (S.COMPLETE_COMMIT, True, 0, ITS),
    (S.COMPLETE_COMMIT, True, 1, FENCED),
    (S.ONGOING, True, -1, FENCED),
    (S.ONGOING, False, 1, FENCED),
]


@pytest.mark.parametrize(("state", "is_committed", "epoch", "expected"), MATRIX)
def test_the_end_of_a_transaction_by_state_and_epoch(
    state: S, is_committed: bool, epoch: int, expected: object
) -> None:
    """The table of KIP-890; a repeated request is answered with the epoch of the next transaction."""
    shard = Harness()
    shard.producer()
    producer = shard.producer()
    if state is not S.EMPTY:
        shard.add(producer, "t-0", version=2)
    if state in (S.COMPLETE_ABORT, S.COMPLETE_COMMIT):
        producer = ended(shard, producer, state is S.COMPLETE_COMMIT)
        shard.complete()
    assert shard.state() is state
    answer = shard.end(producer._replace(epoch=producer.epoch + epoch), is_committed, version=2)
    if expected is BUMP:
        assert answer == ProducerAnswer(NONE, producer.producer_id, producer.epoch + 1)
        (told,) = shard.complete()
        assert (dict(told.partitions), shard.state()) == ({}, S.COMPLETE_ABORT)
    elif expected is NONE:
        assert answer == ProducerAnswer(NONE, *producer)
    else:
        assert answer == ProducerAnswer(answer.error)
        assert answer.error is expected


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_new_producer_id_follows_the_last_epoch(is_committed: bool) -> None:
    """The markers have the greatest epoch of the old id. The answer can be given again."""
    shard = Harness()
    shard.producer()
    last = shard.set_epoch(32766)
    shard.add(last, "t-0", version=2)
    following = ended(shard, last, is_committed)
    assert following == Producer(1002, 0)
    assert shard.add(following, "t-0", version=2) is ErrorCode.CONCURRENT_TRANSACTIONS
    (told,) = shard.complete()
    assert told.end.producer == Producer(1001, 32767)
    assert shard.end(last, is_committed, version=2) == ProducerAnswer(NONE, *following)
    assert shard.end(last, not is_committed, version=2).error is ITS
    shard.reload()
    assert shard.end(last, is_committed, version=2) == ProducerAnswer(NONE, *following)
    assert shard.add(following, "t-0", version=2) is NONE
    assert shard.end(last, is_committed, version=2).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_nobody_gets_the_epoch_of_markers() -> None:
    """A timeout used it to fence the last epoch: the next timeout could not fence a producer in it."""
    shard = Harness()
    shard.producer(timeout_ms=1000)
    last = shard.set_epoch(2**15 - 2)
    assert shard.add(last, "t-0", version=2) is NONE
    shard.advance(1001)
    shard.complete()
    assert shard.of().producer_epoch == 2**15 - 1
    assert shard.end(last, False, version=2).error is FENCED
    following = shard.init(expected=last)
    assert (following.error, following.producer_epoch) == (NONE, 0)
    assert following.producer_id != last.producer_id
