"""The settings of one share group, as its share-partitions follow them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headgate.core.share.partition.model import DeliveryLimits
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

    @classmethod
    def of(cls, topics: Topics, group_id: str) -> ShareGroupSettings:
        """Return the settings of a group."""
        overrides = topics.group_overrides(group_id)

        def value(name: str) -> Any:
            setting = GROUP_SETTINGS[name]
            if name in overrides:
                return setting.parse(overrides[name])
            return setting.default if setting.broker_name is None else topics.settings[setting.broker_name]

        return cls(
            DeliveryLimits(
                delivery_count=value("share.delivery.count.limit"),
                lock_duration_ms=value("share.record.lock.duration.ms"),
                records=value("share.partition.max.record.locks"),
            ),
            parse_reset(value("share.auto.offset.reset")),
            value("share.isolation.level") == "read_committed",
            value("share.renew.acknowledge.enable"),
        )
