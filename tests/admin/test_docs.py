"""The examples of the documentation run unchanged, except for the port, with the documented results."""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from confluent_kafka import Consumer, Producer
from tests.admin.conftest import PARTITIONS
from typer.testing import CliRunner

import headgate
from headgate.admin import Admin
from headgate.cli import app
from headgate.client.membership import MemberSettings, Membership
from headgate.domain.ids import GroupId, TopicName, TopicPartition
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

DOCS = Path(__file__).parents[2] / "docs"
PORT_AS_WRITTEN = "127.0.0.1:9092"
pytestmark = pytest.mark.timeout(60)


def python_of(document: str, word: str = "") -> str:
    """Return the first program of a document, or the first with a word."""
    programs = re.findall(r"```python\n(.*?)```", (DOCS / document).read_text(), re.DOTALL)
    return str(next(program for program in programs if word in program))


def run(
    document: str, bootstrap_servers: str, names: Mapping[str, str] = MappingProxyType({}), word: str = ""
) -> None:
    """Run the first program, or the first with a word, against the server, with some names replaced."""
    code = python_of(document, word)
    assert PORT_AS_WRITTEN in code
    for name, other in names.items():
        code = code.replace(name, other)
    exec(compile(code.replace(PORT_AS_WRITTEN, bootstrap_servers), document, "exec"), {})


def test_the_program_that_resets_a_group_runs(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the plan for each partition and executes it."""
    admin.alter_offsets("billing", dict.fromkeys(PARTITIONS, 7))
    run("consumer-groups.md", admin.cluster.any_node().address)
    assert capsys.readouterr().out.count("->") == len(PARTITIONS)
    assert {offset for offset, *_ in admin.committed_offsets("billing").values()} == {0}


def test_the_program_that_commits_on_condition_runs(admin: Admin, capsys: pytest.CaptureFixture[str]) -> None:
    """It reports a concurrent change; without one it commits."""
    first = PARTITIONS[0]
    for offset, left, said in ((1100, 1100, f"somebody was faster: {{{first!r}: 1100}}\n"), (1000, 1200, "")):
        admin.alter_offsets("nightly", {first: offset})
        run("conditional-commits.md", admin.cluster.any_node().address)
        assert admin.committed_offsets("nightly")[first].offset == left
        assert capsys.readouterr().out == said


def test_the_program_that_tells_refusals_apart_runs(
    bootstrap_servers: str, group: str, member: Consumer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group with a member is reported, one that does not exist is not, and a missing topic is."""
    run("admin.md", bootstrap_servers, {"billing": group, "audit": "no-such-group"}, "ErrorCode")
    assert capsys.readouterr().out == (
        f"{group} has members: stop them first\nno such topic: UNKNOWN_TOPIC_OR_PARTITION 3\n"
    )


def test_the_program_that_rewinds_a_group_runs(
    admin: Admin, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It shows each offset before and after."""
    topic = TopicName("orders")
    create = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    admin.cluster.any_node().request(CreateTopicsRequest(topics=[create], timeout_ms=10_000))
    settings = MemberSettings(group_id=GroupId("rewound"), topics=(topic,))
    is_over = threading.Event()
    with Membership(bootstrap_servers, settings) as member:
        member.wait_for_assignment(10)
        member.commit({TopicPartition(topic, 0): 0})

        def release() -> None:
            while not is_over.wait(0.02):
                member.release(member.view().revoked)

        releasing = threading.Thread(target=release)
        releasing.start()
        try:
            run("pause.md", bootstrap_servers, {"billing": "rewound"})
        finally:
            is_over.set()
            releasing.join()
    assert capsys.readouterr().out.startswith("orders-0 CommittedOffset(offset=0")


def test_the_commands_of_the_documentation_run(admin: Admin, bootstrap_servers: str) -> None:
    """All lines of the first block, in order."""
    admin.alter_offsets("billing", dict.fromkeys(PARTITIONS, 7))
    found = re.search(r"```\n(.*?)```", (DOCS / "consumer-groups.md").read_text(), re.DOTALL)
    assert found is not None
    lines = [shlex.split(line, comments=True) for line in found[1].splitlines()]
    assert len(lines) >= 6
    for program, *words in lines:
        assert program == "headgate"
        done = CliRunner().invoke(app, [*words, "--bootstrap-server", bootstrap_servers])
        assert done.exit_code == 0, (words, done.stderr)
    assert admin.describe_group("billing") is None


def test_the_program_of_a_share_consumer_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the records of the topic and acknowledges them; with short heartbeats it begins at once."""
    shorter = {"group.share.heartbeat.interval.ms": 500, "group.share.min.heartbeat.interval.ms": 500}
    with headgate.run(shorter) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("orders")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("orders", b"one")
        producer.produce("orders", b"two")
        assert producer.flush(20) == 0
        run("share-groups.md", broker.bootstrap_servers, {"poll(10)": "poll(4)"})
        assert capsys.readouterr().out == "b'one'\nb'two'\n"
        assert [one.lag for one in admin.share_offsets("work")] == [0]
