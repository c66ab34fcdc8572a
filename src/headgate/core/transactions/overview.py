"""What the metrics tell of a shard's transactions, kept up to date with every record."""

from __future__ import annotations

from headgate.core.transactions.states import ONGOING, PREPARED
from headgate.domain.ids import TopicName
from headgate.records.transactions import TransactionMetadata, TransactionState


class TransactionOverview:
    """The ids of a shard by state, and its open transactions by producer id."""

    __slots__ = ("_by_state", "_undecided", "timed_out")

    def __init__(self) -> None:
        self._by_state = [0] * len(TransactionState)
        self._undecided: dict[int, TransactionMetadata] = {}
        """Open and prepared transactions by producer id."""
        self.timed_out = 0
        """Number of transactions that were aborted because of their timeout."""

    def note(self, before: TransactionMetadata | None, after: TransactionMetadata | None) -> None:
        """Take a transition of an id; None for an id that is not known."""
        if before is not None:
            self._by_state[before.state] -= 1
            self._undecided.pop(before.producer_id, None)
        if after is not None:
            self._by_state[after.state] += 1
            if after.state is ONGOING or after.state in PREPARED:
                self._undecided[after.producer_id] = after

    def count(self, state: TransactionState) -> int:
        """Return the number of ids in a state."""
        return self._by_state[state]

    def will_end(self, producer_id: int, topic: TopicName, partition: int) -> bool:
        """Return whether a transaction of the producer will get a marker in the partition."""
        one = self._undecided.get(producer_id)
        return one is not None and partition in one.partitions.get(topic, ())
