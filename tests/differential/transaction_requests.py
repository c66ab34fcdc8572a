"""The requests that scenarios about transactions are made of, and the producers that send them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.differential import record_requests
from tests.differential.record_requests import NOW_MS, batch
from tests.differential.requests import Offsets, find_coordinator, offset
from tests.differential.script import Script, Topic
from tests.differential.wire import Request, Tree

OF_BROKERS_SINCE = 4
"""From this version on AddPartitionsToTxn has several transactions."""

TRANSACTIONS = 1
"""The type of a coordinator's key."""

Partitions = Mapping[str, Sequence[int]]


class Producer(NamedTuple):
    """What a transactional producer says of itself in each request."""

    name: str
    """Its transactional id."""
    id: int = -1
    epoch: int = -1

    def fields(self) -> Tree:
        """The fields of most requests."""
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}

    def with_epoch(self, epoch: int) -> Producer:
        """The same in another epoch."""
        return self._replace(epoch=epoch)


def init(producer: Producer, version: int = 5, timeout_ms: int = 60_000, **more: Any) -> Request:
    """InitProducerId; a producer without an id is new."""
    return Request(
        "init_producer_id", version, producer.fields() | {"transaction_timeout": timeout_ms} | more
    )


def _topics(partitions: Partitions, field: str = "partitions") -> list[Tree]:
    return [{"name": name, field: list(indexes)} for name, indexes in partitions.items()]


def add(
    producer: Producer, partitions: Partitions, version: int = 3, *, verify_only: bool = False
) -> Request:
    """AddPartitionsToTxn of one producer."""
    return add_all({producer: partitions}, version, verify_only=verify_only)


def add_all(
    transactions: Mapping[Producer, Partitions], version: int = 5, *, verify_only: bool = False
) -> Request:
    """AddPartitionsToTxn of several producers; of one before version 4."""
    entries = [
        producer.fields() | {"verify_only": verify_only, "topics": _topics(partitions)}
        for producer, partitions in transactions.items()
    ]
    if version >= OF_BROKERS_SINCE:
        return Request("add_partitions_to_txn", version, {"transactions": entries})
    (only,) = entries
    del only["verify_only"]
    return Request(
        "add_partitions_to_txn", version, {f"v3_and_below_{name}": value for name, value in only.items()}
    )


def add_offsets(producer: Producer, group: str, version: int = 3) -> Request:
    """AddOffsetsToTxn."""
    return Request("add_offsets_to_txn", version, producer.fields() | {"group_id": group})


def end(producer: Producer, *, commit: bool, version: int = 5) -> Request:
    """EndTxn."""
    return Request("end_txn", version, producer.fields() | {"committed": commit})


def wait_for_the_end(ask: Script, producer: Producer) -> None:
    """Wait until the markers of an ended transaction are written, which a broker gets round to by itself."""
    ask.wait_until(
        describe(producer),
        lambda answer: not answer["transaction_states"][0]["transaction_state"].startswith("Prepare"),
    )


def txn_commit(
    producer: Producer,
    group: str,
    offsets: Offsets,
    version: int = 5,
    *,
    member: str = "",
    generation: int = -1,
    **more: Any,
) -> Request:
    """TxnOffsetCommit."""
    topics = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": index} | (value if isinstance(value, dict) else offset(value))
                for index, value in partitions.items()
            ],
        }
        for topic, partitions in offsets.items()
    ]
    values = producer.fields() | {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "group_instance_id": None,
        "topics": topics,
    }
    return Request("txn_offset_commit", version, values | more)


def write(
    producer: Producer, topic: Any, value: str = "v", version: int = 12, *, sequence: int = 0, index: int = 0
) -> Request:
    """Produce of one transactional record, a minute ago."""
    records = batch(
        value,
        timestamp=NOW_MS - 60_000,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    request = record_requests.produce(topic, {index: records}, version)
    return request.but(transactional_id=producer.name)


def marker(
    producer: Producer, partitions: Partitions, *, commit: bool, coordinator_epoch: int = 0, version: int = 0
) -> Tree:
    """A marker of WriteTxnMarkers; `version` is the transaction's."""
    return {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "transaction_result": commit,
        "topics": _topics(partitions, "partition_indexes"),
        "coordinator_epoch": coordinator_epoch,
        "transaction_version": version,
    }


def write_markers(*markers: Tree, version: int = 2) -> Request:
    """WriteTxnMarkers."""
    return Request("write_txn_markers", version, {"markers": list(markers)})


def describe(*producers: Producer) -> Request:
    """DescribeTransactions."""
    return Request("describe_transactions", 0, {"transactional_ids": [one.name for one in producers]})


def list_transactions(
    version: int = 2,
    *,
    states: Sequence[str] = (),
    ids: Sequence[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> Request:
    """ListTransactions."""
    values = {
        "state_filters": list(states),
        "producer_id_filters": list(ids),
        "duration_filter": longer_than_ms,
        "transactional_id_pattern": pattern,
    }
    return Request("list_transactions", version, values)


def describe_producers(partitions: Partitions) -> Request:
    """DescribeProducers."""
    return Request("describe_producers", 0, {"topics": _topics(partitions, "partition_indexes")})


# --- what brokers get round to by themselves ---


def new(ask: Script, name: str = "p", **more: Any) -> Producer:
    """A producer with a transactional id of the scenario, which is begun when the coordinator is ready."""
    producer = Producer(f"{ask.name}-{name}")
    ask.wait_until(
        find_coordinator(producer.name, key_type=TRANSACTIONS),
        lambda answer: answer["coordinators"][0]["error_code"] == "none",
    )
    return again(ask, producer, **more)


def again(ask: Script, producer: Producer, **more: Any) -> Producer:
    """InitProducerId until no earlier transaction is in its way: the producer as it is answered."""
    answer = ask.until(
        init(producer, **more),
        lambda answer: (
            answer["error_code"]
            not in ("concurrent_transactions", "not_coordinator", "coordinator_load_in_progress")
        ),
    )
    return answered(producer, answer)


def answered(producer: Producer, answer: Tree) -> Producer:
    """The producer with the id and the epoch of an answer."""
    return Producer(producer.name, answer["producer_id"], answer["producer_epoch"])


def ended(ask: Script, producer: Producer, *, commit: bool, version: int = 5) -> Producer:
    """EndTxn, and wait for the markers: the producer as it goes on."""
    answer = ask(end(producer, commit=commit, version=version))
    complete(ask, producer)
    return answered(producer, answer) if "producer_id" in answer else producer


def complete(ask: Script, producer: Producer) -> None:
    """Wait until the transaction's markers are written; the description becomes part of the story."""
    ask.until(
        describe(producer),
        lambda answer: answer["transaction_states"][0]["transaction_state"].startswith("Complete"),
    )


def read_committed(topic: Topic, offset: int = 0, version: int = 13, index: int = 0) -> Request:
    """Fetch of what is committed."""
    return record_requests.read(topic, {index: offset}, version, isolation_level=1)
