"""Questions about many groups: few requests to each coordinator, and what single nodes do not answer."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.client.conftest import PARTITIONS, TOPIC, StartNode
from tests.client.scripted import CLOSE, Answer, ScriptedNode, every_version

from headgate.client.cluster import Cluster
from headgate.client.errors import ClientError, ConnectionFailed, RequestTimedOut
from headgate.client.groups import list_on_nodes
from headgate.client.offsets import CommittedOffset, fetch_all_offsets
from headgate.client.survey import MOST_KEYS, Survey
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName, TopicPartition
from headgate.wire.codec import decode
from headgate.wire.framing import RequestHeader
from headgate.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headgate.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from headgate.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from headgate.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

METADATA, OFFSET_FETCH, FIND_COORDINATOR, LIST, API_VERSIONS = 3, 9, 10, 16, 18
GROUPS = [GroupId(f"group-{number}") for number in range(2_500)]
WHERE = TopicPartition(TopicName("flights"), 0)

pytestmark = pytest.mark.timeout(60)

Later = Callable[[ScriptedNode, list[str]], Answer]
"""What a coordinator does with the groups of a fetch of offsets."""


class Pair:
    """A cluster of two nodes: groups with an even number are with the first, others with the second."""

    def __init__(self, start_node: StartNode, second_answers: Later) -> None:
        self.moved = False
        """Whether the first is the coordinator of all groups."""
        self.nodes: list[ScriptedNode] = []
        for answers in (fetched, second_answers):
            self.nodes.append(start_node(self._script(len(self.nodes), answers)))

    @property
    def servers(self) -> str:
        """The address of the first."""
        return f"{self.nodes[0].host}:{self.nodes[0].port}"

    def count(self, number: int, api_key: int) -> int:
        """Return how many requests of a kind a node got."""
        return [key for key, _ in self.nodes[number].requests].count(api_key)

    def _script(self, number: int, answers: Later) -> Callable[[RequestHeader, bytes], Answer]:
        def script(header: RequestHeader, frame: bytes) -> Answer:
            if header.api_key == API_VERSIONS:
                return every_version()
            if header.api_key == METADATA:
                return MetadataResponse(
                    brokers=[
                        MetadataResponseBroker(node_id=at, host=one.host, port=one.port)
                        for at, one in enumerate(self.nodes)
                    ]
                )
            if header.api_key == LIST:
                return ListGroupsResponse(groups=[ListedGroup(group_id=f"of-{number}")])
            if header.api_key == FIND_COORDINATOR:
                keys = decode(
                    FindCoordinatorRequest, header.api_version, frame, header.body_at
                ).coordinator_keys
                return FindCoordinatorResponse(coordinators=list(map(self._coordinator, keys)))
            assert header.api_key == OFFSET_FETCH
            asked = decode(OffsetFetchRequest, header.api_version, frame, header.body_at).groups
            return answers(self.nodes[number], [one.group_id for one in asked])

        return script

    def _coordinator(self, key: str) -> Coordinator:
        node = self.nodes[0 if self.moved else int(key.rpartition("-")[2]) % 2]
        return Coordinator(key=key, host=node.host, port=node.port)


def fetched(node: ScriptedNode, group_ids: list[str]) -> Answer:
    """Answer with the number of each group as its offset."""
    return OffsetFetchResponse(groups=[_offsets(group_id) for group_id in group_ids])


def _offsets(group_id: str) -> OffsetFetchResponseGroup:
    partition = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=int(group_id.rpartition("-")[2]), metadata=""
    )
    return OffsetFetchResponseGroup(
        group_id=group_id, topics=[OffsetFetchResponseTopics(name="flights", partitions=[partition])]
    )


def of(number: int) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets of a group."""
    return {WHERE: CommittedOffset(number)}


def test_thousands_of_groups_cost_a_few_requests(start_node: StartNode) -> None:
    """Each coordinator is asked for its own groups, in growing batches."""
    pair = Pair(start_node, fetched)
    with Cluster(pair.servers) as cluster:
        found = fetch_all_offsets(Survey(cluster), GROUPS)
    assert list(found) == GROUPS
    assert found == {group_id: of(number) for number, group_id in enumerate(GROUPS)}
    assert [pair.count(number, OFFSET_FETCH) for number in (0, 1)] == [4, 4]  # 100, 200, 400, 550
    assert pair.count(0, FIND_COORDINATOR) == 1 + (len(GROUPS) - 1) // MOST_KEYS


def test_a_coordinator_that_is_away_costs_its_own_groups_only(start_node: StartNode) -> None:
    """It is waited for once, not for each batch, and another question does not wait for it again."""
    pair = Pair(start_node, lambda node, group_ids: CLOSE)
    with Cluster(pair.servers, timeout_s=0.5) as cluster:
        survey = Survey(cluster)
        begun = time.monotonic()
        for _ in range(5):
            found = fetch_all_offsets(survey, GROUPS[:400])
            assert [found[one] for one in GROUPS[:400:2]] == [of(number) for number in range(0, 400, 2)]
            assert {type(found[one]) for one in GROUPS[1:400:2]} == {ConnectionFailed}
        assert time.monotonic() - begun < 10 * 0.5
    assert pair.count(0, OFFSET_FETCH) == 5 * 2


def test_a_coordinator_that_hangs_is_asked_once(start_node: StartNode) -> None:
    """The limit of a call holds for all its groups together, and for later questions."""
    pair = Pair(start_node, lambda node, group_ids: None)
    with Cluster(pair.servers, timeout_s=0.5) as cluster:
        survey = Survey(cluster)
        for _ in range(3):
            found = fetch_all_offsets(survey, GROUPS[:400])
            assert {type(found[one]) for one in GROUPS[1:400:2]} == {RequestTimedOut}
    assert pair.count(1, OFFSET_FETCH) == 1


def test_groups_that_move_are_found_at_their_new_coordinator(start_node: StartNode) -> None:
    """Those that were answered are not asked for again."""

    def moving(node: ScriptedNode, group_ids: list[str]) -> Answer:
        pair.moved = True
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(group_id=group_id, error_code=ErrorCode.NOT_COORDINATOR)
                for group_id in group_ids
            ]
        )

    pair = Pair(start_node, moving)
    with Cluster(pair.servers) as cluster:
        found = fetch_all_offsets(Survey(cluster), GROUPS[:200])
    assert found == {group_id: of(number) for number, group_id in enumerate(GROUPS[:200])}
    assert [pair.count(number, OFFSET_FETCH) for number in (0, 1)] == [2, 1]


def test_a_refused_group_does_not_affect_the_others(start_node: StartNode) -> None:
    """A group that may not be read, or that the response lacks, has its own error."""

    def refusing(node: ScriptedNode, group_ids: list[str]) -> Answer:
        refused = OffsetFetchResponseGroup(
            group_id=group_ids[0], error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        return OffsetFetchResponse(groups=[refused, *map(_offsets, group_ids[2:])])

    pair = Pair(start_node, refusing)
    with Cluster(pair.servers) as cluster:
        found = fetch_all_offsets(Survey(cluster), [*GROUPS[:8], GroupId("x" * 40_000)])
    errors = {one: str(answer) for one, answer in found.items() if isinstance(answer, ClientError)}
    assert errors.pop(GroupId("x" * 40_000)).startswith("a group id of 40000 bytes: INVALID_GROUP_ID")
    second = f"{pair.nodes[1].host}:{pair.nodes[1].port}"
    assert errors == {
        GROUPS[1]: "offsets of group group-1: GROUP_AUTHORIZATION_FAILED",
        GROUPS[3]: f"{second} does not answer for group-3",
    }


def test_the_groups_of_the_other_nodes_are_listed_if_one_is_away(start_node: StartNode) -> None:
    """With the address of the one that is."""
    pair = Pair(start_node, fetched)
    second = pair.nodes[1].host, pair.nodes[1].port
    pair.nodes[1].close()
    with Cluster(pair.servers, timeout_s=0.3) as cluster:
        listings, failed = list_on_nodes(Survey(cluster))
    assert [one.group_id for one in listings] == ["of-0"]
    assert list(failed) == [second]


def test_the_coordinators_of_listed_groups_need_no_lookup(start_node: StartNode) -> None:
    """The nodes that listed them are asked."""
    pair = Pair(start_node, fetched)
    with Cluster(pair.servers) as cluster:
        survey = Survey(cluster)
        listings, _ = list_on_nodes(survey)
        found = fetch_all_offsets(survey, [one.group_id for one in listings])
    assert found == {GroupId("of-0"): of(0), GroupId("of-1"): of(1)}
    assert pair.count(0, FIND_COORDINATOR) == 0


def test_ends_come_from_any_cluster(bootstrap_servers: str) -> None:
    """From Headgate, and from three brokers. Partitions that do not exist are omitted."""
    partitions = [TopicPartition(TopicName(TOPIC), index) for index in range(PARTITIONS)]
    nowhere = TopicPartition(TopicName("no-such-topic"), 0)
    beyond = TopicPartition(TopicName(TOPIC), PARTITIONS)
    with Cluster(bootstrap_servers) as cluster:
        found = Survey(cluster).end_offsets([*partitions, nowhere, beyond])
    assert found == dict.fromkeys(partitions, 25)
