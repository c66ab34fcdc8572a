"""InitializeShareGroupState (83), version 0: begin the states of share-partitions (KIP-932)."""

from __future__ import annotations

from headgate.api.contract import Call, Node
from headgate.api.registration import Api
from headgate.api.share_state_messages import NEEDS, StateRpc, answer_state_rpc, plain
from headgate.core.share.state.commands import InitializeState
from headgate.wire.messages import initialize_share_group_state as wire

_RPC = StateRpc(
    command_of=lambda key, one: InitializeState(
        key=key, state_epoch=one.state_epoch, start_offset=one.start_offset
    ),
    result_of=plain(wire.PartitionResult),
    error_type=wire.PartitionResult,
    topic_type=wire.InitializeStateResult,
    response_type=wire.InitializeShareGroupStateResponse,
)


def handle(node: Node, call: Call, request: wire.InitializeShareGroupStateRequest) -> None:
    """Answer when the new states are durable."""
    answer_state_rpc(node, call, request, _RPC)


API = Api(
    83,
    "InitializeShareGroupState",
    0,
    0,
    wire.InitializeShareGroupStateRequest,
    wire.InitializeShareGroupStateResponse,
    handle,
    needs=NEEDS,
)
