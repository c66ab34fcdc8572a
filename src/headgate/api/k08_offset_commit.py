"""OffsetCommit (8), versions 2-10: remember where a group is in each partition.

2-4 may carry a retention of their own (KIP-211 took it away; -1 means none), 6 the leader epoch (KIP-320),
7 the group instance id (KIP-345), 8 is flexible, 9 knows the errors of KIP-848, 10 calls topics by their
ids: Java's new-protocol consumers speak it, beside all the clients that know names only. Partitions that do
not exist are answered UNKNOWN_TOPIC_OR_PARTITION, an id that is nobody's (any more) UNKNOWN_TOPIC_ID, and
both are left out; when nothing is left, the group is not asked and does not come into being. With
conditions (from version 8, see `conditional_commit`) it is all of the partitions or none.
"""

from __future__ import annotations

from typing import Any

from headgate.api import conditional_commit
from headgate.api.commit_messages import command_of, fill_in, sort_out
from headgate.api.commit_repeat import commit_repeat
from headgate.api.contract import Api, Call, Node
from headgate.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


def handle(node: Node, call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse | None:
    """Answer with an error for each partition, in the order asked."""
    if call.api_version >= conditional_commit.SINCE_VERSION and conditional_commit.is_wanted(request):
        return conditional_commit.handle(node, call, request)
    response, wanted, open_answers = sort_out(node, call.api_version, request)
    if not wanted:
        return response

    def on_result(result: Any) -> None:
        fill_in(open_answers, result)
        call.answer(response)

    command = command_of(request, wanted, call.api_version)
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)
    return None


API = Api(
    8,
    "OffsetCommit",
    2,
    10,
    OffsetCommitRequest,
    OffsetCommitResponse,
    handle,
    commit_repeat,
    (conditional_commit.FEATURE,),
)
