"""Settings of the broker that were changed while it ran: kept in the catalogue, in force over the others."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from headgate.domain.settings import BROKER_SETTINGS, Settings
from headgate.topics.catalogue import Catalogue
from headgate.topics.configs import check

logger = logging.getLogger(__name__)


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
