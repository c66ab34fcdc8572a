"""Gauges of open transactions: how many there are, and how old the oldest one of a partition is.

A transaction that stays open holds back the readers of committed records, compaction and retention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nsmallest
from typing import Final

from prometheus_client.metrics_core import Metric

from headgate.domain.ids import Millis, TopicName
from headgate.runtime.gauges import gauge
from headgate.topics.transactions import Transactions

MOST_PARTITIONS: Final = 100
"""Only the partitions with the oldest transactions have a gauge of their own."""


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
