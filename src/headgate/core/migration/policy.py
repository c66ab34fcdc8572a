"""The allowed migrations of groups with members: `group.consumer.migration.policy`."""

from __future__ import annotations

from enum import Enum


class MigrationPolicy(Enum):
    """The policy, by the names of the setting."""

    BIDIRECTIONAL = "bidirectional"
    """Upgrade and downgrade."""
    UPGRADE = "upgrade"
    """A classic group may become a consumer group."""
    DOWNGRADE = "downgrade"
    """A consumer group with only classic members left may become a classic group."""
    DISABLED = "disabled"
    """Neither, and classic members may not join a consumer group with members."""

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group may become a consumer group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        """Whether a consumer group may become a classic group."""
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)

    @property
    def allows_mixed_groups(self) -> bool:
        """Whether classic members may join a consumer group that has members."""
        return self is not MigrationPolicy.DISABLED
