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


def test_an_expression_means_nothing_until_its_tick() -> None:
    """The heartbeat that brings it matches nothing: the member is in with no partitions, in epoch 1."""
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
    """It is known that it means nothing, and that is recorded."""
    h = ConsumerHarness({"t": 1})
    a = reader(h)
    settle_in_time(h, a)
    assert (a.epoch, h.group.epoch, h.group.subscriptions.is_known) == (1, 1, True)


@pytest.mark.parametrize("regex", ["orders-(", "[", "(?=x)"])
def test_what_is_no_expression_is_refused(regex: str) -> None:
    """In words, and without a trace."""
    h = ConsumerHarness(ORDERS)
    result = h.beat("a", 0, **(joining() | {"subscribed_topic_regex": regex}))
    assert result.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert result.message is not None
    assert regex in result.message
    assert h.log == []


def test_names_and_an_expression_add_up() -> None:
    """A member may have both."""
    h = ConsumerHarness(ORDERS)
    a = Client(h, "a", more={"subscribed_topic_names": ("payments",), "subscribed_topic_regex": "orders-us"})
    settle_in_time(h, a)
    assert set(a.owned) == {("payments", 0), ("orders-us", 0)}


def test_a_topic_that_comes_and_goes_is_seen() -> None:
    """The members get it, and let it go."""
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


def test_topics_that_no_expression_means_disturb_nobody() -> None:
    """Nothing is written for them."""
    h = ConsumerHarness(ORDERS)
    a = reader(h)
    settle_in_time(h, a)
    before = len(h.log)
    h.change_topics(topics(other=3))
    h.advance(60_000 - 30_000)
    settle(a)
    assert len(h.log) == before


def test_a_second_member_with_a_known_expression_joins_at_once() -> None:
    """Its join raises the epoch: there is nothing to match."""
    h = ConsumerHarness(ORDERS)
    a, b = reader(h), reader(h, "b")
    settle_in_time(h, a)
    b.beat()
    assert b.epoch == 3
    settle(a, b)
    assert a.owned | b.owned == ALL_ORDERS


def test_a_member_that_joins_by_what_is_known_to_mean_nothing_raises_the_epoch() -> None:
    """As with a topic that does not exist, and as seen of Kafka 4.3.1."""
    h = ConsumerHarness(ORDERS)
    more: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "nothing"}
    a, b = Client(h, "a", more=more), Client(h, "b", more=more)
    a.beat()
    h.advance(0)
    a.beat()
    b.beat()
    assert (a.epoch, b.epoch) == (1, 2)


def test_an_expression_that_nobody_uses_any_more_leaves_no_record() -> None:
    """Whether its member leaves or subscribes otherwise."""
    h = ConsumerHarness(ORDERS)
    a, b = reader(h), Client(h, "b", more={"subscribed_topic_names": None, "subscribed_topic_regex": "pay.*"})
    settle_in_time(h, a, b)
    assert set(h.group.regexes) == {"orders-.*", "pay.*"}
    h.beat("b", b.epoch, subscribed_topic_regex="", reported=b.owned)
    assert set(h.group.regexes) == {"orders-.*"}
    h.beat("a", -1)
    assert not h.group.regexes


@pytest.mark.parametrize("is_new_topic", [False, True])
def test_what_an_expression_means_survives_a_crash(is_new_topic: bool) -> None:
    """Topics that came meanwhile are seen as soon as we are told."""
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


def test_an_expression_brought_before_a_crash_is_matched_after_it() -> None:
    """The tick that was due is made up for."""
    h = ConsumerHarness(ORDERS)
    a = reader(h)
    a.beat()
    h.reload()
    h.advance(0)
    settle(a)
    assert a.owned == ALL_ORDERS
    assert h.group.state is ConsumerState.STABLE
