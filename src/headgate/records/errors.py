"""What can be wrong with a record's bytes."""

from __future__ import annotations


class MalformedRecord(ValueError):
    """Bytes that are not the record their key type and version claim; the message says where and why."""
