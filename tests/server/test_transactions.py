"""Transactions on a real node: both versions of the protocol, markers, crashes, lost topics and disks."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.clients import Client
from tests.server.transactions import (
    WIDTH,
    Disk,
    TransactionalProducer,
    committed_values,
    run_on_disk,
    state,
    until_state,
)
from tests.topics.transactions import transactional

from headgate.api.k24_add_partitions_to_txn import _answered
from headgate.api.k66_list_transactions import _matching
from headgate.api.transaction_markers import write_marker
from headgate.core.topic_pattern import TopicPattern, compile_pattern
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicId
from headgate.log.memory_filesystem import Fault
from headgate.records.transactions import TransactionMetadata, TransactionState
from headgate.topics.appends import BUDGET
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic
from headgate.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headgate.wire.messages.api_versions import ApiVersionsRequest
from headgate.wire.messages.init_producer_id import InitProducerIdRequest
from headgate.wire.messages.list_transactions import ListTransactionsRequest
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

NONE = ErrorCode.NONE
VERSIONS = pytest.mark.parametrize("version", [1, 2])


@VERSIONS
def test_transactions_of_one_producer_one_after_the_other(version: int) -> None:
    """Readers of committed records see all of a transaction after its end, and nothing of an aborted one."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producer = TransactionalProducer(client, version)
        await producer.begin()
        expected: list[bytes | None] = []
        for number, is_committed in enumerate((True, False, True, True)):
            value = b"%d" % number
            if version == 1:
                assert await producer.add(0, 1) == {NONE}
            for partition in (0, 1):
                assert await producer.send(value, partition=partition) is NONE
            assert await producer.send(value, partition=0) is NONE
            assert await committed_values(client) == expected
            assert await producer.end(is_committed=is_committed) is NONE
            await until_state(client, "CompleteCommit" if is_committed else "CompleteAbort")
            expected += [value, value] if is_committed else []
        assert await committed_values(client) == expected
        assert producer.epoch == (4 if version == 2 else 0)
        client.node.close()

    run_on_disk(scenario)


def test_a_partition_that_was_not_added_is_not_written() -> None:
    """The first protocol: the client is told as its version allows."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producer = TransactionalProducer(client)
        await producer.begin()
        await producer.add(0)
        assert await producer.send(b"a", partition=1, version=11) is ErrorCode.TRANSACTION_ABORTABLE
        assert await producer.send(b"a", partition=1, version=10) is ErrorCode.INVALID_TXN_STATE
        producer.transactional_id = ""
        for version in (10, 12):
            assert await producer.send(b"a", partition=1, version=version) is ErrorCode.INVALID_REQUEST
        topic = client.node.topics.by_name("t")
        assert topic is not None and topic.partition(1).log_end_offset == 0
        client.node.close()

    run_on_disk(scenario)


def test_a_batch_that_comes_after_the_abort_opens_no_transaction() -> None:
    """Its check takes long in a thread. Its client has given up waiting, and aborts in the same epoch."""

    async def scenario(disk: Disk) -> None:
        node = await disk.start()
        client = Client(node)
        producer = TransactionalProducer(client)
        await producer.begin()
        await producer.add(0)
        held: list[tuple[Callable[[], None], Callable[[BaseException | None], None]]] = []
        node.appends._run_aside = lambda work, on_done: held.append((work, on_done))
        sending = asyncio.create_task(producer.send(*[b""] * BUDGET))
        while not held:
            await asyncio.sleep(0)
        producer.client = other = Client(node)
        assert await producer.end(is_committed=False) is NONE
        await until_state(other, "CompleteAbort")
        ((work, on_done),) = held
        work()
        on_done(None)
        assert await sending is ErrorCode.INVALID_TXN_STATE
        topic = node.topics.by_name("t")
        assert topic is not None and not topic.partition(0).open_transactions
        node.close()

    run_on_disk(scenario)


@pytest.mark.parametrize("version", [11, 12])
def test_a_request_has_one_producer(version: int) -> None:
    """Batches of two epochs are refused together, also in a partition where the transaction is open."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producer = TransactionalProducer(client, version=2)
        await producer.begin()
        assert await producer.send(b"a") is NONE
        data = [
            PartitionProduceData(
                index=index,
                records=transactional(producer.producer_id, b"b", epoch=index, sequence=1 - index),
            )
            for index in (0, 1)
        ]
        topic_data = [TopicProduceData(name="t", partition_data=data)]
        request = ProduceRequest(acks=-1, transactional_id="x", topic_data=topic_data)
        (topic,) = (await client.ask(request, version)).responses
        for answer in topic.partition_responses:
            assert answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
            assert answer.error_message
        client.node.close()

    run_on_disk(scenario)


def test_what_is_not_one_batch_begins_no_transaction() -> None:
    """A batch that is cut short, and two at once: refused before the coordinator is asked."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producer = TransactionalProducer(client, version=2)
        await producer.begin()
        good = bytes(transactional(producer.producer_id, b"a"))
        for records in (good[:-1], good + good):
            data = [PartitionProduceData(index=0, records=records)]
            topic_data = [TopicProduceData(name="t", partition_data=data)]
            request = ProduceRequest(acks=-1, transactional_id="x", topic_data=topic_data)
            (topic,) = (await client.ask(request, 12)).responses
            assert topic.partition_responses[0].error_code == ErrorCode.INVALID_RECORD
            assert (await state(client)).transaction_state == "Empty"
        client.node.close()

    run_on_disk(scenario)


def test_many_partitions_of_one_topic_are_added_in_steps() -> None:
    """Thirty thousand, as in a request of 120 KB, took 0.4 s of the loop."""

    async def scenario(disk: Disk) -> None:
        node = await disk.start()
        count = 30_000
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(range(count)))],
        )
        steps = _answered(node, 3, request)
        pauses = 0
        try:
            while True:
                next(steps)
                pauses += 1
        except StopIteration as stop:
            (answers,) = stop.value.results_by_topic_v3_and_below
        assert pauses >= 2 * count / 500, "the partitions are looked up, and their errors told"
        errors = [one.partition_error_code for one in answers.results_by_partition]
        assert errors == [
            ErrorCode.OPERATION_NOT_ATTEMPTED if index < WIDTH else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for index in range(count)
        ]
        node.close()

    run_on_disk(scenario)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_clients_are_told_which_protocol_to_use(level: int) -> None:
    """A finalized feature, which clients read only with an epoch; version 3 cannot say 0."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        for version, expected in ((3, (None, None)), (4, ((0, 2), (0, 1)))):
            answer = await client.ask(request, version)
            supported = {one.name: (one.min_version, one.max_version) for one in answer.supported_features}
            assert (supported.get("transaction.version"), supported.get("share.version")) == expected
            finalized = {one.name: one.max_version_level for one in answer.finalized_features}
            assert finalized == {"share.version": 1, **({"transaction.version": level} if level else {})}
            assert answer.finalized_features_epoch == 0
        client.node.close()

    run_on_disk(scenario, headgate_transaction_version=str(level))


def test_who_fenced_a_producer_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Each start of a producer with this transactional id, with its client. A refused one is no start."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        for name in ("first", "second"):
            request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=1000)
            assert (await client.ask(request, 5, name)).error_code == ErrorCode.NONE
        request = InitProducerIdRequest(
            transactional_id="payments", transaction_timeout_ms=1000, producer_id=99, producer_epoch=0
        )
        assert (await client.ask(request, 5, "stranger")).error_code == ErrorCode.PRODUCER_FENCED
        client.node.close()

    with caplog.at_level(logging.INFO):
        run_on_disk(scenario)
    told = [vars(one) for one in caplog.records if one.getMessage() == "transactional producer started"]
    assert [(one["client"], one["host"], one["epoch"]) for one in told] == [
        ("first", "/10.0.0.1", 0),
        ("second", "/10.0.0.1", 1),
    ]
    assert {one["transactional_id"] for one in told} == {"payments"}


@VERSIONS
def test_a_zombie_writes_nothing(version: int) -> None:
    """A second producer of the id has begun: the first one's batches and its commit are refused."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        zombie, new = TransactionalProducer(client, version), TransactionalProducer(client, version)
        await zombie.begin()
        await zombie.add(0, 1)
        assert await zombie.send(b"z") is NONE
        await new.begin()
        assert new.epoch == 2
        for partition in (0, 1):
            assert await zombie.send(b"z", partition=partition) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await zombie.end(is_committed=True) is ErrorCode.PRODUCER_FENCED
        assert await committed_values(client) == []
        client.node.close()

    run_on_disk(scenario)


@VERSIONS
@pytest.mark.parametrize("is_committed", [True, False])
def test_what_was_decided_is_carried_through_after_a_crash(version: int, is_committed: bool) -> None:
    """The decision is durable, no marker is: when the next node has started, all of them are."""

    async def scenario(disk: Disk) -> None:
        node = await disk.start()
        client = Client(node)
        producer = TransactionalProducer(client, version)
        await producer.begin()
        partitions = range(5)
        await producer.add(*partitions)
        for partition in partitions:
            assert await producer.send(b"a", partition=partition) is NONE
        node._markers.close()
        assert await producer.end(is_committed=is_committed) is NONE
        assert (await state(client)).transaction_state.startswith("Prepare")
        disk.files.crash()
        client = Client(await disk.start())
        found = await state(client)
        assert found.transaction_state == ("CompleteCommit" if is_committed else "CompleteAbort")
        for partition in partitions:
            assert await committed_values(client, partition) == ([b"a"] if is_committed else [])
        client.node.close()

    run_on_disk(scenario)


def test_a_topic_that_is_deleted_in_a_transaction_does_not_hold_it_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its markers are skipped, which is told once for all of its partitions."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        topics = client.node.topics
        created = topics.create(NewTopic("u", TopicId(b"u" * 16), 3), client.node.system_time())
        producer = TransactionalProducer(client, 2)
        await producer.begin()
        assert await producer.send(b"a") is NONE
        for partition in (1, 2):
            assert await producer.send(b"a", topic="u", partition=partition) is NONE
        assert topics.delete(created, client.node.system_time()) is None  # type: ignore[arg-type]
        assert await producer.end(is_committed=True) is NONE
        await until_state(client, "CompleteCommit")
        assert await committed_values(client) == [b"a"]
        (told,) = [one for one in caplog.records if one.name == "headgate.server.transactions"]
        assert (told.partitions, told.first, told.then) == (2, "u-1", "not needed")  # type: ignore[attr-defined]
        client.node.close()

    run_on_disk(scenario)


@pytest.mark.parametrize("kind", ["pwrite", "datasync"])
def test_a_marker_that_cannot_be_written_is_tried_again(kind: str) -> None:
    """The transaction stays prepared until the disk works; the other partition does not wait for it."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producer = TransactionalProducer(client, 2)
        await producer.begin()
        for partition in (0, 1):
            assert await producer.send(b"a", partition=partition) is NONE
        disk.files.inject(Fault(errno.EIO, kind, after=1, path_ends=".log"))  # the decision passes
        assert await producer.end(is_committed=True) is NONE
        while not await committed_values(client, 0) + await committed_values(client, 1):
            await asyncio.sleep(0)
        assert (await state(client)).transaction_state == "PrepareCommit"
        await until_state(client, "CompleteCommit")
        for partition in (0, 1):
            assert await committed_values(client, partition) == [b"a"]
        client.node.close()

    run_on_disk(scenario)


def test_a_failing_read_does_not_replace_the_answer_of_the_coordinator() -> None:
    """The log opens for the append, but not for the question before it: the partition was not added."""

    async def scenario(disk: Disk) -> None:
        before = Client(await disk.start())
        earlier = TransactionalProducer(before, 2)
        await earlier.begin()
        assert await earlier.send(b"before", partition=1) is NONE
        assert await earlier.end(is_committed=True) is NONE
        await until_state(before, "CompleteCommit")
        disk.files.crash()
        client = Client(await disk.start())
        producer = TransactionalProducer(client, 2)
        await producer.begin()
        disk.files.inject(Fault(errno.EIO, "pread", path_ends=".log"))
        assert await producer.send(b"aborted", partition=1) in (NONE, ErrorCode.KAFKA_STORAGE_ERROR)
        disk.files.heal()
        assert await producer.send(b"other", partition=2) is NONE
        assert await producer.end(is_committed=False) is NONE
        await until_state(client, "CompleteAbort")
        assert await producer.send(b"committed", partition=1) is NONE
        assert await producer.end(is_committed=True) is NONE
        await until_state(client, "CompleteCommit")
        assert await committed_values(client, 1) == [b"before", b"committed"]
        client.node.close()

    run_on_disk(scenario)


@pytest.mark.interpreted
def test_a_failing_partition_holds_up_only_its_own_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if there are as many of them as the writer of markers takes in hand at a time."""
    monkeypatch.setattr("headgate.server.transactions.MOST_IN_HAND", 1)
    is_failing = [True]
    real = write_marker

    def failing(
        node: Any, topic: str, index: int, end: Any, version: int, on_written: Any, **rest: Any
    ) -> Any:
        if index == 0 and is_failing:
            on_written(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            yield from real(node, topic, index, end, version, on_written, **rest)

    monkeypatch.setattr("headgate.server.transactions.write_marker", failing)

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        stuck, other = (TransactionalProducer(client, 2, name) for name in ("stuck", "other"))
        for partition, producer in enumerate((stuck, other)):
            await producer.begin()
            assert await producer.send(b"a", partition=partition) is NONE
            assert await producer.end(is_committed=True) is NONE
        await until_state(client, "CompleteCommit", "other")
        assert (await state(client, "stuck")).transaction_state == "PrepareCommit"
        is_failing.clear()
        await until_state(client, "CompleteCommit", "stuck")
        client.node.close()

    run_on_disk(scenario)


@pytest.mark.interpreted
def test_what_remains_of_a_failed_attempt_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The marker that the first attempt wrote becomes durable after its failure: nothing else goes wrong."""
    failures = [RuntimeError("an attempt fails after its first marker")]
    real = write_marker

    def failing(node: Any, topic: str, index: int, *rest: Any, **more: Any) -> Any:
        if index and failures:
            raise failures.pop()
        yield from real(node, topic, index, *rest, **more)

    told: list[str] = []
    monkeypatch.setattr("headgate.server.transactions.write_marker", failing)
    monkeypatch.setattr("headgate.server.transactions.unexpected", lambda where, what, why: told.append(what))
    monkeypatch.setattr("headgate.runtime.group_commit.unexpected", lambda *what: told.append("sync"))

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producer = TransactionalProducer(client)
        await producer.begin()
        for value in (b"a", b"b"):
            await producer.add(0, 1)
            for partition in (0, 1):
                assert await producer.send(value, partition=partition) is NONE
            assert await producer.end(is_committed=True) is NONE
            await until_state(client, "CompleteCommit")
        assert told == ["markers cannot be written"]
        for partition in (0, 1):
            assert await committed_values(client, partition) == [b"a", b"b"]
        client.node.close()

    run_on_disk(scenario)


def test_an_administrator_ends_a_transaction_in_a_partition() -> None:
    """As Admin.abortTransaction: the coordinator still says Ongoing, its own abort comes later."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producer = TransactionalProducer(client)
        await producer.begin()
        await producer.add(0)
        await producer.send(b"hangs")
        topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0, WIDTH_AND_MORE])]
        marker = WritableTxnMarker(
            producer_id=producer.producer_id, producer_epoch=producer.epoch, topics=topics
        )
        answer = await client.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        partitions = answer.markers[0].topics[0].partitions
        assert [one.error_code for one in partitions] == [NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        topic = client.node.topics.by_name("t")
        assert topic is not None
        assert topic.partition(0).open_transaction_of(producer.producer_id) is None
        assert (await state(client)).transaction_state == "Ongoing"
        client.node.close()

    run_on_disk(scenario)


@pytest.mark.parametrize("topic", ["t", "__consumer_offsets"])
def test_a_marker_of_no_producer_is_not_written(topic: str) -> None:
    """Neither without a producer id nor without an epoch."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=[0])]
        markers = [
            WritableTxnMarker(producer_id=producer_id, producer_epoch=epoch, topics=topics)
            for producer_id, epoch in ((-1, 0), (7, -1))
        ]
        answer = await client.ask(WriteTxnMarkersRequest(markers=markers), 1)
        assert [one.topics[0].partitions[0].error_code for one in answer.markers] == [
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.INVALID_PRODUCER_EPOCH,
        ]
        client.node.close()

    run_on_disk(scenario)


WIDTH_AND_MORE = 1_000


def test_transactional_ids_are_listed_by_state_producer_and_pattern() -> None:
    """State names have a case; unknown ones are told; a bad pattern is refused."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producers = {}
        for name in ("a1", "a2", "b1"):
            producers[name] = TransactionalProducer(client, 2, name)
            await producers[name].begin()
        await producers["a2"].send(b"a")

        async def listed(**filters: object) -> set[str]:
            answer = await client.ask(ListTransactionsRequest(**filters), 2)  # type: ignore[arg-type]
            assert answer.error_code == NONE
            return {one.transactional_id for one in answer.transaction_states}

        assert await listed() == {"a1", "a2", "b1"}
        assert await listed(state_filters=["Ongoing"]) == {"a2"}
        assert await listed(state_filters=["ongoing"]) == set()
        assert await listed(producer_id_filters=[producers["b1"].producer_id]) == {"b1"}
        assert await listed(transactional_id_pattern="a.") == {"a1", "a2"}
        assert await listed(transactional_id_pattern="a") == set()
        assert await listed(transactional_id_pattern="") == {"a1", "a2", "b1"}
        assert await listed(duration_filter=3_600_000) == {"a1", "b1"}
        answer = await client.ask(ListTransactionsRequest(state_filters=["What", "Empty"]), 0)
        assert answer.unknown_state_filters == ["What"]
        assert {one.transaction_state for one in answer.transaction_states} == {"Empty"}
        bad = await client.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
        assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        assert (await state(client, "unknown")).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert (await state(client, "")).error_code == ErrorCode.INVALID_REQUEST
        client.node.close()

    run_on_disk(scenario)


def test_long_transactional_ids_are_matched_in_a_thread_one_by_one() -> None:
    """A match of 32 KB takes half a second with the worst pattern that is accepted."""
    pattern = compile_pattern("(.*a.{8}){100}")
    assert isinstance(pattern, TopicPattern)
    long, short = "ab" * 500 + "a", [f"a{number}" for number in range(40)]
    listed = [_listed_id(name) for name in (long, *short, long)]
    steps = _matching(pattern, listed)
    pieces = []
    try:
        while True:
            work = next(steps)
            assert callable(work), "it is passed to a thread"
            work()
            pieces.append(work)
    except StopIteration as stop:
        assert stop.value == [listed[0], listed[-1]]
    assert len(pieces) > 2


def _listed_id(transactional_id: str) -> TransactionMetadata:
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=1,
        producer_epoch=0,
        previous_producer_id=1,
        timeout_ms=1,
        state=TransactionState.EMPTY,
        last_update_timestamp=Millis(1),
    )


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "error"),
    [
        ("", 1, ErrorCode.INVALID_REQUEST),
        ("x" * 32_767, 1, NONE),
        ("x", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("x", -1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("x", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("x", 900_000, NONE),
    ],
)
def test_the_bounds_of_a_producer(transactional_id: str, timeout_ms: int, error: ErrorCode) -> None:
    """An id must fit into a record, a timeout must not exceed the broker's."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producer = TransactionalProducer(client, 2, transactional_id)
        assert await producer.init(timeout_ms=timeout_ms) is error
        client.node.close()

    run_on_disk(scenario)


@pytest.mark.parametrize(
    ("server", "topic", "is_synced"),
    [
        ("page-cache", None, False),
        ("page-cache", {"headgate.durability": "sync"}, True),
        ("page-cache", {"flush.messages": "1"}, True),
        ("page-cache", {"flush.ms": "60000"}, True),
        ("sync", {"headgate.durability": "page-cache"}, True),
    ],
)
def test_a_marker_is_as_durable_as_what_the_coordinator_remembers(
    server: str, topic: dict[str, str] | None, is_synced: bool
) -> None:
    """Where nothing is synced, it is not either; otherwise a power cut could leave its transaction open."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        node = client.node
        created = node.topics.create(NewTopic("own", TopicId(b"o" * 16), 1, topic or {}), node.system_time())
        assert isinstance(created, Topic)
        producer = TransactionalProducer(client, 2)
        await producer.begin()
        assert await producer.send(b"v", topic="own") is NONE
        assert await producer.end(is_committed=True) is NONE
        await until_state(client, "CompleteCommit")
        log = created.partition(0).log
        assert (log.durable_offset == log.log_end_offset) is is_synced
        assert await committed_values(client, topic="own") == [b"v"]
        node.close()

    run_on_disk(scenario, headgate_durability=server)


@VERSIONS
def test_a_marker_of_an_administrator_does_not_fence_the_coordinator(version: int) -> None:
    """With any epoch of a coordinator: what is committed later is visible, and of that epoch in the log."""

    async def scenario(disk: Disk) -> None:
        client = Client(await disk.start())
        producer = TransactionalProducer(client, version)
        await producer.begin()
        topics = [WritableTxnMarkerTopic(name="t", partition_indexes=[0])]
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            topics=topics,
            coordinator_epoch=0x7FFF_FFFF,
        )
        ended = await client.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        assert ended.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE
        for value in (b"a", b"b"):
            if version == 1:
                await producer.add(0)
            assert await producer.send(value) is NONE
            assert await producer.end(is_committed=True) is NONE
            await until_state(client, "CompleteCommit")
        assert await committed_values(client) == [b"a", b"b"]
        client.node.close()
        client = Client(await disk.start())
        assert await committed_values(client) == [b"a", b"b"]
        client.node.close()

    run_on_disk(scenario)
