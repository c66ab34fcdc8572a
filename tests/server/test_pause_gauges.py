"""The gauges of paused partitions, by group."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.server.clients import Client, run_scenario

from headgate.core.pause.paused import PausedGroups
from headgate.domain.ids import GroupId, Millis, TopicId
from headgate.records import Pause, PausedTopicPartitions
from headgate.server import pause_gauges

FLIGHTS, TRAINS = TopicId(bytes(15) + b"\1"), TopicId(bytes(15) + b"\2")
NOW = Millis(1_000_000)


def gauges(*paused: PausedGroups) -> Mapping[str, Mapping[str, float]]:
    """The values by metric and group."""
    return {
        family.name: {sample.labels["group"]: sample.value for sample in family.samples}
        for family in pause_gauges.pause_gauges(paused, NOW)
        if family is not None
    }


def paused_in(*groups: str, since: int) -> PausedGroups:
    """A shard whose groups have paused two partitions of one topic and one of another."""
    found = PausedGroups()
    for number, group_id in enumerate(groups):
        early, late = Pause(Millis(since + number)), Pause(Millis(since + 5_000))
        topics = {FLIGHTS: {0: late, 3: early}, TRAINS: {1: late}}
        found.apply(PausedTopicPartitions(group_id=GroupId(group_id), partitions=topics))
    return found


def test_partitions_and_the_oldest_pause_are_reported_by_group() -> None:
    """A pause without a time counts, and has no age; one of the future has age 0."""
    unknown = PausedGroups()
    unknown.apply(PausedTopicPartitions(group_id=GroupId("c"), partitions={FLIGHTS: {0: Pause()}}))
    found = gauges(paused_in("a", since=400_000), paused_in("b", since=2_000_000), unknown)
    assert found == {
        "headgate_paused_partitions": {"a": 3, "b": 3, "c": 1},
        "headgate_oldest_pause_seconds": {"a": 600, "b": 0},
    }


def test_groups_above_the_bound_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are."""
    monkeypatch.setattr(pause_gauges, "MOST_GROUPS", 2)
    found = gauges(paused_in("a", "b", "c", "d", since=900_000))
    assert found == {
        "headgate_paused_partitions": {"a": 3, "b": 3, "(others)": 6},
        "headgate_oldest_pause_seconds": {"a": 100, "b": 99.999, "(others)": 99.998},
    }


def test_a_server_has_these_metrics() -> None:
    """Without a sample as long as nothing is paused."""

    async def scenario(client: Client) -> None:
        families = {family.name: family.samples for family in client.listener.metrics.collect()}
        assert families["headgate_paused_partitions"] == []
        assert families["headgate_oldest_pause_seconds"] == []

    run_scenario(scenario)
