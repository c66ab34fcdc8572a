"""The share-partitions of this node, by group, and the share sessions of their members."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from prometheus_client.metrics_core import Metric

from headgate.api.contract import Call, RequestSteps
from headgate.api.shard_replies import reply_to
from headgate.core.pause.commands import ReadPauses
from headgate.core.share.fetching import (
    AcknowledgeErrors,
    Acknowledgements,
    DeliveredRecords,
    ShareFetchWish,
)
from headgate.core.share.partition.checks import Checked, check_batches
from headgate.core.share.partition.taking_back import Rest
from headgate.core.share.sessions import PARTITIONS_A_STEP, PartitionKey, ShareSession, ShareSessions
from headgate.core.share.state.state import ShareState
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId
from headgate.domain.offset_reset import ResetStrategy
from headgate.records import PausedPartitions
from headgate.records.share_batches import DeliveryState
from headgate.records.share_state_model import ShareKey
from headgate.server.shares.acknowledging import acknowledge
from headgate.server.shares.administration import ShareAdministration
from headgate.server.shares.counts import ShareCounts
from headgate.server.shares.fetch import ShareFetch
from headgate.server.shares.gauges import share_gauges
from headgate.server.shares.partition import SharedPartition
from headgate.server.shares.settings import ShareGroupSettings
from headgate.server.shares.source_log import SourceLog
from headgate.server.shares.surroundings import Surroundings
from headgate.topics.opening_aside import opened_aside
from headgate.topics.topic import Topic

logger = logging.getLogger(__name__)

_RETRY_MS: Final = 1_000
_RELEASED_AT_ONCE: Final = 20
"""Share-partitions of which what a member had is taken back in one iteration of the loop."""
_RELEASING_MS: Final = 3
"""Time after which no more of them follow in one iteration."""
_DISCARDED_AT_ONCE: Final = 100
"""Share-partitions that are given up in one iteration of the loop."""
_CONFIGURED_AT_ONCE: Final = 20
"""Share-partitions that follow new settings of their group in one iteration of the loop."""


class ShareDelivery:
    """Delivers records to the members of share groups; see `headgate.api.contract.ShareDelivery`."""

    def __init__(self, node: Surroundings) -> None:
        self._node = node
        self.sessions = ShareSessions(node.topics.settings["group.share.max.share.sessions"])
        self._groups: dict[GroupId, dict[PartitionKey, SharedPartition]] = {}
        self._settings: dict[GroupId, ShareGroupSettings] = {}
        self._letting_go: set[GroupId] = set()
        """Groups with a timer that gives their partitions up."""
        self._pauses: dict[GroupId, PausedPartitions] = {}
        """The pauses of each group in use, as its shard told them."""
        self._counts = ShareCounts()
        self.administration = ShareAdministration(node, self)
        node.topics.on_group_configured.append(self._configured)
        node.topics.on_deleted.append(self._deleted)

    def settings_of(self, group_id: GroupId) -> ShareGroupSettings:
        """Return the settings of a group."""
        settings = self._settings.get(group_id)
        if settings is None:
            settings = ShareGroupSettings.of(self._node.topics, group_id)
            if group_id in self._groups:
                self._settings[group_id] = settings
        return settings

    def lock_duration_ms(self, group_id: GroupId) -> int:
        """Return for how long the records that a group's members acquire are locked."""
        return self.settings_of(group_id).limits.lock_duration_ms

    def partitions(self, group_id: GroupId) -> Iterator[SharedPartition]:
        """Return the share-partitions of a group that are in use."""
        return iter(self._groups.get(group_id, {}).values())

    def gauges(self) -> Iterator[Metric | None]:
        """Yield the metrics, and None where a slice may end."""
        partitions = [shared for group in self._groups.values() for shared in group.values()]
        return share_gauges(partitions, len(self.sessions), self._counts, self._node.steady_time())

    def find(self, group_id: GroupId, key: PartitionKey) -> SharedPartition | None:
        """Return a share-partition that is in use."""
        return self._groups.get(group_id, {}).get(key)

    def needs_preparation(self, group_id: GroupId, keys: Sequence[PartitionKey]) -> bool:
        """Return whether a fetch must run `prepare` before."""
        known = self._groups.get(group_id, {})
        return len(keys) > PARTITIONS_A_STEP or not all(key in known for key in keys)

    def prepare(self, group_id: GroupId, keys: Sequence[PartitionKey]) -> RequestSteps[None]:
        """Open the logs of partitions that are not in use yet, then take them into use, in steps.

        What is in use and idle may be given up at any time, so it is loaded at once.
        """
        for number, key in enumerate(keys, 1):
            if not number % PARTITIONS_A_STEP:
                yield None
            if key in self._groups.get(group_id, {}):
                continue
            start = yield from self._opened(group_id, key)
            if start is None:
                continue  # the fetch reports an error
            if group_id not in self._pauses:
                yield from reply_to(partial(self._ask_for_pauses, group_id))
            if group_id not in self._pauses or key in self._groups.get(group_id, {}):
                continue  # the group's shard does not answer, or another fetch has begun meanwhile
            self._new(group_id, key).load(start)
            yield None

    def _opened(self, group_id: GroupId, key: PartitionKey) -> RequestSteps[int | None]:
        """Open the log of a partition. Return the start if its group begins by time, otherwise -1.

        None: there is no such partition, or it cannot be read.
        """
        partition = SourceLog(self._node, ShareKey(group_id, *key)).partition()
        if isinstance(partition, ErrorCode):
            return None
        yield from opened_aside(partition)
        reset = self.settings_of(group_id).reset
        if reset.strategy != ResetStrategy.BY_DURATION:
            return -1
        since = max(0, self._node.system_time() - reset.duration_ms)
        first = yield from partition.find_offset(since)
        return None if first.error else first.offset

    def borrow(self, group_id: GroupId, keys: Sequence[PartitionKey]) -> RequestSteps[None]:
        """Take share-partitions into use without a session, in steps; idle ones are given up later."""
        yield from self.prepare(group_id, keys)
        self._let_go_later(group_id)

    def resume(self, states: Mapping[ShareKey, ShareState]) -> None:
        """Go on with the dead letters that were due when the node stopped."""

        def steps() -> RequestSteps[None]:
            for key in list(states):
                state = states.get(key)
                if state is not None and state.batches.batches().has_state(DeliveryState.ARCHIVING):
                    yield from self.borrow(key.group_id, [(key.topic_id, key.partition)])
                yield None

        self._node.run_in_background("continuation of dead letters", steps())

    def _ask_for_pauses(self, group_id: GroupId, on_done: Callable[[None], None]) -> None:
        """Ask the group's shard, then call `on_done`. Its replies are in the order of the pauses."""

        def told(pauses: PausedPartitions | ErrorCode) -> None:
            if not isinstance(pauses, ErrorCode):
                self._pauses[group_id] = pauses
                for shared in self.partitions(group_id):
                    shared.pause(is_paused=self._is_paused(group_id, shared.topic_key))
            on_done(None)

        self._node.router.owner_of(group_id).submit(group_id, ReadPauses(group_id), told)

    def _is_paused(self, group_id: GroupId, key: PartitionKey) -> bool:
        topic_id, index = key
        return index in self._pauses[group_id].get(topic_id, {})

    def repaused(self, group_id: GroupId, on_done: Callable[[], None]) -> None:
        """Follow the pauses of a group that were just changed, then call `on_done`."""
        if group_id in self._pauses:
            self._ask_for_pauses(group_id, lambda _: on_done())
        else:
            on_done()

    def is_being_released(self, group_id: GroupId, key: PartitionKey) -> bool:
        """Return whether a share-partition is paused, and members have records or writes are due."""
        shared = self._groups.get(group_id, {}).get(key)
        return shared is not None and shared.is_paused and not shared.is_released

    def has_letters(self, group_id: GroupId, key: PartitionKey) -> bool:
        """Return whether records of a share-partition wait for their dead letters."""
        shared = self._groups.get(group_id, {}).get(key)
        machine = None if shared is None else shared.machine
        return machine is not None and machine.may_have_dead_letters and bool(machine.dead_letters(1))

    def holder(self, group_id: GroupId, key: PartitionKey) -> MemberId | None:
        """Return a member that has records of a share-partition; None if there is none."""
        shared = self._groups.get(group_id, {}).get(key)
        found = None if shared is None or shared.machine is None else shared.machine.first_holder()
        return None if found is None else found[0]

    def _new(self, group_id: GroupId, key: PartitionKey) -> SharedPartition:
        group = self._groups.setdefault(group_id, {})
        share_key = ShareKey(group_id, *key)
        settings = self.settings_of(group_id)
        shared = group[key] = SharedPartition(self._node, share_key, settings, self._counts)
        shared.on_discarded = partial(self._forget, group_id, shared)
        shared.is_paused = self._is_paused(group_id, key)
        return shared

    def fetch(self, wish: ShareFetchWish, on_done: Callable[[list[DeliveredRecords]], None]) -> ShareFetch:
        """Return a fetch, which calls `on_done` with what it acquired."""
        group_id = wish.session.group_id

        def find(key: PartitionKey) -> SharedPartition:
            return self._groups.get(group_id, {}).get(key) or self._gone(group_id, key)

        return ShareFetch(self._node, wish, find, on_done)

    def _gone(self, group_id: GroupId, key: PartitionKey) -> SharedPartition:
        """Return a share-partition that could not be loaded: it only reports why."""
        settings = self.settings_of(group_id)
        shared = SharedPartition(self._node, ShareKey(group_id, *key), settings, self._counts)
        found = shared.partition()
        shared.discard(found if isinstance(found, ErrorCode) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return shared

    def acknowledge(
        self,
        session: ShareSession,
        given: Acknowledgements,
        *,
        is_renewing: bool,
        on_done: Callable[[AcknowledgeErrors], None],
    ) -> RequestSteps[None]:
        """Acknowledge records, in steps; `on_done` gets the result of each partition when all are durable."""
        errors: dict[PartitionKey, ErrorCode] = {}
        if not given:
            on_done(errors)
            return

        def done(key: PartitionKey, error: ErrorCode) -> None:
            errors[key] = error
            if len(errors) == len(given):
                on_done({key: errors[key] for key in given})

        for key, batches in given.items():
            checked = yield from check_batches(batches, may_renew=is_renewing)
            error = checked.error or self._acknowledgement_error(session.group_id, key, checked)
            shared = self._groups.get(session.group_id, {}).get(key)
            if error or shared is None:
                done(key, error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                yield from acknowledge(shared, session.member_id, batches, partial(done, key))
            yield None

    def _acknowledgement_error(self, group_id: GroupId, key: PartitionKey, checked: Checked) -> ErrorCode:
        """Return why valid acknowledgements are refused, whatever was acquired."""
        if self._node.topics.by_id(key[0]) is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if key not in self._groups.get(group_id, {}):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if checked.has_renewals and not self.settings_of(group_id).may_renew:
            return ErrorCode.INVALID_RECORD_STATE
        return ErrorCode.NONE

    def close_session(self, session: ShareSession) -> None:
        """End a session, and release what its member has acquired from any partition of the group.

        Do nothing if it has ended meanwhile: the records may be those of the member's next session.
        """
        if not session.has_ended:
            self._close([session])

    def session_refused(self, call: Call) -> None:
        """Log that a member gets no session, or no more partitions in it: there are too many."""
        told = self._counts.refused_sessions
        if told.is_time():
            logger.warning(
                "no more share sessions",
                extra={
                    "client": call.client_id,
                    "host": call.client_host,
                    "sessions": len(self.sessions),
                    "partitions": self.sessions.partition_count,
                    "not_logged": told.take_skipped(),
                },
            )

    def give_up(self, session: ShareSession) -> None:
        """Close a session of a connection with many, for that of another one, and log it."""
        told = self._counts.sessions_given_up
        if told.is_time():
            logger.warning(
                "a connection has many share sessions",
                extra={
                    "group": session.group_id,
                    "member": session.member_id,
                    "sessions": len(self.sessions.of_connection(session.connection)),
                    "not_logged": told.take_skipped(),
                },
            )
        self._close([session])

    def connection_lost(self, connection: Hashable) -> None:
        """End the sessions of a lost connection."""
        self._close(self.sessions.of_connection(connection))

    def _close(self, sessions: Sequence[ShareSession]) -> None:
        """End sessions. Their members are forgotten at once, and may come back with new sessions."""
        leaving: deque[tuple[SharedPartition, Rest]] = deque()
        for session in sessions:
            self.sessions.end(session)
            partitions = self._groups.get(session.group_id, {})
            for key in session.acquired_from:
                shared = partitions.get(key)
                rest = None if shared is None else shared.forget_member(session.member_id)
                if shared is not None and rest is not None:
                    leaving.append((shared, rest))
        self._release_some(leaving)
        for group_id in dict.fromkeys(session.group_id for session in sessions):
            if not self.sessions.count(group_id):
                self._node.soon(partial(self._let_go, group_id))

    def _release_some(self, leaving: deque[tuple[SharedPartition, Rest]]) -> None:
        end = self._node.steady_time() + _RELEASING_MS
        for _ in range(min(len(leaving), _RELEASED_AT_ONCE)):
            shared, rest = leaving.popleft()
            shared.release(rest)
            if self._node.steady_time() > end:
                break
        if leaving:
            self._node.soon(lambda: self._release_some(leaving))

    def _let_go(self, group_id: GroupId) -> None:
        """Forget the partitions of a group that nobody fetches any more: its state may be altered now."""
        self._let_go_some(group_id, deque(self.partitions(group_id)))

    def _let_go_some(self, group_id: GroupId, left: deque[SharedPartition]) -> None:
        if self.sessions.count(group_id):
            return
        for _ in range(min(len(left), _DISCARDED_AT_ONCE)):
            shared = left.popleft()
            if shared.is_idle:
                shared.discard(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if left:
            self._node.soon(lambda: self._let_go_some(group_id, left))
        elif group_id in self._groups:
            self._let_go_later(group_id)

    def _let_go_later(self, group_id: GroupId) -> None:
        if group_id not in self._letting_go:
            self._letting_go.add(group_id)
            self._node.call_later(_RETRY_MS, lambda: self._let_go_again(group_id))

    def _let_go_again(self, group_id: GroupId) -> None:
        self._letting_go.discard(group_id)
        self._let_go(group_id)

    def forget(self, group_id: GroupId, key: PartitionKey) -> None:
        """Discard a share-partition whose state was just changed by somebody else; the next fetch loads it.

        One that has not read its state yet is kept: it will read the new state.
        """
        shared = self._groups.get(group_id, {}).get(key)
        if shared is not None and shared.has_read_state:
            shared.discard(ErrorCode.FENCED_STATE_EPOCH)

    def _forget(self, group_id: GroupId, shared: SharedPartition) -> None:
        group = self._groups.get(group_id, {})
        if group.get(shared.topic_key) is shared:
            del group[shared.topic_key]
            if not group:
                del self._groups[group_id]
                self._settings.pop(group_id, None)
                self._pauses.pop(group_id, None)

    def _configured(self, group_id: str) -> None:
        name = GroupId(group_id)
        self._settings.pop(name, None)
        self._configure_some(name, deque(self.partitions(name)))

    def _configure_some(self, group_id: GroupId, following: deque[SharedPartition]) -> None:
        """Let some share-partitions follow the group's settings, the others in the next iterations."""
        for _ in range(min(len(following), _CONFIGURED_AT_ONCE)):
            shared = following.popleft()
            if not shared.error:
                shared.configure(self.settings_of(group_id))
        if following:
            self._node.soon(lambda: self._configure_some(group_id, following))

    def _deleted(self, topic: Topic) -> None:
        found = [
            shared
            for group in self._groups.values()
            for shared in group.values()
            if shared.key.topic_id == topic.topic_id
        ]
        self._discard_some(deque(found))

    def _discard_some(self, left: deque[SharedPartition]) -> None:
        """Discard share-partitions of a deleted topic; of each of the others a fetch finds out as well."""
        for _ in range(min(len(left), _DISCARDED_AT_ONCE)):
            left.popleft().discard(ErrorCode.UNKNOWN_TOPIC_ID)
        if left:
            self._node.soon(lambda: self._discard_some(left))
