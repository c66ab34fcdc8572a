"""A disk that takes no more: clients are told to try again, and the server goes on when it is mended.

The failing disk is real: the kernel's limit on the size of the server's files is lowered while it runs.
"""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headgate.broker import Broker, run


def set_file_size_limit(broker: Broker, size: int) -> None:
    assert broker.pid is not None
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def produce(broker: Broker, value: bytes, timeout_s: float) -> list[object]:
    """One record with a delivery timeout; what the delivery report said."""
    said: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "delivery.timeout.ms": int(timeout_s * 1000),
            "retry.backoff.max.ms": 200,
            "logger": lambda *line: None,
        }
    )
    producer.produce("letters", value, on_delivery=lambda error, _: said.append(error))
    producer.flush(timeout_s + 5)
    return said


def test_a_full_disk_is_survived(tmp_path: Path) -> None:
    """Produce and commit fail while the disk is full, nothing that was there is lost, and both work again."""
    with run(data_dir=tmp_path / "data") as broker:
        group = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"}
        consumer = Consumer({**group, "enable.auto.commit": False})
        assert produce(broker, b"before", 10) == [None]
        position = TopicPartition("letters", 0, 1)
        consumer.commit(offsets=[position], asynchronous=False)

        set_file_size_limit(broker, 1)
        assert [type(error) for error in produce(broker, b"during", 2)] != [type(None)]
        with pytest.raises(KafkaException):
            consumer.commit(offsets=[TopicPartition("letters", 0, 2)], asynchronous=False)

        set_file_size_limit(broker, resource.RLIM_INFINITY)
        assert produce(broker, b"after", 20) == [None]
        committed = consumer.committed([position], timeout=20)
        assert committed[0].offset == 1
        consumer.commit(offsets=[TopicPartition("letters", 0, 3)], asynchronous=False)
        assert consumer.committed([position], timeout=20)[0].offset == 3
        consumer.close()
    assert "write failed" in broker.log_path.read_text()
