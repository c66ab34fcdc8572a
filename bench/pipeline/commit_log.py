"""The coordinator's log that is measured: the same bytes each time, from its number of commits alone.

720 groups commit 100 partitions each, round after round, 100 records a batch, in 8 partitions of
`__consumer_offsets`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, Millis, TopicName
from headgate.domain.partitioning import partition_for
from headgate.log.batch import Record, encode_batch
from headgate.log.filesystem import OsFileSystem
from headgate.log.sync_mark import SyncMark, save_sync_mark
from headgate.records import OffsetCommit, encode

GROUPS = 720
PARTITIONS = 100
LOG_PARTITIONS = 8
START_MS = 1_795_000_000_000
ROUND_MS = 5_000
SEGMENT_BYTES = 64 << 20


def make_log(directory: Path, commits: int, group_count: int = GROUPS) -> int:
    """Write the data directory of a broker with so many commits at least; return how many it has."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / "meta.properties").write_text("version=1\ncluster.id=bench\n")
    groups = [GroupId(f"group-{number:04d}") for number in range(group_count)]
    homes = {group: partition_for(group, LOG_PARTITIONS) for group in groups}
    ends = dict.fromkeys(homes.values(), 0)
    segments: dict[int, Path] = {}
    rounds = -(-commits // (group_count * PARTITIONS))
    for number in range(rounds):
        for group in groups:
            where = homes[group]
            batch = encode_batch(list(_commits(group, number)), base_offset=ends[where])
            path = segments.get(where)
            if path is None or path.stat().st_size > SEGMENT_BYTES:
                folder = directory / f"{GROUP_OFFSETS_TOPIC}-{where}"
                folder.mkdir(exist_ok=True)
                path = segments[where] = folder / f"{ends[where]:020d}.log"
            with path.open("ab") as file:
                file.write(batch)
            ends[where] += PARTITIONS
    for where, end in ends.items():
        folder = directory / f"{GROUP_OFFSETS_TOPIC}-{where}"
        save_sync_mark(OsFileSystem(), folder, SyncMark(0, 0, end))
    return sum(ends.values())


def _commits(group: GroupId, number: int) -> Iterator[Record]:
    now = START_MS + number * ROUND_MS
    for partition in range(PARTITIONS):
        offset = number * 1000 + partition
        commit = OffsetCommit(group, TopicName("orders"), partition, offset, 0, "", Millis(now))
        yield Record(*encode(commit), now)
