"""How long the offsets of each group are kept after they begin to age.

The setting `offsets.retention.minutes` of the broker, or the group's own setting `offsets.retention.ms`. An
expiry time that an old client sent with a commit counts more than both.
"""

from __future__ import annotations

from typing import Final

from headgate.core.offsets.expiry import MINUTE_MS
from headgate.domain.ids import GroupId
from headgate.domain.settings import Settings

OWN_RETENTION: Final = "offsets.retention.ms"
"""The name of a group's own setting."""


class Retentions:
    """The retentions of a shard's groups, in ms; negative: offsets do not expire."""

    __slots__ = ("_by_group", "of_all")

    def __init__(self, settings: Settings) -> None:
        self.of_all: int = settings["offsets.retention.minutes"] * MINUTE_MS
        """The retention of groups that have none of their own."""
        self._by_group: dict[GroupId, int] = {}

    def of(self, group_id: GroupId) -> int:
        """Return the retention of a group."""
        return self._by_group.get(group_id, self.of_all)

    def is_own(self, group_id: GroupId) -> bool:
        """Return whether a group has a retention of its own."""
        return group_id in self._by_group

    def configure(self, group_id: GroupId, retention_ms: int | None) -> None:
        """Set a group's own retention; None: it has none."""
        if retention_ms is None:
            self._by_group.pop(group_id, None)
        else:
            self._by_group[group_id] = retention_ms

    def groups(self) -> list[GroupId]:
        """Return the groups with a retention of their own. Some may not exist, or belong to another shard."""
        return list(self._by_group)
