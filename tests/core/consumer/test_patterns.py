"""Subscriptions by regular expression."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.consumer.support import Client, ConsumerHarness, joining, pairs, settle, topics

from headgate.core.consumer.group import ConsumerState
from headgate.core.consumer.offsets import clock_of
from headgate.core.offsets.expiry import Aging
from headgate.domain.errors import ErrorCode

ORDERS = {"orders-eu": 2, "orders-us": 1, "payments": 1}
BY_ORDERS: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "orders-.*"}
ALL_ORDERS = {("orders-eu", 0), ("orders-eu", 1), ("orders-us", 0)}


def reader(h: ConsumerHarness, member_id: str = "a", **more: Any) -> Client:
    """A member that subscribes by an expression."""
    return Client(h, member_id, more=BY_ORDERS | more)


def settle_in_time(h: ConsumerHarness, *clients: Client) -> None:
    """Let members settle, with ticks between their heartbeats."""
    for client in clients:
        client.beat()
    h.advance(1)
    settle(*clients)


def test_an_expression_has_no_topics_until_its_tick() -> None:
    """The member joins without partitions, in epoch 1."""
    h = ConsumerHarness(ORDERS)
    result = h.beat("a", 0, **(joining() | BY_ORDERS))
    assert (result.error, result.member_epoch, result.assigned) == (ErrorCode.NONE, 1, {})
    assert clock_of(h.group).aging is Aging.HELD, "what it reads is not known: nothing may expire"
    h.advance(0)
    assert clock_of(h.group).aging is Aging.SINCE_COMMIT
    assert pairs(h.beat("a", 1, reported=[]).assigned) == ALL_ORDERS


def test_an_expression_matches_whole_names() -> None:
    """A part of one is not enough."""
    h = ConsumerHarness({"orders": 1, "my-orders": 1, "orders-eu": 1})
    a = Client(h, "a", more={"subscribed_topic_names": None, "subscribed_topic_regex": "orders"})
    settle_in_time(h, a)
    assert set(a.owned) == {("orders", 0)}


def test_an_expression_that_matches_nothing_leaves_the_member_in_epoch_one() -> None:
    """A record has the empty result."""
    h = ConsumerHarness({"t": 1})
    a = reader(h)
    settle_in_time(h, a)
    assert (a.epoch, h.group.epoch, h.group.subscriptions.is_known) == (1, 1, True)


@pytest.mark.parametrize("regex", ["orders-(", "[", "(?=x)"])
def test_an_invalid_expression_is_refused(regex: str) -> None:
    """With a message, and without effects."""
    h = ConsumerHarness(ORDERS)
    result = h.beat("a", 0, **(joining() | {"subscribed_topic_regex": regex}))
    assert result.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert result.message is not None
    assert regex in result.message
    assert h.log == []


def test_the_refusal_of_a_long_expression_shows_its_beginning() -> None:
    """And the reason: it would be behind kilobytes otherwise."""
    h = ConsumerHarness(ORDERS)
    regex = "|".join(f"topic-{number}-of-many" for number in range(1000))
    result = h.beat("a", 0, **(joining() | {"subscribed_topic_regex": regex}))
    assert result.message is not None and len(result.message) < 500
    assert "`topic-0-of-many|topic-1-of-many" in result.message
    assert f"... ({len(regex)} characters)` is not a valid" in result.message
    assert "use fewer alternatives" in result.message


def test_names_and_an_expression_are_combined() -> None:
    """A member may have both."""
    h = ConsumerHarness(ORDERS)
    a = Client(h, "a", more={"subscribed_topic_names": ("payments",), "subscribed_topic_regex": "orders-us"})
    settle_in_time(h, a)
    assert set(a.owned) == {("payments", 0), ("orders-us", 0)}


def test_created_and_deleted_topics_are_detected() -> None:
    """The members get them, and revoke them."""
    h = ConsumerHarness(ORDERS)
    a = reader(h)
    settle_in_time(h, a)
    h.change_topics(topics(**{"orders-jp": 1}))
    h.advance(0)
    settle(a)
    assert a.owned == ALL_ORDERS | {("orders-jp", 0)}
    h.change_topics(topics(**{"orders-jp": 0}))
    h.advance(0)
    settle(a)
    assert a.owned == ALL_ORDERS


def test_topics_that_match_no_expression_have_no_effect() -> None:
    """No record is written."""
    h = ConsumerHarness(ORDERS)
    a = reader(h)
    settle_in_time(h, a)
    before = len(h.log)
    h.change_topics(topics(other=3))
    h.advance(60_000 - 30_000)
    settle(a)
    assert len(h.log) == before


def test_a_second_member_with_a_known_expression_joins_at_once() -> None:
    """Its join raises the epoch without a match."""
    h = ConsumerHarness(ORDERS)
    a, b = reader(h), reader(h, "b")
    settle_in_time(h, a)
    b.beat()
    assert b.epoch == 3
    settle(a, b)
    assert a.owned | b.owned == ALL_ORDERS


def test_a_member_with_a_known_expression_without_topics_raises_the_epoch() -> None:
    """As with an unknown topic, as seen of Kafka 4.3.1."""
    h = ConsumerHarness(ORDERS)
    more: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "nothing"}
    a, b = Client(h, "a", more=more), Client(h, "b", more=more)
    a.beat()
    h.advance(0)
    a.beat()
    b.beat()
    assert (a.epoch, b.epoch) == (1, 2)


def test_an_unused_expression_leaves_no_record() -> None:
    """After a leave, and after a change of the subscription."""
    h = ConsumerHarness(ORDERS)
    a, b = reader(h), Client(h, "b", more={"subscribed_topic_names": None, "subscribed_topic_regex": "pay.*"})
    settle_in_time(h, a, b)
    assert set(h.group.regexes) == {"orders-.*", "pay.*"}
    h.beat("b", b.epoch, subscribed_topic_regex="", reported=b.owned)
    assert set(h.group.regexes) == {"orders-.*"}
    h.beat("a", -1)
    assert not h.group.regexes


@pytest.mark.parametrize("is_new_topic", [False, True])
def test_the_topics_of_an_expression_survive_a_crash(is_new_topic: bool) -> None:
    """Topics created meanwhile are matched after the load."""
    h = ConsumerHarness(ORDERS)
    a = reader(h)
    settle_in_time(h, a)
    before = len(h.log)
    if is_new_topic:
        h.topics = topics(**ORDERS, **{"orders-jp": 1})
    h.reload()
    h.advance(0)
    settle(a)
    assert (("orders-jp", 0) in a.owned, len(h.log) > before) == (is_new_topic, is_new_topic)


def test_an_unmatched_expression_is_matched_after_a_crash() -> None:
    """The tick that was due runs again."""
    h = ConsumerHarness(ORDERS)
    a = reader(h)
    a.beat()
    h.reload()
    h.advance(0)
    settle(a)
    assert a.owned == ALL_ORDERS
    assert h.group.state is ConsumerState.STABLE
