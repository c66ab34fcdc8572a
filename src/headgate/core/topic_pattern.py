"""Regular expressions over topic names: their limits, and the topics they match.

The members of a consumer group may subscribe to every topic whose name a regular expression matches. Rules:

1. The syntax is RE2's (https://github.com/google/re2/wiki/Syntax), as in Kafka, which uses RE2/J. There are
   no back-references and no look-around, so the time of a match is proportional to the length of the name and
   to the size of the compiled pattern: at worst 20 ns per byte of the name and instruction of the pattern.
   Most take a thousandth of that, but which ones is known only afterwards.
2. A pattern must match a topic's whole name: `orders` matches one topic, `orders.*` many.
3. A pattern that compiles to more than `MOST_INSTRUCTIONS` is refused, like an invalid one: a single match
   could take too long.
"""

from __future__ import annotations

from dataclasses import dataclass

import re2

from headgate.domain.ids import TopicName

MOST_INSTRUCTIONS = 8_000
"""Enough for a list of some 300 names of usual length. The longest name is matched in 40 ms at worst."""

_MOST_MEMORY_BYTES = 256 << 10
"""For the compiled pattern and RE2's state while it matches, together; up to a thousand may be kept."""


@dataclass(frozen=True, slots=True)
class InvalidPattern:
    """A text that is not a valid regular expression, with RE2's reason."""

    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.text!r} is not a valid regular expression: {self.reason}"


class TopicPattern:
    """A regular expression over topic names; made by `compile_pattern`."""

    __slots__ = ("_compiled", "instructions", "text")

    def __init__(self, text: str, options: re2.Options) -> None:
        self.text = text
        # Bytes are matched three times faster than text, which would have to be encoded and its offsets
        # converted.
        self._compiled = re2.compile(text.encode(errors="surrogatepass"), options)
        self.instructions: int = self._compiled.programsize

    def steps(self, topic: TopicName) -> int:
        """Return the maximum number of steps of matching a name, of some 20 ns each."""
        return self.instructions * len(topic)

    def matches(self, topic: TopicName) -> bool:
        """Return whether it matches the topic's whole name."""
        return self._compiled.fullmatch(topic.encode()) is not None


def compile_pattern(text: str) -> TopicPattern | InvalidPattern:
    """Compile a pattern, or return why it is refused."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MOST_MEMORY_BYTES
    try:
        pattern = TopicPattern(text, options)
    except re2.error as error:
        return InvalidPattern(text, _reason(error))
    if pattern.instructions > MOST_INSTRUCTIONS:
        reason = f"it compiles to {pattern.instructions} instructions, the limit is {MOST_INSTRUCTIONS}; "
        return InvalidPattern(text, f"{reason}use fewer alternatives and repetitions")
    return pattern


def _reason(error: Exception) -> str:
    """Return RE2's message, which the binding passes as bytes."""
    message = error.args[0] if error.args else ""
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)
