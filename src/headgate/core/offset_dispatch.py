"""The commands on the offsets of groups: commits, fetches, deletions.

Whether a member may commit or fetch is asked of the group's kind. A group without a kind only commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.core.contract import Effects, Token
from headgate.core.effects import GroupEffects, answer, together
from headgate.core.events import GroupCreated
from headgate.core.groups import ONLY_COMMITTED, Groups
from headgate.core.kinds import GroupKind, Handler, ShardContext
from headgate.core.offsets.authors import authors_of
from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitResult,
    Commits,
    CommitTransactionalOffsets,
    DeleteOffsets,
    DeleteOffsetsResult,
    EndTransaction,
    FetchedInSteps,
    FetchedNumbers,
    FetchedOffsets,
    FetchesAgain,
    FetchOffsets,
    RepeatedFetch,
)
from headgate.core.offsets.commit import CommitCounts, commit, commits, unknown_group_error
from headgate.core.offsets.conditions import refuse
from headgate.core.offsets.fetch import fetch, fetch_again
from headgate.core.offsets.removal import delete
from headgate.core.offsets.table import OffsetTable
from headgate.core.offsets.transactions import OffsetTransactions
from headgate.core.pause.dispatch import PauseDispatch
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicName

_NO_ERROR = ErrorCode.NONE  # found quicker than the member of its class


class OffsetDispatch:
    """Handles the commands on the offsets of one shard."""

    def __init__(
        self,
        context: ShardContext,
        offsets: OffsetTable,
        transactions: OffsetTransactions,
        groups: Groups,
        kinds: Sequence[GroupKind],
        pauses: PauseDispatch,
    ) -> None:
        self.commit_counts = CommitCounts()
        self._offsets = offsets
        self._transactions = transactions
        self._pending = transactions.pending
        self._groups = groups
        self._events = context.events
        self._topics = context.topics
        self._system_time = context.system_time
        self._pauses = pauses
        self._metadata_limit: int = context.settings["offset.metadata.max.bytes"]
        self._commit_checks = [kind.commit_check() for kind in kinds]
        fetch_checks = [kind.fetch_check() for kind in kinds]
        self._fetch_checks = [check for check in fetch_checks if check is not None]

    def handlers(self) -> Mapping[type[Any], Handler]:
        """Return the handler of each command."""
        return {
            Commits: self._commits,
            CommitOffsets: self._commit,
            CommitTransactionalOffsets: self._commit_transactional,
            EndTransaction: self._transactions.decide_end,
            FetchesAgain: self._fetches_again,
            FetchOffsets: self._fetch,
            DeleteOffsets: self._delete_offsets,
        }

    # --- commits ---

    def _commit(self, command: CommitOffsets, now: Millis, token: Token) -> GroupEffects:
        error = self._commit_error(command, now)
        if error:
            return answer(token, CommitResult(error))
        if command.expected and (refusal := refuse(self._offsets, command, self._metadata_limit)) is not None:
            return answer(token, refusal)
        effects = commit(command, self._system_time.at(now), self._metadata_limit, token)
        self.commit_counts.note_read(effects.records)
        group_id = command.group_id
        if effects.records and not self._offsets.has_group(group_id) and self._groups.find(group_id) is None:
            self._events.report(GroupCreated(group_id, ONLY_COMMITTED.NAME))
        return effects

    def _commit_transactional(
        self, command: CommitTransactionalOffsets, now: Millis, token: Token
    ) -> GroupEffects:
        error = self._transactions.producer_error(command.producer) or self._commit_error(command.asked, now)
        time = self._system_time.at(now)
        effects = self._transactions.commit(command, error, time, self._metadata_limit, token)
        self.commit_counts.transactional += bool(effects.records)
        return effects

    def _commits(self, command: Commits, now: Millis, token: Token) -> GroupEffects:
        error_of = self._commit_error
        errors = [error_of(commit.asked, now) for commit in command.commits]
        self.commit_counts.note_known(command.commits)
        return commits(command, errors, self._system_time.at(now), token)

    def _commit_error(self, command: CommitOffsets, now: Millis) -> ErrorCode:
        """Return the error of a commit; without one, restart the member's session timer."""
        group_id = command.group_id
        for groups, error_of in self._commit_checks:
            group = groups.get(group_id)
            if group is not None:
                error = error_of(group, command, now)
                if error is not None:
                    return error
        if group_id in self._groups.being_deleted:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if command.generation < 0:
            return _NO_ERROR
        if self._groups.find(group_id) is None:
            return unknown_group_error(command)
        return ErrorCode.UNKNOWN_MEMBER_ID  # the group has no members

    # --- fetches ---

    def _fetch(self, command: FetchOffsets, now: Millis, token: Token) -> GroupEffects:
        return answer(token, self._fetch_error(command) or self._fetched(command))

    def _fetched(self, command: FetchOffsets) -> FetchedOffsets | FetchedInSteps:
        is_known = self._groups.find(command.group_id) is not None
        found = fetch(self._offsets, command, self._topics, is_known=is_known)
        if command.require_stable and self._is_unstable(command):
            return self._transactions.mark(command, found)
        return found

    def _is_unstable(self, command: FetchOffsets) -> bool:
        """Return whether the group of a fetch has pending offsets."""
        return self._pending.has_group(command.group_id)

    def _fetches_again(self, command: FetchesAgain, now: Millis, token: Token) -> GroupEffects:
        return answer(token, [self._fetched_again(fetch) for fetch in command.fetches])

    def _fetched_again(self, again: RepeatedFetch) -> FetchedNumbers | FetchedOffsets | ErrorCode:
        asked = again.asked
        error = self._fetch_error(asked)
        if error:
            return error
        offsets = self._offsets
        if again.found is not None and again.found_in is offsets.version:
            return again.found
        found: FetchedNumbers | FetchedOffsets | None = None
        if not (asked.require_stable and self._is_unstable(asked)):
            found = fetch_again(offsets, again)
        if found is None:
            anew = self._fetched(asked)
            assert not isinstance(anew, FetchedInSteps), "fetches of so many topics are not remembered"
            found = anew
        # A group without offsets may come into being without a change of the table.
        if type(found) is FetchedNumbers or offsets.has_group(asked.group_id):
            again.found, again.found_in = found, offsets.version
        return found

    def _fetch_error(self, command: FetchOffsets) -> ErrorCode:
        """Return the error of a fetch; in a group without members all fetches are accepted."""
        group_id = command.group_id
        for groups, error_of in self._fetch_checks:
            group = groups.get(group_id)
            if group is not None:
                return error_of(group, command)
        return _NO_ERROR

    # --- deletions ---

    def _delete_offsets(self, command: DeleteOffsets, now: Millis, token: Token) -> GroupEffects:
        if not command.group_id:
            return answer(token, DeleteOffsetsResult(ErrorCode.INVALID_GROUP_ID))
        kind = self._groups.find(command.group_id)
        if kind is None:
            return answer(token, DeleteOffsetsResult(ErrorCode.GROUP_ID_NOT_FOUND))
        error = kind.delete_error(command.group_id)
        if error:
            return answer(token, DeleteOffsetsResult(error))
        is_subscribed = kind.subscription_of(command.group_id)

        def is_held(topic: TopicName, partitions: Sequence[int]) -> bool:
            """Members read the topic, and not just these partitions are set aside."""
            return is_subscribed(topic) and not self._pauses.are_released(command.group_id, topic, partitions)

        result, records = delete(self._offsets, self._pending, command, is_held)
        authors = authors_of(command.group_id, records, command.author)
        return together(Effects([*records, *authors]), answer(token, result))
