"""Requests of members that name very many partitions do not keep the event loop from other work."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.api.node import drive_request
from tests.server.share_members import Scene, play

from headgate.api import k78_share_fetch, k79_share_acknowledge, share_requests
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId
from headgate.wire.messages import share_acknowledge as acknowledging

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
