"""`headgate consumer-groups --describe`, for users and for scripts written for Kafka's tool."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.cli.support import Command, rows

from headgate.client.cluster import Cluster
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

pytestmark = pytest.mark.timeout(60)


def test_a_group_is_described_in_kafkas_columns(command: Command, group: str, member: Consumer) -> None:
    """Offsets, ends, lag and members; dashes for missing values."""
    heading, *lines = rows(command("--describe", "--group", group))
    assert heading == [
        *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
        *("CONSUMER-ID", "HOST", "CLIENT-ID"),
    ]
    reader = [member.memberid(), "/127.0.0.1", "reader"]
    assert lines == [
        [group, "flights", "0", "4", "10", "6", *reader],
        [group, "flights", "1", "9", "10", "1", *reader],
        [group, "flights", "2", "-", "10", "-", *reader],
    ]


def test_members_and_state_are_described(command: Command, group: str, member: Consumer) -> None:
    """With --verbose also the assignment of each member."""
    _, line = rows(command("--describe", "--group", group, "--members"))
    assert line == [group, member.memberid(), "/127.0.0.1", "reader", "3"]
    heading, line = rows(command("--describe", "--group", group, "--members", "--verbose"))
    assert line[heading.index("CURRENT-ASSIGNMENT")] == "flights:0,1,2"
    heading, line = rows(command("--describe", "--group", group, "--state"))
    assert line[heading.index("STATE") :] == ["Stable", "1"]
    document = json.loads(command("--describe", "--group", group, "--members", "--output", "json").stdout)
    (described,) = document["groups"]
    (one,) = described["members"]
    assert (described["state"], described["member_count"]) == ("Stable", 1)
    assert one["assignment"] == [{"topic": "flights", "partition": number} for number in range(3)]


def test_groups_without_members_leave_no_empty_lines(command: Command, group: str) -> None:
    """Only tables are apart by an empty line: thousands of groups without rows print nothing."""
    for name in ("idle-1", "idle-2", "idle-3"):
        made = (
            "--reset-offsets",
            "--group",
            name,
            "--topic",
            "flights",
            "--to-earliest",
            "--create",
            "--execute",
        )
        assert command(*made).exit_code == 0
    idle = [word for name in ("idle-1", "idle-2", "idle-3") for word in ("--group", name)]
    assert command("--describe", *idle, "--members").stdout == ""
    assert command("--describe", *idle).stdout.count("\n\n") == 2


class Heart:
    """The members of a consumer group, which send heartbeats when a test calls `beat`."""

    def __init__(self, bootstrap_servers: str, group: str) -> None:
        self.cluster = Cluster(bootstrap_servers, client_id="reader")
        (topic,) = self.cluster.metadata([TopicName("flights")]).topics
        self._topic_id, self._group = topic.topic_id, GroupId(group)

    def beat(self, member_id: str, epoch: int, owned: list[int], **more: Any) -> int:
        """Send a heartbeat. Return the member epoch."""
        parts = [TopicPartitions(topic_id=self._topic_id, partitions=owned)] if owned else []
        message = ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=member_id, member_epoch=epoch, topic_partitions=parts, **more
        )
        response = self.cluster.ask_coordinator(self._group, message)
        assert response.error_code == ErrorCode.NONE, response.error_message
        return response.member_epoch

    def join(self, member_id: str, **more: Any) -> int:
        """Join a member. Return the member epoch."""
        reads = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["flights"]}
        return self.beat(member_id, 0, [], **(reads | more))


@pytest.fixture
def heart(bootstrap_servers: str, group: str) -> Iterator[Heart]:
    """The members of the test's group."""
    heart = Heart(bootstrap_servers, group)
    with heart.cluster:
        yield heart


def test_a_rebalance_names_the_members_that_delay_it(command: Command, group: str, heart: Heart) -> None:
    """With the partitions that they must revoke. Epochs and target assignments show the progress."""
    epoch = heart.join("one")
    heart.join("two")
    asked = ("--describe", "--group", group, "--members", "--verbose")
    while f"group {group} is rebalancing (Reconciling)" not in (described := command(*asked)).stderr:
        heart.beat("one", epoch, [0, 1, 2])
    assert f"group {group}: reader (one) must revoke flights:2\n" in described.stderr
    heading, one, two = rows(described)
    assert heading[5:] == ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    assert one[4:] == ["3", str(epoch), "flights:0,1,2", str(epoch + 1), "flights:0,1"]
    assert two[4:] == ["0", str(epoch), "-", str(epoch + 1), "flights:2"]


def test_a_static_member_that_left_temporarily_is_named(command: Command, group: str, heart: Heart) -> None:
    """Its partitions are not consumed in the meantime, and the remark says why."""
    heart.join("one", instance_id="reader-1")
    heart.beat("one", -2, [], instance_id="reader-1")
    described = command("--describe", "--group", group)
    assert f"group {group}: reader-1 left temporarily and keeps its partitions" in described.stderr


def test_assignments_and_subscriptions_are_in_json(command: Command, group: str, heart: Heart) -> None:
    """The table has no column for subscriptions."""
    heart.join("one", subscribed_topic_regex="no-such-.*")
    arguments = ("--describe", "--group", group, "--members", "--output", "json")
    (described,) = json.loads(command(*arguments).stdout)["groups"]
    (one,) = described["members"]
    assert described["group_epoch"] == described["target_assignment_epoch"] == one["target_epoch"]
    assert one["target_assignment"] == [{"topic": "flights", "partition": number} for number in range(3)]
    assert (one["subscribed_topics"], one["subscribed_regex"]) == (["flights"], "no-such-.*")
    assert (one["upgraded"], one["assignment"]) == (True, one["target_assignment"])


def test_classic_members_of_a_consumer_group_are_marked(
    command: Command, group: str, member: Consumer, heart: Heart
) -> None:
    """The table has a column for them while there are any."""
    heart.join("new")
    heading, *lines = rows(command("--describe", "--group", group, "--members", "--verbose"))
    assert heading[-1] == "UPGRADED"
    assert {line[1]: line[-1] for line in lines} == {member.memberid(): "false", "new": "true"}
    heart.beat("new", -1, [])


def test_all_groups_are_described_as_csv(command: Command, group: str) -> None:
    """There is one heading for any number of groups."""
    described = command("--describe", "--all-groups", "--verbose", "--output", "csv")
    found = [row for row in csv.DictReader(io.StringIO(described.stdout)) if row["group"] == group]
    assert [(row["partition"], row["lag"], row["metadata"].rstrip("\0")) for row in found] == [
        ("0", "6", ""),
        ("1", "1", "by hand"),
    ]


def test_an_unknown_group_is_an_error_and_the_others_are_shown(command: Command, group: str) -> None:
    """The most similar name is suggested, and the exit code is 1."""
    described = command("--describe", "--group", group[:-1], "--group", group)
    assert described.exit_code == 1
    assert f"there is no group called {group[:-1]}; did you mean {group}?" in described.stderr
    assert f"group {group} has no active members" in described.stderr
    assert len(described.stdout.splitlines()) == 3


def test_a_group_that_is_gone_is_found_in_the_history(command: Command, group: str) -> None:
    """The most urgent question after offsets expired is what they were."""
    assert command("--delete", "--group", group).exit_code == 0
    described = command("--describe", "--group", group)
    shows = f"`headgate consumer-groups --history --group {group}` shows when and why"
    assert (described.exit_code, described.stderr) == (1, f"headgate: group {group} is gone; {shows}\n")
    assert command("--history", "--group", group).exit_code == 0
