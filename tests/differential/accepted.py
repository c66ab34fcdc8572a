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


ACCEPTED: tuple[Accepted, ...] = (
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
            scenario="consumer-groups-*",
            step="main: consumer_group_describe v1*",
            path="groups/*/assignment_epoch",
            kafka=epoch - 1,
            headgate=epoch,
            reason="With the last member gone the empty target is that of the last epoch: so in Kafka 4.4.",
        )
        for epoch in (3, 5)
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
