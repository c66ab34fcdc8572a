"""A dead-letter topic beside the topic of a share group, and what is read from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.server.share_members import Scene, until

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId, TopicName
from headgate.log.batch import iterate_records
from headgate.server.shares.letters import DELIVERY_COUNT, GROUP, MESSAGE, OFFSET, PARTITION, TOPIC
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic

DEAD = "dlq.t"
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
REJECT, RELEASE, ACCEPT = 3, 2, 1


class Dead(NamedTuple):
    """One dead letter."""

    offset: int
    delivered: int
    message: str
    key: bytes | None
    value: bytes | None


def configure(scene: Scene, **texts: str) -> None:
    """Set the group's settings; a name is without its prefix `errors.deadletterqueue.`."""
    names = {"topic": "topic.name", "copy": "copy.record.enable"}
    overrides = {f"errors.deadletterqueue.{names[name]}": text for name, text in texts.items()}
    topics = scene.node.topics
    change = topics.group_change("g", overrides)
    assert topics.change_settings([change], scene.node.system_time()) is None


def create(scene: Scene, overrides: Mapping[str, str] = ENABLED, name: str = DEAD, count: int = 1) -> Topic:
    """Create a dead-letter topic."""
    new = NewTopic(name, TopicId((name.encode() * 16)[:16]), count, overrides)
    made = scene.node.topics.create(new, scene.node.system_time())
    assert isinstance(made, Topic), made
    return made


def letters(scene: Scene, partition: int = 0, name: str = DEAD) -> list[Dead]:
    """Return the dead letters that consumers can read."""
    topic = scene.node.topics.by_name(TopicName(name))
    if topic is None:
        return []
    found: list[Dead] = []
    at = 0
    while True:
        read = topic.partition(partition).read(at, 1 << 20, minimum_one=True)
        assert read.error == ErrorCode.NONE
        if not read.records:
            return found
        for offset, record in iterate_records(read.records):
            headers = dict(record.headers)
            assert headers[TOPIC] == b"t"
            assert headers[GROUP] == b"g"
            assert int(headers[PARTITION] or b"") % topic.partition_count == partition
            texts = [(headers[one] or b"").decode() for one in (OFFSET, DELIVERY_COUNT, MESSAGE)]
            found.append(Dead(int(texts[0]), int(texts[1]), texts[2], record.key, record.value))
            at = offset + 1


async def letters_settle(scene: Scene) -> None:
    """Wait until no dead letter is being written, or waits for it."""
    await until(lambda: not any(one.letters.is_waiting or not one.writes.is_done for one in scene.shared()))
