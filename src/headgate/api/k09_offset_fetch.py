"""OffsetFetch (9), versions 1-9: where a group is in each partition.

From 2 null topics mean all and an error stands at the top, 3 has the throttle time, 5 the leader epoch, 6
is flexible, 7 may require stable offsets (KIP-447; without transactions all are), 8 asks for several groups
at once, 9 may name a member, which classic groups ignore. Version 10 with topic ids is not offered yet. A
group or partition that is not known is no error: offset -1.
"""

from __future__ import annotations

from typing import Any

from headgate.api.contract import Api, Call, Node
from headgate.api.fetch_messages import commands_of, response_of
from headgate.api.fetch_repeat import fetch_repeat
from headgate.api.group_answers import submit_each
from headgate.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse


def handle(node: Node, call: Call, request: OffsetFetchRequest) -> None:
    """Answer with the offsets of one group, or of each group asked for."""
    commands = commands_of(request, call.api_version)

    def on_results(results: list[Any]) -> None:
        call.answer(response_of(commands, results, call.api_version))

    submit_each(node, [(command.group_id, command) for command in commands], on_results)


API = Api(9, "OffsetFetch", 1, 9, OffsetFetchRequest, OffsetFetchResponse, handle, fetch_repeat)
