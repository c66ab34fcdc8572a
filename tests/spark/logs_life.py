"""A life of transactions and of a share group on a real cluster, and what its coordinators say of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
import pyarrow.dataset as ds
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from tests.compat.support.share_members import ShareMember, ShareMembership
from tests.waiting import wait_until

from headgate.admin import Admin
from headgate.fleet import share_states_as_of, share_states_now

Starts = dict[int, int | None]
"""The start offset of the share group by partition."""


@dataclass(slots=True)
class LogsLife:
    """Transactions of two ids, and a share group that reads one topic."""

    bootstrap: str
    tag: str = ""
    moments: list[tuple[int, Starts]] = field(default_factory=list)
    """Times in ms, and what the share coordinator said then."""

    @property
    def topic(self) -> str:
        """Return the name of the topic, and of the share group."""
        return f"shared{self.tag}"

    def play(self) -> Iterator[None]:
        """Play step by step."""
        admin: Any = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(self.topic, 2, 1)])[self.topic].result()
        group = ConfigResource(ConfigResource.Type.GROUP, self.topic)
        first = ConfigEntry(
            "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
        )
        group.add_incremental_config(first)
        for done in admin.incremental_alter_configs([group]).values():
            done.result()
        self._transaction("done", "commit")
        self._transaction("done", "abort")
        yield
        for values in (["ok", "reject", "ok", "release"], ["reject", "ok"]):
            self._share(values)
            yield
        self._left_open = self._transaction("open", None)
        yield

    _left_open: object = None

    def _transaction(self, name: str, end: str | None) -> object:
        settings = {"transactional.id": f"{name}{self.tag}", "transaction.timeout.ms": 900_000}
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap, **settings})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(self.topic, b"ok", partition=1)
        producer.flush(30)
        if end is not None:
            producer.commit_transaction(30) if end == "commit" else producer.abort_transaction(30)
        return producer

    def _share(self, values: list[str]) -> None:
        """Have a member read these values, and note where the group is then."""
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            producer.produce(self.topic, value.encode(), partition=0)
        assert producer.flush(30) == 0
        member = ShareMember(ShareMembership(self.bootstrap, self.topic, self.topic, "confluent"))
        try:
            wait_until(lambda: set(values) <= set(member.values), f"the values; {member}", timeout_s=60)
            with Admin(self.bootstrap) as admin:
                wait_until(lambda: self._lag(admin) == 0, "all is acknowledged")
            member.leave()
        finally:
            member.end()
        with Admin(self.bootstrap) as admin:
            self.moments.append((time.time_ns() // 1_000_000, self._starts(admin)))
        time.sleep(0.01)

    def _starts(self, admin: Admin) -> Starts:
        found = {one.partition.partition: one.start_offset for one in admin.share_offsets(self.topic)}
        return {0: found.get(0), 1: found.get(1)}

    def _lag(self, admin: Admin) -> int | None:
        return next(one.lag for one in admin.share_offsets(self.topic) if one.partition.partition == 0)

    def assert_landed(self, target: str) -> None:
        """Check landed tables against the coordinators."""
        with Admin(self.bootstrap) as admin:
            listed = {one.transactional_id: (one.producer_id, one.state) for one in admin.list_transactions()}
            now = self._starts(admin)
        rows = ds.dataset(f"{target}/transactions", partitioning="hive").to_table().to_pylist()
        last = {row["transactional_id"]: row for row in sorted(rows, key=lambda row: row["log_offset"])}
        own = (f"done{self.tag}", f"open{self.tag}")  # others may be of other tests, and end meanwhile
        landed = {name: (last[name]["producer_id"], last[name]["state"]) for name in own}
        assert landed == {name: listed[name] for name in own}
        states = [row["state"] for row in rows if row["transactional_id"] == f"done{self.tag}"]
        assert {"Ongoing", "CompleteCommit", "CompleteAbort"} <= set(states)
        assert last[f"open{self.tag}"]["partitions"] == [{"topic": self.topic, "partition": 1}]
        shared = ds.dataset(f"{target}/share_deliveries", partitioning="hive").to_table().to_pylist()
        batches = [
            batch
            for row in shared
            if row["group_id"] == self.topic and row["partition"] == 0
            for batch in row["batches"]
        ]
        rejected = [one for one in batches if one["delivery_state"] == "ARCHIVED"]
        assert any(one["first_offset"] <= 1 <= one["last_offset"] for one in rejected), batches
        assert self._landed(share_states_now(target, self.topic)) == now
        for at, starts in self.moments:
            assert self._landed(share_states_as_of(target, at, self.topic)) == starts

    def _landed(self, table: Any) -> Starts:
        rows = table.to_pylist()
        assert all(row["is_known"] for row in rows), rows
        found = {row["partition"]: row["start_offset"] for row in rows}
        return {0: found.get(0), 1: found.get(1)}
