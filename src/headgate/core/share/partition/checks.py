"""Whether the acknowledgements of a request for one partition are well formed, whatever was acquired (F6)."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

from headgate.core.share.partition.model import AcknowledgementBatch, AcknowledgeType
from headgate.domain.errors import ErrorCode

TYPES_A_STEP: Final = 10_000
BATCHES_A_STEP: Final = 1_000


def check_batches(
    batches: Iterable[AcknowledgementBatch], *, may_renew: bool
) -> Generator[None, None, ErrorCode]:
    """Return INVALID_REQUEST if the request breaks a rule, else NONE; in steps.

    Batches that overlap by exactly one offset pass, as in Kafka: the second one is refused when the record's
    state is looked at. `may_renew` is whether the request says that it renews (`is_renew_ack`, version 2).
    """
    end = -1
    greatest = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
    for count, (first, last, types) in enumerate(batches, 1):
        if first > last or first < end:
            return ErrorCode.INVALID_REQUEST
        if not types or (len(types) > 1 and len(types) != last - first + 1):
            return ErrorCode.INVALID_REQUEST
        for at in range(0, len(types), TYPES_A_STEP):
            some = types[at : at + TYPES_A_STEP]
            if min(some) < AcknowledgeType.GAP or max(some) > greatest:
                return ErrorCode.INVALID_REQUEST
            if at:
                yield
        if not count % BATCHES_A_STEP:
            yield
        end = last
    return ErrorCode.NONE
