"""The log lines and counters of events, and of topics."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.server.clients import Client, run_scenario

from headgate.core.events import (
    Awaited,
    Event,
    ExpiryReason,
    GroupCreated,
    GroupDeleted,
    GroupExpired,
    GroupRebalanced,
    MemberAwaited,
    MemberJoined,
    MemberRemoved,
    OffsetsExpired,
    RemovalReason,
)
from headgate.domain.ids import GroupId, MemberId, Millis, TopicId
from headgate.server.event_log import MOST_WITH_A_SERIES, EventLog
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic

G, M = GroupId("g"), MemberId("m")


@pytest.mark.parametrize(
    ("event", "level", "line", "fields"),
    [
        (
            OffsetsExpired(G, 3, ExpiryReason.EMPTY_GROUP, 60_000),
            logging.INFO,
            "offsets expired",
            {"offsets": 3, "reason": "empty-group", "retention_ms": 60_000},
        ),
        (GroupExpired(G), logging.INFO, "group removed", {"reason": "it has no members and no offsets left"}),
        (GroupDeleted(G), logging.INFO, "group removed", {"reason": "deleted by request"}),
        (
            GroupRebalanced(G, 7, 2, 1500),
            logging.INFO,
            "group rebalanced",
            {"epoch": 7, "members": 2, "waited_ms": 1500},
        ),
        (
            GroupRebalanced(G, 7, 2),
            logging.INFO,
            "group rebalanced",
            {"epoch": 7, "members": 2, "reason": "subscriptions, topics or pauses changed"},
        ),
        (GroupCreated(G, "consumer"), logging.INFO, "group created", {"type": "consumer"}),
        (
            MemberJoined(G, M, "app", "/127.0.0.1"),
            logging.INFO,
            "member joined",
            {"member": "m", "client": "app", "host": "/127.0.0.1"},
        ),
        (
            MemberRemoved(G, M, "app", "/127.0.0.1", RemovalReason.LEFT, "the consumer is being closed"),
            logging.INFO,
            "member removed",
            {
                "member": "m",
                "client": "app",
                "host": "/127.0.0.1",
                "reason": "left",
                "client_reason": "the consumer is being closed",
            },
        ),
        (
            MemberAwaited(G, M, "app", "/127.0.0.1", Awaited.REJOIN, 30_000),
            logging.WARNING,
            "member has not rejoined",
            {"member": "m", "client": "app", "host": "/127.0.0.1", "waited_ms": 30_000},
        ),
        (
            MemberAwaited(G, M, "app", "/127.0.0.1", Awaited.SYNC, 30_000),
            logging.WARNING,
            "member has not synced",
            {"member": "m", "client": "app", "host": "/127.0.0.1", "waited_ms": 30_000},
        ),
        (
            MemberRemoved(G, M, "app", "/127.0.0.1", RemovalReason.SESSION_TIMEOUT),
            logging.WARNING,
            "member removed",
            {"member": "m", "reason": "session-timeout"},
        ),
    ],
)
def test_an_event_is_one_line_with_its_reason(
    event: Event, level: int, line: str, fields: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A member that was lost is a warning; what was asked for is not."""
    with caplog.at_level(logging.INFO):
        EventLog(lambda: Millis(0)).take(event)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (level, line)
    assert {name: vars(record)[name] for name in ("group", *fields)} == {"group": "g", **fields}


def test_the_reason_of_a_rebalance_is_what_happened_since_the_last_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of that group alone."""
    log = EventLog(lambda: Millis(0))
    with caplog.at_level(logging.INFO):
        for event in (
            MemberJoined(G, MemberId("a"), "app", "/127.0.0.1"),
            GroupRebalanced(G, 1, 1),
            MemberJoined(G, MemberId("b"), "app", "/127.0.0.1"),
            MemberJoined(G, MemberId("c"), "app", "/127.0.0.1"),
            MemberRemoved(G, MemberId("a"), "app", "/127.0.0.1", RemovalReason.SESSION_TIMEOUT),
            MemberJoined(GroupId("other"), MemberId("d"), "app", "/127.0.0.1"),
            GroupRebalanced(G, 2, 2),
        ):
            log.take(event)
    reasons = [vars(record)["reason"] for record in caplog.records if "rebalanced" in record.getMessage()]
    assert reasons == ["1 joined", "2 joined, 1 session-timeout"]


def test_rebalances_and_removed_members_are_counted() -> None:
    """By protocol and by reason; classic groups with the time that they waited."""
    log = EventLog(lambda: Millis(0))
    for event in (
        GroupRebalanced(G, 1, 2, 1500),
        GroupRebalanced(G, 2, 2, 20),
        GroupRebalanced(G, 3, 2),
        MemberRemoved(G, M, "app", "/127.0.0.1", RemovalReason.DID_NOT_REVOKE),
    ):
        log.take(event)
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in log.gauges()
        for sample in family.samples
    }
    assert found["headgate_rebalances_total", "classic"] == 2
    assert found["headgate_rebalances_total", "consumer"] == 1
    assert found["headgate_rebalance_seconds_sum",] == 1.52
    assert found["headgate_members_removed_total", "did-not-revoke"] == 1
    assert found["headgate_members_removed_total", "left"] == 0


def test_the_groups_that_rebalance_most_often_have_a_series() -> None:
    """With the rebalances of the last ten minutes, however many groups there are."""
    now = 0
    log = EventLog(lambda: Millis(now))

    def recent() -> dict[str, float]:
        (family,) = [one for one in log.gauges() if one.name == "headgate_group_recent_rebalances"]
        return {sample.labels["group"]: sample.value for sample in family.samples}

    assert recent() == {}
    for now in range(0, 600_000, 10_000):
        log.take(GroupRebalanced(G, 1 + now, 2, 20))
    for number in range(200):
        log.take(GroupRebalanced(GroupId(f"calm-{number}"), 1, 2))
    found = recent()
    assert found["g"] == 60
    assert len(found) == MOST_WITH_A_SERIES
    now = 900_000
    assert recent()["g"] == 30
    now = 2_000_000
    assert recent() == {}


def test_topics_have_lines_when_they_come_and_go(caplog: pytest.LogCaptureFixture) -> None:
    """Created, with more partitions, deleted; by a node that runs."""

    async def scenario(client: Client) -> None:
        topics, now = client.node.topics, client.node.system_time()
        caplog.clear()
        topic = topics.create(NewTopic("flights", TopicId(b"f" * 16), 2), now)
        assert isinstance(topic, Topic)
        assert topics.add_partitions(topic, 5, now) is None
        assert topics.delete(topic, now) is None

    with caplog.at_level(logging.INFO):
        run_scenario(scenario)
    told = [
        (record.getMessage(), vars(record)["topic"], vars(record)["partitions"])
        for record in caplog.records
        if record.name == "headgate.server.topic_log"
    ]
    events = ("topic created", 2), ("topic extended", 5), ("topic deleted", 5)
    assert told == [(event, "flights", partitions) for event, partitions in events]


@pytest.mark.parametrize("removed", [GroupExpired(G), GroupDeleted(G)])
def test_a_new_group_does_not_rebalance_for_the_members_of_a_removed_one(
    caplog: pytest.LogCaptureFixture, removed: Event
) -> None:
    """It has the same name. What happened to its members since their last rebalance is forgotten."""
    caplog.set_level(logging.INFO)
    log = EventLog(lambda: Millis(0))
    log.take(MemberRemoved(G, M, "app", "/127.0.0.1", RemovalReason.LEFT))
    log.take(removed)
    log.take(MemberJoined(G, M, "app", "/127.0.0.1"))
    log.take(GroupRebalanced(G, 1, 1))
    assert vars(caplog.records[-1])["reason"] == "1 joined"
