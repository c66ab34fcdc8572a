"""The groups of a shard by their kind, for tests that look into them."""

from __future__ import annotations

from headgate.core.classic.groups import ClassicGroups
from headgate.core.consumer.groups import ConsumerGroups
from headgate.core.shard import GroupShard
from headgate.core.share.membership.groups import ShareGroups


def classic_groups(shard: GroupShard) -> ClassicGroups:
    """The classic groups of a shard."""
    (found,) = (kind for kind in shard.groups.kinds if isinstance(kind, ClassicGroups))
    return found


def share_groups(shard: GroupShard) -> ShareGroups:
    """The share groups of a shard."""
    (found,) = (kind for kind in shard.groups.kinds if isinstance(kind, ShareGroups))
    return found


def consumer_groups(shard: GroupShard) -> ConsumerGroups:
    """The consumer groups of a shard."""
    (found,) = (kind for kind in shard.groups.kinds if isinstance(kind, ConsumerGroups))
    return found
