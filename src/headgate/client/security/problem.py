"""The error of properties that cannot be used."""

from __future__ import annotations


class SecurityProblem(ValueError):
    """Properties, or a file that they name, cannot be used. The message names the culprit and a remedy."""
