"""The states of shards before and after a start, and with and without a checkpoint.

A shard that was loaded with a checkpoint is compared with one that is loaded from the log alone. The log is
read at once, so the lives are the same as without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.core.harness import durable_state
from tests.core.share.state_life import durable

from headgate.core.contract import FinishesLater, finish
from headgate.core.shard import GroupShard
from headgate.core.share.state.shard import ShareStateShard
from headgate.core.transactions.shard import TransactionShard
from headgate.log.walking import checked_batches
from headgate.runtime.local_log import LocalLog
from headgate.runtime.log_slices import slices
from headgate.runtime.shard_loading import LogLoading
from headgate.runtime.shard_start import ShardStart


@contextmanager
def compared_replays(counts: Counter[str], report: Callable[[str], None]) -> Iterator[None]:
    """Report a checkpoint that gives another state than the log."""
    apply_log = ShardStart._apply_log

    async def and_compare(start: ShardStart[Any]) -> None:
        await apply_log(start)
        if start.checkpoint_position:
            counts["replays compared"] += 1
            found, expected = _state(start.shard), _state(_from_the_log_alone(start))
            is_right = (
                may_become(found, expected) if isinstance(start.shard, GroupShard) else found == expected
            )
            if not is_right:
                told = "; ".join(differences(found, expected))
                report(
                    f"{start._log.name} is another with its checkpoint up to {start.checkpoint_position} "
                    f"than from the log alone: {told}"
                )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ShardStart, "_apply_log", and_compare)
        yield


def _from_the_log_alone(start: ShardStart[Any]) -> Any:
    shard = start._new_shard()
    assert isinstance(start._log, LocalLog)
    log = start._log.log
    assert log is not None
    loading = LogLoading(shard, start._records)
    for batches in slices(checked_batches(log.batches(log.log_start_offset, start.position))):
        for _ in loading.steps(batches):
            pass
    loading.torn()
    return shard


def _state(shard: Any) -> Any:
    """Return what the records make of a shard of any kind."""
    if isinstance(shard, FinishesLater):
        for _ in finish(shard.unfinished):
            pass
    match shard:
        case GroupShard():
            return durable_state(shard)
        case TransactionShard():
            return shard.by_id
        case ShareStateShard():
            return durable(shard)  # in their order, by which their log is pruned
    raise TypeError(f"no state of {type(shard).__name__} is known")


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Return the differences between two states, part by part."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            if before.get(key) != after.get(key):
                yield from differences(before.get(key), after.get(key), f"{where}[{key!r}]")
    elif type(before) is tuple and type(after) is tuple and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            if one != other:
                yield from differences(one, other, f"{where}[{index}]")
    else:
        yield f"{where} was {before!r} and is {after!r}"


def may_become(before: Any, after: Any) -> bool:
    """Return whether a shard may have the second state after a start. A group that was known only by
    tombstones is known until compaction has dropped them.
    """
    offsets, known, *others = before
    offsets_after, known_after, *others_after = after
    with_offsets = {group_id for group_id, _, _ in offsets}
    is_known = known_after <= known and not (known - known_after) & with_offsets
    return bool((offsets, others) == (offsets_after, others_after) and is_known)
