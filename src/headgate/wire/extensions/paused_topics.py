"""The parts that PausePartitions (20001) and ResumePartitions (20002) share: topics with partitions."""

from __future__ import annotations

from typing import Annotated

from headgate.wire.message import EMPTY, ZERO_UUID, Struct


class PartitionToChange(Struct):
    """In `TopicToChange.partitions`."""

    partition_index: Annotated[int, "int32"] = 0


class TopicToChange(Struct):
    """A topic and those of its partitions that are to be paused or resumed."""

    name: Annotated[str, "string"] = ""
    partitions: Annotated[list[PartitionToChange], "[]struct"] = EMPTY


class ChangedPartition(Struct):
    """In `ChangedTopic.partitions`.

    `state`: 0 the partition is not paused, 1 it is and a member still owns it, 2 it is and nobody owns it.
    """

    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    state: Annotated[int, "int8 1+"] = 0


class ChangedTopic(Struct):
    """A topic as it was asked for, with the outcome of each partition; `name` is the document's TopicName."""

    name: Annotated[str, "string"] = ""
    topic_id: Annotated[bytes, "uuid"] = ZERO_UUID
    partitions: Annotated[list[ChangedPartition], "[]struct"] = EMPTY
