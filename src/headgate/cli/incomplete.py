"""What to say when an answer about many groups is incomplete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from headgate.admin.survey import Surveyor
    from headgate.client.errors import ClientError

KeyT = TypeVar("KeyT")

_NAMED = 3


def gaps(surveyor: Surveyor) -> Iterator[str]:
    """Yield a sentence for each reason why groups or ends of partitions are missing."""
    from headgate.cli.advice import in_words

    for error in surveyor.unlisted:
        yield f"groups are missing: {in_words(error)}"
    for names, error in _by_reason(surveyor.failed):
        yield f"{_count(names, 'group')} missing ({_some(names)}): {in_words(error)}"
    for names, error in _by_reason(surveyor.unknown_ends):
        yield f"{without_known_end(names)}: {in_words(error)}"


def told_gaps(surveyor: Surveyor) -> bool:
    """Say these sentences. Return whether there are any."""
    from headgate.cli.printing import say

    sentences = list(gaps(surveyor))
    for sentence in sentences:
        say(sentence)
    return bool(sentences)


def without_known_end(partitions: list[str]) -> str:
    """Return how many partitions have no known end, and the first of them."""
    return f"{_count(partitions, 'partition')} without a known end ({_some(partitions)})"


def _by_reason(failed: Mapping[KeyT, ClientError]) -> Iterable[tuple[list[str], ClientError]]:
    """Return the names with each reason: the code of a refusal, the text of other errors."""
    from headgate.client.errors import RequestRefused

    found: dict[object, tuple[list[str], ClientError]] = {}
    for key, error in failed.items():
        reason = error.code if isinstance(error, RequestRefused) else str(error)
        found.setdefault(reason, ([], error))[0].append(str(key))
    return found.values()


def _count(names: list[str], noun: str) -> str:
    return f"1 {noun} is" if len(names) == 1 else f"{len(names)} {noun}s are"


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
