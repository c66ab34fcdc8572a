"""The error of an invalid command line."""

from __future__ import annotations


class UsageProblem(Exception):
    """An invalid command line. The message says what is expected."""
