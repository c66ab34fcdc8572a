"""Settings that are changed at run time: of topics, of groups, and of the broker, which override its static
ones. The catalogue stores them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headgate.domain.settings import BROKER_SETTINGS, Settings
from headgate.topics.catalogue import Catalogue, Event
from headgate.topics.configs import check

logger = logging.getLogger(__name__)


class SettingsChange(NamedTuple):
    """A change of the overrides of a topic, a group or a broker."""

    event: Event | None
    """The record of the change; None if the overrides are the same already."""
    when_made: Callable[[], None] = lambda: None
    """Called after the change is durable."""


def apply_changed_settings(settings: Settings, catalogue: Catalogue) -> None:
    """Apply the changed settings of the catalogue; skip those that this version refuses."""
    changed = catalogue.broker_overrides
    settings.change(_fit(changed.get("", {})), _fit(changed.get(str(settings["node.id"]), {})))


def _fit(overrides: Mapping[str, str]) -> Mapping[str, str]:
    fit = {}
    for name, text in overrides.items():
        refusal = check(BROKER_SETTINGS, {name: text})
        if refusal is None:
            fit[name] = text
        else:
            logger.warning("a changed setting was ignored", extra={"reason": refusal.message})
    return fit
