"""The forecast of a group, as a mapping."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from headgate.core.commands import DescribeExpiry
from headgate.core.expiry_forecast import ExpiryForecast
from headgate.core.shard import GroupShard
from headgate.domain.ids import GroupId, Millis

T = TypeVar("T")
Place = tuple[str, str, int]


def ask_forecast(shard: GroupShard, group_id: str, now: Millis) -> ExpiryForecast:
    """Return the forecast of an existing group."""
    effects = shard.handle(DescribeExpiry(GroupId(group_id)), now, -8)
    assert not effects.records
    forecast = effects.replies[0].result
    assert isinstance(forecast, ExpiryForecast), forecast
    return forecast


def forecast_of(shard: GroupShard, group_id: str, now: Millis) -> dict[Place, int]:
    """Return when each offset of an existing group expires."""
    return {
        (group_id, topic, partition): at
        for topic, partitions, expiries in end_of(ask_forecast(shard, group_id, now).steps)
        for partition, at in zip(partitions.tolist(), expiries.tolist(), strict=True)
    }


def end_of(steps: Generator[None, None, T]) -> T:
    """Run all steps; their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
