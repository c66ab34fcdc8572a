"""Lists the transactional ids of a shard, some at a time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from headgate.core.transactions.commands import ListedTransactions, ListTransactions, TransactionFilter
from headgate.domain.ids import Millis
from headgate.records.transactions import TransactionMetadata

LOOKED_AT_ONCE: Final = 250


def listed(
    by_id: Mapping[str, TransactionMetadata], command: ListTransactions, now: Millis
) -> ListedTransactions:
    """Return the next ids of the list, which has all ids that were known when it began and still are.

    `now`: system time.
    """
    rest = iter(list(by_id)) if command.rest is None else command.rest
    some = list(islice(rest, LOOKED_AT_ONCE))
    found = (by_id[transactional_id] for transactional_id in some if transactional_id in by_id)
    wanted = tuple(one for one in found if _is_wanted(one, command.wanted, now))
    return ListedTransactions(wanted, rest if len(some) == LOOKED_AT_ONCE else None)


def _is_wanted(one: TransactionMetadata, wanted: TransactionFilter, now: Millis) -> bool:
    if wanted.producer_ids and one.producer_id not in wanted.producer_ids:
        return False
    if wanted.are_states_given and one.state not in wanted.states:
        return False
    return wanted.longer_than_ms < 0 or now - one.start_timestamp > wanted.longer_than_ms
