"""The groups, the partitions and the target that options name."""

from __future__ import annotations

from headgate.admin import (
    Admin,
    RequestRefused,
    ShareTarget,
    ToDatetime,
    ToEarliest,
    ToLatest,
    ToOffset,
    TopicPartition,
)
from headgate.admin.survey import Surveyor
from headgate.cli.consumer_groups.arguments import parse_datetime, parse_topic
from headgate.cli.printing import say
from headgate.cli.share_groups.options import Options
from headgate.client.share_groups import SHARE
from headgate.domain.errors import ErrorCode
from headgate.domain.times import as_datetime
from headgate.domain.wording import counted


def asked_groups(surveyor: Surveyor, options: Options) -> list[str]:
    """Return the ids of the groups of --group, or of all share groups.

    `gaps` of the surveyor tells whether some of them are missing.
    """
    if not options.all_groups:
        return list(dict.fromkeys(options.group))
    listings = surveyor.all_listings(types=[SHARE])
    if not listings and not surveyor.unlisted:
        say("there are no share groups")
    return [one.group_id for one in listings]


def target_of(options: Options) -> ShareTarget:
    """Return where the groups are to begin. Raises `UsageProblem`."""
    if options.to_offset is not None:
        return ToOffset(options.to_offset)
    if options.to_datetime is not None:
        return ToDatetime(as_datetime(parse_datetime(options.to_datetime)))
    return ToEarliest() if options.to_earliest else ToLatest()


def partitions_of(admin: Admin, group_id: str, options: Options) -> list[TopicPartition]:
    """Return the partitions that options name. Raises `RequestRefused` for one that does not exist."""
    if options.all_topics:
        return [one.partition for one in admin.share_offsets(group_id)]
    found: list[TopicPartition] = []
    for topic, indexes in map(parse_topic, options.topic):
        there = admin.partitions_of(topic)
        missing = set(indexes or ()).difference(one.partition for one in there)
        if missing:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise RequestRefused(
                f"{topic}-{min(missing)}", code, f"{topic} has {counted(len(there), 'partition')}"
            )
        found += [one for one in there if indexes is None or one.partition in indexes]
    return found
