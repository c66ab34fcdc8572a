"""The positions of a stream in its partitions, as values and as the JSON in Spark's checkpoint.

The end of a batch has for each partition the offset at which the batch starts reading (`s`), the offset at
which it ends (`o`), and the epoch (`e`). A batch thus contains its own start: after a rewind it differs from
the end of the batch before. Spark compares offsets as text, so all keys are sorted.

The epoch is the member epoch under which the stream took the offset from the group. It rises when the stream
starts to read from an offset that someone else committed: rows that are delivered again have a higher epoch.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headgate.domain.ids import TopicId, TopicName, TopicPartition

_MARK = "headgate-spark"


class Position(NamedTuple):
    """The part of one partition in a batch: offsets from `start` up to but not including `end`."""

    start: int
    end: int
    epoch: int

    def at_end(self) -> Position:
        """Return the empty part that follows."""
        return Position(self.end, self.end, self.epoch)


class ForeignOffsets(ValueError):
    """A checkpoint has offsets that no stream of a group wrote."""


@dataclass(frozen=True)
class StreamOffsets:
    """The end of a batch. `stream_id` is the same for all batches of a checkpoint."""

    stream_id: str
    topic_ids: Mapping[TopicName, TopicId] = field(default_factory=dict)
    positions: Mapping[TopicPartition, Position] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the offsets for Spark."""
        topics: dict[str, Any] = {}
        for (topic, partition), (start, end, epoch) in sorted(self.positions.items()):
            if topic not in topics:
                topic_id = self.topic_ids.get(topic)
                topics[topic] = {"id": topic_id and str(uuid.UUID(bytes=topic_id)), "partitions": {}}
            topics[topic]["partitions"][str(partition)] = {"e": epoch, "o": end, "s": start}
        return {"stream": self.stream_id, "topics": topics}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StreamOffsets:
        """Return the offsets that Spark stored. Raises `ForeignOffsets` if another source wrote them."""
        try:
            ids = {TopicName(name): topic["id"] for name, topic in data["topics"].items()}
            positions = {
                TopicPartition(TopicName(name), int(partition)): _position(each)
                for name, topic in data["topics"].items()
                for partition, each in topic["partitions"].items()
            }
            return cls(
                data["stream"],
                {name: TopicId(uuid.UUID(text).bytes) for name, text in ids.items() if text},
                positions,
            )
        except (KeyError, TypeError, AttributeError, ValueError) as problem:
            raise ForeignOffsets(
                f"the checkpoint is damaged, or has offsets of another source: {data}; begin with a new one. "
                "After Spark's Kafka source give it startingOffsets: the last line of offsets/N in the old "
                "checkpoint, N being the newest file in commits; by default it starts at the ends of the logs"
            ) from problem


def _position(stored: Mapping[str, int]) -> Position:
    """Return the part of a partition as it is stored. Raises KeyError, TypeError, ValueError."""
    position = Position(stored["s"], stored["o"], stored["e"])
    if not 0 <= position.start <= position.end:
        raise ValueError(f"no part of a log: {position}")
    return position


def metadata_of(epoch: int, first: int, left: int | None = None) -> str:
    """Return the metadata of a commit by a stream: it tells the stream's commits from those of others.

    `first` is the offset at which the epoch began; `left` that at which the stream was before, for the commit
    with which it takes over the offset of a rewind.
    """
    return f"{_MARK} {epoch} {first}" + ("" if left is None else f" {left}")


def epoch_in(metadata: str) -> int | None:
    """Return the epoch in the metadata of a commit; None if no stream made the commit."""
    numbers = _numbers_in(metadata)
    return numbers[0] if numbers else None


def first_in(metadata: str) -> int | None:
    """Return the offset at which the epoch began; None if no stream made the commit, or an early one."""
    numbers = _numbers_in(metadata)
    return numbers[1] if len(numbers) > 1 else None


def left_in(metadata: str) -> int | None:
    """Return the offset at which a stream was before a rewind that it takes over; None in other commits."""
    numbers = _numbers_in(metadata)
    return numbers[2] if len(numbers) > 2 else None


def _numbers_in(metadata: str) -> list[int]:
    mark, *texts = metadata.split(" ")
    is_ours = mark == _MARK and all(text.isascii() and text.isdecimal() for text in texts)
    return [int(text) for text in texts] if is_ours else []
