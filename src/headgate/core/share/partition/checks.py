"""Whether the acknowledgements of a request for one partition are well formed, whatever was acquired (F6)."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final

from headgate.core.share.partition.model import AcknowledgementBatch, AcknowledgeType
from headgate.domain.errors import ErrorCode

TYPES_A_STEP: Final = 10_000
"""Maximum of types that are looked at in one step, of one batch or of many."""
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
    looked_at = 0
    for count, (first, last, types) in enumerate(batches, 1):
        if first > last or first < end:
            return ErrorCode.INVALID_REQUEST
        if not types or (len(types) > 1 and len(types) != last - first + 1):
            return ErrorCode.INVALID_REQUEST
        for at in range(0, len(types), TYPES_A_STEP):
            some = types[at : at + TYPES_A_STEP]
            if looked_at + len(some) > TYPES_A_STEP:
                yield
                looked_at = 0
            looked_at += len(some)
            if min(some) < AcknowledgeType.GAP or max(some) > greatest:
                return ErrorCode.INVALID_REQUEST
        if not count % BATCHES_A_STEP:
            yield
            looked_at = 0
        end = last
    return ErrorCode.NONE


def has_renewals(batches: Iterable[AcknowledgementBatch]) -> Generator[None, None, bool]:
    """Return whether a type of these valid batches is RENEW; in steps."""
    looked_at = 0
    for count, (_, _, types) in enumerate(batches, 1):
        for at in range(0, len(types), TYPES_A_STEP):
            some = types[at : at + TYPES_A_STEP]
            if looked_at + len(some) > TYPES_A_STEP:
                yield
                looked_at = 0
            looked_at += len(some)
            if AcknowledgeType.RENEW in some:
                return True
        if not count % BATCHES_A_STEP:
            yield
            looked_at = 0
    return False
