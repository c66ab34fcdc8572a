"""Partitions that are added while the last transaction is being completed wait for its markers."""

from __future__ import annotations

from tests.core.transactions.harness import Harness, parts

from headgate.core.contract import Producer, Token
from headgate.core.transactions.commands import AddPartitions
from headgate.core.transactions.waiting import MOST_PARTITIONS, MOST_WAITING, PATIENCE_MS
from headgate.domain.errors import ErrorCode
from headgate.records.transactions import TransactionState, decode_transaction

NONE = ErrorCode.NONE
LATER = ErrorCode.CONCURRENT_TRANSACTIONS


def begin(shard: Harness, timeout_ms: int = 60_000) -> Producer:
    """Commit a transaction, whose markers are not written; the producer of the next one."""
    producer = shard.producer(timeout_ms=timeout_ms)
    assert shard.add(producer, "t-0", version=2) is NONE
    answer = shard.end(producer, True, version=2)
    return Producer(answer.producer_id, answer.producer_epoch)


def wait(shard: Harness, producer: Producer, *names: str) -> Token:
    """Ask for partitions, with patience."""
    return shard.send(AddPartitions("x", producer, parts(*names), 2, is_patient=True))


def test_what_waited_is_added_with_the_completion() -> None:
    """All of it in one record, in one batch of the log with the completion."""
    shard = Harness()
    producer = begin(shard)
    tokens = [wait(shard, producer, name) for name in ("t-1", "u-0", "t-1")]
    assert not set(tokens) & set(shard.answers)
    before = len(shard.log)
    shard.complete()
    assert [shard.answers[token] for token in tokens] == [NONE] * 3
    states = [decode_transaction(*one) for one in shard.log[before:]]
    assert [one.state.title for one in states] == ["CompleteCommit", "Ongoing"]  # type: ignore[union-attr]
    assert shard.of().partitions == parts("t-1", "u-0")
    assert shard.end(producer, True, version=2).error is NONE


def test_the_transaction_that_begins_so_times_out() -> None:
    """From the time of its beginning on."""
    shard = Harness()
    producer = begin(shard, timeout_ms=5_000)
    shard.advance(4_950)
    wait(shard, producer, "t-1")
    shard.complete()
    shard.advance(4_999)
    assert shard.state() is TransactionState.ONGOING
    shard.advance(1)
    assert shard.state() is TransactionState.PREPARE_ABORT


def test_patience_ends() -> None:
    """Then the client asks again; the completion that comes later adds nothing."""
    shard = Harness()
    producer = begin(shard)
    first = wait(shard, producer, "t-1")
    shard.advance(PATIENCE_MS - 1)
    second = wait(shard, producer, "t-2")
    assert first not in shard.answers
    shard.advance(1)
    assert shard.answers[first] is shard.answers[second] is LATER
    shard.complete()
    assert shard.state() is TransactionState.COMPLETE_COMMIT
    third = wait(shard, producer, "t-1")
    assert shard.answers[third] is NONE


def test_a_zombie_waits_in_vain() -> None:
    """It is refused when the transaction is complete, and what waits behind it is added."""
    shard = Harness()
    following = begin(shard)
    zombie = wait(shard, following._replace(epoch=0), "t-1")
    other = wait(shard, following, "t-2")
    shard.complete()
    assert shard.answers[zombie] is ErrorCode.PRODUCER_FENCED
    assert shard.answers[other] is NONE
    assert shard.of().partitions == parts("t-2")


def test_only_some_wait() -> None:
    """A completion must not become too large, or take long, by what waits for it."""
    shard = Harness()
    producer = begin(shard)
    wide = wait(shard, producer, *(f"t-{index}" for index in range(MOST_PARTITIONS + 1)))
    assert shard.answers[wide] is LATER
    tokens = [wait(shard, producer, f"t-{index}") for index in range(MOST_WAITING + 1)]
    assert shard.answers[tokens.pop()] is LATER
    assert not set(tokens) & set(shard.answers)
    shard.complete()
    assert {shard.answers[token] for token in tokens} == {NONE}
    assert shard.of().partitions == parts(*(f"t-{index}" for index in range(MOST_WAITING)))


def test_the_patience_of_the_next_wait_is_its_own() -> None:
    """What waited for the transaction before does not shorten it."""
    shard = Harness()
    producer = begin(shard)
    wait(shard, producer, "t-1")
    shard.complete()
    assert shard.end(producer, True, version=2).error is NONE
    shard.advance(PATIENCE_MS - 1)
    token = wait(shard, producer, "t-2")
    shard.advance(PATIENCE_MS - 1)
    assert token not in shard.answers
    shard.advance(1)
    assert shard.answers[token] is LATER


def test_a_load_forgets_what_waited() -> None:
    """Its runtime has answered it; the completion does not add it."""
    shard = Harness()
    token = wait(shard, begin(shard), "t-1")
    shard.reload()
    shard.complete()
    shard.advance(PATIENCE_MS)
    assert token not in shard.answers
    assert shard.state() is TransactionState.COMPLETE_COMMIT
