"""Helpers of the command's tests: they call the command and parse its output."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from typer.testing import Result

from headgate.client.connection import Connection
from headgate.wire.extensions import EXTENSIONS

Command = Callable[..., Result]
START_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z


def rows(result: Result) -> list[list[str]]:
    """Return the lines of a table, with the heading."""
    assert result.exit_code == 0, result.stderr
    return [line.split() for line in result.stdout.splitlines()]


def committed(command: Command, group: str) -> dict[int, int]:
    """Return the group's committed offsets by partition."""
    (described,) = json.loads(command("--describe", "--group", group, "--output", "json").stdout)["groups"]
    return {each["partition"]: each["current_offset"] for each in described["offsets"]}


def hide_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command see a server that has no API of Headgate's own, as Kafka."""
    ask_versions = Connection._ask_versions

    def kafkas(connection: Connection) -> tuple[dict[int, tuple[int, int]], frozenset[str]]:
        versions, features = ask_versions(connection)
        return {key: each for key, each in versions.items() if key not in EXTENSIONS}, features

    monkeypatch.setattr(Connection, "_ask_versions", kafkas)
