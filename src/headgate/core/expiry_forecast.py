"""When offsets will expire if nothing changes: by the rules and with the state of the sweep (KIP-211).

The sweep (`upkeep.py`) removes what is expired; it runs every `offsets.retention.check.interval.ms`, so an
offset may outlive its time by that. A forecast of one group has every offset. A forecast of all groups
without members has two times for each group: those of its first and its last offset. A partition with a
pending offset does not expire until the transaction ends, which nobody foresees.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from headgate.core.groups import ONLY_COMMITTED, Groups, OnlyCommitted
from headgate.core.kinds import GroupKind
from headgate.core.offsets.expiry import Aging, GroupClock
from headgate.core.offsets.held import held, held_from_now
from headgate.core.offsets.pending import PendingOffsets
from headgate.core.offsets.scanning import OffsetAges
from headgate.core.offsets.snapshot import TopicAges
from headgate.core.offsets.table import OffsetTable
from headgate.core.pause.paused import PausedGroups
from headgate.core.retentions import Retentions
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records.columns import Int64s
from headgate.records.model import NO_TIMESTAMP

NEVER: Final = Millis((1 << 63) - 1)
"""The expiry time of an offset that does not expire."""
_HELD: Final = GroupClock(Aging.HELD)


class GroupAging(NamedTuple):
    """How the offsets of a group age."""

    group_id: GroupId
    aging: Aging
    empty_since: Millis
    """When the last member left; -1 for a group with members, or that never had any."""
    retention_ms: int
    """Negative: the offsets do not expire."""
    is_own_retention: bool
    """Whether the retention is a setting of the group."""


class TopicExpiry(NamedTuple):
    """Offsets of one topic: partitions, and when each offset expires (`NEVER`: it does not)."""

    topic: TopicName
    partitions: Int64s
    expires_at: Int64s


ExpirySteps = Generator[None, None, list[TopicExpiry]]


@dataclass(frozen=True, slots=True)
class ExpiryForecast:
    """One group, and its offsets by topic, in steps. A topic may occur more than once."""

    group: GroupAging
    steps: ExpirySteps


class GroupForecast(NamedTuple):
    """A group without members, and when its first and its last offset expire (`NEVER`: it does not)."""

    group: GroupAging
    offset_count: int
    first_at: Millis
    last_at: Millis


ForecastSteps = Iterator[GroupForecast | None]
"""Forecasts, and None where a slice of the work ends. Groups that change meanwhile may be left out."""


class ExpiryForecasts:
    """The forecasts of one shard."""

    __slots__ = ("_groups", "_offsets", "_paused", "_pending", "_retentions")

    def __init__(
        self,
        offsets: OffsetTable,
        pending: PendingOffsets,
        groups: Groups,
        paused: PausedGroups,
        retentions: Retentions,
    ) -> None:
        self._offsets = offsets
        self._pending = pending
        self._groups = groups
        self._paused = paused
        self._retentions = retentions

    def of_group(self, group_id: GroupId) -> ExpiryForecast | None:
        """Return the forecast of a group as of now; None if there is no such group."""
        kind = self._groups.find(group_id)
        return None if kind is None else self._of_existing(group_id, kind)

    def _of_existing(self, group_id: GroupId, kind: GroupKind | OnlyCommitted) -> ExpiryForecast:
        aging = self._aging(group_id, kind)
        ages = self._offsets.ages_by_topic(group_id)
        waiting = self._pending.of_group(group_id)
        return ExpiryForecast(aging, _expiries(aging, ages, kind.subscription_of(group_id), waiting))

    def of_empty_groups(self) -> ForecastSteps:
        """Yield the forecasts of all groups without members that have offsets."""
        return held(self._offsets, self._of_empty_groups())

    def _of_empty_groups(self) -> Generator[GroupForecast | None, None, None]:
        ages = self._offsets.ages_of_groups()
        while ages.step():
            yield None
        seen = set()
        for kind in self._groups.kinds:
            for group_id in kind.group_ids():
                seen.add(group_id)
                if kind.is_empty(group_id):
                    yield from self._of_empty_group(group_id, kind, ages)
                yield None
        for group_id in self._offsets.group_ids():
            if group_id not in seen:
                yield from self._of_empty_group(group_id, ONLY_COMMITTED, ages)

    def _of_empty_group(
        self, group_id: GroupId, kind: GroupKind | OnlyCommitted, ages: OffsetAges
    ) -> Generator[GroupForecast | None, None, None]:
        if not self._pending.has_group(group_id):
            yield self._of_group(group_id, kind, ages)
            return
        forecast = self._of_existing(group_id, kind)
        topics = yield from forecast.steps
        if topics:
            yield _summary(forecast.group, topics)

    def counting(self, untils: Sequence[Millis]) -> Generator[None, None, list[int]]:
        """Return for each time how many groups without members have an offset that expires by then, in
        steps. It gives what `of_empty_groups` gives, and is much quicker for groups that only commit.
        """
        return held_from_now(self._offsets, self._counting(untils))

    def _counting(self, untils: Sequence[Millis]) -> Generator[None, None, list[int]]:
        ages = self._offsets.ages_of_groups()
        while ages.step():
            yield
        firsts = ages.first_expiries(self._retentions.of_all)
        firsts[~self._offsets.known_groups()[: len(firsts)]] = NEVER
        for group_id, kind in self._not_only_committed():
            group = self._offsets.number_of(group_id)
            if group is not None and group < len(firsts):
                firsts[group] = NEVER
                for forecast in () if kind is None else self._of_empty_group(group_id, kind, ages):
                    if forecast is None:
                        yield
                    else:
                        firsts[group] = forecast.first_at
            yield
        return [int(np.count_nonzero(firsts <= until)) for until in untils]

    def _not_only_committed(self) -> Iterator[tuple[GroupId, GroupKind | OnlyCommitted | None]]:
        """Yield the groups whose offsets do not just age since their commits; None: it has members."""
        for group_id in (*self._retentions.groups(), *self._paused.by_group, *self._pending.group_ids()):
            if self._offsets.has_group(group_id):
                yield group_id, ONLY_COMMITTED
        for kind in self._groups.kinds:
            for group_id in kind.group_ids():
                yield group_id, kind if kind.is_empty(group_id) else None

    def _of_group(
        self, group_id: GroupId, kind: GroupKind | OnlyCommitted, ages: OffsetAges
    ) -> GroupForecast | None:
        group = self._offsets.number_of(group_id)
        age = None if group is None else ages.of(group)
        if age is None:
            return None
        aging = self._aging(group_id, kind)
        first_at, last_at = NEVER, Millis(NO_TIMESTAMP)
        if age.aging_count:
            first_at = _expires_at(aging, age.oldest)
            last_at = _expires_at(aging, age.newest)
        if age.aging_count < age.offset_count and aging.aging is not Aging.HELD:
            first_at = Millis(min(first_at, age.first_expiry))
            last_at = Millis(max(last_at, age.last_expiry))
        return GroupForecast(aging, age.offset_count, first_at, last_at if last_at >= 0 else NEVER)

    def _aging(self, group_id: GroupId, kind: GroupKind | OnlyCommitted) -> GroupAging:
        clock = (None if self._paused.of(group_id) else kind.clock_of(group_id)) or _HELD
        retentions = self._retentions
        return GroupAging(
            group_id,
            clock.aging,
            clock.since if clock.aging is Aging.SINCE_STATE else Millis(NO_TIMESTAMP),
            retentions.of(group_id),
            retentions.is_own(group_id),
        )


def _expires_at(group: GroupAging, commit_timestamp: int) -> Millis:
    """Return when an offset without an expiry time of its own expires."""
    if group.aging is Aging.HELD or group.retention_ms < 0:
        return NEVER
    since = group.empty_since if group.aging is Aging.SINCE_STATE else commit_timestamp
    return Millis(min(since + group.retention_ms, NEVER))


def _summary(group: GroupAging, topics: Sequence[TopicExpiry]) -> GroupForecast:
    """Return the forecast of a group from those of its offsets."""
    times = np.concatenate([one.expires_at for one in topics])
    expiring = times[times < NEVER]
    first_at = Millis(int(expiring.min())) if len(expiring) else NEVER
    last_at = Millis(int(expiring.max())) if len(expiring) else NEVER
    return GroupForecast(group, len(times), first_at, last_at)


def _expiries(
    group: GroupAging,
    ages: Generator[None, None, list[TopicAges]],
    is_subscribed: Callable[[TopicName], bool],
    waiting: Mapping[TopicName, set[int]],
) -> ExpirySteps:
    """Return when each offset expires; those of topics with a subscribed member do not, nor those whose
    partitions are `waiting` for the end of a transaction.
    """
    found = []
    for topic, partitions, timestamps, own in (yield from ages):
        is_held = group.aging is Aging.HELD or is_subscribed(topic)
        expires_at = np.full(len(partitions), NEVER) if is_held else _times(group, timestamps, own)
        if topic in waiting:
            expires_at[np.isin(partitions, [*waiting[topic]])] = NEVER
        found.append(TopicExpiry(topic, partitions, expires_at))
    return found


def _times(group: GroupAging, timestamps: Int64s, own: Int64s) -> Int64s:
    if group.aging is Aging.SINCE_STATE or group.retention_ms < 0:
        aging = np.full(len(timestamps), _expires_at(group, NO_TIMESTAMP), np.int64)
    else:
        aging = np.minimum(timestamps, NEVER - group.retention_ms) + group.retention_ms
    return np.where(own >= 0, own, aging)
