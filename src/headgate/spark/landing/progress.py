"""The progress of a landing: one small file that is replaced as a whole.

    {"format": 1, "cluster_id": "...", "tables": ["offset_commits"],
     "partitions": {"0": {"start": 0, "end": 5600, "epoch": 4, "gaps": []},
                    "__transaction_state-3": {"start": 0, "end": 12, "epoch": 4, "gaps": []}},
     "planned": [["0", 5600, 9000]], "run": 17, "sampled_at": null, "merged_before": "2026-11-22",
     "is_merging": false, "has_delta": false, "landed_until": 1763760000000000, "crc32c": 1234567890}

`partitions` has the landed range of each partition of a log, the leader epoch of its last batch, and gaps;
a partition without a topic is one of `__consumer_offsets`. `planned` has the ranges of a run in progress:
after a crash the next run lands them again unchanged. `run` is the number of the last sample of end offsets;
`sampled_at` is its time in us while it is in progress. Files of dates before `merged_before` were merged;
`is_merging` is set while they are. With `has_delta` the tables have Delta logs. What was written before
`landed_until`, in us, is landed (`until`); null if that is not known: of a running server's
directory, and in a target of an earlier version. `crc32c` is the checksum (`sealed`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise

from headgate.domain.ids import GROUP_OFFSETS_TOPIC, TopicName, TopicPartition
from headgate.spark.landing.files import Folder
from headgate.spark.landing.sealed import sealed, unsealed

HOME = "_headgate"
"""The folder of what is no table."""
NAME = f"{HOME}/progress.json"
_FORMAT = 1
MOST_GAPS = 100
"""The gaps of a partition from which on those that touch are joined."""


class LandingRefused(ValueError):
    """The target belongs to another cluster, or the log is not the one that was landed."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of a log from which compaction had removed records before it was landed.

    For each key only its last records before `end` are there. The removed ones were written between the
    times `since` and `until`, in us since the epoch; a `since` of -1 is any time before. A record of the
    table from `known_from` on was the last of its key, and one before it may have been replaced by a removed
    one: that is `start`, or the start of the last gap of several that were joined.
    """

    start: int
    end: int
    since: int
    until: int
    known_from: int


@dataclass(frozen=True, slots=True)
class LandedPartition:
    """The landed offsets of a partition, from `start` to `end`, and the epoch of the last batch."""

    start: int
    end: int
    epoch: int
    gaps: tuple[Gap, ...] = ()

    @property
    def complete_from(self) -> int:
        """Return the offset from which on every record is landed."""
        return self.gaps[-1].end if self.gaps else self.start


Range = tuple[TopicPartition, int, int]
"""A partition of a log, its first offset and its end offset."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The contents of the file."""

    cluster_id: str
    tables: tuple[str, ...]
    partitions: dict[TopicPartition, LandedPartition] = field(default_factory=dict)
    planned: tuple[Range, ...] = ()
    run: int = 0
    sampled_at: int | None = None
    merged_before: str = ""
    is_merging: bool = False
    has_delta: bool = False
    landed_until: int | None = None

    def of_log(self, topic: TopicName = GROUP_OFFSETS_TOPIC) -> dict[int, LandedPartition]:
        """Return the landed partitions of a log, in order."""
        return {
            where.partition: landed
            for where, landed in sorted(self.partitions.items())
            if where.topic == topic
        }

    def done(self, epochs: Mapping[TopicPartition, int], gaps: Mapping[TopicPartition, Gap]) -> Progress:
        """Return the progress after the planned ranges of the partitions in `epochs`; others remain planned.

        `epochs` are those of their last batches; `gaps` those in the ranges, by partition.
        """
        partitions = dict(self.partitions)
        for where, start, end in self.planned:
            if where not in epochs:
                continue
            landed = partitions.get(where, LandedPartition(start, start, -1))
            found = landed.gaps
            if gap := gaps.get(where):
                found = _with(found, gap)
            partitions[where] = replace(landed, end=end, epoch=epochs[where], gaps=found)
        left = tuple(each for each in self.planned if each[0] not in epochs)
        return replace(self, partitions=partitions, planned=left)

    def to_bytes(self) -> bytes:
        """Return the contents as bytes."""
        partitions = {_name(where): asdict(landed) for where, landed in sorted(self.partitions.items())}
        content = {
            "format": _FORMAT,
            "cluster_id": self.cluster_id,
            "tables": self.tables,
            "partitions": partitions,
            "planned": [(_name(where), start, end) for where, start, end in self.planned],
            "run": self.run,
            "sampled_at": self.sampled_at,
            "merged_before": self.merged_before,
            "is_merging": self.is_merging,
            "has_delta": self.has_delta,
            "landed_until": self.landed_until,
        }
        return sealed(content, indent=1)

    @classmethod
    def from_bytes(cls, data: bytes) -> Progress:
        """Read the contents from bytes. Raises LandingRefused for a file of a later format."""
        content = unsealed(data)
        if content["format"] != _FORMAT:
            raise LandingRefused(f"{NAME} is of format {content['format']}, this release knows {_FORMAT}")
        return cls(
            content["cluster_id"],
            tuple(content["tables"]),
            {_where(name): _landed_partition(**landed) for name, landed in content["partitions"].items()},
            tuple((_where(str(name)), start, end) for name, start, end in content["planned"]),
            content.get("run", 0),
            content.get("sampled_at"),
            content.get("merged_before", ""),
            content.get("is_merging", False),
            content.get("has_delta", False),
            content.get("landed_until"),
        )


def _name(where: TopicPartition) -> str:
    """Return the name of a partition in the file."""
    return str(where.partition) if where.topic == GROUP_OFFSETS_TOPIC else str(where)


def _where(name: str) -> TopicPartition:
    topic, _, partition = name.rpartition("-")
    return TopicPartition(TopicName(topic or GROUP_OFFSETS_TOPIC), int(partition))


def _landed_partition(
    start: int, end: int, epoch: int, gaps: Sequence[Mapping[str, int]] = ()
) -> LandedPartition:
    # Earlier versions joined all gaps that touch, and did not say from where on records are known.
    return LandedPartition(start, end, epoch, tuple(Gap(**{"known_from": gap["end"], **gap}) for gap in gaps))


def _with(gaps: tuple[Gap, ...], gap: Gap) -> tuple[Gap, ...]:
    """Add a gap. If there are many, join two that touch, of which less is known then."""
    found = (*gaps, gap)
    if len(found) <= MOST_GAPS:
        return found
    touching = (at for at, (one, other) in enumerate(pairwise(found)) if other.start <= one.end)
    at = next(touching, None)
    if at is None:
        return found
    first, second = found[at : at + 2]
    joined = replace(
        second,
        start=first.start,
        end=max(first.end, second.end),
        since=min(first.since, second.since),
        until=max(first.until, second.until),
    )
    return (*found[:at], joined, *found[at + 2 :])


def read_progress(target: Folder) -> Progress | None:
    """Return the progress of a target; None without one. Raises LandingRefused, OSError."""
    data = target.read(NAME)
    return None if data is None else _parsed(target, data)


def load_progress(
    target: Folder, cluster_id: str, tables: tuple[str, ...] | None, default: tuple[str, ...]
) -> Progress:
    """Return the progress of a target, new if empty; its tables are `default` unless `tables` are given.

    Raises LandingRefused for a target of another cluster or with other tables, and one whose progress is
    damaged or gone.
    """
    progress = read_progress(target)
    if progress is None:
        if there := [table for table in default if target.has(table)]:
            raise LandingRefused(
                f"{target.uri} has {', '.join(there)}, but no {NAME}: it is not known what was landed; "
                "restore that file, or land elsewhere"
            )
        return Progress(cluster_id, default if tables is None else tables)
    if progress.cluster_id != cluster_id:
        raise LandingRefused(
            f"{target.uri} has the tables of cluster {progress.cluster_id}, not of {cluster_id}; "
            "land this one elsewhere"
        )
    if tables is not None and set(progress.tables) != set(tables):
        raise LandingRefused(
            f"{target.uri} has the tables {', '.join(progress.tables)}, asked for were {', '.join(tables)}; "
            "land others elsewhere"
        )
    return progress


def _parsed(target: Folder, data: bytes) -> Progress:
    try:
        return Progress.from_bytes(data)
    except LandingRefused:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise LandingRefused(
            f"{target.uri}/{NAME} is damaged ({problem!r}); restore it, or land elsewhere"
        ) from problem


def save_progress(target: Folder, progress: Progress) -> None:
    """Replace the file. Raises OSError."""
    target.write(NAME, progress.to_bytes())
