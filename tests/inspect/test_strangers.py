"""Logs of coordinators that have each other's place: `headgate log verify` finds the keys."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.inspect.support import errors

from headgate.admin import Admin, TopicPartition
from headgate.broker import run
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC

SETTINGS = {
    "headgate.durability": "page-cache",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
}
COUNT = 8


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's directory with some groups, transactional ids and share groups: of both partitions each."""
    data_dir = tmp_path_factory.mktemp("strangers") / "data"
    with run(SETTINGS, data_dir=data_dir) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders", 1)
        for number in range(COUNT):
            admin.alter_offsets(f"billing-{number}", {TopicPartition("orders", 0): 0})
            admin.alter_share_offsets(f"work-{number}", {TopicPartition("orders", 0): 0})
            producer = Producer(
                {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"billing-{number}"}
            )
            producer.init_transactions(20)
    return data_dir


@pytest.mark.parametrize(
    ("topic", "noun"),
    [
        (GROUP_OFFSETS_TOPIC, "group"),
        (TRANSACTION_STATE_TOPIC, "transactional id"),
        (SHARE_STATE_TOPIC, "share-partition"),
    ],
)
def test_keys_in_a_log_of_another_partition_are_an_error(
    stopped: Path, tmp_path: Path, topic: str, noun: str
) -> None:
    """The server logs an error for them, too, and serves nothing of them."""
    assert errors(stopped) == []
    data_dir = shutil.copytree(stopped, tmp_path / "data")
    first, second, aside = data_dir / f"{topic}-0", data_dir / f"{topic}-1", data_dir / "aside"
    for before, after in ((first, aside), (second, first), (aside, second)):
        before.rename(after)
    found = errors(data_dir)
    assert [one.file.partition("/")[0] for one in found] == [f"{topic}-0", f"{topic}-1"]
    for index, one in enumerate(found):
        assert f" {noun}" in one.what
        assert " of other partitions: " in one.what
        assert one.what.endswith(f" belongs to partition {1 - index}")
