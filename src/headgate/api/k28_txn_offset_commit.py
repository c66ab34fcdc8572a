"""TxnOffsetCommit (28), versions 0-5: commit a group's offsets in a producer's open transaction.

Version 2 adds the leader epoch (KIP-320); 3 is flexible and names the member (KIP-447), so that a zombie of
the group is refused with ILLEGAL_GENERATION, whatever the protocol of the group. In version 5 the commit adds
the group to the transaction by itself (KIP-890); before, it must have been added: otherwise version 4 answers
TRANSACTION_ABORTABLE, and earlier ones INVALID_TXN_STATE.

The offsets count when the transaction is committed; until then, fetches of stable offsets get
UNSTABLE_OFFSET_COMMIT. Checks come in Kafka's order: unknown partitions, the transaction, the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.api.commit_messages import SortedCommit, fill_in, sort_out, sort_out_in_steps
from headgate.api.contract import Call, Node
from headgate.api.needs import group_need, topic_needs
from headgate.api.registration import Api
from headgate.api.transaction_checks import Check
from headgate.api.transaction_joining import JoinTransaction
from headgate.core.contract import Producer
from headgate.core.offsets.commands import CommitOffsets, CommitTransactionalOffsets
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId
from headgate.security.authorizer import Need
from headgate.security.resources import Operation, Resource, ResourceType
from headgate.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from headgate.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from headgate.wire.wide import WideStructs

_ABORTABLE_SINCE_VERSION = 4
_ADDS_SINCE_VERSION = 5
_LOAD_IN_PROGRESS_SINCE_VERSION = 2
"""Older producers do not know that COORDINATOR_LOAD_IN_PROGRESS can be retried."""
_NAMED_TOPICS_VERSION = 0
"""A version of OffsetCommit in which topics are named."""
_MOST_TOPICS_AT_ONCE = 1000
"""A request with more topics looks them up in steps."""


def handle(node: Node, call: Call, request: TxnOffsetCommitRequest) -> None:
    """Answer with an error code for each partition, in the order of the request."""
    topics = [OffsetCommitRequestTopic(name=one.name, partitions=one.partitions) for one in request.topics]  # type: ignore[arg-type]  # the structs have the same fields
    named = OffsetCommitRequest(topics=topics)
    if len(topics) > _MOST_TOPICS_AT_ONCE:
        call.in_steps(
            sort_out_in_steps(node, _NAMED_TOPICS_VERSION, named),
            lambda sorted_commit: _Commit(node, call, request, sorted_commit).begin(),
        )
    else:
        _Commit(node, call, request, sort_out(node, _NAMED_TOPICS_VERSION, named)).begin()


class _Commit:
    """One request: the transaction is asked first, then the group."""

    __slots__ = ("_call", "_node", "_request", "_sorted")

    def __init__(
        self, node: Node, call: Call, request: TxnOffsetCommitRequest, sorted_commit: SortedCommit
    ) -> None:
        self._node = node
        self._call = call
        self._request = request
        self._sorted = sorted_commit

    def begin(self) -> None:
        """Make sure that the group is part of the transaction."""
        request = self._request
        if not self._sorted.wanted:
            self._answer(ErrorCode.NONE)
        elif not request.group_id:
            self._answer(ErrorCode.INVALID_GROUP_ID)
        else:
            self._join(_check_of(self._call.api_version))

    def _join(self, check: Check) -> None:
        node, request = self._node, self._request
        if check is not Check.ADD and not node.settings["transaction.partition.verification.enable"]:
            self._joined(ErrorCode.NONE)
            return
        producer = Producer(request.producer_id, request.producer_epoch)
        index = node.coordinator.partition_of(request.group_id)
        JoinTransaction(node, request.transactional_id, producer, index, check, self._joined).ask()

    def _joined(self, error: ErrorCode) -> None:
        """Commit the offsets, unless the transaction refuses the group."""
        if error:
            self._answer(error)
            return
        self._sorted.refuse_deleted(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not self._sorted.wanted:
            self._answer(ErrorCode.NONE)
            return
        request = self._request
        instance_id = request.group_instance_id
        asked = CommitOffsets(
            GroupId(request.group_id),
            self._sorted.wanted,
            MemberId(request.member_id),
            request.generation_id,
            None if instance_id is None else InstanceId(instance_id),
            knows_group_not_found=False,
            is_transactional=True,
        )
        command = CommitTransactionalOffsets(asked, Producer(request.producer_id, request.producer_epoch))
        self._node.router.owner_of(asked.group_id).submit(asked.group_id, command, self._answer)

    def _answer(self, result: Any) -> None:
        version = self._call.api_version
        if result is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _LOAD_IN_PROGRESS_SINCE_VERSION:
            result = ErrorCode.COORDINATOR_NOT_AVAILABLE
        fill_in(self._sorted.open_answers, result)
        self._call.answer(_response_of(self._sorted))


def _check_of(version: int) -> Check:
    if version >= _ADDS_SINCE_VERSION:
        return Check.ADD
    return Check.VERIFY_ABORTABLE if version >= _ABORTABLE_SINCE_VERSION else Check.VERIFY


def _response_of(sorted_commit: SortedCommit) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(name=topic.name, partitions=_partitions_of(topic.partitions))
            for topic in sorted_commit.response.topics
        ]
    )


def _partitions_of(partitions: Any) -> Any:
    if isinstance(partitions, WideStructs):
        template = TxnOffsetCommitResponsePartition(error_code=partitions.template.error_code)
        return WideStructs(template, partitions.columns)
    return [
        TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=one.error_code)
        for one in partitions
    ]


def needs(node: Node, call: Call, request: TxnOffsetCommitRequest) -> Iterator[Need]:
    """Yield WRITE for the transactional id, READ for the group and for each topic."""
    yield Need(Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id))
    yield group_need(Operation.READ, request.group_id)
    yield from topic_needs(node, Operation.READ, request.topics)


API = Api(
    28,
    "TxnOffsetCommit",
    0,
    5,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    handle,
    needs=needs,
)
