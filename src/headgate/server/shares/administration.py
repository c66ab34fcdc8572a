"""What administrators see and change of the deliveries of share-partitions, in steps.

A share-partition that no member fetches is loaded for it. One that no member ever fetched has no deliveries,
and is not loaded: its first member chooses where it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeVar

from headgate.api.contract import RequestSteps
from headgate.api.shard_replies import reply_to
from headgate.core.share.deliveries import (
    MOST_RANGES,
    Alteration,
    AlterationResult,
    DeliveryPage,
    DeliveryRange,
    OffsetRange,
)
from headgate.core.share.partition.model import DeliveryView
from headgate.core.share.partition.rejections import Rejection
from headgate.core.share.partition.share_partition import SharePartition
from headgate.core.share.sessions import PartitionKey
from headgate.core.share.state.commands import UNKNOWN_START, ReadSummary, SummaryResult
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis
from headgate.records.share_batches import DeliveryState
from headgate.records.share_state_model import ShareKey
from headgate.server.shares.alterations import Alterations
from headgate.server.shares.partition import SharedPartition
from headgate.server.shares.redelivery import Redelivery
from headgate.server.shares.surroundings import Surroundings

_AT_ONCE: Final = 200
"""Ranges that one step looks at."""
_REJECTED: Final = frozenset({DeliveryState.ARCHIVED, DeliveryState.ARCHIVING})

ResultT = TypeVar("ResultT")


class SharePartitions(Protocol):
    """The share-partitions of the node."""

    def find(self, group_id: GroupId, key: PartitionKey) -> SharedPartition | None:
        """Return a share-partition that is in use."""
        ...

    def borrow(self, group_id: GroupId, keys: Sequence[PartitionKey]) -> RequestSteps[None]:
        """Take share-partitions into use without a session."""
        ...


class ShareAdministration:
    """Describes and alters deliveries; see `headgate.api.contract.ShareDelivery`."""

    def __init__(self, node: Surroundings, partitions: SharePartitions) -> None:
        self._node = node
        self._partitions = partitions

    def describe(
        self, group_id: GroupId, key: PartitionKey, first_offset: int, most: int
    ) -> RequestSteps[DeliveryPage]:
        """Return a page of deliveries from an offset on, with at most so many ranges."""
        shared = yield from self._loaded(group_id, key)
        if isinstance(shared, ErrorCode):
            return DeliveryPage(error=shared)
        if shared is None:
            return DeliveryPage()
        return (yield from self._holding(shared, self._page(shared, first_offset, most)))

    def alter(
        self,
        group_id: GroupId,
        key: PartitionKey,
        alteration: Alteration,
        ranges: Sequence[OffsetRange],
        *,
        is_dry_run: bool,
    ) -> RequestSteps[AlterationResult]:
        """Alter the deliveries of ranges, or plan it; `ranges` are ascending and do not overlap."""
        shared = yield from self._loaded(group_id, key)
        if isinstance(shared, ErrorCode):
            return AlterationResult(error=shared)
        if shared is None:
            message = "No member has read this share-partition yet."
            return AlterationResult(error=ErrorCode.INVALID_REQUEST, message=message)
        steps: RequestSteps[AlterationResult]
        if alteration == Alteration.REDELIVER:
            steps = Redelivery(self._node, shared).run(ranges, is_dry_run=is_dry_run)
        else:
            steps = Alterations(self._node, shared, alteration, is_dry_run=is_dry_run).run(ranges)
        return (yield from self._holding(shared, steps))

    def _holding(self, shared: SharedPartition, steps: RequestSteps[ResultT]) -> RequestSteps[ResultT]:
        """Run steps while the share-partition is not given up."""
        shared.holds += 1
        try:
            return (yield from steps)
        finally:
            shared.holds -= 1

    def _loaded(
        self, group_id: GroupId, key: PartitionKey
    ) -> RequestSteps[SharedPartition | ErrorCode | None]:
        """Return the share-partition, loaded; None if no member ever read it."""
        shared = self._partitions.find(group_id, key)
        if shared is None:
            found = yield from self._summary(ShareKey(group_id, *key))
            if isinstance(found, ErrorCode) or found.error:
                return found if isinstance(found, ErrorCode) else found.error
            if found.start_offset == UNKNOWN_START:
                return None
            yield from self._partitions.borrow(group_id, [key])
            shared = self._partitions.find(group_id, key)
        if shared is not None and not shared.is_loaded and not shared.error:
            ready: Future[None] = Future()
            shared.when_ready.append(lambda: ready.set_result(None))
            yield ready
        if shared is None or shared.error:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if shared is None else shared.error
        return shared

    def _summary(self, key: ShareKey) -> RequestSteps[SummaryResult | ErrorCode]:
        submit = partial(self._node.share_state.submit, key.name, ReadSummary(key=key))
        found: SummaryResult | ErrorCode = yield from reply_to(submit)
        return found

    # --- description ---

    def _page(self, shared: SharedPartition, first_offset: int, most: int) -> RequestSteps[DeliveryPage]:
        found: list[DeliveryRange] = []
        offset, most = max(first_offset, 0), min(max(most, 1), MOST_RANGES)
        while True:
            machine = shared.machine
            if shared.error or machine is None:
                return DeliveryPage(error=shared.error or ErrorCode.NOT_LEADER_OR_FOLLOWER)
            wanted = min(_AT_ONCE, most - len(found))
            some = list(islice(self._ranges(machine, offset), wanted))
            found += some
            offset = -1 if len(some) < wanted else some[-1].last_offset + 1
            if offset < 0 or len(found) >= most:
                return DeliveryPage(
                    start_offset=machine.start_offset,
                    end_offset=machine.end_offset,
                    ranges=found,
                    next_offset=offset,
                )
            yield None

    def _ranges(self, machine: SharePartition, offset: int) -> Iterator[DeliveryRange]:
        """Yield what is known from an offset on: of records below the window only why they were rejected."""
        shift = self._node.system_time() - self._node.steady_time()
        for one in machine.rejections.between(offset, machine.start_offset - 1):
            yield _rejected(one, DeliveryState.ARCHIVED, one.delivery_count, shift)
        for view in machine.deliveries(max(offset, machine.start_offset), machine.end_offset - 1):
            if view.state in _REJECTED and not view.is_changing:
                yield from _with_causes(machine, view, shift)
            else:
                yield DeliveryRange(
                    view.first_offset,
                    view.last_offset,
                    view.state,
                    view.delivery_count,
                    view.member_id,
                    Millis(-1 if view.acquired_at is None else view.acquired_at + shift),
                    Millis(-1 if view.locked_until is None else view.locked_until + shift),
                    view.is_changing,
                )


def _with_causes(machine: SharePartition, view: DeliveryView, shift: int) -> Iterator[DeliveryRange]:
    """Yield a rejected range in parts with one cause each."""
    offset = view.first_offset
    for one in machine.rejections.between(view.first_offset, view.last_offset):
        if offset < one.first_offset:
            yield DeliveryRange(offset, one.first_offset - 1, view.state, view.delivery_count)
        yield _rejected(one, view.state, view.delivery_count, shift)
        offset = one.last_offset + 1
    if offset <= view.last_offset:
        yield DeliveryRange(offset, view.last_offset, view.state, view.delivery_count)


def _rejected(one: Rejection, state: DeliveryState, count: int, shift: int) -> DeliveryRange:
    return DeliveryRange(
        one.first_offset,
        one.last_offset,
        state,
        count,
        one.member_id,
        Millis(one.at + shift),
        cause=one.cause,
    )
