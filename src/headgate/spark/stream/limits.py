"""How far a batch reads: to the ends of the logs, or less with `maxOffsetsPerTrigger`."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.domain.ids import TopicPartition


def limited(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int | None
) -> dict[TopicPartition, int]:
    """Return how far to read each partition: up to `ends`, at most `most` offsets in all (None: no limit).

    The limit is divided in proportion to what is there, as in Spark's Kafka source; while there is any, at
    least one offset is read.
    """
    there = {where: max(ends[where] - start, 0) for where, start in starts.items()}
    total = sum(there.values())
    if most is None or total <= most:
        return {where: starts[where] + count for where, count in there.items()}
    shares = {where: count * most // total for where, count in there.items()}
    left = most - sum(shares.values())
    for where in sorted(there, key=lambda each: there[each] * most % total, reverse=True)[:left]:
        shares[where] += 1
    return {where: starts[where] + share for where, share in shares.items()}
