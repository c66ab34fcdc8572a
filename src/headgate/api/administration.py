"""Log lines of what administrators change by requests: each has the client that asked.

Topics and groups that come and go are logged where that happens (`server.topic_log`, `server.event_log`),
without the client: a deletion has a line here, too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from headgate.api.contract import Call

logger = logging.getLogger(__name__)

_DEFAULT = "default"
MOST_NAMED = 10
"""Partitions, topics or markers of a request that are named."""


def log_change(call: Call, event: str, fields: Mapping[str, object]) -> None:
    """Log a change that a request made."""
    logger.info(event, extra={**fields, "client": call.client_id, "host": call.client_host})


def log_deletion(call: Call, kind: str, name: str) -> None:
    """Log who deleted a topic or a group."""
    log_change(call, "deletion requested", {kind: name})


def in_words(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the changes of overrides, such as `retention.ms: default -> 1000, flush.ms: 5 -> 10`."""
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(
        f"{name}: {before.get(name, _DEFAULT)} -> {after.get(name, _DEFAULT)}" for name in changed
    )
