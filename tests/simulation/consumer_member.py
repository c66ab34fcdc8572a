"""A member of a consumer group, which may also be slow, silent, dead, or replaced.

It knows only the answers it got. It keeps partitions pending revocation until it decides to revoke them;
commits of former partitions may be delayed for a long time.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tests.simulation.clients import Client
from tests.simulation.requests import RETRIABLE, error_of
from tests.simulation.surroundings import READ_TOPICS, SurroundingsView

from headgate.core.classic.commands import LeaveGroup, LeavingMember
from headgate.core.consumer.commands import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    ConsumerHeartbeat,
    HeartbeatResult,
    Reported,
)
from headgate.core.offsets.commands import CommitOffsets, FetchOffsets, OffsetToCommit
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicId, TopicName

Part = tuple[TopicId, int]
"""A partition of a topic in one of its lives."""

NAMES = (
    READ_TOPICS[:1],
    READ_TOPICS[:2],
    READ_TOPICS[:2],
    READ_TOPICS[1:],
    READ_TOPICS,
    (),
)
REGEXES = (None, None, None, "c\\..*", ".*e", "", "nothing")
INSTANCES = 3
"""Number of instance ids in a group; several clients may share one."""
MOST_LATE = 5
FENCED = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class Subscription(NamedTuple):
    """The subscription of a member, and its server assignor."""

    names: tuple[TopicName, ...]
    regex: str | None
    assignor: str | None


class ConsumerMember(Client):
    """One client of a consumer group."""

    def __init__(self, surroundings: SurroundingsView, group_id: str, session_seconds: float) -> None:
        super().__init__(surroundings.network)
        self._surroundings = surroundings
        self.group_id = GroupId(group_id)
        self._session_seconds = session_seconds
        self._is_awaiting = False
        self._late: list[CommitOffsets] = []
        """Commits that are delayed for a long time, whatever happens to their sender."""
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Become another member."""
        is_static = self.random.random() < 0.4 and not self._surroundings.is_calm
        self._instance_id = InstanceId(f"i{self.random.randrange(INSTANCES)}") if is_static else None
        self._begin_with_new_id()

    def _begin_with_new_id(self) -> None:
        self.member_id = MemberId(f"consumer-{self.network.next_number()}")
        self._rebalance_ms = int(1000 * self._session_seconds * (1.0 + 0.5 * self.random.random()))
        self.subscription = self._some_subscription()
        self._forget()

    def _forget(self) -> None:
        """Reset the state: no membership and no partitions."""
        self.epoch = JOINING
        self.owned: frozenset[Part] = frozenset()
        self._told: frozenset[Part] = frozenset()
        self._said: frozenset[Part] | None = None
        """The partitions that it reported last."""
        self._must_say_all = False

    def _some_subscription(self) -> Subscription:
        random = self.random
        names = random.choice(NAMES)
        return Subscription(names, random.choice(REGEXES), random.choice((None, None, "uniform", "range")))

    def on_connected(self) -> None:
        """Note that a pending answer is lost: the next heartbeat reports the full state."""
        self._must_say_all = self._must_say_all or self._is_awaiting
        self._is_awaiting = False

    # --- actions ---

    def act(self) -> None:
        """Perform the next action of a member in this state."""
        if self._surroundings.is_calm or self.epoch == JOINING:
            self._let_go()
            self._beat()
        else:
            self._live()

    def _live(self) -> None:
        dice = self.random.random()
        if dice < 0.50:
            if self.random.random() < 0.7:
                self._let_go()
            self._beat()
        elif dice < 0.72:
            self._commit()
        elif dice < 0.79:
            self._commit_late()
        elif dice < 0.85:
            self._fetch()
        elif dice < 0.89:
            self.subscription = self._some_subscription()
            self._must_say_all = True
            self._beat()
        elif dice < 0.93:
            self._leave()
        elif dice < 0.95:  # it stops for a while and continues
            self.soon(3 * self._session_seconds)
        elif dice < 0.96:  # it dies without a leave, and another member replaces it
            self._begin_anew()
            self.soon()
        elif dice < 0.97:  # it restarts without its membership
            self._forget()
            self.soon()
        elif dice < 0.985:  # a request is delivered twice
            self.network.send(self.group_id, self._heartbeat(), lambda result: None)
            self._beat()
        else:
            self.connect()

    def _soon(self) -> None:
        """Continue in time for the next heartbeat; not sooner than necessary in a calm period."""
        if self._surroundings.is_calm:
            self.soon(0.8 * self._session_seconds if self.epoch else None)
        else:
            self.soon(0.4 * self._session_seconds if self.epoch and self.random.random() < 0.5 else None)

    # --- heartbeats ---

    def _let_go(self) -> None:
        self.owned = self._told

    def _heartbeat(self) -> ConsumerHeartbeat:
        command = ConsumerHeartbeat(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self._instance_id,
        )
        if self._said != self.owned or self.random.random() < 0.3:
            command.reported = reported(self.owned)
        if self.epoch == JOINING or self._must_say_all:
            names, regex, assignor = self.subscription
            command.rebalance_timeout_ms = self._rebalance_ms
            command.subscribed_topic_names = names
            command.subscribed_topic_regex = "" if regex is None and self.epoch else regex
            command.server_assignor = assignor
            command.reported = reported(self.owned)
        return command

    def _beat(self) -> None:
        command = self._heartbeat()
        if command.reported is not None:
            self._said = self.owned
        self._is_awaiting = True
        self.ask(self.group_id, command, partial(self._on_beat, command))

    def _on_beat(self, command: ConsumerHeartbeat, result: HeartbeatResult | ErrorCode) -> None:
        self._is_awaiting = False
        error = error_of(result)
        if error in RETRIABLE:
            self._must_say_all = True
            self.soon(0.5)
            return
        if error is ErrorCode.NONE:
            assert isinstance(result, HeartbeatResult)
            self._take(result)
        elif error in FENCED:
            self._forget()
        elif error is not ErrorCode.UNRELEASED_INSTANCE_ID or self.random.random() < 0.2:
            self._begin_anew()
        elif self._surroundings.is_calm:
            self._instance_id = None  # another member has it, and keeps it
        self._soon()

    def _take(self, result: HeartbeatResult) -> None:
        self.epoch = result.member_epoch
        self._must_say_all = False
        if result.assigned is not None:
            self._told = frozenset((topic, one) for topic, each in result.assigned.items() for one in each)
        if self.owned <= self._told:
            self.owned = self._told

    def _leave(self) -> None:
        if self._instance_id is not None and self.random.random() < 0.6:
            self._say_goodbye(LEAVING_FOR_A_WHILE)
        elif self.random.random() < 0.7:
            self._say_goodbye(LEAVING)
        else:  # as in a removal by an administrator
            by_instance = self._instance_id is not None and self.random.random() < 0.5
            leaving = LeavingMember(MemberId("") if by_instance else self.member_id, self._instance_id)
            command = LeaveGroup(group_id=self.group_id, members=(leaving,))
            self.ask(self.group_id, command, lambda result: self._on_left())

    def _say_goodbye(self, epoch: int) -> None:
        command = ConsumerHeartbeat(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self._instance_id,
        )
        self.ask(self.group_id, command, lambda result: self._on_left())

    def _on_left(self) -> None:
        dice = self.random.random()
        if dice < 0.3:
            self._begin_anew()
        elif dice < 0.7:
            self._begin_with_new_id()
        elif dice < 0.9:
            self._forget()  # otherwise it continues as a member
        self.soon()

    # --- offsets ---

    def _commit(self) -> None:
        command = self._some_commit()
        if command is None:
            self._beat()
            return
        late = self._some_commit() if self.random.random() < 0.3 else None
        if late is not None:
            self._late = [*self._late[-MOST_LATE + 1 :], late]
        self.ask(self.group_id, command, lambda result: self._on_offsets(error_of(result)))

    def _some_commit(self) -> CommitOffsets | None:
        """Return a commit of its partitions; sometimes of one that another member may have."""
        name_of = self._surroundings.name_of
        parts = [(name_of(topic_id), one) for topic_id, one in sorted(self.owned)]
        if parts:
            parts = self.random.sample(parts, self.random.choice((1, len(parts))))
        if self.random.random() < 0.1:
            parts.append((self.random.choice(READ_TOPICS), self.random.randrange(3)))
        if not parts:
            return None
        number = self.network.next_number()
        topics: dict[TopicName, list[OffsetToCommit]] = {}
        for name, one in dict.fromkeys(parts):
            topics.setdefault(name, []).append(OffsetToCommit(one, number, -1, ""))
        return CommitOffsets(
            self.group_id, list(topics.items()), member_id=self.member_id, generation=self.epoch
        )

    def _commit_late(self) -> None:
        """Deliver a delayed commit."""
        if self._late:
            command = self.random.choice(self._late)
            self.network.send(self.group_id, command, lambda result: None)
        self._beat()

    def _fetch(self) -> None:
        if self.random.random() < 0.6:
            command = FetchOffsets(self.group_id, None, self.member_id, self.epoch)
        else:
            command = FetchOffsets(self.group_id, None)
        self.ask(self.group_id, command, lambda result: self._on_offsets(error_of(result)))

    def _on_offsets(self, error: ErrorCode) -> None:
        if error in RETRIABLE:
            self.soon(0.5)
            return
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget()
        self._soon()


def reported(parts: frozenset[Part]) -> Reported:
    """Return partitions in the form of a heartbeat."""
    topics: dict[TopicId, list[int]] = {}
    for topic_id, one in sorted(parts):
        topics.setdefault(topic_id, []).append(one)
    return [(topic_id, tuple(each)) for topic_id, each in topics.items()]
