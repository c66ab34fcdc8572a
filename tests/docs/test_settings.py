"""What the documents say of the settings of brokers agrees with the settings that there are."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from tests.differential.accepted import BROKER_SETTINGS_OF_OURS, FIXED_BROKER_SETTINGS

from headgate.domain.broker_settings import LEFT_OUT, SAID_ELSEWHERE
from headgate.domain.settings import BROKER_SETTINGS, TOPIC_SETTINGS
from headgate.server.log_lines import AREAS

DOCS = Path(__file__).parents[2] / "docs"
PATTERN = re.compile(r"`([\w*]+(?:\.[\w*]+)+)`")
"""The name of a setting in code marks, also with `*` in it."""


def text_of(title: str) -> str:
    """Return an entry of the page of differences."""
    page = (DOCS / "differences.md").read_text().replace("\n  ", " ")
    (line,) = (one for one in page.splitlines() if one.startswith(f"* **{title}.**"))
    return line


def entry(title: str) -> list[str]:
    """Return the settings that an entry of the page of differences names."""
    return PATTERN.findall(text_of(title))


def rows() -> list[tuple[list[str], str]]:
    """Return the rows of the table for server.properties: the names of settings, and what is said of them."""
    text = (DOCS / "from-kafka.md").read_text()
    section = text.partition("## Settings of server.properties\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return [(PATTERN.findall(names), said) for names, said in lines[2:]]


def matching(pattern: str) -> list[str]:
    """Return the settings of the broker that a pattern of the table stands for."""
    return [name for name in BROKER_SETTINGS if fnmatchcase(name, pattern)]


def test_settings_that_are_said_not_to_exist_do_not() -> None:
    """Who takes over a server.properties leaves them out; one that exists would be lost."""
    (names,) = (names for names, said in rows() if said == "leave them out")
    absent = [*names, *entry("Most settings of Kafka's brokers")]
    exceptions = {"group.consumer.assignor.offload.enable", "group.consumer.regex.refresh.interval.ms"}
    assert exceptions < set(names)
    assert set(names) == set(LEFT_OUT), "a start with one of them says so"
    assert len(names) > 40 and [name for name in absent if matching(name) or name in SAID_ELSEWHERE] == []


def test_settings_that_are_said_to_have_the_same_name_exist() -> None:
    """A start with another one is refused."""
    (names,) = (names for names, said in rows() if said == "the same name")
    assert len(names) > 15 and [name for name in names if not matching(name)] == []
    (elsewhere,) = (names for names, said in rows() if said.startswith("`--listen`"))
    assert set(elsewhere) <= set(SAID_ELSEWHERE)


def test_settings_of_ours_are_named() -> None:
    """Those whose names do not tell it, one by one."""
    named = entry("Settings of its own")
    for name in BROKER_SETTINGS_OF_OURS:
        assert name.startswith("headgate.") or any(fnmatchcase(name, one) for one in named), name
    assert all(matching(name) for name in named)
    assert {name for name in BROKER_SETTINGS if name.startswith("headgate.")} < BROKER_SETTINGS_OF_OURS


def test_settings_that_only_kafka_changes_at_run_time_are_named() -> None:
    """And they are fixed here."""
    text = text_of("Some settings are read at the start only")
    assert [name for name in FIXED_BROKER_SETTINGS if f"`{name}`" not in text] == []
    assert not any(
        BROKER_SETTINGS[name].is_dynamic for name in FIXED_BROKER_SETTINGS if name in BROKER_SETTINGS
    )


def test_settings_of_topics_without_a_default_of_the_broker_are_named() -> None:
    """An alteration of such a default is refused."""
    alone = {name for name, setting in TOPIC_SETTINGS.items() if setting.broker_name is None}
    named = set(entry("`min.insync.replicas` is a setting of topics only")) | {"preallocate"}
    assert named <= alone and not named & set(BROKER_SETTINGS)


@pytest.mark.parametrize("area", AREAS)
def test_the_manual_names_every_area_of_the_log(area: str) -> None:
    """An area has a level of its own."""
    assert (
        f"`{area}`" in (DOCS / "manual.md").read_text().partition("`--log-level` is ")[2].partition("\n\n")[0]
    )
