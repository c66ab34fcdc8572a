"""Which share-partitions of a group have states: what is missing, requested, confirmed and removed (F2).

A share-partition is assigned only when its state is initialized. `initializing` and `deleting` are requests
that a crash may have interrupted: the next heartbeat after the retry interval requests the first ones again,
a further deletion the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from headgate.core.share.membership.commands import StatePartitions
from headgate.core.share.membership.group import ShareGroup, assigned_partitions
from headgate.core.topic_image import TopicImage
from headgate.domain.ids import TopicId, TopicName
from headgate.records.consumer_model import TargetPartitions
from headgate.records.share_group_model import ShareGroupStatePartitions, TopicPartitions


def missing_states(
    group: ShareGroup, topics: frozenset[TopicName], image: TopicImage, *, is_retry_due: bool
) -> dict[TopicId, TopicPartitions]:
    """Return the partitions of these topics whose initialization must be requested now."""
    states = group.states_now
    missing: dict[TopicId, TopicPartitions] = {}
    for name in sorted(topics):
        topic = image.find(name)
        if topic is None:
            continue
        known = states.initialized.get(topic.topic_id)
        if known is not None and len(known.partitions) >= topic.partition_count:
            continue
        there = set(() if known is None else known.partitions)
        if not is_retry_due and topic.topic_id in states.initializing:
            there.update(states.initializing[topic.topic_id].partitions)
        left = tuple(index for index in range(topic.partition_count) if index not in there)
        if left:
            missing[topic.topic_id] = TopicPartitions(name, left)
    return missing


def with_initializing(
    states: ShareGroupStatePartitions, partitions: StatePartitions
) -> ShareGroupStatePartitions:
    """Return the record after the initialization of partitions was requested."""
    return replace(
        states,
        initializing=_union(states.initializing, partitions),
        deleting={topic_id: name for topic_id, name in states.deleting.items() if topic_id not in partitions},
    )


def with_initialized(
    states: ShareGroupStatePartitions, partitions: TargetPartitions
) -> ShareGroupStatePartitions:
    """Return the record after initializations were confirmed; those that were not requested are ignored."""
    confirmed = {
        topic_id: TopicPartitions(name, tuple(filter(frozenset(partitions[topic_id]).__contains__, indexes)))
        for topic_id, (name, indexes) in states.initializing.items()
        if topic_id in partitions
    }
    return replace(
        states,
        initializing=_difference(states.initializing, partitions),
        initialized=_union(states.initialized, confirmed),
    )


def with_deleting(states: ShareGroupStatePartitions, topics: Iterable[TopicId]) -> ShareGroupStatePartitions:
    """Return the record after the removal of topics' states was requested."""
    gone = set(topics)
    names = {
        topic_id: name
        for some in (states.initializing, states.initialized)
        for topic_id, (name, _) in some.items()
        if topic_id in gone
    }
    return replace(without(states, gone), deleting={**states.deleting, **names})


def without(states: ShareGroupStatePartitions, topics: Iterable[TopicId]) -> ShareGroupStatePartitions:
    """Return the record without anything of these topics."""
    gone = set(topics)
    return replace(
        states,
        initializing={key: value for key, value in states.initializing.items() if key not in gone},
        initialized={key: value for key, value in states.initialized.items() if key not in gone},
        deleting={key: value for key, value in states.deleting.items() if key not in gone},
    )


def removable(
    states: ShareGroupStatePartitions, names: Sequence[TopicName] | None, image: TopicImage
) -> dict[TopicId, TopicPartitions]:
    """Return the partitions of existing topics that have or may have a state; `names` None: of all topics."""
    found: dict[TopicId, TopicPartitions] = {}
    wanted = None if names is None else set(names)
    for topic_id in (*states.initialized, *states.initializing, *states.deleting):
        name = image.name_of(topic_id)
        topic = None if name is None else image.find(name)
        if name is not None and topic is not None and (wanted is None or name in wanted):
            found[topic_id] = TopicPartitions(name, tuple(range(topic.partition_count)))
    return found


def assignable(states: ShareGroupStatePartitions, image: TopicImage) -> dict[TopicId, tuple[int, ...]]:
    """Return the initialized partitions of existing topics."""
    return {
        topic_id: indexes
        for topic_id, (_, indexes) in states.initialized.items()
        if image.name_of(topic_id) is not None
    }


def differs_from_target(group: ShareGroup, image: TopicImage) -> bool:
    """Return whether some initialized partitions of subscribed topics are not assigned."""
    assigned = assigned_partitions(group.targets)
    subscribed = image.ids_of(group.topics)
    return any(
        topic_id in subscribed and assigned.get(topic_id, set()) != set(indexes)
        for topic_id, indexes in assignable(group.states_now, image).items()
    )


def _union(one: StatePartitions, other: StatePartitions) -> dict[TopicId, TopicPartitions]:
    found = dict(one)
    for topic_id, (name, indexes) in other.items():
        before = found[topic_id].partitions if topic_id in found else ()
        if indexes:
            found[topic_id] = TopicPartitions(name, tuple(sorted({*before, *indexes})))
    return found


def _difference(
    one: StatePartitions, other: Mapping[TopicId, Sequence[int]]
) -> dict[TopicId, TopicPartitions]:
    found: dict[TopicId, TopicPartitions] = {}
    for topic_id, (name, indexes) in one.items():
        gone = set(other.get(topic_id, ()))
        left = tuple(index for index in indexes if index not in gone)
        if left:
            found[topic_id] = TopicPartitions(name, left)
    return found
