"""The partitions that a command names: each exists, or the message has what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.admin import Admin, RequestRefused, TopicPartition
from headgate.domain.errors import ErrorCode
from headgate.domain.wording import did_you_mean


def partitions_of(admin: Admin, topic: str, numbers: Iterable[int] | None = None) -> list[TopicPartition]:
    """Return these partitions of a topic; None: all. Raises `RequestRefused` if one does not exist."""
    try:
        there = admin.partitions_of(topic)
    except RequestRefused as refused:
        if refused.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise RequestRefused(f"topic {topic}", refused.code, did_you_mean(topic, admin.topics())) from None
    if numbers is None:
        return there
    by_number = {partition.partition: partition for partition in there}
    for number in numbers:
        if number not in by_number:
            raise RequestRefused(
                f"{topic}-{number}",
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic} has the partitions 0 to {len(there) - 1}",
            )
    return [by_number[number] for number in numbers]
