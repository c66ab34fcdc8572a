"""Checks every reply by the models of offsets and groups, and knows which errors the disk explains."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.clients import METADATA_LIMIT
from tests.simulation.clock import START_MS, SimulatedTime
from tests.simulation.consumer_model import ConsumerGroupModel, Setting
from tests.simulation.disk import SimulatedDisk
from tests.simulation.group_model import GroupModel
from tests.simulation.journal import Journal
from tests.simulation.mixed_model import MixedGroupModel
from tests.simulation.offset_effects import MemberGroups, Rules
from tests.simulation.offset_model import OffsetModel
from tests.simulation.past_model import Told
from tests.simulation.past_reader import PastReader
from tests.simulation.pause_model import NothingKnown, PauseModel
from tests.simulation.plan import HISTORY_RETENTION_MS, RETENTION_MS, Plan
from tests.simulation.replays import differences, may_become
from tests.simulation.requests import RETRIABLE, Request, Violation
from tests.simulation.surroundings import Surroundings

from headgate.core.classic.commands import DescribeGroup, JoinGroup
from headgate.core.consumer.commands import ConsumerHeartbeat, DescribeConsumerGroup
from headgate.core.offsets.commands import CommitResult, FetchOffsets
from headgate.core.offsets.history import GroupHistory, HistoryEntry
from headgate.core.pause.commands import ListPausedPartitions
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName
from headgate.domain.partitioning import partition_for

if TYPE_CHECKING:
    from tests.simulation.life import Life

NEVER = 1 << 62
TURN_SECONDS = 0.01
"""More than a turn of the loop: the maximum difference between a commit and the time of its record."""
SETTLING_SECONDS = 2.5
"""Maximum time after the disk's last error in which effects may appear: a late sync, and a reload."""


class Audit:
    """All promises of the server so far, in all its lives."""

    def __init__(
        self,
        plan: Plan,
        time: SimulatedTime,
        disk: SimulatedDisk,
        journal: Journal,
        surroundings: Surroundings,
        group_ids: tuple[Sequence[str], ...],
    ) -> None:
        """`group_ids` of simple, classic, consumer and mixed groups."""
        simple, joined, balanced, mixed = group_ids
        self._plan = plan
        self._time = time
        self._disk = disk
        self._journal = journal
        self._surroundings = surroundings
        self._members = members = MemberGroups(balanced={*balanced, *mixed})
        rules = Rules(RETENTION_MS, plan.sweep_interval_ms, METADATA_LIMIT, time)
        self._shards = [OffsetModel(rules, members) for _ in range(plan.shards)]
        self._groups = {group_id: GroupModel(group_id, members, rules) for group_id in joined}
        self._pauses = {
            one: PauseModel(surroundings.topic_ids, lambda: time.seconds) for one in [*balanced, *mixed]
        }
        members.held_since = {one: pauses.held_since for one, pauses in self._pauses.items()}
        self._balanced = {one: ConsumerGroupModel(one, members, rules, self._pauses[one]) for one in balanced}
        self._mixed = {one: MixedGroupModel(one) for one in mixed}
        """Of their members only the assigned partitions are known."""
        self._group_ids = [*simple, *joined, *balanced, *mixed]
        self._life: Life | None = None
        self._looks = 0
        """Number of checks of the history."""
        self._stopped: dict[int, Any] = {}
        """The state that shards must have after the next start."""
        self._erasing_at: dict[TopicName, float] = {}
        """The last time when shards were asked to erase a topic."""
        self._failing: set[int] = set()
        """Shards that failed and were not loaded again since."""
        self._failed_logs: set[int] = set()
        """Shards whose logs failed in a compaction; they see it at their next write."""

    def summarize(self) -> None:
        """Add the models' counts to the journal."""
        counts, groups = self._journal.counts, self._groups.values()
        counts["expired offsets"] = sum(shard.expired for shard in self._shards)
        counts["unanswered commits kept"] = sum(shard.survived for shard in self._shards)
        counts["unanswered commits undone"] = sum(shard.undone for shard in self._shards)
        counts["static replacements"] = sum(group.replacements for group in groups)
        counts["rebalances"] = sum(group.rebalances for group in groups)
        for model in self._balanced.values():
            counts.update(model.counts)
        for pauses in self._pauses.values():
            counts.update(pauses.counts)
        counts["commits of former owners refused"] = sum(one.judged for one in self._mixed.values())

    # --- lives ---

    def begins(self, life: Life) -> None:
        """Note a start of the server."""
        self._life = life

    def ended(self) -> None:
        """Note the loss of all memory."""
        self._failing.clear()
        self._failed_logs.clear()
        for model in self._shards:
            model.fails()
        for group in self._groups.values():
            group.fails()
        for balanced in self._balanced.values():
            balanced.fails(self._time.seconds)
        for pauses in self._pauses.values():
            pauses.fails()

    def paused_in(self, group_id: str) -> set[tuple[str, int]]:
        """Return the paused partitions of a group."""
        names = {topic_id: name for name, topic_id in self._surroundings.topic_ids().items()}
        return {(names[topic_id], one) for topic_id, one in self._pauses[group_id].existing()}

    # --- requests ---

    def arrived(self, request: Request) -> None:
        """Note a request that reached the server."""
        self._shards[request.shard].arrived(request)
        if request.group_id in self._groups:
            self._groups[request.group_id].arrived(request)
        if request.group_id in self._mixed and isinstance(request.command, JoinGroup | ConsumerHeartbeat):
            self._members.may_have_record[request.group_id] = request.number
        if request.group_id in self._mixed:
            self._mixed[request.group_id].arrived(request, self._surroundings.topic_ids())
        if request.group_id in self._balanced:
            session_seconds = self._surroundings.session_seconds(request.group_id)
            setting = Setting(session_seconds, self._surroundings.topic_ids())
            self._balanced[request.group_id].arrived(request, setting)
        if request.group_id in self._pauses:
            self._pauses[request.group_id].arrived(request)

    def judge(self, request: Request, result: Any, *, is_refused_at_the_door: bool) -> None:
        """Check a reply. Raises Violation."""
        if request.is_answered:
            raise Violation(f"{request} was answered twice, now {result}")
        request.is_answered = True
        model, group = self._shards[request.shard], self._groups.get(request.group_id)
        if isinstance(result, ErrorCode) and result in RETRIABLE:
            self._judge_refusal(request, result)
            if is_refused_at_the_door:
                model.refused_at_the_door(request)
                if request.group_id in self._balanced:
                    self._balanced[request.group_id].refused_at_the_door(request)
                if request.group_id in self._pauses:
                    self._pauses[request.group_id].refused_at_the_door(request)
            elif request.shard not in self._failing:
                self._failed(request.shard)
            return
        model.answered(request, result)
        if isinstance(result, CommitResult) and request.command.expected is not None:
            self._journal.counts["conditions held" if result.is_attempted else "conditions failed"] += 1
        if group is not None:
            group.answered(request, result, self._time.seconds)
        if request.group_id in self._pauses:
            owners = self._balanced.get(request.group_id, NothingKnown())
            self._pauses[request.group_id].answered(request, result, owners)
        if request.group_id in self._balanced:
            self._balanced[request.group_id].answered(request, result)
        if request.group_id in self._mixed:
            self._mixed[request.group_id].answered(request, result, self._surroundings.topic_ids())

    def _judge_refusal(self, request: Request, result: ErrorCode) -> None:
        self._journal.counts["retriable errors"] += 1
        if result is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert self._life is not None
            if request.shard not in self._life.loading | self._failing:
                raise Violation(f"{request} was told of a load that is not under way")
        elif request.shard in self._failed_logs:
            self._failed_logs.discard(request.shard)
            self._disk.refused_at = self._time.seconds
        elif self._time.awake_seconds(self._disk.refused_at, self._time.seconds) > SETTLING_SECONDS:
            raise Violation(f"{request} was told {result!r}, and the disk works")

    # --- topics ---

    def erasing(self, topic: TopicName) -> None:
        """Note that every shard is asked to erase the offsets of a deleted topic."""
        self._erasing_at[topic] = self._time.seconds
        for model in self._shards:
            model.erasing(topic, self._erasing_at[topic])

    def erased(self, topic: TopicName) -> None:
        """Note that every shard has answered."""
        if self._life is None or self._life.is_over or self._disk.is_off:
            return
        for model in self._shards:
            model.erased(topic, self._erasing_at[topic])

    # --- the past ---

    def look_at_past(self, reader: PastReader) -> None:
        """Check that the history of every group contains what happened. Raises Violation."""
        now, counts = self._time.seconds, self._journal.counts
        self._looks += 1
        asked_more = self._group_ids[self._looks % len(self._group_ids)]
        for group_id in map(GroupId, self._group_ids):
            told = reader.everything(group_id)
            if told is None:
                continue
            model = self._shards[partition_for(group_id, self._plan.shards)]
            kept_ms = HISTORY_RETENTION_MS if self._plan.keeps_history else None
            judged = Told(told, now, kept_ms, self._time, model.gone_by(group_id, now))
            counts["changes told"] += model.check_past(group_id, judged)
            counts["pasts without a beginning"] += told.known_since >= 0
            self._check_lives(told, reader, model)
            times = sorted({entry.time for one in told.partitions for entry in one.entries})
            if times and group_id == asked_more:
                reader.check_last_change(group_id, told)
                reader.check_as_of(group_id, told, times[len(times) // 2])

    def _check_lives(self, told: GroupHistory, reader: PastReader, model: OffsetModel) -> None:
        """Check that commits for a deleted topic are reported as such."""
        for one in told.partitions:
            topic = reader.topic(one.topic)
            own = one.entries[: len(one.entries) - one.former]
            former = one.entries[len(own) :]
            # Clients here also commit without a topic, which a server refuses: those belong to no topic.
            deleted_at = NEVER if topic is None else self._surroundings.deleted_at.get(topic.name, -1.0)
            created_at = -1.0
            if topic is not None and deleted_at >= 0:
                created_at = self._surroundings.created_at[topic.topic_id]
                self._journal.counts["changes told of former topics"] += len(former)
            oldest_own = next(filter(None, (self._seconds_of(entry, model) for entry in own[::-1])), NEVER)
            if oldest_own < deleted_at:
                raise Violation(f"topic {one.topic} was deleted at {deleted_at}, and is told to own {own}")
            newest_former = next(filter(None, (self._seconds_of(entry, model) for entry in former)), -1.0)
            if topic is not None and newest_former > created_at + TURN_SECONDS:
                raise Violation(f"topic {one.topic} was made at {created_at}, and does not own {former}")

    def _seconds_of(self, entry: HistoryEntry, model: OffsetModel) -> float | None:
        """Return the time of a change, within a millisecond; None if the clock was set and does not tell."""
        if entry.commit is not None:
            return model.committed_at.get((entry.commit.offset, entry.commit.commit_timestamp))
        return None if self._time.was_set else (entry.written - START_MS + 1) / 1000

    # --- shards ---

    def compaction_failed(self, shard: int) -> None:
        """Note that a shard's log failed while it was compacted."""
        self._failed_logs.add(shard)

    def _failed(self, shard: int) -> None:
        """Note that a shard dropped its memory."""
        self._journal.counts["failed shards"] += 1
        self._failing.add(shard)
        self._shards[shard].fails()
        for group_id, group in self._groups.items():
            if partition_for(group_id, self._plan.shards) == shard:
                group.fails()
        for group_id, balanced in self._balanced.items():
            if partition_for(group_id, self._plan.shards) == shard:
                balanced.fails(self._time.seconds)
        for group_id, pauses in self._pauses.items():
            if partition_for(group_id, self._plan.shards) == shard:
                pauses.fails()

    def loads(self, shard: int) -> None:
        """Note that a shard begins to read its log."""
        if self._life is not None and self._life.had_loaded(shard) and shard not in self._failing:
            self._failed(shard)  # it failed without a pending request
        self._shards[shard].loads()

    def stopped(self, shard: int, state: Any) -> None:
        """Note the state that a shard must have after the next start; None if some of it may be lost."""
        self._stopped[shard] = state

    def machine_crashed(self) -> None:
        """Note that written data may be lost, after the server itself had ended."""
        self._stopped.clear()

    def replayed(self, shard: int, state: Any) -> None:
        """Note that a shard has read its log."""
        before = self._stopped.pop(shard, None)
        if before is not None:
            is_same = may_become(before, state)
            self._journal.counts["shards found as they were left"] += is_same
            if not is_same:
                found = "; ".join(differences(before, state))
                self._journal.report(f"shard {shard} is another after a start: {found}")

    def loaded(self, shard: int, life: Life) -> None:
        """Check all contents of a shard after a load, before any other request."""
        self._failing.discard(shard)
        since = self._time.seconds
        group_ids = [one for one in self._group_ids if partition_for(one, self._plan.shards) == shard]
        found: dict[str, Any] = {}

        def on_found(group_id: str, result: Any) -> None:
            if life.is_over or self._disk.is_off or isinstance(result, ErrorCode):
                return  # it failed again: the next load is checked
            found[group_id] = {
                (topic, partition): stored for topic, each in result.topics for partition, stored in each
            }
            if len(found) == len(group_ids):
                self._journal.trace(f"shard {shard} holds {found!r}")
                self._journal.judged(lambda: self._shards[shard].loaded(found, since))
                life.looked_at(shard, found)

        def on_described(group_id: str, at: float, result: Any) -> None:
            if life.is_over or self._disk.is_off or result in RETRIABLE:
                return
            self._journal.judged(lambda: self._groups[group_id].loaded(result, at))

        def on_balanced(group_id: str, at: float, result: Any) -> None:
            if life.is_over or self._disk.is_off or isinstance(result, ErrorCode):
                return
            self._journal.trace(f"{group_id} is {result!r}")
            session_seconds = self._surroundings.session_seconds(group_id)
            self._journal.judged(lambda: self._balanced[group_id].loaded(result, at, session_seconds))

        def on_listed(group_id: str, result: Any) -> None:
            if life.is_over or self._disk.is_off or result in RETRIABLE:
                return
            self._journal.trace(f"{group_id} has paused {result!r}")
            self._journal.judged(lambda: self._pauses[group_id].loaded(result))

        at = self._time.seconds
        for group_id in group_ids:
            if group_id in self._groups:
                life.ask_shard(shard, DescribeGroup(GroupId(group_id)), partial(on_described, group_id, at))
            if group_id in self._balanced:
                command = DescribeConsumerGroup(GroupId(group_id))
                life.ask_shard(shard, command, partial(on_balanced, group_id, at))
            if group_id in self._pauses:
                life.ask_shard(shard, ListPausedPartitions(GroupId(group_id)), partial(on_listed, group_id))
        for group_id in group_ids:
            life.ask_shard(shard, FetchOffsets(GroupId(group_id), None), partial(on_found, group_id))
        if not group_ids:
            self._shards[shard].loaded({}, since)
            life.looked_at(shard, {})
