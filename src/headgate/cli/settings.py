"""`headgate settings`: all settings with default and meaning."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from headgate.cli.connecting import Output, check_output
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.settings import BROKER_SETTINGS, TOPIC_SETTINGS, Setting

_COLUMNS = ("name", "type", "default", "choices", "doc")


def settings(
    topic: Annotated[
        bool, typer.Option("--topic", help="The settings of a topic instead of the broker's.")
    ] = False,
    output: Output = "table",
) -> None:
    """List all settings with default and meaning."""
    table = TOPIC_SETTINGS if topic else BROKER_SETTINGS
    if output == "json":
        typer.echo(json.dumps([_as_json(setting) for setting in table.values()], indent=2))
        return
    try:
        check_output(output)
    except UsageProblem as problem:
        typer.echo(f"headgate: {problem}", err=True)
        raise typer.Exit(2) from problem
    from rich.table import Table  # imported here, because `serve` does not need it

    from headgate.cli.printing import output_console, print_csv

    if output == "csv":
        rows = map(_as_json, table.values())
        print_csv(({**row, "choices": ",".join(row["choices"])} for row in rows), _COLUMNS)
        return

    grid = Table(
        "setting", "default", "meaning", title="Settings of a topic" if topic else "Settings of the broker"
    )
    for setting in table.values():
        default = "-" if setting.default is None else setting.format(setting.default)
        grid.add_row(setting.name, default, setting.doc)
    output_console().print(grid)


def _as_json(setting: Setting) -> dict[str, Any]:
    return {
        "name": setting.name,
        "type": setting.kind.name.lower(),
        "default": None if setting.default is None else setting.format(setting.default),
        "choices": list(setting.choices),
        "doc": setting.doc,
    }
