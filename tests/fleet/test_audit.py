"""`headgate fleet audit` over a real server and over its data directory."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.consumers import reading
from tests.fleet.conftest import RETENTION_MINUTES, Command, commit

from headgate.admin import Admin
from headgate.admin import TopicPartition as AdminPartition
from headgate.broker import Broker
from headgate.client.cluster import Cluster
from headgate.client.configs import alter_group_settings
from headgate.client.ends import known_ends
from headgate.client.offsets import CommittedOffset
from headgate.domain.ids import GroupId, TopicName
from headgate.spark.stream.positions import metadata_of
from headgate.topics.catalogue_opening import CATALOGUE_DIRECTORY

NOT_DUE = ("--expiring-within", "PT1S", "--backwards-within", "PT0S")
QUIET = ("--dead-after", "P1D", *NOT_DUE)
"""Limits that find nothing in what a test has just done."""


def audited(command: Command, source: str | Path, *arguments: str) -> dict[str, dict[str, Any]]:
    """Return the rows by group."""
    result = command("audit", source, "--all", "--output", "json", *arguments)
    assert result.exit_code in (0, 3), result.stderr
    return {row["group"]: row for row in json.loads(result.stdout)["groups"]}


def test_a_group_that_only_commits_expires_after_its_last_commit(
    broker: Broker, command: Command, new_group: Callable[..., str]
) -> None:
    name = new_group(4, 9)
    row = audited(command, broker.bootstrap_servers, "--expiring-within", "2h")[name]
    assert (row["type"], row["state"], row["offsets"], row["lag"]) == ("classic", "Empty", 2, 7)
    assert row["findings"] == "expiring"
    committed, expires = (datetime.fromisoformat(row[each]) for each in ("last_commit", "expires"))
    assert (expires - committed).total_seconds() == RETENTION_MINUTES * 60
    assert abs(committed.timestamp() - time.time()) < 60
    assert audited(command, broker.bootstrap_servers, *QUIET)[name]["findings"] == ""


def test_the_retention_of_a_group_of_its_own_counts(
    broker: Broker, command: Command, new_group: Callable[..., str]
) -> None:
    name = new_group(4)
    with Cluster(broker.bootstrap_servers) as cluster:
        alter_group_settings(cluster, GroupId(name), {"offsets.retention.ms": "90000"})
    for source in (broker.bootstrap_servers, broker.data_dir):
        row = audited(command, source, *QUIET)[name]
        committed, expires = (datetime.fromisoformat(row[each]) for each in ("last_commit", "expires"))
        assert (expires - committed).total_seconds() == 90


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_does_not_expire_and_an_empty_one_since_it_is_empty(
    broker: Broker, command: Command, new_group: Callable[..., str], protocol: str
) -> None:
    name = new_group(4, 9)
    servers = broker.bootstrap_servers
    with reading(servers, name, "flights", {"group.protocol": protocol}):
        row = audited(command, servers, "--stuck-after", "PT0S", "--lag-above", "6", *QUIET)[name]
        assert (row["state"], row["expires"], row["empty_since"]) == ("Stable", None, None)
        assert row["findings"] == "lagging,stuck"
    row = audited(command, servers, *NOT_DUE, "--dead-after", "PT0S")[name]
    assert (row["state"], row["findings"]) == ("Empty", "dead")
    left, expires = (datetime.fromisoformat(row[each]) for each in ("empty_since", "expires"))
    assert (expires - left).total_seconds() == RETENTION_MINUTES * 60


def test_a_directory_of_kafka_expires_by_kafkas_rule(
    broker: Broker, command: Command, new_group: Callable[..., str], tmp_path: Path
) -> None:
    """Kafka counts from the commit in groups of the consumer protocol, Headgate from the leaving of the last
    member.
    """
    names = {protocol: new_group(4, 9) for protocol in ("classic", "consumer")}
    for protocol, name in names.items():
        with reading(broker.bootstrap_servers, name, "flights", {"group.protocol": protocol}):
            time.sleep(0.01)
    kafka = tmp_path / "data"
    catalogue = shutil.ignore_patterns(CATALOGUE_DIRECTORY)
    shutil.copytree(broker.data_dir, kafka, ignore=catalogue)
    from_commit = {"headgate": set[str](), "kafka": set[str]()}
    for name, directory in (("headgate", broker.data_dir), ("kafka", kafka)):
        rows = audited(command, directory, "--retention-minutes", str(RETENTION_MINUTES))
        for protocol, group in names.items():
            committed, left, expires = (
                datetime.fromisoformat(rows[group][each])
                for each in ("last_commit", "empty_since", "expires")
            )
            assert left > committed and expires - timedelta(minutes=RETENTION_MINUTES) in (committed, left)
            if expires == committed + timedelta(minutes=RETENTION_MINUTES):
                from_commit[name].add(protocol)
    assert from_commit == {"headgate": set(), "kafka": {"consumer"}}


def test_an_offset_that_was_set_back(broker: Broker, command: Command, new_group: Callable[..., str]) -> None:
    name = new_group(4, 9)
    commit(broker, name, 2, 9)
    rows = audited(command, broker.bootstrap_servers, "--expiring-within", "PT1S")
    assert rows[name]["findings"] == "backwards"


def test_an_undo_that_restores_an_earlier_commit_of_a_stream(
    broker: Broker, command: Command, new_group: Callable[..., str]
) -> None:
    """It restores the metadata too, by which a stream knows its own commits: it is an offset set back."""
    name, where = new_group(1), AdminPartition(TopicName("flights"), 0)
    with Admin(broker.bootstrap_servers) as admin:
        for offset in (4, 9):
            admin.alter_offsets(name, {where: CommittedOffset(offset, metadata=metadata_of(3, 0))})
        admin.undo(name)
        assert admin.committed_offsets(name)[where] == CommittedOffset(4, metadata=metadata_of(3, 0))
    assert "backwards" in audited(command, broker.bootstrap_servers)[name]["findings"]


def test_only_one_finding_and_the_exit_codes(
    broker: Broker, command: Command, new_group: Callable[..., str]
) -> None:
    name = new_group(4)
    result = command("audit", broker.bootstrap_servers, "--only", "expiring", "--expiring-within", "2h")
    assert result.exit_code == 3
    heading, *lines = result.stdout.splitlines()
    assert heading.split()[0] == "GROUP" and any(line.startswith(name) for line in lines)
    assert " expiring" in result.stderr
    result = command("audit", broker.bootstrap_servers, "--only", "stuck")
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere"], 1, "there is no data directory"),
        (["127.0.0.1:1"], 1, "127.0.0.1:1"),
        (["x", "--only", "exipring"], 2, "one of expiring, lagging, stuck, dead, backwards, missing-topic"),
        (["x", "--dead-after", "3 days"], 2, "--dead-after 3 days: a duration is expected, as 24h, 7d or"),
        (["x", "--dead-after", f"P{'9' * 5000}D"], 2, "a duration is expected, as 24h"),
        (["x", "--retention-minutes", "2147483648"], 2, "2147483647"),
        (["x", "--output", "xml"], 2, "table, json or csv is expected"),
    ],
)
def test_mistakes(
    command: Command, arguments: list[str], code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once: a broker that never answered is not waited for."""
    monkeypatch.setattr(import_module("headgate.fleet.audit"), "TIMEOUT", "60m")
    result = command("audit", *arguments)
    assert result.exit_code == code
    assert message in result.stderr and "Traceback" not in result.stderr


def test_a_data_directory_says_the_same_as_its_server(
    broker: Broker, command: Command, new_group: Callable[..., str]
) -> None:
    new_group(4, 9)
    minutes = ("--retention-minutes", str(RETENTION_MINUTES))
    served = audited(command, broker.bootstrap_servers)
    read = audited(command, broker.data_dir, *minutes)
    assert read == {group: {**row, "lag": None} for group, row in served.items()}


def test_a_lag_that_is_not_known_is_told(
    broker: Broker, command: Command, new_group: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group can be far behind where nobody tells the end: nothing is found, and the exit code is 1."""
    name, lost = new_group(10, 0), AdminPartition(TopicName("flights"), 1)
    monkeypatch.setattr(
        import_module("headgate.fleet.audit"),
        "known_ends",
        lambda *arguments: known_ends(*arguments) | {lost: None},  # as without a leader
    )
    limits = ("--lag-above", "99", *QUIET)
    result = command("audit", broker.bootstrap_servers, "--all", "--output", "json", *limits)
    row = next(row for row in json.loads(result.stdout)["groups"] if row["group"] == name)
    assert (row["lag"], row["unknown"], row["findings"]) == (0, 1, "")
    said = f"1 partition is without a known end ({lost}): no lag is known there; `headgate health` says why"
    assert result.stderr.endswith(f"nothing found\nheadgate: {said}\n")
    assert result.exit_code == 1
    found = command("audit", broker.bootstrap_servers, "--only", "dead", "--dead-after", "PT0S", *NOT_DUE)
    assert (found.exit_code, said in found.stderr) == (3, True)


def test_a_data_directory_is_not_asked_for_lags(broker: Broker, command: Command) -> None:
    """Otherwise no group would ever lag, and the exit code would be that of a sound cluster."""
    refused = command("audit", broker.data_dir, "--lag-above", "0")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--lag-above: a data directory does not tell lags" in refused.stderr
