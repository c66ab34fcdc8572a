"""ReadShareGroupStateSummary (87), versions 0-1: read states without their batches (KIP-932).

1 adds the delivery complete count (KIP-1226). Without a state the start offset is -1.
"""

from __future__ import annotations

from collections.abc import Generator

from headgate.api.contract import Call, Node
from headgate.api.registration import Api
from headgate.api.share_state_messages import NEEDS, StateRpc, answer_state_rpc
from headgate.core.share.state.commands import ReadSummary, SummaryResult
from headgate.wire.messages import read_share_group_state_summary as wire


def _result(partition: int, result: SummaryResult) -> Generator[None, None, wire.PartitionResult]:
    yield None
    return wire.PartitionResult(
        partition=partition,
        state_epoch=result.state_epoch,
        leader_epoch=result.leader_epoch,
        start_offset=result.start_offset,
        delivery_complete_count=result.delivery_complete_count,
    )


_RPC = StateRpc(
    command_of=lambda key, one: ReadSummary(key=key, leader_epoch=one.leader_epoch),
    result_of=_result,
    error_type=wire.PartitionResult,
    topic_type=wire.ReadStateSummaryResult,
    response_type=wire.ReadShareGroupStateSummaryResponse,
)


def handle(node: Node, call: Call, request: wire.ReadShareGroupStateSummaryRequest) -> None:
    """Answer when what is read is durable."""
    answer_state_rpc(node, call, request, _RPC)


API = Api(
    87,
    "ReadShareGroupStateSummary",
    0,
    1,
    wire.ReadShareGroupStateSummaryRequest,
    wire.ReadShareGroupStateSummaryResponse,
    handle,
    needs=NEEDS,
)
