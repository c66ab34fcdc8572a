"""The requested groups, and the message for a group that does not exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headgate.admin import Admin
from headgate.admin.survey import Surveyor
from headgate.cli.absent_groups import all_absent
from headgate.cli.consumer_groups.options import Options
from headgate.cli.printing import say


def asked_groups(surveyor: Surveyor, options: Options) -> list[str]:
    """Return the ids of the groups of --group, or of all consumer groups.

    `gaps` of the surveyor tells whether some of them are missing.
    """
    if not options.all_groups:
        return list(dict.fromkeys(options.group))
    listings = surveyor.listings()
    if not listings and not surveyor.unlisted:
        say("there are no groups")
    return [listing.group_id for listing in listings]


def all_not_there(admin: Admin, group_ids: Sequence[str]) -> Iterator[str]:
    """Yield the message for each group that does not exist, with the most similar name if there is one."""
    return all_absent(admin, group_ids, are_shares=False)


def not_there(admin: Admin, group_id: str) -> str:
    """Return this message for one group."""
    return next(all_not_there(admin, [group_id]))
