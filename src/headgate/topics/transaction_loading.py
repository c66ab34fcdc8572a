"""Find the transactions of a log that was opened."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headgate.log.header import CorruptBatch
from headgate.topics.transactions import Transactions

if TYPE_CHECKING:
    from headgate.log.log import Log

logger = logging.getLogger(__name__)


def load_transactions(log: Log) -> Transactions:
    """Return the transactions at the end of the log, and list the aborted ones with its segments. Raises
    OSError.
    """
    transactions = Transactions()
    for segment in log.segments:
        segment.aborted = None
    damaged_at: int | None = None
    has_transactions = False
    for segment in log.segments.reaching(log.log_start_offset):
        end = max(segment.base_offset, log.log_start_offset)
        try:
            for header, batch in log.batches(end, segment.next_offset):
                end = header.next_offset
                if header.producer_id >= 0 and header.is_transactional:
                    has_transactions = True
                    aborted = transactions.take(header, batch)
                    if aborted is not None:
                        log.segments.note_aborted(aborted)
        except CorruptBatch as problem:
            if damaged_at is None:
                damaged_at = end
                logger.error("%s is damaged at offset %d: %s", log.directory, end, problem.reason)
    if has_transactions:
        transactions.stable_until = damaged_at
    return transactions
