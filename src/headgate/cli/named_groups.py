"""The groups that a change names: whether each exists, and is of the right kind, by its coordinator.

A list of groups does not decide that: it lacks groups that the user may not describe, and those without a
coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.admin.survey import Surveyor
from headgate.cli.absent_groups import absent, of_other_kind
from headgate.cli.advice import in_words
from headgate.client.cluster import Cluster
from headgate.domain.ids import GroupId


def not_to_change(
    cluster: Cluster, group_ids: Iterable[str], *, are_shares: bool, may_be_new: bool
) -> dict[str, str]:
    """Return the message for each group that is not to be changed.

    Its coordinator does not answer, it is of the other kind, or it does not exist, unless it `may_be_new`.
    """
    surveyor, wanted = Surveyor(cluster), list(map(GroupId, group_ids))
    described = surveyor.descriptions(wanted)
    shares = surveyor.share_groups(group_id for group_id, one in described.items() if one is None)
    found: dict[str, str] = {}
    missing: list[GroupId] = []
    for group_id in wanted:
        is_share = group_id in shares
        if group_id in surveyor.failed:
            command = "share-groups" if are_shares else "consumer-groups"
            found[group_id] = in_words(surveyor.failed[group_id], command)
        elif not is_share and described.get(group_id) is None:
            missing.append(group_id)
        elif is_share is not are_shares:
            found[group_id] = of_other_kind(group_id, is_share=is_share)
    if missing and not may_be_new:
        texts = absent(missing, surveyor.all_listings(), are_shares=are_shares)
        found.update((one, f"{text} (--create creates it)") for one, text in zip(missing, texts, strict=True))
    return found
