"""ShareGroupHeartbeat (76), version 1: join, stay in or leave a share group (KIP-932).

Fields that a heartbeat omits are unchanged. The response has the assignment when it changed, when the member
joins, and when it sends its subscription. Share-partitions without a state are initialized after the answer,
and assigned from a later heartbeat on.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.api.contract import Call, Node
from headgate.api.needs import group_need, topic_need
from headgate.api.registration import Api
from headgate.api.share_initialization import initialize_states
from headgate.core.share.membership.commands import ShareHeartbeat, ShareHeartbeatResult
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicName
from headgate.security.authorizer import Need
from headgate.security.resources import Operation
from headgate.wire.messages import share_group_heartbeat as wire


def handle(node: Node, call: Call, request: wire.ShareGroupHeartbeatRequest) -> None:
    """Answer when the result is durable."""
    names = request.subscribed_topic_names
    command = ShareHeartbeat(
        group_id=GroupId(request.group_id),
        member_id=MemberId(request.member_id),
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        subscribed_topic_names=None if names is None else tuple(map(TopicName, names)),
        client_id=call.client_id or "",
        client_host=call.client_host,
    )

    def on_result(result: ShareHeartbeatResult | ErrorCode) -> None:
        call.answer(_response(result))
        if isinstance(result, ShareHeartbeatResult) and result.initialization is not None:
            # It continues if the connection is lost.
            node.run_in_background("share initialization", initialize_states(node, result.initialization))

    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)


def _response(result: ShareHeartbeatResult | ErrorCode) -> wire.ShareGroupHeartbeatResponse:
    if isinstance(result, ErrorCode):
        return wire.ShareGroupHeartbeatResponse(error_code=result)
    assignment = None
    if result.assigned is not None:
        assignment = wire.Assignment(
            topic_partitions=[
                wire.TopicPartitions(topic_id=topic_id, partitions=list(indexes))
                for topic_id, indexes in result.assigned.items()
            ]
        )
    return wire.ShareGroupHeartbeatResponse(
        error_code=result.error,
        error_message=result.message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )


def needs(node: Node, call: Call, request: wire.ShareGroupHeartbeatRequest) -> Iterator[Need]:
    """Return the needs: READ on the group, DESCRIBE on each topic subscribed to."""
    yield group_need(Operation.READ, request.group_id)
    for name in request.subscribed_topic_names or ():
        yield topic_need(Operation.DESCRIBE, name)


API = Api(
    76,
    "ShareGroupHeartbeat",
    1,
    1,
    wire.ShareGroupHeartbeatRequest,
    wire.ShareGroupHeartbeatResponse,
    handle,
    needs=needs,
)
