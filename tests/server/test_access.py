"""Authorization: the access policy is asked for a request's needs, and a denied request has no effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from tests.server.clients import WIDTH, Client, T, commit, committed, fetch, run_scenario
from tests.server.needed import EXAMPLES

from headgate.api.needs import nothing
from headgate.api.registry import apis_by_key
from headgate.domain.errors import ErrorCode
from headgate.security.authorizer import ALLOW_ALL, Need
from headgate.security.principal import ANONYMOUS, Principal
from headgate.security.resources import CLUSTER, Operation, Resource, ResourceType, denied_error
from headgate.server.listener import Listener
from headgate.server.node import BrokerNode
from headgate.wire.framing import request_frame
from headgate.wire.message import Request, Struct
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.delete_topics import DeleteTopicsRequest
from headgate.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headgate.wire.messages.heartbeat import HeartbeatRequest
from headgate.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")
GROUP = Resource(ResourceType.GROUP, "g")
TOPIC = Resource(ResourceType.TOPIC, "t")
APIS = apis_by_key()
NEEDS_NOTHING = {
    "ApiVersions": "a client asks it before it says who it is",
    "DescribeCluster": "whoever connects may know the brokers, as in Kafka",
}


class Rules:
    """A policy that denies single rights to single principals."""

    allows_everything = False

    def __init__(self) -> None:
        self.denied: set[tuple[Principal, Operation, Resource]] = set()
        self.asked: list[tuple[Operation, Resource]] = []
        self._when_changed: list[Callable[[], None]] = []

    def allows(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        self.asked.append((operation, resource))
        return (principal, operation, resource) not in self.denied

    def when_changed(self, action: Callable[[], None]) -> None:
        self._when_changed.append(action)

    def deny(self, principal: Principal, *rights: tuple[Operation, Resource]) -> None:
        """Deny exactly these rights to this principal from now on."""
        self.denied = {(principal, *right) for right in rights}
        self.asked.clear()
        for action in self._when_changed:
            action()


def _chain(need: Need | None) -> Iterator[tuple[Operation, Resource]]:
    while need is not None:
        yield need.operation, need.resource
        need = need.otherwise


def _errors(part: Any) -> Iterator[int]:
    """Yield every error code in a response except NONE."""
    if isinstance(part, Struct):
        for field in ("error_code", "partition_error_code"):
            if getattr(part, field, 0):
                yield getattr(part, field)
        for name in part.FIELD_DEFAULTS:
            yield from _errors(getattr(part, name))
    elif isinstance(part, Sequence) and not isinstance(part, str | bytes):
        for one in part:
            yield from _errors(one)


def _guests(node: BrokerNode) -> tuple[Rules, Client, Client]:
    rules = Rules()
    listener = Listener(node, rules)
    return rules, Client(node, listener, ALICE), Client(node, listener, BOB)


_ERROR_SINCE = {"DescribeLogDirs": 3, "ListPausedPartitions": 1}
"""First version whose responses have an error code, if not the first one; earlier responses are empty."""


def test_every_api_says_what_it_needs() -> None:
    """Each API has an example below, or needs nothing for a known reason."""
    for api in APIS.values():
        assert (api.needs is nothing) == (api.name in NEEDS_NOTHING), api.name
        assert (api.key in EXAMPLES) != (api.name in NEEDS_NOTHING), api.name


@pytest.mark.parametrize("key", EXAMPLES, ids=[APIS[key].name for key in EXAMPLES])
def test_a_denied_request_is_refused_in_the_words_of_its_api(key: int) -> None:
    """In every version, for each missing right: the response holds the error of the resource."""
    api = APIS[key]

    async def scenario(anybody: Client) -> None:
        rules, alice, _ = _guests(anybody.node)
        for version in range(api.min_version, api.max_version + 1):
            request, needs = EXAMPLES[key](version)
            for index, need in enumerate(needs):
                rules.deny(ALICE, *_chain(need))
                response = await alice.ask(request, version)
                asked = [(before.operation, before.resource) for before in needs[:index]]
                assert rules.asked == [*asked, *_chain(need)]
                errors = set(_errors(response))
                has_no_room = version < _ERROR_SINCE.get(api.name, 0)
                assert errors == (set() if has_no_room else {denied_error(need.resource)}), version

    run_scenario(scenario)


@pytest.mark.parametrize(("key", "version"), [(1, 12), (1, 18), (9, 7), (9, 8), (47, 0)])
def test_the_error_of_a_topic_is_reported_for_its_partitions(key: int, version: int) -> None:
    """Clients read the error of the partitions."""

    async def scenario(anybody: Client) -> None:
        rules, alice, _ = _guests(anybody.node)
        request, needs = EXAMPLES[key](version)
        rules.deny(ALICE, *_chain(needs[-1]))
        response = await alice.ask(request, version)
        whole = response.groups[0] if key == 9 and version >= 8 else response
        assert whole.error_code == ErrorCode.NONE
        partitions = (whole.responses if key == 1 else whole.topics)[0].partitions
        assert {one.error_code for one in partitions} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}

    run_scenario(scenario)


def test_what_is_denied_does_not_happen() -> None:
    """No offset is committed, no topic is created or deleted; with the right, they are."""

    async def scenario(anybody: Client) -> None:
        rules, alice, bob = _guests(anybody.node)
        new = Resource(ResourceType.TOPIC, "new")
        rights = [
            (Operation.READ, TOPIC),
            (Operation.DELETE, TOPIC),
            (Operation.DELETE, CLUSTER),
            (Operation.CREATE, new),
            (Operation.CREATE, CLUSTER),
        ]
        rules.deny(ALICE, *rights)
        topics = anybody.node.topics
        create = CreateTopicsRequest(
            topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)]
        )
        delete = DeleteTopicsRequest(topic_names=["t"])
        for client, is_done in ((alice, False), (bob, True)):
            await client.ask(commit(5, [0]), 9)
            assert await committed(anybody) == ({0: 5} if is_done else {})
            await client.ask(create, 5)
            assert (topics.by_name("new") is not None) == is_done
            await client.ask(delete, 5)
            assert (topics.by_name("t") is None) == is_done

    run_scenario(scenario)


@pytest.mark.parametrize(
    "request_of",
    [lambda n: commit(n, [3]), lambda n: commit(n, list(range(WIDTH))), lambda n: fetch([3], 9)],
    ids=["commit", "wide commit", "fetch"],
)
def test_a_remembered_request_is_served_to_its_principal_alone(
    request_of: Callable[[int], Request[Any]],
) -> None:
    """The same bytes from another principal are decoded, checked against the policy, and denied."""

    async def scenario(anybody: Client) -> None:
        rules, alice, bob = _guests(anybody.node)
        rules.deny(BOB, (Operation.READ, GROUP), (Operation.DESCRIBE, GROUP))
        for number in range(3):
            assert not set(_errors(await alice.ask(request_of(number), 9)))
        rules.asked.clear()
        assert not set(_errors(await alice.ask(request_of(3), 9)))
        assert not rules.asked, "it is remembered for her"
        before = await committed(anybody)
        for number in range(10, 13):
            response = await bob.ask(request_of(number), 9)
            assert set(_errors(response)) == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
        assert await committed(anybody) == before
        rules.asked.clear()
        assert not set(_errors(await Client(anybody.node, alice.listener).ask(request_of(13), 9)))
        assert rules.asked, "nor is it remembered for who did not authenticate"

    run_scenario(scenario)


def test_what_was_remembered_is_denied_when_the_policy_changes() -> None:
    """A denied request is not remembered: it is served once it is allowed, and denied when it is not."""

    async def scenario(anybody: Client) -> None:
        rules, alice, _ = _guests(anybody.node)
        for round_ in range(3):
            rules.deny(BOB)
            for number in range(4):
                response = await alice.ask(commit(100 * round_ + number, [0]), 9)
                assert not set(_errors(response))
            rules.deny(ALICE, (Operation.READ, GROUP))
            for _ in range(4):
                response = await alice.ask(commit(7, [0]), 9)
                assert set(_errors(response)) == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
            assert await committed(anybody) == {0: 100 * round_ + 3}

    run_scenario(scenario)


def test_a_request_that_takes_turns_to_check_is_not_remembered() -> None:
    """The policy may change between the slices of a check."""

    async def scenario(anybody: Client) -> None:
        rules, alice, _ = _guests(anybody.node)
        ticks = count()
        anybody.node.request_work.seconds = lambda: float(next(ticks))  # every slice is one step
        for number in range(4):
            rules.asked.clear()
            assert not set(_errors(await alice.ask(commit(number, [0]), 9)))
            assert rules.asked
        assert await committed(anybody) == {0: 3}

    run_scenario(scenario)


def test_the_topics_of_a_session_are_asked_for() -> None:
    """A fetch that names no topics needs the right to those of its session."""

    async def scenario(anybody: Client) -> None:
        rules, alice, _ = _guests(anybody.node)
        for version in (12, 18):
            rules.deny(BOB)
            topics = [FetchTopic(topic="t", topic_id=T, partitions=[FetchPartition(partition=0)])]
            first = await alice.ask(FetchRequest(session_epoch=0, topics=topics), version)
            assert first.session_id and not set(_errors(first))
            rules.deny(ALICE, (Operation.READ, TOPIC))
            again = FetchRequest(session_id=first.session_id, session_epoch=1)
            response = await alice.ask(again, version)
            assert response.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            anew = await alice.ask(FetchRequest(session_id=first.session_id, session_epoch=0), version)
            assert not set(_errors(anew)), "a new session needs rights for its own topics"

    run_scenario(scenario)


def test_denied_metadata_has_the_brokers() -> None:
    """A client without brokers would look for another cluster. A denied topic is missing from all topics."""

    async def scenario(anybody: Client) -> None:
        rules, alice, _ = _guests(anybody.node)
        rules.deny(ALICE, (Operation.DESCRIBE, TOPIC))
        for version in range(14):
            named = await alice.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), version)
            assert [topic.error_code for topic in named.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
            everything = await alice.ask(MetadataRequest(topics=None if version else []), version)
            assert len(named.brokers) == len(everything.brokers) == 1
            assert not everything.topics

    run_scenario(scenario)


def test_a_denied_request_without_an_answer_closes_the_connection() -> None:
    """A producer with acks=0 learns of the error in no other way."""

    async def scenario(anybody: Client) -> None:
        rules, alice, _ = _guests(anybody.node)
        rules.deny(ALICE, (Operation.WRITE, TOPIC))
        data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0)])]
        alice.connection.data_received(request_frame(ProduceRequest(acks=0, topic_data=data), 9, 1, "p"))
        await asyncio.sleep(0)
        assert alice.wire.is_closed and not alice.wire.sent

    run_scenario(scenario)


def test_a_denied_request_keeps_its_place_in_line() -> None:
    """This includes a large request, which is decoded and checked in steps: responses are in order."""

    async def scenario(anybody: Client) -> None:
        rules, alice, _ = _guests(anybody.node)
        rules.deny(ALICE, (Operation.READ, TOPIC))
        large = commit(0, list(range(15_000)))
        requests: list[Request[Any]] = [
            HeartbeatRequest(group_id="g"),
            large,
            HeartbeatRequest(group_id="g"),
            commit(1, [0]),
        ]
        versions = [4, 9, 4, 9]
        frames = [
            request_frame(request, version, number, "c")
            for number, (request, version) in enumerate(zip(requests, versions, strict=True))
        ]
        assert len(frames[1]) > 128 * 1024
        alice.connection.data_received(b"".join(frames))
        answers = await alice.receive(4)
        assert [number for number, _ in answers] == [0, 1, 2, 3]
        assert [int.from_bytes(body[-3:-1]) for _, body in answers[::2]] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
        assert len(answers[1][1]) > 15_000 * 6
        assert await committed(anybody) == {}

    run_scenario(scenario)


def test_a_policy_that_allows_everything_is_asked_nothing() -> None:
    """No API is asked for the needs of its requests."""

    def needs(*given: Any) -> Any:
        raise AssertionError("asked")

    async def scenario(client: Client) -> None:
        apis = client.listener.served.apis
        apis.update({key: replace(api, needs=needs) for key, api in apis.items()})
        for number in range(3):
            assert not set(_errors(await client.ask(commit(number, [0]), 9, f"new {number}")))
            assert not set(_errors(await client.ask(fetch([0], 9), 9, f"new {number}")))

    run_scenario(scenario)


def test_who_did_not_authenticate_is_anonymous() -> None:
    """The principal has Kafka's name, and every call returns it."""

    async def scenario(client: Client) -> None:
        told: list[Principal] = []
        apis = client.listener.served.apis
        heartbeat = apis[12]

        def handle(node: Any, call: Any, request: Any) -> Any:
            told.append(call.principal)
            return heartbeat.handle(node, call, request)

        apis[12] = replace(heartbeat, handle=handle)
        await client.ask(HeartbeatRequest(group_id="g"), 4)
        assert told == [ANONYMOUS] and str(ANONYMOUS) == "User:ANONYMOUS"

    run_scenario(scenario)
    assert ALLOW_ALL.allows(ANONYMOUS, Operation.ALTER, CLUSTER)
