"""OffsetCommit with conditions (R3.16), as messages."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.node import OneNode, topic_id_of
from tests.api.offset_requests import fetch
from tests.wire.kio_oracle import Case

from headgate.api import conditional_commit, k08_offset_commit, k18_api_versions
from headgate.domain.errors import ErrorCode
from headgate.domain.features import CONDITIONAL_COMMIT
from headgate.wire.codec import decode, encode
from headgate.wire.messages.api_versions import ApiVersionsRequest
from headgate.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

WIDTH = 300
NONE, FAILED, NOT_ATTEMPTED = (
    ErrorCode.NONE,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
)
Offsets = dict[int, tuple[int, int | None]]
"""For each partition the offset to commit, and the one that is expected."""


@pytest.fixture
def node() -> OneNode:
    """A node with the topics t and u."""
    return OneNode({"t": WIDTH, "u": 1})


def request_of(topics: dict[str, Offsets], **more: int | str) -> OffsetCommitRequest:
    """A commit by nobody in particular."""
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id_of(name),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, expected_offset=expected
                    )
                    for index, (offset, expected) in offsets.items()
                ],
            )
            for name, offsets in topics.items()
        ],
        **more,  # type: ignore[arg-type]
    )


def commit(
    node: OneNode, topics: dict[str, Offsets], version: int = 9, **more: int | str
) -> list[tuple[int, int, int | None]]:
    """The answers: partition, error, and what is committed where the answer says it."""
    response = node.ask(k08_offset_commit.API, request_of(topics, **more), version)
    return [
        (one.partition_index, one.error_code, one.current_offset)
        for topic in response.topics
        for one in topic.partitions
    ]


def offsets(node: OneNode, *indexes: int) -> list[int]:
    """What is committed in these partitions of t."""
    return [offset for _, offset, _, _ in fetch(node, 9, list(indexes))]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_a_commit_whose_condition_holds_is_done(node: OneNode, version: int) -> None:
    """-1 expects that nothing is committed; partitions without a condition are committed too."""
    assert commit(node, {"t": {0: (5, -1), 1: (7, None)}}, version) == [(0, NONE, None), (1, NONE, None)]
    assert commit(node, {"t": {0: (6, 5)}}, version) == [(0, NONE, None)]
    assert offsets(node, 0, 1) == [6, 7]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_a_failed_condition_refuses_the_whole_request(node: OneNode, version: int) -> None:
    """Its partition gets the committed offset, all others OPERATION_NOT_ATTEMPTED."""
    commit(node, {"t": {0: (5, None)}})
    asked: dict[str, Offsets] = {"t": {0: (6, 4), 1: (6, -1), 2: (6, 9)}, "u": {0: (6, None)}}
    assert commit(node, asked, version) == [
        (0, FAILED, 5),
        (1, NOT_ATTEMPTED, None),
        (2, FAILED, -1),
        (0, NOT_ATTEMPTED, None),
    ]
    assert offsets(node, 0, 1, 2) == [5, -1, -1]


@pytest.mark.parametrize(
    ("version", "unknown_topic"),
    [(9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (10, ErrorCode.UNKNOWN_TOPIC_ID)],
)
def test_with_a_condition_an_unknown_partition_refuses_the_whole_request(
    node: OneNode, version: int, unknown_topic: ErrorCode
) -> None:
    """Without one, the other partitions are committed."""
    assert commit(node, {"t": {0: (1, -1), WIDTH: (1, None)}, "nowhere": {0: (1, None)}}, version) == [
        (0, NOT_ATTEMPTED, None),
        (WIDTH, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (0, unknown_topic, None),
    ]
    assert offsets(node, 0) == [-1]
    commit(node, {"t": {0: (1, None), WIDTH: (1, None)}})
    assert offsets(node, 0) == [1]


def test_with_a_condition_too_long_metadata_refuses_the_whole_request(node: OneNode) -> None:
    """The partition with the metadata has the error."""
    request = request_of({"t": {0: (1, -1), 1: (1, None)}})
    request.topics[0].partitions[1].committed_metadata = "m" * 5000
    response = node.ask(k08_offset_commit.API, request, 9)
    assert [one.error_code for one in response.topics[0].partitions] == [
        NOT_ATTEMPTED,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ]
    assert offsets(node, 0, 1) == [-1, -1]


@pytest.mark.parametrize("version", [9, 10])
def test_an_unknown_topic_does_not_shift_the_answers(node: OneNode, version: int) -> None:
    """Named without partitions it refuses nothing, and each answer is that of its partition."""
    asked: dict[str, Offsets] = {"nowhere": {}, "t": {0: (6, 4)}, "u": {0: (6, -1)}}
    assert commit(node, asked, version) == [(0, FAILED, -1), (0, NOT_ATTEMPTED, None)]


def test_an_unknown_member_gets_the_groups_error(node: OneNode) -> None:
    """Every partition has it, as without conditions."""
    answers = commit(node, {"t": {0: (1, 7), 1: (1, None)}}, member_id="who", generation_id_or_member_epoch=3)
    assert answers == [
        (0, ErrorCode.GROUP_ID_NOT_FOUND, None),
        (1, ErrorCode.GROUP_ID_NOT_FOUND, None),
    ]


@pytest.mark.parametrize("is_same", [True, False], ids=["the same condition", "one each"])
def test_hundreds_of_partitions_have_conditions(node: OneNode, is_same: bool) -> None:
    """Equal conditions are read as columns, different ones one by one."""
    everywhere = range(WIDTH)
    start = {index: (100 if is_same else index, -1) for index in everywhere}
    assert commit(node, {"t": dict(start)}, 10) == [(index, NONE, None) for index in everywhere]
    assert commit(node, {"t": dict(start)}) == [(index, FAILED, start[index][0]) for index in everywhere]
    step: Offsets = {index: (offset + 1, offset) for index, (offset, _) in start.items()}
    commit(node, {"t": {17: (5000, None)}})
    answers = commit(node, {"t": step})
    assert answers[17] == (17, FAILED, 5000)
    assert {error for _, error, _ in answers[:17] + answers[18:]} == {NOT_ATTEMPTED}
    step[17] = (5001, 5000)
    assert {error for _, error, _ in commit(node, {"t": step})} == {NONE}
    assert offsets(node, *everywhere) == [offset for offset, _ in step.values()]


def test_a_version_without_tagged_fields_has_no_conditions(node: OneNode) -> None:
    """The field is not encoded, so the commit is an ordinary one."""
    assert commit(node, {"t": {0: (5, 99)}}, version=7) == [(0, NONE, None)]
    assert offsets(node, 0) == [5]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_a_response_without_conditions_has_the_bytes_of_kafka(node: OneNode, version: int) -> None:
    """Without our fields: kio, which does not know them, decodes it completely."""
    for topics in ({"t": {0: (5, None), WIDTH: (5, None)}}, {"t": dict.fromkeys(range(40), (5, None))}):
        response = node.ask(k08_offset_commit.API, request_of(topics), version)  # type: ignore[arg-type]
        answer = Case(8, "response", version).kio_reads(encode(response, version))
        codes = [int(one.error_code.value) for one in answer.topics[0].partitions]
        assert codes == [one.error_code for one in response.topics[0].partitions]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_the_fields_have_their_own_tag(version: int) -> None:
    """Eight bytes with tag 20001, in request and response; not in versions without tags."""
    request = request_of({"t": {0: (5, 0x0102030405060708)}})
    field = b"\x01\xa1\x9c\x01\x08" + bytes(range(1, 9))
    assert field in encode(request, version)
    (read,) = decode(OffsetCommitRequest, version, encode(request, version)).topics
    assert read.partitions == request.topics[0].partitions
    partition = OffsetCommitResponsePartition(current_offset=0x0102030405060708)
    response = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=[partition])])
    assert field in encode(response, version)
    assert field not in encode(request, 7)


def test_a_refused_wide_commit_has_an_error_for_each_partition(node: OneNode) -> None:
    """For short and long runs of moved partitions, at the ends and between."""
    everything = range(WIDTH)
    assert {error for _, error, _ in commit(node, {"t": dict.fromkeys(everything, (5, None))})} == {0}
    for moved in (set(everything), {0}, {WIDTH - 1}, set(range(3, WIDTH - 3)), set(range(0, WIDTH, 7))):
        answers = commit(node, {"t": {one: (6, 4 if one in moved else 5) for one in everything}})
        assert answers == [
            (one, ErrorCode.INVALID_UPDATE_VERSION, 5)
            if one in moved
            else (one, ErrorCode.OPERATION_NOT_ATTEMPTED, None)
            for one in everything
        ]
    assert offsets(node, *everything) == [5] * WIDTH


def test_the_node_advertises_conditions(node: OneNode) -> None:
    """A node that does not would skip the field and commit."""
    api = k18_api_versions.api_versions([k08_offset_commit.API])
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    for version in (3, 4):
        (feature,) = node.ask(api, request, version).supported_features
        assert (feature.name, feature.min_version, feature.max_version) == (CONDITIONAL_COMMIT, 1, 1)
    assert node.ask(api, request, 2).supported_features == []


MANY = 40


@pytest.fixture
def in_steps(monkeypatch: pytest.MonkeyPatch) -> OneNode:
    """A node with many topics, which looks up those of a commit in steps."""
    monkeypatch.setattr(conditional_commit, "MOST_TOPICS_AT_ONCE", 3)
    return OneNode({f"t{number}": 2 for number in range(MANY)})


def of_many(offset: int, expected: int | None, **others: Offsets) -> dict[str, Offsets]:
    """One partition of each of many topics."""
    return {f"t{number}": {0: (offset, expected)} for number in range(MANY)} | others


@pytest.mark.parametrize("version", [8, 9, 10])
def test_a_commit_of_many_topics_is_all_or_nothing(in_steps: OneNode, version: int) -> None:
    """Also if it is looked up in steps: one unknown partition, or one moved offset, refuses all."""
    done = [(0, NONE, None)] * MANY
    assert commit(in_steps, of_many(5, -1), version) == done
    assert commit(in_steps, of_many(6, 5), version) == done
    refused = commit(in_steps, of_many(7, 6, t9={0: (7, 6), 2: (7, -1)}), version)
    assert refused[9:11] == [(0, NOT_ATTEMPTED, None), (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)]
    assert {error for _, error, _ in refused[:9] + refused[11:]} == {NOT_ATTEMPTED}
    refused = commit(in_steps, of_many(7, 6, t9={0: (7, 5)}), version)
    assert refused[9] == (0, FAILED, 6)
    assert {error for _, error, _ in refused[:9] + refused[10:]} == {NOT_ATTEMPTED}
    assert commit(in_steps, of_many(-1, 6), version) == done
    assert commit(in_steps, of_many(-1, -1), version) == done


def test_a_topic_that_is_deleted_while_a_commit_is_looked_up_refuses_it(
    in_steps: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offsets may be removed already: new ones would belong to the next topic of its name."""
    look_up = conditional_commit._sorted_in_steps

    def and_delete(*asked: Any) -> Any:
        found = yield from look_up(*asked)
        known = in_steps.topics.by_name("t9")
        object.__setattr__(known, "is_deleted", True)
        return found

    monkeypatch.setattr(conditional_commit, "_sorted_in_steps", and_delete)
    answers = commit(in_steps, of_many(5, -1))
    assert answers.pop(9) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    assert {error for _, error, _ in answers} == {NOT_ATTEMPTED}
