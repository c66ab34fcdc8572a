"""The settings that both brokers describe differ from each other as `docs/differences.md` says."""

from __future__ import annotations

from tests.differential.accepted import BROKER_SETTINGS_OF_OURS, FIXED_BROKER_SETTINGS, OTHER_DEFAULTS
from tests.differential.conftest import Run
from tests.differential.script import Side

from headgate.admin import Admin
from headgate.client.resource_configs import ConfigEntry, ConfigResource, ResourceType
from headgate.domain.broker_settings import SAID_ELSEWHERE

NOT_DESCRIBED_ALONE = frozenset(SAID_ELSEWHERE)
"""Their values are addresses and paths."""


def described(side: Side) -> dict[str, ConfigEntry]:
    """Return the settings of its only broker by name."""
    resource = ConfigResource(ResourceType.BROKER, "1")
    with Admin(f"{side.host}:{side.port}") as admin:
        return {one.name: one for one in admin.describe_configs([resource])[resource]}


def default(entry: ConfigEntry) -> str | None:
    """Return the value that a setting has if it is not given."""
    return next((one.value for one in entry.synonyms if one.source == "DEFAULT_CONFIG"), None)


def test_settings_of_brokers_differ_as_accepted(run: Run) -> None:
    """In their names, in whether they can be changed at run time, and in their defaults."""
    kafka, ours = described(run.kafka), described(run.headgate)
    both = kafka.keys() & ours.keys()
    assert ours.keys() - kafka.keys() == BROKER_SETTINGS_OF_OURS
    assert 90 < len(both) < 100 and 330 < len(kafka) < 350  # the page has these numbers
    differing = {name for name in both if kafka[name].is_read_only != ours[name].is_read_only}
    assert differing == FIXED_BROKER_SETTINGS
    assert all(ours[name].is_read_only for name in differing)
    defaults = {name: (default(kafka[name]), default(ours[name])) for name in both - NOT_DESCRIBED_ALONE}
    assert {
        name: (theirs, own) for name, (theirs, own) in defaults.items() if theirs != own
    } == OTHER_DEFAULTS
