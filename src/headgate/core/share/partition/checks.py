"""Whether the acknowledgements of a request for one partition are well formed, whatever was acquired (F6)."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.share.partition.model import AcknowledgementBatch, AcknowledgeType
from headgate.domain.errors import ErrorCode


def check_batches(batches: Iterable[AcknowledgementBatch], *, may_renew: bool) -> ErrorCode:
    """Return INVALID_REQUEST if the request breaks a rule, else NONE.

    Batches that overlap by exactly one offset pass, as in Kafka: the second one is refused when the record's
    state is looked at. `may_renew` is whether the request says that it renews (`is_renew_ack`, version 2).
    """
    end = -1
    greatest = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
    for first, last, types in batches:
        if first > last or first < end:
            return ErrorCode.INVALID_REQUEST
        if not types or (len(types) > 1 and len(types) != last - first + 1):
            return ErrorCode.INVALID_REQUEST
        if min(types) < AcknowledgeType.GAP or max(types) > greatest:
            return ErrorCode.INVALID_REQUEST
        end = last
    return ErrorCode.NONE
