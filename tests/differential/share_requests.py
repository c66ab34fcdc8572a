"""The requests that scenarios about share groups are made of, and the consumers that send them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.differential.record_requests import batch, produce
from tests.differential.requests import GROUP, SET, alter_configs, describe_configs
from tests.differential.script import Script, Topic
from tests.differential.wire import Request, Tree

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
LONG_MS = 8_000
"""How long a fetch waits that is to be answered before."""

Batches = Sequence[tuple[int, int, Sequence[int]]]
"""First and last offset, and the types of an acknowledgement."""
Acknowledgements = Mapping[int, Batches]
"""By partition."""


def beat(group: str, member: str, epoch: int, *topics: str, **more: Any) -> Request:
    """ShareGroupHeartbeat."""
    values = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "subscribed_topic_names": list(topics) or None,
    }
    return Request("share_group_heartbeat", 1, values | more)


def describe(*groups: str, with_operations: bool = False) -> Request:
    """ShareGroupDescribe."""
    values = {"group_ids": list(groups), "include_authorized_operations": with_operations}
    return Request("share_group_describe", 1, values)


def offsets(group: str, topics: Mapping[str, Sequence[int]] | None = None, version: int = 1) -> Request:
    """DescribeShareGroupOffsets; None asks for all topics."""
    asked = None
    if topics is not None:
        asked = [{"topic_name": name, "partitions": list(indexes)} for name, indexes in topics.items()]
    values = {"groups": [{"group_id": group, "topics": asked}]}
    return Request("describe_share_group_offsets", version, values)


def alter(group: str, topics: Mapping[str, Mapping[int, int]]) -> Request:
    """AlterShareGroupOffsets: topic -> partition -> start offset."""
    altered = [
        {
            "topic_name": name,
            "partitions": [{"partition_index": one, "start_offset": start} for one, start in starts.items()],
        }
        for name, starts in topics.items()
    ]
    return Request("alter_share_group_offsets", 0, {"group_id": group, "topics": altered})


def delete(group: str, *topics: str) -> Request:
    """DeleteShareGroupOffsets."""
    values = {"group_id": group, "topics": [{"topic_name": name} for name in topics]}
    return Request("delete_share_group_offsets", 0, values)


def is_assigned(answer: Tree) -> bool:
    """Whether a heartbeat was answered with partitions."""
    return bool(answer["assignment"] and answer["assignment"]["topic_partitions"])


def _partition(index: int, batches: Batches) -> Tree:
    given = [
        {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
        for first, last, types in batches
    ]
    return {"partition_index": index, "acknowledgement_batches": given}


def _topics(topics: Mapping[uuid.UUID, Acknowledgements]) -> list[Tree]:
    return [
        {"topic_id": topic, "partitions": [_partition(*one) for one in partitions.items()]}
        for topic, partitions in topics.items()
    ]


def share_fetch(
    group: str | None,
    member: str,
    epoch: int,
    topics: Mapping[uuid.UUID, Acknowledgements],
    version: int = 2,
    **more: Any,
) -> Request:
    """ShareFetch of partitions, each with its acknowledgements; does not wait unless told."""
    forgotten = more.pop("forgotten", {})
    values = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": epoch,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 500,
        "batch_size": 500,
        "share_acquire_mode": BATCH_OPTIMIZED,
        "is_renew_ack": False,
        "topics": _topics(topics),
        "forgotten_topics_data": [
            {"topic_id": topic, "partitions": list(indexes)} for topic, indexes in forgotten.items()
        ],
    }
    return Request("share_fetch", version, values | more)


def share_acknowledge(
    group: str | None,
    member: str,
    epoch: int,
    topics: Mapping[uuid.UUID, Acknowledgements],
    version: int = 2,
    **more: Any,
) -> Request:
    """ShareAcknowledge."""
    values = {
        "group_id": group,
        "member_id": member,
        "share_session_epoch": epoch,
        "is_renew_ack": False,
        "topics": _topics(topics),
    }
    return Request("share_acknowledge", version, values | more)


class Consumer:
    """A member of the script's group that fetches and acknowledges, in sessions of one topic."""

    def __init__(self, ask: Script, topic: Topic, member: str = "m", **every_time: Any) -> None:
        """`every_time` is part of each fetch; `partitions` are those that a session begins with."""
        self._ask = ask
        self.topic = topic
        self.member = member
        self.epoch = 0
        self._partitions = every_time.pop("partitions", (0,))
        self._every_time = every_time

    def join(self) -> None:
        """Become a member, and wait for the assignment; no part of the story."""
        self._ask.wait_until(beat(self._ask.group, self.member, 0, self.topic.name), is_assigned, self.member)

    def fetch_request(self, acknowledgements: Acknowledgements | None = None, **more: Any) -> Request:
        """Return the next fetch of the session."""
        partitions = dict(acknowledgements or {})
        if self.epoch == 0:
            partitions = {index: partitions.get(index, ()) for index in self._partitions}
        topics = {self.topic.id: partitions} if partitions else {}
        epoch = more.pop("epoch", self.epoch)
        return share_fetch(self._ask.group, self.member, epoch, topics, **(self._every_time | more))

    def fetch(self, acknowledgements: Acknowledgements | None = None, note: str = "", **more: Any) -> Tree:
        """Fetch, and acknowledge with it."""
        answer = self._ask(self.fetch_request(acknowledgements, **more), self.member, note)
        return self.advance(answer)

    def wait(self, **more: Any) -> Tree:
        """Fetch, and wait until there is something."""
        return self.fetch(max_wait=LONG_MS, **more)

    def acknowledge(self, *batches: Any, note: str = "", index: int = 0, **more: Any) -> Tree:
        """Acknowledge batches of one partition by a request of its own."""
        epoch = more.pop("epoch", self.epoch)
        request = share_acknowledge(
            self._ask.group, self.member, epoch, {self.topic.id: {index: batches}}, **more
        )
        return self.advance(self._ask(request, self.member, note))

    def close(self, *batches: Any) -> Tree:
        """End the session with what is to be acknowledged."""
        answer = self.acknowledge(*batches, epoch=-1)
        self.epoch = 0
        return answer

    def leave(self) -> None:
        """Leave the group; no part of the story."""
        self._ask.wait_until(beat(self._ask.group, self.member, -1), lambda answer: True, self.member)

    def advance(self, answer: Tree) -> Tree:
        """Take the next epoch, if this one was accepted."""
        if answer.get("error_code") == "none":
            self.epoch += 1
        return answer


def configure(ask: Script, **settings: str) -> None:
    """Set settings of the script's group; underscores stand for dots. Begins at the earliest record."""
    values = {"auto_offset_reset": "earliest"} | settings
    changes = {f"share.{name.replace('_', '.')}": (SET, value) for name, value in values.items()}
    ask(alter_configs(GROUP, ask.group, changes))
    wanted = {name: value for name, (_, value) in changes.items()}
    ask.wait_until(describe_configs(GROUP, ask.group, list(wanted)), lambda answer: _has(answer, wanted))


def _has(answer: Tree, wanted: Mapping[str, str]) -> bool:
    (result,) = answer["results"]
    return {one["name"]: one["value"] for one in result["configs"]} == wanted


def write(ask: Script, topic: Topic, *sizes: int, index: int = 0) -> None:
    """Write a batch of so many records for each size."""
    for size in sizes:
        values = [f"{number}" for number in range(size)]
        ask(produce(topic, {index: batch(*values)}))


def work(ask: Script, *sizes: int, settings: Mapping[str, str] | None = None) -> Consumer:
    """Return a consumer in a group that begins with batches of so many records, and the consumer's topic."""
    topic = ask.topic()
    configure(ask, **(settings or {}))
    write(ask, topic, *sizes)
    consumer = Consumer(ask, topic)
    consumer.join()
    return consumer
