"""The states of a partition of the log that a run leaves for the next one, in files.

`offsets_current` is both a table and a state: the metadata of its file has the end offset and the latest
time, and attached to it are the pending transactional commits. The state of the groups is a file of JSON.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping

import pyarrow as pa
from crc32c import crc32c

from headgate.spark.landing import tables
from headgate.spark.landing.current import COMMITS_SCHEMA, CURRENT_SCHEMA, KEY, NO_TIME, Offsets
from headgate.spark.landing.files import Folder
from headgate.spark.landing.groups import Groups
from headgate.spark.landing.ordering import is_sorted, sorted_rows
from headgate.spark.landing.progress import LandingRefused

END_KEY = b"headgate.end"
LAST_TIME_KEY = b"headgate.last_time_us"
_TIME_BEFORE_KEY = b"headgate.time_before_us"
"""Files of earlier releases have none."""
_PENDING_SIZE_KEY = b"headgate.pending_bytes"
"""The size of the pending commits, which are attached to the file: an Arrow stream."""
_PENDING_KEY = b"headgate.pending"
"""The pending commits in a file of an earlier release, as base64."""
_CHECKSUM_KEY = b"headgate.crc32c"
"""Of the others. Files of earlier releases have none."""


def groups_file(partition: int) -> str:
    """Return the name of the file with the state of the groups."""
    return f"_headgate/groups/log_partition={partition}.json"


def load_offsets(target: Folder, partition: int) -> Offsets | None:
    """Return the committed offsets of a partition; None if it was never landed."""
    return load_offsets_file(target, tables.current_file(tables.OFFSETS_CURRENT, partition))


def landed_offsets(target: Folder, partition: int) -> Offsets:
    """Return the committed offsets of a partition that was landed. Raises LandingRefused, OSError."""
    found = load_offsets(target, partition)
    if found is None:
        name = tables.current_file(tables.OFFSETS_CURRENT, partition)
        raise LandingRefused(f"{target.uri}/{name} is gone; restore it, or land elsewhere")
    return found


def load_offsets_file(target: Folder, name: str) -> Offsets | None:
    """Return the committed offsets in a file; None if it does not exist.

    All is of one read: a run may replace the file at any time. Raises LandingRefused if the file is not one
    of a landing, OSError.
    """
    try:
        rows, attached = target.read_with_attached(name, _PENDING_SIZE_KEY)
    except FileNotFoundError:
        return None
    metadata = rows.schema.metadata or {}
    has_columns = rows.schema.remove_metadata().equals(CURRENT_SCHEMA)
    has_pending = _PENDING_SIZE_KEY in metadata or _PENDING_KEY in metadata
    if not has_columns or not has_pending or not {END_KEY, LAST_TIME_KEY} <= metadata.keys():
        raise LandingRefused(
            f"{target.uri}/{name} was not written by a landing; restore it, or land elsewhere"
        )
    pending = metadata.get(_PENDING_KEY, attached)
    try:
        if metadata.get(_CHECKSUM_KEY, found := _checksum(metadata, pending)) != found:
            raise ValueError("the checksum is wrong")
        stream = b64decode(pending) if _PENDING_KEY in metadata else pending
        with pa.ipc.open_stream(stream) as commits:
            return Offsets(
                int(metadata[END_KEY]),
                int(metadata[LAST_TIME_KEY]),
                rows.replace_schema_metadata(),
                commits.read_all(),
                int(metadata.get(_TIME_BEFORE_KEY, NO_TIME)),
            )
    except (ValueError, OSError, pa.ArrowException) as problem:
        raise LandingRefused(
            f"{target.uri}/{name} is damaged ({problem}); restore it, or land elsewhere"
        ) from problem


def save_offsets(target: Folder, name: str, offsets: Offsets) -> None:
    """Replace a file of committed offsets, sorted by key. Raises OSError."""
    sink = pa.BufferOutputStream()
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, COMMITS_SCHEMA, options=packed) as stream:
        stream.write_table(sorted_rows(offsets.pending, ("log_offset",)))
    pending = sink.getvalue().to_pybytes()
    metadata = {
        END_KEY: b"%d" % offsets.end,
        LAST_TIME_KEY: b"%d" % offsets.last_time,
        _TIME_BEFORE_KEY: b"%d" % offsets.time_before,
        _PENDING_SIZE_KEY: b"%d" % len(pending),
    }
    metadata[_CHECKSUM_KEY] = _checksum(metadata, pending)
    rows = offsets.rows
    if not is_sorted(rows, KEY):  # mostly sorted, and a few new ones: Arrow's sort is quick then
        rows = rows.sort_by([(column, "ascending") for column in KEY])
    target.write_table(name, rows.replace_schema_metadata(metadata), pending)


def _checksum(metadata: Mapping[bytes, bytes], pending: bytes) -> bytes:
    numbers = [metadata[key] for key in (END_KEY, LAST_TIME_KEY, _TIME_BEFORE_KEY) if key in metadata]
    return b"%d" % crc32c(b" ".join([*numbers, pending]))


def load_groups(target: Folder, partition: int) -> Groups | None:
    """Return the groups of a partition; None if it was never landed. Raises LandingRefused, OSError."""
    data = target.read(groups_file(partition))
    try:
        return None if data is None else Groups.from_bytes(data)
    except (ValueError, TypeError, KeyError) as problem:
        raise LandingRefused(
            f"{target.uri}/{groups_file(partition)} is damaged ({problem!r}); restore it, or land elsewhere"
        ) from problem


def save_groups(target: Folder, partition: int, groups: Groups) -> None:
    """Replace the state of the groups. Raises OSError."""
    target.write(groups_file(partition), groups.to_bytes())
