"""`headgate share-groups --pause`, `--resume`, `--paused-partitions` and `--rewind` against a server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.support import Command, hide_extensions, rows
from typer.testing import CliRunner, Result

from headgate.admin import Admin, NothingToReset, NotReleased, TopicPartition
from headgate.broker import run
from headgate.cli import app
from headgate.client.cluster import Cluster
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.log.batch import Record, encode_batch
from headgate.wire.messages import share_fetch as fetching
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

TIMEOUT_MS = 20_000
ORDERS = TopicPartition("orders", 0)


class Server:
    """A server with topic `orders` of ten records, and member `m` of group `busy`."""

    def __init__(self, bootstrap_servers: str, cluster: Cluster) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._node = cluster.any_node()
        created = self._node.request(
            CreateTopicsRequest(
                topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)],
                timeout_ms=TIMEOUT_MS,
            )
        )
        self._topic_id = created.topics[0].topic_id
        self._epoch = 0
        self.produce(10)
        self.configure("share.auto.offset.reset", "earliest")
        self._join(cluster)

    def produce(self, count: int) -> None:
        """Append records to `orders`."""
        now = time.time_ns() // 1_000_000
        batch = encode_batch([Record(None, b"%d" % number, now) for number in range(count)])
        data = PartitionProduceData(index=0, records=bytes(batch))
        topics = [TopicProduceData(name="orders", topic_id=self._topic_id, partition_data=[data])]
        written = self._node.request(ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=topics))
        assert written.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    def configure(self, name: str, value: str) -> None:
        """Set a setting of the group."""
        config = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=32, resource_name="busy", configs=[config])
        answer = self._node.request(IncrementalAlterConfigsRequest(resources=[resource]))
        assert answer.responses[0].error_code == ErrorCode.NONE

    def _join(self, cluster: Cluster) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id="busy", member_id="m", member_epoch=0, subscribed_topic_names=["orders"]
        )
        while True:
            answer = cluster.ask_coordinator(GroupId("busy"), request)
            assert answer.error_code == ErrorCode.NONE
            if answer.assignment and answer.assignment.topic_partitions:
                return

    def fetch(self, *acknowledged: tuple[int, int, list[int]]) -> list[tuple[int, int, int]]:
        """Fetch as member `m`, and acknowledge; return what was acquired."""
        batches = [
            fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in acknowledged
        ]
        partition = fetching.FetchPartition(partition_index=0, acknowledgement_batches=batches)
        request = fetching.ShareFetchRequest(
            group_id="busy",
            member_id="m",
            share_session_epoch=self._epoch,
            max_wait_ms=0 if self._epoch else 5_000,
            max_records=100,
            batch_size=100,
            topics=[fetching.FetchTopic(topic_id=self._topic_id, partitions=[partition])],
        )
        answer = self._node.request(request)
        assert answer.error_code == ErrorCode.NONE
        self._epoch += 1
        return [
            (one.first_offset, one.last_offset, one.delivery_count)
            for topic in answer.responses
            for data in topic.partitions
            for one in data.acquired_records
        ]


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of its own for each test."""
    with (
        run({"group.share.assignment.interval.ms": "0"}) as broker,
        Cluster(broker.bootstrap_servers) as cluster,
    ):
        yield Server(broker.bootstrap_servers, cluster)


@pytest.fixture
def command(server: Server) -> Command:
    """Run the command in this process with that server."""

    def invoke(*arguments: Any) -> Result:
        words = ["share-groups", "--bootstrap-server", server.bootstrap_servers, *map(str, arguments)]
        return CliRunner().invoke(app, words)

    return invoke


def test_pause_waits_until_members_have_no_records(server: Server, command: Command) -> None:
    """The table tells who has some; the resume delivers again."""
    assert server.fetch() == [(0, 9, 1)]
    paused = command("--pause", "--group", "busy", "--topic", "orders", "--reason", "why", "--no-wait")
    assert paused.exit_code == 0, paused.output
    ((group, topic, partition, state, start, owner, *_),) = rows(paused)[1:]
    assert (group, topic, partition, state, start, owner) == ("busy", "orders", "0", "pausing", "0", "m")
    impatient = command("--pause", "--group", "busy", "--all-topics", "--release-timeout", 1)
    assert impatient.exit_code == 1
    assert "not released after 1 s" in impatient.stderr
    assert "until it acknowledges them or their locks end" in impatient.stderr
    assert "rebalance" not in impatient.stderr
    assert server.fetch((0, 4, [1]), (5, 9, [2])) == []
    assert command("--pause", "--group", "busy", "--topic", "orders:0").exit_code == 0
    listed = json.loads(command("--paused-partitions", "--all-groups", "--output", "json").stdout)
    assert [(one["state"], one["start_offset"], one["reason"]) for one in listed["partitions"]] == [
        ("paused", 0, "why")
    ]
    described = command("--describe", "--group", "busy")
    assert rows(described)[0][-1] == "PAUSED"
    assert rows(described)[1][-1] == "paused"
    assert "headgate: share group busy: orders:0 paused since 2" in described.stderr
    assert described.stderr.endswith(" (why)\n")
    as_csv = command("--describe", "--all-groups", "--output", "csv").stdout.splitlines()
    assert [line.rpartition(",")[2] for line in as_csv] == ["paused", "paused"]
    resumed = command("--resume", "--group", "busy", "--all-topics")
    assert rows(resumed)[1:] == [["busy", "orders", "0", "resumed"]]
    assert "PAUSED" not in command("--describe", "--group", "busy").stdout
    assert server.fetch() == [(5, 9, 2)]
    assert "no share-partition is paused" in command("--paused-partitions", "--group", "busy").stderr


def test_rewind_of_a_running_group(server: Server, command: Command) -> None:
    """Without --execute it is a plan; with it, what was acknowledged is delivered again."""
    assert server.fetch() == [(0, 9, 1)]
    assert server.fetch((0, 9, [1])) == []
    rewind = ("--rewind", "--group", "busy", "--topic", "orders", "--to-offset", 7)
    planned = command(*rewind)
    assert rows(planned)[1:][0][-2:] == ["7", "planned"]
    assert "nothing was changed" in planned.stderr
    assert server.fetch() == []
    done = command(*rewind, "--execute")
    assert done.exit_code == 0, done.output
    assert rows(done)[1:][0][-2:] == ["7", "resumed"]
    assert server.fetch() == [(7, 9, 1)]


def test_rewind_without_pauses_is_refused_also_as_a_plan(
    monkeypatch: pytest.MonkeyPatch, server: Server, command: Command
) -> None:
    """By Kafka, which cannot pause, and for a group that does not exist: neither could be executed."""
    rewind = ("--rewind", "--topic", "orders", "--to-earliest")
    absent = command(*rewind, "--group", "bussy")
    assert (absent.exit_code, absent.stdout) == (1, "")
    hide_extensions(monkeypatch)
    refused = command(*rewind, "--group", "busy")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "does not support ListPausedPartitions, which only Headgate has" in refused.stderr


def test_rewind_beyond_the_end_delivers_what_is_written_later(server: Server, command: Command) -> None:
    """From Python, the end of the log is set, and told. The command tells it too."""
    assert server.fetch() == [(0, 9, 1)]
    assert server.fetch((0, 9, [1])) == []
    with Admin(server.bootstrap_servers) as admin:
        (done,) = admin.rewind_share_group("busy", {ORDERS: 50})
    assert (done.offset, done.asked_for, done.stays_paused) == (10, 50, False)
    server.produce(5)
    assert server.fetch() == [(10, 14, 1)]
    moved = command("--rewind", "--group", "busy", "--topic", "orders", "--to-offset", 50)
    assert "orders-0: 50 lies outside the log, which ends at 15" in moved.stderr


def test_rewind_of_nothing_or_to_a_negative_offset_pauses_nothing(server: Server) -> None:
    """-1 removed the start offset, so that a group that begins at the end lost what was not delivered."""
    assert server.fetch() == [(0, 9, 1)]
    with Admin(server.bootstrap_servers) as admin:
        with pytest.raises(ValueError, match="the offset of orders-0 must be 0 or more, not -1"):
            admin.rewind_share_group("busy", {ORDERS: -1}, timeout_s=0)
        with pytest.raises(NothingToReset, match="no partitions of group busy to rewind"):
            admin.rewind_share_group("busy", {})
        assert [one.start_offset for one in admin.share_offsets("busy")] == [0]


def test_rewind_that_takes_too_long_changes_nothing(server: Server, command: Command) -> None:
    """A member keeps its records: the partition is resumed."""
    assert server.fetch() == [(0, 9, 1)]
    with Admin(server.bootstrap_servers) as admin:
        with pytest.raises(NotReleased):
            admin.rewind_share_group("busy", {ORDERS: 3}, timeout_s=0.2)
        assert admin.list_paused_partitions("busy") == {}
    late = command(
        *("--rewind", "--group", "busy", "--topic", "orders", "--to-earliest"),
        *("--execute", "--release-timeout", 1),
    )
    assert late.exit_code == 1
    assert "the partitions are resumed" in late.stderr
    assert "--release takes them back" in " ".join(late.stderr.split())
    assert server.fetch((0, 9, [1])) == []


def test_rewind_with_dead_letters_that_cannot_be_written_says_what_it_waited_for(
    server: Server, command: Command
) -> None:
    """No member has records; their topic is missing."""
    server.configure("errors.deadletterqueue.topic.name", "dlq.missing")
    assert server.fetch() == [(0, 9, 1)]
    assert server.fetch((0, 9, [3])) == []
    late = command(
        *("--rewind", "--group", "busy", "--topic", "orders", "--to-earliest"),
        *("--execute", "--release-timeout", 1),
    )
    assert late.exit_code == 1
    assert "no member has records of orders-0, but dead letters" in late.stderr
    assert "the partitions are resumed" in late.stderr
    assert "--release takes them back" in " ".join(late.stderr.split())


def test_rewind_leaves_a_pause_of_somebody_else(server: Server, command: Command) -> None:
    """It tells how to resume."""
    server.fetch()
    server.fetch((0, 9, [1]))
    assert command("--pause", "--group", "busy", "--topic", "orders").exit_code == 0
    done = command("--rewind", "--group", "busy", "--topic", "orders", "--to-earliest", "--execute")
    assert rows(done)[1:][0][-1] == "paused"
    assert "to resume it: headgate share-groups --bootstrap-server 127.0.0.1:" in done.stderr
    assert " --resume --group busy --topic orders:0\n" in done.stderr
    assert server.fetch() == []


def test_unknown_groups_and_partitions(command: Command) -> None:
    """Each is told as it is."""
    unknown = command("--pause", "--group", "nobody", "--topic", "orders")
    assert (unknown.exit_code, "nobody" in unknown.stderr) == (1, True)
    missing = command("--pause", "--group", "busy", "--topic", "orders:9")
    assert (missing.exit_code, "orders" in missing.stderr) == (1, True)
    assert command("--pause", "--group", "busy").exit_code == 2
    assert command("--rewind", "--group", "busy", "--topic", "orders").exit_code == 2
