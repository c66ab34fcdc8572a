"""The topics of a node: the catalogue, the partitions' logs, and their background work.

Rules:

1. A change is durable in the catalogue before anything else happens; a refused or failed change has no
   effect.
2. At start the data directory is listed once. A log is opened when it is first used; after a crash it is
   checked then.
3. The directories of a deleted topic are renamed at once, with one sync for all, and removed some at a time.
   Until they are renamed the topic's name cannot be reused, so a directory never belongs to another topic
   than the one of its name. Other state that is stored by topic name holds the name too (`held_names`).
4. `close` writes a marker that every log was closed cleanly. A start without it is one after a crash: the
   leader epoch rises, and each log is checked.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GROUP_OFFSETS_TOPIC, ZERO_TOPIC_ID, Millis, TopicId, TopicName
from headgate.domain.settings import TOPIC_SETTINGS, Settings
from headgate.domain.topic_names import collision_key, why_invalid
from headgate.log.filesystem import FileSystem, read_or_nothing, replace_file
from headgate.log.sync import SyncRequest, run_together
from headgate.topics import catalogue as events
from headgate.topics.catalogue import Catalogue, CatalogueEntry
from headgate.topics.catalogue_opening import PARTITION_DIRECTORY, open_catalogue
from headgate.topics.changed_settings import SettingsChange, apply_changed_settings
from headgate.topics.clean_stop import CLEAN_SHUTDOWN_FILE, CleanStop, indexes_in, ranges_of
from headgate.topics.configs import check
from headgate.topics.fetch_sessions import FetchSessions
from headgate.topics.held_names import HeldNames
from headgate.topics.leftovers import Leftovers
from headgate.topics.refusal import Refusal
from headgate.topics.shared import RunAside, Shared
from headgate.topics.topic import BEGINS_ANEW, Topic
from headgate.topics.transactions import Transactions
from headgate.topics.waiters import PartitionKey, Waiters

if TYPE_CHECKING:
    from headgate.log.compaction import Steps
    from headgate.topics.partition import Partition

logger = logging.getLogger(__name__)

MAXIMUM_PARTITIONS = 1_000_000
"""Maximum of one topic: the metadata of more would not fit into a frame."""
_CATALOGUE = ZERO_TOPIC_ID, 0
"""Key of the catalogue among the logs that fail; no partition has it."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created. `topic_id` is 16 random bytes; overrides are texts."""

    name: str
    topic_id: TopicId
    partition_count: int
    overrides: Mapping[str, str] = field(default_factory=dict)


class Topics:
    """All topics of the node."""

    def __init__(self, shared: Shared, catalogue: Catalogue) -> None:
        """Use `Topics.open`."""
        self._shared = shared
        self._catalogue = catalogue
        self._topics: dict[TopicName, Topic] = {}
        self._by_id: dict[TopicId, Topic] = {}
        self._collisions: dict[str, TopicName] = {}
        self.held_names = HeldNames()
        self._leftovers = Leftovers(
            shared.fs, shared.data_dir, self.held_names, lambda: catalogue.former_names
        )
        self.on_deleted: list[Callable[[Topic], None]] = []
        """Called with each deleted topic."""
        self.on_changed: list[Callable[[Sequence[Topic]], None]] = []
        """Called with the topics that are new or have more partitions, once per change."""
        self.on_group_configured: list[Callable[[str], None]] = []
        """Called with the id of each group whose overrides changed."""
        self.on_broker_configured: list[Callable[[], None]] = []
        """Called when settings of the broker changed."""
        self.fetch_sessions = FetchSessions(
            shared.settings["max.incremental.fetch.session.cache.slots"],
            lambda: random.randint(1, (1 << 31) - 1),
        )
        for entry in catalogue.topics.values():
            self._add(Topic(entry, shared))
        self.last_stop = "none"
        """How the last server on this directory ended: `clean`, `crash`, or `none` if there was none."""

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        data_dir: Path,
        settings: Settings,
        now: Millis,
        check: Callable[[Catalogue], None] = lambda catalogue: None,
    ) -> Topics:
        """Read the catalogue of a data directory, which exists and is locked by the caller.

        `check` is called with the catalogue before anything is changed, and may raise to refuse it.

        Raises OSError, and CatalogueCorrupt for a catalogue that is damaged or of a newer version.
        """
        marker = data_dir / CLEAN_SHUTDOWN_FILE
        stop = CleanStop.decode(read_or_nothing(fs, marker))
        catalogue = open_catalogue(fs, data_dir, 0 if stop is None else stop.catalogue_end)
        check(catalogue)
        if fs.exists(marker):
            fs.remove(marker)
            fs.sync_directory(data_dir)
        if stop is None and catalogue.topics:
            catalogue.commit([events.leader_epoch_raised(catalogue.leader_epoch + 1)], now)
        apply_changed_settings(settings, catalogue)
        shared = Shared(fs, data_dir, settings, Waiters(), catalogue.leader_epoch)
        topics = cls(shared, catalogue)
        topics.last_stop = "clean" if stop is not None else "crash" if catalogue.topics else "none"
        topics._find_partitions(None if stop is None else set(stop.unrecovered))
        if stop is not None:
            topics._report_missing(stop)
        return topics

    def use_thread(self, run_aside: RunAside) -> None:
        """Run there what may take a while, such as writing a snapshot of many producers."""
        self._shared.run_aside = run_aside

    def limit_open_logs(self, most: int) -> None:
        """Let at most so many logs have open files; beyond it, the least recently used one closes them."""
        self._shared.open_files_limit = most

    @property
    def waiters(self) -> Waiters:
        """The waiting long polls for any records."""
        return self._shared.waiters

    @property
    def committed_waiters(self) -> Waiters:
        """The waiting long polls for committed records."""
        return self._shared.committed_waiters

    @property
    def in_transaction(self) -> Mapping[tuple[TopicName, int], Transactions]:
        """The open transactions by topic and partition, of the logs that were opened."""
        return self._shared.in_transaction

    @property
    def leader_epoch(self) -> int:
        """The leader epoch in which this node writes: the number of its starts after a crash."""
        return self._shared.leader_epoch

    @property
    def cluster_id(self) -> str | None:
        """The cluster id in the catalogue; None if it was not recorded yet."""
        return self._catalogue.cluster_id

    def name_cluster(self, cluster_id: str, now: Millis) -> None:
        """Record the cluster id in the catalogue, durably. Raises OSError."""
        self._catalogue.commit([events.cluster_named(cluster_id)], now)

    @property
    def settings(self) -> Settings:
        """The broker's settings."""
        return self._shared.settings

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self._shared.data_dir

    @property
    def data_dir_text(self) -> str:
        """The data directory for responses, which have only Unicode; other bytes are escaped."""
        return str(self.data_dir.absolute()).encode("utf-8", "backslashreplace").decode()

    def __len__(self) -> int:
        return len(self._topics)

    def by_name(self, name: str) -> Topic | None:
        """Return the topic of that name; None if there is none."""
        return self._topics.get(TopicName(name))

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with that id; None for unknown ids and those of deleted topics."""
        return self._by_id.get(TopicId(topic_id))

    def all(self) -> list[Topic]:
        """Return every topic, oldest first."""
        return list(self._topics.values())

    def former_names(self) -> set[TopicName]:
        """Return the names of deleted topics that no topic has now."""
        return self._catalogue.former_names - self._topics.keys()

    def size_bytes(self) -> int:
        """Return the size of all open logs, in bytes."""
        return sum(partition.size_bytes for topic in self.all() for partition in topic.open_partitions())

    def refusal_of_name(self, name: str) -> Refusal | None:
        """Return why no topic of this name can be created; None if one can."""
        problem = why_invalid(name)
        if problem is not None:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if TopicName(name) in self._topics:
            return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self._collisions.get(collision_key(name))
        if other is not None:
            return Refusal(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
            )
        return None

    def refusal_of(self, new: NewTopic) -> Refusal | None:
        """Return why this topic cannot be created, without creating it; None if it can."""
        refusal = self.refusal_of_name(new.name) or check(TOPIC_SETTINGS, new.overrides)
        if refusal is not None:
            return refusal
        if new.partition_count <= 0:
            return Refusal(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        if new.partition_count > MAXIMUM_PARTITIONS:
            return Refusal(
                ErrorCode.INVALID_PARTITIONS, f"A topic has at most {MAXIMUM_PARTITIONS} partitions here."
            )
        if TopicName(new.name) in self.held_names:
            return Refusal(
                ErrorCode.TOPIC_ALREADY_EXISTS,
                f"Topic '{new.name}' was deleted; its committed offsets are still being removed. Try again.",
            )
        obstacle = self._leftovers.obstacle(new.name)
        if obstacle is not None:
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{obstacle} exists and could not be removed")
        return None

    def create(self, new: NewTopic, now: Millis) -> Topic | Refusal:
        """Create a topic durably; return it, or why it was refused."""
        return self.create_all([new], now)[0]

    def create_all(self, wanted: Sequence[NewTopic], now: Millis) -> list[Topic | Refusal]:
        """Create topics with one sync; a refused one does not affect the others."""
        entries: dict[str, CatalogueEntry] = {}
        refusals: dict[int, Refusal] = {}
        for index, new in enumerate(wanted):
            refusal = self.refusal_of(new)
            key = collision_key(new.name)
            if refusal is None and key in entries:
                refusal = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            entry = refusal or self._entry_of(new, now)
            if isinstance(entry, Refusal):
                refusals[index] = entry
            else:
                entries[key] = entry
        if entries:
            failure = self._commit([events.topic_created(entry) for entry in entries.values()], now)
            if failure is not None:
                return [refusals.get(index, failure) for index in range(len(wanted))]
        created = [Topic(self._catalogue.topics[entry.name], self._shared) for entry in entries.values()]
        for topic in created:
            self._add(topic)
        if created:
            self._notify_changed(created)
        return [refusals.get(index) or self._topics[TopicName(new.name)] for index, new in enumerate(wanted)]

    def _entry_of(self, new: NewTopic, now: Millis) -> CatalogueEntry | Refusal:
        assert new.topic_id != ZERO_TOPIC_ID
        assert new.topic_id not in self._by_id
        assert new.topic_id not in self._catalogue.former_ids
        name = TopicName(new.name)
        entry = CatalogueEntry(name, new.topic_id, new.partition_count, dict(new.overrides), now)
        offsets = self.by_name(GROUP_OFFSETS_TOPIC)
        if name in self._catalogue.former_names and offsets is not None:
            try:
                # The former topic's offsets are removed durably: records below belong to that topic.
                entry.offsets_from = offsets.high_watermarks()
            except OSError as problem:
                return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{offsets.name} cannot be read: {problem}")
        return entry

    def has_former_topic(self, topic: Topic) -> bool:
        """Return whether another topic had this topic's name before."""
        return topic.name in self._catalogue.former_names

    def delete(self, topic: Topic, now: Millis) -> Refusal | None:
        """Delete a topic and its records; return why it was refused, else None."""
        if topic.is_internal:
            return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is an internal topic")
        failure = self._commit([events.topic_deleted(topic.topic_id)], now)
        if failure is not None:
            return failure
        del self._topics[topic.name]
        del self._by_id[topic.topic_id]
        del self._collisions[collision_key(topic.name)]
        self._leftovers.remove(topic)
        for callback in self.on_deleted:
            callback(topic)
        return None

    def add_partitions(self, topic: Topic, partition_count: int, now: Millis) -> Refusal | None:
        """Raise a topic's number of partitions to `partition_count`; return why it was refused, else None."""
        refusal = self.refusal_of_partitions(topic, partition_count)
        refusal = refusal or self._commit([events.partitions_added(topic.topic_id, partition_count)], now)
        if refusal is None:
            self._notify_changed([topic])
        return refusal

    def refusal_of_partitions(self, topic: Topic, partition_count: int) -> Refusal | None:
        """Return why a topic cannot get `partition_count` partitions, without a change; None if it can."""
        present = topic.partition_count
        if topic.is_internal:
            message = f"The partitions of {topic.name} are fixed: they decide who coordinates which group."
            return Refusal(ErrorCode.INVALID_PARTITIONS, message)
        if partition_count == present:
            return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
        if partition_count < present:
            return Refusal(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {present} partition(s); {partition_count} would not "
                "be an increase.",
            )
        if partition_count > MAXIMUM_PARTITIONS:
            return Refusal(
                ErrorCode.INVALID_PARTITIONS, f"A topic has at most {MAXIMUM_PARTITIONS} partitions here."
            )
        return None

    def change_settings(self, changes: Sequence[SettingsChange], now: Millis) -> Refusal | None:
        """Make checked changes of settings with one sync, all or none; return why it failed, else None."""
        made = [(change.event, change.when_made) for change in changes if change.event is not None]
        failure = self._commit([event for event, _ in made], now) if made else None
        if failure is None:
            for _, when_made in made:
                when_made()
        return failure

    def topic_change(self, topic: Topic, overrides: Mapping[str, str]) -> SettingsChange:
        """Return the change that replaces a topic's overrides by these."""
        if dict(overrides) == topic.overrides:
            return SettingsChange(None)
        return SettingsChange(events.topic_configured(topic.topic_id, overrides), topic.settings_changed)

    def set_overrides(self, topic: Topic, overrides: Mapping[str, str], now: Millis) -> Refusal | None:
        """Replace a topic's overrides by these, which have been checked; return why it failed, else None."""
        return self.change_settings([self.topic_change(topic, overrides)], now)

    def group_overrides(self, group_id: str) -> Mapping[str, str]:
        """Return the overrides of a group, as texts."""
        return self._catalogue.group_overrides.get(group_id, {})

    def configured_groups(self) -> list[str]:
        """Return the ids of the groups with overrides, sorted."""
        return sorted(self._catalogue.group_overrides)

    def group_change(self, group_id: str, overrides: Mapping[str, str]) -> SettingsChange:
        """Return the change that replaces a group's overrides by these."""
        if dict(overrides) == self.group_overrides(group_id):
            return SettingsChange(None)

        def when_made() -> None:
            for callback in self.on_group_configured:
                callback(group_id)

        return SettingsChange(events.group_configured(group_id, overrides), when_made)

    def broker_overrides(self, broker: str) -> Mapping[str, str]:
        """Return the run-time overrides of a broker, by its id, or of all brokers, by ""; as texts."""
        return self._catalogue.broker_overrides.get(broker, {})

    def broker_change(self, broker: str, overrides: Mapping[str, str]) -> SettingsChange:
        """Return the change that replaces the run-time overrides of this broker or of all."""
        if dict(overrides) == self.broker_overrides(broker):
            return SettingsChange(None)

        def when_made() -> None:
            apply_changed_settings(self.settings, self._catalogue)
            for topic in self._topics.values():
                topic.settings_changed()
            for callback in self.on_broker_configured:
                callback()

        return SettingsChange(events.broker_configured(broker, overrides), when_made)

    def new_producer_id(self, now: Millis) -> int | Refusal:
        """Return a producer id that was never given out before, not even before a crash, or a refusal."""
        try:
            return self._catalogue.new_producer_id(now)
        except OSError as problem:
            return _storage_refusal(problem)

    def call_when_failing(self, action: Callable[[], None]) -> None:
        """Call this whenever a partition cannot be used, and `failing` has it."""
        self._shared.on_failing = action

    @property
    def failing(self) -> dict[PartitionKey, Callable[[], Steps[bool]]]:
        """Return what tries a partition again that could not be used, by partition."""
        return self._shared.failing

    def remove_leftovers(self) -> None:
        """Try again to remove directories of deleted topics."""
        self._leftovers.try_again()

    def tidy_catalogue(self, now: Millis) -> bool:
        """Do a part of the rewrite that keeps the catalogue's log short. Return whether there is more. Raises
        OSError.
        """
        return self._catalogue.tidy(now)

    def misplaced(self) -> Path | None:
        """A directory in use that somebody removed or replaced; None: all are there."""
        return self._catalogue.misplaced or self._shared.misplaced()

    def remove_deleted(self) -> bool:
        """Remove some more directories of deleted topics. Return whether there are more to remove."""
        return self._leftovers.remove_some()

    def close(self, now: Millis | None = None) -> None:
        """Close every log. Logs that fail to close are checked at the next start.

        `now` is recorded as the time of the stop.
        """
        left = (partition for topic in self.all() for partition in topic.open_partitions())
        is_clean = True
        while some := list(islice(left, self._shared.fs.syncs_at_once)):
            is_clean &= self._close(some)
        try:
            self._catalogue.drop_refused()
        except OSError as problem:
            fields = {"error": problem}
            logger.error("a refused change is left in the catalogue, the next start makes it", extra=fields)
        try:
            self._catalogue.close()
            if is_clean:
                replace_file(self._shared.fs, self.data_dir / CLEAN_SHUTDOWN_FILE, self._stop(now).encode())
        except OSError as problem:
            logger.error("the stop cannot be marked as clean", extra={"error": problem})

    def _close(self, partitions: Sequence[Partition]) -> bool:
        """Close logs, whose syncs run together. Return whether all could be closed."""
        begun: list[tuple[Partition, SyncRequest | None]] = []
        failed: list[tuple[Partition, OSError]] = []
        for partition in partitions:
            try:
                begun.append((partition, partition.begin_close()))
            except OSError as problem:
                failed.append((partition, problem))
        run_together([sync for _, sync in begun if sync is not None])
        for partition, sync in begun:
            try:
                partition.end_close(sync)
            except OSError as problem:
                failed.append((partition, problem))
        for partition, failure in failed:
            fields = {"partition": partition, "error": failure}
            logger.error("a log cannot be closed, the next start checks it", extra=fields)
        return not failed

    def _stop(self, now: Millis | None) -> CleanStop:
        unrecovered = sorted([key[0].hex(), key[1]] for key in self._shared.unrecovered)
        return CleanStop(
            tuple(f"{name}-{index}" for name, index in unrecovered),
            self._catalogue.end_offset,
            {
                topic.topic_id.hex(): ranges_of(written)
                for topic in self.all()
                if (written := topic.partitions_with_segments())
            },
            now,
        )

    def _add(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._collisions[collision_key(topic.name)] = topic.name

    def _notify_changed(self, topics: Sequence[Topic]) -> None:
        for callback in self.on_changed:
            callback(topics)

    def _commit(self, changes: Iterable[events.Event], now: Millis) -> Refusal | None:
        try:
            self._catalogue.commit(list(changes), now)
        except OSError as problem:
            logger.error("the catalogue cannot be written", extra={"error": problem})
            if self._catalogue.has_refused:
                self._shared.failing[_CATALOGUE] = self._try_catalogue
                self._shared.on_failing()
            return _storage_refusal(problem)
        return None

    def _try_catalogue(self) -> Steps[bool]:
        """Try to remove a refused change from the catalogue. Return False to be called again."""
        yield None
        try:
            self._catalogue.drop_refused()
        except OSError:
            return False
        return True

    def _find_partitions(self, unrecovered: set[str] | None) -> None:
        """List the data directory. `unrecovered` names the logs to be checked; None means all."""
        for name in self._shared.fs.listdir(self.data_dir):
            match = PARTITION_DIRECTORY.match(name)
            if match is None:
                continue
            topic = self._topics.get(TopicName(match[1]))
            index = int(match[2])
            if topic is None or index >= topic.partition_count:
                self._leftovers.found(match[1], self.data_dir / name)
                continue
            topic.found_on_disk(index)
            if unrecovered is None or f"{topic.topic_id.hex()}-{index}" in unrecovered:
                self._shared.unrecovered.add((topic.topic_id, index))
        self._leftovers.all_found()

    def _report_missing(self, stop: CleanStop) -> None:
        """Log which partitions had a directory at the clean stop and have none now."""
        if not stop.written:
            return  # an older version does not tell
        for topic in self.all():
            ranges = stop.written.get(topic.topic_id.hex())
            missing = topic.compare_with_stop(set() if ranges is None else set(indexes_in(ranges)))
            if missing:
                logger.error(
                    "directories of partitions are missing",
                    extra={"topic": topic.name, "partitions": ranges_of(missing), "then": BEGINS_ANEW},
                )


def _storage_refusal(problem: OSError) -> Refusal:
    return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"The catalogue cannot be written: {problem.strerror}")
