"""`headgate share-groups` against a server: list, describe, reset, delete."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.cli.support import Command, rows
from typer.testing import CliRunner, Result

from headgate.admin import Admin, PartlyRefused, PlannedOffset, RequestRefused, TopicPartition
from headgate.broker import run
from headgate.cli import app
from headgate.cli.share_groups.options import Options
from headgate.cli.share_groups.run import reset_offsets
from headgate.client.cluster import Cluster
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

TIMEOUT_MS = 20_000


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    """A server with the topics `orders` (three partitions) and `other`, and a member in the group `busy`."""
    with run({"group.share.assignment.interval.ms": "0"}) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            topics = [
                CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                for name, count in (("orders", 3), ("other", 1))
            ]
            cluster.any_node().request(CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS))
            epoch = heartbeat(cluster, 0, ["orders"])
            while epoch < 3:
                epoch = heartbeat(cluster, epoch)
        yield broker.bootstrap_servers


def heartbeat(cluster: Cluster, epoch: int, topics: list[str] | None = None) -> int:
    """Send a heartbeat as a member of the group `busy`; its next epoch."""
    request = ShareGroupHeartbeatRequest(
        group_id="busy", member_id="member-1", member_epoch=epoch, subscribed_topic_names=topics
    )
    response = cluster.ask_coordinator(GroupId("busy"), request)
    assert response.error_code == ErrorCode.NONE
    return response.member_epoch


@pytest.fixture
def command(bootstrap_servers: str) -> Command:
    """Run the command in this process with that server."""

    def invoke(*arguments: Any) -> Result:
        words = ["share-groups", "--bootstrap-server", bootstrap_servers, *map(str, arguments)]
        return CliRunner().invoke(app, words)

    return invoke


@pytest.fixture
def empty(command: Command) -> str:
    """A group without members that begins at offset 0 in two partitions of `orders`."""
    asked = ("--reset-offsets", "--group", "empty", "--topic", "orders:0,2", "--to-earliest", "--create")
    done = command(*asked, "--execute")
    assert done.exit_code == 0, done.stderr
    return "empty"


def test_groups_are_listed(command: Command, empty: str) -> None:
    """By id; with --state also their states, or those in a state."""
    assert command("--list").stdout.split() == ["busy", "empty"]
    assert rows(command("--list", "--state")) == [["GROUP", "STATE"], ["busy", "Stable"], ["empty", "Empty"]]
    assert rows(command("--list", "--state", "empty"))[1:] == [["empty", "Empty"]]
    listed = json.loads(command("--list", "--output", "json").stdout)
    assert listed == {"groups": [{"group": "busy", "state": "Stable"}, {"group": "empty", "state": "Empty"}]}


def test_offsets_are_described_in_kafkas_columns(command: Command, empty: str) -> None:
    """Start offset and lag of each share-partition, with --verbose the leader epoch; a dash for none."""
    heading = ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    assert rows(command("--describe", "--group", empty)) == [
        heading,
        [empty, "orders", "0", "0", "0"],
        [empty, "orders", "2", "0", "0"],
    ]
    verbose = rows(command("--describe", "--group", "busy", "--offsets", "--verbose"))
    assert verbose[0] == [*heading[:3], "LEADER-EPOCH", *heading[3:]]
    assert verbose[1] == ["busy", "orders", "0", "-", "-", "-"]
    described = json.loads(command("--describe", "--all-groups", "--output", "json").stdout)["groups"]
    assert [(one["group"], len(one["offsets"])) for one in described] == [("busy", 3), ("empty", 2)]


def test_hundreds_of_groups_are_described_as_each_of_them(command: Command, bootstrap_servers: str) -> None:
    """Whatever is asked in one request for many of them."""
    groups = [f"one-of-many-{number:03}" for number in range(150)]
    with Admin(bootstrap_servers) as admin:
        (partition,) = admin.partitions_of("other")
        for group_id in groups:
            admin.alter_share_offsets(group_id, {partition: 0})
        described = json.loads(command("--describe", "--all-groups", "--output", "json").stdout)["groups"]
        alone = command("--describe", "--group", groups[149], "--output", "json")
        admin.delete_groups(groups)
    many = [one for one in described if one["group"] in groups]
    assert [one["group"] for one in many] == groups
    assert json.loads(alone.stdout)["groups"] == [many[149]]
    assert many[149]["offsets"][0]["start_offset"] == 0


def test_members_and_states_are_described(command: Command, empty: str) -> None:
    """With the columns of Kafka's tool."""
    heading, member = rows(command("--describe", "--group", "busy", "--members"))
    assert heading == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    assert (member[0], member[1], member[4], member[5]) == ("busy", "member-1", "3", "orders:0,1,2")
    heading, state = rows(command("--describe", "--group", "busy", "--state", "--verbose"))
    assert heading == ["GROUP", "COORDINATOR", "STATE", "GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS"]
    assert (state[0], state[-4:]) == ("busy", ["Stable", "3", "3", "1"])
    assert "no active members" in command("--describe", "--group", empty, "--members").stderr


def test_every_table_is_printed_as_csv(command: Command, empty: str) -> None:
    """With the names of the columns in JSON; of several groups as one table."""
    assert command("--list", "--output", "csv").stdout == "group,state\nbusy,Stable\nempty,Empty\n"
    offsets = command("--describe", "--all-groups", "--output", "csv").stdout.splitlines()
    assert offsets[0] == "group,topic,partition,start_offset,lag,paused"
    assert offsets[-2:] == [f"{empty},orders,0,0,0,", f"{empty},orders,2,0,0,"]
    members = command("--describe", "--group", "busy", "--members", "--output", "csv").stdout.splitlines()
    assert [line.split(",")[1] for line in members] == ["consumer_id", "member-1"]
    planned = command(
        *("--reset-offsets", "--group", empty, "--topic", "orders:1", "--to-latest", "--output", "csv")
    )
    assert (planned.stdout, planned.stderr) == (
        f"group,topic,partition,new_offset\n{empty},orders,1,0\n",
        "",
    )
    deleted = command("--delete", "--group", "none", "--output", "csv")
    assert deleted.stdout == "group,status\nnone,GROUP_ID_NOT_FOUND\n"
    unknown = "there is no share group called none; `headgate share-groups --list` lists all share groups"
    assert deleted.stderr == f"headgate: {unknown}\n"


def test_a_reset_of_an_unknown_group_needs_to_say_so(command: Command, empty: str) -> None:
    """A misspelt name makes no group; --create does."""
    asked = ("--reset-offsets", "--topic", "orders:0", "--to-earliest", "--execute")
    refused = command(*asked, "--group", "emty")
    assert (refused.exit_code, refused.stdout) == (1, "")
    hint = "there is no share group called emty; did you mean empty? (--create creates it)"
    assert refused.stderr == f"headgate: {hint}\n"
    assert "emty" not in command("--list").stdout
    assert command(*asked, "--group", "fresh", "--create").exit_code == 0
    assert "fresh" in command("--list").stdout.split()
    assert command("--delete", "--group", "fresh").exit_code == 0


def test_a_group_of_another_kind_names_the_command_for_it(
    command: Command, empty: str, bootstrap_servers: str
) -> None:
    """A share group is not unknown to consumer-groups, nor a consumer group to share-groups."""
    with Admin(bootstrap_servers) as admin:
        admin.alter_offsets("readers", {TopicPartition(TopicName("orders"), 0): 0})

    def consumers(*words: str) -> Result:
        return CliRunner().invoke(app, ["consumer-groups", "--bootstrap-server", bootstrap_servers, *words])

    reset = ("--reset-offsets", "--topic", "orders", "--to-earliest", "--execute")
    undo = ("--undo", "--all-topics")
    restore = ("--reset-offsets", "--to-offsets-as-of", "2026-01-01", "--all-topics")
    removal = ("--delete-offsets", "--topic", "orders")
    for words in (("--describe",), reset, (*reset, "--create"), removal, undo, restore):
        refused = consumers(*words, "--group", empty)
        assert refused.exit_code == 1
        assert refused.stderr == f"headgate: group {empty} is a share group: use `headgate share-groups`\n"
    other = "headgate: group readers is not a share group: use `headgate consumer-groups`\n"
    for words in (("--describe",), reset, (*reset, "--create"), ("--delete",)):
        refused = command(*words, "--group", "readers")
        assert (refused.exit_code, refused.stderr) == (1, other)
    missing = consumers("--describe", "--group", "reader")
    assert missing.stderr == "headgate: there is no group called reader; did you mean readers?\n"
    no_share = consumers("--describe", "--group", "empt")
    assert no_share.stderr.endswith("lists all groups\n")
    assert consumers("--delete", "--group", "readers").exit_code == 0


def test_a_reset_is_planned_before_it_is_executed(command: Command, empty: str) -> None:
    """A plan changes nothing; a group with members refuses the execution."""
    asked = ("--reset-offsets", "--topic", "orders:1", "--to-latest")
    planned = command(*asked, "--group", empty)
    assert rows(planned) == [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"], [empty, "orders", "1", "0"]]
    assert "--execute" in planned.stderr
    assert len(rows(command("--describe", "--group", empty))) == 3
    assert command(*asked, "--group", empty, "--execute").exit_code == 0
    assert len(rows(command("--describe", "--group", empty))) == 4
    assert "group busy has 1 member: stop them before --execute" in command(*asked, "--group", "busy").stderr
    refused = command(*asked, "--group", "busy", "--execute")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "NON_EMPTY_GROUP" in refused.stderr
    assert "`headgate share-groups --rewind` sets start offsets while the group runs" in refused.stderr
    missing = command("--reset-offsets", "--group", empty, "--topic", "orders:7", "--to-latest")
    assert (missing.exit_code, "orders-7" in missing.stderr) == (1, True)
    mistyped = command("--reset-offsets", "--group", empty, "--topic", "ordrs", "--to-latest")
    assert (mistyped.exit_code, "did you mean orders?" in mistyped.stderr) == (1, True)
    outside = command("--reset-offsets", "--group", empty, "--topic", "orders:1", "--to-offset", 99)
    assert rows(outside)[1:] == [[empty, "orders", "1", "0"]]
    assert f"group {empty}: orders-1: 99 lies outside the log, which ends at 0" in outside.stderr
    dated = command(
        "--reset-offsets", "--group", empty, "--all-topics", "--to-datetime", "1970-01-21T00:00:00"
    )
    assert len(rows(dated)) == 4


def test_topics_and_groups_are_forgotten(command: Command, empty: str) -> None:
    """Each with its result; what does not exist, or has members, is refused."""
    deleted = command("--delete-offsets", "--group", empty, "--topic", "orders")
    assert rows(deleted) == [["GROUP", "TOPIC", "STATUS"], [empty, "orders", "deleted"]]
    refused = command("--delete-offsets", "--group", empty, "--topic", "nowhere")
    assert (refused.exit_code, "UNKNOWN_TOPIC_OR_PARTITION" in refused.stdout) == (1, True)
    results = command("--delete", "--group", empty, "--group", "busy", "--group", "none")
    assert results.exit_code == 1
    assert [line.split()[-1] for line in results.stdout.splitlines()[1:]] == [
        "deleted",
        "NON_EMPTY_GROUP",
        "GROUP_ID_NOT_FOUND",
    ]
    assert command("--list").stdout.split() == ["busy"]
    missing = command("--describe", "--group", "bus")
    assert (missing.exit_code, "did you mean busy?" in missing.stderr) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--list", "--describe"),
        ("--describe",),
        ("--describe", "--group", "g", "--members", "--offsets"),
        ("--list", "--topic", "t"),
        ("--reset-offsets", "--group", "g", "--topic", "t"),
        ("--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--dry-run", "--execute"),
        ("--list", "--output", "xml"),
        ("--list", "--state", "busy"),
    ],
)
def test_other_combinations_are_refused(command: Command, arguments: tuple[str, ...]) -> None:
    """With what is expected, and exit code 2."""
    result = command(*arguments)
    assert result.exit_code == 2
    assert result.stderr


class _PartlyRefusing(Admin):
    """An Admin API whose server sets the start offset of one partition only."""

    def alter_share_offsets(self, group_id: str, starts: Mapping[TopicPartition, int]) -> list[PlannedOffset]:
        super().alter_share_offsets(group_id, dict(list(starts.items())[:1]))
        refused = {one: RequestRefused(str(one), ErrorCode.KAFKA_STORAGE_ERROR) for one in list(starts)[1:]}
        raise PartlyRefused(refused)


def test_a_reset_that_is_partly_refused_shows_what_was_set(
    bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows are those of the partitions whose start offset is set; the refusal is on standard error."""
    options = Options(
        reset_offsets=True,
        group=["partly"],
        topic=["orders"],
        to_earliest=True,
        create=True,
        execute=True,
        output="json",
    )
    with _PartlyRefusing(bootstrap_servers) as admin:
        assert reset_offsets(admin, options) == 1
    printed = capsys.readouterr()
    assert [one["partition"] for one in json.loads(printed.out)["offsets"]] == [0]
    assert "KAFKA_STORAGE_ERROR" in printed.err
