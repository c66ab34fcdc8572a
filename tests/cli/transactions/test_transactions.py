"""`headgate transactions` against a server: what is open, what hangs, and how both are ended."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.admin.test_docs import run as run_program
from tests.cli.support import Command, rows
from tests.cli.transactions.producing import TIMEOUT_MS, begin, commit, stable_offset, write
from tests.waiting import wait_until
from typer.testing import CliRunner, Result

from headgate.admin import Admin, PartlyRefused, RequestRefused, TopicPartition, hanging
from headgate.broker import run
from headgate.cli import app
from headgate.client import transactions
from headgate.client.cluster import Cluster
from headgate.client.errors import ClientError
from headgate.client.transactions import TransactionsMissing, list_transactions
from headgate.domain.ids import TopicName
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

LIST = ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
HANGING = "Topic Partition ProducerId ProducerEpoch CoordinatorEpoch StartOffset LastTimestamp Duration(min)"


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    """A server that does not verify transactions, with the topic `orders` (three partitions) and `pays`."""
    settings = {
        "transaction.partition.verification.enable": "false",
        "transaction.state.log.num.partitions": "2",
    }
    with run(settings) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            topics = [
                CreatableTopic(name=name, num_partitions=3, replication_factor=1)
                for name in ("orders", "pays")
            ]
            cluster.any_node().request(CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS))
        yield broker.bootstrap_servers


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def command(bootstrap_servers: str) -> Command:
    """Run the command in this process with that server."""

    def invoke(*arguments: Any) -> Result:
        words = ["transactions", "--bootstrap-server", bootstrap_servers, *map(str, arguments)]
        return CliRunner().invoke(app, words)

    return invoke


def at(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(TopicName(topic), partition)


def test_an_open_transaction_is_listed_described_and_terminated(command: Command, admin: Admin) -> None:
    """In all of its partitions; its producer is fenced then."""
    producer = begin(admin, "open-1")
    for where in (at(0), at(2)):
        write(admin, producer, where, "open-1", 12)
    begin(admin, "idle-1")
    found = rows(command("list", "--transactional-id-pattern", "(open|idle)-1"))
    assert found[0] == LIST
    assert [(name, state) for name, _, _, state in found[1:]] == [("idle-1", "Empty"), ("open-1", "Ongoing")]
    assert [line[0] for line in rows(command("list", "--state", "ongoing,PrepareAbort"))[1:]] == ["open-1"]
    assert "open-1" not in command("list", "--duration-filter", 3_600_000).stdout

    described = command("describe", "--transactional-id", "open-1", "--output", "json")
    (one,) = json.loads(described.stdout)["transactions"]
    assert one.pop("transaction_duration_ms") < 60_000
    assert one.pop("current_transaction_start_time_ms") > 0
    assert one == {
        "coordinator_id": 1,
        "transactional_id": "open-1",
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "transaction_state": "Ongoing",
        "transaction_timeout_ms": 60_000,
        "topic_partitions": ["orders-0", "orders-2"],
    }
    assert rows(command("find-hanging", "--max-transaction-timeout", 0))[1:] == []

    done = command("forceTerminateTransaction", "--transactionalId", "open-1")
    assert "the open transaction of open-1 is aborted, and its producers before epoch" in done.stdout
    repeated = command("forceTerminateTransaction", "--transactionalId", "open-1")
    assert "open-1 has no open transaction, and its producers" in repeated.stdout
    assert done.exit_code == 0, done.stderr
    (again,) = admin.describe_transactions(["open-1"]).values()
    assert again is not None
    assert (again.state, again.partitions) == ("Empty", ())
    assert again.producer_epoch > producer[1]
    states = admin.describe_producers([at(0), at(2)])
    assert [one.current_transaction_start_offset for some in states.values() for one in some] == [None, None]


def test_every_table_is_printed_as_csv(command: Command, admin: Admin) -> None:
    """With the names of the columns in JSON; what is missing is empty, and lists are one text."""
    producer = begin(admin, "csv-1")
    for where in (at(0), at(1)):
        write(admin, producer, where, "csv-1", 12)
    listed = command("list", "--transactional-id-pattern", "csv-1", "--output", "csv").stdout.splitlines()
    heading = "transactional_id,coordinator,producer_id,transaction_state"
    assert listed == [heading, f"csv-1,1,{producer[0]},Ongoing"]
    described = command("describe", "--transactional-id", "csv-1", "--output", "csv").stdout
    (one,) = csv.DictReader(io.StringIO(described))
    assert one["topic_partitions"] == "orders-0,orders-1"
    ended = command("forceTerminateTransaction", "--transactional-id", "csv-1", "--output", "csv").stdout
    (done,) = csv.DictReader(io.StringIO(ended))
    assert done["transactional_id"] == "csv-1"
    again = command("describe", "--transactional-id", "csv-1", "--output", "csv").stdout
    (one,) = csv.DictReader(io.StringIO(again))
    assert (one["topic_partitions"], one["current_transaction_start_time_ms"]) == ("", "")


def test_a_hanging_transaction_is_found_and_aborted(command: Command, admin: Admin) -> None:
    """By its first offset, as find-hanging shows it; the coordinator does not know it."""
    producer = begin(admin, "zombie")
    offset = write(admin, producer, at(1), "zombie", 11)
    found = rows(command("find-hanging"))
    assert found[0] == HANGING.split()
    (line,) = found[1:]
    assert line[:6] == ["orders", "1", str(producer[0]), str(producer[1]), "-1", str(offset)]
    for scope in (("--topic", "orders"), ("--topic", "orders", "--partition", 1), ("--broker-id", 1)):
        assert rows(command("find-hanging", *scope))[1:] == [line]
    for scope in (("--topic", "pays"), ("--topic", "orders", "--partition", 0)):
        nothing = command("find-hanging", *scope)
        assert nothing.stdout.split() == HANGING.split()
        assert nothing.stderr == "headgate: no hanging transactions were found\n"
    (told,) = json.loads(command("find-hanging", "--output", "json").stdout)["hanging_transactions"]
    assert told["coordinator_epoch"] is None
    assert told["start_offset"] == offset

    abort = ("abort", "--topic", "orders", "--partition", 1)
    wrong = command(*abort, "--start-offset", offset + 1)
    assert wrong.exit_code == 1
    assert f"no open transaction of orders-1 starts at offset {offset + 1};" in wrong.stderr
    done = command(*abort, "--start-offset", offset)
    assert done.stdout == f"aborted the transaction of producer {producer[0]} (epoch 0) in orders-1\n"
    described = rows(command("describe-producers", "--topic", "orders", "--partition", 1))
    assert described[1][5] == "None"
    assert described[1][2] == "0"
    assert rows(command("find-hanging"))[1:] == []


def test_a_transaction_that_its_coordinator_knows_is_not_aborted_in_one_partition(
    command: Command, admin: Admin
) -> None:
    """The coordinator might commit its other partitions. An administrator who insists can do it."""
    producer = begin(admin, "working")
    offset = write(admin, producer, at(0), "working", 12)
    write(admin, producer, at(2), "working", 12)
    abort = ("abort", "--topic", "orders", "--partition", 0, "--start-offset", offset)
    refused = command(*abort)
    assert refused.exit_code == 1
    assert "the transaction does not hang: it is of transactional id working" in refused.stderr
    assert "forceTerminateTransaction --transactional-id working" in refused.stderr
    assert open_at(admin, at(0)) == [offset]
    assert command(*abort, "--force").exit_code == 0
    assert open_at(admin, at(0)) == []
    assert open_at(admin, at(2)) != []
    admin.force_terminate_transaction("working")


def open_at(admin: Admin, where: TopicPartition) -> list[int]:
    """Return where the open transactions of a partition start."""
    starts = (one.current_transaction_start_offset for one in admin.describe_producers([where])[where])
    return [start for start in starts if start is not None]


def test_a_transaction_that_hangs_in_offsets_alone_is_found_and_aborted(admin: Admin) -> None:
    """Its group has no stable offset until then. Twice, as the second one has another epoch."""
    for _ in range(2):
        producer = begin(admin, "zombie-0")
        commit(admin, producer, at(0), "zombie-0", "stuck", 7)
        found = wait_until(
            lambda: admin.find_hanging_transactions(max_transaction_timeout_ms=0), "one that hangs"
        )
        (hanging_one,) = found
        assert hanging_one.partition.topic == "__consumer_offsets"
        assert hanging_one.producer.producer_id == producer[0]
        assert hanging_one.producer.producer_epoch == producer[1]
        assert not stable_offset(admin, at(0), "stuck")
        assert admin.find_hanging_transactions() == []
        admin.abort_transaction(
            hanging_one.partition, producer_id=producer[0], producer_epoch=hanging_one.producer.producer_epoch
        )
        assert stable_offset(admin, at(0), "stuck")
        assert admin.find_hanging_transactions(max_transaction_timeout_ms=0) == []


def test_a_transaction_that_ends_during_the_search_does_not_hang(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinator does not name its partitions any more, and the partition has its marker."""
    producer = begin(admin, "ending")
    write(admin, producer, at(0), "ending", 12)

    def list_later(*given: Any, **more: Any) -> Any:
        admin.force_terminate_transaction("ending")
        return list_transactions(*given, **more)

    monkeypatch.setattr(hanging, "list_transactions", list_later)
    assert admin.find_hanging_transactions("orders", 0) == []


def test_a_transaction_whose_coordinator_is_away_does_not_hang(
    command: Command, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows it: it is neither found nor aborted, and a list says that ids are missing."""
    producer = begin(admin, "of-a-dead-broker")
    write(admin, producer, at(0), "of-a-dead-broker", 12)
    why = "7 of 8 partitions of __transaction_state have no leader"
    monkeypatch.setattr(transactions, "without_coordinator", lambda *given: [ClientError(why)])
    said = f"headgate: transactional ids are missing: {why}\n"
    where = ("--topic", "orders", "--partition", 0)
    for words in (
        ("find-hanging", *where, "--max-transaction-timeout", 0),
        ("abort", *where, "--producer-id", producer[0], "--producer-epoch", 0, "--coordinator-epoch", -1),
        ("list",),
    ):
        done = command(*words)
        assert (done.exit_code, said in done.stderr) == (1, True), (words, done.stdout, done.stderr)
    with pytest.raises(TransactionsMissing, match=why):
        admin.find_hanging_transactions("orders", 0, max_transaction_timeout_ms=0)
    admin.force_terminate_transaction("of-a-dead-broker")


def test_a_transaction_is_aborted_by_its_producer(command: Command, admin: Admin) -> None:
    """With the three numbers; a wrong epoch is refused: a greater one would fence its producer."""
    begin(admin, "zombie-2")
    producer = begin(admin, "zombie-2")
    assert producer[1] == 1
    write(admin, producer, at(0, "pays"), "zombie-2", 11)
    (known,) = admin.find_hanging_transactions("pays")
    assert (known.partition, known.producer.producer_id) == (at(0, "pays"), producer[0])
    with pytest.raises(PartlyRefused, match="INVALID_PRODUCER_EPOCH"):
        admin.abort_transaction(at(0, "pays"), producer_id=producer[0], producer_epoch=0)
    abort = ("abort", "--topic", "pays", "--partition", 0, "--producer-id", producer[0])
    for wrong in ((9, -1), (1, 7)):
        done = command(*abort, "--producer-epoch", wrong[0], "--coordinator-epoch", wrong[1])
        why = f"has the producer epoch 1 and the coordinator epoch -1, not {wrong[0]} and {wrong[1]}"
        assert (done.exit_code, why in done.stderr) == (1, True), done.stderr
    assert admin.find_hanging_transactions("pays") == [known]
    done = command(*abort, "--producer-epoch", 1, "--coordinator-epoch", -1, "--output", "json")
    told = {"topic": "pays", "partition": 0, "producer_id": producer[0], "producer_epoch": 1}
    assert json.loads(done.stdout) == {"aborted": told}
    assert admin.find_hanging_transactions("pays") == []


def test_the_program_that_ends_what_hangs_runs(
    admin: Admin, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example of the documentation."""
    producer = begin(admin, "zombie-3")
    offset = write(admin, producer, at(2, "pays"), "zombie-3", 11)
    run_program("transactions.md", bootstrap_servers)
    assert capsys.readouterr().out == f"pays-2 from offset {offset}: producer {producer[0]}\n"
    assert admin.find_hanging_transactions() == []


def test_producers_are_fenced(admin: Admin) -> None:
    """Also those of ids that do not exist, which are created; the others although one is refused."""
    producer = begin(admin, "fence")
    fenced = admin.fence_producers(["fence", "new"])
    assert fenced["fence"].producer_id == producer[0]
    assert fenced["fence"].producer_epoch == producer[1] + 1
    assert fenced["new"].producer_epoch == 0
    with pytest.raises(PartlyRefused) as refused:
        admin.fence_producers(["", "fence"])
    assert list(refused.value.refused) == [""]
    described = admin.describe_transactions(["fence", "none"])
    assert described["none"] is None
    assert described["fence"] is not None
    assert described["fence"].producer_epoch == producer[1] + 2
    with pytest.raises(RequestRefused, match="INVALID_REGULAR_EXPRESSION"):
        admin.list_transactions(transactional_id_pattern="(")


@pytest.mark.parametrize(
    ("words", "exit_code", "problem"),
    [
        ("list --state open", 2, "--state open: choose from Empty, Ongoing"),
        ("list --output xml", 2, "--output xml: table, json or csv is expected"),
        ("list --transactional-id-pattern (", 1, "INVALID_REGULAR_EXPRESSION"),
        ("describe --transactional-id nobody", 1, "there is no transactional id nobody; `headgate"),
        ("forceTerminateTransaction --transactional-id nobody", 1, "there is no transactional id nobody;"),
        ("describe-producers --topic none --partition 0", 1, "topic none: UNKNOWN_TOPIC_OR_PARTITION"),
        ("describe-producers --topic orders --partition 9", 1, "orders-9: UNKNOWN_TOPIC_OR_PARTITION"),
        ("describe-producers --topic orders --partition 0 --broker-id 7", 1, "BROKER_ID_NOT_REGISTERED"),
        ("find-hanging --broker-id 7", 1, "BROKER_ID_NOT_REGISTERED"),
        ("find-hanging --topic a\udcff", 2, "--topic a\\udcff: not valid UTF-8"),
        ("describe --transactional-id=", 2, "--transactional-id: an id is expected"),
        ("describe --transactional-id " + "x" * 40_000, 2, "at most 32,767 bytes are expected, not 40,000"),
        ("list --transactional-id-pattern \udcff", 2, "--transactional-id-pattern \\udcff: not valid UTF-8"),
        (f"list --duration-filter {1 << 63}", 2, "Invalid value for '--duration-filter'"),
        (
            f"abort --topic orders --partition {1 << 31} --start-offset 0",
            2,
            "Invalid value for '--partition'",
        ),
        (
            "abort --topic orders --partition 0 --producer-id 987 --producer-epoch 0 --coordinator-epoch 0",
            1,
            "producer 987 has no open transaction in orders-0; `headgate transactions describe-producers`",
        ),
        ("find-hanging --partition 1", 2, "--partition 1: --topic is expected with it"),
        ("abort --topic orders --partition 0", 2, "which transaction? --start-offset is expected;"),
        ("abort --topic orders --partition 0 --producer-id 1", 2, "--producer-epoch is expected with"),
        (
            "abort --topic orders --partition 0 --start-offset 1 --producer-id 1",
            2,
            "--start-offset and --producer-id: one of them is expected",
        ),
    ],
)
def test_mistakes_are_named(command: Command, words: str, exit_code: int, problem: str) -> None:
    """Nothing is sent for an invalid command line."""
    result = command(*words.split())
    assert problem in result.stderr
    assert result.exit_code == exit_code


def test_a_similar_id_is_suggested_and_options_can_follow_the_action(bootstrap_servers: str) -> None:
    """As everywhere in this command line; before the action they stand in Kafka's."""
    with Admin(bootstrap_servers) as admin:
        begin(admin, "billing-1")
    words = ["describe", "--transactional-id", "biling-1", "--bootstrap-server", bootstrap_servers]
    result = CliRunner().invoke(app, ["transactions", "--bootstrap-server", "nowhere", *words])
    assert result.stderr == "headgate: there is no transactional id biling-1; did you mean billing-1?\n"
