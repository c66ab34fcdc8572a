"""A full disk: clients get retriable errors, and the server continues when the disk has space again.

The disk is real: the kernel's limit on the size of the server's files is lowered while it runs.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import resource
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.server.clients import Client, T, commit, committed
from tests.server.disk import DATA_DIR, new_disk
from tests.waiting import wait_until

from headgate.broker import Broker, run
from headgate.domain.settings import Settings
from headgate.log.memory_filesystem import Fault
from headgate.runtime.clock import Clock
from headgate.server.node import BrokerNode
from headgate.topics.topics import NewTopic

SILENT = logging.getLogger("tests.server.rdkafka")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False

LIMIT = 64 * 1024
"""Both logs are larger than this when the limit is set; the file of the server's log lines is smaller."""


def set_file_size_limit(broker: Broker, size: int) -> None:
    assert broker.pid is not None
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def produce(broker: Broker, value: bytes, timeout_s: float) -> list[object]:
    """Produce a record with a delivery timeout. Return the errors of the delivery report."""
    said: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "delivery.timeout.ms": int(timeout_s * 1000),
            "retry.backoff.max.ms": 200,
            "logger": SILENT,
        }
    )
    producer.produce("letters", value, on_delivery=lambda error, _: said.append(error))
    producer.flush(timeout_s + 5)
    return said


def committed_offset(consumer: Consumer) -> int:
    """Return the committed offset; repeat the fetch while the server returns a retriable error."""

    def told() -> list[TopicPartition] | None:
        try:
            return consumer.committed([TopicPartition("letters", 0)], timeout=5)
        except KafkaException as refusal:
            assert refusal.args[0].code() == KafkaError.COORDINATOR_NOT_AVAILABLE
            return None

    (letters,) = wait_until(told, "the offset is told", 20)
    return int(letters.offset)


def test_a_full_disk_is_survived(tmp_path: Path) -> None:
    """Produce and commit fail while the disk is full, no old data is lost, and both succeed afterwards."""
    with run(data_dir=tmp_path / "data") as broker:
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "readers",
                "enable.auto.commit": False,
                "logger": SILENT,
            }
        )
        assert produce(broker, bytes(2 * LIMIT), 10) == [None]
        position = TopicPartition("letters", 0, 1, "m" * 4000)
        for _ in range(2 * LIMIT // 4000):
            consumer.commit(offsets=[position], asynchronous=False)

        set_file_size_limit(broker, LIMIT)
        for _ in range(3):
            assert [type(error) for error in produce(broker, b"during", 2)] != [type(None)]
        with pytest.raises(KafkaException):
            consumer.commit(offsets=[TopicPartition("letters", 0, 2)], asynchronous=False)

        set_file_size_limit(broker, resource.RLIM_INFINITY)
        assert produce(broker, b"after", 20) == [None]
        assert committed_offset(consumer) == 1
        consumer.commit(offsets=[TopicPartition("letters", 0, 3)], asynchronous=False)
        assert committed_offset(consumer) == 3
        consumer.close()
    lines = broker.log_path.read_text().splitlines()
    for log in ("letters-0", partition_of_group(lines)):
        told = [line for line in lines if f"/{log}" in line]
        failed = [line for line in told if " ERROR write failed " in line and "File too large" in line]
        assert len(failed) == 1, told
        assert [line for line in told if "still fails" in line] == []
        assert len([line for line in told if "log works again" in line]) == 1, told


def test_a_log_that_nobody_writes_any_more_stops_failing_with_the_disk(tmp_path: Path) -> None:
    """It works again without another record: producers may wait until the server is ready."""
    with run(data_dir=tmp_path / "data") as broker:
        assert produce(broker, bytes(2 * LIMIT), 10) == [None]
        set_file_size_limit(broker, LIMIT)
        assert [type(error) for error in produce(broker, b"during", 2)] != [type(None)]
        assert "log works again" not in broker.log_path.read_text()
        set_file_size_limit(broker, resource.RLIM_INFINITY)
        wait_until(lambda: "log works again" in broker.log_path.read_text(), "the log works again", 20)
        assert produce(broker, b"after", 20) == [None]
    assert broker.log_path.read_text().count("log works again") == 1


def logs_failing(node: BrokerNode) -> float:
    """Return the metric."""
    found = {each.name: each for each in node.gauges() if each is not None}
    return float(found["headgate_logs_failing"].samples[0].value)


def test_a_disk_that_is_full_for_offsets_alone_is_told_all_the_time(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody produces, and nothing but commits fails. Each failure loads the shard again, which works; so it
    must not count as over until a write would succeed.
    """

    async def scenario() -> None:
        files = new_disk()
        node = BrokerNode(files, DATA_DIR, Settings({"offsets.topic.num.partitions": "1"}), Clock())
        await node.start()
        node.topics.create(NewTopic("t", T, 1), node.system_time())
        client = Client(node)
        await client.send(commit(1, [0]), 8, "first")
        assert await committed(client) == {0: 1}
        for kind in ("pwrite", "reserve"):
            files.inject(Fault(errno.ENOSPC, kind, times=None, path_ends=".log"))
        for number in range(4):
            await client.send(commit(2, [0]), 8, f"full {number}")
            assert logs_failing(node) == 1
            assert any("__consumer_offsets-0" in why for why in node.not_ready())
            async with asyncio.timeout(10):
                while not node.coordinator.runtimes[0].is_active:
                    await asyncio.sleep(0.01)
            assert logs_failing(node) == 1
            assert list(node.not_ready()) == [
                "a disk error keeps __consumer_offsets-0 from being written or read; the log tells the cause"
            ]
            assert await committed(client) == {0: 1}  # nothing has to be written for it
        files.heal()
        async with asyncio.timeout(10):
            while list(node.not_ready()):
                await asyncio.sleep(0.01)
        assert logs_failing(node) == 0
        await client.send(commit(3, [0]), 8, "last")
        assert await committed(client) == {0: 3}
        node.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(scenario(), 50))
    told = [
        each.getMessage() for each in caplog.records if "__consumer_offsets-0" in str(vars(each).get("log"))
    ]
    assert told == ["write failed", "log works again"]


def partition_of_group(lines: list[str]) -> str:
    """Return the partition of `__consumer_offsets` whose failure was logged."""
    (name,) = {found[0] for line in lines if (found := re.search(r"__consumer_offsets-\d+", line))}
    return name
