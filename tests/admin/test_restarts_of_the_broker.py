"""A broker that restarts while an Admin works with it: calls wait for it, or say what happened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from tests.client.conftest import StartNode, start_node
from tests.client.scripted import CLOSE, every_version

from headgate.admin import Admin, NoNodeReachable, PartlyRefused, TopicPartition
from headgate.broker import Broker, run
from headgate.cli.advice import in_words
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicName
from headgate.wire.framing import RequestHeader
from headgate.wire.message import Message
from headgate.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from headgate.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse

__all__ = ["start_node"]

ORDERS = TopicPartition(TopicName("orders"), 0)
CALLS: dict[str, Callable[[Admin], object]] = {
    "topics": lambda admin: admin.topics(),
    "describe topics": lambda admin: admin.describe_topics(["orders"]),
    "settings": lambda admin: admin.topic_config("orders"),
    "groups": lambda admin: admin.list_groups(),
    "describe groups": lambda admin: admin.describe_group("billing"),
    "offsets": lambda admin: admin.committed_offsets("billing"),
    "positions": lambda admin: admin.positions("billing"),
    "history": lambda admin: admin.offset_history("billing"),
    "expiry": lambda admin: [(one.group_id, one.first_expiry) for one in admin.expiring_groups()],
    "share groups": lambda admin: admin.list_share_groups(),
    "transactions": lambda admin: admin.list_transactions(),
    "producers": lambda admin: admin.describe_producers([ORDERS]),
    "commit": lambda admin: admin.alter_offsets("billing", {ORDERS: 0}),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a topic and a group."""
    with run({"offsets.topic.num.partitions": "1"}) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("orders", 1)
            admin.alter_offsets("billing", {ORDERS: 0})
        yield broker


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_waits_for_a_broker_that_restarts(broker: Broker, call: Callable[[Admin], object]) -> None:
    """The address is known to be right, because the broker answered before. It answers the same."""
    with Admin(broker.bootstrap_servers, timeout_s=60) as admin:
        before = call(admin)
        broker.stop()
        later = threading.Timer(0.3, broker.start)
        later.start()
        try:
            assert call(admin) == before
        finally:
            later.join()


def test_the_wait_ends_with_the_timeout(broker: Broker) -> None:
    """The error names the address."""
    with Admin(broker.bootstrap_servers, timeout_s=0.5) as admin:
        admin.topics()
        broker.stop()
        try:
            with pytest.raises(NoNodeReachable, match=broker.bootstrap_servers):
                admin.list_groups()
        finally:
            broker.start()


def test_a_change_whose_answer_was_lost_may_have_been_made(start_node: StartNode) -> None:
    """Its repetition is refused because the first attempt succeeded; the error says that this can be."""
    deletions: list[bytes] = []

    def script(header: RequestHeader, frame: bytes) -> Message | bytes:
        if header.api_key == 18:
            return every_version()
        if header.api_key == 10:
            found = Coordinator(key="billing", node_id=1, host=node.host, port=node.port)
            return FindCoordinatorResponse(coordinators=[found])
        deletions.append(frame)
        if len(deletions) == 1:
            return CLOSE
        gone = DeletableGroupResult(group_id="billing", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        return DeleteGroupsResponse(results=[gone])

    node = start_node(script)
    with Admin(f"{node.host}:{node.port}") as admin, pytest.raises(PartlyRefused) as refused:
        admin.delete_groups(["billing"])
    assert len(deletions) == 2
    told = in_words(refused.value)
    assert "group billing: GROUP_ID_NOT_FOUND" in told
    lost = f"connection to {node.host}:{node.port} lost during DeleteGroups: closed by the other side"
    assert told.endswith(f"; an earlier attempt may have been carried out: {lost}")
