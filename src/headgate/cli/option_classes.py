"""Commands whose options are the fields of a dataclass, which they get as one value; directories."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import typer

OptionsT = TypeVar("OptionsT")


def directory(text: str) -> Path:
    """Return the path of a directory that an option names; an empty one would be the working directory."""
    if not text:
        raise typer.BadParameter("a directory is expected, not an empty text")
    return Path(text)


def takes_options(
    options: type[OptionsT],
) -> Callable[[Callable[[OptionsT], None]], Callable[..., None]]:
    """Make a command for Typer of a function of an options object: each field becomes a parameter.

    A field is annotated as a parameter of Typer is; one without a default is required.
    """

    def decorated(command: Callable[[OptionsT], None]) -> Callable[..., None]:
        def taking_each(**given: Any) -> None:
            command(options(**given))

        return _as(command, taking_each, _parameters(options))

    return decorated


def takes_context_and_options(
    options: type[OptionsT],
) -> Callable[[Callable[[typer.Context, OptionsT], None]], Callable[..., None]]:
    """Do the same for a function of Typer's context and an options object."""

    def decorated(command: Callable[[typer.Context, OptionsT], None]) -> Callable[..., None]:
        def taking_each(context: typer.Context, **given: Any) -> None:
            command(context, options(**given))

        context = inspect.Parameter(
            "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
        )
        return _as(command, taking_each, [context, *_parameters(options)])

    return decorated


def _as(
    command: Callable[..., None], taking_each: Callable[..., None], parameters: list[inspect.Parameter]
) -> Callable[..., None]:
    taking_each.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    taking_each.__name__, taking_each.__doc__ = command.__name__, command.__doc__
    return taking_each


def _parameters(options: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(options, include_extras=True)
    return [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=_default(each), annotation=hints[each.name]
        )
        for each in fields(options)
    ]


def _default(option: Field[Any]) -> Any:
    if option.default is not MISSING:
        return option.default
    return inspect.Parameter.empty if option.default_factory is MISSING else option.default_factory()
