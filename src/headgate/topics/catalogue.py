"""The topic catalogue: which topics there are and were, and what the node remembers besides records.

It is a log of its own in `<data-dir>/catalogue`: a change is one record batch of JSON records, synced
before anybody is answered, and the catalogue is what replaying them builds. Rules:

1. A topic is one record whatever its number of partitions.
2. A topic id is used once. A topic created again under its old name has a new one, and old ids stay known.
3. A change that could not be made durable is not applied; the caller gets the OSError.
4. Producer ids are reserved in blocks: an id is handed out only after the record that passes it is durable.
5. Unknown record types and fields are skipped, a newer record version refused: nothing is guessed.
6. Sooner or later most of the log is of what is over. Then what stands is said once more, some of it at a
   time (`tidy`), and when all of it is durable the log starts there. A record says how a thing is, so it may
   be said again at any time; wherever that is cut short, nothing is lost.
7. Of a crash the last change may be torn, and nothing else: each one is synced and marked before the next. A
   catalogue that is damaged anywhere else is not opened and not changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from headgate.domain.ids import Millis, TopicId, TopicName
from headgate.log.batch import CorruptBatch, Record, encode_batch, iterate_records, read_header
from headgate.log.log import Log
from headgate.log.walking import checked_batches

RECORD_VERSION = 1
"""What most records have."""
NEWEST_RECORD_VERSION = 2
"""Of a record that an older Headgate must not pass over: see `cluster_named`."""
PRODUCER_ID_BLOCK = 1000
SEGMENT_BYTES = 1 << 20
"""How the log is to be cut up: what is over is removed by the segment."""

RESTORE = (
    "Nothing was changed. Restore the directory `catalogue` from a copy (`headgate log verify` tells more)."
)

_FEWEST_TO_TIDY = 2000
"""Records: reading so many takes a moment."""
_SHARE_THAT_STANDS = 4
_RESTATED_AT_ONCE = 200
_FORMER_A_RECORD = 100

Event = dict[str, Any]


class CatalogueCorrupt(Exception):
    """The catalogue cannot be used, and nothing was changed; the message says why, and what to do."""


@dataclass(slots=True)
class CatalogueEntry:
    """One topic as the catalogue knows it."""

    name: TopicName
    topic_id: TopicId
    partition_count: int
    overrides: dict[str, str]
    created_at: Millis
    offsets_from: Sequence[int] | None = None
    """Of a name that was another topic's before: where this topic's offsets begin, in each partition of
    `__consumer_offsets`.
    """


def topic_created(entry: CatalogueEntry) -> Event:
    """A new topic."""
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
    """The end of a topic; its id stays known."""
    return {"type": "topic-deleted", "id": topic_id.hex()}


def partitions_added(topic_id: TopicId, partition_count: int) -> Event:
    """A topic has `partition_count` partitions from now on."""
    return {"type": "partitions-added", "id": topic_id.hex(), "partitions": partition_count}


def topic_configured(topic_id: TopicId, overrides: Mapping[str, str]) -> Event:
    """These are all the settings a topic has of its own from now on."""
    return {"type": "topic-configured", "id": topic_id.hex(), "configs": dict(overrides)}


def group_configured(group_id: str, overrides: Mapping[str, str]) -> Event:
    """These are all the settings a group has of its own from now on."""
    return {"type": "group-configured", "group": group_id, "configs": dict(overrides)}


def topics_gone(topic_ids: Sequence[TopicId], names: Sequence[TopicName]) -> Event:
    """These ids and names were topics' once; told again when what said so is to go."""
    return {"type": "topics-gone", "ids": [one.hex() for one in topic_ids], "names": list(names)}


def broker_configured(broker: str, overrides: Mapping[str, str]) -> Event:
    """These are all the settings changed for a broker, by its id, or for all of them, by no name."""
    return {"type": "broker-configured", "broker": broker, "configs": dict(overrides)}


def producer_ids_reserved(end: int) -> Event:
    """Producer ids below `end` may have been handed out."""
    return {"type": "producer-ids-reserved", "end": end}


def cluster_named(cluster_id: str) -> Event:
    """The id of the cluster, once for all.

    Whoever writes it also writes `headgate.checkpoint` in its second format, which an older Headgate takes
    for absent: deleted records would show again. So an older one is to refuse the directory.
    """
    return {"v": 2, "type": "cluster-named", "id": cluster_id}


def leader_epoch_raised(epoch: int) -> Event:
    """The node starts after a crash, and writes in this epoch from now on."""
    return {"type": "leader-epoch-raised", "epoch": epoch}


class Catalogue:
    """The catalogue in memory, and the log it is built from."""

    def __init__(self, log: Log) -> None:
        """Replays the log; raises CatalogueCorrupt for what it cannot read."""
        self._log = log
        self.topics: dict[TopicName, CatalogueEntry] = {}
        self.by_id: dict[TopicId, CatalogueEntry] = {}
        self.former_ids: set[TopicId] = set()
        self.former_names: set[TopicName] = set()
        self.group_overrides: dict[str, dict[str, str]] = {}
        self.broker_overrides: dict[str, dict[str, str]] = {}
        self.leader_epoch = 0
        self.cluster_id: str | None = None
        """The id of the cluster whose catalogue this is; None while that was not noted."""
        self._end_offset = log.log_end_offset
        self._restating: tuple[int, Iterator[Event]] | None = None
        """While what stands is said once more: where in the log that began, and what is still to be said."""
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
    def end_offset(self) -> int:
        """How many changes there were; 0 for a catalogue that is new."""
        return self._end_offset

    def commit(self, events: Sequence[Event], now: Millis) -> None:
        """Make changes durable, all or none, then apply them. Raises OSError: nothing has changed."""
        records = [
            Record(key=None, value=json.dumps({"v": RECORD_VERSION, **event}).encode(), timestamp=now)
            for event in events
        ]
        log = self._log
        if log.failure is not None:
            log.recover()
        if log.log_end_offset > self._end_offset:
            # What an earlier failed sync left behind was refused, and must not come back at the next start.
            log.truncate(self._end_offset)
        batch = encode_batch(records, base_offset=self._end_offset)
        log.append(batch, (read_header(batch),))
        request = log.begin_sync()
        with suppress(OSError):
            request.run()
        # Raises what went wrong in there.
        log.complete_sync(request)
        log.mark()
        self._end_offset = log.log_end_offset
        for event in events:
            self._apply(event)

    def new_producer_id(self, now: Millis) -> int:
        """A producer id never given out before. Raises OSError when a new block cannot be reserved."""
        if self._next_producer_id >= self._reserved_producer_ids:
            self.commit([producer_ids_reserved(self._next_producer_id + PRODUCER_ID_BLOCK)], now)
        producer_id = self._next_producer_id
        self._next_producer_id += 1
        return producer_id

    def tidy(self, now: Millis) -> bool:
        """Do some of what keeps the log short; whether there is more to do.

        Raises OSError: it begins anew when this is called again.
        """
        if self._restating is None:
            if self._end_offset - self._log.log_start_offset <= self._most_records():
                return False
            self._restating = self._end_offset, self._standing()
        start, standing = self._restating
        some = list(islice(standing, _RESTATED_AT_ONCE))
        if some:
            try:
                self.commit(some, now)
            except OSError:
                self._restating = None  # of what was to be said here nothing was
                raise
            return True
        self._restating = None
        self._log.delete_before(start)
        return False

    def _most_records(self) -> int:
        """How many records the log may have before it is tidied up."""
        former = max(len(self.former_ids), len(self.former_names)) // _FORMER_A_RECORD
        return _FEWEST_TO_TIDY + _SHARE_THAT_STANDS * (len(self.topics) + len(self.group_overrides) + former)

    def _standing(self) -> Iterator[Event]:
        """All that stands, as it is when its turn comes; what comes later is in the log anyway."""
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
        for broker, overrides in list(self.broker_overrides.items()):
            yield broker_configured(broker, overrides)
        # Last, so that topics are among them that have gone since this began.
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
        if previous is not None and previous.topic_id == entry.topic_id:  # said once more
            previous.partition_count, previous.overrides = entry.partition_count, entry.overrides
            return
        # A creation whose sync failed may have reached the log all the same: the one that follows it counts.
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
    return CatalogueCorrupt(f"the catalogue's record at offset {offset} is not one of ours. {RESTORE}")


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
