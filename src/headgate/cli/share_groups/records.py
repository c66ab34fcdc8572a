"""--records, --release, --archive and --redeliver-dead-letters: single records of a share group."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from headgate.admin import (
    Admin,
    AlteredShareRecords,
    RequestRefused,
    ShareAlteration,
    ShareRecords,
    ShareRecordState,
    TopicPartition,
)
from headgate.admin.errors import moment
from headgate.cli.consumer_groups.arguments import parse_topic
from headgate.cli.printing import Columns, Row, print_rows, say
from headgate.cli.share_groups.options import Options
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicName

_RECORDS: Columns = (
    "topic",
    "partition",
    "first_offset",
    "last_offset",
    "state",
    "delivery_count",
    "consumer_id",
    "since",
    "locked_until",
    "reason",
)
_ALTERED: Columns = (
    "topic",
    "partition",
    "first_offset",
    "last_offset",
    "state",
    "delivery_count",
    "new_state",
    "reason",
)
_RANGE: Final = re.compile(r"(\d{1,19})(-(\d{1,19})?)?")
_LAST: Final = 2**63 - 1


def show_records(admin: Admin, options: Options) -> int:
    """Print what is known of single records. Return 1 if a share-partition was refused."""
    rows: list[Row] = []
    wanted = _ranges(options.offset) or [(0, _LAST)]
    group_id = _group(options)
    for partition in _partitions(admin, options):
        for first, last in wanted:
            left = options.limit - len(rows)
            there = _between(admin.share_records(group_id, partition, first), last)
            found = list(islice(there, left + 1))
            rows += map(_row, found[:left])
            if len(found) > left:
                _say_more(partition, found[left], options)
                print_rows(rows, _RECORDS, "records", options.output)
                return 0
    print_rows(rows, _RECORDS, "records", options.output)
    if any(row["state"] == ShareRecordState.ARCHIVING.value for row in rows):
        say(
            "records that are archiving wait for their dead letters; if they stay so, these cannot be "
            "written: the server's log says why"
        )
    if not rows:
        say(f"nothing is known of these records: no member of {group_id} has read them, or all are complete")
    return 0


def _say_more(partition: TopicPartition, first: ShareRecords, options: Options) -> None:
    where = f"{partition.topic}:{partition.partition}"
    say(
        f"there are more than {options.limit} ranges; the next one is --topic {where} --offset "
        f"{first.first_offset}-, or raise --limit"
    )


def _between(records: Iterator[ShareRecords], last: int) -> Iterator[ShareRecords]:
    for one in records:
        if one.first_offset > last:
            return
        yield one


def _row(one: ShareRecords) -> Row:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "first_offset": one.first_offset,
        "last_offset": one.last_offset,
        "state": one.state.value + (" (being acknowledged)" if one.is_changing else ""),
        "delivery_count": one.delivery_count,
        "consumer_id": one.member_id,
        "since": _moment(one.since),
        "locked_until": _moment(one.locked_until),
        "reason": one.reason,
    }


def _moment(time: Millis | None) -> str | None:
    return None if time is None else moment(time)


# --- changes ---


def release(admin: Admin, options: Options) -> int:
    """Take records back from their members."""
    return _alter(admin, options, ShareAlteration.RELEASE)


def archive(admin: Admin, options: Options) -> int:
    """Deliver records no more."""
    return _alter(admin, options, ShareAlteration.ARCHIVE)


def redeliver(admin: Admin, options: Options) -> int:
    """Deliver records again that have dead letters."""
    return _alter(admin, options, ShareAlteration.REDELIVER)


def _alter(admin: Admin, options: Options, alteration: ShareAlteration) -> int:
    """Print what happens to each range, or would happen. Return 1 if nothing does."""
    for topic in options.topic:
        if parse_topic(topic).partitions is None:
            raise UsageProblem(f"--topic {topic}: the partition of these offsets is expected, as {topic}:0")
    ranges = _ranges(options.offset)
    found = [
        one
        for partition in _partitions(admin, options)
        for one in admin.alter_share_records(
            _group(options), partition, alteration, ranges, dry_run=not options.execute
        )
    ]
    print_rows(list(map(_altered_row, found)), _ALTERED, "records", options.output)
    is_effective = any(one.new_state is not None for one in found)
    if not found and alteration is ShareAlteration.REDELIVER:
        say("there are no dead letters of these records")
    elif not is_effective:
        say("nothing is to change")
    elif not options.execute:
        say("nothing was changed; add --execute to make the changes")
    return 0 if is_effective else 1


def _altered_row(one: AlteredShareRecords) -> Row:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "first_offset": one.first_offset,
        "last_offset": one.last_offset,
        "state": None if one.state is None else one.state.value,
        "delivery_count": one.delivery_count,
        "new_state": None if one.new_state is None else one.new_state.value,
        "reason": one.reason,
    }


# --- arguments ---


def _group(options: Options) -> str:
    if len(set(options.group)) > 1:
        raise UsageProblem("one --group is expected")
    return options.group[0]


def _ranges(texts: list[str]) -> list[tuple[int, int]]:
    return [_range(part.strip()) for text in texts for part in text.split(",")]


def _range(text: str) -> tuple[int, int]:
    """Parse `5`, `5-9` or `5-`. Raises `UsageProblem`."""
    found = _RANGE.fullmatch(text)
    if found is None:
        raise UsageProblem(f"--offset {text}: an offset or a range is expected, as 5, 5-9 or 5-")
    first = int(found[1])
    last = first if found[2] is None else _LAST if found[3] is None else int(found[3])
    if not first <= last <= _LAST:
        raise UsageProblem(f"--offset {text}: the range is empty, or an offset is too large")
    return first, last


def _partitions(admin: Admin, options: Options) -> list[TopicPartition]:
    """Return the partitions that `--topic` names: of a whole topic, those that the group has."""
    found: list[TopicPartition] = []
    known = [one.partition for one in admin.share_offsets(_group(options))]
    for topic, indexes in map(parse_topic, options.topic):
        if indexes is None:
            some = [one for one in known if one.topic == topic]
            if not some:
                what = f"{topic} of share group {_group(options)}"
                raise RequestRefused(what, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            found += some
        else:
            found += [TopicPartition(TopicName(topic), index) for index in indexes]
    return list(dict.fromkeys(found))
