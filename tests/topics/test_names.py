"""Topic names: Kafka's rules."""

from __future__ import annotations

import pytest

from headgate.domain.topic_names import collision_key, why_invalid
from headgate.topics.names import is_internal


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "a" * 249, "__consumer_offsets", "-"])
def test_good_names(name: str) -> None:
    """Letters, digits, dots, underscores and dashes, up to 249 of them."""
    assert why_invalid(name) is None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a" * 250, "a b", "a/b", "ä", "a\n", "a\0", "\n", "a:b", "٣"]
)
def test_bad_names(name: str) -> None:
    """All others are refused, also names with a final line break or with digits of other scripts."""
    assert why_invalid(name) is not None


def test_dots_and_underscores_collide() -> None:
    """Metrics cannot tell such names apart."""
    assert collision_key("a.b") == collision_key("a_b") != collision_key("a-b")


def test_the_coordinators_topics_are_internal() -> None:
    """No others are."""
    assert is_internal("__consumer_offsets")
    assert not is_internal("__consumer_offsets2")
