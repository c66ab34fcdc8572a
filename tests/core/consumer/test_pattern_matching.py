"""Regular expressions are matched a slice a tick; in the end they mean what they say, whatever happened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.consumer.support import ConsumerHarness, G, beat, joining, topics

from headgate.core.consumer import patterns
from headgate.core.consumer.patterns import MATCHES_AT_ONCE
from headgate.core.topic_pattern import TopicPattern
from headgate.domain.ids import GroupId, TopicName

MANY = {f"orders-{number:05}": 1 for number in range(3 * MATCHES_AT_ONCE)}
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
    """Whoever has a hundred thousand topics is not held up for all of them at once."""
    h = ConsumerHarness(MANY)
    h.beat("a", 0, **by("orders-.*"))
    assert matched == []
    for slices in (1, 2):
        assert h.tick()
        assert len(matched) == slices * MATCHES_AT_ONCE
        assert not h.group.subscriptions.is_known
        assert h.beat("a", 1, reported=[]).member_epoch == 1
    assert h.tick()
    assert len(h.group.subscriptions.by_regex("orders-.*")) == len(MANY)
    assert not h.tick()
    assert len(matched) == len(MANY)


def test_groups_take_turns() -> None:
    """An expression is matched soon although another group has begun with many."""
    h = ConsumerHarness(MANY)
    for regex in ("orders-.*1", "orders-.*2", "orders-.*3"):
        h.beat(regex, 0, **by(regex))
    h.tick()
    h.ask(beat("b", 0, group_id=OTHER, **by("orders-00001")))
    for _ in range(6):
        h.tick()
    other = h.shard.consumer.find(OTHER)
    assert other is not None
    assert other.subscriptions.by_regex("orders-00001") == ("orders-00001",)
    assert not h.group.subscriptions.is_known


def test_a_topic_that_comes_is_all_that_is_matched(matched: list[str]) -> None:
    """What is known of the others stands."""
    h = ConsumerHarness(MANY)
    h.beat("a", 0, **by("orders-.*"))
    h.advance(0)
    matched.clear()
    h.change_topics(topics(**{"orders-new": 1, "payments": 1}))
    h.advance(0)
    assert set(matched) == {"orders-new", "payments"}
    assert "orders-new" in h.group.subscriptions.by_regex("orders-.*")


def test_topics_that_change_while_they_are_matched_are_not_missed() -> None:
    """Whether they come, go, or come again under their name."""
    h = ConsumerHarness(MANY)
    h.beat("a", 0, **by("orders-.*"))
    h.tick()
    first, last = min(MANY), max(MANY)
    h.change_topics(topics(**{"orders-new": 1, first: 0, last: 0}))
    h.tick()
    h.change_topics(topics(life=1, **{first: 1}))
    h.advance(0)
    assert set(h.group.subscriptions.by_regex("orders-.*")) == {*MANY, "orders-new"} - {last}


def test_an_expression_that_comes_while_others_are_matched_is_matched_next() -> None:
    """And what is known by then counts."""
    h = ConsumerHarness(MANY)
    h.beat("a", 0, **by("orders-.*"))
    h.tick()
    h.beat("b", 0, **by("orders-.*0"))
    h.advance(0)
    assert len(h.group.subscriptions.by_regex("orders-.*0")) == len(MANY) // 10


def test_a_group_that_ends_while_it_is_matched_leaves_nothing() -> None:
    """A new one of its name begins anew."""
    h = ConsumerHarness(MANY)
    h.beat("a", 0, **by("orders-.*"))
    h.tick()
    h.beat("a", -1)
    h.advance(0)
    assert not h.group.regexes
    h.beat("a", 0, **by("orders-.*7"))
    h.advance(0)
    assert set(h.group.regexes) == {"orders-.*7"}
    assert len(h.group.subscriptions.by_regex("orders-.*7")) == len(MANY) // 10


def test_a_topic_that_went_while_we_were_down_is_not_meant() -> None:
    """We were not told of it: it is just not among those there are."""
    h = ConsumerHarness({"orders-eu": 1, "orders-us": 1})
    h.beat("a", 0, **by("orders-.*"))
    h.advance(0)
    h.topics = topics(**{"orders-us": 1})
    h.reload()
    h.advance(0)
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
def test_whatever_happens_expressions_come_to_mean_what_they_say(steps: list[tuple[Any, Any, Any]]) -> None:
    """Topics come and go, members too, slices are small, and there are crashes."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(patterns, "MATCHES_AT_ONCE", 2)
        monkeypatch.setattr(patterns, "_MATCHES_ON_THE_SPOT", 2)
        h = ConsumerHarness({"a": 1})
        there = {"a"}
        for kind, who, what in steps:
            if kind == "topic":
                there = there | {who} if what else there - {who}
                h.change_topics(topics(**{who: what}))
            elif kind == "member":
                h.beat(who, 0, **by(what))
            elif kind == "leave" and h.shard.consumer.find(G) is not None and who in h.group.members:
                h.beat(who, -1)
            elif kind == "tick":
                h.tick()
            elif kind == "crash":
                h.reload()
        h.advance(0)
        if h.shard.consumer.find(G) is None:
            return
        used = {member.subscribed_topic_regex for member in h.group.members.values()}
        assert {regex: set(h.group.subscriptions.by_regex(regex)) for regex in h.group.regexes} == {
            regex: {name for name in there if re.fullmatch(regex, name)} for regex in used if regex
        }
