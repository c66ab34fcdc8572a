"""Find the transactions of a log that was opened: from its snapshot and the batches after it, or from all
batches.

Rules:

1. The entries of a .txnindex file are used if the snapshot vouches for them, with a checksum. If any are
   missing or different, all transactions are read from the log, and the files are written again.
2. A damaged batch may begin or end a transaction. If the log has transactions, the last stable offset stays
   before such a batch, and the damage is logged: committed readers never get records whose fate is unknown.
3. A snapshot from before the log's start does not count: the marker of a transaction may be deleted. Nor does
   one from before the end of the compacted part, if it has open transactions.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from headgate.log.damage import WHAT_NEXT
from headgate.log.header import CorruptBatch
from headgate.log.walking import checked_batches
from headgate.topics.transactions import Transactions

if TYPE_CHECKING:
    from headgate.log.log import Log
    from headgate.topics.snapshot import Snapshot

logger = logging.getLogger(__name__)


def load_transactions(log: Log, snapshot: Snapshot | None) -> tuple[Transactions, bool]:
    """Return the transactions at the end of the log, and whether the snapshot was used; note the aborted ones
    with the segments. Raises OSError.
    """
    log.segments.forget_aborted()
    transactions = Transactions()
    is_restored = snapshot is not None and _restore(log, snapshot, transactions)
    if not is_restored:
        log.segments.forget_aborted()
    _read(log, snapshot.end_offset if snapshot is not None and is_restored else 0, transactions)
    # The files are derived: without disk space for them the next start reads the log again.
    with suppress(OSError):
        for segment in log.segments:
            if not is_restored or segment.aborted is not None:
                segment.settle_aborted()
    return transactions, is_restored


def _restore(log: Log, snapshot: Snapshot, transactions: Transactions) -> bool:
    """Take the transactions of a snapshot; return False if it does not agree with the files of the log."""
    segments = {segment.base_offset: segment for segment in log.segments}
    if not segments or snapshot.end_offset <= log.log_start_offset or not snapshot.is_of(log):
        return False
    if snapshot.open_transactions and snapshot.end_offset < log.compacted_to:
        return False
    for base_offset, indexed in snapshot.segments.items():
        segment = segments.get(base_offset)
        if segment is None and base_offset < min(segments):
            continue  # deleted since
        if segment is None or not segment.load_aborted(*indexed):
            logger.warning(
                "an index of aborted transactions is missing or damaged, the log is read",
                extra={"log": log.directory, "index": f"{base_offset:020d}.txnindex"},
            )
            return False
        log.segments.has_aborted = True
    for transaction in snapshot.open_transactions:
        transactions.restore(transaction)
    return True


def _read(log: Log, read_from: int, transactions: Transactions) -> None:
    """Take the batches from `read_from`, or the log's start, on."""
    read_from = max(read_from, log.log_start_offset)
    damaged_at: int | None = None
    has_transactions = len(transactions) > 0 or log.segments.has_aborted
    for segment in log.segments.reaching(read_from):
        end = max(segment.base_offset, read_from)
        try:
            for header, batch in checked_batches(log.batches(end, segment.next_offset)):
                if header.producer_id >= 0 and header.is_transactional:
                    has_transactions = True
                    aborted = transactions.take(header, batch)
                    if aborted is not None:
                        log.segments.note_aborted(aborted)
                end = header.next_offset
        except CorruptBatch as problem:
            if damaged_at is None:
                damaged_at = end
                what = problem.reason
    if has_transactions and damaged_at is not None:
        logger.error(
            "a log with transactions is damaged",
            extra={
                "log": log.directory,
                "offset": damaged_at,
                "reason": what,
                "then": f"committed readers stop there; {WHAT_NEXT}",
            },
        )
        transactions.stable_until = damaged_at
