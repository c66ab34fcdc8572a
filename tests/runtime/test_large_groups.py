"""The largest records of groups fit into the log: what the core accepts is durable."""

from __future__ import annotations

import asyncio

from tests.core.harness import join, sync
from tests.runtime.shard_life import ShardLife
from tests.server.disk import new_disk

from headgate.core.classic.commands import SyncGroup
from headgate.core.consumer.commands import ConsumerHeartbeat
from headgate.core.group_bytes import MOST_BYTES
from headgate.core.shard import GroupShard
from headgate.core.topic_image import KnownTopic, TopicChange, TopicsChanged
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicId, TopicName
from headgate.domain.settings import Settings
from headgate.shards.groups import group_shards

NONE = ErrorCode.NONE


def test_a_classic_group_with_the_most_metadata_and_assignments() -> None:
    """In a topic with Kafka's default for the largest batch, 1 MiB. After a power cut the group is there."""

    async def scenario() -> None:
        files = new_disk()
        life = ShardLife(files, {"max.message.bytes": "1048588"})
        await life.runtime.load()
        half = (("range", b"\0" * (MOST_BYTES // 2 - 100)),)
        asked = [
            join(new_member_id=one, must_know_member_id=False, protocols=half, session_timeout_ms=60_000)
            for one in ("a", "b")
        ]
        joined = await asyncio.gather(*map(life.submit, asked))
        assert [one.error for one in joined] == [NONE, NONE]
        assignments = tuple((MemberId(one), one.encode() * (MOST_BYTES // 2)) for one in ("a", "b"))
        assert (await life.submit(sync("a", 1, assignments=assignments))).error is NONE
        life.end()
        files.crash()
        again = ShardLife(files)
        await again.runtime.load()
        kept = await again.submit(SyncGroup(group_id=GroupId("g"), member_id=MemberId("b"), generation=1))
        assert (kept.error, kept.assignment == assignments[1][1]) == (NONE, True)
        again.end()

    asyncio.run(scenario())


def test_an_expression_that_matches_more_than_a_megabyte_of_names() -> None:
    """Its record has all names; the member gets all topics."""
    count = 12_000

    async def scenario() -> None:
        settings = Settings({"group.consumer.assignment.interval.ms": "0"})
        life = ShardLife(new_disk(), kind=group_shards(settings, lambda: GroupShard(settings)))
        await life.runtime.load()
        topics = [
            TopicChange(TopicName(f"{number:0100d}"), KnownTopic(TopicId(number.to_bytes(16, "big")), 1))
            for number in range(1, count + 1)
        ]
        await life.submit(TopicsChanged(topics))
        epoch, assigned = 0, None
        for _ in range(200):
            beat = ConsumerHeartbeat(
                group_id=GroupId("g"),
                member_id=MemberId("m"),
                member_epoch=epoch,
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout_ms=60_000 if not epoch else -1,
                subscribed_topic_regex=".*" if not epoch else None,
                reported=[] if not epoch else None,
            )
            answer = await life.submit(beat)
            assert answer.error is NONE, answer
            epoch, assigned = answer.member_epoch, answer.assigned or assigned
            if assigned:
                break
            await asyncio.sleep(0.05)
        assert assigned is not None
        assert len(assigned) == count
        life.end()

    asyncio.run(scenario())
