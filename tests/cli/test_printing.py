"""Tables on terminals of different kinds."""

from __future__ import annotations

import sys

import pytest

from headgate.cli.printing import has_escapes, print_table


def test_wide_letters_take_two_places_and_combining_ones_none(capsys: pytest.CaptureFixture[str]) -> None:
    """So that the columns after them are aligned."""
    names = ["注文", "e\u0301té", "plain"]
    print_table([{"group": name, "lag": 7} for name in names], ("group", "lag"))
    _, *lines = capsys.readouterr().out.splitlines()
    assert lines == ["注文  7", "e\u0301té   7", "plain 7"]


@pytest.mark.parametrize(
    ("environment", "heading"),
    [
        ({"TERM": "xterm"}, "\x1b[1mGROUP\x1b[0m"),
        ({"TERM": "dumb"}, "GROUP"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "GROUP"),
    ],
)
def test_a_terminal_gets_only_what_it_knows(
    environment: dict[str, str],
    heading: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Bold text, unless it is dumb, or the user wants none."""
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table([{"group": "billing"}], ("group",))
    assert capsys.readouterr().out.splitlines() == [heading, "billing"]
    assert has_escapes() == (environment["TERM"] != "dumb")
