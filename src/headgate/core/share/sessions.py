"""Share sessions: which partitions a member of a share group fetches, and the order of its requests (F5).

1. A session is of a group and a member. ShareFetch and ShareAcknowledge share it, and its epochs.
2. Epoch 0 begins a session, in place of one that exists: what the member has acquired stays acquired. -1 ends
   it: what the member has is released. Other requests have the next epoch; after the greatest one comes 1.
3. A session belongs to the connection that began it, and ends with it. If there are too many, a connection
   with many, which no consumer has, gives one of them up for that of another (`in_the_way`).
4. All sessions together hold at most MOST_PARTITIONS. A request beyond that changes nothing, and gets the
   error of too many sessions. Sessions of at most ALWAYS_ALLOWED partitions are not refused, so that a few
   clients with very many do not keep the others from their records.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicId

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_GREATEST_EPOCH: Final = 0x7FFF_FFFF
PARTITIONS_A_STEP: Final = 1_000
"""A session may have any number of partitions: of very many, so many are looked at in one step."""
MOST_PARTITIONS: Final = 500_000
"""Each takes a quarter of a kilobyte, whether or not it exists."""
ALWAYS_ALLOWED: Final = 250
"""As many for each session that may exist by default (2,000) are again MOST_PARTITIONS."""

PartitionKey: TypeAlias = tuple[TopicId, int]


@dataclass(slots=True, eq=False)
class ShareSession:
    """One session. Only `ShareSessions` changes it, and fetches note what they acquire."""

    group_id: GroupId
    member_id: MemberId
    connection: Hashable
    partitions: dict[PartitionKey, None] = field(default_factory=dict)
    acquired_from: dict[PartitionKey, None] = field(default_factory=dict)
    """Where its member may have acquired records; a session in its place takes this over."""
    next_epoch: int = 1
    counted: int = 0
    """Partitions that count for the limit: also those that a request is adding in steps."""
    has_ended: bool = False
    """Whether it was ended, or another one is in its place: a fetch that still waits must acquire nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """The fields of a request that are about its session."""

    group_id: GroupId
    member_id: MemberId
    epoch: int
    connection: Hashable = None
    added: Sequence[PartitionKey] = ()
    forgotten: Sequence[PartitionKey] = ()
    has_acknowledgements: bool = False


class ShareSessions:
    """All share sessions of this node."""

    def __init__(self, most: int) -> None:
        """`most` is `group.share.max.share.sessions`."""
        self._most = most
        self._sessions: dict[tuple[GroupId, MemberId], ShareSession] = {}
        self._by_connection: dict[Hashable, dict[ShareSession, None]] = {}
        self._by_group: dict[GroupId, int] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The partitions of all sessions, as they count for the limit."""
        return self._partition_count

    def count(self, group_id: GroupId) -> int:
        """Return the number of sessions of a group."""
        return self._by_group.get(group_id, 0)

    def begin_fetch(self, request: SessionRequest) -> ShareSession | ErrorCode:
        """Return the session of a fetch, with the partitions it fetches, or the error of the whole response.

        The caller ends the session if the epoch is the final one.
        """
        session = self.begin_long_fetch(request)
        if not isinstance(session, ErrorCode):
            for _ in self.change_in_steps(session, request):
                pass
        return session

    def begin_long_fetch(self, request: SessionRequest) -> ShareSession | ErrorCode:
        """Do as `begin_fetch`, but leave the change of the session's partitions to `change_in_steps`."""
        is_first = request.epoch == INITIAL_EPOCH
        session = self._open(request) if is_first else self._continue(request)
        if not isinstance(session, ErrorCode) and request.epoch != FINAL_EPOCH:
            self._count(session, session.counted + len(request.added))
        return session

    def change_in_steps(self, session: ShareSession, request: SessionRequest) -> Generator[None, None, None]:
        """Change the partitions of a session, which `begin_long_fetch` returned for this request."""
        if request.epoch == FINAL_EPOCH:
            return
        partitions, more = session.partitions, 0
        for some in _some_at_a_time(request.added):
            more -= len(partitions)
            partitions.update(dict.fromkeys(some))
            more += len(partitions)
            yield None
        for some in _some_at_a_time(() if request.epoch == INITIAL_EPOCH else request.forgotten):
            more -= len(partitions)
            for key in some:
                partitions.pop(key, None)
            more += len(partitions)
            yield None
        self._count(session, session.counted - len(request.added) + more)

    def begin_acknowledge(self, request: SessionRequest) -> ShareSession | ErrorCode:
        """Return the session of an acknowledgement, or the error of the whole response."""
        if request.epoch == INITIAL_EPOCH:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        return self._continue(request)

    def end(self, session: ShareSession) -> None:
        """Forget a session; do nothing if another one is in its place."""
        if self._sessions.get((session.group_id, session.member_id)) is not session:
            return
        self._count(session, 0)
        session.has_ended = True
        del self._sessions[session.group_id, session.member_id]
        left = self._by_connection[session.connection]
        del left[session]
        if not left:
            del self._by_connection[session.connection]
        self._by_group[session.group_id] -= 1
        if not self._by_group[session.group_id]:
            del self._by_group[session.group_id]

    def in_the_way(self, request: SessionRequest) -> ShareSession | None:
        """Return the session that should end because a new one has no place; None if it has one.

        It is the first session of the connection with the most; None if that has hardly more than that of the
        request.
        """
        is_known = (request.group_id, request.member_id) in self._sessions
        if is_known or request.epoch != INITIAL_EPOCH or len(self._sessions) < self._most:
            return None
        if request.has_acknowledgements or not self._has_room(len(request.added), instead_of=0):
            return None  # it is refused anyway
        most = max(self._by_connection.values(), key=len)
        own = self._by_connection.get(request.connection, ())
        return next(iter(most)) if len(most) > len(own) + 1 else None

    def of_connection(self, connection: Hashable) -> list[ShareSession]:
        """Return the sessions that a connection began."""
        return list(self._by_connection.get(connection, ()))

    def _open(self, request: SessionRequest) -> ShareSession | ErrorCode:
        if request.has_acknowledgements:
            return ErrorCode.INVALID_REQUEST
        key = request.group_id, request.member_id
        known = self._sessions.get(key)
        if known is None and len(self._sessions) >= self._most:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        if not self._has_room(len(request.added), instead_of=0 if known is None else known.counted):
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = ShareSession(*key, request.connection)
        if known is not None:
            session.acquired_from = known.acquired_from
            self.end(known)
        self._sessions[key] = session
        self._by_connection.setdefault(request.connection, {})[session] = None
        self._by_group[request.group_id] = self.count(request.group_id) + 1
        return session

    def _continue(self, request: SessionRequest) -> ShareSession | ErrorCode:
        session = self._sessions.get((request.group_id, request.member_id))
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if request.epoch == FINAL_EPOCH:
            return session
        if request.epoch != session.next_epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        if not self._has_room(session.counted + len(request.added), instead_of=session.counted):
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session.next_epoch = 1 if request.epoch == _GREATEST_EPOCH else request.epoch + 1
        return session

    def _has_room(self, count: int, instead_of: int) -> bool:
        """Return whether a session may have so many partitions, where there were `instead_of` of them."""
        more = count - instead_of
        return more <= 0 or count <= ALWAYS_ALLOWED or self._partition_count + more <= MOST_PARTITIONS

    def _count(self, session: ShareSession, count: int) -> None:
        if not session.has_ended:
            self._partition_count += count - session.counted
            session.counted = count


def _some_at_a_time(keys: Sequence[PartitionKey]) -> Iterator[Sequence[PartitionKey]]:
    for first in range(0, len(keys), PARTITIONS_A_STEP):
        yield keys[first : first + PARTITIONS_A_STEP]
