"""The progress of a landing: one small file that is replaced as a whole.

    {"format": 1, "cluster_id": "...", "tables": ["offset_commits"],
     "partitions": {"0": {"start": 0, "end": 5600, "epoch": 4}},
     "planned": [[0, 5600, 9000]]}

`partitions` has the landed range of each partition of the log, and the leader epoch of the last batch.
`planned` has the ranges of a run in progress: after a crash the next run lands them again unchanged.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from headgate.spark.landing.files import Folder

NAME = "_headgate/progress.json"
_FORMAT = 1


class LandingRefused(ValueError):
    """The target belongs to another cluster, or the log is not the one that was landed."""


@dataclass(frozen=True, slots=True)
class LandedPartition:
    """The landed offsets of a partition, from `start` to `end`, and the epoch of the last batch."""

    start: int
    end: int
    epoch: int


Range = tuple[int, int, int]
"""A partition of the log, its first offset and its end offset."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The contents of the file."""

    cluster_id: str
    tables: tuple[str, ...]
    partitions: dict[int, LandedPartition] = field(default_factory=dict)
    planned: tuple[Range, ...] = ()

    def done(self, epochs: dict[int, int]) -> Progress:
        """Return the progress after the planned ranges; `epochs` are those of their last batches."""
        partitions = dict(self.partitions)
        for partition, start, end in self.planned:
            before = partitions.get(partition)
            epoch = epochs.get(partition, before.epoch if before else -1)
            partitions[partition] = LandedPartition(before.start if before else start, end, epoch)
        return replace(self, partitions=partitions, planned=())

    def to_bytes(self) -> bytes:
        """Return the contents as bytes."""
        partitions = {
            str(partition): {"start": landed.start, "end": landed.end, "epoch": landed.epoch}
            for partition, landed in sorted(self.partitions.items())
        }
        content = {
            "format": _FORMAT,
            "cluster_id": self.cluster_id,
            "tables": self.tables,
            "partitions": partitions,
            "planned": self.planned,
        }
        return json.dumps(content, indent=1).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Progress:
        """Read the contents from bytes. Raises LandingRefused for a file of a later format."""
        content = json.loads(data)
        if content["format"] != _FORMAT:
            raise LandingRefused(f"{NAME} is of format {content['format']}, this release knows {_FORMAT}")
        return cls(
            content["cluster_id"],
            tuple(content["tables"]),
            {
                int(partition): LandedPartition(**landed)
                for partition, landed in content["partitions"].items()
            },
            tuple((partition, start, end) for partition, start, end in content["planned"]),
        )


def load_progress(target: Folder, cluster_id: str, tables: tuple[str, ...]) -> Progress:
    """Return the progress of a target, new if empty. Raises LandingRefused for another cluster's target."""
    data = target.read(NAME)
    if data is None:
        return Progress(cluster_id, tables)
    progress = Progress.from_bytes(data)
    if progress.cluster_id != cluster_id:
        raise LandingRefused(
            f"{target.uri} has the tables of cluster {progress.cluster_id}, not of {cluster_id}; "
            "land this one elsewhere"
        )
    if set(progress.tables) != set(tables):
        raise LandingRefused(
            f"{target.uri} has the tables {', '.join(progress.tables)}, asked for were {', '.join(tables)}; "
            "land others elsewhere"
        )
    return progress


def save_progress(target: Folder, progress: Progress) -> None:
    """Replace the file. Raises OSError."""
    target.write(NAME, progress.to_bytes())
