"""`headgate settings`: all settings with type, default, range and meaning."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from headgate.cli.connecting import Output, check_output
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.group_settings import GROUP_SETTINGS
from headgate.domain.settings import BROKER_SETTINGS, TOPIC_SETTINGS, Setting

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
    from rich.markup import escape
    from rich.table import Table  # imported here, because `serve` does not need it

    from headgate.cli.printing import output_console, print_csv

    if output == "csv":
        rows = map(_as_json, table.values())
        print_csv(({**row, "choices": ",".join(row["choices"])} for row in rows), _COLUMNS)
        return

    grid = Table("setting", "type", "default", "range", "meaning", title=f"Settings of {whose}")
    for setting in table.values():
        row = _as_json(setting)
        shown = [row["name"], row["type"], row["default"], row["range"] or ", ".join(setting.choices)]
        grid.add_row(*("-" if one in (None, "") else escape(one) for one in shown), escape(_meaning(setting)))
    output_console().print(grid)


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
