"""The check of a segment's .txnindex file: it has each transaction that a marker in the segment aborts.

The transactions are found in the batches. Where records may have been removed, by compaction or before the
log's start, the file may have more than these: their batches are gone, and their first offsets are smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headgate.inspect.reading import FoundBatch
from headgate.log.transaction_index import AbortedTransaction, AbortedTransactions
from headgate.topics.transactions import Transactions


@dataclass(slots=True)
class TransactionCheck:
    """The transactions of a log, while its batches are read in order; a new segment begins with `begin`."""

    first_offset: int
    """The first offset in the log's files."""
    compacted_to: int
    """Below this offset compaction can have removed records."""
    transactions: Transactions = field(default_factory=Transactions)
    _aborted: list[AbortedTransaction] = field(default_factory=list)

    def begin(self) -> None:
        """Begin the next segment."""
        self._aborted = []

    def pass_batch(self, found: FoundBatch) -> None:
        """Take a sound batch. Raises CorruptBatch for a marker that cannot be decoded."""
        if found.header.producer_id >= 0 and found.header.is_transactional:
            aborted = self.transactions.take(found.header, found.data)
            if aborted is not None:
                self._aborted.append(aborted)

    def problems(self, data: bytes | None, *, is_settled: bool) -> list[str]:
        """Return what is wrong with the file of the segment; None for a missing file.

        A file that is not settled may lack entries: those since the last time that it was written.
        """
        if data is None:
            return ["the index is missing"] if self._aborted and is_settled else []
        entries = AbortedTransactions.from_bytes(data)
        if entries is None:
            return [f"its {len(data)} bytes are no index of aborted transactions"]
        found = {one.last_offset: one for one in entries}
        expected = {one.last_offset: one for one in self._aborted}
        problems = [
            f"producer {one.producer_id} aborted the transaction from {one.first_offset} to {at}: it is "
            + ("not in the index" if at not in found else f"{found[at]} in the index")
            for at, one in expected.items()
            if not (self._agree(found[at], one) if at in found else not is_settled)
        ]
        problems += [
            f"the index has {one}, but there is no such transaction"
            for at, one in found.items()
            if at not in expected and not self._may_be_removed(one)
        ]
        return problems

    def _agree(self, entry: AbortedTransaction, one: AbortedTransaction) -> bool:
        if entry == one:
            return True
        is_shorter = self._may_be_removed(entry) and entry.first_offset <= one.first_offset
        return is_shorter and entry.producer_id == one.producer_id

    def _may_be_removed(self, entry: AbortedTransaction) -> bool:
        return entry.first_offset < max(self.first_offset, self.compacted_to)
