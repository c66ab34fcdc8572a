"""Deliveries of a share group as administrators see and change them (api keys 20007 and 20008)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.server.clients import Client
from tests.server.dead_letters import ACCEPT, DEAD, REJECT, configure, create, letters, letters_settle
from tests.server.share_members import LOCK_MS, Scene, play, started, until

from headgate.core.share.partition.rejections import Cause
from headgate.domain.errors import ErrorCode
from headgate.records.share_batches import DeliveryState
from headgate.wire.extensions.alter_share_deliveries import (
    AlterShareDeliveriesRequest,
    AlterShareDeliveriesResponse,
    OffsetRangeData,
)
from headgate.wire.extensions.describe_share_deliveries import (
    DescribeShareDeliveriesRequest,
    DescribeShareDeliveriesResponse,
)
from headgate.wire.messages import alter_share_group_offsets as altering

AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED
ARCHIVING = DeliveryState.ARCHIVING
RELEASING, ARCHIVAL, REDELIVERY = 0, 1, 2
NONE, NOTHING = ErrorCode.NONE, -1


async def begin(scene: Scene, *values: bytes) -> Client:
    """Make `g` a group with both share-partitions, which begin at 0; append records, and return a client."""
    client = Client(scene.node, scene.listener)
    partitions = [
        altering.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=0)
        for index in (0, 1)
    ]
    topics = [altering.AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=partitions)]
    response = await client.ask(altering.AlterShareGroupOffsetsRequest(group_id="g", topics=topics), 0)
    assert [one.error_code for topic in response.responses for one in topic.partitions] == [NONE, NONE]
    for value in values:
        scene.append(value)
    return client


async def page(client: Client, first: int = -1, most: int = 1000, **fields: Any) -> Any:
    request = DescribeShareDeliveriesRequest(
        group_id=fields.get("group", "g"),
        topic_name=fields.get("topic", "t"),
        partition_index=fields.get("partition", 0),
        first_offset=first,
        max_ranges=most,
    )
    response = await client.ask(request, 0)
    assert isinstance(response, DescribeShareDeliveriesResponse)
    return response


async def known(client: Client) -> list[tuple[int, int, int, int]]:
    """Return first and last offset, state and delivery count of each range."""
    response = await page(client)
    return [(one.first_offset, one.last_offset, one.state, one.delivery_count) for one in response.ranges]


async def alter(
    client: Client, operation: int, *ranges: tuple[int, int], execute: bool = True, **fields: Any
) -> Any:
    request = AlterShareDeliveriesRequest(
        group_id=fields.get("group", "g"),
        topic_name=fields.get("topic", "t"),
        partition_index=fields.get("partition", 0),
        operation=operation,
        is_dry_run=not execute,
        ranges=[OffsetRangeData(first_offset=first, last_offset=last) for first, last in ranges],
    )
    response = await client.ask(request, 0)
    assert isinstance(response, AlterShareDeliveriesResponse)
    return response


def changes(response: Any) -> list[tuple[int, int, int, int]]:
    """Return first and last offset, state before and after of each range."""
    assert response.error_code == NONE, response.error_message
    return [(one.first_offset, one.last_offset, one.before, one.after) for one in response.ranges]


def test_who_has_which_record() -> None:
    """Since when, until when, how often delivered; what waits to be delivered again; why not any more."""

    async def story(scene: Scene) -> None:
        client = await begin(scene, b"a", b"b", b"c", b"d")
        ann = scene.member("ann")
        await ann.fetch(0)
        await ann.acknowledge({0: [(1, 1, [REJECT]), (2, 2, [ACCEPT]), (3, 3, [2])]})
        now = scene.node.system_time()
        response = await page(client)
        assert (response.start_offset, response.end_offset, response.next_offset) == (0, 4, -1)
        assert await known(client) == [
            (0, 0, ACQUIRED, 1),
            (1, 1, ARCHIVED, 1),
            (2, 2, ACKNOWLEDGED, 1),
            (3, 3, AVAILABLE, 1),
        ]
        held, rejected, *others = response.ranges
        assert (held.member_id, rejected.member_id) == ("ann", "ann")
        assert held.locked_until_ms - held.since_ms == LOCK_MS
        assert abs(now - held.since_ms) < 600_000  # the tests' clock is fast
        assert (rejected.cause, rejected.locked_until_ms) == (Cause.REJECTED, -1)
        assert [(one.member_id, one.since_ms) for one in others] == [(None, -1), (None, -1)]

    play(story)


def test_why_a_record_below_the_window_was_rejected() -> None:
    """The start moved over it at once; the last rejections are known all the same."""

    async def story(scene: Scene) -> None:
        client = await begin(scene, b"a", b"b")
        ann = scene.member("ann")
        await ann.fetch(0)
        await ann.acknowledge({0: [(0, 1, [REJECT, ACCEPT])]})
        response = await page(client)
        assert (response.start_offset, response.end_offset) == (2, 2)
        (one,) = response.ranges
        assert (one.first_offset, one.last_offset, one.state) == (0, 0, ARCHIVED)
        assert (one.cause, one.member_id) == (Cause.REJECTED, "ann")

    play(story)


def test_pages() -> None:
    """A page has at most as many ranges as asked for, and tells where the next one begins."""

    async def story(scene: Scene) -> None:
        client = await begin(scene, *[b"x"] * 1_500)
        ann = scene.member("ann")
        await ann.fetch(0, most=1_500)
        await ann.acknowledge({0: [(at, at, [ACCEPT]) for at in range(1, 1_500, 2)]})
        found, offset = [], -1
        while True:
            response = await page(client, offset, 400)
            assert len(response.ranges) <= 400
            found += [(one.first_offset, one.state) for one in response.ranges]
            offset = response.next_offset
            if offset < 0:
                break
        assert found == [(at, ACQUIRED if at % 2 == 0 else ACKNOWLEDGED) for at in range(1_500)]
        assert len((await page(client, most=2**31 - 1)).ranges) == 1_000

    play(story)


def test_a_share_partition_that_nobody_reads() -> None:
    """It is loaded to be described, and given up; one that was never read stays as it is."""

    async def story(scene: Scene) -> None:
        client = await begin(scene, b"a")
        assert await known(client) == []
        response = await page(client)
        assert (response.start_offset, response.end_offset) == (0, 0)
        await until(lambda: not scene.shared())
        await scene.initialize(-1, epoch=9)
        response = await page(client)
        assert (response.start_offset, response.error_code, scene.shared()) == (-1, NONE, [])
        assert await scene.member("ann").fetch(0) == {}  # it begins at the end

    play(story)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group": ""}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"topic": "none"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "__share_group_state"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 2}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_not_there_is_refused(fields: dict[str, Any], error: ErrorCode) -> None:
    """With an error that tells what is wrong, in both APIs."""

    async def story(scene: Scene) -> None:
        client = await begin(scene)
        assert (await page(client, **fields)).error_code == error
        response = await alter(client, ARCHIVAL, (0, 0), **fields)
        assert response.error_code == error
        assert response.error_message

    play(story)


def test_hostile_requests() -> None:
    """Bad ranges and operations are refused as a whole; vast ranges are answered at once."""

    async def story(scene: Scene) -> None:
        client = await begin(scene, b"a")
        await scene.member("ann").fetch(0)
        invalid = ErrorCode.INVALID_REQUEST
        for ranges in ([], [(5, 4)], [(0, 3), (3, 4)], [(4, 4), (1, 1)], [(-1, 0)], [(0, 0)] * 1_001):
            assert (await alter(client, RELEASING, *ranges)).error_code == invalid
        assert (await alter(client, 3, (0, 0))).error_code == invalid
        assert (await alter(client, -1, (0, 0))).error_code == invalid
        assert (await page(client, -2)).error_code == invalid
        assert (await page(client, most=0)).error_code == invalid
        last = 2**63 - 1
        assert (await page(client, last)).ranges == []
        assert changes(await alter(client, ARCHIVAL, (0, last))) == [
            (0, 0, ACQUIRED, ARCHIVED),
            (1, last, NOTHING, NOTHING),
        ]

    play(story)


def test_release() -> None:
    """What a member holds is delivered to another one; the plan says so before; the rest is left alone."""

    async def story(scene: Scene) -> None:
        client = await begin(scene, b"a", b"b", b"c")
        ann, ben = scene.member("ann"), scene.member("ben")
        await ann.fetch(0)
        await ann.acknowledge({0: [(1, 1, [ACCEPT])]})
        plan = await alter(client, RELEASING, (0, 9), execute=False)
        expected = [
            (0, 0, ACQUIRED, AVAILABLE),
            (1, 1, ACKNOWLEDGED, NOTHING),
            (2, 2, ACQUIRED, AVAILABLE),
            (3, 9, NOTHING, NOTHING),
        ]
        assert changes(plan) == expected
        assert all(one.message for one in plan.ranges if one.after == NOTHING)
        assert await ben.fetch(0) == {}
        waiting = asyncio.create_task(ben.fetch(0, wait_ms=100_000))
        assert changes(await alter(client, RELEASING, (0, 9))) == expected
        assert (await waiting)[0].acquired == [(0, 0, 2), (2, 2, 2)]
        late = await ann.acknowledge({0: [(0, 0, [ACCEPT])]})
        assert late == {0: ErrorCode.INVALID_RECORD_STATE}

    play(story)


def test_a_released_record_at_the_limit_is_not_delivered_again() -> None:
    """As if its member had released it."""

    async def story(scene: Scene) -> None:
        client = await begin(scene, b"a")
        ann = scene.member("ann")
        await ann.fetch(0)
        assert changes(await alter(client, RELEASING, (0, 0))) == [(0, 0, ACQUIRED, AVAILABLE)]
        await ann.fetch(0)
        assert changes(await alter(client, RELEASING, (0, 0))) == [(0, 0, ACQUIRED, ARCHIVED)]
        (one,) = (await page(client)).ranges
        assert (one.state, one.cause) == (ARCHIVED, Cause.RELEASED)

    play(story, group_share_delivery_count_limit="2")


def test_archival() -> None:
    """A record is set aside, with a dead letter, and survives a restart in that state."""

    async def story(scene: Scene) -> None:
        create(scene)
        configure(scene, topic=DEAD)
        client = await begin(scene, b"a", b"b")
        ann = scene.member("ann")
        await ann.fetch(0)
        plan = await alter(client, ARCHIVAL, (1, 1), execute=False)
        assert changes(plan) == [(1, 1, ACQUIRED, ARCHIVING)]
        assert changes(await alter(client, ARCHIVAL, (1, 1))) == changes(plan)
        await letters_settle(scene)
        assert [(one.offset, one.message) for one in letters(scene)] == [
            (1, "Offset archived by an administrator.")
        ]
        assert (await ann.acknowledge({0: [(1, 1, [ACCEPT])]}))[0] == ErrorCode.INVALID_RECORD_STATE
        assert changes(await alter(client, ARCHIVAL, (1, 1))) == [(1, 1, ARCHIVED, NOTHING)]
        (_, one) = (await page(client)).ranges
        assert (one.state, one.cause) == (ARCHIVED, Cause.ARCHIVED)

    play(story)


def test_dead_letters_are_delivered_again() -> None:
    """Those of the offsets asked for, also below the start offset, from the first delivery on; not others."""

    async def story(scene: Scene) -> None:
        create(scene)
        configure(scene, topic=DEAD)
        client = await begin(scene, *[b"%d" % number for number in range(6)])
        ann = scene.member("ann")
        await ann.fetch(0)
        types = [ACCEPT, REJECT, ACCEPT, REJECT, REJECT, ACCEPT]
        await ann.acknowledge({0: [(0, 5, types)]})
        await letters_settle(scene)
        scene.append(b"6")
        plan = await alter(client, REDELIVERY, (0, 3), (5, 99), execute=False)
        assert changes(plan) == [(1, 1, NOTHING, AVAILABLE), (3, 3, NOTHING, AVAILABLE)]
        assert (await page(client)).start_offset == 6
        assert changes(await alter(client, REDELIVERY, (0, 3), (5, 99))) == changes(plan)
        assert (await page(client)).start_offset == 1
        (waiting,) = (await alter(client, REDELIVERY, (3, 3))).ranges
        assert waiting.message == "it waits to be delivered"
        assert (await ann.fetch(0))[0].values == [b"1", b"3", b"6"]
        assert await known(client) == [
            (1, 1, ACQUIRED, 1),
            (2, 2, ACKNOWLEDGED, 0),
            (3, 3, ACQUIRED, 1),
            (4, 5, ACKNOWLEDGED, 0),
            (6, 6, ACQUIRED, 1),
        ]
        again = await alter(client, REDELIVERY, (0, 9))
        assert changes(again) == [
            (1, 1, ACQUIRED, NOTHING),
            (3, 3, ACQUIRED, NOTHING),
            (4, 4, ACKNOWLEDGED, NOTHING),
        ]
        assert [one.message for one in again.ranges] == [
            *2 * ["it is being delivered"],
            "it was acknowledged since",
        ]
        await ann.acknowledge({0: [(1, 1, [REJECT]), (3, 3, [ACCEPT]), (6, 6, [ACCEPT])]})
        await letters_settle(scene)
        assert [one.offset for one in letters(scene)] == [1, 3, 4, 1]
        assert (await page(client)).start_offset == 7

    play(story)


def test_redelivery_without_a_dead_letter_topic_is_refused() -> None:
    """With a message that says which setting is missing."""

    async def story(scene: Scene) -> None:
        client = await begin(scene, b"a")
        response = await alter(client, REDELIVERY, (0, 0))
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert "errors.deadletterqueue.topic.name" in response.error_message
        configure(scene, topic=DEAD)
        response = await alter(client, REDELIVERY, (0, 0))
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert DEAD in response.error_message

    play(story)


def test_redelivered_records_survive_a_restart() -> None:
    """Also if nobody fetched them yet; the lag counts them."""

    async def story(scene: Scene) -> None:
        create(scene)
        configure(scene, topic=DEAD)
        client = await begin(scene, b"a", b"b", b"c")
        ann = scene.member("ann")
        await ann.fetch(0)
        await ann.acknowledge({0: [(0, 2, [ACCEPT, REJECT, ACCEPT])]})
        await letters_settle(scene)
        assert changes(await alter(client, REDELIVERY, (1, 1))) == [(1, 1, NOTHING, AVAILABLE)]
        scene.node.close()
        scene.files.kill()
        again = await started(scene.files)
        assert await known(Client(again.node, again.listener)) == [
            (1, 1, AVAILABLE, 0),
            (2, 2, ACKNOWLEDGED, 0),
        ]
        assert (await again.member("ann").fetch(0, wait_ms=1_000))[0].values == [b"b"]
        again.node.close()

    play(story)
