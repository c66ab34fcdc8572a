"""How far a batch reads: to the ends of the logs, or less with `maxOffsetsPerTrigger`."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.domain.ids import TopicPartition


def limited(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], most: int | None
) -> dict[TopicPartition, int]:
    """Return how far to read each partition: up to `ends`, at most `most` offsets in all (None: no limit).

    Every partition that has something gets one offset, so that none waits for the others; the rest of the
    limit is divided in proportion to what is there. If there are more such partitions than offsets, they take
    turns: the sum of the starts tells whose turn it is, because it grows by `most` with each batch.
    """
    there = {where: max(ends[where] - start, 0) for where, start in starts.items()}
    if most is None or sum(there.values()) <= most:
        return {where: starts[where] + count for where, count in there.items()}
    waiting = sorted(where for where, count in there.items() if count)
    turn = sum(starts.values()) % len(waiting)
    first = (waiting[turn:] + waiting[:turn])[:most]
    shares = dict.fromkeys(starts, 0) | dict.fromkeys(first, 1)
    more = _in_proportion({where: there[where] - 1 for where in waiting}, most - len(first))
    return {where: starts[where] + share + more.get(where, 0) for where, share in shares.items()}


def _in_proportion(there: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    """Divide `most` in proportion to what is there, which is at least as much."""
    total = sum(there.values())
    if not total:
        return {}
    shares = {where: count * most // total for where, count in there.items()}
    left = most - sum(shares.values())
    for where in sorted(there, key=lambda each: there[each] * most % total, reverse=True)[:left]:
        shares[where] += 1
    return shares
