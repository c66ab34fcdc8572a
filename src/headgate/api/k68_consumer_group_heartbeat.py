"""ConsumerGroupHeartbeat (68), versions 0-1: join, stay in or leave a consumer group (KIP-848).

In 0 the coordinator may create the member id; from 1 the client does, and may subscribe by a regular
expression, which is resolved after the answer. Fields that a heartbeat omits are unchanged. The response has
the assignment when it changed, and when the member sends all fields.
"""

from __future__ import annotations

from collections.abc import Iterator

from headgate.api.contract import Call, Node
from headgate.api.heartbeat_messages import command_of, response_of
from headgate.api.heartbeat_repeat import consumer_heartbeat_repeat, is_lasting
from headgate.api.needs import group_need, topic_need
from headgate.api.registration import Api
from headgate.core.consumer.commands import JOINING, HeartbeatAgain, HeartbeatResult
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId
from headgate.security.authorizer import Need
from headgate.security.resources import Operation
from headgate.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_MEMBER_ID_SINCE_VERSION = 1


def handle(node: Node, call: Call, request: ConsumerGroupHeartbeatRequest) -> None:
    """Answer when the result is durable."""

    command = command_of(request, call.client_id, call.client_host)
    call.prepared = HeartbeatAgain(command, None)

    def on_result(result: HeartbeatResult | ErrorCode) -> None:
        if not isinstance(result, ErrorCode) and is_lasting(command, result):
            call.prepared = HeartbeatAgain(command, result)
        call.answer(response_of(result))

    may_lack_id = call.api_version < _MEMBER_ID_SINCE_VERSION and command.member_epoch == JOINING
    if not command.member_id and may_lack_id:
        command.member_id = MemberId(node.new_consumer_member_id())
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)


def needs(node: Node, call: Call, request: ConsumerGroupHeartbeatRequest) -> Iterator[Need]:
    """Return the needs: READ on the group, DESCRIBE on each topic name subscribed to."""
    yield group_need(Operation.READ, request.group_id)
    for name in request.subscribed_topic_names or ():
        yield topic_need(Operation.DESCRIBE, name)


API = Api(
    68,
    "ConsumerGroupHeartbeat",
    0,
    1,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    handle,
    consumer_heartbeat_repeat,
    needs=needs,
)
