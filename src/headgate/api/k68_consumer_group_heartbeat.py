"""ConsumerGroupHeartbeat (68), versions 0-1: join, stay in or leave a consumer group (KIP-848).

In 0 a client may leave its member id to the coordinator; from 1 it makes one itself, and may subscribe by a
regular expression, which is matched after the answer. What a heartbeat leaves out is as it was. The answer
has the assignment when it changed, and whenever the member says all of itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.api.contract import Call, Node
from headgate.api.heartbeat_messages import command_of, response_of
from headgate.api.heartbeat_repeat import consumer_heartbeat_repeat
from headgate.api.needs import group_need, topic_need
from headgate.api.registration import Api
from headgate.core.consumer.commands import JOINING
from headgate.domain.ids import MemberId
from headgate.security.authorizer import Need
from headgate.security.resources import Operation
from headgate.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_MEMBER_ID_SINCE_VERSION = 1


def handle(node: Node, call: Call, request: ConsumerGroupHeartbeatRequest) -> None:
    """Answer when what the heartbeat led to is durable."""

    def on_result(result: Any) -> None:
        call.answer(response_of(result))

    command = command_of(request, call.client_id, call.client_host)
    is_left_to_us = call.api_version < _MEMBER_ID_SINCE_VERSION and command.member_epoch == JOINING
    if not command.member_id and is_left_to_us:
        command.member_id = MemberId(node.new_consumer_member_id())
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)


def needs(node: Node, call: Call, request: ConsumerGroupHeartbeatRequest) -> Iterator[Need]:
    """READ on the group, DESCRIBE on each topic of the subscription that is named."""
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
