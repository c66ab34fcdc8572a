"""Parsers of option values: topics with partitions, dates, durations, files of offsets."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from headgate.admin import (
    ByDuration,
    ShiftBy,
    Target,
    ToCurrent,
    ToDatetime,
    ToEarliest,
    ToLatest,
    ToOffset,
    TopicPartition,
)
from headgate.cli.consumer_groups.options import Options
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.ids import Millis, TopicName
from headgate.domain.setting import LONG_MAX
from headgate.domain.times import as_datetime

_DURATION = re.compile(
    r"P(?:(?P<days>\d{1,18})D)?(?:T(?=\d)(?:(?P<hours>\d{1,18})H)?(?:(?P<minutes>\d{1,18})M)?"
    r"(?:(?P<seconds>\d{1,18})(?:\.(?P<fraction>\d{1,9}))?S)?)?",
    re.IGNORECASE,
)
_SPAN = re.compile(r"(?P<count>\d{1,12})(?P<unit>[smhd])", re.IGNORECASE)
_MS_OF_UNIT = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


class TopicArgument(NamedTuple):
    """A value of `--topic`: a topic and its partitions; None: all partitions."""

    topic: str
    partitions: tuple[int, ...] | None


def parse_topic(text: str) -> TopicArgument:
    """Parse `flights` or `flights:0,1`. Raises `UsageProblem`."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return TopicArgument(topic, None)
    parts = numbers.split(",")
    if not topic or not all(part.strip().isdecimal() for part in parts):
        raise UsageProblem(f"--topic {text}: TOPIC or TOPIC:0,1 is expected")
    return TopicArgument(topic, tuple(dict.fromkeys(int(part) for part in parts)))


def parse_datetime(text: str, option: str = "--to-datetime") -> Millis:
    """Parse a date and time in ISO 8601, in UTC unless it has an offset. Raises `UsageProblem`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageProblem(
            f"{option} {text}: a date and time is expected, as 2026-11-21T08:30:00 or "
            "2026-11-21T08:30:00.000+01:00"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    found = Millis(round(moment.timestamp() * 1000))
    try:
        as_datetime(found)
    except OverflowError:  # its offset moves it out of what a datetime can have
        raise UsageProblem(f"{option} {text}: a time in the years 1 to 9999 (UTC) is expected") from None
    return found


def parse_duration(text: str) -> int:
    """Return a duration in ISO 8601, without months and years, in ms. Raises `UsageProblem`."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groupdict().values()):
        raise UsageProblem(f"--by-duration {text}: a duration is expected, as P7D, PT12H or P1DT2H3M4S")
    whole = sum(int(found[name] or 0) * factor for name, factor in _MS.items())
    return whole + int((found["fraction"] or "0").ljust(3, "0")[:3])


def parse_span(option: str, text: str) -> int:
    """Return a duration in ms: `24h`, `90m`, `7d`, or ISO 8601. Raises `UsageProblem`."""
    found = _SPAN.fullmatch(text)
    if found is not None:
        return int(found["count"]) * _MS_OF_UNIT[found["unit"].lower()]
    try:
        return parse_duration(text)
    except UsageProblem:
        raise UsageProblem(f"{option} {text}: a duration is expected, as 24h, 7d or P1DT2H") from None


def target_of(options: Options) -> Target:
    """Return the target of a reset without --from-file."""
    if options.to_offset is not None:
        return ToOffset(options.to_offset)
    if options.shift_by is not None:
        return ShiftBy(options.shift_by)
    if options.to_datetime is not None:
        return ToDatetime(as_datetime(parse_datetime(options.to_datetime)))
    if options.by_duration is not None:
        return ByDuration(parse_duration(options.by_duration))
    if options.to_earliest:
        return ToEarliest()
    return ToLatest() if options.to_latest else ToCurrent()


_MOST_DIGITS = 100
"""Maximum length of a number: Python converts no text of thousands of digits."""

_HEADINGS = (("topic", "partition", "offset"), ("group", "topic", "partition", "offset"))
"""First lines of a file that name its columns. No line of offsets looks like that."""

OffsetsByGroup = dict[str, dict[TopicPartition, int]]


def read_offsets(path: Path, groups: Sequence[str]) -> OffsetsByGroup:
    """Return the offsets in a file by group. Raises `UsageProblem`, which names the line.

    A line of three fields belongs to the only group of `groups`. A line of four fields begins with its group.
    The first line may be a heading.
    """
    offsets: OffsetsByGroup = {group: {} for group in groups}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for line, (group, partition, offset) in _rows(path, csv.reader(file), groups):
                if groups and group not in offsets:
                    raise UsageProblem(f"{path}, line {line}: group {group} is not among those of --group")
                if partition in offsets.setdefault(group, {}):
                    raise UsageProblem(f"{path}, line {line}: {partition} of group {group} occurs twice")
                offsets[group][partition] = offset
    except OSError as problem:
        raise UsageProblem(f"--from-file {path}: {problem.strerror}") from problem
    except (UnicodeDecodeError, csv.Error) as problem:
        raise UsageProblem(f"--from-file {path}: not CSV: {problem}") from problem
    if not any(offsets.values()):
        raise UsageProblem(f"--from-file {path}: the file has no offsets")
    return offsets


def _rows(
    path: Path, rows: Iterator[list[str]], groups: Sequence[str]
) -> Iterator[tuple[int, tuple[str, TopicPartition, int]]]:
    for line, row in enumerate(rows, start=1):
        if not row:
            continue
        fields = [field.strip() for field in row]
        if line == 1 and tuple(map(str.lower, fields)) in _HEADINGS:
            continue
        if len(fields) == 3 and len(groups) == 1:
            fields.insert(0, groups[0])
        elif len(fields) == 4:
            fields[0] = row[0]  # spaces belong to the name of a group
        if len(fields) != 4 or not fields[2].isdecimal() or not fields[3].isdecimal():
            expected = "topic,partition,offset or " if len(groups) == 1 else ""
            raise UsageProblem(f"{path}, line {line}: {expected}group,topic,partition,offset is expected")
        group, topic, partition, offset = fields
        if len(offset) > _MOST_DIGITS or int(offset) > LONG_MAX:
            raise UsageProblem(f"{path}, line {line}: an offset below 2**63 is expected")
        if len(partition) > _MOST_DIGITS:
            raise UsageProblem(f"{path}, line {line}: the number of a partition is expected")
        yield line, (group, TopicPartition(TopicName(topic), int(partition)), int(offset))
