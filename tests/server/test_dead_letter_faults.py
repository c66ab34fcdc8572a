"""Disks that fail while dead letters are written, and topics that go: none is lost, none written twice."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from time import monotonic

import pytest
from tests.server.dead_letters import DEAD, ENABLED, REJECT, Dead, configure, create, letters, letters_settle
from tests.server.disk import new_disk
from tests.server.share_members import FASTER, Member, Scene, play, started, until

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName
from headgate.log.memory_filesystem import Fault

RECORDS = 4
REJECTED = "Offset rejected by client."


async def _reject_all(scene: Scene, member: Member) -> None:
    """Reject what is delivered, again and again, until all records are complete and have their letters."""
    async with asyncio.timeout(20):
        while True:
            await member.fetch(0, wait_ms=10_000)
            shared = scene.shared()
            machine = shared[0].machine if shared else None
            if machine is None:
                continue
            held = list(machine.deliveries(0, RECORDS))
            for one in held:
                if one.member_id == member.name and not one.is_changing:
                    await member.acknowledge({0: [(one.first_offset, one.last_offset, [REJECT])]})
            if machine.start_offset == RECORDS and not shared[0].letters.is_waiting:
                return
            await asyncio.sleep(0)


def _with_fault(fault: Fault) -> list[int]:
    """Reject all records on a disk with a fault; return the offsets that have letters."""

    async def main() -> list[int]:
        files = new_disk()
        scene = await started(files, log_segment_bytes="4096")
        scene.topic.shared.seconds = lambda: FASTER * monotonic()
        await scene.initialize()
        create(scene)
        configure(scene, topic=DEAD)
        for number in range(RECORDS):
            scene.append(b"%d" % number)
        ann = scene.member("ann")
        await ann.fetch(0, most=2, batch_size=1)
        files.inject(fault)
        await _reject_all(scene, ann)
        files.heal()
        found = sorted(one.offset for one in letters(scene))
        scene.node.close()
        return found

    return asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize(
    ("kind", "times", "operations"),
    [(None, 1, range(14)), (None, 3, range(1, 14, 4)), ("datasync", 1, range(5))],
)
def test_a_disk_that_fails_for_a_while(kind: str | None, times: int, operations: range) -> None:
    """At every operation from the first rejection on, once or several times."""
    for after in operations:
        fault = Fault(errno.ENOSPC, kind=kind, after=after, times=times)
        assert _with_fault(fault) == list(range(RECORDS)), after


@pytest.mark.parametrize("written", [1, 100])
def test_a_torn_write_of_letters(written: int) -> None:
    """The disk takes a part of a batch and then fails."""
    for after in range(0, 6, 2):
        fault = Fault(errno.ENOSPC, kind="pwrite", after=after, times=2, written=written)
        assert _with_fault(fault) == list(range(RECORDS)), after


def _story(tell: Callable[[Scene, Member], Awaitable[None]], **settings: str) -> None:
    async def story(scene: Scene) -> None:
        create(scene)
        configure(scene, topic=DEAD)
        for number in range(RECORDS):
            scene.append(b"%d" % number)
        ann = scene.member("ann")
        await ann.fetch(0, most=RECORDS, batch_size=1)
        await tell(scene, ann)

    play(story, **settings)


def test_a_dead_letter_topic_that_is_deleted_and_created_again() -> None:
    """Letters of later records go to the new topic; those that were written are not written again."""

    async def tell(scene: Scene, ann: Member) -> None:
        await ann.acknowledge({0: [(0, 0, [REJECT])]})
        await letters_settle(scene)
        topic = scene.node.topics.by_name(TopicName(DEAD))
        assert topic is not None
        assert scene.node.topics.delete(topic, scene.node.system_time()) is None
        await ann.acknowledge({0: [(1, 2, [REJECT])]})
        counts = scene.node.shares._counts
        await until(lambda: counts.failed_dead_letters > 0)
        await until(lambda: not topic.is_being_read)
        create(scene, name="dlq.other")
        configure(scene, topic="dlq.other")
        await letters_settle(scene)
        assert [one.offset for one in letters(scene, name="dlq.other")] == [1, 2]

    _story(tell)


def test_a_source_that_is_deleted_while_letters_wait() -> None:
    """Nothing is left to tell of; the share-partition is given up."""

    async def tell(scene: Scene, ann: Member) -> None:
        configure(scene, topic="dlq.none")
        await ann.acknowledge({0: [(0, 0, [REJECT])]})
        await until(lambda: scene.node.shares._counts.failed_dead_letters > 0)
        assert scene.node.topics.delete(scene.topic, scene.node.system_time()) is None
        await until(lambda: not scene.shared())
        create(scene, name="dlq.none")
        await asyncio.sleep(0.1)
        assert letters(scene, name="dlq.none") == []

    _story(tell)


@pytest.mark.parametrize(
    "overrides",
    [{"cleanup.policy": "compact"}, {"max.message.bytes": "20"}, {"message.timestamp.after.max.ms": "0"}],
)
def test_a_topic_that_refuses_letters(overrides: dict[str, str]) -> None:
    """The records wait, and the broker tells why; when the topic is mended the letters are written once."""

    async def tell(scene: Scene, ann: Member) -> None:
        create(scene, {**ENABLED, **overrides}, name="dlq.bad")
        configure(scene, topic="dlq.bad")
        await ann.acknowledge({0: [(0, 0, [REJECT])]})
        topic = scene.node.topics.by_name(TopicName("dlq.bad"))
        assert topic is not None
        if "message.timestamp.after.max.ms" not in overrides:
            await until(lambda: scene.node.shares._counts.failed_dead_letters > 1)
            assert letters(scene, name="dlq.bad") == []
        assert scene.node.topics.set_overrides(topic, ENABLED, scene.node.system_time()) is None
        await letters_settle(scene)
        assert letters(scene, name="dlq.bad") == [Dead(0, 1, REJECTED, None, None)]

    _story(tell)


def test_offsets_that_are_altered_while_letters_wait() -> None:
    """What the administrator sets counts: the record is delivered again, and has one letter when rejected."""

    async def tell(scene: Scene, ann: Member) -> None:
        configure(scene, topic="dlq.none")
        await ann.acknowledge({0: [(0, 0, [REJECT])]})
        await until(lambda: scene.node.shares._counts.failed_dead_letters > 0)
        await scene.initialize(0, epoch=7)
        for shared in scene.shared():
            scene.node.shares.forget(shared.key.group_id, shared.topic_key)
        create(scene, name="dlq.none")
        ben = scene.member("ben")
        got = await ben.fetch(0, wait_ms=10_000)
        assert got[0].error == ErrorCode.NONE
        await ben.acknowledge({0: [(0, RECORDS - 1, [REJECT])]})
        await letters_settle(scene)
        assert [one.offset for one in letters(scene, name="dlq.none")] == list(range(RECORDS))

    _story(tell)
