"""DeleteShareGroupState (86), version 0: remove the states of share-partitions (KIP-932)."""

from __future__ import annotations

from headgate.api.contract import Call, Node
from headgate.api.registration import Api
from headgate.api.share_state_messages import NEEDS, StateRpc, answer_state_rpc, plain
from headgate.core.share.state.commands import DeleteState
from headgate.wire.messages import delete_share_group_state as wire

_RPC = StateRpc(
    command_of=lambda key, one: DeleteState(key=key),
    result_of=plain(wire.PartitionResult),
    error_type=wire.PartitionResult,
    topic_type=wire.DeleteStateResult,
    response_type=wire.DeleteShareGroupStateResponse,
)


def handle(node: Node, call: Call, request: wire.DeleteShareGroupStateRequest) -> None:
    """Answer when the removals are durable."""
    answer_state_rpc(node, call, request, _RPC)


API = Api(
    86,
    "DeleteShareGroupState",
    0,
    0,
    wire.DeleteShareGroupStateRequest,
    wire.DeleteShareGroupStateResponse,
    handle,
    needs=NEEDS,
)
