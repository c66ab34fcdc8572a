"""Transactional ids, the producers of partitions, and how to end transactions that hang (KIP-664).

The coordinator of a transactional id knows its open transaction. A partition knows its producers, and the
first offset of the open transaction of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headgate.client.cluster import SEVERAL_COORDINATORS_SINCE, Cluster
from headgate.client.connection import Connection
from headgate.client.errors import (
    ClientError,
    PartlyRefused,
    RequestRefused,
    VersionNotSupported,
    check,
    check_parts,
)
from headgate.client.uncoordinated import without_coordinator
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TRANSACTION_STATE_TOPIC, TopicName, TopicPartition
from headgate.wire.messages import describe_producers as producers
from headgate.wire.messages import describe_transactions as describe
from headgate.wire.messages import write_txn_markers as markers
from headgate.wire.messages.find_coordinator import FindCoordinatorRequest
from headgate.wire.messages.init_producer_id import InitProducerIdRequest
from headgate.wire.messages.list_transactions import ListTransactionsRequest

PARTITIONS_AT_ONCE = 500
"""Partitions of which one request describes the producers, as Kafka's tool does it."""
TRANSACTION_KEY_TYPE = 1
LAST_INIT_PRODUCER_ID = 5
DURATION_FILTER_SINCE = 1
PATTERN_FILTER_SINCE = 2
LONGEST_FENCING_MS = 60_000
"""The greatest transaction timeout that fencing asks for; brokers admit it by default."""
_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id in a list."""

    transactional_id: str
    coordinator_id: int
    """Node id of the coordinator."""
    producer_id: int
    state: str
    """`Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit`, `CompleteAbort`, ..."""


class TransactionsMissing(ClientError):
    """Transactional ids may be missing in a list: partitions of their log have no leader, so no coordinator.

    `listings` has the others, `reasons` says why.
    """

    def __init__(self, listings: Sequence[TransactionListing], reasons: Sequence[ClientError]) -> None:
        self.listings = tuple(listings)
        self.reasons = tuple(reasons)
        super().__init__(f"transactional ids are missing: {'; '.join(map(str, reasons))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id with its last transaction."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_time_ms: int | None
    """When the transaction began, in ms since 1970; None: there was none yet."""
    partitions: tuple[TopicPartition, ...]
    """The partitions whose marker is not written yet, sorted; `__consumer_offsets` for offsets of groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """What a partition knows of a producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    """Timestamp of its last batch, in ms since 1970; -1: unknown."""
    coordinator_epoch: int | None
    """Epoch of the coordinator that wrote its last marker; None: there is no marker of it."""
    current_transaction_start_offset: int | None
    """First offset of its open transaction; None: it has none."""


class FencedProducer(NamedTuple):
    """Producer id and epoch that a transactional id has now. Producers of an earlier epoch are fenced."""

    producer_id: int
    producer_epoch: int


_STATES = (
    "states are Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, Dead and "
    "PrepareEpochFence"
)


def list_transactions(
    cluster: Cluster,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    longer_than_ms: int = -1,
    transactional_id_pattern: str | None = None,
) -> list[TransactionListing]:
    """Return the transactional ids of all coordinators that every given filter admits, sorted.

    Raises `VersionNotSupported` if a node does not know a given filter, `RequestRefused` if it does not know
    a state, and `TransactionsMissing` if some ids have no coordinator.
    """
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=max(longer_than_ms, -1),
        transactional_id_pattern=transactional_id_pattern,
    )

    def attempt() -> list[TransactionListing]:
        found: list[TransactionListing] = []
        for broker in cluster.metadata([]).brokers:
            node = cluster.node_at((broker.host, broker.port))
            _check_filters(node, request)
            response = node.request(request)
            what = f"transactions of {node.address}"
            check(what, response.error_code)
            if unknown := response.unknown_state_filters:
                # Kafka answers as if no transaction had the state: nobody would notice a typo.
                reason = f"it knows no state {', '.join(unknown)}; {_STATES}"
                raise RequestRefused(what, ErrorCode.INVALID_REQUEST, reason)
            found += [
                TransactionListing(
                    transactional_id=one.transactional_id,
                    coordinator_id=broker.node_id,
                    producer_id=one.producer_id,
                    state=one.transaction_state,
                )
                for one in response.transaction_states
            ]
        return sorted(found, key=lambda one: (one.transactional_id, one.coordinator_id))

    listings = cluster.retrying(attempt)
    if reasons := without_coordinator(cluster, TRANSACTION_STATE_TOPIC):
        raise TransactionsMissing(listings, reasons)
    return listings


def _check_filters(node: Connection, request: ListTransactionsRequest) -> None:
    """Refuse a filter that the node does not know, and would therefore not apply."""
    version = node.version_for(ListTransactionsRequest)
    if request.duration_filter >= 0 and version < DURATION_FILTER_SINCE:
        raise VersionNotSupported(f"{node.address} cannot list transactions by their duration")
    if request.transactional_id_pattern and version < PATTERN_FILTER_SINCE:
        raise VersionNotSupported(f"{node.address} cannot list transactions by a pattern of their ids")


def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription | None]:
    """Describe transactional ids, in the given order; None for one that does not exist."""
    wanted = list(dict.fromkeys(transactional_ids))

    def attempt() -> dict[str, TransactionDescription | None]:
        found: dict[str, TransactionDescription] = {}
        for (node_id, node), some in _coordinators(cluster, wanted).items():
            response = node.request(describe.DescribeTransactionsRequest(transactional_ids=some))
            for one in response.transaction_states:
                if one.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    check(f"transactional id {one.transactional_id}", one.error_code)
                    found[one.transactional_id] = _described(one, node_id)
        return {transactional_id: found.get(transactional_id) for transactional_id in wanted}

    return cluster.retrying(attempt)


def _described(state: describe.TransactionState, node_id: int) -> TransactionDescription:
    start = state.transaction_start_time_ms
    return TransactionDescription(
        transactional_id=state.transactional_id,
        coordinator_id=node_id,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        state=state.transaction_state,
        timeout_ms=state.transaction_timeout_ms,
        start_time_ms=start if start >= 0 else None,
        partitions=tuple(
            sorted(
                TopicPartition(TopicName(topic.topic), index)
                for topic in state.topics
                for index in topic.partitions
            )
        ),
    )


def _coordinators(cluster: Cluster, transactional_ids: list[str]) -> dict[tuple[int, Connection], list[str]]:
    """Return the transactional ids of each coordinator, by its node id and a connection to it."""
    node = cluster.any_node()
    if not transactional_ids:
        return {}
    if node.version_for(FindCoordinatorRequest) < SEVERAL_COORDINATORS_SINCE:
        raise VersionNotSupported(f"{node.address} is older than Kafka 3.0, and cannot describe transactions")
    request = FindCoordinatorRequest(key_type=TRANSACTION_KEY_TYPE, coordinator_keys=transactional_ids)
    found: dict[tuple[int, Connection], list[str]] = {}
    for one in node.request(request).coordinators:
        check(f"the coordinator of transactional id {one.key}", one.error_code, one.error_message)
        found.setdefault((one.node_id, cluster.node_at((one.host, one.port))), []).append(one.key)
    return found


def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition], broker_id: int | None = None
) -> dict[TopicPartition, list[ProducerState]]:
    """Return the producers that each partition knows, sorted by producer id.

    The leader of each partition is asked, or the replica on the broker `broker_id`. Raises `PartlyRefused`.
    """
    wanted = sorted(set(partitions))

    def attempt() -> dict[TopicPartition, list[ProducerState]]:
        found: dict[TopicPartition, list[ProducerState]] = {}
        codes: dict[TopicPartition, int] = {}
        asked = (
            cluster.leaders_of(wanted) if broker_id is None else {broker_of(cluster, broker_id): list(wanted)}
        )
        for node, there in asked.items():
            for some in _in_parts(there):
                for where, answer in _ask_producers(node, some):
                    codes[where] = answer.error_code
                    found[where] = sorted(map(_producer, answer.active_producers), key=_by_id)
        check_parts(codes, "partition")
        return found

    return cluster.retrying(attempt)


def broker_of(cluster: Cluster, broker_id: int) -> Connection:
    """Return a connection to the broker with that id. Raises `RequestRefused`: BROKER_ID_NOT_REGISTERED."""
    for broker in cluster.metadata([]).brokers:
        if broker.node_id == broker_id:
            return cluster.node_at((broker.host, broker.port))
    raise RequestRefused(f"broker {broker_id}", ErrorCode.BROKER_ID_NOT_REGISTERED)


def _in_parts(partitions: list[TopicPartition]) -> Iterator[list[TopicPartition]]:
    for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
        yield partitions[start : start + PARTITIONS_AT_ONCE]


def _ask_producers(
    node: Connection, partitions: list[TopicPartition]
) -> Iterator[tuple[TopicPartition, producers.PartitionResponse]]:
    topics: dict[TopicName, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    request = producers.DescribeProducersRequest(
        topics=[producers.TopicRequest(name=name, partition_indexes=some) for name, some in topics.items()]
    )
    for found in node.request(request).topics:
        for answer in found.partitions:
            yield TopicPartition(TopicName(found.name), answer.partition_index), answer


def _producer(found: producers.ProducerState) -> ProducerState:
    start = found.current_txn_start_offset
    return ProducerState(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        last_sequence=found.last_sequence,
        last_timestamp=found.last_timestamp,
        coordinator_epoch=None if found.coordinator_epoch == _UNKNOWN else found.coordinator_epoch,
        current_transaction_start_offset=None if start == _UNKNOWN else start,
    )


def _by_id(producer: ProducerState) -> int:
    return producer.producer_id


def abort_transaction(
    cluster: Cluster,
    partition: TopicPartition,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
) -> None:
    """Abort a producer's transaction in one partition: the leader writes the marker there.

    The coordinator does not take part, so this is for transactions that it does not know. Raises
    `PartlyRefused`: INVALID_PRODUCER_EPOCH if the producer has another epoch, UNKNOWN_TOPIC_OR_PARTITION.
    """
    place = markers.WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])
    marker = markers.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[place],
        coordinator_epoch=coordinator_epoch,
    )

    def attempt() -> None:
        (leader,) = cluster.leaders_of([partition])
        (answer,) = leader.request(markers.WriteTxnMarkersRequest(markers=[marker])).markers
        codes = {
            TopicPartition(TopicName(topic.name), one.partition_index): one.error_code
            for topic in answer.topics
            for one in topic.partitions
        }
        check_parts(codes, "partition")

    cluster.retrying(attempt)


def fence_producers(cluster: Cluster, transactional_ids: Iterable[str]) -> dict[str, FencedProducer]:
    """Give each transactional id a new epoch: earlier producers are fenced, an open transaction is aborted.

    Returns when the transactions are aborted. A transactional id that does not exist is created. Raises
    `PartlyRefused`; the other ids are fenced.
    """
    fenced: dict[str, FencedProducer] = {}
    refused: dict[str, RequestRefused] = {}
    for transactional_id in dict.fromkeys(transactional_ids):
        try:
            fenced[transactional_id] = fence_producer(cluster, transactional_id)
        except RequestRefused as error:
            refused[transactional_id] = error
    if refused:
        raise PartlyRefused(refused)
    return fenced


def fence_producer(cluster: Cluster, transactional_id: str) -> FencedProducer:
    """Do the same for one transactional id. Raises `RequestRefused`."""
    timeout_ms = min(max(round(cluster.timeout_s * 1000), 1), LONGEST_FENCING_MS)
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
    )

    def attempt() -> FencedProducer:
        ((_, node),) = _coordinators(cluster, [transactional_id])
        response = node.request(request, at_most=LAST_INIT_PRODUCER_ID)
        check(f"transactional id {transactional_id}", response.error_code)
        return FencedProducer(response.producer_id, response.producer_epoch)

    return cluster.retrying(attempt)
