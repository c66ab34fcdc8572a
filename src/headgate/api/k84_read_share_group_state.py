"""ReadShareGroupState (84), version 0: read states as the leader of the share-partitions (KIP-932)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from headgate.api.contract import Call, Node
from headgate.api.registration import Api
from headgate.api.share_state_messages import NEEDS, StateRpc, answer_state_rpc
from headgate.core.share.state.commands import ReadState, ReadStateResult
from headgate.wire.messages import read_share_group_state as wire

_BATCHES_A_STEP: Final = 500


def _result(partition: int, result: ReadStateResult) -> Generator[None, None, wire.PartitionResult]:
    batches: list[wire.StateBatch] = []
    for first, last, state, count in result.batches:
        if not len(batches) % _BATCHES_A_STEP:
            yield None
        batches.append(
            wire.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        )
    return wire.PartitionResult(
        partition=partition,
        state_epoch=result.state_epoch,
        start_offset=result.start_offset,
        state_batches=batches,
    )


_RPC = StateRpc(
    command_of=lambda key, one: ReadState(key=key, leader_epoch=one.leader_epoch),
    result_of=_result,
    error_type=wire.PartitionResult,
    topic_type=wire.ReadStateResult,
    response_type=wire.ReadShareGroupStateResponse,
)


def handle(node: Node, call: Call, request: wire.ReadShareGroupStateRequest) -> None:
    """Answer when the leader epochs are durable."""
    answer_state_rpc(node, call, request, _RPC)


API = Api(
    84,
    "ReadShareGroupState",
    0,
    0,
    wire.ReadShareGroupStateRequest,
    wire.ReadShareGroupStateResponse,
    handle,
    needs=NEEDS,
)
