"""What an audit finds, by plain values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headgate.core.offsets.commands import CommitOffsets, OffsetToCommit
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, Millis, TopicName, TopicPartition
from headgate.domain.settings import Settings
from headgate.fleet.facts import Backwards, GroupFacts, facts_of
from headgate.fleet.rules import DAY_MS, HOUR_MS, Finding, Rules, findings

NOW = Millis(1_700_000_000_000)
CALM = GroupFacts(
    group_id=GroupId("g"),
    group_type="consumer",
    state="Stable",
    offset_count=1,
    last_commit_at=NOW,
    empty_since=None,
    first_expiry_at=None,
    last_expiry_at=None,
    lag=5,
)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, ()),
        ({"first_expiry_at": NOW + DAY_MS}, (Finding.EXPIRING,)),
        ({"first_expiry_at": NOW + DAY_MS + 1}, ()),
        ({"last_commit_at": NOW - HOUR_MS}, (Finding.STUCK,)),
        ({"last_commit_at": NOW - HOUR_MS + 1}, ()),
        ({"last_commit_at": NOW - HOUR_MS, "lag": 0}, ()),
        ({"last_commit_at": NOW - HOUR_MS, "lag": None}, ()),
        ({"state": "Empty", "last_commit_at": NOW - HOUR_MS}, ()),
        ({"state": "Empty", "last_commit_at": NOW - DAY_MS}, (Finding.DEAD,)),
        ({"state": "Empty", "last_commit_at": NOW - DAY_MS, "empty_since": NOW - 1}, ()),
        ({"state": "Empty", "empty_since": NOW - DAY_MS}, (Finding.DEAD,)),
        ({"lag": 100}, ()),
        ({"lag": 101}, (Finding.LAGGING,)),
        ({"backwards": Backwards(count=1, last_at=Millis(NOW - DAY_MS))}, (Finding.BACKWARDS,)),
        ({"backwards": Backwards(count=1, last_at=Millis(NOW - DAY_MS - 1))}, ()),
        ({"missing_topics": ("t",), "lag": 101}, (Finding.LAGGING, Finding.MISSING_TOPIC)),
    ],
)
def test_findings(changes: dict[str, Any], found: tuple[Finding, ...]) -> None:
    assert findings(replace(CALM, **changes), Rules(lag_above=100), NOW) == found


def test_the_lag_counts_partitions_with_a_known_end_and_names_topics_that_do_not_exist() -> None:
    shard = GroupShard(Settings())
    shard.loaded(NOW)
    topics = {"t": (0, 1), "gone": (0,)}
    command = CommitOffsets(
        GroupId("g"),
        [
            (TopicName(topic), [OffsetToCommit(partition, 10, -1, "") for partition in partitions])
            for topic, partitions in topics.items()
        ],
    )
    for position, record in enumerate(shard.handle(command, NOW).records):
        shard.apply(record, position)
    ends = {TopicPartition(TopicName("t"), 0): 25, TopicPartition(TopicName("t"), 1): 4}
    (facts,) = facts_of(shard, ends, {})
    assert (facts.lag, facts.missing_topics, facts.offset_count) == (15, ("gone",), 3)
    (facts,) = facts_of(shard, ends | {TopicPartition(TopicName("t"), 1): None}, {})  # without a leader
    assert (facts.lag, facts.missing_topics) == (15, ("gone",))
    assert facts.unknown_ends == (TopicPartition(TopicName("t"), 1),)
    (facts,) = facts_of(shard, {}, {})
    assert facts.lag is None
    (facts,) = facts_of(shard, None, {})
    assert (facts.lag, facts.missing_topics) == (None, ())
