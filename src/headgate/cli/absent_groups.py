"""The message for a group that a command does not find: none has the name, or it is of another kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headgate.admin import Admin, GroupListing, VersionNotSupported
from headgate.domain.wording import did_you_mean

_SHARE = "share"


def is_share_group(listing: GroupListing) -> bool:
    """Tell whether a group is a share group."""
    return listing.group_type.lower() == _SHARE


def absent(group_ids: Iterable[str], listings: Iterable[GroupListing], *, are_shares: bool) -> Iterator[str]:
    """Yield the message for each group that a command did not find, with the most similar name of its kind.

    `listings` has the groups of every kind. `are_shares` tells whether share groups were looked for.
    """
    kinds: dict[str, bool] = {each.group_id: is_share_group(each) for each in listings}
    known = [group_id for group_id, is_share in kinds.items() if is_share is are_shares]
    looked_for, command = ("share group", "share-groups") if are_shares else ("group", "consumer-groups")
    for group_id in group_ids:
        if kinds.get(group_id, are_shares) is not are_shares:
            yield of_other_kind(group_id, is_share=not are_shares)
            continue
        hint = did_you_mean(group_id, known) or f"`headgate {command} --list` lists all {looked_for}s"
        yield f"there is no {looked_for} called {group_id}; {hint}"


def all_absent(admin: Admin, group_ids: Sequence[str], *, are_shares: bool) -> Iterator[str]:
    """Yield the same; ask the brokers which groups there are, once, and whether a group was there before.

    Their coordinators have said that the groups do not exist: a list that lacks others is good for hints.
    """
    from headgate.admin.survey import Surveyor

    listings = Surveyor(admin.cluster).all_listings() if group_ids else []
    messages = absent(group_ids, listings, are_shares=are_shares)
    for group_id, message in zip(group_ids, messages, strict=True):
        if not are_shares and _had_offsets(admin, group_id):
            shows = f"`headgate consumer-groups --history --group {group_id}` shows when and why"
            yield f"group {group_id} is gone; {shows}"
        else:
            yield message


def _had_offsets(admin: Admin, group_id: str) -> bool:
    """Tell whether the history has a group's offsets. Kafka keeps no history."""
    try:
        return bool(admin.offset_history(group_id, limit=1).partitions)
    except VersionNotSupported:
        return False


def of_other_kind(group_id: str, *, is_share: bool) -> str:
    """Return the message for a group that exists, and that another command shows and changes."""
    if is_share:
        return f"group {group_id} is a share group: use `headgate share-groups`"
    return f"group {group_id} is not a share group: use `headgate consumer-groups`"
