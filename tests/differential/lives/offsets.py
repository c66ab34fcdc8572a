"""Groups that only commit, and members that come from nowhere."""

from __future__ import annotations

from tests.differential import requests as rq
from tests.differential.lives.life import BY_ID_SINCE, NOWHERE, Life
from tests.differential.wire import Request, Tree

STEPS = 25
RETENTIONS_UNTIL = 4
"""Until this version a commit has a retention of its own."""
INSTANCES_SINCE = 7
MEMBERS_SINCE = 9
SEVERAL_GROUPS_SINCE = 8


class OffsetsLife(Life):
    """Commits of all versions, beside what administrators do and what no member may do."""

    def live(self) -> None:
        """Ask everything."""
        self.topics = [self.ask.topic("t", 4), self.ask.topic("u", 1)]
        self.groups = [f"{self.ask.group}{number}" for number in range(3)]
        for group in self.groups:
            self.make_group(group)
        self.last: Request | None = None
        self.go(
            {
                self.commit: 10,
                self.fetch: 8,
                self.fetch_all: 2,
                self.repeat: 5,
                self.delete_offsets: 3,
                self.describe: 2,
                self.list: 1,
                self.be_nobody: 3,
            },
            STEPS,
        )
        self.ask(rq.delete_groups(*self.groups))
        self.go({self.fetch: 1, self.fetch_all: 1, self.describe: 1, self.list: 1}, 4)

    def _group(self) -> str:
        return self.pick(dict(zip(self.groups, (10, 4, 1), strict=True)))

    def commit(self) -> None:
        """Commit, now and then as a member or with a retention."""
        version = self.chance.randint(2, 10)
        member, epoch = self.pick({("", -1): 16, ("m", -1): 1, ("", 0): 1, ("m", 3): 1, ("", -2): 1})
        more: Tree = {}
        if version <= RETENTIONS_UNTIL and self.happens(0.3):
            more["retention_time"] = self.chance.choice([10**9, 10**16, 3_600_000])
        if version >= INSTANCES_SINCE and self.happens(0.1):
            more["group_instance_id"] = "i"
        offsets = self.offsets(by_id=version >= BY_ID_SINCE)
        self.last = rq.commit(self._group(), offsets, version, member=member, epoch=epoch, **more)
        self.ask(self.last)

    def fetch(self) -> None:
        """Fetch offsets, now and then as a member."""
        version = self.chance.randint(1, 10)
        more: Tree = {}
        if version >= INSTANCES_SINCE:
            more["require_stable"] = self.happens(0.3)
        if version >= MEMBERS_SINCE and self.happens(0.2):
            member = self.chance.choice([("m", 1), (None, 3), ("", -1), ("m", -1)])
            more["member_id"], more["member_epoch"] = member
        self.last = rq.fetch(self._group(), self.wanted(version), version, **more)
        self.ask(self.last)

    def fetch_all(self) -> None:
        """Fetch offsets of all groups in one request."""
        version = self.chance.randint(SEVERAL_GROUPS_SINCE, 10)
        self.ask(rq.fetch_all({group: self.wanted(version) for group in self.groups}, version))

    def repeat(self) -> None:
        """Send the last commit or fetch again."""
        if self.last is not None:
            self.ask(self.last)

    def delete_offsets(self) -> None:
        """Delete offsets, some of which are there."""
        topic = self.chance.choice([*(one.name for one in self.topics), NOWHERE])
        self.ask(rq.delete_offsets(self._group(), {topic: self.partitions()}))

    def describe(self) -> None:
        """Describe a group as a classic one, or as one of the new protocol."""
        group = self._group()
        if self.happens(0.5):
            self.ask(rq.describe_groups(group, version=self.chance.randint(0, 6)))
        else:
            self.ask(rq.describe_consumer_groups(group, version=self.chance.randint(0, 1)))

    def list(self) -> None:
        """List the groups of this life."""
        self.ask.only(rq.list_groups(), "groups", "group_id", self.groups)

    def be_nobody(self) -> None:
        """Send a heartbeat, or leave, as a member that there is not."""
        group, member = self._group(), self.chance.choice(["", "m"])
        request = self.chance.choice(
            [
                rq.heartbeat(group, member, self.chance.choice([-1, 0, 1]), self.chance.randint(0, 4)),
                rq.leave(group, member, version=self.chance.randint(0, 5)),
                rq.beat(group, "m", self.chance.choice([-1, 1, -2])),
            ]
        )
        self.ask(request)
