"""The settings of a group of the new protocol; they fall back to a broker's."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.domain.setting import (
    Kind,
    Setting,
    table,
)

GROUP_SETTINGS: Mapping[str, Setting] = table(
    Setting(
        "consumer.session.timeout.ms",
        Kind.INT,
        45_000,
        "How long a member may be silent.",
        minimum=1,
        broker_name="group.consumer.session.timeout.ms",
    ),
    Setting(
        "consumer.heartbeat.interval.ms",
        Kind.INT,
        5_000,
        "How often members are to be heard of.",
        minimum=1,
        broker_name="group.consumer.heartbeat.interval.ms",
    ),
    Setting(
        "consumer.assignment.interval.ms",
        Kind.INT,
        1_000,
        "At least so long lies between two assignments.",
        minimum=0,
        broker_name="group.consumer.assignment.interval.ms",
    ),
)
"""Settings of one consumer group. Classic groups have none."""
