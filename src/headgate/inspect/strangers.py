"""Keys in a coordinator's log that belong to another partition of its topic: nobody looks for them there."""

from __future__ import annotations

from headgate.domain.partitioning import partition_for
from headgate.domain.wording import counted
from headgate.inspect.directory import PartitionPlace
from headgate.inspect.findings import Findings

_NOT_SERVED = (
    "The server does not serve them: it looks for them in the other partitions. If files were swapped or "
    "renamed, restore the data directory from a backup."
)


class Strangers:
    """The keys of other partitions that were found in one log."""

    def __init__(self, place: PartitionPlace, noun: str) -> None:
        """`noun` is what a key names, such as `group`."""
        self._index = place.index
        self._partition_count = 1 if place.entry is None else place.entry.partition_count
        self._noun = noun
        self._found: dict[str, tuple[str, int]] = {}

    def look(self, key: str, file: str, position: int) -> None:
        """Note a key of another partition, with the place of its first batch."""
        if self._partition_count > 1 and partition_for(key, self._partition_count) != self._index:
            self._found.setdefault(key, (file, position))

    def tell(self, findings: Findings) -> None:
        """Report what was found."""
        if not self._found:
            return
        key, (file, position) = next(iter(self._found.items()))
        findings.error(
            file,
            f"{counted(len(self._found), self._noun)} of other partitions: {key}, for example, belongs to "
            f"partition {partition_for(key, self._partition_count)}",
            _NOT_SERVED,
            position=position,
        )
