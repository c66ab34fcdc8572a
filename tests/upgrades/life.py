"""A small life of a server, and what clients see at its end: for directories of released versions.

`python -m tests.upgrades.life` writes `headgate-VERSION.tar.xz` and `.json` for the version that is here. It
is run once for each release, and its files are never changed.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import headgate
from headgate.admin import Admin
from headgate.domain import ids

HERE = Path(__file__).parent
SETTINGS: Final = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.retention.ms": "-1",
    "offsets.retention.minutes": str(2**31 - 1),
    "offsets.history.retention.ms": str(2**50),
    "transactional.id.expiration.ms": str(2**31 - 1),
}
"""So that nothing is too old, whenever a test opens the directory."""
ORDERS, EVENTS, FORMER = "orders", "events", "former"
YEAR_MS = 365 * 86_400_000


def live(broker: headgate.Broker) -> None:
    """Write records of all kinds, crash in between, and make groups, settings and transactions."""
    servers = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    topics = [
        NewTopic(ORDERS, 2, 1, config={"segment.bytes": "20000"}),
        NewTopic(EVENTS, 1, 1, config={"cleanup.policy": "compact"}),
        NewTopic(FORMER, 1, 1),
    ]
    for future in admin.create_topics(topics).values():
        future.result(20)
    for codec in ("none", "gzip", "lz4", "zstd", "snappy"):
        producer = Producer({"bootstrap.servers": servers, "compression.type": codec})
        for number in range(100):
            producer.produce(ORDERS, f"{codec}-{number}", b"x" * 40, partition=number % 2)
        assert producer.flush(20) == 0
    broker.kill()  # the leader epoch rises
    broker.start()
    _transactions(servers)
    for group, protocol in (("classic", "classic"), ("modern", "consumer")):
        _read(servers, group, protocol)
    with Admin(servers) as ours:
        ours.set_offsets_retention("modern", 100 * YEAR_MS)
        place = ids.TopicPartition(ids.TopicName(ORDERS), 0)
        for offset in range(50):
            ours.alter_offsets("altered", {place: offset})
    for future in admin.delete_topics([FORMER]).values():
        future.result(20)


def _transactions(servers: str) -> None:
    for number, ending in enumerate(("commit", "abort", "open")):
        producer = Producer(
            {"bootstrap.servers": servers, "transactional.id": f"till-{number}", "log_level": 0}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(EVENTS, ending, ending)
        assert producer.flush(20) == 0
        if ending == "commit":
            producer.commit_transaction(20)
        elif ending == "abort":
            producer.abort_transaction(20)


def _read(servers: str, group: str, protocol: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([ORDERS])
    count = 0
    while count < 500:
        count += len(consumer.consume(500, 30))
    consumer.commit(asynchronous=False)
    consumer.close()


def seen(servers: str) -> dict[str, Any]:
    """What clients see: topics with their ids, offsets of groups, committed records, settings of groups."""
    client = AdminClient({"bootstrap.servers": servers})
    described = client.list_topics(timeout=20).topics
    own = {name: topic for name, topic in described.items() if not name.startswith("__")}
    with Admin(servers) as admin:
        groups = sorted(one.group_id for one in admin.list_groups())
        offsets = {
            group: {
                f"{place.topic}-{place.partition}": committed.offset
                for place, committed in sorted(admin.committed_offsets(group).items())
            }
            for group in groups
        }
        history = sum(len(one.changes) for one in admin.offset_history("altered").partitions)
        expiry = admin.offset_expiry("modern")
        transactions = {one.transactional_id: str(one.state) for one in admin.list_transactions()}
        transactions.pop("till-2")  # it is open, until it times out
    return {
        "topics": {name: len(topic.partitions) for name, topic in sorted(own.items())},
        "offsets": offsets,
        "changes of altered": history,
        "retention of modern": expiry.retention_ms,
        "transactions": dict(sorted(transactions.items())),
        "records": {name: _records(servers, name, len(topic.partitions)) for name, topic in own.items()},
    }


def _records(servers: str, topic: str, count: int) -> list[list[object]]:
    """Partition, offset and key of each committed record."""
    reader = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    found: list[list[object]] = []
    for index in range(count):
        reader.assign([TopicPartition(topic, index, 0)])
        while (message := reader.poll(20)) is not None and message.error() is None:
            found.append([index, message.offset(), (message.key() or b"").decode()])
    reader.close()
    return found


def main() -> None:
    """Write the files of this version."""
    name = f"headgate-{headgate.__version__}"
    with tempfile.TemporaryDirectory() as home:
        data = Path(home) / "data"
        with headgate.run(SETTINGS, data_dir=data) as broker:
            live(broker)
            expected = seen(broker.bootstrap_servers)
        (HERE / f"{name}.json").write_text(json.dumps(expected) + "\n")
        with tarfile.open(HERE / f"{name}.tar.xz", "w:xz") as archive:
            archive.add(data, "data")
    print(f"{(HERE / f'{name}.tar.xz').stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
