"""The paused partitions of a group, checked reply by reply (KIP-1249).

* A partition is paused from the answer to the pause until a resume, or until its topic or its group is
  deleted; a crash changes nothing. Requests that were in flight when the shard failed may have taken effect.
* Pauses, resumes and lists tell for each partition whether it has an owner, as its members were told.

Partitions of topics that do not exist are not compared: their pauses end with the topic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from tests.simulation.member_view import Part
from tests.simulation.requests import Request, Violation, error_of

from headgate.core.commands import DeleteGroup
from headgate.core.pause.commands import (
    ListPausedPartitions,
    PausedList,
    PausePartitions,
    PauseResult,
    PauseState,
    ResumePartitions,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, TopicId, TopicName

TopicIds = Mapping[TopicName, TopicId]
Change = PausePartitions | ResumePartitions | DeleteGroup
CHANGES = (PausePartitions, ResumePartitions, DeleteGroup)


class Owners(Protocol):
    """What the members of a group were told."""

    def has_sure_members(self, request: Request) -> bool:
        """Return whether somebody is certainly a member when a request arrives."""
        ...

    def sure_owner(self, part: Part, request: Request) -> MemberId | None:
        """Return the certain owner of a partition."""
        ...

    def may_be_owned(self, part: Part, by: MemberId | None = None) -> bool:
        """Return whether a partition may have an owner, or this one."""
        ...


class NothingKnown:
    """The `Owners` of a group whose members are not followed."""

    def has_sure_members(self, request: Request) -> bool:
        """Return False."""
        return False

    def sure_owner(self, part: Part, request: Request) -> MemberId | None:
        """Return None."""
        return None

    def may_be_owned(self, part: Part, by: MemberId | None = None) -> bool:
        """Return True."""
        return True


class PauseModel:
    """One group's paused partitions, over all lives of its shard."""

    def __init__(self, topic_ids: Callable[[], TopicIds], seconds: Callable[[], float]) -> None:
        self._topic_ids = topic_ids
        self._seconds = seconds
        self._since: dict[Part, float] = {}
        """The certain pauses, and since when at the latest."""
        self._open: dict[int, Request] = {}
        """Requests in flight that may change the pauses."""
        self._lost: list[Request] = []
        """Those that were in flight when the shard failed, since the last load."""
        self.counts = Counter[str]()

    # --- state ---

    def __contains__(self, part: object) -> bool:
        """Return whether a partition is paused, after all requests that were answered."""
        return part in self._since

    def existing(self) -> dict[Part, float]:
        """Return the paused partitions of existing topics, and since when at the latest."""
        topic_ids = set(self._topic_ids().values())
        return {part: since for part, since in self._since.items() if part[0] in topic_ids}

    def perhaps_paused(self) -> set[Part]:
        """Return all partitions that are paused, or were by a request in flight when the shard failed."""
        asked = (request.command for request in self._lost)
        return set(self._since).union(*(parts_of(one) for one in asked if isinstance(one, PausePartitions)))

    def held_since(self) -> float | None:
        """Return since when no offset of the group can have expired; None if one may expire now."""
        is_ending = any(
            not isinstance(request.command, PausePartitions)
            for request in [*self._lost, *self._open.values()]
        )
        return None if is_ending else min(self.existing().values(), default=None)

    # --- requests ---

    def arrived(self, request: Request) -> None:
        """Note the possible effects of a request."""
        if isinstance(request.command, CHANGES):
            self._open[request.number] = request

    def refused_at_the_door(self, request: Request) -> None:
        """Note that the shard did not process it."""
        self._open.pop(request.number, None)

    def answered(self, request: Request, result: Any, owners: Owners) -> None:
        """Check a reply that is no retriable error."""
        self._open.pop(request.number, None)
        match request.command:
            case PausePartitions() | ResumePartitions() | ListPausedPartitions() if error_of(result):
                self._check_refused(request, result, owners)
            case PausePartitions() | ResumePartitions() as command:
                self._since = changed(self._since, command, self._seconds())
                self._check_states(request, command, result, owners)
                self.counts["pauses" if isinstance(command, PausePartitions) else "resumes"] += 1
            case ListPausedPartitions():
                self._check_list(request, result, owners)
            case DeleteGroup() if not error_of(result):
                self._since = {}

    def _check_refused(self, request: Request, result: Any, owners: Owners) -> None:
        if error_of(result) is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise Violation(f"{request} was answered {result}")
        if owners.has_sure_members(request) or self.existing():
            raise Violation(f"{request}: there is such a group, with the pauses {self.existing()}; {result}")

    def _check_states(
        self,
        request: Request,
        command: PausePartitions | ResumePartitions,
        result: PauseResult,
        owners: Owners,
    ) -> None:
        is_pause = isinstance(command, PausePartitions)
        existing = set(self._topic_ids().values())
        for (topic_id, indexes), states in zip(command.partitions, result.states, strict=True):
            for index, state in zip(indexes, states, strict=True) if topic_id in existing else ():
                if (state is not PauseState.NOT_PAUSED) is not is_pause:
                    raise Violation(f"{request} left {topic_id!r}-{index} in {state!r}")
                if is_pause:
                    self._check_owner(
                        request, (topic_id, index), owners, is_owned=state is PauseState.PAUSING
                    )

    def _check_list(self, request: Request, listed: PausedList, owners: Owners) -> None:
        rows = {(topic.topic_id, row.partition): row for topic in listed.topics for row in topic.partitions}
        self._check_same(request, rows, self._since)
        for part, row in rows.items():
            self._check_owner(request, part, owners, is_owned=row.owner is not None, by=row.owner)
        states = Counter(row.state for row in rows.values())
        self.counts["released partitions listed"] += states[PauseState.PAUSED]
        self.counts["partitions listed that are to be released"] += states[PauseState.PAUSING]

    def _check_same(self, request: object, found: Collection[Part], expected: Collection[Part]) -> None:
        topic_ids = set(self._topic_ids().values())
        wrong = {part for part in {*found} ^ {*expected} if part[0] in topic_ids}
        if wrong:
            raise Violation(f"{request} found {sorted(found)} paused, and not {sorted(expected)}")

    def _check_owner(
        self, request: Request, part: Part, owners: Owners, *, is_owned: bool, by: MemberId | None = None
    ) -> None:
        sure = owners.sure_owner(part, request)
        if sure is not None and not is_owned:
            raise Violation(f"{request}: {part} is said to be released, and {sure} has it")
        if is_owned and not owners.may_be_owned(part, by):
            raise Violation(
                f"{request}: {part} is said to be owned by {by or 'somebody'}, who does not have it"
            )

    # --- failures and loads ---

    def fails(self) -> None:
        """Note that the shard lost what is not in its log; requests in flight may be in it or not."""
        self._lost += self._open.values()
        self._open.clear()

    def loaded(self, listed: Any) -> None:
        """Check the paused partitions right after a load."""
        found = set[Part]()
        if isinstance(listed, PausedList):
            found = {(topic.topic_id, row.partition) for topic in listed.topics for row in topic.partitions}
        existing = set(self._topic_ids().values())
        possible = {frozenset(part for part in self._since if part[0] in existing)}
        for request in self._lost:
            after = (changed(dict.fromkeys(one, 0.0), request.command, 0.0) for one in possible)
            possible |= {frozenset(part for part in one if part[0] in existing) for one in after}
        if frozenset(found) not in possible:
            raise Violation(f"after a load {sorted(found)} are paused, and not one of {possible}")
        may_have_ended = any(not isinstance(request.command, PausePartitions) for request in self._lost)
        self.counts["pauses found by a load"] += len(found)
        now = self._seconds()
        self._since = {part: now if may_have_ended else self._since.get(part, now) for part in found}
        self._lost = []


def parts_of(command: PausePartitions | ResumePartitions) -> set[Part]:
    """Return the partitions of a command."""
    return {(topic_id, index) for topic_id, indexes in command.partitions for index in indexes}


def changed(since: Mapping[Part, float], command: Change, now: float) -> dict[Part, float]:
    """Return the pauses after a command was accepted."""
    match command:
        case PausePartitions():
            return {**dict.fromkeys(parts_of(command), now), **since}
        case ResumePartitions():
            gone = parts_of(command)
            return {part: at for part, at in since.items() if part not in gone}
        case DeleteGroup():
            return {}
