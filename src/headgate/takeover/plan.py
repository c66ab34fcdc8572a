"""What an import takes over, decided from the metadata and the small files, before any log is read.

The topics of the coordinators are taken over with their records, and other topics if they are asked for. All
remaining topics keep their id, number of partitions and settings, without records: each of their partitions
is empty and begins at the offset at which Kafka's ends. So committed offsets keep their meaning, and
new records get the offsets that they would have had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headgate.domain.ids import (
    GROUP_OFFSETS_TOPIC,
    OFFSETS_HISTORY_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from headgate.domain.setting import InvalidSetting, Setting
from headgate.domain.settings import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS, find
from headgate.takeover.cluster_metadata import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterMetadata,
    PartitionState,
    TopicState,
)
from headgate.takeover.errors import ImportRefused
from headgate.takeover.metadata_records import ACCESS_CONTROL_ENTRY, CLIENT_QUOTA, SCRAM_CREDENTIAL
from headgate.takeover.source import HIGH_WATERMARKS_FILE, KafkaBroker, KafkaDirectory

COORDINATOR_TOPICS: Final = (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC)
"""Topics that are always taken over with their records."""
_NO_HIGH_WATERMARK: Final = -1
_IGNORED: Final = {
    ACCESS_CONTROL_ENTRY: "access control entries (Headgate lets everybody do everything)",
    SCRAM_CREDENTIAL: "SCRAM credentials",
    CLIENT_QUOTA: "quotas",
}


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic to be created."""

    state: TopicState
    overrides: Mapping[str, str]
    has_records: bool
    """Whether its records are taken over."""

    @property
    def name(self) -> str:
        """Return the topic's name."""
        return self.state.name

    @property
    def partition_count(self) -> int:
        """Return its number of partitions."""
        return len(self.state.partitions)


@dataclass(slots=True)
class Plan:
    """What is taken over from a broker, and what the user should know about it."""

    broker: KafkaBroker
    topics: list[PlannedTopic] = field(default_factory=list)
    group_overrides: dict[str, dict[str, str]] = field(default_factory=dict)
    producer_ids_end: int = 0
    leader_epoch: int = 0
    """The largest leader epoch of a partition."""
    notes: list[str] = field(default_factory=list)
    """What is not taken over, and does not prevent the import."""

    def partitions_with_records(self) -> list[tuple[PlannedTopic, int]]:
        """Return the partitions whose records are taken over."""
        return [
            (topic, index) for topic in self.topics if topic.has_records for index in topic.state.partitions
        ]

    def directory_of(self, topic: PlannedTopic, index: int) -> KafkaDirectory:
        """Return the log directory that has a partition. Raises KeyError if none has."""
        return self.broker.partitions[topic.name, index]

    def high_watermark_of(self, topic: PlannedTopic, index: int) -> int | None:
        """Return the offset below which records count; None: all do, because there is no other replica.

        Raises ImportRefused if the file of the high watermarks is missing: none of the records would count.
        """
        if len(topic.state.partitions[index].replicas) == 1:
            return None
        directory = self.directory_of(topic, index)
        if not directory.high_watermarks:
            raise ImportRefused(
                f"{directory.path / HIGH_WATERMARKS_FILE} is missing or empty, and tells which records of "
                f"{topic.name}-{index} count; start Kafka once and stop it, which writes the file again"
            )
        return directory.high_watermarks.get((topic.name, index), 0)


def plan_import(
    broker: KafkaBroker, metadata: ClusterMetadata, topics: Sequence[str], *, all_topics: bool
) -> Plan:
    """Return the plan to take over the coordinators' topics, and these topics or all.

    Raises ImportRefused for unknown topics, and if partitions are not in the directories.
    """
    by_name = {topic.name: topic for topic in metadata.topics.values()}
    if unknown := sorted(set(topics) - by_name.keys()):
        known = ", ".join(sorted(name for name in by_name if not name.startswith("__"))) or "none"
        raise ImportRefused(f"there is no topic {', '.join(unknown)} in this cluster; it has: {known}")
    plan = Plan(broker, producer_ids_end=metadata.producer_ids_end)
    settings = _SettingsCheck(plan.notes)
    for name, state in by_name.items():
        if name == OFFSETS_HISTORY_TOPIC:
            plan.notes.append(f"topic {name} is left out: Headgate uses the name itself")
            continue
        overrides = settings.valid(TOPIC_SETTINGS, metadata.configs.get((TOPIC_RESOURCE, name), {}), name)
        has_records = all_topics or name in topics or name in COORDINATOR_TOPICS
        plan.topics.append(PlannedTopic(state, overrides, has_records))
        _check_partitions(broker, state, has_records=has_records)
    for (resource_type, name), configs in sorted(metadata.configs.items()):
        if resource_type == GROUP_RESOURCE and (valid := settings.valid(GROUP_SETTINGS, configs, name)):
            plan.group_overrides[name] = valid
    settings.note()
    epochs = [one.leader_epoch for state in by_name.values() for one in state.partitions.values()]
    plan.leader_epoch = max(epochs, default=0)
    plan.notes += _ignored(metadata)
    return plan


def _check_partitions(broker: KafkaBroker, topic: TopicState, *, has_records: bool) -> None:
    if sorted(topic.partitions) != list(range(len(topic.partitions))) or not topic.partitions:
        raise ImportRefused(f"the metadata log has not all partitions of {topic.name}")
    for index, partition in topic.partitions.items():
        if (topic.name, index) not in broker.partitions:
            if has_records:
                raise ImportRefused(_missing(broker, topic, index, partition))
            continue
        found = broker.topic_id_of(topic.name, index)
        if found is not None and found != topic.topic_id:
            raise ImportRefused(
                f"{broker.partitions[topic.name, index].path / topic.name}-{index} is of a deleted topic of "
                "the same name; start Kafka once and stop it, which removes the directory"
            )


def _missing(broker: KafkaBroker, topic: TopicState, index: int, partition: PartitionState) -> str:
    if broker.node_id in partition.replicas:
        return f"{topic.name}-{index} is in none of the directories; give all of log.dirs"
    return (
        f"{topic.name}-{index} is not on this broker ({broker.node_id}) but on {partition.replicas}; give "
        "the directories of a broker that has a replica of every partition"
    )


_KEEPS_ALL: Final = {"cleanup.policy": "", "retention.bytes": "-1", "retention.ms": "-1"}
"""The values with which no record is removed, instead of those that are not valid here."""


class _SettingsCheck:
    """Keeps the settings that Headgate has, and notes the others once each."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self._left_out: dict[tuple[str, str], list[str]] = defaultdict(list)

    def valid(
        self, table: Mapping[str, Setting], configs: Mapping[str, str], resource: str
    ) -> dict[str, str]:
        """Return the settings that are valid here."""
        kept = {}
        for name, value in configs.items():
            try:
                find(table, name).parse(value)
                kept[name] = value
            except InvalidSetting as problem:
                why = str(problem)
                if name in _KEEPS_ALL:
                    kept[name] = _KEEPS_ALL[name]
                    why += f"; no record is removed because of it (`{name}={kept[name]}`)"
                self._left_out[name, why].append(resource)
        return kept

    def note(self) -> None:
        """Note what was left out."""
        for (name, why), resources in sorted(self._left_out.items()):
            more = f" and {len(resources) - 3} more" if len(resources) > 3 else ""
            self._notes.append(f"{name} of {', '.join(resources[:3])}{more} is left out: {why}")


def _ignored(metadata: ClusterMetadata) -> list[str]:
    notes = [f"{what} are left out" for key, what in _IGNORED.items() if metadata.others[key]]
    for (resource_type, name), configs in sorted(metadata.configs.items()):
        if resource_type == BROKER_RESOURCE and configs:
            of = f"broker {name}" if name else "all brokers"
            if ours := sorted(configs.keys() & BROKER_SETTINGS.keys()):
                given = ", ".join(f"{one}={configs[one]}" for one in ours)
                notes.append(f"settings of {of} are left out, give them to `headgate serve`: {given}")
            if others := sorted(configs.keys() - BROKER_SETTINGS.keys()):
                notes.append(
                    f"settings of {of} are left out, Headgate has none of these: {', '.join(others)}"
                )
    return notes
