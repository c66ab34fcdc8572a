"""What can be wrong with bytes that came in, or with a message that should go out."""

from __future__ import annotations


class WireError(Exception):
    """Base of what this room raises."""


class MalformedFrame(WireError):
    """A length that no frame can have: the stream cannot be followed any further."""


class OversizedFrame(WireError):
    """A frame longer than the reader was told to take."""


class MalformedMessage(WireError):
    """Bytes that are not the message they should be: truncated, a bad length, text that is not UTF-8."""


class UnwritableMessage(WireError):
    """A message that its version cannot carry: a null that may not be, a number too big."""
