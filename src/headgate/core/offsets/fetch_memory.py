"""What fetches of a group's offsets found: told again as long as none of its offsets has changed.

A result is kept for the command it answers, by that command's identity: who asks again holds it. The table
forgets a group's results in the same moment as it changes one of the group's offsets, so a result from here
is never another than the table would give. A bounded memory: what does not fit is found anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headgate.domain.ids import GroupId

if TYPE_CHECKING:
    from headgate.core.offsets.commands import FetchOffsets

MOST_PARTITIONS = 1 << 17
"""Of all results together: some megabytes."""


class FetchMemory:
    """Results by group, and by command."""

    __slots__ = ("_by_group", "_partitions")

    def __init__(self) -> None:
        self._by_group: dict[GroupId, dict[int, tuple[FetchOffsets, Any]]] = {}
        """Each with its command, which so cannot become another of the same identity."""
        self._partitions = 0
        """How many were taken in since `clear`."""

    def __len__(self) -> int:
        """Of how many groups there are results."""
        return len(self._by_group)

    def get(self, command: FetchOffsets) -> Any:
        """The very object that was remembered for this command; None if the group has changed since."""
        results = self._by_group.get(command.group_id)
        if results is None:
            return None
        found = results.get(id(command))
        return None if found is None else found[1]

    def remember(self, command: FetchOffsets, result: Any) -> None:
        """This is what the command finds until the group is forgotten."""
        partitions = 1 + sum(len(partitions) for _, partitions in command.topics or ())
        if self._partitions + partitions > MOST_PARTITIONS:
            self.clear()
            if partitions > MOST_PARTITIONS:
                return
        self._partitions += partitions
        self._by_group.setdefault(command.group_id, {})[id(command)] = command, result

    def forget(self, group_id: GroupId) -> None:
        """An offset of the group has changed, come or gone, or the group has."""
        if group_id in self._by_group:
            del self._by_group[group_id]

    def clear(self) -> None:
        """Offsets of any group may have changed."""
        self._by_group.clear()
        self._partitions = 0
