"""The topics that a group's members subscribe to, after any joins and leaves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.consumer.subscriptions import Subscriptions
from headgate.domain.ids import GroupId, MemberId, Millis, TopicName
from headgate.records import ConsumerGroupMemberMetadata, ConsumerGroupRegularExpression

G = GroupId("g")
NAMES = [TopicName(name) for name in "abcd"]
REGEXES = {
    text: ConsumerGroupRegularExpression(
        group_id=G, regular_expression=text, topics=tuple(topics), version=0, timestamp=Millis(0)
    )
    for text, topics in {"[ab]": NAMES[:2], "e": [TopicName("e")]}.items()
}


def member(number: int, names: list[TopicName], regex: str | None = None) -> ConsumerGroupMemberMetadata:
    return ConsumerGroupMemberMetadata(
        group_id=G,
        member_id=MemberId(f"m{number}"),
        subscribed_topic_names=tuple(sorted(names)),
        subscribed_topic_regex=regex,
    )


said = st.tuples(
    st.lists(st.sampled_from(NAMES), unique=True, max_size=3),
    st.sampled_from([None, "[ab]", "e", "not matched yet"]),
)
members = st.lists(said, max_size=6).map(
    lambda all_said: [member(number, names, regex) for number, (names, regex) in enumerate(all_said)]
)


def read_by(*some: ConsumerGroupMemberMetadata) -> set[TopicName]:
    """The obvious way."""
    return {
        name
        for one in some
        for name in (
            *one.subscribed_topic_names,
            *(REGEXES[one.subscribed_topic_regex].topics if one.subscribed_topic_regex in REGEXES else ()),
        )
    }


@given(members, st.integers(0, 6), st.integers(0, 6), st.none() | said)
def test_the_groups_topics_are_those_of_all_members(
    before: list[ConsumerGroupMemberMetadata],
    removed: int,
    going: int,
    coming: tuple[list[TopicName], str | None] | None,
) -> None:
    """After changes, and as predicted before them."""
    subscriptions = Subscriptions(REGEXES)
    for one in before:
        subscriptions.add(one)
    for one in before[:removed]:
        subscriptions.remove(one)
    left = before[removed:]
    topics = read_by(*left)
    assert subscriptions.topics() == topics
    for name in [*NAMES, TopicName("e"), TopicName("z")]:
        assert subscriptions.is_subscribed_to(name) == (name in topics)
        assert subscriptions.reads_any_of({name, TopicName("z")}) == (name in topics)
    assert subscriptions.is_known == all(
        one.subscribed_topic_regex in REGEXES for one in left if one.subscribed_topic_regex
    )
    new = None if coming is None else member(99, *coming)
    staying = [*left[going:], *([] if new is None else [new])]
    assert subscriptions.topics_after(left[:going], new) == read_by(*staying)
    for one in (*before, *staying):
        assert subscriptions.of(one) == read_by(one)


def test_members_with_equal_subscriptions_share_their_names() -> None:
    """So a large group has them in memory once."""
    subscriptions = Subscriptions({})
    one, two, three = (member(number, list(NAMES)) for number in range(3))
    shared = subscriptions.add(one).subscribed_topic_names
    assert two.subscribed_topic_names is not shared
    assert subscriptions.add(two) == two
    subscriptions.remove(one)
    assert subscriptions.add(three).subscribed_topic_names is shared
