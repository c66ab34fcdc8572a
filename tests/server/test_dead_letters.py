"""Dead letters of share groups (KIP-1191): what is written when; none is lost or written twice."""

from __future__ import annotations

import asyncio

import pytest
from tests.server.dead_letters import (
    ACCEPT,
    DEAD,
    REJECT,
    RELEASE,
    Dead,
    configure,
    create,
    letters,
    letters_settle,
)
from tests.server.share_members import Member, Scene, play, started, until

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName
from headgate.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)

REJECTED = "Offset rejected by client."
LIMIT = "Offset delivery count exceeded the threshold."


def test_rejected_records_get_a_dead_letter() -> None:
    """It names the record in headers; the record stays undelivered and the start moves over it."""

    async def story(scene: Scene) -> None:
        create(scene)
        configure(scene, topic=DEAD)
        scene.append(b"a", b"b", b"c")
        ann = scene.member("ann")
        await ann.fetch(0)
        assert await ann.acknowledge({0: [(0, 0, [ACCEPT]), (1, 2, [REJECT])]}) == {0: 0}
        await letters_settle(scene)
        assert letters(scene) == [Dead(1, 1, REJECTED, None, None), Dead(2, 1, REJECTED, None, None)]
        (shared,) = scene.shared()
        assert shared.machine is not None
        assert (shared.machine.start_offset, shared.machine.end_offset) == (3, 3)

    play(story)


def test_copies_have_key_and_value() -> None:
    """If the group wants them; the letter of a record goes to the partition of its number."""

    async def story(scene: Scene) -> None:
        create(scene, count=2)
        configure(scene, topic=DEAD, copy="true")
        scene.append(b"poison", partition=1)
        ann = scene.member("ann")
        await ann.fetch(1)
        assert await ann.acknowledge({1: [(0, 0, [REJECT])]}) == {1: 0}
        await letters_settle(scene)
        assert letters(scene, 0) == []
        assert letters(scene, 1) == [Dead(0, 1, REJECTED, b"key", b"poison")]

    play(story)


def test_the_last_delivery_ends_in_a_dead_letter() -> None:
    """Released, or its lock ended, as often as the limit allows."""

    async def story(scene: Scene) -> None:
        create(scene)
        configure(scene, topic=DEAD)
        scene.append(b"a")
        scene.append(b"b")
        ann = scene.member("ann")
        for _ in range(2):
            await ann.fetch(0, wait_ms=100_000, most=1, batch_size=1)
            await ann.acknowledge({0: [(0, 0, [RELEASE])]})
        await letters_settle(scene)
        assert letters(scene) == [Dead(0, 2, LIMIT, None, None)]
        for count in (1, 2):
            got = await ann.fetch(0, wait_ms=100_000)
            assert got[0].acquired == [(1, 1, count)]
        await until(lambda: len(letters(scene)) == 2)
        assert letters(scene)[1] == Dead(1, 2, LIMIT, None, None)

    play(story, group_share_delivery_count_limit="2", group_share_record_lock_duration_ms="2000")


def test_nothing_is_lost_while_letters_cannot_be_written() -> None:
    """Records wait until the topic can be used, and others are delivered meanwhile."""

    async def story(scene: Scene) -> None:
        configure(scene, topic=DEAD)
        scene.append(b"a", b"b")
        ann = scene.member("ann")
        await ann.fetch(0)
        await ann.acknowledge({0: [(0, 0, [REJECT]), (1, 1, [ACCEPT])]})
        counts = scene.node.shares._counts
        await until(lambda: counts.failed_dead_letters > 1)  # the topic does not exist
        create(scene, {})
        failed = counts.failed_dead_letters
        await until(lambda: counts.failed_dead_letters > failed)  # it does not allow dead letters
        scene.append(b"c")
        assert (await ann.fetch(0))[0].values == [b"c"]
        (shared,) = scene.shared()
        assert shared.machine is not None
        assert shared.machine.start_offset == 0
        topic = scene.node.topics.by_name(TopicName(DEAD))
        assert topic is not None
        scene.node.topics.set_overrides(
            topic, {"errors.deadletterqueue.group.enable": "true"}, scene.node.system_time()
        )
        await letters_settle(scene)
        assert letters(scene) == [Dead(0, 1, REJECTED, None, None)]
        assert shared.machine.start_offset == 2

    play(story)


def test_a_reset_does_not_take_away_what_waits_for_its_letter() -> None:
    """It is refused, also of a group without members; not after the group has given the letters up."""

    async def reset(member: Member) -> tuple[int, str]:
        partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=2)
        topics = [AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[partition])]
        answer = await member.client.ask(AlterShareGroupOffsetsRequest(group_id="g", topics=topics), 0)
        return answer.error_code, answer.error_message or ""

    async def story(scene: Scene) -> None:
        configure(scene, topic=DEAD)
        scene.append(b"a", b"b")
        ann, bob = scene.member("ann"), scene.member("bob")
        await ann.fetch(0)
        await ann.acknowledge({0: [(0, 0, [REJECT]), (1, 1, [ACCEPT])]})
        await until(lambda: scene.node.shares._counts.failed_dead_letters > 0)
        ann.disconnect()
        code, why = await reset(bob)
        assert (code, "wait for their dead letters" in why) == (ErrorCode.REBALANCE_IN_PROGRESS, True)
        configure(scene)
        await letters_settle(scene)
        code, _ = await reset(bob)
        assert code != ErrorCode.REBALANCE_IN_PROGRESS

    play(story)


def test_a_group_that_gives_its_topic_up_archives_what_waits() -> None:
    """Without a topic there are no letters, and nothing waits for them."""

    async def story(scene: Scene) -> None:
        configure(scene, topic=DEAD)
        scene.append(b"a")
        ann = scene.member("ann")
        await ann.fetch(0)
        await ann.acknowledge({0: [(0, 0, [REJECT])]})
        await until(lambda: scene.node.shares._counts.failed_dead_letters > 0)
        configure(scene)
        await letters_settle(scene)
        (shared,) = scene.shared()
        assert shared.machine is not None
        assert shared.machine.start_offset == 1

    play(story)


def test_a_missing_topic_is_created_where_the_broker_allows_it() -> None:
    """With the setting that lets it be used."""

    async def story(scene: Scene) -> None:
        configure(scene, topic=DEAD)
        scene.append(b"a")
        ann = scene.member("ann")
        await ann.fetch(0)
        await ann.acknowledge({0: [(0, 0, [REJECT])]})
        await letters_settle(scene)
        assert [one.offset for one in letters(scene)] == [0]

    play(story, errors_deadletterqueue_auto_create_topics_enable="true")


@pytest.mark.parametrize("name", ["other", "t"])
def test_the_name_needs_the_prefix(name: str) -> None:
    """Else no letter is written; a topic that is its own dead-letter topic has none."""

    async def story(scene: Scene) -> None:
        if name != "t":
            create(scene, name=name)
        configure(scene, topic=name)
        scene.append(b"a")
        ann = scene.member("ann")
        await ann.fetch(0)
        await ann.acknowledge({0: [(0, 0, [REJECT])]})
        (shared,) = scene.shared()
        assert shared.machine is not None
        machine = shared.machine
        if name == "t":
            await letters_settle(scene)
            assert machine.start_offset == machine.end_offset == 1
        else:
            await until(lambda: scene.node.shares._counts.failed_dead_letters > 0)
            assert machine.start_offset == 0
            topic = scene.node.topics.by_name(TopicName(name))
            assert topic is not None
            assert topic.partition(0).log_end_offset == 0

    play(story)


def test_share_partitions_that_write_the_first_letters_of_a_topic_at_once() -> None:
    """Each finds the log that the other one has created meanwhile."""

    async def story(scene: Scene) -> None:
        create(scene)
        configure(scene, topic=DEAD)
        members = [scene.member(name) for name in ("ann", "ben")]
        for index, member in enumerate(members):
            scene.append(b"a", b"b", partition=index)
            await member.fetch(index)
        rejecting = [
            asyncio.create_task(member.acknowledge({index: [(0, 1, [REJECT])]}))
            for index, member in enumerate(members)
        ]
        await asyncio.gather(*rejecting)
        await letters_settle(scene)
        assert sorted(one.offset for one in letters(scene)) == [0, 0, 1, 1]
        assert scene.node.shares._counts.failed_dead_letters == 0

    play(story)


def test_dead_letters_go_on_when_the_node_starts() -> None:
    """Also if no member comes back."""

    async def story(scene: Scene) -> None:
        configure(scene, topic=DEAD)
        scene.append(b"a")
        ann = scene.member("ann")
        await ann.fetch(0)
        await ann.acknowledge({0: [(0, 0, [REJECT])]})
        await until(lambda: scene.node.shares._counts.failed_dead_letters > 0)
        create(scene)
        scene.node.close()
        scene.files.kill()
        again = await started(scene.files)
        await until(lambda: bool(letters(again)) and not again.shared())
        assert letters(again) == [Dead(0, 1, REJECTED, None, None)]
        again.node.close()

    play(story)
