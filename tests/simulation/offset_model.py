"""The offsets of one shard in plain dictionaries, checked reply by reply.

The shard is a sequential machine, and so is the model: a request takes effect in the order of arrival, and
before a reply is sent, every earlier request of the shard has been answered. That makes fetches exact: they
return the state after the previous commits, each with all of its partitions.

Pending requests of a failed shard or machine may take effect or not, but only as a prefix: never a later
effect without an earlier one, never a part of one. After each load the model checks all groups at once and
finds the prefix; if there is none, a promise was broken.

Every commit writes a number of its own, so that a value identifies its commit. A commit with conditions has
no effect if a condition fails; with an offset that may have expired, a condition may hold or fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from tests.simulation.clock import START_MS
from tests.simulation.offset_effects import Effect, Key, MemberGroups, Offsets, Rules, Value
from tests.simulation.past_model import GoneBy, OffsetPast, Told
from tests.simulation.requests import Request, Violation, each_to_commit, error_of, expected_at

from headgate.core.commands import DeleteGroup
from headgate.core.offsets.commands import (
    NOTHING_COMMITTED,
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
)
from headgate.domain.errors import ErrorCode

Found = dict[str, dict[Key, Any]]
"""The result of a fetch of all offsets, by group."""


class OffsetModel:
    """The offsets of one shard."""

    def __init__(self, rules: Rules, members: MemberGroups) -> None:
        self._rules = rules
        self._members = members
        self.groups: dict[str, Offsets] = {}
        self._open: list[Effect] = []
        self.past = OffsetPast()
        self._uncertain: list[list[Effect]] = []
        """For each failure not resolved yet, the requests that were pending."""
        self._active_since: float | None = None
        self._erasing_at: dict[str, float] = {}
        """The last deletion of a topic: offsets committed before may be removed."""
        self._erased_at: dict[str, float] = {}
        """The same after the deletion was answered: they are removed."""
        self.committed_at: dict[tuple[int, int], float] = {}
        """The arrival and the time of a commit, by its unique offset: it may have been delivered twice."""
        self.expired = 0
        self.undone = 0
        self.survived = 0

    # --- requests ---

    def arrived(self, request: Request) -> None:
        """Note a request that may take effect."""
        effect = self._effect_of(request)
        if effect is not None:
            self._open.append(effect)

    def refused_at_the_door(self, request: Request) -> None:
        """Note that the shard did not process it."""
        self._open = [effect for effect in self._open if effect.request is not request]

    def answered(self, request: Request, result: Any) -> None:
        """Check a reply that is no retriable error, and note what it confirms."""
        if self._open and self._open[0].request.number < request.number:
            raise Violation(f"{request} was answered before {self._open[0].request}")
        if self._uncertain:
            raise Violation(f"{request} was answered before what was asked when the shard was loaded")
        effect = self._open.pop(0) if self._open and self._open[0].request is request else None
        before = dict(self.groups.get(request.group_id, {}))
        self._judge(request, result, effect)
        self.past.became(request.group_id, before, self.groups.get(request.group_id, {}))

    def _judge(self, request: Request, result: Any, effect: Effect | None) -> None:
        match request.command:
            case CommitOffsets():
                assert effect is not None
                self._committed(effect, result)
            case FetchOffsets():
                self._fetched(request, result)
            case DeleteOffsets():
                assert effect is not None
                self._deleted(effect, result)
            case DeleteGroup():
                assert effect is not None
                self._group_deleted(effect, result)

    def _effect_of(self, request: Request) -> Effect | None:
        command = request.command
        may_be_refused = request.group_id in self._members.may_have_record
        match command:
            case CommitOffsets():
                effect = self._effect_of_commit(request, command)
                effect.may_be_refused = may_be_refused or command.generation >= 0
                return effect
            case DeleteOffsets():
                keys = frozenset((topic, one) for topic, partitions in command.topics for one in partitions)
                return Effect(request, drops=keys, may_be_refused=may_be_refused)
            case DeleteGroup():
                return Effect(request, drops_all=True, may_be_refused=may_be_refused)
        return None

    def _effect_of_commit(self, request: Request, command: CommitOffsets) -> Effect:
        effect = Effect(request, is_conditional=command.expected is not None)
        too_large = set()
        gone = set()
        for number, (topic, partitions) in enumerate(command.topics):
            for index, (partition, offset, leader_epoch, metadata) in enumerate(each_to_commit(partitions)):
                if command.expected is not None:
                    expected = expected_at(command.expected[number], index)
                    if expected is not None:
                        effect.conditions[topic, partition] = expected
                if len(metadata) > self._rules.metadata_limit:
                    too_large.add((number, index))
                    continue
                if offset == NOTHING_COMMITTED and command.expected is not None:
                    gone.add((topic, partition))
                    continue
                value = Value(
                    offset, leader_epoch, metadata, request.arrived_ms, committed_at=request.arrived_at
                )
                if command.retention_ms >= 0:
                    expires_ms = request.arrived_ms + command.retention_ms
                    value = value._replace(leader_epoch=-1, expires_ms=expires_ms)
                effect.puts[topic, partition] = value
                self.committed_at[offset, request.arrived_ms] = request.arrived_at
        effect.drops = frozenset(gone)
        effect.too_large = frozenset(too_large)
        return effect

    def _take(self, effect: Effect) -> None:
        group_id = effect.request.group_id
        self.groups[group_id] = effect.on(self.groups.get(group_id, {}))

    def _committed(self, effect: Effect, result: Any) -> None:
        error = error_of(result)
        if error:
            if not effect.may_be_refused:
                raise Violation(f"{effect.request} of a group without members was refused: {error!r}")
            return
        if result.too_large != effect.too_large:
            raise Violation(f"{effect.request}: {result.too_large} are too large, not {effect.too_large}")
        self._check_conditions(effect, result)
        if result.is_attempted:
            self._take(effect)

    def _check_conditions(self, effect: Effect, result: Any) -> None:
        """Check that the answer about the conditions is right, and agrees with the effect."""
        group_id, at = effect.request.group_id, effect.request.arrived_at
        differing = {}
        for (number, index), offset in (result.current or {}).items():
            topic, partitions = effect.request.command.topics[number]
            differing[topic, each_to_commit(partitions)[index].partition] = offset
        if not differing.keys() <= effect.conditions.keys():
            raise Violation(f"{effect.request}: there were no conditions on all of {list(differing)}")
        offsets = self.groups.get(group_id, {})
        for key, expected in effect.conditions.items():
            offset = differing.get(key, expected)
            if key in differing and offset == expected:
                raise Violation(f"{effect.request}: {key} is {offset}, as it should be")
            value = offsets.get(key)
            if value is None and offset == NOTHING_COMMITTED:
                continue
            if value is not None and offset == NOTHING_COMMITTED:
                if not self._may_be_gone(group_id, key, value, at):
                    raise Violation(f"{effect.request}: {key} is said to be gone, and should be {value}")
                self.expired += 1
                del offsets[key]
            elif value is None or offset != value.offset or self._must_be_gone(group_id, key, value, at):
                raise Violation(f"{effect.request}: {key} is said to be {offset}, and should be {value}")
        is_refused = effect.is_conditional and bool(differing or effect.too_large)
        if result.is_attempted == is_refused:
            raise Violation(f"{effect.request}: {'not ' * is_refused}all of it could be done")

    def _is_refused(self, effect: Effect, error: ErrorCode) -> bool:
        """Return whether nothing was deleted, for a valid reason."""
        if error is ErrorCode.GROUP_ID_NOT_FOUND:
            self._is_gone(effect.request)
        elif error and not effect.may_be_refused:
            raise Violation(f"{effect.request} was refused: {error!r}")
        return bool(error)

    def _deleted(self, effect: Effect, result: Any) -> None:
        group_id = effect.request.group_id
        if not self._is_refused(effect, error_of(result)):
            kept = {topic for topic, outcome in result.topics if outcome}
            if kept and not effect.may_be_refused:
                raise Violation(f"{effect.request}: {kept} were kept in a group without members")
            effect.drops = frozenset(key for key in effect.drops if key[0] not in kept)
            if group_id in self.groups:
                self._take(effect)

    def _group_deleted(self, effect: Effect, result: Any) -> None:
        if not self._is_refused(effect, error_of(result)):
            self._take(effect)
            if self._members.may_have_record.get(effect.request.group_id, 0) < effect.request.number:
                self._members.may_have_record.pop(effect.request.group_id, None)

    def _is_gone(self, request: Request) -> None:
        """Check an answer by which the group does not exist: it may have no offsets."""
        self._check(request.group_id, {}, self.groups.get(request.group_id, {}), request.arrived_at)
        self.groups.pop(request.group_id, None)

    def _fetched(self, request: Request, result: Any) -> None:
        command, group_id = request.command, request.group_id
        if error_of(result):
            if command.member_id is None:
                raise Violation(f"{request} was refused: {result!r}")
            return
        found: dict[Key, Any] = {}
        for topic, partitions in result.topics:
            found |= {(topic, partition): stored for partition, stored in partitions}
        expected = self.groups.get(group_id, {})
        if command.topics is not None:
            wanted = [(topic, one) for topic, partitions in command.topics for one in partitions]
            if list(found) != list(dict.fromkeys(wanted)):
                raise Violation(f"{request} asked for {wanted}, not for {list(found)}")
            expected = {key: expected[key] for key in wanted if key in expected}
        found = {key: stored for key, stored in found.items() if stored is not None}
        self._check(group_id, found, expected, request.arrived_at)
        left = self.groups.get(group_id, {})
        for key in expected.keys() - found.keys():
            del left[key]

    # --- comparing ---

    def _check(self, group_id: str, found: dict[Key, Any], expected: Offsets, at: float) -> None:
        problem = self._difference(group_id, found, expected, at)
        if problem:
            raise Violation(f"group {group_id}: {problem}")
        self.expired += len(expected) - len(found)

    def _difference(
        self,
        group_id: str,
        found: dict[Key, Any],
        expected: Offsets,
        at: float,
        *,
        has_times: bool = False,
    ) -> str | None:
        """Return the fault in what was found, or None; with `has_times` check the times, too."""
        for key, stored in found.items():
            value = expected.get(key)
            if value is None or (stored.offset, stored.leader_epoch, stored.metadata) != value[:3]:
                return f"{key} is {stored}, and should be {value}"
            if has_times and stored.commit_timestamp != value.committed_ms:
                return f"{key} is {stored}, and was committed at {value.committed_ms}"
            if self._must_be_gone(group_id, key, value, at):
                return f"{key} is {stored} at {at} s and should have expired"
        if len(found) < len(expected):
            for key, value in expected.items():
                if key not in found and not self._may_be_gone(group_id, key, value, at):
                    return f"{key} is gone at {at} s, and should be {value}"
        return None

    def _may_be_gone(self, group_id: str, key: Key, value: Value, at: float) -> bool:
        if value.committed_at <= self._erasing_at.get(key[0], -1):
            return True
        at = self._members.held_by(group_id, at)
        if at <= value.committed_at:
            return False
        time, retention_ms = self._rules.time, self._rules.retention_ms
        highest_ms = time.highest(value.committed_at, at)
        if value.expires_ms >= 0:
            return highest_ms >= value.expires_ms
        is_old = highest_ms - value.committed_ms >= retention_ms
        if group_id in self._members.balanced and is_old:
            return True
        if group_id in self._members.may_have_record:
            if value.committed_at <= self._members.absent_until.get(group_id, 0):
                return True
            seen_at = self._members.seen_alive_at.get(group_id)
            return seen_at is None or time.largest_rise(seen_at, at) >= retention_ms
        return is_old

    def _must_be_gone(self, group_id: str, key: Key, value: Value, at: float) -> bool:
        if value.committed_at < self._erased_at.get(key[0], -1):
            return True
        if group_id in self._members.may_have_record or self._active_since is None:
            return False
        due_ms = value.committed_ms + self._rules.retention_ms if value.expires_ms < 0 else value.expires_ms
        since = max(value.committed_at, self._active_since)
        past_seconds = self._rules.time.longest_past(due_ms, since, at)
        return past_seconds > 2 * self._rules.sweep_interval_ms / 1000 + 1

    def erasing(self, topic: str, now: float) -> None:
        """Note that the shard is to erase a topic's offsets that were committed until now."""
        self._erasing_at[topic] = now

    def erased(self, topic: str, asked_at: float) -> None:
        """Note that it has erased the offsets committed until then."""
        self._erased_at[topic] = max(asked_at, self._erased_at.get(topic, -1))

    # --- failures ---

    def fails(self) -> None:
        """Note that the memory of the shard, or of the whole machine, is lost."""
        self._active_since = None
        if self._open:
            self._uncertain.append(self._open)
            self._open = []

    def loads(self) -> None:
        """Note that the shard is about to be loaded: later requests come after all uncertain ones."""
        self._uncertain.append([])

    def loaded(self, found: Found, at: float) -> None:
        """Check all groups of the shard, right after a load."""
        self._active_since = at
        group_ids = found.keys() | self.groups.keys()
        problem = "?"
        # If a commit was delivered twice, one may have survived: then only its time tells which. But a clock
        # that was set during a turn is read after it, so the time may differ from that of the request.
        for has_times, cut in product((True, False), tuple(self._cuts())):
            chosen = [
                effect for tier, length in zip(self._uncertain, cut, strict=True) for effect in tier[:length]
            ]
            outcome: dict[str, Offsets] = {}
            for group_id in sorted(group_ids):
                offsets, why_not = self._explain(
                    group_id, chosen, found.get(group_id, {}), at, has_times=has_times
                )
                if offsets is None:
                    problem = f"group {group_id}: {why_not}"
                    break
                outcome[group_id] = offsets
            else:
                self.survived += len(chosen)
                self.undone += sum(map(len, self._uncertain)) - len(chosen)
                self.groups = outcome
                self.past.may_have_been(effect for tier in self._uncertain for effect in tier)
                self.past.were_found(outcome)
                self._uncertain = []
                return
        uncertain = [[str(effect.request.number) for effect in tier] for tier in self._uncertain]
        raise Violation(f"after a load {problem}; uncertain were the requests {uncertain}")

    def check_past(self, group_id: str, told: Told) -> int:
        """Check the history of a group; return its number of changes. Raises Violation."""
        uncertain = [effect for tier in [*self._uncertain, self._open] for effect in tier]
        return self.past.check(group_id, told, uncertain)

    def gone_by(self, group_id: str, now: float) -> GoneBy:
        """Return a function that tells whether offsets of a group may have been removed by a timestamp.

        If the clock was set, a timestamp does not tell the time: then the function assumes now.
        """
        time = self._rules.time

        def may_be_gone(key: Key, value: Value, by_ms: int) -> bool:
            at = now if time.was_set else (by_ms - START_MS + 1) / 1000
            return self._may_be_gone(group_id, key, value, at)

        return may_be_gone

    def _cuts(self) -> Iterator[tuple[int, ...]]:
        """Yield how many pending requests of each failure may have survived, first all of them."""
        self._uncertain = [tier for tier in self._uncertain if tier]
        return product(*(range(len(tier), -1, -1) for tier in self._uncertain))

    def _explain(
        self, group_id: str, chosen: list[Effect], found: dict[Key, Any], at: float, *, has_times: bool
    ) -> tuple[Offsets | None, str | None]:
        """Return the group's offsets if these effects, where not refused, explain what was found."""
        effects = [effect for effect in chosen if effect.request.group_id == group_id]
        problem = "nothing that may have been accepted explains it"
        for accepted in _acceptances(effects):
            offsets = self.groups.get(group_id, {})
            for effect, is_accepted in zip(effects, accepted, strict=True):
                if not self._may_have_been(effect, offsets, is_accepted=is_accepted):
                    break
                if is_accepted:
                    offsets = effect.on(offsets)
            else:
                difference = self._difference(group_id, found, offsets, at, has_times=has_times)
                if difference is None:
                    self.expired += len(offsets) - len(found)
                    return {key: offsets[key] for key in found}, None
                problem = difference
        return None, problem

    def _may_have_been(self, effect: Effect, offsets: Offsets, *, is_accepted: bool) -> bool:
        """Return whether a request may have been accepted, or refused, with these offsets of the group."""
        if not effect.is_conditional:
            return is_accepted or effect.may_be_refused
        group_id, at = effect.request.group_id, effect.request.arrived_at
        may_hold, may_fail = not effect.too_large, bool(effect.too_large) or effect.may_be_refused
        for key, expected in effect.conditions.items():
            value = offsets.get(key)
            is_there = value is not None and not self._must_be_gone(group_id, key, value, at)
            may_be_gone = value is None or self._may_be_gone(group_id, key, value, at)
            possible = ({value.offset} if value and is_there else set()) | (
                {NOTHING_COMMITTED} if may_be_gone else set()
            )
            may_hold &= expected in possible
            may_fail |= bool(possible - {expected})
        return may_hold if is_accepted else may_fail


def _acceptances(effects: list[Effect]) -> Iterable[tuple[bool, ...]]:
    return product(
        *((True, False) if effect.may_be_refused or effect.is_conditional else (True,) for effect in effects)
    )
