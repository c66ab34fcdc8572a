"""Jobs over all groups of a cluster: audits that find, and resets that change.

    from headgate.fleet import Rules, audit

    for found in audit("127.0.0.1:9092", Rules(expiring_within_ms=86_400_000)):
        print(found.facts.group_id, found.findings)

The rules of expiry are those of the coordinator (`headgate.core`): an audit replays the coordinator's log
into the coordinator's own state machine and asks it. Where Apache Kafka has another rule, it goes by that.
"""

from headgate.fleet.audit import Audited, AuditFailed, audit
from headgate.fleet.facts import GroupFacts
from headgate.fleet.reset import (
    Outcome,
    PlannedOffsets,
    PlanUnreadable,
    Step,
    execute,
    load_plan,
    save_plan,
    undo_of,
)
from headgate.fleet.rules import Finding, Rules
from headgate.fleet.share_states import share_states_as_of, share_states_now

__all__ = [
    "AuditFailed",
    "Audited",
    "Finding",
    "GroupFacts",
    "Outcome",
    "PlanUnreadable",
    "PlannedOffsets",
    "Rules",
    "Step",
    "audit",
    "execute",
    "load_plan",
    "save_plan",
    "share_states_as_of",
    "share_states_now",
    "undo_of",
]
