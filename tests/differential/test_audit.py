"""What an audit of Apache Kafka says about expiry is what Kafka will do (`test_retention` measures it)."""

from __future__ import annotations

import time

import pytest
from tests.consumers import reading
from tests.differential.conftest import Run
from tests.differential.test_landing import data_directory

from headgate.admin import Admin, TopicPartition
from headgate.domain.ids import TopicName
from headgate.domain.settings import Settings
from headgate.fleet import GroupFacts, audit
from headgate.fleet.audit import RETENTION

RETENTION_MS = int(Settings()[RETENTION]) * 60_000


@pytest.mark.timeout(120)
def test_expiry_counts_from_where_kafka_counts(run: Run) -> None:
    """In an empty group of the consumer protocol from the commit, in a classic one from the last leaving."""
    bootstrap, topic = f"{run.kafka.host}:{run.kafka.port}", TopicName(f"audited{run.tag}")
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, 1)
        groups = {protocol: f"audited-{protocol}{run.tag}" for protocol in ("classic", "consumer")}
        for protocol, group in groups.items():
            admin.alter_offsets(group, {TopicPartition(topic, 0): 0})
            with reading(bootstrap, group, topic, {"group.protocol": protocol}):
                time.sleep(0.01)
    for source in (bootstrap, str(data_directory(bootstrap))):
        facts = {str(each.facts.group_id): each.facts for each in audit(source)}
        assert counts_from(facts[groups["classic"]]) == "empty_since"
        assert counts_from(facts[groups["consumer"]]) == "last_commit_at"


def counts_from(facts: GroupFacts) -> str:
    """Return the time from which the retention of the group's offsets counts."""
    assert facts.first_expiry_at is not None and facts.first_expiry_at == facts.last_expiry_at
    assert facts.empty_since is not None and facts.last_commit_at is not None
    assert facts.last_commit_at < facts.empty_since
    times = {"empty_since": facts.empty_since, "last_commit_at": facts.last_commit_at}
    return {at + RETENTION_MS: name for name, at in times.items()}[facts.first_expiry_at]
