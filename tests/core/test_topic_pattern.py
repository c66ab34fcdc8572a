"""Regular expressions over topic names: RE2's syntax, whole names, and limited time."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.core.topic_pattern import InvalidPattern, TopicPattern, compile_pattern
from headgate.domain.ids import TopicName

TOPICS = [TopicName(name) for name in ("orders", "orders-eu", "Orders", "reorders", "flights.2013", "a_1")]


def matching(topics: Iterable[TopicName], pattern: TopicPattern) -> frozenset[TopicName]:
    """Those of the topics that a pattern matches."""
    return frozenset(topic for topic in topics if pattern.matches(topic))


def _pattern(text: str) -> TopicPattern:
    pattern = compile_pattern(text)
    assert isinstance(pattern, TopicPattern), pattern
    return pattern


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", {"orders"}),
        ("orders.*", {"orders", "orders-eu"}),
        (".*orders", {"orders", "reorders"}),
        ("orders|flights\\.\\d{4}", {"orders", "flights.2013"}),
        ("(?i)orders", {"orders", "Orders"}),
        ("[[:alpha:]]_\\d", {"a_1"}),
        ("\\Qflights.2013\\E", {"flights.2013"}),
        ("^orders$", {"orders"}),
        ("(?P<kind>order)s", {"orders"}),
        ("\\p{Lu}.*", {"Orders"}),
        ("", set()),
        ("nothing", set()),
    ],
)
def test_a_pattern_matches_whole_names(text: str, expected: set[str]) -> None:
    """With RE2's syntax."""
    assert matching(TOPICS, _pattern(text)) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orders(", "missing )"),
        ("orders)", "unexpected )"),
        ("[a", "missing ]"),
        ("*", "no argument for repetition operator"),
        ("(a)\\1", "invalid escape sequence"),
        ("(?=orders).*", "invalid perl operator"),
        ("(?<!re)orders", "invalid perl operator"),
        ("a{1001}", "invalid repetition size"),
        ("|".join(f"topic{n}.*" for n in range(20_000)), "pattern too large"),
        ("(.?){999}", "instructions, the limit is 8000"),
        ("((\\pL?\\pN?){9}){9}-", "pattern too large"),
    ],
)
def test_an_invalid_pattern_is_refused_with_the_reason(text: str, reason: str) -> None:
    """Malformed, not in RE2's syntax, or too large."""
    refused = compile_pattern(text)
    assert isinstance(refused, InvalidPattern)
    assert reason in refused.reason
    assert "not a valid regular expression" in str(refused)


def test_a_refusal_writes_nothing_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    """The library would do so by default."""
    compile_pattern("orders(")
    assert capfd.readouterr() == ("", "")


@pytest.mark.timeout(10)
def test_patterns_do_not_backtrack() -> None:
    """The time is proportional to the name's length."""
    assert matching([TopicName("a" * 249)], _pattern("(a*)*b")) == frozenset()


def test_a_list_of_three_hundred_topics_is_not_too_large() -> None:
    """Some clients subscribe so."""
    pattern = _pattern("|".join(f"team-{number}.orders.new" for number in range(300)))
    assert pattern.matches(TopicName("team-299.orders.new"))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", ".", "-", "a*", "[ab]", "(a|b)", "b?", "a{2}", "\\d"]), max_size=5),
    st.lists(st.text("ab.-1", max_size=6), max_size=10),
)
def test_it_agrees_with_pythons_engine(parts: list[str], names: list[str]) -> None:
    """Where the syntax is common to both."""
    text = "".join(parts)
    topics = [TopicName(name) for name in names]
    assert matching(topics, _pattern(text)) == {name for name in names if re.fullmatch(text, name)}
