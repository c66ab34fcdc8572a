"""Frames in pieces: long byte strings are sent from where they are, without a copy of them in the frame.

The responses of fetches are records, up to megabytes of them. Each copy takes as long as reading them, and
longer where it needs new pages.
"""

from __future__ import annotations

from typing import Final

LONG_BYTES: Final = 64 * 1024
"""Records of this length or more are a piece of their own, in a buffer with `apart`."""


class FrameBuffer(bytearray):
    """A buffer that a message is written to, except for its long byte strings, which it keeps apart."""

    __slots__ = ("apart",)

    def __init__(self, start: bytes) -> None:
        super().__init__(start)
        self.apart: list[tuple[int, bytes]] = []
        """The long byte strings, each with its position among the other bytes of the message; ascending."""

    def put_apart(self, content: bytes) -> None:
        """Append a byte string without a copy of it."""
        self.apart.append((len(self), content))

    @property
    def size(self) -> int:
        """In bytes, with everything that is kept apart."""
        return len(self) + sum(len(content) for _, content in self.apart)

    def frame(self) -> bytes | LongFrame:
        """Return what was written: in one piece if nothing is kept apart."""
        if not self.apart:
            return bytes(self)
        pieces: list[bytes | bytearray] = []
        written = 0
        for position, content in self.apart:
            if position > written:
                pieces.append(bytes(self[written:position]))
            pieces.append(content)
            written = position
        if written < len(self):
            pieces.append(bytes(self[written:]))
        return LongFrame(pieces)


class LongFrame:
    """One or more encoded frames in pieces, none of them empty."""

    __slots__ = ("_size", "pieces")

    def __init__(self, pieces: list[bytes | bytearray]) -> None:
        self.pieces = pieces
        self._size = sum(map(len, pieces))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)


Frames = bytes | bytearray | LongFrame
"""One or more encoded frames."""


def joined(frames: list[Frames]) -> Frames:
    """Return several frames as one value; in one piece if each of them is."""
    if any(type(frame) is LongFrame for frame in frames):
        pieces: list[bytes | bytearray] = []
        for frame in frames:
            if isinstance(frame, LongFrame):
                pieces += frame.pieces
            elif frame:
                pieces.append(frame)
        return LongFrame(pieces)
    return b"".join(frame for frame in frames if not isinstance(frame, LongFrame))
