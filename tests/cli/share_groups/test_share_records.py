"""`headgate share-groups` for single records, against a server: show, release, archive, redeliver."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.cli.support import Command, rows
from tests.waiting import wait_until
from typer.testing import CliRunner, Result

from headgate.admin import (
    Admin,
    AsyncAdmin,
    ConfigChange,
    ConfigResource,
    ResourceType,
    ShareAlteration,
    ShareRecordState,
    TopicPartition,
)
from headgate.broker import run
from headgate.cli import app
from headgate.client import share_deliveries
from headgate.client.cluster import Cluster
from headgate.client.connection import Connection
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.log.batch import Record, encode_batch
from headgate.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headgate.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from headgate.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest

RECORDS = 8
WHERE = TopicPartition(TopicName("orders"), 3)
ACCEPT, REJECT = 1, 3
_GROUP_CONFIG = 32


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    """A server with the group `work` and its dead-letter topic; a member has records of orders-3."""
    with (
        run() as broker,
        Cluster(broker.bootstrap_servers) as cluster,
        Admin(broker.bootstrap_servers) as admin,
    ):
        enabled = CreatableTopicConfig(name="errors.deadletterqueue.group.enable", value="true")
        topics = [
            CreatableTopic(name="orders", num_partitions=4, replication_factor=1),
            CreatableTopic(name="dlq.work", num_partitions=1, replication_factor=1, configs=[enabled]),
        ]
        cluster.any_node().request(CreateTopicsRequest(topics=topics, timeout_ms=20_000))
        _set_dead_letter_topic(cluster)
        admin.alter_share_offsets("work", {WHERE: 0})
        _produce(cluster)
        _consume(cluster)
        yield broker.bootstrap_servers


def _set_dead_letter_topic(cluster: Cluster) -> None:
    config = AlterableConfig(name="errors.deadletterqueue.topic.name", config_operation=0, value="dlq.work")
    resource = AlterConfigsResource(resource_type=_GROUP_CONFIG, resource_name="work", configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = cluster.any_node().request(request).responses
    assert answer.error_code == ErrorCode.NONE, answer.error_message


def _produce(cluster: Cluster) -> None:
    batch = bytes(encode_batch([Record(None, b"%d" % at, 1) for at in range(RECORDS)]))
    data = PartitionProduceData(index=WHERE.partition, records=batch)
    topic = TopicProduceData(name=WHERE.topic, topic_id=_topic_id(cluster), partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=[topic])
    (answer,) = cluster.any_node().request(request).responses
    assert answer.partition_responses[0].error_code == ErrorCode.NONE


def _topic_id(cluster: Cluster) -> bytes:
    (topic,) = cluster.metadata([WHERE.topic]).topics
    return bytes(topic.topic_id)


def _consume(cluster: Cluster) -> None:
    """Fetch all records as `m`, accept the second and reject the third and the last one."""
    topic_id = _topic_id(cluster)
    node = cluster.coordinator(GroupId("work"))
    fetch = ShareFetchRequest(
        group_id="work",
        member_id="m",
        share_session_epoch=0,
        max_wait_ms=5_000,
        max_bytes=1 << 20,
        max_records=500,
        batch_size=500,
        topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_index=3)])],
    )
    assert node.request(fetch).error_code == ErrorCode.NONE
    batches = [
        AcknowledgementBatch(first_offset=at, last_offset=at, acknowledge_types=[kind])
        for at, kind in ((1, ACCEPT), (2, REJECT), (RECORDS - 1, REJECT))
    ]
    partition = AcknowledgePartition(partition_index=3, acknowledgement_batches=batches)
    topic = AcknowledgeTopic(topic_id=topic_id, partitions=[partition])
    acknowledge = ShareAcknowledgeRequest(
        group_id="work", member_id="m", share_session_epoch=1, topics=[topic]
    )
    (answer,) = node.request(acknowledge).responses
    assert answer.partitions[0].error_code == ErrorCode.NONE


@pytest.fixture
def command(bootstrap_servers: str) -> Command:
    """Run the command in this process with that server."""

    def invoke(*arguments: Any) -> Result:
        words = ["share-groups", "--bootstrap-server", bootstrap_servers, "--group", "work", *arguments]
        return CliRunner().invoke(app, list(map(str, words)))

    return invoke


@pytest.fixture
def records(command: Command) -> Callable[[], list[dict[str, Any]]]:
    """Return what `--records` knows, as JSON, when all dead letters are written."""

    def found() -> list[dict[str, Any]]:
        result = command("--records", "--topic", "orders:3", "--output", "json")
        assert result.exit_code == 0, result.stderr
        listed: list[dict[str, Any]] = json.loads(result.stdout)["records"]
        return listed

    def settled() -> list[dict[str, Any]] | None:
        listed = found()
        return None if any(one["state"] == "archiving" for one in listed) else listed

    return lambda: wait_until(settled, "dead letters are written", 20)


def test_records_are_shown(command: Command, records: Callable[[], list[dict[str, Any]]]) -> None:
    """As a table, JSON or CSV: who has them, since when, until when, and why not any more."""
    listed = records()
    assert [(one["first_offset"], one["last_offset"], one["state"]) for one in listed] == [
        (0, 0, "acquired"),
        (1, 1, "acknowledged"),
        (2, 2, "archived"),
        (3, 6, "acquired"),
        (7, 7, "archived"),
    ]
    assert (listed[2]["reason"], listed[2]["consumer_id"]) == ("rejected by the member", "m")
    assert (listed[0]["consumer_id"], listed[0]["delivery_count"]) == ("m", 1)
    assert re.fullmatch(r"20\d\d-.*Z", listed[0]["since"])
    assert listed[0]["since"] < listed[0]["locked_until"]
    table = rows(command("--records", "--topic", "orders", "--offset", "1-2"))
    assert table[0] == [
        *("TOPIC", "PARTITION", "FIRST-OFFSET", "LAST-OFFSET", "STATE"),
        *("DELIVERY-COUNT", "CONSUMER-ID", "SINCE", "LOCKED-UNTIL", "REASON"),
    ]
    assert [line[2] for line in table[1:]] == ["1", "2"]
    text = command("--records", "--topic", "orders:3", "--output", "csv").stdout
    assert [line["state"] for line in csv.DictReader(io.StringIO(text))] == [one["state"] for one in listed]


def test_more_records_than_the_limit(command: Command) -> None:
    """The rest is told on standard error, with the option that goes on."""
    result = command("--records", "--topic", "orders:3", "--limit", 2)
    assert len(rows(result)) == 3
    assert "--topic orders:3 --offset 2-" in result.stderr


def test_records_are_set_aside_and_delivered_again(
    command: Command, records: Callable[[], list[dict[str, Any]]], bootstrap_servers: str
) -> None:
    """First as a plan; --execute makes the changes, which the Admin API makes too."""
    planned = command("--archive", "--topic", "orders:3", "--offset", "4")
    assert rows(planned)[1][2:7] == ["4", "4", "acquired", "1", "archiving"]
    assert "--execute" in planned.stderr
    assert "archiving" not in [one["state"] for one in records()]
    done = command("--archive", "--topic", "orders:3", "--offset", "4", "--execute")
    assert (done.exit_code, done.stdout) == (0, planned.stdout)
    assert [one["first_offset"] for one in records() if one["state"] == "archived"] == [2, 4, 7]
    again = command("--archive", "--topic", "orders:3", "--offset", "4", "--execute")
    assert (again.exit_code, "nothing is to change" in again.stderr) == (1, True)
    redelivered = command("--redeliver-dead-letters", "--topic", "orders:3", "--offset", "0-5", "--execute")
    assert [line[2:4] for line in rows(redelivered)[1:]] == [["2", "2"], ["4", "4"]]
    assert [
        (one["first_offset"], one["delivery_count"]) for one in records() if one["state"] == "available"
    ] == [
        (2, 0),
        (4, 0),
    ]
    with Admin(bootstrap_servers) as admin:
        (released,) = admin.alter_share_records("work", WHERE, ShareAlteration.RELEASE, [(5, 6)])
        assert released.new_state is ShareRecordState.AVAILABLE
        states = {one.first_offset: one.state for one in admin.share_records("work", WHERE, 5)}
    assert states[5] is ShareRecordState.AVAILABLE
    none = command("--redeliver-dead-letters", "--topic", "orders:3", "--offset", "5-6")
    assert (none.exit_code, "no dead letters" in none.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--release", "--topic", "orders:3"), "--offset"),
        (("--release", "--topic", "orders", "--offset", "1"), "orders:0"),
        (("--release", "--topic", "orders:3", "--offset", "5-4"), "empty"),
        (("--release", "--topic", "orders:3", "--offset", "-1"), "-1"),
        (("--release", "--topic", "orders:3", "--offset", "x"), "5-9"),
        (("--release", "--topic", "orders:3", "--offset", "9" * 19), "too large"),
        (("--records",), "--topic"),
        (("--records", "--topic", "orders:3", "--execute"), "--execute"),
        (("--records", "--release", "--topic", "orders:3", "--offset", "1"), "--release"),
        (("--records", "--group", "other", "--topic", "orders:3"), "--group"),
        (("--release", "--topic", "orders:3", "--offset", "1", "--dry-run", "--execute"), "--dry-run"),
    ],
)
def test_other_options_are_refused(command: Command, arguments: tuple[str, ...], said: str) -> None:
    """With what is expected, and exit code 2."""
    result = command(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_what_is_not_there(command: Command, bootstrap_servers: str) -> None:
    """A group and share-partitions that do not exist are errors with exit code 1."""
    missing = command("--records", "--topic", "orders:0")
    assert (missing.exit_code, "UNKNOWN_TOPIC_OR_PARTITION" in missing.stderr) == (1, True)
    words = ["share-groups", "--bootstrap-server", bootstrap_servers, "--group", "none"]
    for action in (["--records"], ["--release", "--offset", "1"]):
        result = CliRunner().invoke(app, [*words, *action, "--topic", "orders:3"])
        assert (result.exit_code, "GROUP_ID_NOT_FOUND" in result.stderr) == (1, True)


def test_asyncio_reads_records_in_the_thread_of_its_calls(
    bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranges a page: the event loop never waits for one, and other calls come between them."""
    monkeypatch.setattr(share_deliveries, "_PAGE", 2)
    callers: set[str] = set()
    request = Connection.request

    def noticed(connection: Connection, *arguments: Any, **more: Any) -> Any:
        callers.add(threading.current_thread().name)
        return request(connection, *arguments, **more)

    monkeypatch.setattr(Connection, "request", noticed)

    async def read() -> list[int]:
        async with AsyncAdmin(bootstrap_servers) as admin:
            found = []
            async for one in admin.share_records("work", WHERE):
                found.append(one.first_offset)
                assert WHERE.topic in await admin.topics()
            return found

    found = asyncio.run(read())
    assert callers == {"headgate-admin_0"}
    with Admin(bootstrap_servers) as admin:
        assert found == [one.first_offset for one in admin.share_records("work", WHERE)]
    assert len(found) > 2


def test_records_that_wait_for_their_dead_letters_are_explained(
    command: Command, records: Callable[[], list[dict[str, Any]]], bootstrap_servers: str
) -> None:
    """The topic takes none for a while. Nothing else in the answer says why the record waits."""
    enable, dlq = "errors.deadletterqueue.group.enable", ConfigResource(ResourceType.TOPIC, "dlq.work")
    assert "dead letters" not in command("--records", "--topic", "orders:3").stderr
    with Admin(bootstrap_servers) as admin:
        admin.alter_configs(dlq, [ConfigChange(enable, "false")])
        try:
            done = command("--archive", "--topic", "orders:3", "--offset", "6", "--execute")
            assert done.exit_code == 0, done.stderr
            told = command("--records", "--topic", "orders:3", "--offset", "6")
            assert "archiving" in told.stdout
            assert "records that are archiving wait for their dead letters" in told.stderr
        finally:
            admin.alter_configs(dlq, [ConfigChange(enable, "true")])
    records()
