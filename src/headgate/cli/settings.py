"""`headgate settings`: all settings with type, default, range and meaning."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli.connecting import Output, check_output
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.group_settings import GROUP_SETTINGS
from headgate.domain.settings import BROKER_SETTINGS, TOPIC_SETTINGS, Setting

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = ("name", "type", "default", "range", "choices", "broker_name", "doc")


def settings(
    topic: Annotated[
        bool, typer.Option("--topic", help="The settings of a topic instead of the broker's.")
    ] = False,
    group: Annotated[
        bool, typer.Option("--group", help="The settings of a group instead of the broker's.")
    ] = False,
    output: Output = "table",
) -> None:
    """List all settings with type, default, range and meaning.

    `headgate configs` shows and changes the values of a cluster.
    """
    try:
        check_output(output)
        if topic and group:
            raise UsageProblem("--topic and --group: one of them is expected")
    except UsageProblem as problem:
        typer.echo(f"headgate: {problem}", err=True)
        raise typer.Exit(2) from problem
    table, whose = (
        (TOPIC_SETTINGS, "a topic")
        if topic
        else (GROUP_SETTINGS, "a group")
        if group
        else (BROKER_SETTINGS, "the broker")
    )
    if output == "json":
        typer.echo(json.dumps([_as_json(setting) for setting in table.values()], indent=2))
        return
    from headgate.cli.printing import output_console, print_csv

    if output == "csv":
        rows = map(_as_json, table.values())
        print_csv(({**row, "choices": ",".join(row["choices"])} for row in rows), _COLUMNS)
        return

    console = output_console()
    if console.is_terminal:
        _print_blocks(console, table.values())
    else:
        _print_grid(console, table.values(), f"Settings of {whose}")


def _print_grid(console: Console, settings: Iterable[Setting], title: str) -> None:
    from rich.markup import escape
    from rich.table import Table

    grid = Table("setting", "type", "default", "range", "meaning", title=title)
    for setting in settings:
        name, *values = _cells(setting)
        grid.add_row(name, *(escape(one or "-") for one in values), escape(_meaning(setting)))
    console.print(grid)


def _print_blocks(console: Console, settings: Iterable[Setting]) -> None:
    """Print a line for the name and the values, and the meaning below: a table would cut names."""
    from rich.padding import Padding
    from rich.text import Text

    for setting in settings:
        name, kind, default, values = _cells(setting)
        if setting.choices:
            values = f"one of {values}"
        details = ", ".join(one for one in (kind, values, default and f"default {default}") if one)
        console.print(Text.assemble((name, "bold"), f"  {details}"))
        console.print(Padding(Text(_meaning(setting)), (0, 0, 0, 4)))


def _cells(setting: Setting) -> tuple[str, str, str, str]:
    """Return name, type, default, and range or choices; what there is not is empty."""
    row = _as_json(setting)
    return row["name"], row["type"], row["default"] or "", row["range"] or ", ".join(setting.choices)


def _meaning(setting: Setting) -> str:
    """Return what it does, and the broker's setting that is its default."""
    if setting.broker_name in (None, setting.name):
        return setting.doc
    return f"{setting.doc} The default is the broker's {setting.broker_name}."


def _as_json(setting: Setting) -> dict[str, Any]:
    return {
        "name": setting.name,
        "type": setting.kind.name.lower(),
        "default": None if setting.default is None else setting.format(setting.default),
        "range": setting.range_text,
        "choices": list(setting.choices),
        "broker_name": setting.broker_name,
        "doc": setting.doc,
    }
