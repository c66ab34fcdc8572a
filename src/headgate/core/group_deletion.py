"""Delete groups with all their offsets, on request. Rules:

1. A group with at most `OFFSETS_AT_ONCE` offsets is deleted with them in one step. Of a larger one the group
   itself is deleted first: from then on neither it nor its offsets are visible. The offsets are deleted in
   slices, with pauses between them. The requests are answered with the last slice.
2. Until then its id is not free. Commands that would create a group of that id get a retriable error
   (`Groups.being_deleted`), because it would have the remaining offsets; another deletion gets the same
   answer as the first.
3. Offsets of a group that does not exist belong to a deletion that a crash interrupted. Its request was not
   answered; after the load the deletion continues (`loaded`), and the offsets are not visible meanwhile.
4. All pending offsets are removed in the first step, also if they are many: otherwise a transaction that is
   committed during the deletion would create the group again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from headgate.core.commands import DeleteGroup
from headgate.core.contract import Effects, Reply, Token
from headgate.core.deadlines import Deadlines
from headgate.core.effects import NOTHING, GroupEffects, answer
from headgate.core.groups import Groups
from headgate.core.offsets.authors import Author, authors_of
from headgate.core.offsets.pending import PendingOffsets
from headgate.core.offsets.removal import removals_of
from headgate.core.offsets.table import OffsetTable
from headgate.core.timers import Timer, TimerKind
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import Change

OFFSETS_AT_ONCE = 2000
OFFSETS_A_SLICE = 500
"""Finding, applying and writing the removal of an offset takes some microseconds."""
BETWEEN_SLICES_MS = 5
BETWEEN_FAILURES_MS = 1000
_DELETE = Timer(TimerKind.DELETE)


class _Deletion:
    """The deletion of one group's offsets."""

    __slots__ = ("_offsets", "author", "group_id", "is_over", "tokens")

    def __init__(
        self, table: OffsetTable, group_id: GroupId, tokens: list[Token], author: Author | None
    ) -> None:
        self.group_id = group_id
        self.author = author
        """The client to record; None: unknown, because the server was restarted."""
        self.tokens = tokens
        """The requests to answer at its end."""
        self._offsets = table.walk(group_id)
        self.is_over = False

    def step(self, most: int) -> Sequence[Change]:
        """Return removals of up to `most` offsets."""
        found = list(islice(self._offsets, most))
        self.is_over = len(found) < most
        gone: dict[TopicName, list[int]] = {}
        for one in found:
            if one is not None:
                gone.setdefault(one[0], []).append(one[1])
        return self.signed(removals_of(self.group_id, gone))

    def signed(self, removals: Sequence[Change]) -> Sequence[Change]:
        """Return removals, followed by records of the author."""
        return [*removals, *authors_of(self.group_id, removals, self.author)]


class GroupDeletions:
    """The group deletions of one shard that are in progress."""

    __slots__ = ("_deadlines", "_groups", "_offsets", "_pending", "_under_way")

    def __init__(
        self, offsets: OffsetTable, pending: PendingOffsets, groups: Groups, deadlines: Deadlines[Timer]
    ) -> None:
        self._offsets = offsets
        self._pending = pending
        self._groups = groups
        self._deadlines = deadlines
        self._under_way: dict[GroupId, _Deletion] = {}
        groups.being_deleted = self._under_way

    def loaded(self, now: Millis) -> None:
        """Continue the deletions that a crash or stop interrupted."""
        for group_id in self._offsets.forgotten_groups():
            if self._groups.find(group_id) is None:
                self._under_way[group_id] = _Deletion(self._offsets, group_id, [], None)
        if self._under_way:
            self._deadlines.set(_DELETE, now)

    def begin(self, command: DeleteGroup, now: Millis, token: Token) -> GroupEffects:
        """Delete a group, if it may be deleted; the reply is sent at the end of the deletion."""
        group_id = command.group_id
        under_way = self._under_way.get(group_id)
        if under_way is not None:
            under_way.tokens.append(token)
            return NOTHING
        kind = self._groups.find(group_id)
        if kind is None:
            return answer(token, ErrorCode.GROUP_ID_NOT_FOUND)
        if not kind.is_empty(group_id):
            return answer(token, ErrorCode.NON_EMPTY_GROUP)
        deletion = _Deletion(self._offsets, group_id, [token], command.author)
        waiting = {topic: [*partitions] for topic, partitions in self._pending.of_group(group_id).items()}
        removals = [*deletion.signed(removals_of(group_id, waiting)), *deletion.step(OFFSETS_AT_ONCE)]
        tombstones = self._groups.tombstones(group_id, kind)
        if deletion.is_over:
            return Effects([*removals, *tombstones], _replies(deletion))
        self._under_way[group_id] = deletion
        self._deadlines.set(_DELETE, Millis(now + BETWEEN_SLICES_MS))
        return Effects([*tombstones, *removals])

    def go_on(self, now: Millis) -> GroupEffects:
        """Do one slice of the deletion that has waited longest; restart it after a pause if it fails."""
        group_id = next(iter(self._under_way), None)
        if group_id is None:
            return NOTHING
        deletion = self._under_way.pop(group_id)
        try:
            records = deletion.step(OFFSETS_A_SLICE)
        except Exception:
            self._under_way[group_id] = _Deletion(self._offsets, group_id, deletion.tokens, deletion.author)
            self._deadlines.set(_DELETE, Millis(now + BETWEEN_FAILURES_MS))
            raise
        if not deletion.is_over:
            self._under_way[group_id] = deletion
        if self._under_way:
            self._deadlines.set(_DELETE, Millis(now + BETWEEN_SLICES_MS))
        return Effects(records, _replies(deletion) if deletion.is_over else ())


def _replies(deletion: _Deletion) -> list[Reply]:
    return [Reply(token, ErrorCode.NONE) for token in deletion.tokens]
