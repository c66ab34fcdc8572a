"""Topics by regular expression: what a pattern may say, and which topics it means.

A consumer group's members may subscribe to every topic whose name a regular expression matches. Its rules:

1. The syntax is RE2's (https://github.com/google/re2/wiki/Syntax), as in Kafka, where RE2/J reads it. There
   are no back-references and no looking around, so a match takes time in proportion to the name and to the
   size of the compiled pattern: at worst 20 ns for each byte of the one and each instruction of the other.
   Most take a thousandth of that, but which ones do is known only afterwards.
2. A pattern must match a topic's whole name: `orders` means one topic, `orders.*` many.
3. A pattern that compiles to more than `MOST_INSTRUCTIONS` is refused, as one that is not well formed is: a
   single match could hold everybody else up.
"""

from __future__ import annotations

from dataclasses import dataclass

import re2

from headgate.domain.ids import TopicName

MOST_INSTRUCTIONS = 8_000
"""A list of some 300 names of usual length. The longest name is matched in 40 ms at worst."""

_MOST_MEMORY_BYTES = 256 << 10
"""Of the compiled pattern and of what RE2 remembers while it matches, together; a thousand may be kept."""


@dataclass(frozen=True, slots=True)
class InvalidPattern:
    """A text that is no regular expression: the reason, in RE2's words."""

    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.text!r} is not a valid regular expression: {self.reason}"


class TopicPattern:
    """A regular expression over topic names; made by `compile_pattern`."""

    __slots__ = ("_compiled", "instructions", "text")

    def __init__(self, text: str, options: re2.Options) -> None:
        self.text = text
        # Bytes are matched three times faster than text, which would be encoded and its offsets counted.
        self._compiled = re2.compile(text.encode(errors="surrogatepass"), options)
        self.instructions: int = self._compiled.programsize

    def steps(self, topic: TopicName) -> int:
        """The most steps that matching a name takes, of some 20 ns each."""
        return self.instructions * len(topic)

    def matches(self, topic: TopicName) -> bool:
        """Whether it matches the topic's whole name."""
        return self._compiled.fullmatch(topic.encode()) is not None


def compile_pattern(text: str) -> TopicPattern | InvalidPattern:
    """The pattern that a text stands for, or what is wrong with it."""
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
    """RE2's message, which the binding hands over as bytes."""
    message = error.args[0] if error.args else ""
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)
