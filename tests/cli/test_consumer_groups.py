"""`headgate consumer-groups` as a person at a shell, and a script written for Kafka's tool, meet it."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.consumers import reading
from typer.testing import CliRunner, Result

from headgate.admin import Admin
from headgate.broker import run
from headgate.cli import app
from headgate.cli.consumer_groups.arguments import parse_datetime, parse_duration
from headgate.cli.consumer_groups.usage import UsageProblem
from headgate.client.cluster import Cluster
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

pytestmark = pytest.mark.timeout(60)
START_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z

Command = Callable[..., Result]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def bootstrap_servers() -> Iterator[str]:
    """A server with `flights`: three partitions of ten records, one a second from START_MS on."""
    with run({"offsets.topic.num.partitions": "2"}) as broker:
        address: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient(address)
        admin.create_topics([NewTopic("flights", 3, 1)])["flights"].result(timeout=30)
        producer = Producer(address)
        for number in range(30):
            producer.produce("flights", b"x", partition=number % 3, timestamp=START_MS + number // 3 * 1000)
        assert producer.flush(20) == 0
        del admin, producer
        yield broker.bootstrap_servers


@pytest.fixture
def command(bootstrap_servers: str) -> Command:
    """The command in this process, against that server."""

    def invoke(*arguments: str | Path) -> Result:
        words = ["consumer-groups", "--bootstrap-server", bootstrap_servers, *map(str, arguments)]
        return CliRunner().invoke(app, words)

    return invoke


@pytest.fixture
def group(bootstrap_servers: str, request: pytest.FixtureRequest) -> str:
    """A group of this test's own, at 4 and 9 in two of three partitions."""
    name = f"{request.node.name.partition('[')[0]}-{next(_numbers)}"
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": name})
    offsets = [TopicPartition("flights", 0, 4), TopicPartition("flights", 1, 9, metadata="by hand")]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    return name


@pytest.fixture
def member(bootstrap_servers: str, group: str) -> Iterator[Consumer]:
    """A consumer that reads all of it."""
    with reading(bootstrap_servers, group, "flights", {"client.id": "reader"}) as consumer:
        yield consumer


def rows(result: Result) -> list[list[str]]:
    """The lines of a table, the heading among them."""
    assert result.exit_code == 0, result.stderr
    return [line.split() for line in result.stdout.splitlines()]


def committed(command: Command, group: str) -> dict[int, int]:
    """What the group has now, by partition."""
    (described,) = json.loads(command("--describe", "--group", group, "--output", "json").stdout)["groups"]
    return {each["partition"]: each["current_offset"] for each in described["offsets"]}


# --list


def test_groups_are_listed_by_name_alone_unless_more_is_asked_for(command: Command, group: str) -> None:
    """Plain names for scripts; state and type, with or without a filter, as Kafka's tool has it."""
    assert group in command("--list").stdout.splitlines()
    assert [group, "Empty"] in rows(command("--list", "--state"))
    table = rows(command("--list", "--state", "empty,stable", "--type", "Classic"))
    assert table[0] == ["GROUP", "TYPE", "STATE"]
    assert [group, "Classic", "Empty"] in table
    assert rows(command("--list", "--type", "consumer")) == [["GROUP", "TYPE"]]
    as_json = json.loads(command("--list", "--output", "json").stdout)
    assert {"group": group, "type": "Classic", "state": "Empty", "protocol_type": ""} in as_json["groups"]


def test_a_state_that_there_is_not_is_refused_with_those_there_are(command: Command) -> None:
    """A misspelt filter would otherwise look like an empty cluster."""
    refused = command("--list", "--state", "Stabel")
    assert refused.exit_code == 2
    assert "Empty, Stable, PreparingRebalance" in refused.stderr


# --describe


def test_a_group_is_described_in_kafkas_columns(command: Command, group: str, member: Consumer) -> None:
    """Offsets, ends, lag and readers; dashes for what there is none of."""
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
    """With --verbose what each member reads, too."""
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


class Heart:
    """The members of a group of the new protocol, who beat when they are told to."""

    def __init__(self, bootstrap_servers: str, group: str) -> None:
        self.cluster = Cluster(bootstrap_servers, client_id="reader")
        (topic,) = self.cluster.metadata([TopicName("flights")]).topics
        self._topic_id, self._group = topic.topic_id, GroupId(group)

    def beat(self, member_id: str, epoch: int, owned: list[int], **more: Any) -> int:
        """One heartbeat; the member's epoch."""
        parts = [TopicPartitions(topic_id=self._topic_id, partitions=owned)] if owned else []
        message = ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=member_id, member_epoch=epoch, topic_partitions=parts, **more
        )
        response = self.cluster.ask_coordinator(self._group, message)
        assert response.error_code == ErrorCode.NONE, response.error_message
        return response.member_epoch

    def join(self, member_id: str, **more: Any) -> int:
        """A member joins; its epoch."""
        reads = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["flights"]}
        return self.beat(member_id, 0, [], **(reads | more))


@pytest.fixture
def heart(bootstrap_servers: str, group: str) -> Iterator[Heart]:
    """For the test's group."""
    heart = Heart(bootstrap_servers, group)
    with heart.cluster:
        yield heart


def test_a_rebalance_tells_who_is_waited_for(command: Command, group: str, heart: Heart) -> None:
    """By name, and what is to be let go; epochs and targets show how far everybody is."""
    epoch = heart.join("one")
    heart.join("two")
    asked = ("--describe", "--group", group, "--members", "--verbose")
    while f"group {group} is rebalancing (Reconciling)" not in (described := command(*asked)).stderr:
        heart.beat("one", epoch, [0, 1, 2])
    assert f"group {group}: reader (one) is to let go of flights:2\n" in described.stderr
    heading, one, two = rows(described)
    assert heading[5:] == ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    assert one[4:] == ["3", str(epoch), "flights:0,1,2", str(epoch + 1), "flights:0,1"]
    assert two[4:] == ["0", str(epoch), "-", str(epoch + 1), "flights:2"]


def test_a_static_member_that_is_away_is_told(command: Command, group: str, heart: Heart) -> None:
    """Its partitions are read by nobody meanwhile: whoever looks should know why."""
    heart.join("one", instance_id="reader-1")
    heart.beat("one", -2, [], instance_id="reader-1")
    described = command("--describe", "--group", group)
    assert f"group {group}: reader-1 is away; until its session ends its partitions wait" in described.stderr


def test_what_members_of_the_new_protocol_read_is_in_json(command: Command, group: str, heart: Heart) -> None:
    """Subscriptions too, which there is no column for."""
    heart.join("one", subscribed_topic_regex="no-such-.*")
    arguments = ("--describe", "--group", group, "--members", "--output", "json")
    (described,) = json.loads(command(*arguments).stdout)["groups"]
    (one,) = described["members"]
    assert described["group_epoch"] == described["target_assignment_epoch"] == one["target_epoch"]
    assert one["target_assignment"] == [{"topic": "flights", "partition": number} for number in range(3)]
    assert (one["subscribed_topics"], one["subscribed_regex"]) == (["flights"], "no-such-.*")
    assert (one["upgraded"], one["assignment"]) == (True, one["target_assignment"])


def test_classic_members_of_a_new_group_stand_out(
    command: Command, group: str, member: Consumer, heart: Heart
) -> None:
    """In a column of its own, as long as there are any."""
    heart.join("new")
    heading, *lines = rows(command("--describe", "--group", group, "--members", "--verbose"))
    assert heading[-1] == "UPGRADED"
    assert {line[1]: line[-1] for line in lines} == {member.memberid(): "false", "new": "true"}
    heart.beat("new", -1, [])


def test_all_groups_are_described_as_csv(command: Command, group: str) -> None:
    """One heading, whatever the number of groups."""
    described = command("--describe", "--all-groups", "--verbose", "--output", "csv")
    found = [row for row in csv.DictReader(io.StringIO(described.stdout)) if row["group"] == group]
    assert [(row["partition"], row["lag"], row["metadata"].rstrip("\0")) for row in found] == [
        ("0", "6", ""),
        ("1", "1", "by hand"),
    ]


def test_a_group_that_is_not_there_is_an_error_and_the_others_are_shown(command: Command, group: str) -> None:
    """The nearest name is offered; the exit code tells scripts."""
    described = command("--describe", "--group", group[:-1], "--group", group)
    assert described.exit_code == 1
    assert f"there is no group called {group[:-1]}; did you mean {group}?" in described.stderr
    assert f"group {group} has no active members" in described.stderr
    assert len(described.stdout.splitlines()) == 3


# --reset-offsets


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        (["--to-earliest"], {0: 0, 1: 0, 2: 0}),
        (["--to-latest"], {0: 10, 1: 10, 2: 10}),
        (["--to-current"], {0: 4, 1: 9, 2: 10}),
        (["--to-offset", "3"], {0: 3, 1: 3, 2: 3}),
        (["--to-offset", "0"], {0: 0, 1: 0, 2: 0}),
        (["--to-datetime", "2023-11-14T23:13:22.500+01:00"], {0: 3, 1: 3, 2: 3}),
        (["--to-datetime", "2023-11-14T22:13:22"], {0: 2, 1: 2, 2: 2}),
        (["--by-duration", "PT1H"], {0: 10, 1: 10, 2: 10}),
    ],
)
def test_a_reset_shows_what_it_does_and_does_it_with_execute(
    command: Command, group: str, target: list[str], offsets: dict[int, int]
) -> None:
    """Without --execute nothing changes; with it, what was shown is what is there."""
    words = ["--reset-offsets", "--group", group, "--topic", "flights", *target]
    shown = command(*words)
    heading, *lines = rows(shown)
    assert heading == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET"]
    assert {int(line[2]): int(line[4]) for line in lines} == offsets
    assert "nothing was changed" in shown.stderr
    assert committed(command, group) == {0: 4, 1: 9}
    done = command(*words, "--execute")
    assert (rows(done)[1:], done.stderr) == (lines, "")
    assert committed(command, group) == offsets


def test_a_shift_stays_inside_the_log_and_says_so(command: Command, group: str) -> None:
    """Of the partitions that were named, and those only."""
    words = ("--reset-offsets", "--group", group, "--execute", "--shift-by")
    done = command(*words, "3", "--topic", "flights:1")
    assert rows(done)[1] == [group, "flights", "1", "9", "10"]
    assert "flights-1: 12 lies outside the log, which ends at 10" in done.stderr
    command(*words, "-7", "--all-topics")
    assert committed(command, group) == {0: 0, 1: 3}
    refused = command(*words, "1", "--topic", "flights:0,2")
    assert refused.exit_code == 1
    assert "nothing is committed to shift from in flights-2" in refused.stderr


def test_what_is_exported_can_be_read_back(command: Command, group: str, tmp_path: Path) -> None:
    """One group without its name, several with theirs, as Kafka's tool writes and reads them."""
    saved = tmp_path / "saved.csv"
    words = ("--reset-offsets", "--group", group)
    saved.write_text(command(*words, "--all-topics", "--to-current", "--export").stdout)
    assert saved.read_text() == "flights,0,4\nflights,1,9\n"
    command(*words, "--all-topics", "--to-earliest", "--execute")
    assert committed(command, group) == {0: 0, 1: 0}
    assert command(*words, "--from-file", saved, "--execute").exit_code == 0
    assert committed(command, group) == {0: 4, 1: 9}
    saved.write_text(f"{group},flights,0,1\nother,flights,1,2\n")
    both = (*words, "--group", "other")
    exported = command(*both, "--from-file", saved, "--execute", "--export")
    assert exported.stdout == saved.read_text()
    assert committed(command, "other") == {1: 2}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("flights,0\n", "line 1: topic,partition,offset or group,topic,partition,offset is expected"),
        ("flights,0,-1\n", "line 1"),
        ("flights,0,1\nother,flights,0,1\n", "line 2: group other is not among those of --group"),
        ("", "there are no offsets in it"),
    ],
    ids=["too few fields", "negative", "another group", "empty"],
)
def test_a_file_that_does_not_read_is_refused_by_line(
    command: Command, group: str, tmp_path: Path, lines: str, says: str
) -> None:
    """Before anything is changed."""
    path = tmp_path / "offsets.csv"
    path.write_text(lines)
    refused = command("--reset-offsets", "--group", group, "--from-file", path, "--execute")
    assert (refused.exit_code, says in refused.stderr) == (2, True), refused.stderr
    assert committed(command, group) == {0: 4, 1: 9}


def test_an_active_group_is_not_reset(command: Command, group: str, member: Consumer) -> None:
    """The error says why, and what to do."""
    refused = command("--reset-offsets", "--group", group, "--topic", "flights", "--to-latest", "--execute")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"group {group} is active: state Stable, 1 member; stop its members first" in refused.stderr


def test_a_reset_changes_what_it_shows_or_nothing(
    command: Command, group: str, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody commits between the look and the change: the error says what, and that nothing was changed."""
    plan_reset = Admin.plan_reset

    def overtaken(admin: Admin, *arguments: Any) -> Any:
        planned = plan_reset(admin, *arguments)
        with Admin(bootstrap_servers) as somebody:
            somebody.alter_offsets(group, {planned[1].partition: 8})
        return planned

    monkeypatch.setattr(Admin, "plan_reset", overtaken)
    refused = command("--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"group {group}: flights-1 is at 8, not at 9; somebody moved it meanwhile" in refused.stderr
    assert committed(command, group) == {0: 4, 1: 8}


def test_partitions_that_are_not_there_are_refused_with_those_there_are(command: Command, group: str) -> None:
    """A misspelt topic gets the nearest name."""
    words = ("--reset-offsets", "--group", group, "--to-latest", "--topic")
    assert "flights has the partitions 0 to 2" in command(*words, "flights:3").stderr
    refused = command(*words, "fligths")
    assert (refused.exit_code, "did you mean flights?" in refused.stderr) == (1, True)


# --delete-offsets, --delete


def test_offsets_are_deleted(command: Command, group: str) -> None:
    """A line for each; a group that is not there is an error."""
    assert rows(command("--delete-offsets", "--group", group, "--topic", "flights:0"))[1:] == [
        [group, "flights", "0", "deleted"]
    ]
    assert committed(command, group) == {1: 9}
    refused = command("--delete-offsets", "--group", "nobody", "--topic", "flights:0")
    assert (refused.exit_code, "there is no group called nobody" in refused.stderr) == (1, True)


def test_offsets_that_are_being_read_are_not_deleted(command: Command, group: str, member: Consumer) -> None:
    """What is refused is shown, and said with what to do about it."""
    refused = command("--delete-offsets", "--group", group, "--topic", "flights:0")
    assert (refused.exit_code, "its members read this topic: stop them first" in refused.stderr) == (1, True)
    assert [group, "flights", "0", "GROUP_SUBSCRIBED_TO_TOPIC"] in map(str.split, refused.stdout.splitlines())


def test_groups_are_deleted_unless_they_are_active(command: Command, group: str, member: Consumer) -> None:
    """What is refused is shown with its reason, and the rest is done."""
    command("--reset-offsets", "--group", "gone", "--topic", "flights", "--to-latest", "--execute")
    deleted = command("--delete", "--group", "gone", "--group", group, "--output", "json")
    assert deleted.exit_code == 1
    assert json.loads(deleted.stdout) == {
        "groups": [{"group": "gone", "status": "deleted"}, {"group": group, "status": "NON_EMPTY_GROUP"}]
    }
    assert "stop its members first" in deleted.stderr
    assert "gone" not in command("--list").stdout.splitlines()


# What cannot be meant.


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--describe", "--group or --all-groups is expected with --describe"),
        ("--list --describe", "--list and --describe: one of them is expected"),
        ("--group g", "--delete, --history, --offsets-as-of or --undo is expected"),
        ("--describe --group g --execute", "--execute does not go with --describe"),
        ("--describe --group g --members --state", "--members and --state: one of them"),
        ("--reset-offsets --group g --topic t", "--to-earliest, --to-latest"),
        ("--reset-offsets --group g --to-latest", "which partitions? --topic TOPIC"),
        ("--reset-offsets --group g --topic t --to-latest --to-earliest", "one of them is expected"),
        ("--reset-offsets --group g --topic t:x --to-latest", "--topic t:x: TOPIC or TOPIC:0,1"),
        ("--reset-offsets --group g --topic t --to-datetime today", "2026-11-21T08:30:00"),
        ("--reset-offsets --group g --topic t --by-duration 3h", "P7D, PT12H or P1DT2H3M4S"),
        ("--delete-offsets --group g", "--topic is expected with --delete-offsets"),
        ("--list --output xml", "table, json or csv"),
        ("--list --bootstrap-server nowhere", "not an address of the form host:port"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(command: Command, words: str, says: str) -> None:
    """Exit code 2, one line."""
    refused = command(*words.split())
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("headgate: ")
    assert says in refused.stderr


def test_a_server_that_is_not_there_is_said_to_be_that(command: Command) -> None:
    """Exit code 1, and the option that names another."""
    refused = command("--list", "--bootstrap-server", "127.0.0.1:1")
    assert refused.exit_code == 1
    assert "no connection to 127.0.0.1:1" in refused.stderr
    assert "--bootstrap-server names another" in refused.stderr


def test_help_tells_what_each_option_does() -> None:
    """By kinds, with examples."""
    text = CliRunner().invoke(app, ["consumer-groups", "--help"], env={"COLUMNS": "160"}).stdout
    for words in ("What to do: one of these", "--reset-offsets", "Where --reset-offsets leads", "[STATES]"):
        assert words in text


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("P1D", 86_400_000), ("PT1H30M", 5_400_000), ("P1DT2S", 86_402_000), ("pt0.25s", 250), ("PT0S", 0)],
)
def test_durations_are_of_iso_8601(text: str, duration_ms: int) -> None:
    """As Java's Duration reads them."""
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "P-1D"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """With an example."""
    with pytest.raises(UsageProblem, match="a duration is expected"):
        parse_duration(text)


def test_dates_are_of_utc_unless_they_say_otherwise() -> None:
    """As Kafka's tool reads them."""
    assert parse_datetime("2023-11-14T22:13:20") == START_MS
    assert parse_datetime("2023-11-14T22:13:20.001Z") == START_MS + 1
    assert parse_datetime("2023-11-15T00:13:20+02:00") == START_MS
