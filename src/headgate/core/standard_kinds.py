"""The list of the kinds of groups: the only place that names them all.

A shard asks them in this order. Classic and consumer groups are converted into each other (`core/migration`),
so the commands of one know the groups of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.classic.groups import ClassicGroups
from headgate.core.consumer.dispatch import ConsumerDispatch
from headgate.core.consumer.groups import ConsumerGroups
from headgate.core.groups import Groups
from headgate.core.kinds import GroupCommands, GroupKind, ShardContext
from headgate.core.members import MemberDispatch
from headgate.core.migration.migration import Migration
from headgate.core.share.membership.dispatch import ShareDispatch
from headgate.core.share.membership.groups import ShareGroups


def standard_kinds(context: ShardContext, groups: Groups) -> Sequence[tuple[GroupKind, GroupCommands]]:
    """Return the kinds of groups of a shard, each with its commands."""
    classic, consumer = ClassicGroups(context), ConsumerGroups(context)
    migration = Migration(context.settings, classic, context.paused)
    commands = ConsumerDispatch(consumer, groups, migration)
    share = ShareGroups(context)
    return (
        (consumer, commands),
        (classic, MemberDispatch(groups, classic, consumer, commands, migration)),
        (share, ShareDispatch(share, groups)),
    )
