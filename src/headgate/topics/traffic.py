"""Bytes that producers wrote to a topic and consumers read from it, since the start of the server."""

from __future__ import annotations


class Traffic:
    """The counters of one topic, in bytes of record batches."""

    __slots__ = ("fetched_bytes", "produced_bytes")

    def __init__(self) -> None:
        self.produced_bytes = 0
        self.fetched_bytes = 0
