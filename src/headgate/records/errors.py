"""The error of the record codec."""

from __future__ import annotations


class MalformedRecord(ValueError):
    """Bytes that do not match the format of their key type and version. The message says where and why."""
