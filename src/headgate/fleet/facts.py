"""What a shard of the coordinator knows of each of its groups, as an audit needs it: pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headgate.core.consumer.groups import ConsumerGroups
from headgate.core.offsets.expiry import Aging, GroupClock, expires_at
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, Millis, TopicPartition

Ends = Mapping[TopicPartition, int | None]
"""The end offsets of all partitions of the cluster, None for one that could not be asked. A partition that is
not in it does not exist.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backwards:
    """The commits of a group with a lower offset than the one before, of the same partition."""

    count: int = 0
    last_at: Millis | None = None
    """The commit timestamp of the last one, in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """One group. Times are in ms; None: there is no such time."""

    group_id: GroupId
    group_type: str
    """`classic`, `consumer`, ..."""
    state: str
    """As in a list of groups: `Empty`, `Stable`, ..."""
    offset_count: int
    last_commit_at: Millis | None
    empty_since: Millis | None
    """When the last member left; None for a group with members, or that never had any."""
    first_expiry_at: Millis | None
    """When the first offset expires if nothing changes. The next sweep after that removes it."""
    last_expiry_at: Millis | None
    """When the last of them expires. None if any offset does not expire."""
    lag: int | None
    """The sum over all partitions whose end is known; None if none is."""
    unknown_ends: tuple[TopicPartition, ...] = ()
    """Partitions with a committed offset whose end could not be asked: `lag` lacks them. Empty for a data
    directory, where no lag is known.
    """
    missing_topics: tuple[str, ...] = ()
    """Topics that do not exist (any more), with committed offsets of the group."""
    paused_count: int = 0
    """Paused partitions: as long as there are any, nothing of the group expires."""
    backwards: Backwards = field(default=Backwards())

    @property
    def has_members(self) -> bool:
        """Whether the group has members."""
        return self.state not in ("Empty", "Dead")


def group_ids(shard: GroupShard) -> list[GroupId]:
    """Return the ids of all groups of a shard, sorted."""
    found = set(shard.offsets.group_ids())
    for kind in shard.groups.kinds:
        found.update(kind.group_ids())
    return sorted(found)


def facts_of(
    shard: GroupShard, ends: Ends | None, backwards: Mapping[GroupId, Backwards], *, is_kafka: bool = False
) -> Iterator[GroupFacts]:
    """Yield the facts of each group. `ends`: None if the ends of the cluster's partitions are unknown.

    `is_kafka`: the log is that of Apache Kafka, whose coordinator removes offsets by other rules.
    """
    for group_id in group_ids(shard):
        facts = _facts(shard, group_id, ends, backwards.get(group_id, Backwards()), is_kafka)
        if facts is not None:
            yield facts


def _facts(
    shard: GroupShard, group_id: GroupId, ends: Ends | None, backwards: Backwards, is_kafka: bool
) -> GroupFacts | None:
    kind = shard.groups.find(group_id)
    listed = None if kind is None else kind.listed(group_id)
    if kind is None or listed is None:
        return None
    paused = sum(map(len, shard.paused.of(group_id).values()))
    clock = None if paused else kind.clock_of(group_id)
    empty_since = clock.since if clock is not None and clock.aging is Aging.SINCE_STATE else None
    if is_kafka and empty_since is not None and listed.group_type == ConsumerGroups.NAME:
        clock = GroupClock(Aging.SINCE_COMMIT)  # Kafka counts from the commit in groups of this protocol
    is_subscribed = kind.subscription_of(group_id)
    retention_ms = shard.retentions.of(group_id)
    commits: list[Millis] = []
    expiries: list[Millis | None] = []
    lags: list[int] = []
    unknown: list[TopicPartition] = []
    missing: set[str] = set()
    for topic, partition, stored in shard.offsets.offsets_of(group_id):
        commits.append(stored.commit_timestamp)
        if clock is None or is_subscribed(topic):
            expiries.append(None)
        else:
            expiries.append(expires_at(clock, stored.commit_timestamp, stored.expire_timestamp, retention_ms))
        if ends is None:
            continue
        end = ends.get(place := TopicPartition(topic, partition))
        if end is not None:
            lags.append(max(end - stored.offset, 0))
        elif place in ends:
            unknown.append(place)
        else:
            missing.add(topic)
    known = [expiry for expiry in expiries if expiry is not None]
    return GroupFacts(
        group_id=group_id,
        group_type=listed.group_type,
        state=listed.state,
        offset_count=len(commits),
        last_commit_at=max(commits, default=None),
        empty_since=empty_since,
        first_expiry_at=min(known, default=None),
        last_expiry_at=max(known, default=None) if len(known) == len(expiries) else None,
        lag=sum(lags) if lags else None,
        unknown_ends=tuple(sorted(unknown)),
        missing_topics=tuple(sorted(missing)),
        paused_count=paused,
        backwards=backwards,
    )
