"""Read records for `headgate consume`, without a group or as a member of one."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headgate.admin import Admin, PartlyRefused, RequestRefused, TopicPartition
from headgate.cli.consume.formats import Print, printer
from headgate.cli.consume.options import Options
from headgate.cli.named_partitions import partitions_of
from headgate.cli.output import check_reader
from headgate.cli.printing import say
from headgate.cli.usage_problem import UsageProblem
from headgate.client.cluster import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, Cluster
from headgate.client.errors import VersionNotSupported
from headgate.client.membership import MemberSettings, Membership
from headgate.client.offsets import fetch_offsets
from headgate.client.records import ConsumedRecord, records_in
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicId, TopicName
from headgate.domain.wording import counted
from headgate.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

LEVELS = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
FETCH_BYTES = 1 << 20
WAIT_MS = 500
"""How long a fetch of a single partition waits for records."""
IDLE_S = 0.1
"""The pause before partitions are fetched again that had no records."""
COMMIT_S = 5.0
"""The time between two commits of a member."""
_MOST_NAMED = 3
"""How many partitions that are held back are named."""
_MOVED = (ErrorCode.OFFSET_OUT_OF_RANGE,)
_DELETED = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def run(admin: Admin, options: Options) -> int:
    """Print records until one of the given limits is reached, or a signal ends the command."""
    _check(options)
    show = printer(options.output, options.formatter_property)
    limits = _Limits(options.max_messages, options.timeout_ms)
    goes_on = options.include is not None
    reading = _Reading(admin.cluster, LEVELS[options.isolation_level], goes_on=goes_on)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # the group is left then, too
    try:
        if options.group is None:
            _read_alone(admin, options, reading, limits, show)
        else:
            _read_as_member(admin, options, reading, limits, show)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.stdout.flush()
    say("1 record" if limits.count == 1 else f"{limits.count} records")
    _tell_held_back(reading)
    return 0


def _tell_held_back(reading: _Reading) -> None:
    """Say where committed records end before the log does: a transaction was open there at the last look."""
    held_back = [(where, at) for where, at in sorted(reading.open_from.items()) if reading.is_at(where, at)]
    for where, at in held_back[:_MOST_NAMED]:
        words = (
            f"headgate transactions describe-producers --topic {where.topic} --partition {where.partition}"
        )
        say(f"{where} was not read from offset {at} on, behind an open transaction; `{words}` shows it")
    if (rest := len(held_back) - _MOST_NAMED) > 0:
        say(f"the same applies to {counted(rest, 'more partition')}")


def _check(options: Options) -> None:
    if (options.topic is None) == (options.include is None):
        raise UsageProblem("--topic or --include is expected")
    if options.partition is not None and (options.topic is None or options.group is not None):
        raise UsageProblem("--partition goes with --topic, and without --group")
    if options.offset is not None and (options.partition is None or options.from_beginning):
        raise UsageProblem("--offset goes with --partition, and without --from-beginning")
    if options.offset not in (None, "earliest", "latest") and not str(options.offset).isdecimal():
        raise UsageProblem(f"--offset {options.offset}: a number, earliest or latest is expected")
    if options.isolation_level not in LEVELS:
        raise UsageProblem(f"--isolation-level {options.isolation_level}: one of {', '.join(LEVELS)}")


@dataclass(slots=True)
class _Limits:
    """When to stop."""

    max_messages: int | None
    timeout_ms: int | None
    count: int = 0
    last_at: float = field(default_factory=time.monotonic)

    def take(self) -> bool:
        """Count a record; return whether it was the last one."""
        self.count += 1
        self.last_at = time.monotonic()
        return self.count == self.max_messages

    @property
    def is_idle_too_long(self) -> bool:
        """Whether no record came for too long."""
        if self.timeout_ms is None:
            return False
        return time.monotonic() - self.last_at >= self.timeout_ms / 1000


@dataclass(slots=True)
class _Reading:
    """The positions of partitions, and how they are fetched."""

    cluster: Cluster
    isolation_level: int
    goes_on: bool = False
    """Whether a topic that is deleted is left out; otherwise it is an error."""
    gone: set[TopicName] = field(default_factory=set)
    """Topics that were deleted in the meantime."""
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] | None = None
    """Where to stop, with --to-end. No position is set behind these, and no record from there on is read."""
    open_from: dict[TopicPartition, int] = field(default_factory=dict)
    """Where the first open transaction began at the last look, with READ_COMMITTED."""

    def stop_at_the_ends(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions up to the ends that they have now, and no others."""
        latest = dict.fromkeys(partitions, LATEST)
        self.ends = self.cluster.list_offsets(latest, self.isolation_level)
        if self.isolation_level == READ_COMMITTED:
            for where, end in self.cluster.list_offsets(latest).items():
                self._note_open(where, self.ends[where], end)

    def is_at(self, where: TopicPartition, offset: int) -> bool:
        """Whether all before this offset has been read."""
        return where in self.positions and self.positions[where] >= offset

    def _note_open(self, where: TopicPartition, stable: int, end: int) -> None:
        self.open_from.pop(where, None)
        if stable < end:
            self.open_from[where] = stable

    def is_left(self, where: TopicPartition, position: int) -> bool:
        """Whether there can be something to read from this position on."""
        return where.topic not in self.gone and (self.ends is None or position < self.ends.get(where, 0))

    def next_records(self, partitions: Iterable[TopicPartition]) -> Iterator[ConsumedRecord]:
        """Yield what there is in these partitions; the caller advances the position with each record."""
        wanted = list(partitions)
        for where in wanted:
            if not self.is_left(where, self.positions[where]):
                continue
            wait_ms = WAIT_MS if len(wanted) == 1 else 0
            try:
                records, following = self._fetch(where, wait_ms)
            except RequestRefused as error:
                if error.error in _MOVED:
                    self._move(where)
                else:
                    self.leave_out_if_deleted(where.topic, error)
                continue
            end = following if self.ends is None else self.ends[where]
            yield from (record for record in records if record.offset < end)
            self.positions[where] = min(following, end)

    def _fetch(self, where: TopicPartition, wait_ms: int) -> tuple[list[ConsumedRecord], int]:
        offset = self.positions[where]
        fetched = self.cluster.fetch(
            *where,
            offset,
            max_bytes=FETCH_BYTES,
            max_wait_ms=wait_ms,
            isolation_level=self.isolation_level,
        )
        is_committed = self.isolation_level == READ_COMMITTED
        if is_committed:
            self._note_open(where, fetched.last_stable_offset, fetched.high_watermark)
        if not fetched.records:  # up to its end the log has no batches: compaction removed them
            end = fetched.last_stable_offset if is_committed else fetched.high_watermark
            return [], max(offset, end)
        return records_in(fetched, where, offset)

    def leave_out_if_deleted(self, topic: TopicName, error: RequestRefused) -> None:
        """Go on without the topic if it was deleted, and others can be read. Otherwise raise the error."""
        if error.error not in _DELETED or not self.goes_on:
            raise error
        if topic not in self.gone:
            self.gone.add(topic)
            say(f"topic {topic} was deleted; going on without it")

    def _move(self, where: TopicPartition) -> None:
        """Go on where the log begins now, after retention removed the position, or where it ends."""
        first = self.cluster.list_offsets({where: EARLIEST})[where]
        end = self.cluster.list_offsets({where: LATEST})[where]
        lost = self.positions[where]
        self.positions[where] = min(max(lost, first), end)
        say(f"{where} has no offset {lost}; going on at {self.positions[where]}")


def _print_all(
    reading: _Reading,
    partitions: list[TopicPartition],
    limits: _Limits,
    show: Print,
) -> tuple[bool, int]:
    """Print what there is; return whether the limit is reached, and the number of records."""
    before = limits.count
    for record in reading.next_records(partitions):
        show(record)
        reading.positions[record.where] = record.offset + 1
        if limits.take():
            return True, limits.count - before
    sys.stdout.flush()
    check_reader()
    return False, limits.count - before


# --- without a group ---


def _read_alone(admin: Admin, options: Options, reading: _Reading, limits: _Limits, show: Print) -> None:
    partitions = _partitions(admin, options)
    admin.cluster.waits_for_nodes = True  # they were there, and can be restarting
    start = _start(options)
    known = {} if start >= 0 else admin.cluster.list_offsets(dict.fromkeys(partitions, start))
    reading.positions.update(known or dict.fromkeys(partitions, start))
    if options.to_end:
        reading.stop_at_the_ends(partitions)
    while True:
        left = [one for one in partitions if reading.is_left(one, reading.positions[one])]
        if not left:
            return
        is_done, count = _print_all(reading, left, limits, show)
        if is_done or limits.is_idle_too_long:
            return
        if count == 0 and len(left) > 1:
            time.sleep(IDLE_S)


def _start(options: Options) -> int:
    if options.offset is not None and options.offset.isdecimal():
        return int(options.offset)
    return EARLIEST if options.from_beginning or options.offset == "earliest" else LATEST


def _partitions(admin: Admin, options: Options) -> list[TopicPartition]:
    """Return the partitions to read. Raises `UsageProblem`, and `RequestRefused` for an unknown topic."""
    if options.topic is not None:
        there = partitions_of(admin, options.topic)
        if options.partition is None:
            return there
        chosen = [one for one in there if one.partition == options.partition]
        if not chosen:
            last = len(there) - 1
            raise UsageProblem(
                f"--partition {options.partition}: {options.topic} has the partitions 0 to {last}"
            )
        return chosen
    names = [name for name in admin.topics() if _pattern(options).fullmatch(name)]
    if not names:
        raise UsageProblem(f"--include {options.include}: no topic has such a name")
    return [
        TopicPartition(TopicName(name), one.partition)
        for name, topic in admin.describe_topics(names).items()
        if topic is not None
        for one in topic.partitions
    ]


def _pattern(options: Options) -> re.Pattern[str]:
    try:
        return re.compile(str(options.include))
    except re.error as problem:
        raise UsageProblem(f"--include {options.include}: no regular expression: {problem}") from problem


# --- as a member of a group ---


def _read_as_member(admin: Admin, options: Options, reading: _Reading, limits: _Limits, show: Print) -> None:
    group_id = GroupId(str(options.group))
    partitions = _partitions(admin, options)
    topics = tuple(TopicName(name) for name in sorted({one.topic for one in partitions}))
    if ConsumerGroupHeartbeatRequest.API_KEY not in admin.cluster.coordinator(group_id).versions:
        raise VersionNotSupported(
            "the cluster does not know the consumer protocol (KIP-848), which --group needs; read without "
            "--group"
        )
    admin.cluster.waits_for_nodes = True
    if options.to_end:
        reading.stop_at_the_ends(partitions)
    settings = MemberSettings(group_id=group_id, topics=topics)
    servers = ",".join(f"{host}:{port}" for host, port in admin.cluster.addresses)
    member = Membership(
        servers, settings, timeout_s=admin.cluster.timeout_s, client_id="headgate-consume",
        waits_for_nodes=True, security=admin.cluster.security,
    )  # fmt: skip
    with member:
        _Member(member, reading, options).run(limits, show)


class _Member:
    """Reads what is assigned, and commits before anything is released.

    Positions are those of a membership: when the coordinator has fenced the member, others may have read on,
    or an administrator may have reset the group. Then they are forgotten and not committed. The group refuses
    those in a topic that was deleted since, although another one may have its name.
    """

    def __init__(self, member: Membership, reading: _Reading, options: Options) -> None:
        self.member = member
        self.reading = reading
        self.options = options
        self.committed: dict[TopicPartition, int] = {}
        self.lost = member.view().lost
        self.topic_ids: dict[TopicName, TopicId] = {}
        """Those of the topics of all positions."""
        self.commit_at = time.monotonic() + COMMIT_S

    def run(self, limits: _Limits, show: Print) -> None:
        """Print records until a limit is reached; commit at the end, too."""
        try:
            while not limits.is_idle_too_long:
                assigned = self._follow()
                left = [one for one in assigned if self.reading.is_left(one, self.reading.positions[one])]
                is_done, count = _print_all(self.reading, left, limits, show)
                if is_done or (not left and self._is_at_the_ends(assigned)):
                    return
                if time.monotonic() >= self.commit_at:
                    self._commit(self.reading.positions)
                if count == 0 and len(left) != 1:
                    time.sleep(IDLE_S)
        finally:
            self._commit(self.reading.positions)

    def _follow(self) -> list[TopicPartition]:
        """Release what was revoked, and find the positions of what is new; return what is assigned."""
        view = self.member.view()
        is_removed = view.lost != self.lost
        if gone := [one for one in self.reading.positions if is_removed or one not in view.assigned]:
            self._commit({one: self.reading.positions[one] for one in gone if one in view.revoked})
            for one in gone:
                del self.reading.positions[one]
                self.committed.pop(one, None)
        if is_removed:
            self.lost = view.lost
            say(f"{self._removed}; going on at its committed offsets")
        self.topic_ids.update(view.topic_ids)
        self.member.release(view.revoked)
        new = sorted(view.assigned - self.reading.positions.keys())
        if new:
            self._begin(new)
        return sorted(view.assigned)

    @property
    def _removed(self) -> str:
        return f"group {self.member.settings.group_id} removed this member"

    def _is_at_the_ends(self, assigned: list[TopicPartition]) -> bool:
        """Whether the group has read all up to the ends: this member its partitions, others what they have.

        Others may have partitions only for a moment, so what counts is what they committed. This member
        commits too, because others may wait for it.
        """
        if self.reading.ends is None:
            return False
        self._commit(self.reading.positions)
        others = sorted(self.reading.ends.keys() - set(assigned))
        known = self._committed_of(others)
        for topic in sorted({one.topic for one in others}):
            of_topic = [one for one in others if one.topic == topic]
            try:
                known |= self._starts(of_topic, known)
            except RequestRefused as error:
                self.reading.leave_out_if_deleted(topic, error)
        return not any(self.reading.is_left(where, position) for where, position in known.items())

    def _begin(self, new: list[TopicPartition]) -> None:
        known = self._committed_of(new)
        self.committed.update(known)
        starts = self._starts(new, known)
        self.reading.positions.update(known | starts)
        if starts:
            # At once: if the group removes this member before it has committed, it goes on where it began.
            self._commit(starts)

    def _committed_of(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        offsets = fetch_offsets(self.reading.cluster, self.member.settings.group_id, partitions)
        return {where: one.offset for where, one in offsets.items()}

    def _starts(
        self, partitions: list[TopicPartition], known: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return where the group begins in those of the partitions that have no committed offset."""
        start = EARLIEST if self.options.from_beginning else LATEST
        return self.reading.cluster.list_offsets({one: start for one in partitions if one not in known})

    def _commit(self, positions: dict[TopicPartition, int]) -> None:
        self.commit_at = time.monotonic() + COMMIT_S
        changed = {where: at for where, at in positions.items() if self.committed.get(where) != at}
        if not changed:
            return
        try:
            view = self.member.view()
            if view.lost != self.lost:
                say(f"not committed: {self._removed}; the records may be delivered again")
                return
            self.member.commit(changed, view, self.topic_ids)
        except (PartlyRefused, RequestRefused) as error:
            say(f"not committed: {error}; the records may be delivered again")
            return
        self.committed.update(changed)
