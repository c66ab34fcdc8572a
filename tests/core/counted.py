"""Partitions that count the work on them: a test of how work grows needs no clock."""

from __future__ import annotations


class Index(int):
    """A partition that counts how often a dictionary or set takes it in or looks for it."""

    looks = 0

    def __hash__(self) -> int:
        type(self).looks += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)
