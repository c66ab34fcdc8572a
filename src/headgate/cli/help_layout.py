"""The layout of the help: names of options are never cut, and flags have no type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Column, Table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

_NAMES = 2
"""The first columns of options: short and long names, or an asterisk and long ones."""
_WIDE = 70
"""Columns of a terminal from which names are not broken. Narrower ones need the place for descriptions."""


def write_help(command: Any, context: Any, formatter: Any) -> None:
    """Print the help of a command with Typer, whose own tables cut names."""
    from typer import rich_utils

    rich_utils.Table = _Folding  # type: ignore[attr-defined]
    for option in command.get_params(context):
        if getattr(option, "is_flag", False):
            option.metavar = ""  # a reader of `--list <bool>` would write `--list true`
    type(command).format_help(command, context, formatter)


class _Folding(Table):
    """A table of the help. Options have no columns before their first row; those of commands are kept."""

    def __init__(self, *headers: Any, **more: Any) -> None:
        super().__init__(*headers, **more)
        self._names: list[Column] = []

    def add_row(self, *cells: RenderableType | None, **more: Any) -> None:
        if not self.columns:
            for _ in cells:
                self.add_column(overflow="fold")
            self._names = self.columns[:_NAMES]
        super().add_row(*cells, **more)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for column in self._names:
            column.no_wrap = options.max_width >= _WIDE
        return super().__rich_console__(console, options)
