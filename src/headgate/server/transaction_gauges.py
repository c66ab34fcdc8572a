"""Metrics of transactions: what the coordinator knows, what is open in partitions, and what hangs there.

A transaction that stays open holds back the readers of committed records, compaction and retention. One that
no coordinator will end hangs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Final

from prometheus_client.metrics_core import Metric

from headgate.core.transactions.shard import TransactionShard
from headgate.domain.ids import Millis, TopicName
from headgate.records.transactions import TransactionState
from headgate.runtime.gauges import counter, gauge
from headgate.topics.transactions import Transactions

MOST_PARTITIONS: Final = 100
"""Only the partitions with the oldest transactions have a gauge of their own."""

LOOKED_AT_ONCE: Final = 100
"""Open transactions that are looked for at the coordinator in one slice."""


def coordinator_gauges(
    shards: Sequence[TransactionShard], ended: Mapping[bool, int]
) -> Iterator[Metric | None]:
    """Yield what the coordinator knows. `ended`: numbers of transactions, by whether they were committed."""
    overviews = [shard.overview for shard in shards]
    yield gauge(
        "headgate_transactional_ids",
        "Transactional ids by the state of their last transaction.",
        [((state.title,), sum(one.count(state) for one in overviews)) for state in TransactionState],
        ("state",),
    )
    yield counter(
        "headgate_transactions_ended",
        "Transactions whose markers are written, by result.",
        [(("commit",), ended[True]), (("abort",), ended[False])],
        ("result",),
    )
    yield counter(
        "headgate_transactions_timed_out",
        "Transactions that were aborted because of their timeout.",
        [((), sum(one.timed_out for one in overviews))],
        (),
    )


def hanging_gauge(
    in_transaction: Mapping[tuple[TopicName, int], Transactions], shards: Sequence[TransactionShard]
) -> Iterator[Metric | None]:
    """Yield the number of transactions that hang, and None where a slice may end.

    Between two slices transactions begin and end. So one is looked for at the coordinator in the same slice
    in which it is found open.
    """
    hanging = looked_at = 0
    for topic, index in list(in_transaction):
        transactions = in_transaction.get((topic, index))
        if transactions is None:
            continue
        for producer_id, *_ in transactions.all_open():
            looked_at += 1
            if looked_at % LOOKED_AT_ONCE == 0:
                yield None
            if producer_id in transactions:
                hanging += not any(shard.overview.will_end(producer_id, topic, index) for shard in shards)
    yield gauge(
        "headgate_hanging_transactions",
        "Open transactions in partitions that no coordinator will end.",
        [((), hanging)],
    )


def transaction_gauges(
    in_transaction: Mapping[tuple[TopicName, int], Transactions], now: Millis
) -> Iterator[Metric | None]:
    """Yield the gauges of open transactions, and None where a slice may end. `now`: system time, in ms."""
    places = list(in_transaction.items())
    yield gauge(
        "headgate_open_transactions",
        "Open transactions in partitions: one transaction counts once for each of its partitions.",
        [((), sum(len(transactions) for _, transactions in places))],
        (),
    )
    yield None
    began = [
        (oldest.since, place)
        for place, transactions in places
        if (oldest := transactions.oldest()) is not None and oldest.since >= 0
    ]
    yield gauge(
        "headgate_oldest_open_transaction_seconds",
        "Time since the first append of the oldest open transaction of a partition, of the "
        f"{MOST_PARTITIONS} partitions with the oldest ones.",
        [
            ((topic, str(index)), max(0, now - since) / 1000)
            for since, (topic, index) in nsmallest(MOST_PARTITIONS, began)
        ],
        ("topic", "partition"),
    )
