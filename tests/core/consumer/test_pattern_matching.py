"""Regular expressions are matched in slices, one per tick; the result is correct, whatever happens
meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.consumer.support import ConsumerHarness, G, beat, joining, topics
from tests.core.kinds_of_shard import consumer_groups

from headgate.core.consumer import patterns
from headgate.core.consumer.patterns import STEPS_AT_ONCE
from headgate.core.topic_image import TopicChange, TopicsChanged
from headgate.core.topic_pattern import MOST_INSTRUCTIONS, TopicPattern, compile_pattern
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.records import ConsumerGroupRegularExpression

MANY = {f"orders-{number:05}": 1 for number in range(6_000)}
OTHER = GroupId("other")


def by(regex: str) -> dict[str, Any]:
    """What a member says that joins and subscribes by an expression."""
    return joining() | {"subscribed_topic_names": None, "subscribed_topic_regex": regex}


@pytest.fixture
def matched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names that were held against expressions, in order."""
    names: list[str] = []
    really = TopicPattern.matches

    def matches(pattern: TopicPattern, topic: TopicName) -> bool:
        names.append(topic)
        return really(pattern, topic)

    monkeypatch.setattr(TopicPattern, "matches", matches)
    yield names


def test_a_tick_matches_a_slice(matched: list[str]) -> None:
    """A hundred thousand topics take several ticks."""
    h = ConsumerHarness(MANY)
    h.beat("a", 0, **by("orders-.*"))
    assert matched == []
    for _ in range(3):
        before = len(matched)
        assert h.tick()
        assert steps("orders-.*", matched[before:]) <= STEPS_AT_ONCE
        assert not h.group.subscriptions.is_known
        assert h.beat("a", 1, reported=[]).member_epoch == 1
    while h.tick():
        pass
    assert len(h.group.subscriptions.by_regex("orders-.*")) == len(MANY)
    assert not h.tick()
    assert len(matched) == len(MANY)


def steps(regex: str, names: list[str]) -> int:
    """What matching these names takes at worst."""
    pattern = compile_pattern(regex)
    assert isinstance(pattern, TopicPattern)
    return sum(pattern.steps(TopicName(name)) for name in names)


SLOW = "((a|b)?){900}"


def test_an_expression_that_is_slow_to_match_takes_more_ticks(matched: list[str]) -> None:
    """A few characters may compile to a thousand times the cost: a tick then matches one name."""
    names = {f"{number:03b}".replace("0", "a").replace("1", "b") * 60: 1 for number in range(8)}
    h = ConsumerHarness(names)
    h.beat("a", 0, **by(SLOW))
    for count in range(1, len(names) + 1):
        assert h.tick()
        assert len(matched) == count
    h.advance(0)
    assert set(h.group.subscriptions.by_regex(SLOW)) == set(names)


def test_a_too_large_expression_is_refused() -> None:
    """A single match would take too long; the message says what to do."""
    h = ConsumerHarness(MANY)
    refused = h.beat("a", 0, **by("(.?){999}"))
    assert refused.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert str(MOST_INSTRUCTIONS) in str(refused.message)
    assert "fewer" in str(refused.message)


GROUPS = [GroupId(f"group-{number}") for number in range(12)]


def readers(h: ConsumerHarness, regexes: list[str]) -> None:
    """A group for each of these expressions, all of which are matched."""
    for group_id, regex in zip(GROUPS, regexes, strict=False):
        h.ask(beat("a", 0, group_id=group_id, **by(regex)))
    h.advance(0)


def test_a_topic_is_matched_once_for_all_groups_with_one_expression(matched: list[str]) -> None:
    """At once, without a tick."""
    h = ConsumerHarness({"orders-1": 1})
    readers(h, ["orders-.*"] * len(GROUPS))
    matched.clear()
    h.change_topics(topics(payments=1))
    assert matched == ["payments"]
    assert not h.tick()


def test_many_expressions_are_matched_in_ticks(matched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The group whose expression matches changes; the others write nothing."""
    h = ConsumerHarness({"orders-1": 1})
    readers(h, [f"(orders|payments)-.*-{number:02}" for number in range(len(GROUPS))])
    matched.clear()
    written = len(h.log)
    new = f"payments-{'x' * 100}-{len(GROUPS) - 1}"
    monkeypatch.setattr(patterns, "STEPS_AT_ONCE", 5 * steps("(orders|payments)-.*-00", [new]))
    h.change_topics(topics(**{new: 1}))
    assert 0 < len(matched) <= 5
    h.advance(0)
    last = consumer_groups(h.shard).find(GROUPS[-1])
    assert last is not None
    assert len(last.subscriptions.topics()) == 1
    assert len(h.log) == written + 2


def test_unsorted_topics_of_kafkas_records_are_found() -> None:
    """A deleted topic is removed from them."""
    h = ConsumerHarness({"b": 1, "a": 1, "c": 1})
    h.beat("x", 0, **by("."))
    h.advance(0)
    for record in list(h.group.records()):
        if isinstance(record, ConsumerGroupRegularExpression):
            h.shard.apply(replace(record, topics=tuple(map(TopicName, "cab"))), 0)
    for name in "abc":
        assert h.group.is_subscribed_to(TopicName(name))
    h.ask(TopicsChanged([TopicChange(TopicName("c"), None)]))
    while h.tick():
        pass
    assert h.group.subscriptions.by_regex(".") == ("a", "b")


def test_groups_take_turns() -> None:
    """An expression is matched soon although another group has many."""
    h = ConsumerHarness(MANY)
    for regex in ("orders-.*1", "orders-.*2", "orders-.*3"):
        h.beat(regex, 0, **by(regex))
    h.tick()
    h.ask(beat("b", 0, group_id=OTHER, **by("orders-00001")))
    for _ in range(14):
        h.tick()
    other = consumer_groups(h.shard).find(OTHER)
    assert other is not None
    assert other.subscriptions.by_regex("orders-00001") == ("orders-00001",)
    assert not h.group.subscriptions.is_known


def test_only_a_new_topic_is_matched(matched: list[str]) -> None:
    """Results for the others are kept."""
    h = ConsumerHarness(MANY)
    h.beat("a", 0, **by("orders-.*"))
    h.advance(100)
    matched.clear()
    h.change_topics(topics(**{"orders-new": 1, "payments": 1}))
    h.advance(100)
    assert set(matched) == {"orders-new", "payments"}
    assert "orders-new" in h.group.subscriptions.by_regex("orders-.*")


def test_topics_that_change_during_a_match_are_not_missed() -> None:
    """Created, deleted, or recreated ones."""
    h = ConsumerHarness(MANY)
    h.beat("a", 0, **by("orders-.*"))
    h.tick()
    first, last = min(MANY), max(MANY)
    h.change_topics(topics(**{"orders-new": 1, first: 0, last: 0}))
    h.tick()
    h.change_topics(topics(life=1, **{first: 1}))
    h.advance(100)
    assert set(h.group.subscriptions.by_regex("orders-.*")) == {*MANY, "orders-new"} - {last}


def test_an_expression_added_during_a_match_is_matched_next() -> None:
    """With the topics of that time."""
    h = ConsumerHarness(MANY)
    h.beat("a", 0, **by("orders-.*"))
    h.tick()
    h.beat("b", 0, **by("orders-.*0"))
    h.advance(100)
    assert len(h.group.subscriptions.by_regex("orders-.*0")) == len(MANY) // 10


def test_a_group_deleted_during_a_match_leaves_no_state() -> None:
    """A new one of its name starts again."""
    h = ConsumerHarness(MANY)
    h.beat("a", 0, **by("orders-.*"))
    h.tick()
    h.beat("a", -1)
    h.advance(100)
    assert not h.group.regexes
    h.beat("a", 0, **by("orders-.*7"))
    h.advance(100)
    assert set(h.group.regexes) == {"orders-.*7"}
    assert len(h.group.subscriptions.by_regex("orders-.*7")) == len(MANY) // 10


def test_a_topic_deleted_during_a_crash_is_removed() -> None:
    """It is not among the topics after the load."""
    h = ConsumerHarness({"orders-eu": 1, "orders-us": 1})
    h.beat("a", 0, **by("orders-.*"))
    h.advance(100)
    h.topics = topics(**{"orders-us": 1})
    h.reload()
    h.advance(100)
    assert h.group.subscriptions.by_regex("orders-.*") == ("orders-us",)


NAMES = ("a", "ab", "abc", "b", "bc")
REGEXES = ("a.*", ".*b", "abc|b", "none")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("topic"), st.sampled_from(NAMES), st.integers(0, 2)),
        st.tuples(st.just("member"), st.sampled_from("xyz"), st.sampled_from(REGEXES)),
        st.tuples(st.just("leave"), st.sampled_from("xyz"), st.just(None)),
        st.tuples(st.just("tick"), st.just(None), st.just(None)),
        st.tuples(st.just("crash"), st.just(None), st.just(None)),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(steps=STEPS)
def test_expressions_match_their_topics_in_the_end(steps: list[tuple[Any, Any, Any]]) -> None:
    """With changes of topics and members, small slices, and crashes."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(patterns, "STEPS_AT_ONCE", 100)
        monkeypatch.setattr(patterns, "_MATCHES_ON_THE_SPOT", 2)
        h = ConsumerHarness({"a": 1})
        there = {"a"}
        for kind, who, what in steps:
            if kind == "topic":
                there = there | {who} if what else there - {who}
                h.change_topics(topics(**{who: what}))
            elif kind == "member":
                h.beat(who, 0, **by(what))
            elif kind == "leave" and consumer_groups(h.shard).find(G) is not None and who in h.group.members:
                h.beat(who, -1)
            elif kind == "tick":
                h.tick()
            elif kind == "crash":
                h.reload()
        h.advance(100)
        if consumer_groups(h.shard).find(G) is None:
            return
        used = {member.subscribed_topic_regex for member in h.group.members.values()}
        assert {regex: set(h.group.subscriptions.by_regex(regex)) for regex in h.group.regexes} == {
            regex: {name for name in there if re.fullmatch(regex, name)} for regex in used if regex
        }
