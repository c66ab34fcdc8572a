"""WriteShareGroupState (85), versions 0-1: merge batches into states (KIP-932).

1 adds the delivery complete count (KIP-1226).
"""

from __future__ import annotations

from typing import Any

from headgate.api.contract import Call, Node
from headgate.api.registration import Api
from headgate.api.share_state_messages import NEEDS, StateRpc, answer_state_rpc, plain
from headgate.core.share.state.commands import ShareKey, WriteState
from headgate.records.share_batches import StateBatch
from headgate.wire.messages import write_share_group_state as wire


def _command(key: ShareKey, partition: Any) -> WriteState:
    return WriteState(
        key=key,
        state_epoch=partition.state_epoch,
        leader_epoch=partition.leader_epoch,
        start_offset=partition.start_offset,
        delivery_complete_count=partition.delivery_complete_count,
        batches=[
            StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in partition.state_batches
        ],
    )


_RPC = StateRpc(
    command_of=_command,
    result_of=plain(wire.PartitionResult),
    error_type=wire.PartitionResult,
    topic_type=wire.WriteStateResult,
    response_type=wire.WriteShareGroupStateResponse,
)


def handle(node: Node, call: Call, request: wire.WriteShareGroupStateRequest) -> None:
    """Answer when the changes are durable."""
    answer_state_rpc(node, call, request, _RPC)


API = Api(
    85,
    "WriteShareGroupState",
    0,
    1,
    wire.WriteShareGroupStateRequest,
    wire.WriteShareGroupStateResponse,
    handle,
    needs=NEEDS,
)
