"""The environment of groups: topics that are created, grow and are deleted, group settings, calm periods.

The catalogue is the server's real one, on the simulated disk, and is always asked for its contents. Only the
names of topic ids are remembered here, because members may use ids of deleted topics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.clients import Network
from tests.simulation.journal import Journal
from tests.simulation.plan import Plan

from headgate.domain.ids import Millis, TopicId, TopicName
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

if TYPE_CHECKING:
    from tests.simulation.life import Life

READ_TOPICS = (TopicName("c.one"), TopicName("c.two"), TopicName("d.three"))
"""The topics that members of consumer groups read."""
MOST_PARTITIONS = 7
LONGEST_SESSION = 2
"""The longest session of a group, as a multiple of the broker's."""
SESSION_SETTING = "consumer.session.timeout.ms"


class SurroundingsView:
    """What a member may know of its environment."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.is_calm = False
        """In a calm period: members revoke at once, and do not leave or change their subscription."""
        self._names: dict[TopicId, TopicName] = {}
        self.created_at: dict[TopicId, float] = {}
        """The creation of topics, or failed creation, in seconds of steady time."""
        self.deleted_at: dict[TopicName, float] = {}
        """The last deletion of a topic, by name."""
        self._perhaps_deleted: dict[TopicId, float] = {}
        """Deletions that failed, and may be in the catalogue after a crash."""
        self._topics: Topics | None = None

    def partition_counts(self) -> dict[TopicName, int]:
        """Return the partition counts of the topics to read."""
        assert self._topics is not None
        found = {name: self._topics.by_name(name) for name in READ_TOPICS}
        return {name: topic.partition_count for name, topic in found.items() if topic is not None}

    def name_of(self, topic_id: TopicId) -> TopicName:
        """Return the name of a topic, which may be deleted."""
        return self._names[topic_id]


class Surroundings(SurroundingsView):
    """Topics and group settings, changed by the seed."""

    def __init__(
        self, plan: Plan, random: Random, journal: Journal, network: Network, group_ids: Sequence[str]
    ) -> None:
        super().__init__(network)
        self._plan = plan
        self._random = random
        self._journal = journal
        self._group_ids = group_ids
        self._now: Callable[[], Millis]
        self._seconds: Callable[[], float]

    # --- the life of the server ---

    def begin(self, life: Life, topics: Topics) -> None:
        """Note that the catalogue is loaded; create topics in the first life."""
        self._topics = topics
        self._now = life.world.time.system_time
        self._seconds = lambda: life.world.time.seconds
        for topic in topics.all():
            self._names[topic.topic_id] = topic.name
        for topic_id, at in self._perhaps_deleted.items():
            if topics.by_id(topic_id) is None:
                self.deleted_at[self._names[topic_id]] = at
        self._perhaps_deleted.clear()

    def started(self) -> None:
        """Note that the server notifies its groups of changes from now on."""
        if self._group_ids:
            for name in READ_TOPICS[:2]:
                if not self._names.keys() & {self._id_of(name, life=0)}:
                    self._create(name)
            self._rest()

    def _rest(self) -> None:
        delay = self._random.expovariate(1 / self._plan.change_seconds)
        self.network.later(delay, self._change)

    # --- current state ---

    def session_seconds(self, group_id: str) -> float:
        """Return the current session timeout of a group's members."""
        assert self._topics is not None
        text = self._topics.group_overrides(group_id).get(SESSION_SETTING)
        return self._plan.longest_session_seconds if text is None else int(text) / 1000

    def topic_ids(self) -> Mapping[TopicName, TopicId]:
        """Return the ids of the existing topics."""
        assert self._topics is not None
        return {topic.name: topic.topic_id for topic in self._topics.all()}

    def partitions_read_by(self, names: Sequence[TopicName], regex: str | None) -> set[tuple[TopicName, int]]:
        """Return all partitions of a subscription in existing topics."""
        assert self._topics is not None
        return {
            (topic.name, one)
            for topic in self._topics.all()
            if topic.name in names or (regex and re.fullmatch(regex, topic.name))
            for one in range(topic.partition_count)
        }

    # --- changes ---

    def _change(self) -> None:
        self._rest()
        if self.is_calm:
            return
        if self._random.random() < 0.3:
            self._change_session(self._random.choice(self._group_ids))
        else:
            self.change_topic()

    def change_topic(self) -> None:
        """Create, extend or delete a topic."""
        assert self._topics is not None
        name = self._random.choice(READ_TOPICS)
        topic = self._topics.by_name(name)
        if topic is None:
            self._create(name)
        elif topic.partition_count == MOST_PARTITIONS or self._random.random() < 0.3:
            self._delete(topic)
        else:
            self._grow(topic)

    def _change_session(self, group_id: str) -> None:
        assert self._topics is not None
        seconds = self._plan.longest_session_seconds * self._random.choice((1, LONGEST_SESSION))
        overrides = {} if self._random.random() < 0.3 else {SESSION_SETTING: str(int(1000 * seconds))}
        refusal = self._topics.change_settings([self._topics.group_change(group_id, overrides)], self._now())
        self._note(f"settings of {group_id}: {overrides}", refusal, "group settings changed")

    def _create(self, name: TopicName) -> None:
        assert self._topics is not None
        life = sum(one == name for one in self._names.values())
        topic_id = self._id_of(name, life)
        wanted = NewTopic(name, topic_id, self._random.choice((1, 2, 4)))
        created = self._topics.create(wanted, self._now())
        # A creation that failed may be in the catalogue after a crash.
        self._names[topic_id] = name
        self.created_at[topic_id] = self._seconds()
        refusal = created if isinstance(created, Refusal) else None
        self._note(f"topic {name} in life {life}", refusal, "topics created")

    def _id_of(self, name: TopicName, life: int) -> TopicId:
        return TopicId(f"{name}/{life}".encode().ljust(16, b"."))

    def _grow(self, topic: Topic) -> None:
        assert self._topics is not None
        count = topic.partition_count + self._random.choice((1, 1, 2))
        refusal = self._topics.add_partitions(topic, count, self._now())
        self._note(f"topic {topic.name} has {count} partitions", refusal, "topics grown")

    def _delete(self, topic: Topic) -> None:
        assert self._topics is not None
        refusal = self._topics.delete(topic, self._now())
        if refusal is None:
            self.deleted_at[topic.name] = self._seconds()
        else:
            self._perhaps_deleted[topic.topic_id] = self._seconds()
        self._note(f"topic {topic.name} is deleted", refusal, "topics deleted")

    def _note(self, what: str, refusal: Refusal | None, count: str) -> None:
        self._journal.trace(f"{what} {refusal}")
        self._journal.counts[count if refusal is None else "refused changes of topics and settings"] += 1
