"""A cluster through the client: a real Headgate, mock brokers, and nodes that stop leading partitions."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.client.conftest import PARTITIONS, RECORDS, TOPIC, StartNode
from tests.client.scripted import CLOSE, Answer, ScriptedNode, every_version

from headgate.client.cluster import EARLIEST, LATEST, Cluster, parse_address
from headgate.client.errors import ConnectionFailed, NoNodeReachable, RequestRefused, RequestTimedOut
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName, TopicPartition
from headgate.log.batch import iterate_records
from headgate.wire.framing import RequestHeader
from headgate.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headgate.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from headgate.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headgate.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

ORDERS = TopicName(TOPIC)
GROUP = GroupId("readers")
FETCH, METADATA, FIND_COORDINATOR, HEARTBEAT, API_VERSIONS = 1, 3, 10, 12, 18


@pytest.fixture
def cluster(bootstrap_servers: str) -> Iterator[Cluster]:
    """A new client of the shared cluster."""
    with Cluster(bootstrap_servers) as client:
        yield client


def test_a_topic_and_its_partitions_are_found(cluster: Cluster) -> None:
    """Metadata of a topic by name, and of all topics."""
    assert cluster.partitions_of(ORDERS) == list(range(PARTITIONS))
    assert TOPIC in [topic.name for topic in cluster.metadata().topics]


def test_a_second_thread_is_refused_and_changes_nothing(cluster: Cluster) -> None:
    """Its deadline and its look-ups would be those of the first: later calls would time out at once."""
    is_inside, may_end = threading.Event(), threading.Event()

    def call() -> list[int]:
        is_inside.set()
        assert may_end.wait(10)
        return cluster.partitions_of(ORDERS)

    with ThreadPoolExecutor(1) as other:
        first = other.submit(cluster.retrying, call)
        assert is_inside.wait(10)
        for ask in (cluster.metadata, lambda: cluster.locate_coordinators([GROUP])):
            with pytest.raises(RuntimeError, match="in use by another thread"):
                ask()
        may_end.set()
        assert first.result(10) == cluster.partitions_of(ORDERS)


def test_an_unknown_topic_is_refused_immediately_and_not_created(cluster: Cluster) -> None:
    """A misspelt name is not retried and creates no topic."""
    started = time.monotonic()
    for ask in (
        lambda: cluster.partitions_of(TopicName("ordesr")),
        lambda: cluster.fetch(TopicName("ordesr"), 0, 0),
        lambda: cluster.fetch(ORDERS, PARTITIONS, 0),
    ):
        with pytest.raises(RequestRefused, match="UNKNOWN_TOPIC_OR_PARTITION") as refused:
            ask()
        assert refused.value.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert time.monotonic() - started < 5
    assert "ordesr" not in [topic.name for topic in cluster.metadata().topics]


def test_offsets_are_listed_over_all_leaders(cluster: Cluster) -> None:
    """The start and the end of every partition, from its leader."""
    partitions = [TopicPartition(ORDERS, number) for number in range(PARTITIONS)]
    assert cluster.list_offsets(dict.fromkeys(partitions, EARLIEST)) == dict.fromkeys(partitions, 0)
    ends = cluster.list_offsets(dict.fromkeys(partitions, LATEST))
    assert ends == dict.fromkeys(partitions, RECORDS // PARTITIONS)


def test_records_are_fetched_from_an_offset_to_the_end(cluster: Cluster) -> None:
    """Consecutive fetches from the start return every record once, in order."""
    values: list[bytes | None] = []
    offset, end = 0, RECORDS // PARTITIONS
    while offset < end:
        fetched = cluster.fetch(ORDERS, 1, offset)
        assert (fetched.high_watermark, fetched.log_start_offset) == (end, 0)
        for number, record in iterate_records(fetched.records):
            if number >= offset:
                values.append(record.value)
                offset = number + 1
    assert values == [f"value-{number}".encode() for number in range(1, RECORDS, PARTITIONS)]


def test_a_fetch_at_the_end_waits_and_returns_no_records(cluster: Cluster) -> None:
    """An empty result after `max_wait_ms` is not an error."""
    started = time.monotonic()
    fetched = cluster.fetch(ORDERS, 0, RECORDS // PARTITIONS, max_wait_ms=300)
    assert fetched.records == b""
    assert time.monotonic() - started > 0.25


def test_a_fetch_outside_the_log_is_refused(cluster: Cluster) -> None:
    """The error tells the caller that the offset does not exist."""
    with pytest.raises(RequestRefused, match=f"fetch of {TOPIC}-0: OFFSET_OUT_OF_RANGE"):
        cluster.fetch(ORDERS, 0, 1_000_000)


def test_requests_of_a_group_go_to_its_coordinator(cluster: Cluster) -> None:
    """The coordinator accepts a commit; other nodes refuse it.

    In the newest version that the node supports, the commit has the topic's name or its id.
    """
    (topic,) = cluster.metadata([ORDERS]).topics
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    wanted = OffsetCommitRequestTopic(name=TOPIC, topic_id=topic.topic_id, partitions=[partition])
    commit = OffsetCommitRequest(group_id=GROUP, topics=[wanted])
    response = cluster.ask_coordinator(GROUP, commit)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


# --- nodes that stop leading partitions ---


def metadata_of(leader: ScriptedNode) -> MetadataResponse:
    """Return metadata with one broker, which leads orders-0."""
    topic = MetadataResponseTopic(
        name=TOPIC, partitions=[MetadataResponsePartition(partition_index=0, leader_id=1)]
    )
    broker = MetadataResponseBroker(node_id=1, host=leader.host, port=leader.port)
    return MetadataResponse(brokers=[broker], topics=[topic])


def fetch_of(error_code: int, records: bytes = b"") -> FetchResponse:
    """Return the response to a fetch of orders-0."""
    partition = PartitionData(error_code=error_code, high_watermark=7, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[partition])])


@pytest.mark.parametrize(
    "goodbye", [fetch_of(ErrorCode.NOT_LEADER_OR_FOLLOWER), CLOSE], ids=["refuses", "dies"]
)
def test_a_fetch_follows_the_leader_when_it_moves(start_node: StartNode, goodbye: Answer) -> None:
    """If the old leader refuses or ends, the client fetches from the new leader without an error."""
    leaders: list[ScriptedNode] = []

    def any_leader(header: RequestHeader, frame: bytes) -> Answer:
        return {API_VERSIONS: every_version(), FETCH: goodbye}.get(header.api_key)

    def new_leader(header: RequestHeader, frame: bytes) -> Answer:
        return {API_VERSIONS: every_version(), FETCH: fetch_of(0, b"records")}.get(header.api_key)

    def bootstrap(header: RequestHeader, frame: bytes) -> Answer:
        return every_version() if header.api_key == API_VERSIONS else metadata_of(leaders.pop(0))

    leaders += [start_node(any_leader), start_node(new_leader)]
    first = start_node(bootstrap)
    with Cluster(f"{first.host}:{first.port}") as cluster:
        assert cluster.fetch(ORDERS, 0, 0).records == b"records"


def test_a_fetch_above_the_quota_is_sent_again_when_it_may_be(start_node: StartNode) -> None:
    """A response without partitions tells how long to wait; that is no part of the timeout."""
    answers = [
        FetchResponse(throttle_time_ms=400),
        FetchResponse(throttle_time_ms=400),
        fetch_of(0, b"records"),
    ]
    nodes: list[ScriptedNode] = []

    def script(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == FETCH:
            return answers.pop(0)
        return every_version() if header.api_key == API_VERSIONS else metadata_of(nodes[0])

    nodes.append(start_node(script))
    with Cluster(f"{nodes[0].host}:{nodes[0].port}", 0.5) as cluster:
        assert cluster.fetch(ORDERS, 0, 0).records == b"records"
        answers.append(FetchResponse(throttle_time_ms=1 << 30))
        with pytest.raises(RequestTimedOut, match="is above its quota, and must wait"):
            cluster.fetch(ORDERS, 0, 0)


def test_the_client_waits_for_a_coordinator(start_node: StartNode) -> None:
    """A cluster that has just started returns COORDINATOR_NOT_AVAILABLE for some time."""
    not_yet = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE]

    def script(header: RequestHeader, frame: bytes) -> Answer:
        if header.api_key == API_VERSIONS:
            return every_version()
        if header.api_key == HEARTBEAT:
            return HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        error = not_yet.pop() if not_yet else ErrorCode.NONE
        found = Coordinator(key=GROUP, host=node.host, port=node.port, error_code=error)
        return FindCoordinatorResponse(coordinators=[found])

    node = start_node(script)
    with Cluster(f"{node.host}:{node.port}") as cluster:
        response = cluster.ask_coordinator(GROUP, HeartbeatRequest(group_id=GROUP))
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        cluster.ask_coordinator(GROUP, HeartbeatRequest(group_id=GROUP))
    asked = [key for key, _ in node.requests]
    assert asked.count(FIND_COORDINATOR) == 3
    assert asked.count(API_VERSIONS) == 1


def test_a_partition_without_a_leader_does_not_affect_the_others(start_node: StartNode) -> None:
    """Only requests for it are refused, after the timeout. Other partitions of the topic are served."""
    partitions = [
        MetadataResponsePartition(partition_index=0, leader_id=1),
        MetadataResponsePartition(partition_index=1, leader_id=-1, error_code=ErrorCode.LEADER_NOT_AVAILABLE),
    ]

    def script(header: RequestHeader, frame: bytes) -> Answer:
        topics = [MetadataResponseTopic(name=TOPIC, partitions=partitions)]
        broker = MetadataResponseBroker(node_id=1, host=node.host, port=node.port)
        metadata = MetadataResponse(brokers=[broker], topics=topics)
        return {API_VERSIONS: every_version(), METADATA: metadata}.get(header.api_key, fetch_of(0, b"x"))

    node = start_node(script)
    with Cluster(f"{node.host}:{node.port}", timeout_s=0.3) as cluster:
        assert cluster.fetch(ORDERS, 0, 0).records == b"x"
        with pytest.raises(RequestRefused, match="orders-1: LEADER_NOT_AVAILABLE"):
            cluster.fetch(ORDERS, 1, 0)
        with Cluster(f"{node.host}:{node.port}", leaders=cluster.leaders) as informed:
            assert informed.fetch(ORDERS, 0, 0).records == b"x"
    assert [key for key, _ in node.requests][-2:] == [API_VERSIONS, FETCH]


def test_the_client_waits_for_unreachable_nodes_only_on_request(start_node: StartNode) -> None:
    """A wrong address is reported immediately. With `waits_for_nodes`, servers can be restarting."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with (
        Cluster(f"127.0.0.1:{port}", timeout_s=20) as hasty,
        pytest.raises(NoNodeReachable),
    ):
        hasty.metadata()
    started = time.monotonic()
    with (
        Cluster(f"127.0.0.1:{port}", timeout_s=0.4, waits_for_nodes=True) as patient,
        pytest.raises(NoNodeReachable),
    ):
        patient.metadata()
    assert time.monotonic() - started > 0.2


def test_a_call_and_its_retries_have_one_deadline(cluster: Cluster) -> None:
    """An attempt has the rest of the timeout. The next call has the whole timeout again."""
    left: list[float] = []

    def attempt() -> float:
        left.append(cluster.any_node().timeout_s)
        if len(left) < 3:
            raise ConnectionFailed("lost")
        return cluster.timeout_s

    assert cluster.retrying(attempt) == cluster.timeout_s
    assert left[0] > left[1] + 0.05 > left[2] + 0.1
    assert cluster.any_node().timeout_s == cluster.timeout_s


def test_retries_end_with_the_timeout_and_the_last_error(start_node: StartNode) -> None:
    """If there is no leader until the timeout, the error says so."""
    partition = MetadataResponsePartition(
        partition_index=0, leader_id=-1, error_code=ErrorCode.LEADER_NOT_AVAILABLE
    )
    metadata = MetadataResponse(topics=[MetadataResponseTopic(name=TOPIC, partitions=[partition])])
    node = start_node(lambda header, frame: every_version() if header.api_key == API_VERSIONS else metadata)
    started = time.monotonic()
    with (
        Cluster(f"{node.host}:{node.port}", timeout_s=0.5) as cluster,
        pytest.raises(RequestRefused, match="orders-0: LEADER_NOT_AVAILABLE"),
    ):
        cluster.fetch(ORDERS, 0, 0)
    assert 0.3 < time.monotonic() - started < 5
    assert [key for key, _ in node.requests].count(METADATA) > 1


def test_an_unknown_error_code_is_shown_as_a_number(start_node: StartNode) -> None:
    """A newer node can return an error code that has no name here."""
    node = start_node(
        lambda header, frame: {API_VERSIONS: every_version(), METADATA: metadata_of(node)}.get(
            header.api_key, fetch_of(999)
        )
    )
    with (
        Cluster(f"{node.host}:{node.port}") as cluster,
        pytest.raises(RequestRefused, match="error 999") as refused,
    ):
        cluster.fetch(ORDERS, 0, 0)
    assert (refused.value.code, refused.value.error, refused.value.is_retriable) == (999, None, False)


def test_the_next_bootstrap_server_is_tried_when_one_hangs(start_node: StartNode) -> None:
    """Within the timeout of the call: the first one does not use all of it."""
    node = start_node(
        lambda header, frame: every_version() if header.api_key == API_VERSIONS else MetadataResponse()
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]},{node.host}:{node.port}"
        with Cluster(servers, timeout_s=1.0) as cluster:
            assert cluster.metadata([]).topics == []


def test_the_next_bootstrap_server_is_tried_when_one_is_down(start_node: StartNode) -> None:
    """One reachable server suffices. If there is none, the error immediately names all of them."""
    down = start_node(lambda header, frame: None)
    down.close()
    node = start_node(lambda header, frame: every_version())
    with Cluster(f"{down.host}:{down.port}, {node.host}:{node.port}") as cluster:
        assert cluster.any_node().address == f"{node.host}:{node.port}"
    with (
        Cluster(f"{down.host}:{down.port},{down.host}:{down.port}") as cluster,
        pytest.raises(NoNodeReachable, match=rf"{down.port}.*; .*{down.port}"),
    ):
        cluster.metadata()


@pytest.mark.parametrize(
    ("text", "address"),
    [("localhost:9092", ("localhost", 9092)), (" [::1]:1 ", ("::1", 1)), ("a.b:65535", ("a.b", 65535))],
)
def test_an_address_is_host_and_port(text: str, address: tuple[str, int]) -> None:
    """The format is that of Kafka's bootstrap servers."""
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["localhost", ":9092", "localhost:", "localhost:http", "", "PLAINTEXT://localhost:9092"]
)
def test_an_invalid_address_is_refused(text: str) -> None:
    """The error quotes the address."""
    with pytest.raises(ValueError, match=r"not an address of the form host:port"):
        parse_address(text)
