"""The errors of received bytes and of messages that cannot be written."""

from __future__ import annotations


class WireError(Exception):
    """Base class of the errors of `headgate.wire`."""


class MalformedFrame(WireError):
    """An invalid frame length. The rest of the stream cannot be read."""


class OversizedFrame(WireError):
    """A frame longer than the reader's limit."""


class MalformedMessage(WireError):
    """Bytes that are not a valid message: truncated, with an invalid length, or with invalid UTF-8."""


class UnwritableMessage(WireError):
    """A message that its version cannot represent, for example with a number that is too large."""
