"""The topic catalogue: current and former topics, overridden settings, and other state of the node.

The catalogue has its own log in `<data-dir>/catalogue`. A change is one record batch of JSON records, synced
before it is answered. Replaying the log builds the catalogue. Rules:

1. A topic is one record, whatever its number of partitions.
2. A topic id is used once. A topic created again under a former name gets a new id; former ids stay known.
3. A change that could not be made durable is not applied; the caller gets the OSError. Its records are
   removed from the log as soon as the disk allows: the next start would apply them.
4. Producer ids are reserved in blocks: an id is given out only after the record that reserves it is durable.
5. Unknown record types and fields are skipped; a newer record version is refused.
6. When most of the log is obsolete, the current state is written again, some of it at a time (`tidy`). Once
   all of it is durable, the log is truncated before it. Records state values, not changes, so writing one
   again is idempotent, and an interrupted rewrite loses nothing.
7. A crash may tear the last change only: each change is synced and marked before the next. A catalogue with
   any other damage is neither opened nor changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from headgate.domain.ids import Millis, TopicId, TopicName
from headgate.log.batch import CorruptBatch, Record, encode_batch, iterate_records, read_header
from headgate.log.log import Log
from headgate.log.walking import checked_batches

RECORD_VERSION = 1
"""Version of most records."""
NEWEST_RECORD_VERSION = 2
"""Version of a record that an older Headgate must not skip: see `cluster_named`."""
PRODUCER_ID_BLOCK = 1000
SEGMENT_BYTES = 1 << 20
"""Segment size of the log. Obsolete records are removed by whole segments."""

RESTORE = (
    "Nothing was changed. Restore the directory `catalogue` from a copy (`headgate log verify` tells more)."
)

_FEWEST_TO_TIDY = 2000
"""The log is never tidied with fewer records: reading so many takes a moment."""
_RECORDS_A_LIVE_ENTRY = 4
_REWRITTEN_AT_ONCE = 200
_FORMER_A_RECORD = 100

Event = dict[str, Any]


class CatalogueCorrupt(Exception):
    """The catalogue cannot be used, and nothing was changed; the message says why and what to do."""


@dataclass(slots=True)
class CatalogueEntry:
    """One topic in the catalogue."""

    name: TopicName
    topic_id: TopicId
    partition_count: int
    overrides: dict[str, str]
    created_at: Millis
    offsets_from: Sequence[int] | None = None
    """For a name that another topic had before: the offset in each partition of `__consumer_offsets` after
    which committed offsets belong to this topic.
    """


def topic_created(entry: CatalogueEntry) -> Event:
    """Return the record of a new topic."""
    event = {
        "type": "topic-created",
        "name": entry.name,
        "id": entry.topic_id.hex(),
        "partitions": entry.partition_count,
        "configs": entry.overrides,
        "at": entry.created_at,
    }
    if entry.offsets_from is not None:
        event["offsets-from"] = list(entry.offsets_from)
    return event


def topic_deleted(topic_id: TopicId) -> Event:
    """Return the record of a topic's deletion; its id stays known."""
    return {"type": "topic-deleted", "id": topic_id.hex()}


def partitions_added(topic_id: TopicId, partition_count: int) -> Event:
    """Return the record that raises a topic's number of partitions to `partition_count`."""
    return {"type": "partitions-added", "id": topic_id.hex(), "partitions": partition_count}


def topic_configured(topic_id: TopicId, overrides: Mapping[str, str]) -> Event:
    """Return the record that replaces all overrides of a topic."""
    return {"type": "topic-configured", "id": topic_id.hex(), "configs": dict(overrides)}


def group_configured(group_id: str, overrides: Mapping[str, str]) -> Event:
    """Return the record that replaces all overrides of a group."""
    return {"type": "group-configured", "group": group_id, "configs": dict(overrides)}


def topics_gone(topic_ids: Sequence[TopicId], names: Sequence[TopicName]) -> Event:
    """Return the record that lists ids and names of deleted topics; written when the log is tidied."""
    return {"type": "topics-gone", "ids": [one.hex() for one in topic_ids], "names": list(names)}


def broker_configured(broker: str, overrides: Mapping[str, str]) -> Event:
    """Return the record that replaces all overrides of a broker, by its id, or of all brokers, by ""."""
    return {"type": "broker-configured", "broker": broker, "configs": dict(overrides)}


def producer_ids_reserved(end: int) -> Event:
    """Return the record that reserves the producer ids below `end`."""
    return {"type": "producer-ids-reserved", "end": end}


def cluster_named(cluster_id: str) -> Event:
    """Return the record of the cluster id, which is written once.

    Whoever writes it also writes `headgate.checkpoint` in its second format. An older Headgate ignores that
    format, and would return deleted records again. The version of this record makes it refuse the directory.
    """
    return {"v": 2, "type": "cluster-named", "id": cluster_id}


def leader_epoch_raised(epoch: int) -> Event:
    """Return the record of a start after a crash: the node writes in this leader epoch from now on."""
    return {"type": "leader-epoch-raised", "epoch": epoch}


class Catalogue:
    """The catalogue in memory, and its log."""

    def __init__(self, log: Log) -> None:
        """Replay the log. Raises CatalogueCorrupt for records that cannot be read."""
        self._log = log
        self.topics: dict[TopicName, CatalogueEntry] = {}
        self.by_id: dict[TopicId, CatalogueEntry] = {}
        self.former_ids: set[TopicId] = set()
        self.former_names: set[TopicName] = set()
        self.group_overrides: dict[str, dict[str, str]] = {}
        self.broker_overrides: dict[str, dict[str, str]] = {}
        self.leader_epoch = 0
        self.cluster_id: str | None = None
        """The id of the cluster that this catalogue belongs to; None if it was not recorded yet."""
        self._end_offset = log.log_end_offset
        self._rewriting: tuple[int, Iterator[Event]] | None = None
        """While the current state is written again: the log end offset at the start of that, and the records
        that are left.
        """
        self._next_producer_id = 0
        self._reserved_producer_ids = 0
        try:
            for _, data in checked_batches(log.batches(log.log_start_offset)):
                for offset, record in iterate_records(data):
                    self._replay(offset, record)
        except CorruptBatch as problem:
            raise CatalogueCorrupt(f"a part of the catalogue does not read: {problem}. {RESTORE}") from None
        self._next_producer_id = self._reserved_producer_ids

    def _replay(self, offset: int, record: Record) -> None:
        event = _parse(offset, record.value)
        try:
            self._apply(event)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _not_ours(offset) from None

    @property
    def misplaced(self) -> Path | None:
        """The catalogue's directory, if its file was removed or replaced by somebody else."""
        return None if self._log.is_in_place else self._log.directory

    @property
    def end_offset(self) -> int:
        """The log end offset; 0 for a new catalogue."""
        return self._end_offset

    def commit(self, events: Sequence[Event], now: Millis) -> None:
        """Make changes durable, all or none, then apply them. Raises OSError if nothing has changed."""
        records = [
            Record(key=None, value=json.dumps({"v": RECORD_VERSION, **event}).encode(), timestamp=now)
            for event in events
        ]
        self.drop_refused()
        try:
            self._write(encode_batch(records, base_offset=self._end_offset))
        except OSError:
            with suppress(OSError):
                self.drop_refused()
            raise
        self._end_offset = self._log.log_end_offset
        for event in events:
            self._apply(event)

    def _write(self, batch: bytearray) -> None:
        """Append a batch and sync it. Raises OSError."""
        log = self._log
        log.append(batch, (read_header(batch),))
        request = log.begin_sync()
        with suppress(OSError):
            request.run()
        # Raises the error of the sync, if there was one.
        log.complete_sync(request)
        log.mark()

    @property
    def has_refused(self) -> bool:
        """Whether the log may have records of a refused change."""
        return self._log.failure is not None or self._log.log_end_offset > self._end_offset

    def drop_refused(self) -> None:
        """Remove the records of a change whose sync failed, if there are any. Raises OSError."""
        log = self._log
        if log.failure is not None:
            log.recover()
        if log.log_end_offset > self._end_offset:
            log.truncate(self._end_offset)

    def new_producer_id(self, now: Millis) -> int:
        """Return a producer id never given out before. Raises OSError if no block can be reserved."""
        if self._next_producer_id >= self._reserved_producer_ids:
            self.commit([producer_ids_reserved(self._next_producer_id + PRODUCER_ID_BLOCK)], now)
        producer_id = self._next_producer_id
        self._next_producer_id += 1
        return producer_id

    def tidy(self, now: Millis) -> bool:
        """Write a part of the current state again if the log has become long. Return whether there is more to
        do.

        Raises OSError; the next call starts anew.
        """
        if self._rewriting is None:
            if self._end_offset - self._log.log_start_offset <= self._most_records():
                return False
            self._rewriting = self._end_offset, self._current_state()
        start, records = self._rewriting
        some = list(islice(records, _REWRITTEN_AT_ONCE))
        if some:
            try:
                self.commit(some, now)
            except OSError:
                self._rewriting = None  # none of `some` was written
                raise
            return True
        self._rewriting = None
        self._log.delete_before(start)
        while self._log.remove_segments():
            pass
        return False

    def _most_records(self) -> int:
        """Return how many records the log may have before it is tidied."""
        former = max(len(self.former_ids), len(self.former_names)) // _FORMER_A_RECORD
        return _FEWEST_TO_TIDY + _RECORDS_A_LIVE_ENTRY * (
            len(self.topics) + len(self.group_overrides) + former
        )

    def _current_state(self) -> Iterator[Event]:
        """Yield the current state as records, each as of the time it is taken; later changes follow in the
        log.
        """
        yield producer_ids_reserved(self._reserved_producer_ids)
        yield leader_epoch_raised(self.leader_epoch)
        if self.cluster_id is not None:
            yield cluster_named(self.cluster_id)
        for topic_id in list(self.by_id):
            entry = self.by_id.get(topic_id)
            if entry is not None:
                yield topic_created(entry)
        for group_id in list(self.group_overrides):
            if group_id in self.group_overrides:
                yield group_configured(group_id, self.group_overrides[group_id])
        for broker in list(self.broker_overrides):
            yield broker_configured(broker, self.broker_overrides[broker])
        # Last, to include the topics that were deleted since this began.
        ids, names = sorted(self.former_ids), sorted(self.former_names)
        for first in range(0, max(len(ids), len(names)), _FORMER_A_RECORD):
            some = slice(first, first + _FORMER_A_RECORD)
            yield topics_gone(ids[some], names[some])

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def _apply(self, event: Event) -> None:
        apply = _APPLY.get(event["type"])
        if apply is not None:
            apply(self, event)

    def _create(self, event: Event) -> None:
        entry = CatalogueEntry(
            TopicName(event["name"]),
            TopicId(bytes.fromhex(event["id"])),
            event["partitions"],
            dict(event["configs"]),
            Millis(event["at"]),
            event.get("offsets-from"),
        )
        previous = self.topics.get(entry.name)
        if previous is not None and previous.topic_id == entry.topic_id:  # written again by `tidy`
            previous.partition_count, previous.overrides = entry.partition_count, entry.overrides
            return
        # A creation whose sync failed may have reached the log all the same; the later one counts.
        if previous is not None:
            self._forget(previous)
        self.topics[entry.name] = entry
        self.by_id[entry.topic_id] = entry

    def _delete(self, event: Event) -> None:
        entry = self.by_id.get(TopicId(bytes.fromhex(event["id"])))
        if entry is not None:
            self._forget(entry)

    def _forget(self, entry: CatalogueEntry) -> None:
        del self.topics[entry.name]
        del self.by_id[entry.topic_id]
        self.former_ids.add(entry.topic_id)
        self.former_names.add(entry.name)

    def _note_gone(self, event: Event) -> None:
        self.former_ids.update(TopicId(bytes.fromhex(one)) for one in event["ids"])
        self.former_names.update(map(TopicName, event["names"]))

    def _add_partitions(self, event: Event) -> None:
        entry = self.by_id.get(TopicId(bytes.fromhex(event["id"])))
        if entry is not None:
            entry.partition_count = event["partitions"]

    def _configure_topic(self, event: Event) -> None:
        entry = self.by_id.get(TopicId(bytes.fromhex(event["id"])))
        if entry is not None:
            entry.overrides = dict(event["configs"])

    def _configure_group(self, event: Event) -> None:
        if event["configs"]:
            self.group_overrides[event["group"]] = dict(event["configs"])
        else:
            self.group_overrides.pop(event["group"], None)

    def _configure_broker(self, event: Event) -> None:
        self.broker_overrides[event["broker"]] = dict(event["configs"])

    def _reserve_producer_ids(self, event: Event) -> None:
        self._reserved_producer_ids = max(self._reserved_producer_ids, event["end"])

    def _raise_leader_epoch(self, event: Event) -> None:
        self.leader_epoch = event["epoch"]

    def _name_cluster(self, event: Event) -> None:
        self.cluster_id = str(event["id"])


_APPLY: Mapping[str, Callable[[Catalogue, Event], None]] = {
    "topic-created": Catalogue._create,
    "topic-deleted": Catalogue._delete,
    "topics-gone": Catalogue._note_gone,
    "partitions-added": Catalogue._add_partitions,
    "topic-configured": Catalogue._configure_topic,
    "group-configured": Catalogue._configure_group,
    "broker-configured": Catalogue._configure_broker,
    "producer-ids-reserved": Catalogue._reserve_producer_ids,
    "leader-epoch-raised": Catalogue._raise_leader_epoch,
    "cluster-named": Catalogue._name_cluster,
}


def _not_ours(offset: int) -> CatalogueCorrupt:
    return CatalogueCorrupt(f"the catalogue's record at offset {offset} is not a catalogue record. {RESTORE}")


def _parse(offset: int, value: bytes | None) -> Event:
    try:
        event = json.loads(value or b"")
        version = event["v"]
    except (ValueError, KeyError, TypeError):
        raise _not_ours(offset) from None
    if not isinstance(version, int) or not isinstance(event.get("type"), str):
        raise _not_ours(offset)
    if version > NEWEST_RECORD_VERSION:
        raise CatalogueCorrupt(
            f"the catalogue's record at offset {offset} has version {version}; this Headgate reads up to "
            f"{NEWEST_RECORD_VERSION}: the data directory was written by a newer one"
        )
    return dict(event)
