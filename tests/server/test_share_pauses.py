"""Pauses of share-partitions: acquisition stops, what is out may be acknowledged, the start may be set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.server import share_members
from tests.server.clients import T
from tests.server.dead_letters import DEAD, REJECT, configure, create, letters, letters_settle
from tests.server.disk import new_disk
from tests.server.share_members import FIRST_WAIT_MS, LOCK_MS, Got, Member, Scene, started, until

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId
from headgate.wire.extensions.list_paused_partitions import ListPausedPartitionsRequest
from headgate.wire.extensions.pause_partitions import PausePartitionsRequest
from headgate.wire.extensions.paused_topics import PartitionToChange, TopicToChange
from headgate.wire.extensions.resume_partitions import ResumePartitionsRequest
from headgate.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from headgate.wire.messages.delete_groups import DeleteGroupsRequest
from headgate.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

ACCEPT, RELEASE = 1, 2
NONE = ErrorCode.NONE
NOT_PAUSED, PAUSING, PAUSED = range(3)


async def join(scene: Scene, member: Member) -> None:
    """Become a member of a group that begins at the earliest record, and wait for the assignment."""
    known = scene.node.topics.group_overrides("g")
    change = scene.node.topics.group_change("g", {**known, "share.auto.offset.reset": "earliest"})
    assert scene.node.topics.change_settings([change], scene.node.system_time()) is None
    for attempt in range(1000):
        request = ShareGroupHeartbeatRequest(
            group_id="g",
            member_id=member.name,
            member_epoch=0,
            subscribed_topic_names=["t"],
        )
        answer = await member.client.ask(request, 1, f"join {member.name} {attempt}")
        if answer.assignment and answer.assignment.topic_partitions:
            return
        await asyncio.sleep(0.001)
    raise AssertionError("nothing was assigned")


async def leave(member: Member) -> None:
    """Leave the group, and keep the session."""
    request = ShareGroupHeartbeatRequest(group_id="g", member_id=member.name, member_epoch=-1)
    answer = await member.client.ask(request, 1, f"leave {member.name}")
    assert answer.error_code == NONE, answer


def play(story: Callable[[Scene], Coroutine[Any, Any, None]], **settings: str) -> None:
    """Run a story in which heartbeats assign at once."""
    share_members.play(story, group_share_assignment_interval_ms="0", **settings)


class Pauses:
    """An administrator of group `g`."""

    def __init__(self, scene: Scene) -> None:
        self._member = scene.member("administrator")
        self.why: str | None = None
        """The reason of the last refusal of `alter`."""

    async def _ask(self, request: Any, version: int) -> Any:
        return await self._member.client.ask(request, version, f"{next(self._member.client._ids)}")

    async def pause(self, *indexes: int) -> list[int]:
        """Pause; return the state of each."""
        request = PausePartitionsRequest(group_id="g", topics=_topics(indexes), reason="r", caller="c")
        return _states(await self._ask(request, 1))

    async def resume(self, *indexes: int) -> list[int]:
        """Resume; return the state of each."""
        return _states(await self._ask(ResumePartitionsRequest(group_id="g", topics=_topics(indexes)), 1))

    async def listed(self) -> dict[int, tuple[int, str | None]]:
        """Return state and owner of paused partitions."""
        answer = await self._ask(ListPausedPartitionsRequest(group_id="g"), 1)
        assert answer.error_code == NONE, answer
        return {
            one.partition_index: (one.state, one.owner) for topic in answer.topics for one in topic.partitions
        }

    async def alter(self, start: int, index: int = 0) -> ErrorCode:
        """Set a start offset."""
        partition = AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=start)
        topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[partition])
        answer = await self._ask(AlterShareGroupOffsetsRequest(group_id="g", topics=[topic]), 0)
        if answer.error_code:
            self.why = answer.error_message
            return ErrorCode(answer.error_code)
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    async def delete_group(self) -> ErrorCode:
        """Delete the group."""
        answer = await self._ask(DeleteGroupsRequest(groups_names=["g"]), 2)
        return ErrorCode(answer.results[0].error_code)


def _topics(indexes: tuple[int, ...]) -> list[TopicToChange]:
    return [TopicToChange(name="t", partitions=[PartitionToChange(partition_index=one) for one in indexes])]


def _states(answer: Any) -> list[int]:
    assert answer.error_code == NONE, answer
    return [one.state for topic in answer.responses for one in topic.partitions]


def got(*acquired: tuple[int, int, int], values: list[bytes]) -> dict[int, Got]:
    """Return what a fetch gets from partition 0."""
    return {0: Got(NONE, NONE, list(acquired), values)}


def test_paused_share_partition_delivers_nothing_and_takes_acknowledgements() -> None:
    """What was out is released by its acknowledgement; after the resume the rest is delivered."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        scene.append(b"b")
        ann, ben, pauses = scene.member("ann"), scene.member("ben"), Pauses(scene)
        await join(scene, ann)
        assert await ann.fetch(0, most=1, wait_ms=FIRST_WAIT_MS) == got((0, 0, 1), values=[b"a"])
        assert await pauses.pause(0) == [PAUSING]
        assert await pauses.listed() == {0: (PAUSING, "ann")}
        assert await ben.fetch(0) == {}
        assert await pauses.alter(0) == ErrorCode.REBALANCE_IN_PROGRESS
        assert "ann" in (pauses.why or "")
        assert await ann.acknowledge({0: [(0, 0, [ACCEPT])]}) == {0: NONE}
        assert await pauses.listed() == {0: (PAUSED, None)}
        assert await ann.fetch() == {}
        assert await pauses.pause(0) == [PAUSED]
        assert await pauses.resume(0) == [NOT_PAUSED]
        assert await ben.fetch() == got((1, 1, 1), values=[b"b"])

    play(story)


def test_fetch_waits_through_a_pause() -> None:
    """Appended and released records do not end it; the resume does."""

    async def story(scene: Scene) -> None:
        ann, pauses = scene.member("ann"), Pauses(scene)
        await join(scene, ann)
        assert await pauses.pause(0) == [PAUSED]
        waiting = asyncio.create_task(ann.fetch(0, wait_ms=50_000))
        await until(lambda: any(one.waiting for one in scene.shared()))
        scene.append(b"a")
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await pauses.resume(0)
        assert await waiting == got((0, 0, 1), values=[b"a"])

    play(story)


def test_live_group_is_rewound_in_three_steps() -> None:
    """Pause, set, resume: what was acknowledged is delivered again, from the first delivery on."""

    async def story(scene: Scene) -> None:
        for value in (b"a", b"b"):
            scene.append(value)
        ann, pauses = scene.member("ann"), Pauses(scene)
        await join(scene, ann)
        await ann.fetch(0, wait_ms=FIRST_WAIT_MS)
        await ann.acknowledge({0: [(0, 1, [ACCEPT])]})
        assert await pauses.alter(0) == ErrorCode.NON_EMPTY_GROUP
        assert await pauses.pause(0) == [PAUSED]
        assert await pauses.alter(1, index=1) == ErrorCode.NON_EMPTY_GROUP
        assert await pauses.alter(1) == NONE
        assert await ann.fetch() == {}
        assert await pauses.listed() == {0: (PAUSED, None)}
        assert await pauses.resume(0) == [NOT_PAUSED]
        await join(scene, ann)
        assert await ann.fetch(wait_ms=FIRST_WAIT_MS) == got((1, 1, 1), values=[b"b"])

    play(story)


def test_pause_survives_a_crash() -> None:
    """It is a record of the group."""

    async def story() -> None:
        files = new_disk()
        scene = await started(files, group_share_assignment_interval_ms="0")
        scene.append(b"a")
        await join(scene, scene.member("ann"))
        await Pauses(scene).pause(0)
        files.crash()
        again = await started(files)
        ben, pauses = again.member("ben"), Pauses(again)
        assert await ben.fetch(0, 1) == {}
        while await pauses.listed() != {0: (PAUSED, None)}:  # until it is known that nobody has records
            await asyncio.sleep(0.01)
        await pauses.resume(0)
        assert not any(one.is_paused for one in again.shared())
        again.node.close()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_pause_ends_with_the_group() -> None:
    """A new group of the same name is not paused."""

    async def story(scene: Scene) -> None:
        ann, pauses = scene.member("ann"), Pauses(scene)
        await join(scene, ann)
        await pauses.pause(0, 1)
        leave = ShareGroupHeartbeatRequest(group_id="g", member_id="ann", member_epoch=-1)
        await ann.client.ask(leave, 1, "leave")
        assert await pauses.delete_group() == NONE
        await join(scene, ann)
        assert await pauses.listed() == {}

    play(story)


@pytest.mark.parametrize("wait_ms", [0, 50_000])
def test_lock_that_ends_in_a_pause_releases(wait_ms: int) -> None:
    """Nobody gets the records before the resume."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        ann, ben, pauses = scene.member("ann"), scene.member("ben"), Pauses(scene)
        await join(scene, ann)
        await ann.fetch(0, wait_ms=FIRST_WAIT_MS)
        assert await pauses.pause(0) == [PAUSING]
        (shared,) = scene.shared()
        await until(lambda: shared.is_released)
        assert await pauses.listed() == {0: (PAUSED, None)}
        assert await ben.fetch(0) == {}
        await pauses.resume(0)
        assert await ben.fetch(wait_ms=wait_ms) == got((0, 0, 2), values=[b"a"])

    play(story, group_share_record_lock_duration_ms="60000")


def test_dead_letters_that_cannot_be_written_keep_a_share_partition_pausing() -> None:
    """Its start would take them away. The refusal says so, and what ends it: they are given up."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        ann, pauses = scene.member("ann"), Pauses(scene)
        configure(scene, topic="dlq.missing")
        await join(scene, ann)
        await ann.fetch(0, wait_ms=FIRST_WAIT_MS)
        assert await ann.acknowledge({0: [(0, 0, [REJECT])]}) == {0: NONE}
        assert await pauses.pause(0) == [PAUSING]
        assert await pauses.listed() == {0: (PAUSING, None)}
        assert await pauses.alter(0) == ErrorCode.REBALANCE_IN_PROGRESS
        assert "dead letters" in (pauses.why or "")
        configure(scene)
        await letters_settle(scene)
        assert await pauses.listed() == {0: (PAUSED, None)}
        assert await pauses.alter(0) == NONE

    play(story)


def test_dead_letters_of_a_share_partition_that_is_not_loaded_are_kept() -> None:
    """As after a start: only the share coordinator knows of them. The group goes on with its old state."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        ann, pauses = scene.member("ann"), Pauses(scene)
        configure(scene, topic=DEAD)
        await join(scene, ann)
        await ann.fetch(0, wait_ms=FIRST_WAIT_MS)
        assert await ann.acknowledge({0: [(0, 0, [REJECT])]}) == {0: NONE}
        (shared,) = scene.shared()
        await until(lambda: shared.writes.is_done)
        shared.discard(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert await pauses.pause(0) == [PAUSED]
        assert await pauses.alter(1) == ErrorCode.REBALANCE_IN_PROGRESS
        assert await pauses.resume(0) == [NOT_PAUSED]
        create(scene)
        scene.append(b"b")
        assert await ann.fetch(wait_ms=1000) == got((1, 1, 1), values=[b"b"])
        await letters_settle(scene)
        assert [one.offset for one in letters(scene)] == [0]
        assert await ann.acknowledge({0: [(1, 1, [ACCEPT])]}) == {0: NONE}
        assert await pauses.pause(0) == [PAUSED]
        assert await pauses.alter(1) == NONE

    play(story)


def test_a_rejection_that_is_being_written_is_not_taken_away_by_a_reset() -> None:
    """Either the rejection is refused, or the reset, or the letter is written."""

    async def story(scene: Scene) -> None:
        configure(scene, topic=DEAD)
        create(scene)
        ann, pauses = scene.member("ann"), Pauses(scene)
        await join(scene, ann)
        await leave(ann)  # its session stays
        answers = []
        for offset in range(10):
            scene.append(b"a")
            fetched = {0: Got(ErrorCode.NOT_LEADER_OR_FOLLOWER, NONE, [], [])}
            while (
                0 not in fetched or fetched[0].error
            ):  # until the state that the reset before has set is read
                fetched = await ann.fetch(0, wait_ms=1000)
            rejecting = asyncio.ensure_future(ann.acknowledge({0: [(offset, offset, [REJECT])]}))
            for _ in range(offset):
                await asyncio.sleep(0)
            answers.append((await pauses.alter(offset + 1), await rejecting))
            await letters_settle(scene)
        rejected = [offset for offset, (_, given) in enumerate(answers) if given == {0: NONE}]
        assert rejected, answers
        assert [one.offset for one in letters(scene)] == rejected, answers

    play(story)


def test_first_fetch_after_a_pause_delivers_nothing() -> None:
    """The share-partition was not in use when it was paused."""

    async def story(scene: Scene) -> None:
        scene.append(b"a")
        ann, pauses = scene.member("ann"), Pauses(scene)
        await join(scene, ann)
        await pauses.pause(0)
        assert not scene.shared()
        fetches = [asyncio.create_task(ann.fetch(0)), asyncio.create_task(pauses.pause(1))]
        assert await fetches[0] == {}
        await fetches[1]
        await until(lambda: all(one.is_loaded for one in scene.shared()))
        assert await ann.fetch() == {}
        assert scene.node.shares.holder(GroupId("g"), (T, 0)) is None

    play(story)


def test_metrics_of_share_groups() -> None:
    """Groups, rebalances, loads, acknowledgements, and the age of the oldest lock."""

    async def story(scene: Scene) -> None:
        for value in (b"a", b"b"):
            scene.append(value)
        ann = scene.member("ann")
        await join(scene, ann)
        await ann.fetch(0, wait_ms=FIRST_WAIT_MS)
        await ann.acknowledge({0: [(1, 1, [ACCEPT])]})
        await asyncio.sleep(0.01)
        found = {
            (sample.name, *sample.labels.values()): sample.value
            for metric in scene.node.gauges()
            if metric is not None
            for sample in metric.samples
        }
        assert found["headgate_share_groups", "Stable"] == 1
        assert found["headgate_share_rebalances_total",] >= 1
        assert found["headgate_share_partition_loads_total",] == 1
        assert found["headgate_share_acknowledgement_requests_total",] == 1
        assert found["headgate_share_records_in_flight",] == 2
        assert 0 < found["headgate_share_oldest_lock_seconds",] < LOCK_MS / 1000

    play(story)
