"""One committed offset, as readers get it."""

from __future__ import annotations

from typing import NamedTuple

from headgate.domain.ids import Millis


class StoredOffset(NamedTuple):
    """A committed offset with its leader epoch, metadata and times."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: Millis
    expire_timestamp: Millis
