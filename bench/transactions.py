"""Measures of transactions: how many end per second, and what readers of committed records lose by them.

The producers (`bench/load/transactions.c`) send raw requests of the second version of the protocol (KIP-890).
A client library would wait longer than either broker works.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count

from bench.data import PARTITIONS, run_data
from bench.figures import Effort, Figure, Measured, MeasureFailed
from bench.load import LoadFailed, LoadResult, TransactionLoad, run_transactions
from bench.peers import Durability, Peer, create_topic

BOTH = (Durability.PAGE_CACHE, Durability.DURABLE)
READ = (Durability.PAGE_CACHE,)
RECORDS_EACH = 1000
_NAMES = (f"transactions-{number:03}" for number in count())


def _transact(bootstrap: str, load: TransactionLoad, seconds: float, warm_up_seconds: float) -> LoadResult:
    try:
        return run_transactions(bootstrap, load, seconds=seconds, warm_up_seconds=warm_up_seconds)
    except LoadFailed as error:
        raise MeasureFailed(str(error)) from error


class TransactionMeasured(Measured):
    """The common part: what both kinds need of a peer."""

    __slots__ = ()

    def fits(self, peer: Peer, durability: Durability) -> bool:
        """Return whether the peer supports the measure at that durability."""
        return peer.has_transactions and durability in peer.bootstraps


@dataclass(frozen=True, slots=True)
class TransactionMeasure(TransactionMeasured):
    """Transactions per second, each of some records in one partition and one offset of a group."""

    name: str
    title: str
    producers: int
    records: int = 1
    durabilities: tuple[Durability, ...] = BOTH
    unit: str = "transactions/s"

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once with a new topic and new producers. Raises MeasureFailed."""
        bootstrap = peer.bootstrap(durability)
        name = _new_topic(peer, durability, self.producers)
        load = TransactionLoad(topic=name, producers=self.producers, records=self.records)
        before_s, began = peer.processor_s(durability), time.monotonic()
        result = _transact(bootstrap, load, effort.seconds, effort.warm_up_seconds)
        share = (peer.processor_s(durability) - before_s) / (time.monotonic() - began)
        value = result.requests_per_s
        return Figure(value, share / value * 1e6, result.p50_ms, result.p99_ms)


@dataclass(frozen=True, slots=True)
class CommittedReadMeasure(TransactionMeasured):
    """Records per second that confluent-kafka reads of transactions of 1,000 records each."""

    name: str
    title: str
    isolation_level: str
    durabilities: tuple[Durability, ...] = READ
    unit: str = "records/s"

    def run(self, peer: Peer, durability: Durability, effort: Effort) -> Figure:
        """Run once with a new topic. Raises MeasureFailed."""
        bootstrap, name = peer.bootstrap(durability), _new_topic(peer, durability, PARTITIONS)
        each = effort.records // RECORDS_EACH // PARTITIONS
        load = TransactionLoad(topic=name, producers=PARTITIONS, records=RECORDS_EACH, most=each)
        _transact(bootstrap, load, seconds=60, warm_up_seconds=0)
        before_s = peer.processor_s(durability)
        records = each * RECORDS_EACH * PARTITIONS
        records_per_s = run_data("consume", bootstrap, name, records, isolation_level=self.isolation_level)
        used_s = peer.processor_s(durability) - before_s
        return Figure(records_per_s, used_s / records * 1e6)


def _new_topic(peer: Peer, durability: Durability, partitions: int) -> str:
    flushes = peer.flushes is not None and durability is Durability.DURABLE
    name = next(_NAMES)
    create_topic(peer.bootstraps[durability], name, partitions, {"flush.messages": 1} if flushes else None)
    return name


TransactionsMeasure = TransactionMeasure | CommittedReadMeasure
TRANSACTION_MEASURES: tuple[TransactionsMeasure, ...] = (
    TransactionMeasure("transactions", "transactions of 1 producer, a record and an offset each", 1),
    TransactionMeasure("transactions-16", "transactions of 16 producers, a record and an offset each", 16),
    TransactionMeasure(
        "transactions-wide", "transactions of 1 producer, 1,000 records each", 1, RECORDS_EACH
    ),
    CommittedReadMeasure("consume-committed", "consume transactions, read_committed", "read_committed"),
    CommittedReadMeasure("consume-uncommitted", "consume transactions, read_uncommitted", "read_uncommitted"),
)
