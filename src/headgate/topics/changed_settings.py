"""Settings that are changed while the broker runs: of topics, of groups, and its own, which are in force over
those it was started with. The catalogue keeps them.
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
    """The settings that something has of its own from now on."""

    event: Event | None
    """None: they are what they were."""
    when_made: Callable[[], None] = lambda: None
    """What follows from it."""


def take_over_changes(settings: Settings, catalogue: Catalogue) -> None:
    """Put what was changed while a broker ran into the settings, but for what this version cannot take."""
    changed = catalogue.broker_overrides
    settings.change(_fit(changed.get("", {})), _fit(changed.get(str(settings["node.id"]), {})))


def _fit(overrides: Mapping[str, str]) -> Mapping[str, str]:
    fit = {}
    for name, text in overrides.items():
        refusal = check(BROKER_SETTINGS, {name: text})
        if refusal is None:
            fit[name] = text
        else:
            logger.warning("a changed setting is left out", extra={"reason": refusal.message})
    return fit
