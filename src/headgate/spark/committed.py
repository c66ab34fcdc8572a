"""The batches of a fetch that readers of committed records get: those of aborted transactions are left out.

A response with `read_committed` ends before the first open transaction, and lists the aborted transactions
that it has batches of. A transaction's batches are those of its producer from its first offset to its marker.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headgate.client.cluster import AbortedTransaction
from headgate.log.batch_scan import Batches, only


def committed_only(batches: Batches, aborted: Sequence[AbortedTransaction]) -> Batches:
    """Return the batches, in offset order, without those of the aborted transactions of their response."""
    if not aborted:
        return batches
    waiting = sorted(aborted, reverse=True)
    active: set[int] = set()
    wanted = np.ones(len(batches), dtype=np.bool_)
    of_interest = np.flatnonzero(batches.is_transactional)
    for row, last, producer_id, is_marker in zip(
        of_interest.tolist(),
        batches.last_offset[of_interest].tolist(),
        batches.producer_id[of_interest].tolist(),
        batches.is_control[of_interest].tolist(),
        strict=True,
    ):
        while waiting and waiting[-1].first_offset <= last:
            active.add(waiting.pop().producer_id)
        if is_marker:
            active.discard(producer_id)
        elif producer_id in active:
            wanted[row] = False
    return only(batches, wanted)
