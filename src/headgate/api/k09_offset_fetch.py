"""OffsetFetch (9), versions 1-10: where a group is in each partition.

From 2 null topics mean all and an error stands at the top, 3 has the throttle time, 5 the leader epoch, 6
is flexible, 7 may require stable offsets (KIP-447; without transactions all are), 8 asks for several groups
at once, 9 may name a member, which classic groups ignore, 10 calls topics by their ids. A group or partition
that is not known is no error: offset -1; a topic id that is nobody's is UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from typing import Any

from headgate.api.contract import Api, Call, Node
from headgate.api.fetch_messages import groups_asked, response_of
from headgate.api.fetch_repeat import fetch_repeat
from headgate.api.group_answers import submit_each
from headgate.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse


def handle(node: Node, call: Call, request: OffsetFetchRequest) -> None:
    """Answer with the offsets of one group, or of each group asked for."""
    asked = groups_asked(node, request, call.api_version)

    def on_results(results: list[Any]) -> None:
        call.answer(response_of(asked, results, call.api_version))

    submit_each(node, [(group.command.group_id, group.command) for group in asked], on_results)


API = Api(9, "OffsetFetch", 1, 10, OffsetFetchRequest, OffsetFetchResponse, handle, fetch_repeat)
