"""Words for numbers and for mistyped names in messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

_MOST_ASKED = 3


def counted(count: int, noun: str, several: str | None = None) -> str:
    """Return a number with its noun, such as `1 topic`, `2,000 topics`; `several` is an irregular plural."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def some_of(texts: Iterable[str], count: int, most: int = 3) -> str:
    """Return the first of `count` texts, and how many more there are."""
    rest = count - most
    return ", ".join(islice(texts, most)) + (f" and {rest} more" if rest > 0 else "")


def did_you_mean(
    name: str, known: Iterable[str], *, likeness: float = 0.6, asks_for_endings: bool = False
) -> str | None:
    """Return the question for the most similar known name; None if none is alike.

    `likeness`: how similar at least, from 0 to 1. With `asks_for_endings`, names that have the whole name as
    their end come first, such as `consumer.session.timeout.ms` and `share.session.timeout.ms` for
    `session.timeout.ms`.
    """
    names = list(known)
    longer = sorted(one for one in names if asks_for_endings and name and one.endswith(f".{name}"))
    near = longer[:_MOST_ASKED] or difflib.get_close_matches(name, names, n=1, cutoff=likeness)
    return f"did you mean {' or '.join(near)}?" if near else None
