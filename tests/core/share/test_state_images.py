"""Random lives of share states whose image is read while they change; the log since completes it."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from tests.core.share.state_life import TOPIC_ID, StateLife, durable

from headgate.core.share.state import image
from headgate.core.share.state.commands import DeleteState, InitializeState, ReadState, WriteState
from headgate.domain.ids import GroupId
from headgate.records.share_batches import StateBatch
from headgate.records.share_state_model import ShareKey

KEYS = [ShareKey(GroupId(f"g{number // 3}"), TOPIC_ID, number % 3) for number in range(7)]


def change(life: StateLife, random: Random) -> None:
    """Do something with one of the states, or let time pass."""
    key = random.choice(KEYS)
    command: Any
    match random.randrange(8):
        case 0:
            life.advance(random.choice((1_000, 60_000, 300_000)))
            return
        case 1:
            command = DeleteState(key=key)
        case 2:
            command = InitializeState(key=key, state_epoch=-1, start_offset=random.randrange(50))
        case 3:
            command = ReadState(key=key, leader_epoch=random.randrange(3))
        case _:
            first = random.randrange(100)
            batch = StateBatch(first, first + random.randrange(9), random.choice((0, 2, 4)), 1)
            start = random.choice((-1, -1, random.randrange(60)))
            command = WriteState(
                key=key, state_epoch=-1, leader_epoch=-1, start_offset=start, batches=[batch]
            )
    life.ask(command)


@pytest.mark.parametrize("seed", range(12))
def test_an_image_and_the_log_since_restore_the_states(seed: int) -> None:
    """In their order, by which the log is pruned and old snapshots are repeated. Some log from before the
    image makes no difference.
    """
    random = Random(seed)
    life = StateLife(share_coordinator_snapshot_update_records_per_snapshot=random.choice("138"))
    for key in KEYS:
        life.ask(InitializeState(key=key, state_epoch=0, start_offset=0))
    for _ in range(random.randrange(12)):
        change(life, random)
    parts = []
    at = len(life.log) - random.choice((0, 0, 1, 3))
    with patch.object(image, "_PART_BYTES", 1):
        for part in life.shard.image():
            parts.append(part)
            for _ in range(random.randrange(3)):
                change(life, random)
    restored = life.loaded_from(at, parts)
    assert durable(restored) == durable(life.shard)
    assert durable(life.loaded_from(restored.needed_position())) == durable(life.shard)
