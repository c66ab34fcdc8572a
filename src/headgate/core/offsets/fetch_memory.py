"""What fetches of a group's offsets found: told again as long as none of its offsets has changed.

A result is kept for the command it answers, by that command's identity: who asks again holds it. The table
forgets a group's results in the same moment as it changes one of the group's offsets, so a result from here
is never another than the table would give. A bounded memory, in bytes: clients choose what they ask for, and
a topic's name may be as long as a request. What does not fit is found anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headgate.domain.ids import GroupId

if TYPE_CHECKING:
    from headgate.core.offsets.commands import FetchOffsets

MOST_BYTES = 4 << 20
"""Of all results together, by `weight_bytes`: some thousand results, of one shard."""
_RESULT_BYTES: Final = 900
_TOPIC_BYTES: Final = 330
_PARTITION_BYTES: Final = 32
_CHARACTER_BYTES: Final = 4
"""At most."""


def weight_bytes(command: FetchOffsets) -> int:
    """What a command and its result take in memory, about."""
    characters = len(command.group_id) + len(command.member_id or "")
    total = _RESULT_BYTES
    for topic, partitions in command.topics or ():
        characters += len(topic)
        total += _TOPIC_BYTES + _PARTITION_BYTES * len(partitions)
    return total + _CHARACTER_BYTES * characters


class FetchMemory:
    """Results by group, and by command."""

    __slots__ = ("_by_group", "_bytes")

    def __init__(self) -> None:
        self._by_group: dict[GroupId, dict[int, tuple[FetchOffsets, Any]]] = {}
        """Each with its command, which so cannot become another of the same identity."""
        self._bytes = 0
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
        weight = weight_bytes(command)
        if self._bytes + weight > MOST_BYTES:
            self.clear()
            if weight > MOST_BYTES:
                return
        self._bytes += weight
        self._by_group.setdefault(command.group_id, {})[id(command)] = command, result

    def forget(self, group_id: GroupId) -> None:
        """An offset of the group has changed, come or gone, or the group has."""
        if group_id in self._by_group:
            del self._by_group[group_id]

    def clear(self) -> None:
        """Offsets of any group may have changed."""
        self._by_group.clear()
        self._bytes = 0
