"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(text: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar during the block, for more than one step; what the block gets advances it by a step."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    is_hidden = total < 2 or not console.is_terminal
    with Progress(console=console, transient=True, disable=is_hidden) as progress:
        task = progress.add_task(text, total=total)
        yield lambda: progress.advance(task)
