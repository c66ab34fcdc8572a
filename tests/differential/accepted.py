"""Where Headgate answers otherwise than Apache Kafka, and means to: each with its reason.

A difference is accepted if scenario, step and path match (`*` stands for anything) and both values are those
that stand here. What stands here and is seen no more has to go: the tests say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tests.differential.normal import ABSENT

ANY = object()


@dataclass(frozen=True, slots=True)
class Accepted:
    """One difference, or many of one kind."""

    scenario: str
    step: str
    path: str
    kafka: Any
    headgate: Any
    reason: str

    def covers(self, scenario: str, step: str, path: str, kafka: Any, headgate: Any) -> bool:
        """Whether it is this one."""
        return (
            fnmatchcase(scenario, self.scenario)
            and fnmatchcase(step, self.step)
            and fnmatchcase(path, self.path)
            and (self.kafka is ANY or self.kafka == kafka)
            and (self.headgate is ANY or self.headgate == headgate)
        )


_NO_TRACE = "A join that is refused leaves no trace; in Kafka an empty group, which it never writes down."

_NOT_OURS = "Settings of what Headgate has not got: tiered storage, share groups, streams groups."

NOT_YET: dict[str, str] = {}
"""Scenarios whose story is not ours yet, and why: they are played, and differ as long as they stand here."""

ACCEPTED: tuple[Accepted, ...] = (
    *(
        Accepted(
            scenario="*",
            step="*",
            path=f"*/configs/{names}",
            kafka=ANY,
            headgate=ABSENT,
            reason=_NOT_OURS,
        )
        for names in ("compression.*.level", "local.retention.*", "remote.*", "share.*", "streams.*")
    ),
    *(
        Accepted(
            scenario="*",
            step="*",
            path="*error_message",
            kafka=silence,
            headgate="<words>",
            reason="Headgate says what is wrong where Kafka does not.",
        )
        for silence in (None, "")
    ),
    Accepted(
        scenario="configs-*",
        step="main: incremental_alter_configs * (*, operation 7)",
        path="responses/*/error_code",
        kafka="unknown_server_error",
        headgate="invalid_request",
        reason="No such operation: Kafka stumbles over it.",
    ),
    Accepted(
        scenario="configs-*",
        step="main: incremental_alter_configs * (no.such.setting=None, operation 1)",
        path="responses/*/error_code",
        kafka="none",
        headgate="invalid_config",
        reason="A setting that does not exist cannot be deleted: the name is a typing mistake.",
    ),
    Accepted(
        scenario="configs-settings-of-topics-are-described",
        step="*",
        path="*/configs/retention.ms/synonyms/log.retention.ms",
        kafka=ABSENT,
        headgate=ANY,
        reason="Kafka has the default in log.retention.hours.",
    ),
    Accepted(
        scenario="brokers-*",
        step="main: api_versions *",
        path="api_keys/*",
        kafka=ANY,
        headgate=ABSENT,
        reason="What Headgate does not speak it does not advertise: transactions, share and streams groups, "
        "ACLs, SASL, quotas, tokens, reassignments, the controller's affairs.",
    ),
    Accepted(
        scenario="brokers-*",
        step="main: api_versions *",
        path="api_keys/2000?",
        kafka=ABSENT,
        headgate=ANY,
        reason="APIs of Headgate's own.",
    ),
    Accepted(
        scenario="brokers-*",
        step="main: api_versions *",
        path="*_features*",
        kafka=ANY,
        headgate=ANY,
        reason="Features of a cluster that is upgraded piece by piece, which one node is not; those of ours.",
    ),
    Accepted(
        scenario="*",
        step="*",
        path="*/configs/headgate.*",
        kafka=ABSENT,
        headgate=ANY,
        reason="Settings of Headgate's own.",
    ),
    Accepted(
        scenario="*",
        step="*",
        path="*/configs/min.insync.replicas/config_source",
        kafka=3,
        headgate=5,
        reason="The node of these tests is told so in its properties; Headgate has one replica anyway.",
    ),
    Accepted(
        scenario="classic-joins-that-are-refused",
        step="main: describe_groups v6",
        path="groups/*/error_code",
        kafka="none",
        headgate="group_id_not_found",
        reason=_NO_TRACE,
    ),
    Accepted(
        scenario="classic-joins-that-are-refused",
        step="main: describe_groups v6",
        path="groups/*/group_state",
        kafka="Empty",
        headgate="Dead",
        reason=_NO_TRACE,
    ),
    Accepted(
        scenario="topic-ids-what-comes-twice",
        step="main: offset_commit * twice*",
        path="topics/*",
        kafka=ANY,
        headgate=ANY,
        reason="A topic that a commit names twice is answered twice, in the order asked; in Kafka once.",
    ),
    *(
        Accepted(
            scenario="*",
            step="main: consumer_group_describe v1*",
            path="groups/*/assignment_epoch",
            kafka=epoch - 1,
            headgate=epoch,
            reason="With the last member gone the empty target is that of the last epoch: so in Kafka 4.4.",
        )
        for epoch in (3, 4, 5)
    ),
    Accepted(
        scenario="consumer-members-the-assignor-that-most-want",
        step="*",
        path="*epoch",
        kafka=4,
        headgate=5,
        reason="When members come to want another assignor it assigns at once, as KIP-848 says; in Kafka it "
        "waits for the next change.",
    ),
    Accepted(
        scenario="consumer-members-some-members-read-more-topics",
        step="main: consumer_group_describe v1",
        path="groups/*/target_assignment/*",
        kafka=ANY,
        headgate=ANY,
        reason="The uniform assignor balances to within one where subscriptions allow; Kafka's stops early.",
    ),
    Accepted(
        scenario="consumer-groups-static-members",
        step="main: consumer_group_heartbeat v1*",
        path="*",
        kafka=ANY,
        headgate=ANY,
        reason="A static member whose first answer was lost may join again under its id; Kafka makes it wait "
        "for its own session to end.",
    ),
    Accepted(
        scenario="migration-*",
        step="classic: join_group *",
        path="error_code",
        kafka="unknown_server_error",
        headgate="inconsistent_group_protocol",
        reason="A subscription that cannot be read: Kafka stumbles over it.",
    ),
)
