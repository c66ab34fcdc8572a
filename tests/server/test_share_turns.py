"""What concerns many share-partitions or members at once takes several iterations of the event loop."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.server.share_members import FASTER, Member, Scene, play, until

from headgate.core.share.state.commands import InitializeState, ShareKey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicId
from headgate.server import backlog
from headgate.server.shares.partition import SharedPartition
from headgate.topics.topics import NewTopic

ACCEPT, RELEASE = 1, 2
RECORDS = 20
MEMBERS = 30
NONE = ErrorCode.NONE


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run one piece of deferred work in each iteration of the loop."""
    monkeypatch.setattr(backlog, "TURN_SECONDS", -1.0)


def busy(scene: Scene) -> int:
    """Return how many share-partitions have records that a member has, or a write decides on."""
    return sum(shared.machine is not None and shared.machine.is_any_in_flight for shared in scene.shared())


async def seen_until_idle(scene: Scene) -> set[int]:
    """Return all numbers of busy share-partitions that other work of the loop sees until there is none."""
    seen: set[int] = set()
    async with asyncio.timeout(10):
        while 0 not in seen:
            seen.add(busy(scene))
            await asyncio.sleep(0)
    return seen


def fill(scene: Scene) -> None:
    for partition in (0, 1):
        scene.append(*[b"value"] * RECORDS, partition=partition)


def test_locks_of_many_partitions_that_end_at_once_are_ended_one_after_the_other() -> None:
    """All timers are due in the same iteration; other work comes between two partitions."""

    async def story(scene: Scene) -> None:
        fill(scene)
        member = scene.member("m")
        assert len(await member.fetch(0, 1)) == busy(scene) == 2
        time.sleep(1.1 * member.lock_ms / FASTER / 1000)
        assert await seen_until_idle(scene) == {2, 1, 0}

    play(story, group_share_record_lock_duration_ms="1000", group_share_min_record_lock_duration_ms="1000")


def test_writes_that_one_sync_completes_are_finished_one_after_the_other() -> None:
    """If they have many ranges; the answer comes after the last one."""

    async def story(scene: Scene) -> None:
        fill(scene)
        member = scene.member("m")
        assert len(await member.fetch(0, 1)) == 2
        batches = [(0, RECORDS - 1, [ACCEPT, RELEASE] * (RECORDS // 2))]
        answer = asyncio.ensure_future(member.acknowledge({0: batches, 1: batches}))
        assert await seen_until_idle(scene) == {2, 1, 0}
        assert await answer == {0: NONE, 1: NONE}

    play(story)


WIDE = TopicId(b"w" * 16)
PARTITIONS = 250


async def fetch_wide(scene: Scene) -> Member:
    """Return a member that has fetched all partitions of a topic with very many."""
    scene.node.topics.create(NewTopic("wide", WIDE, PARTITIONS), scene.node.system_time())
    replies: list[Any] = []
    for index in range(PARTITIONS):
        key = ShareKey(GroupId("g"), WIDE, index)
        command = InitializeState(key=key, state_epoch=1, start_offset=0)
        scene.node.share_state.submit(key.name, command, replies.append)
    await until(lambda: len(replies) == PARTITIONS)
    member = scene.member("m")
    assert await member.fetch(*range(PARTITIONS), topic_id=WIDE) == {}
    await until(lambda: all(shared.is_idle for shared in scene.shared()))
    assert len(scene.shared()) == PARTITIONS
    return member


@pytest.mark.parametrize("is_deleted", [True, False])
def test_very_many_share_partitions_are_given_up_some_at_a_time(is_deleted: bool) -> None:
    """When the last session ends, and when their topic is deleted."""

    async def story(scene: Scene) -> None:
        member = await fetch_wide(scene)
        if is_deleted:
            topic = scene.node.topics.by_id(WIDE)
            assert topic is not None
            scene.node.topics.delete(topic, scene.node.system_time())
        else:
            member.disconnect()
        seen = set()
        async with asyncio.timeout(10):
            while 0 not in seen:
                seen.add(len(scene.shared()))
                await asyncio.sleep(0)
        assert len(seen) >= 1 + PARTITIONS // 100

    play(story)


def test_a_lost_connection_of_many_members_releases_the_records_of_some_at_a_time() -> None:
    """None of them keeps its session, and all records are delivered to others soon."""

    async def story(scene: Scene) -> None:
        for _ in range(MEMBERS):
            scene.append(b"value")
        members = [scene.member(f"m{number}") for number in range(MEMBERS)]
        for member in members:
            member.client = members[0].client
            assert len((await member.fetch(0, most=1))[0].values) == 1
        (shared,) = scene.shared()
        assert shared.machine is not None
        members[0].disconnect()
        assert len(scene.node.shares.sessions) == 0
        left = [one for one in shared.machine.deliveries(0, MEMBERS - 1) if one.member_id is not None]
        assert 0 < len(left) < MEMBERS
        await seen_until_idle(scene)
        other = scene.member("other")
        assert len((await other.fetch(0))[0].values) == MEMBERS

    play(story)


@pytest.mark.interpreted
def test_a_lost_connection_asks_only_the_share_partitions_of_which_its_members_have_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There may be thousands of both. A session may have replaced the one that acquired them."""
    asked: list[int] = []
    forget = SharedPartition.forget_member

    def noted(shared: SharedPartition, member_id: MemberId) -> Any:
        asked.append(shared.key.partition)
        return forget(shared, member_id)

    monkeypatch.setattr(SharedPartition, "forget_member", noted)

    async def story(scene: Scene) -> None:
        fill(scene)
        await fetch_wide(scene)
        member = scene.member("lost")
        assert len((await member.fetch(0))[0].values) == RECORDS
        again = scene.member("lost")
        assert await again.fetch(epoch=0, topic_id=WIDE) == {}
        again.disconnect()
        assert asked == [0]
        assert len((await scene.member("other").fetch(0, wait_ms=600_000))[0].values) == RECORDS

    play(story)
