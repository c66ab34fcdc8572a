"""OffsetCommit (8), versions 2-10: store a group's offset of each partition.

Versions 2-4 may carry a retention (KIP-211 removed it; -1 means none), 6 adds the leader epoch (KIP-320), 7
the group instance id (KIP-345), 8 is flexible, 9 has the errors of KIP-848, 10 identifies topics by id.
Java's consumers of the new protocol use topic ids; other clients use names.

Unknown partitions are answered with UNKNOWN_TOPIC_OR_PARTITION, unknown topic ids with UNKNOWN_TOPIC_ID, and
neither is committed. If no partition is left, the group is not asked and not created. A commit with
conditions (from version 8, see `conditional_commit`) is all or nothing.
"""

from __future__ import annotations

from typing import Any

from headgate.api import conditional_commit
from headgate.api.authors import author_of_commit
from headgate.api.commit_messages import (
    PreparedCommit,
    SortedCommit,
    command_of,
    fill_in,
    sort_out,
    sort_out_in_steps,
)
from headgate.api.commit_repeat import commit_repeat
from headgate.api.contract import Call, Node
from headgate.api.needs import of_group_and_topics
from headgate.api.offset_topics import unknown_topic_error
from headgate.api.registration import Api
from headgate.core.offsets.commit import ACCEPTED
from headgate.security.resources import Operation
from headgate.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


def handle(node: Node, call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse | None:
    """Answer with an error code for each partition, in the order of the request."""
    if call.api_version >= conditional_commit.SINCE_VERSION and conditional_commit.is_wanted(request):
        conditional_commit.handle(node, call, request)
        return None
    if len(request.topics) > conditional_commit.MOST_TOPICS_AT_ONCE:
        call.in_steps(
            sort_out_in_steps(node, call.api_version, request),
            lambda sorted_commit: _commit_later(node, call, request, sorted_commit),
        )
        return None
    return _commit(node, call, request, sort_out(node, call.api_version, request))


def _commit_later(node: Node, call: Call, request: OffsetCommitRequest, sorted_commit: SortedCommit) -> None:
    sorted_commit.refuse_deleted(unknown_topic_error(call.api_version))
    response = _commit(node, call, request, sorted_commit)
    if response is not None:
        call.answer_aside(lambda: response)


def _commit(
    node: Node, call: Call, request: OffsetCommitRequest, sorted_commit: SortedCommit
) -> OffsetCommitResponse | None:
    """Commit the existing partitions; return the response if there are none."""
    response = sorted_commit.response
    if not sorted_commit.wanted:
        return response

    command = command_of(request, sorted_commit.wanted, call.api_version)
    command.author = author_of_commit(call, request, has_conditions=False)
    call.prepared = prepared = PreparedCommit(command, sorted_commit)

    def on_result(result: Any) -> None:
        if result is not ACCEPTED:
            call.prepared = None  # its response gets errors
            fill_in(sorted_commit.open_answers, result)
        elif prepared.written is not None:
            call.answer_frame(prepared.written.frame(call.correlation_id))
            return
        call.answer(response)

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
    needs=of_group_and_topics(Operation.READ, Operation.READ),
)
