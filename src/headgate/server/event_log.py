"""The log lines of the events of shards."""

from __future__ import annotations

import logging

from headgate.core.events import Event, GroupExpired, OffsetsExpired

logger = logging.getLogger(__name__)


def log_event(event: Event) -> None:
    """Log one event."""
    match event:
        case OffsetsExpired(group_id, offset_count, reason, retention_ms):
            logger.info(
                "offsets expired",
                extra={
                    "group": group_id,
                    "offsets": offset_count,
                    "reason": str(reason),
                    "retention_ms": retention_ms,
                },
            )
        case GroupExpired(group_id):
            logger.info("group removed", extra={"group": group_id, "reason": "its last offset expired"})
