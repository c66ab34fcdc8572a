"""Whether the acknowledgements of a request for one partition are well formed, whatever was acquired (F6)."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final, NamedTuple

from headgate.core.share.partition.model import AcknowledgementBatch, AcknowledgeType
from headgate.domain.errors import ErrorCode

TYPES_A_STEP: Final = 10_000
"""Maximum of types that are looked at in one step, of one batch or of many."""
BATCHES_A_STEP: Final = 1_000


class Checked(NamedTuple):
    """What is known of acknowledgements before anybody looks at the records."""

    error: ErrorCode
    """INVALID_REQUEST if they break a rule."""
    has_renewals: bool = False
    """Whether a type is RENEW."""


def check_batches(
    batches: Iterable[AcknowledgementBatch], *, may_renew: bool
) -> Generator[None, None, Checked]:
    """Return whether the request breaks a rule, and whether it renews; in steps.

    Batches that overlap by exactly one offset pass, as in Kafka: the second one is refused when the record's
    state is looked at. `may_renew` is whether the request says that it renews (`is_renew_ack`, version 2).
    """
    end = -1
    greatest = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
    looked_at = 0
    most_found = 0
    for count, (first, last, types) in enumerate(batches, 1):
        if first > last or first < end:
            return Checked(ErrorCode.INVALID_REQUEST)
        if not types or (len(types) > 1 and len(types) != last - first + 1):
            return Checked(ErrorCode.INVALID_REQUEST)
        for at in range(0, len(types), TYPES_A_STEP):
            some = types[at : at + TYPES_A_STEP]
            if looked_at + len(some) > TYPES_A_STEP:
                yield
                looked_at = 0
            looked_at += len(some)
            most = max(some)
            if min(some) < AcknowledgeType.GAP or most > greatest:
                return Checked(ErrorCode.INVALID_REQUEST)
            if most > most_found:
                most_found = most
        if not count % BATCHES_A_STEP:
            yield
            looked_at = 0
        end = last
    return Checked(ErrorCode.NONE, most_found == AcknowledgeType.RENEW)
