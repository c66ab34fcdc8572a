"""The log of Apache Kafka is landed like that of Headgate: the tables say what its coordinator says."""

from __future__ import annotations

import time
from pathlib import Path

import confluent_kafka
import pytest
from tests.differential.conftest import Run
from tests.spark.coordinator_life import Life

from headgate.spark.landing import land


@pytest.mark.timeout(300)
def test_landed_offsets_are_those_of_kafkas_coordinator(run: Run, tmp_path: Path) -> None:
    """After each step of a life, then as of each step, and with transactions open, aborted and committed."""
    bootstrap, target = f"{run.kafka.host}:{run.kafka.port}", str(tmp_path / "tables")
    life = Life(bootstrap, f"-landing{run.tag}")
    for _ in life.play():
        land(bootstrap, target)
        assert life.landed_now(target) == life.moments[-1].committed
    group, topic = life.groups[0], str(life.flights)
    for offset, ends in ((11, "commit"), (12, "abort"), (13, "commit")):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"landing{run.tag}"}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        where = [confluent_kafka.TopicPartition(topic, 1, offset)]
        producer.send_offsets_to_transaction(where, _no_member(bootstrap, group), 30)
        before = life.moments[-1].committed
        land(bootstrap, target)  # the open transaction is pending
        assert life.landed_now(target) == before
        producer.commit_transaction(30) if ends == "commit" else producer.abort_transaction(30)
        time.sleep(0.3)  # markers are written after the producer is answered
        life.take_note()
        land(bootstrap, target)
        assert life.landed_now(target) == life.moments[-1].committed
    assert {
        offset.offset for (_, where), offset in life.landed_now(target).items() if where.partition == 1
    } == {13}
    whole = str(tmp_path / "whole")
    land(bootstrap, whole)
    for moment in life.moments:
        for landed in (target, whole):
            assert life.landed_at(landed, moment.time) == moment.committed


def _no_member(bootstrap: str, group: str) -> object:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()
