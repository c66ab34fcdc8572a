"""`headgate settings`: all settings with default and meaning."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from headgate.domain.settings import BROKER_SETTINGS, TOPIC_SETTINGS, Setting


def settings(
    topic: Annotated[
        bool, typer.Option("--topic", help="The settings of a topic instead of the broker's.")
    ] = False,
    output: Annotated[str, typer.Option(help="table or json.")] = "table",
) -> None:
    """List all settings with default and meaning."""
    table = TOPIC_SETTINGS if topic else BROKER_SETTINGS
    if output == "json":
        typer.echo(json.dumps([_as_json(setting) for setting in table.values()], indent=2))
        return
    if output != "table":
        typer.echo(f"headgate: --output {output}: table or json is expected", err=True)
        raise typer.Exit(2)
    from rich.console import Console  # imported here, because `serve` does not need it
    from rich.table import Table

    grid = Table(
        "setting", "default", "meaning", title="Settings of a topic" if topic else "Settings of the broker"
    )
    for setting in table.values():
        default = "-" if setting.default is None else setting.format(setting.default)
        grid.add_row(setting.name, default, setting.doc)
    Console().print(grid)


def _as_json(setting: Setting) -> dict[str, object]:
    return {
        "name": setting.name,
        "type": setting.kind.name.lower(),
        "default": None if setting.default is None else setting.format(setting.default),
        "choices": list(setting.choices),
        "doc": setting.doc,
    }
