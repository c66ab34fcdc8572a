"""Requests of members that name very many partitions do not keep the event loop from other work."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.api.node import drive_request
from tests.server.share_members import Scene, play

from headgate.api import k78_share_fetch, k79_share_acknowledge, share_requests
from headgate.core.share import sessions
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicId
from headgate.server import request_work
from headgate.wire.messages import share_acknowledge as acknowledging
from headgate.wire.messages import share_fetch as fetching

PARTITIONS = 300
UNKNOWN = TopicId(b"u" * 16)
ACCEPT = 1


@pytest.mark.interpreted
def test_the_response_is_made_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session's first one has all of its partitions, that of an acknowledgement those that it names."""
    makers: set[int] = set()

    def noted(module: Any, name: str) -> None:
        make = getattr(module, name)

        def call(*values: Any, **fields: Any) -> Any:
            makers.add(threading.get_ident())
            return make(*values, **fields)

        monkeypatch.setattr(module, name, call)

    noted(k78_share_fetch, "PartitionData")
    noted(k79_share_acknowledge, "PartitionData")

    async def story(scene: Scene) -> None:
        member = scene.member("m")
        found = await member.fetch(*range(PARTITIONS), topic_id=UNKNOWN)
        assert {one.error for one in found.values()} == {ErrorCode.UNKNOWN_TOPIC_ID}
        given = {index: [(0, 0, [ACCEPT])] for index in range(PARTITIONS)}
        assert len(await member.acknowledge(given)) == PARTITIONS
        assert makers
        assert threading.get_ident() not in makers
        assert await scene.member("n").fetch(0) == {}
        assert threading.get_ident() in makers  # a short one needs no thread

    play(story)


def test_acknowledgements_of_many_partitions_are_read_in_steps() -> None:
    """Each of them has one batch only."""
    count = 4 * share_requests._BATCHES_A_STEP
    batch = acknowledging.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])
    partitions = [
        acknowledging.AcknowledgePartition(partition_index=index, acknowledgement_batches=[batch])
        for index in range(count)
    ]
    topics = [acknowledging.AcknowledgeTopic(topic_id=UNKNOWN, partitions=partitions)]
    assert sum(1 for _ in share_requests.acknowledgements_of(topics)) >= 4
    assert len(drive_request(share_requests.acknowledgements_of(topics))) == count


def test_a_request_that_only_names_many_partitions_is_read_in_steps() -> None:
    """It may acknowledge nothing of any of them."""
    count = 4 * share_requests._BATCHES_A_STEP
    partitions = [acknowledging.AcknowledgePartition(partition_index=index) for index in range(count)]
    topics = [acknowledging.AcknowledgeTopic(topic_id=UNKNOWN, partitions=partitions)]
    assert sum(1 for _ in share_requests.acknowledgements_of(topics)) >= 4


@pytest.mark.interpreted
def test_the_partitions_of_a_session_change_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that one request names; the session is the same as after a request with few of them."""
    sizes: list[int] = []
    some_at_a_time = sessions._some_at_a_time

    def noted(keys: Any) -> Any:
        for some in some_at_a_time(keys):
            sizes.append(len(some))
            yield some

    monkeypatch.setattr(sessions, "_some_at_a_time", noted)
    monkeypatch.setattr(sessions, "PARTITIONS_A_STEP", 50)
    monkeypatch.setattr(k78_share_fetch, "PARTITIONS_A_STEP", 50)

    async def story(scene: Scene) -> None:
        member = scene.member("m")
        assert len(await member.fetch(*range(PARTITIONS), topic_id=UNKNOWN)) == PARTITIONS
        gone = fetching.ForgottenTopic(topic_id=UNKNOWN, partitions=list(range(1, PARTITIONS)))
        await member.fetch(forgotten_topics_data=[gone])
        assert member.top_error == ErrorCode.NONE
        (session,) = scene.node.shares.sessions.of_connection(member.client.connection.line)
        assert (session.group_id, session.member_id) == (GroupId("g"), MemberId("m"))
        assert list(session.partitions) == [(UNKNOWN, 0)]
        assert sum(sizes) >= 2 * PARTITIONS - 1
        assert max(sizes) <= 50

    play(story)


@pytest.mark.interpreted
def test_a_session_with_many_partitions_ends_with_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even with one that is lost before all of them are added."""
    monkeypatch.setattr(sessions, "PARTITIONS_A_STEP", 5)
    monkeypatch.setattr(k78_share_fetch, "PARTITIONS_A_STEP", 5)
    monkeypatch.setattr(request_work, "FIRST_SLICE_SECONDS", -1.0)
    monkeypatch.setattr(request_work, "SLICE_SECONDS", -1.0)

    async def story(scene: Scene) -> None:
        seen: set[int] = set()
        for lost_after in range(0, 200, 7):
            member = scene.member("m")
            asked = asyncio.ensure_future(member.fetch(*range(PARTITIONS), topic_id=UNKNOWN))
            for _ in range(lost_after):
                await asyncio.sleep(0)
            found = scene.node.shares.sessions.of_connection(member.client.connection.line)
            seen |= {len(one.partitions) for one in found}
            member.disconnect()
            asked.cancel()
            for _ in range(300):
                await asyncio.sleep(0)
            assert len(scene.node.shares.sessions) == 0
        assert any(0 < size < PARTITIONS for size in seen)

    play(story)
