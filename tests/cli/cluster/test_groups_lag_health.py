"""`headgate groups`, `headgate lag` and `headgate health`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from tests.cli.cluster.conftest import Headgate
from tests.cli.support import rows
from typer.testing import CliRunner

import headgate
from headgate.admin import Admin, TopicPartition
from headgate.broker import run
from headgate.cli import app
from headgate.cli.health import space_of
from headgate.client.log_dirs import LogDir
from headgate.domain.ids import TopicName

pytestmark = pytest.mark.timeout(60)

GIB = 1 << 30
PLENTY = LogDir("/more", 0, 100 * GIB, 90 * GIB)


@pytest.fixture
def behind(headgate: Headgate, name: str, bootstrap_servers: str) -> str:
    """A group that is 7 records behind in one partition, and has committed nothing in the other."""
    headgate("topics", "--create", "--topic", name, "--partitions", "2")
    headgate("produce", "--topic", name, "--partition", "0", stdin="x\n" * 10)
    with Admin(bootstrap_servers) as admin:
        admin.alter_offsets(name, {TopicPartition(name, 0): 3})
    return name


def test_groups_of_every_kind_are_listed(headgate: Headgate, behind: str, bootstrap_servers: str) -> None:
    """With the columns of Kafka's tool, whose names are never cut, and the state with --verbose."""
    share = f"share-{behind}"
    with Admin(bootstrap_servers) as admin:
        admin.alter_share_offsets(share, {TopicPartition(behind, 0): 0})
    heading, *found = rows(headgate("groups", "--list"))
    assert heading == ["GROUP", "TYPE", "PROTOCOL"]
    assert [share, "Share", "share"] in found
    assert [behind, "Classic", "-"] in found
    assert [behind, "Classic", "-", "Empty"] in rows(headgate("groups", "--list", "--verbose"))
    only = json.loads(headgate("groups", "--list", "--share", "--output", "json").stdout)["groups"]
    assert {one["type"] for one in only} == {"Share"}
    assert [share, "Share", "share"] not in rows(headgate("groups", "--list", "--consumer"))
    assert behind in headgate("groups", "--list", "--group-type", "classic").stdout
    assert [behind, "Classic", "-"] not in rows(headgate("groups", "--list", "--protocol", "share"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("groups", "--list is expected"),
        ("groups --list --share --consumer", "--consumer and --share: one of them"),
        ("groups --list --group-type odd", "one of classic, consumer, share, streams"),
        ("lag --count 3", "--count goes with --watch"),
        ("lag --output xml", "table, json or csv"),
        ("health --output xml", "table, json or csv"),
    ],
)
def test_an_invalid_command_line_is_refused(headgate: Headgate, words: str, says: str) -> None:
    """The exit code is 2."""
    refused = headgate(*words.split())
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert says in refused.stderr


def test_an_offset_beyond_the_end_hides_no_lag(
    headgate: Headgate, behind: str, bootstrap_servers: str
) -> None:
    """Of the other partitions: as in the metric, nothing is left to be read there."""
    with Admin(bootstrap_servers) as admin:
        admin.alter_offsets(behind, {TopicPartition(behind, 1): 5000})
    found = headgate("lag", "--group", behind, "--above", "5", "--output", "json")
    assert found.exit_code == 3
    (row,) = json.loads(found.stdout)["lags"]
    assert (row["lag"], row["largest_lag"]) == (7, 7)


def test_lag_is_summed_by_group_and_topic(headgate: Headgate, behind: str) -> None:
    """Unknown is not zero; --above chooses and tells by its exit code."""
    done = headgate("lag", "--group", behind, "--output", "json")
    (row,) = json.loads(done.stdout)["lags"]
    assert (row["lag"], row["largest_lag"], row["partitions"], row["members"]) == (7, 7, 1, 0)
    assert headgate("lag", "--group", behind, "--above", "7").exit_code == 0
    above = headgate("lag", "--group", behind, "--above", "6")
    assert above.exit_code == 3
    assert above.stdout.splitlines()[0].split() == [
        "GROUP",
        "TOPIC",
        "PARTITIONS",
        "LAG",
        "LARGEST-LAG",
        "MEMBERS",
    ]
    missing = headgate("lag", "--group", "no-such-group")
    assert "there is no consumer group called no-such-group" in missing.stderr
    assert missing.exit_code == 1
    assert f"did you mean {behind}?" in headgate("lag", "--group", f"{behind}x").stderr
    unread = headgate("lag", "--topic", "no-such-topic")
    assert (unread.stderr, unread.exit_code) == ("headgate: topic no-such-topic does not exist\n", 1)


def test_the_lag_of_a_share_group_is_elsewhere(
    headgate: Headgate, behind: str, bootstrap_servers: str
) -> None:
    """As `consumer-groups` says it."""
    share = f"share-{behind}"
    with Admin(bootstrap_servers) as admin:
        admin.alter_share_offsets(share, {TopicPartition(behind, 0): 0})
    done = headgate("lag", "--group", share)
    said = f"headgate: group {share} is a share group: use `headgate share-groups`\n"
    assert (done.exit_code, done.stderr) == (1, said)


def test_a_group_without_positions_is_told(
    headgate: Headgate, name: str, behind: str, bootstrap_servers: str
) -> None:
    """Its member has joined, nothing is assigned yet. An empty answer alone would look like no lag."""
    settings: dict[str, str] = {"bootstrap.servers": bootstrap_servers, "group.id": f"{name}-2"}
    consumer = Consumer({**settings, "group.protocol": "consumer"})
    consumer.subscribe([f"no-{behind}"])
    try:
        for _ in range(100):
            consumer.poll(0.1)
            done = headgate("lag", "--group", f"{name}-2")
            if done.exit_code == 0:
                break
    finally:
        consumer.close()
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith(
        f"headgate: group {name}-2 has no offsets, and no partition is assigned: it is "
    )
    assert headgate("lag", "--group", behind).stderr == ""


def test_watching_tells_rates(headgate: Headgate, behind: str) -> None:
    """A line for each look; in the second one there are rates."""
    watched = ("lag", "--group", behind, "--watch", "--interval", "0.2", "--count", "2")
    first, second = map(json.loads, headgate(*watched, "--output", "json").stdout.splitlines())
    assert first["lags"][0]["produced"] is None
    assert (second["lags"][0]["produced"], second["lags"][0]["consumed"]) == (0.0, 0.0)
    assert second["time_ms"] > first["time_ms"]
    text = headgate(*watched).stdout
    assert text.count("Ctrl-C ends it") == 2
    assert "\x1b" not in text
    heading, *looks = headgate(*watched, "--output", "csv").stdout.splitlines()
    assert heading.startswith("time_ms,group,topic,")
    assert [look.split(",")[1] for look in looks] == [behind, behind]


def test_watching_on_a_low_terminal_shows_the_largest_lags(
    headgate: Headgate, behind: str, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is counted; it would push them off the screen. What was above the first look stays there."""
    with Admin(bootstrap_servers) as admin:
        for number in range(3):
            admin.alter_offsets(f"{behind}-{number}", {TopicPartition(behind, 0): number})
    monkeypatch.setattr("headgate.cli.printing.has_escapes", lambda: True)
    monkeypatch.setenv("LINES", "6")
    names = [word for number in range(3) for word in ("--group", f"{behind}-{number}")]
    text = headgate("lag", *names, "--watch", "--interval", "0.1", "--count", "1").stdout
    assert [f"{behind}-{number}" in text for number in range(3)] == [True, True, False]
    assert text.endswith("... and 1 more with less lag\n")
    assert "\x1b[3J" not in text


def test_watching_goes_on_while_the_broker_restarts(tmp_path: Path) -> None:
    """One line says what is wrong, another one that it is over; the rates are those since the last look."""
    with run({"offsets.topic.num.partitions": "1"}, data_dir=tmp_path) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("watched", 1)
            admin.alter_offsets("watchers", {TopicPartition(TopicName("watched"), 0): 0})
        words = ["--bootstrap-server", broker.bootstrap_servers, "--timeout", "300", "--output", "json"]
        watching = subprocess.Popen(
            [sys.executable, "-m", "headgate", "lag", "--watch", "--interval", "0.2", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None and watching.stderr is not None
        try:
            assert json.loads(watching.stdout.readline())["lags"][0]["group"] == "watchers"
            broker.kill()
            wrong = watching.stderr.readline()
            assert re.match(r"headgate: \d\d:\d\d:\d\d .*127\.0\.0\.1:\d+", wrong)
            assert wrong.endswith("; looking again every 0.2 s\n")
            broker.start()
            assert "the cluster answers again" in watching.stderr.readline()
        finally:
            watching.terminate()
            out, err = watching.communicate(timeout=20)
        last = json.loads(out.splitlines()[-1])["lags"][0]
        assert (last["group"], last["lag"], last["consumed"]) == ("watchers", 0, 0.0)
        assert (watching.returncode, err) == (-signal.SIGTERM, "")


def test_watching_a_server_that_was_never_there_is_an_error() -> None:
    """The address is probably wrong."""
    words = ["lag", "--watch", "--bootstrap-server", "127.0.0.1:1", "--timeout", "300"]
    refused = CliRunner().invoke(app, words)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "no connection to 127.0.0.1:1" in refused.stderr


def test_lag_and_descriptions_of_many_groups_agree_with_those_of_each(
    headgate: Headgate, name: str, bootstrap_servers: str
) -> None:
    """Whatever is asked in one request for many of them."""
    headgate("topics", "--create", "--topic", name, "--partitions", "3")
    headgate("produce", "--topic", name, "--partition", "1", stdin="x\n" * 5)
    groups = [f"{name}-{number}" for number in range(250)]
    with Admin(bootstrap_servers) as admin:
        for number, group_id in enumerate(groups):
            admin.alter_offsets(group_id, {TopicPartition(TopicName(name), 1): number % 6})
        lags = json.loads(headgate("lag", "--output", "json", "--topic", name).stdout)["lags"]
        assert {one["group"]: one["lag"] for one in lags} == {
            group_id: 5 - number % 6 for number, group_id in enumerate(groups)
        }
        described = headgate("consumer-groups", "--describe", "--all-groups", "--output", "json")
        found = {one["group"]: one for one in json.loads(described.stdout)["groups"]}
        alone = headgate("consumer-groups", "--describe", "--group", groups[7], "--output", "json")
        assert [found[groups[7]]] == json.loads(alone.stdout)["groups"]
        assert found[groups[7]]["offsets"][0]["expires"] is not None
        surveyed = admin.survey_groups([*groups, "no-such-group"], with_expiry=True)
        assert (surveyed.failed, surveyed.unknown_ends, surveyed.unlisted) == ({}, {}, ())
        assert surveyed.groups["no-such-group"].description is None
        for group_id in groups[:3]:
            assert list(surveyed.groups[group_id].positions) == admin.positions(group_id)
            assert surveyed.groups[group_id].description == admin.describe_group(group_id)
            assert surveyed.groups[group_id].expiry is not None


def test_a_healthy_cluster_is_healthy(headgate: Headgate, behind: str) -> None:
    """Every check has a row."""
    done = headgate("health", "--output", "json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)["checks"]
    (disk,) = [one["detail"] for one in found if one["check"] == "disks"]
    assert re.fullmatch(r"[0-9.,]+ of [0-9.,]+ (GiB|MiB|KiB) free for /\S+ of broker [0-9]+", disk)
    checks = {one["check"]: one["status"] for one in found}
    assert checks.pop("disks") in ("ok", "warning")  # that of the machine
    assert checks == dict.fromkeys(["connection", "brokers", "partitions", "coordinators", "groups"], "ok")


@pytest.mark.parametrize(
    ("usable", "error", "status", "says"),
    [
        (50 * GIB, 0, "ok", "50.0 of 100.0 GiB free for /logs of broker 1"),
        (9 * GIB, 0, "warning", "9.0 of 100.0 GiB free"),
        (GIB // 2, 0, "failed", "0.5 of 100.0 GiB free"),
        (7 << 20, 0, "failed", "7.0 of 102,400.0 MiB free"),
        (3 << 10, 0, "failed", "3.0 of 104,857,600.0 KiB free"),
        (None, 0, "ok", "90.0 of 100.0 GiB free for /more of broker 2"),
        (50 * GIB, 56, "failed", "the broker cannot use /logs of broker 1"),
    ],
)
def test_a_disk_that_is_nearly_full_is_told(usable: int | None, error: int, status: str, says: str) -> None:
    """Before the brokers refuse records. The fullest disk decides; one that does not work comes first."""
    total = None if usable is None else 100 * GIB
    result, detail = space_of([(1, LogDir("/logs", error, total, usable)), (2, PLENTY)])
    assert (result, says in detail) == (status, True), detail


def test_a_small_disk_is_told_in_its_own_unit() -> None:
    """One of 40 MiB has not 0.0 GiB."""
    _, detail = space_of([(1, LogDir("/logs", 0, 40 << 20, 30 << 20))])
    assert detail == "30.0 of 40.0 MiB free for /logs of broker 1"


def test_a_log_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A partition that has a leader may not answer all the same. Both say where to look for the cause."""
    where = TopicPartition(TopicName("letters"), 0)
    with run(data_dir=tmp_path / "data") as broker:
        reading = ["--bootstrap-server", broker.bootstrap_servers, "--timeout", "300"]
        CliRunner().invoke(app, ["produce", "--topic", where.topic, *reading[:2]], input="x\n")
        with Admin(broker.bootstrap_servers) as admin:
            admin.alter_offsets("readers", {where: 1})
        broker.stop()
        (log,) = (tmp_path / "data" / str(where)).glob("*.log")
        os.truncate(log, 0)
        broker.start()
        done = CliRunner().invoke(app, ["health", "--output", "json", *reading])
        described = CliRunner().invoke(app, ["consumer-groups", "--describe", "--group", "readers", *reading])
    advice = "the broker cannot read or write this log: its own log says why"
    why = f"offsets of {where}: KAFKA_STORAGE_ERROR; {advice}"
    (found,) = [one for one in json.loads(done.stdout)["checks"] if one["check"] == "partitions"]
    assert done.exit_code == 1
    assert (found["status"], found["detail"]) == ("failed", f"no end offset of {where}: {why}")
    assert f"headgate: 1 partition is without a known end ({where}): {why}\n" in described.stderr


def test_a_cluster_that_is_away_is_not_healthy() -> None:
    """The exit code is 1, and the row says what to do."""
    done = CliRunner().invoke(app, ["health", "--bootstrap-server", "127.0.0.1:1", "--timeout", "500"])
    assert done.exit_code == 1
    assert "connection failed" in done.stdout
    assert "no connection to 127.0.0.1:1" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_the_commands(shell: str, tmp_path: Path) -> None:
    """The script of a shell is printed, and asking as it does gives the names of commands."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "_HEADGATE_COMPLETE": f"complete_{shell}"}
    environment |= {"COMP_WORDS": "headgate to", "COMP_CWORD": "1"}
    environment |= {"_TYPER_COMPLETE_ARGS": "headgate to", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    environment["PYTHONPATH"] = str(Path(headgate.__file__).parents[1])
    command = [sys.executable, "-m", "headgate"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert "topics" in done.stdout, done.stderr
