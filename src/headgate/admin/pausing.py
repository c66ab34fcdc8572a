"""Waiting until paused partitions are released."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headgate.admin.errors import NotPaused, NotReleased
from headgate.client import pauses
from headgate.client.cluster import Cluster
from headgate.client.pauses import PausedPartition
from headgate.domain.ids import GroupId, TopicPartition

_SHORTEST_LOOK_S: Final = 0.05
_LONGEST_LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How far a wait for the release is."""

    released: int
    """How many partitions are released."""
    waiting_for: tuple[PausedPartition, ...]
    """Those that are not, each with its owner."""
    elapsed_s: float


OnWaiting = Callable[[Waiting], None]


def wait_until_released(
    cluster: Cluster,
    group_id: GroupId,
    partitions: Collection[TopicPartition],
    timeout_s: float,
    on_progress: OnWaiting,
) -> dict[TopicPartition, PausedPartition]:
    """Wait until all partitions are released; `on_progress` is called after each look.

    Raises `NotPaused` for partitions that are not paused, or not any more; `NotReleased` when the time is
    over.
    """
    start = time.monotonic()
    pause_s = _SHORTEST_LOOK_S
    while True:
        found = pauses.list_paused(cluster, group_id)
        missing = sorted(one for one in partitions if one not in found)
        if missing:
            raise NotPaused(group_id, missing)
        waiting_for = tuple(found[one] for one in sorted(partitions) if not found[one].is_released)
        elapsed_s = time.monotonic() - start
        released = len(partitions) - len(waiting_for)
        on_progress(Waiting(released=released, waiting_for=waiting_for, elapsed_s=elapsed_s))
        if not waiting_for:
            return {one: found[one] for one in sorted(partitions)}
        if elapsed_s >= timeout_s:
            raise NotReleased(group_id, waiting_for, timeout_s)
        time.sleep(min(pause_s, max(0.0, timeout_s - elapsed_s)))
        pause_s = min(pause_s * 1.5, _LONGEST_LOOK_S)


def released_among(
    paused: Mapping[TopicPartition, PausedPartition], partitions: Iterable[TopicPartition]
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Return those of the partitions that are not paused, and those that are paused and not released."""
    wanted = sorted(set(partitions))
    unpaused = [one for one in wanted if one not in paused]
    return unpaused, [one for one in wanted if one in paused and not paused[one].is_released]
