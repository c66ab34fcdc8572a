"""The requested groups, and the message for a group that does not exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headgate.admin import Admin, GroupListing
from headgate.admin.survey import Surveyor
from headgate.cli.absent_groups import all_absent
from headgate.cli.consumer_groups.options import Options
from headgate.cli.printing import say


def consumer_listings(listings: Iterable[GroupListing]) -> list[GroupListing]:
    """Return the groups of consumers, and the groups that only store offsets."""
    return [listing for listing in listings if listing.protocol_type in ("consumer", "")]


def asked_groups(admin: Admin, options: Options, surveyor: Surveyor | None = None) -> list[str]:
    """Return the ids of the groups of --group, or of all consumer groups."""
    if not options.all_groups:
        return list(dict.fromkeys(options.group))
    listings = surveyor.listings() if surveyor else consumer_listings(admin.list_groups())
    if not listings:
        say("there are no groups")
    return [listing.group_id for listing in listings]


def all_not_there(admin: Admin, group_ids: Sequence[str]) -> Iterator[str]:
    """Yield the message for each group that does not exist, with the most similar name if there is one."""
    return all_absent(admin, group_ids, are_shares=False)


def not_there(admin: Admin, group_id: str) -> str:
    """Return this message for one group."""
    return next(all_not_there(admin, [group_id]))
