"""InitProducerId with an id and an epoch that the client had: going on, fencing, the end of epochs."""

from __future__ import annotations

import pytest
from tests.core.transactions.harness import NONE, Harness

from headgate.core.contract import Producer
from headgate.core.transactions.commands import PRODUCER_ID_NEEDED, InitProducerId
from headgate.domain.errors import ErrorCode
from headgate.records.transactions import TransactionState

LAST = 32766
"""The last epoch of a client."""
FENCED = ErrorCode.PRODUCER_FENCED


def test_a_producer_goes_on_with_the_next_epoch() -> None:
    """It tells what it had, and nobody else has begun since."""
    shard = Harness()
    had = shard.producer()
    answer = shard.init(expected=had)
    assert (answer.error, answer.producer_id, answer.producer_epoch) == (NONE, had.producer_id, 1)


def test_a_lost_answer_is_given_again() -> None:
    """The epoch before is a repeated request: any number of times, also after a restart."""
    shard = Harness()
    had = shard.producer()
    for _ in range(3):
        assert shard.init(expected=had).producer_epoch == 1
    shard.reload()
    assert shard.init(expected=had).producer_epoch == 1


def test_after_somebody_else_began_the_epoch_before_is_fenced() -> None:
    """The new producer did not tell an epoch: it is not a repetition of anything."""
    shard = Harness()
    had = shard.producer()
    shard.producer()
    assert shard.init(expected=had).error is FENCED


@pytest.mark.parametrize("expected", [Producer(1001, 5), Producer(1001, -5), Producer(7, 0), Producer(-1, 0)])
def test_foreign_and_future_epochs_are_fenced(expected: Producer) -> None:
    """As seen of Kafka: old, future or foreign ids PRODUCER_FENCED."""
    shard = Harness()
    shard.producer()
    assert shard.init(expected=expected).error is FENCED


def test_a_fenced_producer_does_not_abort_the_transaction_of_its_successor() -> None:
    """The check comes before the abort."""
    shard = Harness()
    old = shard.producer()
    new = shard.producer()
    shard.add(new, "t-0")
    assert shard.init(expected=Producer(old.producer_id + 1, 0)).error is FENCED
    assert shard.state() is TransactionState.ONGOING


def test_an_unknown_id_with_a_producer_just_gets_a_new_one() -> None:
    """The id was forgotten: nobody can be fenced."""
    shard = Harness()
    answer = shard.init(expected=Producer(2**63 - 1, 17))
    assert (answer.error, answer.producer_id, answer.producer_epoch) == (NONE, 1001, 0)


def test_a_new_producer_id_follows_the_last_epoch() -> None:
    """32767 is never given to a client. The shard asks for an id, and only then."""
    shard = Harness()
    shard.producer()
    shard.set_epoch(LAST - 1)
    assert shard.producer() == Producer(1001, LAST)
    assert shard.ask(InitProducerId("x", 1)) is PRODUCER_ID_NEEDED
    assert shard.producer() == Producer(1002, 0)


def test_the_answer_with_the_new_producer_id_is_given_again() -> None:
    """The client still has the old id at its last epoch."""
    shard = Harness()
    shard.producer()
    had = shard.set_epoch(LAST)
    for _ in range(3):
        answer = shard.init(expected=had)
        assert (answer.error, answer.producer_id, answer.producer_epoch) == (NONE, 1002, 0)
    assert shard.init(expected=Producer(1002, 0)).producer_epoch == 1
    assert shard.init(expected=had).error is FENCED


@pytest.mark.parametrize("version", ["0", "2"])
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_transaction_in_the_last_epoch_is_fenced_with_the_greatest(version: str, goes_on: bool) -> None:
    """The marker has epoch 32767; then there is a new producer id, for whoever may go on."""
    shard = Harness(headgate_transaction_version=version)
    shard.producer()
    had = shard.set_epoch(LAST)
    shard.add(had, "t-0")
    assert shard.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    (told,) = shard.complete()
    assert told.end.producer == Producer(1001, 32767)
    if goes_on and version == "2":
        answer = shard.init(expected=had)
        assert (answer.error, answer.producer_id, answer.producer_epoch) == (NONE, 1002, 0)
    assert shard.producer().producer_id == 1002
