"""Apache Kafka's own command for transactions, kafka-transactions, against Headgate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.cli.transactions.producing import begin, write
from tests.compat.support.kafkas_tools import TOOLS, needs_kafkas_tools, run_tool

import headgate.broker as headgate
from headgate.admin import Admin, TopicPartition
from headgate.domain.ids import TopicName

TRANSACTIONS = TOOLS + "TransactionsCommand"

pytestmark = needs_kafkas_tools


@pytest.fixture
def unverified() -> Iterator[str]:
    """A broker at which transactions can hang, because it does not verify them; with a topic `letters`."""
    settings = {
        "transaction.partition.verification.enable": "false",
        "transaction.state.log.num.partitions": "2",
    }
    with headgate.run(settings) as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        client.create_topics([NewTopic("letters", 2, 1)])["letters"].result(20)
        yield broker.bootstrap_servers


def test_kafkas_tool_finds_and_ends_transactions(unverified: str) -> None:
    """All actions of kafka-transactions: what hangs is found and aborted, what is open is terminated."""

    def tool(*arguments: str) -> list[list[str]]:
        return [line.split() for line in run_tool(unverified, TRANSACTIONS, *arguments).splitlines()]

    with Admin(unverified) as admin:
        open_one, hanging = begin(admin, "open"), begin(admin, "hanging")
        write(admin, open_one, TopicPartition(TopicName("letters"), 0), "open", 12)
        offset = write(admin, hanging, TopicPartition(TopicName("letters"), 1), "hanging", 11)

    listed = {row[0]: row[2:] for row in tool("list")[1:]}
    assert listed == {"open": [str(open_one[0]), "Ongoing"], "hanging": [str(hanging[0]), "Empty"]}
    header, described = tool("describe", "--transactional-id", "open")
    assert dict(zip(header, described, strict=True))["TopicPartitions"] == "letters-0"
    where = ("--topic", "letters", "--partition", "1")
    (state,) = tool("describe-producers", *where)[1:]
    assert (state[0], state[-1]) == (str(hanging[0]), str(offset))
    (found,) = tool("find-hanging", "--broker-id", "1")[1:]
    assert found[:3] == ["letters", "1", str(hanging[0])]

    tool("abort", *where, "--start-offset", str(offset))
    assert tool("find-hanging", "--broker-id", "1")[1:] == []
    tool("forceTerminateTransaction", "--transactionalId", "open")
    assert [row[0] for row in tool("list")[1:] if row[3] == "Ongoing"] == []
    (state,) = tool("describe-producers", "--topic", "letters", "--partition", "0")[1:]
    assert state[-1] == "None"
