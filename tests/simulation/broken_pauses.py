"""Servers with one deliberate fault each in the promises about paused partitions."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.consumer import heartbeat
from headgate.core.consumer import offsets as consumer_offsets
from headgate.core.consumer.target import make_target
from headgate.core.pause.commits import administrative_error
from headgate.core.pause.paused import PausedGroups
from headgate.core.upkeep import Upkeep
from headgate.domain.errors import ErrorCode


def members_may_commit_what_they_released_for_a_pause(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consumer_offsets, "_is_any_withheld_from", lambda *given: False)


def paused_partitions_are_assigned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        heartbeat, "make_target", lambda turn, after, epoch, paused: make_target(turn, after, epoch, {})
    )


def administrators_do_not_wait_for_the_release(patch: pytest.MonkeyPatch) -> None:
    def as_released(command: Any, topics: Any, paused: Any, is_owned: Any) -> ErrorCode:
        return administrative_error(command, topics, paused, lambda *part: False)

    patch.setattr(consumer_offsets, "administrative_error", as_released)


def checkpoints_forget_pauses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PausedGroups, "records", lambda paused: [])


def offsets_of_paused_groups_expire(patch: pytest.MonkeyPatch) -> None:
    init = Upkeep.__init__

    def without_pauses(upkeep: Any, context: Any, *given: Any) -> None:
        init(upkeep, context, *given)
        upkeep._paused = PausedGroups()

    patch.setattr(Upkeep, "__init__", without_pauses)
