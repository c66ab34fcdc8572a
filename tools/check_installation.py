"""Check an installation of Headgate as its user has it: `python check_installation.py compiled|pure`.

It needs nothing but the package. A broker is started, and a committed offset survives its crash.
"""

from __future__ import annotations

import sys
from importlib.metadata import version

import headgate
from headgate.admin import Admin
from headgate.compiled import build_text, is_compiled
from headgate.domain.ids import TopicName, TopicPartition
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

ORDERS = TopicPartition(TopicName("orders"), 0)


def main(expected: str) -> None:
    """Raise AssertionError for an installation that is not as expected, or does not work."""
    assert headgate.__version__ == version("headgate"), "the package and its metadata differ in their version"
    assert is_compiled() == (expected == "compiled"), f"{expected} is expected: {build_text()}"
    with headgate.run() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            topic = CreatableTopic(
                name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[]
            )
            admin.cluster.any_node().request(CreateTopicsRequest(topics=[topic]))
            admin.alter_offsets("billing", {ORDERS: 7})
        broker.kill()
        broker.start()
        with Admin(broker.bootstrap_servers) as admin:
            committed = admin.committed_offsets("billing")
    assert committed[ORDERS].offset == 7, f"an acknowledged offset is gone: {committed}"
    print(f"headgate {headgate.__version__} ({build_text()}) works")


if __name__ == "__main__":
    main(sys.argv[1])
