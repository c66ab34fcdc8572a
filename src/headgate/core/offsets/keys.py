"""The key of an offset: its group's number, its topic's and its partition, packed into 64 bits.

    group 24 bits | topic 22 bits | partition 18 bits

A partition that needs more bits is taken apart: its upper part goes with the topic, as a topic of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_TOPIC_BITS = 22
PARTITION_BITS = 18
GROUP_SHIFT = _TOPIC_BITS + PARTITION_BITS
MOST_GROUPS = 1 << (64 - GROUP_SHIFT)
MOST_TOPICS = 1 << _TOPIC_BITS
TOPIC_MASK = MOST_TOPICS - 1
PARTITION_MASK = (1 << PARTITION_BITS) - 1


def groups_of(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The groups' numbers of many keys."""
    return (keys >> np.uint64(GROUP_SHIFT)).astype(np.int64)


def topics_of(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The topics' numbers of many keys."""
    return (keys >> np.uint64(PARTITION_BITS) & np.uint64(TOPIC_MASK)).astype(np.int64)


def renumbered(
    keys: NDArray[np.uint64], new_groups: NDArray[np.int64], new_topics: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """The keys with other numbers for their groups and topics: `new_groups[old]` is the new one."""
    groups = new_groups[groups_of(keys)].astype(np.uint64) << np.uint64(GROUP_SHIFT)
    topics = new_topics[topics_of(keys)].astype(np.uint64) << np.uint64(PARTITION_BITS)
    partitions = keys & np.uint64(PARTITION_MASK)
    result: NDArray[np.uint64] = groups | topics | partitions
    return result


def new_numbers(is_kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of each thing that is kept, counted without the others; theirs mean nothing."""
    return np.cumsum(is_kept) - 1
