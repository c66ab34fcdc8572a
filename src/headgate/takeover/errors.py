"""The error of an import that cannot be done."""

from __future__ import annotations


class ImportRefused(Exception):
    """The import was refused, and nothing was taken over; the message says why and what to do."""
