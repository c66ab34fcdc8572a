"""The record of a group's paused partitions (KIP-1249), free of its form on disk.

One record holds all of a group's paused partitions, by topic id. Without paused partitions a group has no
record: a `PausedTopicPartitionsTombstone` takes it away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.domain.ids import GroupId, Millis, TopicId
from headgate.records.consumer_model import NEVER


@dataclass(slots=True, frozen=True)
class Pause:
    """One request that paused partitions. Partitions of one request share the object."""

    since: Millis = NEVER
    """System time of the request, in ms; -1 if a coordinator wrote the record that does not keep it."""
    caller: str = ""
    """Who asked."""
    reason: str = ""
    """Why, in the caller's words."""


PausedPartitions = Mapping[TopicId, Mapping[int, Pause]]
"""Paused partitions by topic; no topic is without any. Nobody changes one."""


@dataclass(slots=True, frozen=True, kw_only=True)
class PausedTopicPartitions:
    """All paused partitions of a group."""

    group_id: GroupId
    partitions: PausedPartitions


@dataclass(slots=True, frozen=True)
class PausedTopicPartitionsTombstone:
    """Nothing of a group is paused any more."""

    group_id: GroupId
