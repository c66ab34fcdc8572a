"""The settings of one share group, as its share-partitions follow them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from headgate.core.share.partition.model import DeliveryLimits
from headgate.domain import dead_letters
from headgate.domain.offset_reset import OffsetReset, parse_reset
from headgate.domain.settings import GROUP_SETTINGS
from headgate.topics.topics import Topics


@dataclass(frozen=True, slots=True)
class ShareGroupSettings:
    """The values in force: those of the group, else those of the broker."""

    limits: DeliveryLimits
    reset: OffsetReset
    is_committed: bool
    """Whether the group reads committed records only."""
    may_renew: bool
    dead_letter_topic: str = ""
    """The topic that gets dead letters; empty: none."""
    copies_dead_letters: bool = False
    """Whether dead letters have the records' keys and values."""

    def limits_for(self, topic: str) -> DeliveryLimits:
        """Return the limits for a source topic: a dead-letter topic has no dead letters of its own."""
        if topic != self.dead_letter_topic:
            return self.limits
        return replace(self.limits, keeps_dead_letters=False)

    @classmethod
    def of(cls, topics: Topics, group_id: str) -> ShareGroupSettings:
        """Return the settings of a group."""
        overrides = topics.group_overrides(group_id)

        def value(name: str) -> Any:
            setting = GROUP_SETTINGS[name]
            if name in overrides:
                return setting.parse(overrides[name])
            return setting.default if setting.broker_name is None else topics.settings[setting.broker_name]

        dead_letter_topic = value(dead_letters.TOPIC)
        return cls(
            DeliveryLimits(
                delivery_count=value("share.delivery.count.limit"),
                lock_duration_ms=value("share.record.lock.duration.ms"),
                records=value("share.partition.max.record.locks"),
                keeps_dead_letters=bool(dead_letter_topic),
            ),
            parse_reset(value("share.auto.offset.reset")),
            value("share.isolation.level") == "read_committed",
            value("share.renew.acknowledge.enable"),
            dead_letter_topic,
            value(dead_letters.COPY_RECORD),
        )
