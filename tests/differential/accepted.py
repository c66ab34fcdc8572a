"""Where Headgate answers otherwise than Apache Kafka, and means to: each with its reason.

A difference is accepted if scenario, step and path match (`*` stands for anything) and both values are those
that stand here. What stands here and is seen no more has to go: the tests say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

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

ACCEPTED: tuple[Accepted, ...] = (
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
        path="groups/*/error_message",
        kafka=None,
        headgate="<words>",
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
        scenario="topic-ids-*",
        step="main: offset_* v10",
        path="*",
        kafka=ANY,
        headgate=ANY,
        reason="Version 10 (topics by their ids) is not offered yet; clients fall back to 9.",
    ),
    *(
        Accepted(
            scenario="consumer-*",
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
)
