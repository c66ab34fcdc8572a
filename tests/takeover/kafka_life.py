"""A life of an Apache Kafka broker, with groups of every kind, and what its own tools print of them.

`python -m tests.takeover.kafka_life` writes `kafka-4.3.1.tar.xz` and `kafka-4.3.1.json` anew: the directory
of a broker that lived this life and was stopped, and what was printed before.
"""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from bench.kafka.broker import kafka_node
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
)
from tests.compat.support.kafkas_tools import CONSUMER_GROUPS, TOOLS, run_tool

HERE = Path(__file__).parent
ARCHIVE = HERE / "kafka-4.3.1.tar.xz"
PRINTED = HERE / "kafka-4.3.1.json"

KAFKA_SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "log.cleaner.backoff.ms": "500",
    "log.index.size.max.bytes": "65536",
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "transaction.max.timeout.ms": "86400000",
    "log.cleaner.dedupe.buffer.size": "4000000",
}
"""Few partitions and small files, snapshots of the metadata, and compaction that comes soon."""
FLIGHTS, PAYMENTS, UNUSED, DELETED = "flights", "payments", "never.written", "deleted"
COMMITS: Final = 300
"""Commits of one offset, so that there is something to compact."""
SHARE_GROUPS = TOOLS + "consumer.group.ShareGroupCommand"

Printed = dict[str, list[str]]


@contextmanager
def stopped_life(home: Path) -> Iterator[Printed]:
    """Live the life in `home`; yield what the tools print when it is over and the broker is stopped."""
    with ExitStack() as open_transactions:
        with kafka_node(home=home, settings=KAFKA_SETTINGS) as node:
            live(node.bootstrap, open_transactions)
            printed = print_all(node.bootstrap)
        yield printed


def live(bootstrap: str, left_open: ExitStack) -> None:
    """Make topics, records, groups, transactions and settings. `left_open` ends what stays open."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    _create_topics(admin)
    _produce(bootstrap)
    _transactions(bootstrap, left_open)
    _groups(bootstrap)
    _share_group(bootstrap)
    _configure(bootstrap, "groups", "--entity-name", "modern", "consumer.session.timeout.ms=47000")
    _configure(bootstrap, "brokers", "--entity-default", "log.cleaner.threads=2")


def _configure(bootstrap: str, kind: str, *setting: str) -> None:
    *entity, value = setting
    tool = "kafka.admin.ConfigCommand"
    run_tool(bootstrap, tool, "--alter", "--entity-type", kind, *entity, "--add-config", value)


def _create_topics(admin: AdminClient) -> None:
    topics = [
        NewTopic(FLIGHTS, 3, 1, config={"segment.bytes": "1048576", "retention.ms": "-1"}),
        NewTopic(PAYMENTS, 2, 1, config={"cleanup.policy": "compact", "remote.log.copy.disable": "true"}),
        NewTopic(UNUSED, 4, 1),
        NewTopic(DELETED, 1, 1),
    ]
    for future in admin.create_topics(topics).values():
        future.result(20)


def _produce(bootstrap: str) -> None:
    for codec in ("none", "gzip", "lz4", "zstd", "snappy"):
        idempotent = {"enable.idempotence": True} if codec == "none" else {}
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, **idempotent})
        for number in range(200):
            producer.produce(FLIGHTS, f"{codec}-{number}", str(number), partition=number % 3)
        producer.produce(DELETED, b"", b"gone")
        assert producer.flush(20) == 0
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([TopicPartition(FLIGHTS, 0, 17)]).values():
        future.result(20)


def _transactions(bootstrap: str, left_open: ExitStack) -> None:
    """A transaction that is committed, one that is aborted, and one that stays open."""
    for number, ending in enumerate(("commit", "abort", "none")):
        config: dict[str, Any] = {"bootstrap.servers": bootstrap, "transactional.id": f"till-{number}"}
        producer = Producer({**config, "transaction.timeout.ms": 86_400_000, "log_level": 0})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(PAYMENTS, ending, ending, partition=0)
        assert producer.flush(20) == 0
        if ending == "commit":
            member = _consumer(bootstrap, "exactly-once")
            offsets = [TopicPartition(FLIGHTS, 1, 21, "in a transaction")]
            producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), 20)
            producer.commit_transaction(20)
            member.close()
        elif ending == "abort":
            producer.abort_transaction(20)
        else:
            left_open.callback(producer.purge)


def _consumer(bootstrap: str, group: str, **config: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **config,
        }
    )


def _groups(bootstrap: str) -> None:
    """A classic and a consumer group that read all, standalone commits, and groups without offsets."""
    _read_all(_consumer(bootstrap, "classic", **{"partition.assignment.strategy": "cooperative-sticky"}))
    _read_all(_consumer(bootstrap, "modern", **{"group.protocol": "consumer"}))
    alone = _consumer(bootstrap, "standalone")
    for number in range(COMMITS):
        alone.commit(offsets=[TopicPartition(FLIGHTS, 2, number, f"m{number}")], asynchronous=False)
    alone.commit(offsets=[TopicPartition(DELETED, 0, 3)], asynchronous=False)
    alone.commit(offsets=[TopicPartition(UNUSED, 3, 0)], asynchronous=False)
    alone.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_topics([DELETED]).values():
        future.result(20)
    bystander = _consumer(bootstrap, "without offsets: ünïcode")
    bystander.subscribe([UNUSED])
    bystander.poll(6)
    bystander.close()
    doomed = _consumer(bootstrap, "deleted")
    doomed.commit(offsets=[TopicPartition(FLIGHTS, 0, 1)], asynchronous=False)
    doomed.close()
    for future in admin.delete_consumer_groups(["deleted"]).values():
        future.result(20)


def _read_all(consumer: Consumer) -> None:
    consumer.subscribe([FLIGHTS])
    count = 0
    while count < 983:  # 1000 without those that were deleted
        found = consumer.consume(500, 30)
        assert found, "the group got no records"
        count += len(found)
    consumer.commit(asynchronous=False)
    consumer.close()


def _share_group(bootstrap: str) -> None:
    _configure(bootstrap, "groups", "--entity-name", "workers", "share.auto.offset.reset=earliest")
    limits = ("--max-messages", "300", "--timeout-ms", "40000")
    tool = TOOLS + "consumer.ConsoleShareConsumer"
    run_tool(bootstrap, tool, "--topic", FLIGHTS, "--group", "workers", *limits)


def print_all(bootstrap: str) -> Printed:
    """What Kafka's tools print of all groups and topics, sorted and without addresses."""
    groups = ("--describe", "--all-groups")
    return {
        "groups": _lines(bootstrap, CONSUMER_GROUPS, "--list", "--state", "--type"),
        "offsets": _lines(bootstrap, CONSUMER_GROUPS, *groups, "--offsets"),
        "states": _lines(bootstrap, CONSUMER_GROUPS, *groups, "--state"),
        "share groups": _lines(bootstrap, SHARE_GROUPS, "--list"),
        "share states": _lines(bootstrap, SHARE_GROUPS, *groups, "--state"),
        "share offsets": _lines(bootstrap, SHARE_GROUPS, *groups, "--offsets"),
        "topics": _topics(bootstrap),
        "transactions": _transactional_ids(bootstrap),
        "group settings": _lines(
            bootstrap, "kafka.admin.ConfigCommand", "--describe", "--entity-type", "groups"
        ),
    }


def _topics(bootstrap: str) -> list[str]:
    """Names, ids and partitions of the topics; other columns are about replicas."""
    printed = run_tool(bootstrap, TOOLS + "TopicCommand", "--describe")
    heads = re.findall(r"Topic: (\S+)\s+TopicId: (\S+)\s+PartitionCount: (\d+)", printed)
    return sorted(" ".join(head) for head in heads if head[0] != "__consumer_offsets_history")


def _transactional_ids(bootstrap: str) -> list[str]:
    printed = run_tool(bootstrap, TOOLS + "TransactionsCommand", "list")
    return sorted(" ".join(line.split()[::2]) for line in printed.splitlines() if "till-" in line)


def _lines(bootstrap: str, main_class: str, *arguments: str) -> list[str]:
    printed = run_tool(bootstrap, main_class, *arguments).replace(bootstrap, "ADDRESS")
    return sorted(" ".join(line.split()) for line in printed.splitlines() if line.strip())


def records_of(bootstrap: str) -> dict[str, list[tuple[int, str, str]]]:
    """The committed records of `flights` and `payments`: offset, key and value, by partition."""
    reader = _consumer(
        bootstrap, "reader", **{"isolation.level": "read_committed", "enable.partition.eof": True}
    )
    found: dict[str, list[tuple[int, str, str]]] = {}
    for topic, count in ((FLIGHTS, 3), (PAYMENTS, 2)):
        for index in range(count):
            rows = found[f"{topic}-{index}"] = []
            reader.assign([TopicPartition(topic, index, 0)])
            while (message := reader.poll(20)) is not None and message.error() is None:
                key, value = message.key() or b"", message.value() or b""
                rows.append((message.offset() or 0, str(key), str(value)))
    reader.close()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        with stopped_life(home) as printed:
            PRINTED.write_text(json.dumps(printed, indent=1, ensure_ascii=False) + "\n")
            with tarfile.open(ARCHIVE, "w:xz") as archive:
                archive.add(home / "data", "data", filter=_without_indexes)
    print(f"{ARCHIVE.stat().st_size:,} bytes")


def _without_indexes(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out preallocated indexes and the lock: an import does not read them."""
    return None if entry.name.endswith((".index", ".timeindex")) else entry


if __name__ == "__main__":
    main()
