"""`headgate settings` on a terminal and in a pipe."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from typer.testing import CliRunner

from headgate.cli import app
from headgate.domain.group_settings import GROUP_SETTINGS
from headgate.domain.settings import BROKER_SETTINGS, TOPIC_SETTINGS

TERMINAL = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}


@pytest.mark.parametrize("environment", [TERMINAL, {}], ids=["terminal", "pipe"])
@pytest.mark.parametrize(
    ("option", "settings"),
    [([], BROKER_SETTINGS), (["--topic"], TOPIC_SETTINGS), (["--group"], GROUP_SETTINGS)],
    ids=["broker", "topic", "group"],
)
def test_no_name_is_cut(
    option: list[str], settings: Mapping[str, object], environment: dict[str, str]
) -> None:
    """They are to be copied into a file, or into --set."""
    shown = CliRunner().invoke(app, ["settings", *option], env=environment, color=True).stdout
    assert ("┃" in shown) == (environment != TERMINAL)
    lines = re.sub("\x1b\\[\\d*m|│", "", shown).splitlines()
    assert set(settings) <= {words[0] for line in lines if (words := line.split())}
    assert "…" not in shown
