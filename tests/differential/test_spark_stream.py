"""A stream of Spark is a consumer group of Apache Kafka as it is one of Headgate: all but pauses."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.differential.conftest import Run
from tests.spark.stream_engine import Checkpoint, Engine

from headgate.admin import Admin, TopicPartition
from headgate.client.errors import PartlyRefused, RequestRefused
from headgate.domain.ids import TopicName
from headgate.spark.stream.member import GroupInUse


@pytest.mark.parametrize("side", ["kafka", "headgate"])
def test_a_stream_on_apache_kafka(run: Run, side: str) -> None:
    """Batches, commits, a restart after a kill, a reset while it is stopped, a lost checkpoint."""
    broker = run.kafka if side == "kafka" else run.headgate
    servers, topic = f"{broker.host}:{broker.port}", f"spark-stream{run.tag}"
    admin_client = AdminClient({"bootstrap.servers": servers, "log_level": 2})
    admin_client.create_topics([NewTopic(topic, 2, 1)])[topic].result(20)
    producer = Producer({"bootstrap.servers": servers, "log_level": 2})
    for number in range(20):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(20) == 0
    options = {
        "kafka.bootstrap.servers": servers,
        "group.id": topic,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeEpoch": "true",
        "timeout": "20s",
    }
    checkpoint = Checkpoint()
    with Admin(servers) as admin, ExitStack() as runs:

        def start(of: Checkpoint) -> Engine:
            engine = Engine(options, of)
            runs.callback(engine.stop)
            return engine

        def committed() -> list[int]:
            return [each.offset for each in admin.committed_offsets(topic).values()]

        killed = start(checkpoint)
        assert len(killed.trigger()) == 20
        with pytest.raises(GroupInUse):
            start(Checkpoint()).trigger()
        stream = start(checkpoint)  # the killed one did not leave
        assert stream.trigger() == []
        assert committed() == [10, 10]
        with pytest.raises((RequestRefused, PartlyRefused)):
            while True:
                killed.trigger()
        stream.stop()
        admin.alter_offsets(topic, {TopicPartition(TopicName(topic), 0): 7})
        stream = start(checkpoint)
        assert [row[:2] for row in stream.trigger()] == [(0, 7), (0, 8), (0, 9)]
        stream.trigger()
        assert committed() == [10, 10]
        assert len(set(checkpoint.rows)) == 23
        stream.stop()
        stream = start(Checkpoint())
        assert stream.trigger() == []
        stream.stop()
