"""What concerns very many records that wait for their dead letters takes several iterations of the loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.server.dead_letters import ACCEPT, DEAD, REJECT, configure
from tests.server.share_members import Scene, play

from headgate.core.share.partition.share_partition import SharePartition
from headgate.core.share.state.commands import WriteState
from headgate.domain.errors import ErrorCode
from headgate.records.share_batches import DeliveryState
from headgate.server import request_work

RECORDS = 2_000
DUE = RECORDS // 2
MOST_A_WRITE = 200


async def reject_every_second(scene: Scene) -> SharePartition:
    """Reject records whose letters cannot be written, because the topic of the group does not exist."""
    configure(scene, topic=DEAD)
    scene.append(*[b"value"] * RECORDS)
    member = scene.member("m")
    assert len((await member.fetch(0, most=RECORDS))[0].values) == RECORDS
    types = [REJECT, ACCEPT] * DUE
    assert await member.acknowledge({0: [(0, RECORDS - 1, types)]}) == {0: ErrorCode.NONE}
    (shared,) = scene.shared()
    assert shared.machine is not None
    assert archiving(shared.machine) == DUE
    return shared.machine


def archiving(machine: SharePartition) -> int:
    """Return how many ranges wait for their dead letters."""
    views = machine.deliveries(0, RECORDS - 1)
    return sum(view.state == DeliveryState.ARCHIVING for view in views)


def test_what_waits_is_archived_in_parts_when_the_group_gives_its_topic_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other work comes in between, and no write of the state has very many ranges."""
    monkeypatch.setattr(request_work, "SLICE_SECONDS", -1.0)
    monkeypatch.setattr(request_work, "FIRST_SLICE_SECONDS", -1.0)

    async def story(scene: Scene) -> None:
        machine = await reject_every_second(scene)
        written: list[int] = []
        submit = scene.node.share_state.submit

        def watched(key: str, command: Any, on_reply: Any) -> None:
            if isinstance(command, WriteState):
                written.append(len(command.batches))
            submit(key, command, on_reply)

        monkeypatch.setattr(scene.node.share_state, "submit", watched)
        configure(scene)
        seen: set[int] = set()
        async with asyncio.timeout(10):
            while 0 not in seen:
                seen.add(archiving(machine))
                await asyncio.sleep(0)
            while machine.start_offset < RECORDS or sum(written) < DUE:
                await asyncio.sleep(0)
        assert len(seen) > DUE / MOST_A_WRITE
        assert max(written) <= MOST_A_WRITE

    play(story)


def test_what_waits_is_counted_for_the_metrics_in_parts() -> None:
    """Each slice counts a limited number of ranges; the number is that of all records."""

    async def story(scene: Scene) -> None:
        await reject_every_second(scene)
        found = list(scene.node.shares.gauges())
        (waiting,) = (one for one in found if one and one.name == "headgate_share_dead_letters_waiting")
        assert waiting.samples[0].value == DUE
        assert found.count(None) > DUE / MOST_A_WRITE

    play(story)
