"""The whole import: check the logs, copy them, and finish the new data directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headgate.domain.ids import Millis, TopicName
from headgate.log.filesystem import OsFileSystem
from headgate.takeover.cluster_metadata import read_cluster_metadata
from headgate.takeover.coordinator_records import coordinator_reader
from headgate.takeover.errors import ImportRefused
from headgate.takeover.plan import COORDINATOR_TOPICS, Plan, PlannedTopic, plan_import
from headgate.takeover.segments import CheckedLog, LogCheck, base_of, copy_part, segment_files
from headgate.takeover.source import KafkaBroker
from headgate.takeover.target import NewNode, Target, new_data_directory
from headgate.topics.catalogue import CatalogueEntry
from headgate.topics.leader_epochs import LeaderEpochs
from headgate.topics.partition_files import LEADER_EPOCHS_FILE

MOST_DAMAGES_TOLD: Final = 20


@dataclass(frozen=True, slots=True)
class Progress:
    """Called with the size of a step, in bytes (checking, copying) or logs (opening)."""

    checked: Callable[[int], None] = lambda size: None
    copied: Callable[[int], None] = lambda size: None
    opened: Callable[[int], None] = lambda count: None


@dataclass(slots=True)
class Import:
    """An import that is ready to be carried out, or was."""

    plan: Plan
    logs: Mapping[tuple[str, int], CheckedLog] = field(default_factory=dict)
    """The checked logs of the partitions that are taken over with their records."""
    ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """The end offsets of the other partitions."""

    @property
    def size_bytes(self) -> int:
        """Return the bytes of segments to be copied."""
        return sum(log.size_bytes for log in self.logs.values())

    def start_of(self, topic: PlannedTopic, index: int) -> int:
        """Return the log start offset of a partition, at most its end."""
        log = self.logs[topic.name, index]
        starts = self.plan.directory_of(topic, index).log_starts
        return min(max(starts.get((topic.name, index), 0), log.start_offset), log.end_offset)


def size_to_check(plan: Plan) -> int:
    """Return the bytes of the segments that the import reads. Raises OSError, ImportRefused."""
    files = OsFileSystem()
    return sum(
        path.stat().st_size
        for topic, index in plan.partitions_with_records()
        for path in segment_files(files, _source_of(plan, topic, index))
    )


def plan_of(broker: KafkaBroker, topics: Sequence[str], *, all_topics: bool) -> Plan:
    """Read the metadata log and return the plan. Raises ImportRefused, OSError."""
    metadata = read_cluster_metadata(OsFileSystem(), broker.metadata_directory)
    return plan_import(broker, metadata, topics, all_topics=all_topics)


def check_place(broker: KafkaBroker, target: Path) -> None:
    """Raise ImportRefused for a new data directory within a directory of Kafka."""
    for source in broker.directories:
        if target.resolve().is_relative_to(source.path):
            raise ImportRefused(f"{target} is in {source.path}, where Kafka would not start any more")


def check_logs(plan: Plan, progress: Progress) -> Import:
    """Check every segment that is taken over. Raises ImportRefused, which tells all damage, and OSError."""
    files = OsFileSystem()
    logs: dict[tuple[str, int], CheckedLog] = {}
    for topic, index in plan.partitions_with_records():
        directory = plan.directory_of(topic, index)
        check = LogCheck(
            files, plan.high_watermark_of(topic, index), may_be_torn=not directory.was_stopped_cleanly
        )
        reader = coordinator_reader(topic.name)
        logs[topic.name, index] = check.run(_source_of(plan, topic, index), progress.checked, reader)
    damages = [damage for log in logs.values() for damage in log.damages]
    if damages:
        told = "\n".join(f"  {damage}" for damage in damages[:MOST_DAMAGES_TOLD])
        more = f"\n  and {len(damages) - MOST_DAMAGES_TOLD} more" if len(damages) > MOST_DAMAGES_TOLD else ""
        raise ImportRefused(
            f"the logs are damaged, and nothing was taken over:\n{told}{more}\n"
            f"Restore these files from a copy{_or_without(logs)}"
        )
    plan.notes += [f"left out: {what}" for log in logs.values() for what in log.left_out]
    return Import(plan, logs, _ends(plan, files))


def _or_without(logs: Mapping[tuple[str, int], CheckedLog]) -> str:
    """Return what else can be done if the coordinators' topics, which every import takes, are not damaged."""
    damaged = sorted({name for (name, _), log in logs.items() if log.damages})
    if any(name in COORDINATOR_TOPICS for name in damaged):
        return ""
    return f", or name all topics but {', '.join(damaged)} with --topics: the import leaves these records out"


def _ends(plan: Plan, files: OsFileSystem) -> dict[tuple[str, int], int]:
    """Return where the partitions end whose records are not taken over."""
    ends = {}
    absent = 0
    for topic in plan.topics:
        for index in topic.state.partitions if not topic.has_records else ():
            if (topic.name, index) in plan.broker.partitions:
                ends[topic.name, index] = _end_of(plan, files, topic, index)
            else:
                absent += 1
    if absent:
        plan.notes.append(f"{absent} partitions that are not on this broker begin at offset 0")
    return ends


def _end_of(plan: Plan, files: OsFileSystem, topic: PlannedTopic, index: int) -> int:
    """Return the high watermark of a partition; after a crash, where its last segment ends."""
    directory = plan.directory_of(topic, index)
    known = directory.high_watermarks.get((topic.name, index))
    if known is not None and (directory.was_stopped_cleanly or plan.high_watermark_of(topic, index)):
        return known
    segments = segment_files(files, _source_of(plan, topic, index))
    if not segments:
        return 0
    check = LogCheck(files, plan.high_watermark_of(topic, index), may_be_torn=True)
    return max(base_of(segments[-1]), check.run_last(segments[-1]).end_offset)


def carry_out(ready: Import, target: Path, progress: Progress) -> None:
    """Write the data directory. It is complete when this returns. Raises ImportRefused, OSError."""
    now = Millis(time.time_ns() // 1_000_000)
    plan = ready.plan
    check_place(plan.broker, target)
    with new_data_directory(target) as directory:
        directory.write_catalogue(_node_of(plan, now), now)
        for topic, index in plan.partitions_with_records():
            _copy(ready, directory, topic, index, progress)
        for (name, index), end in ready.ends.items():
            if end:
                directory.begin_empty(directory.new_partition(name, index), end)
        plan.broker.check_still_stopped()
        starts = {
            (topic.name, index): ready.start_of(topic, index)
            for topic, index in plan.partitions_with_records()
        }
        for _ in directory.finish(starts, now):
            progress.opened(1)


def _copy(ready: Import, target: Target, topic: PlannedTopic, index: int, progress: Progress) -> None:
    log = ready.logs[topic.name, index]
    if not log.end_offset:
        return  # never written
    directory = target.new_partition(topic.name, index)
    if not log.size_bytes:
        target.begin_empty(directory, log.end_offset)
        return
    for part in log.parts:
        copy_part(part, directory, progress.copied)
    kafkas = _source_of(ready.plan, topic, index) / LEADER_EPOCHS_FILE
    target.write_leader_epochs(directory, _epochs_of(log, kafkas.read_bytes() if kafkas.exists() else b""))


def _epochs_of(log: CheckedLog, kafkas_file: bytes) -> LeaderEpochs:
    """Return the leader epochs of a log: those of its batches, and of batches that compaction removed.

    Kafka lets the first epoch begin at the log start offset, which may be within a batch. Of both offsets the
    smaller one counts.
    """
    starts = dict(log.epochs)
    for epoch, start in (LeaderEpochs.decode(kafkas_file) or LeaderEpochs()).starts():
        starts[epoch] = min(start, starts.get(epoch, start))
    epochs = LeaderEpochs()
    for epoch, start in sorted(starts.items()):
        epochs.begin(epoch, start)
    epochs.truncate(log.end_offset)
    return epochs


def _node_of(plan: Plan, now: Millis) -> NewNode:
    entries = [
        CatalogueEntry(
            TopicName(topic.name), topic.state.topic_id, topic.partition_count, dict(topic.overrides), now
        )
        for topic in plan.topics
    ]
    return NewNode(
        plan.broker.cluster_id, plan.leader_epoch, plan.producer_ids_end, entries, plan.group_overrides
    )


def _source_of(plan: Plan, topic: PlannedTopic, index: int) -> Path:
    return plan.directory_of(topic, index).path / f"{topic.name}-{index}"
