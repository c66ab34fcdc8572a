"""OffsetCommit (8), versions 2-10: remember where a group is in each partition.

2-4 may carry a retention of their own (KIP-211 took it away; -1 means none), 6 the leader epoch (KIP-320),
7 the group instance id (KIP-345), 8 is flexible, 9 knows the errors of KIP-848, 10 calls topics by their
ids: Java's new-protocol consumers speak it, beside all the clients that know names only. Partitions that do
not exist are answered UNKNOWN_TOPIC_OR_PARTITION, an id that is nobody's (any more) UNKNOWN_TOPIC_ID, and
both are left out; when nothing is left, the group is not asked and does not come into being. With
conditions (from version 8, see `conditional_commit`) it is all of the partitions or none.

A commit is one piece, whatever its width, but for one of more than 2000 partitions with a retention of its
own: that is committed 2000 partitions at a time, and a crash before the answer may leave the first of them.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from headgate.api import conditional_commit
from headgate.api.commit_messages import (
    SortedCommit,
    Wanted,
    command_of,
    fill_in,
    part_of,
    sort_out,
    sort_out_in_steps,
)
from headgate.api.commit_repeat import commit_repeat
from headgate.api.contract import Api, Call, Node, RequestSteps
from headgate.core.offsets.commands import NO_RETENTION, partition_count
from headgate.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

_MOST_TOPICS_AT_ONCE = 1000
"""More topics are looked up in steps."""
_MOST_WITH_RETENTION = 2000
"""More offsets with a retention of their own are committed so many at a time."""


def handle(node: Node, call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse | None:
    """Answer with an error for each partition, in the order asked."""
    if call.api_version >= conditional_commit.SINCE_VERSION and conditional_commit.is_wanted(request):
        return conditional_commit.handle(node, call, request)
    if len(request.topics) > _MOST_TOPICS_AT_ONCE:
        call.in_steps(
            sort_out_in_steps(node, call.api_version, request),
            lambda sorted_commit: _commit_later(node, call, request, sorted_commit),
        )
        return None
    return _commit(node, call, request, sort_out(node, call.api_version, request))


def _commit_later(node: Node, call: Call, request: OffsetCommitRequest, sorted_commit: SortedCommit) -> None:
    response = _commit(node, call, request, sorted_commit)
    if response is not None:
        call.answer_aside(lambda: response)


def _commit(
    node: Node, call: Call, request: OffsetCommitRequest, sorted_commit: SortedCommit
) -> OffsetCommitResponse | None:
    """Have the coordinator commit what can be committed; the response if there is nothing."""
    response, wanted, open_answers = sorted_commit
    if not wanted:
        return response
    if request.retention_time_ms != NO_RETENTION and _is_wide(wanted):
        call.in_steps(
            _commit_in_steps(node, call, request, sorted_commit),
            lambda nothing: call.answer_aside(lambda: response),
        )
        return None

    def on_result(result: Any) -> None:
        fill_in(open_answers, result)
        call.answer(response)

    command = command_of(request, wanted, call.api_version)
    node.router.owner_of(command.group_id).submit(command.group_id, command, on_result)
    return None


def _is_wide(wanted: Wanted) -> bool:
    return sum(partition_count(partitions) for _, partitions in wanted) > _MOST_WITH_RETENTION


def _commit_in_steps(
    node: Node, call: Call, request: OffsetCommitRequest, sorted_commit: SortedCommit
) -> RequestSteps[None]:
    """Commit some offsets with a retention of their own after the others: each is a record by itself."""
    _, wanted, open_answers = sorted_commit
    for (topic, partitions), answers in zip(wanted, open_answers, strict=True):
        for first in range(0, partition_count(partitions), _MOST_WITH_RETENTION):
            some, some_answers = part_of(partitions, answers, first, first + _MOST_WITH_RETENTION)
            command = command_of(request, [(topic, some)], call.api_version)
            there: Future[Any] = Future()
            node.router.owner_of(command.group_id).submit(command.group_id, command, there.set_result)
            yield there
            fill_in([some_answers], there.result())


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
