"""How connections and logs share the file descriptors of the process.

A log gives its descriptor back when another one needs it, a connection does not. The last ones are therefore
reserved for logs: for those that stay open between requests, and for files that are open for a moment only,
such as directories that are synced.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Final

MOST_FOR_LOGS: Final = 640
"""Descriptors for logs, at most half of all."""
_SHARE_LEFT_OPEN: Final = 0.8
_OPEN_AT_START: Final = 32
"""Where the system does not say it."""


def most_connections() -> int:
    """Return how many connections leave enough descriptors for logs and for what the process has open now."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(most - _for_logs(most) - _open_now(), 1)


def first_for_a_moment() -> int:
    """Return the first descriptor that no connection may have, so that files can be opened for a moment."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most - _for_logs(most) + most_open_logs()


def most_open_logs() -> int:
    """Return how many logs may have open files between requests."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return int(_for_logs(most) * _SHARE_LEFT_OPEN)


def _open_now() -> int:
    try:
        return len(list(Path("/proc/self/fd").iterdir()))
    except OSError:
        return _OPEN_AT_START


def _for_logs(most: int) -> int:
    return min(most // 2, MOST_FOR_LOGS)
