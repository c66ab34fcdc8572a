"""The groups, the partitions and the target that options name."""

from __future__ import annotations

from headgate.admin import (
    Admin,
    ShareTarget,
    ToDatetime,
    ToEarliest,
    ToLatest,
    ToOffset,
    TopicPartition,
)
from headgate.admin.survey import Surveyor
from headgate.cli.consumer_groups.arguments import parse_datetime, parse_topic
from headgate.cli.named_partitions import partitions_of
from headgate.cli.printing import say
from headgate.cli.share_groups.options import Options
from headgate.client.share_groups import SHARE
from headgate.domain.times import as_datetime


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


def asked_partitions(admin: Admin, group_id: str, options: Options) -> list[TopicPartition]:
    """Return the partitions that options name. Raises `RequestRefused` for one that does not exist."""
    if options.all_topics:
        return [one.partition for one in admin.share_offsets(group_id)]
    arguments = map(parse_topic, options.topic)
    return [one for argument in arguments for one in partitions_of(admin, *argument)]
