"""The key of an offset: the numbers of its group and topic, and its partition, packed into 64 bits.

    group 24 bits | topic 22 bits | partition 18 bits

A partition that needs more bits is split: its high part and the topic together get a topic number of their
own.
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
    """Return the group numbers of many keys."""
    return (keys >> np.uint64(GROUP_SHIFT)).astype(np.int64)


def topics_of(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the topic numbers of many keys."""
    return (keys >> np.uint64(PARTITION_BITS) & np.uint64(TOPIC_MASK)).astype(np.int64)
