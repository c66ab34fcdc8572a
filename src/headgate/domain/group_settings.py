"""The settings of a group: of a consumer group (KIP-848), of a share group (KIP-932), and of any group.

The default of most of them is a broker setting.
"""

from __future__ import annotations

from collections.abc import Mapping

from headgate.domain.setting import (
    DAY_MS,
    MINUTE_MS,
    Kind,
    Setting,
    table,
)
from headgate.domain.share_settings import SHARE_GROUP_SETTINGS

GROUP_SETTINGS: Mapping[str, Setting] = table(
    Setting(
        "consumer.session.timeout.ms",
        Kind.INT,
        45_000,
        "Time without a heartbeat after which a member is removed.",
        minimum=1,
        broker_name="group.consumer.session.timeout.ms",
    ),
    Setting(
        "consumer.heartbeat.interval.ms",
        Kind.INT,
        5_000,
        "Interval between heartbeats of a member.",
        minimum=1,
        broker_name="group.consumer.heartbeat.interval.ms",
    ),
    Setting(
        "consumer.assignment.interval.ms",
        Kind.INT,
        1_000,
        "Shortest time between two target assignments.",
        minimum=0,
        broker_name="group.consumer.assignment.interval.ms",
    ),
    *SHARE_GROUP_SETTINGS,
    Setting(
        "offsets.retention.ms",
        Kind.LONG,
        7 * DAY_MS,
        "How long the offsets of the group are kept after it became empty, or after a commit if it never had "
        "members; -1: for ever.",
        minimum=-1,
        excluded=(0,),
        broker_name="offsets.retention.minutes",
        broker_unit=MINUTE_MS,
    ),
)
"""Settings of one group. Classic groups, and groups that only commit, have `offsets.retention.ms` alone."""
