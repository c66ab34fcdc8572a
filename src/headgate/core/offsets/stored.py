"""One committed offset, as whoever reads it gets it."""

from __future__ import annotations

from typing import NamedTuple

from headgate.domain.ids import Millis


class StoredOffset(NamedTuple):
    """What is known of one committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: Millis
    expire_timestamp: Millis
