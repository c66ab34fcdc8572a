"""What one run of a measure is given, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class MeasureFailed(RuntimeError):
    """A run that gave no figure, or one that must not be trusted; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how much one run measures."""

    seconds: float
    warm_up_seconds: float
    records: int


@dataclass(frozen=True, slots=True)
class Figure:
    """What one run found: the figure itself, in the measure's unit, and latencies where they are known."""

    value: float
    processor_us: float | None = None
    """What one request, offset, record or assignment cost in processor time, threads added up."""
    p50_ms: float | None = None
    p99_ms: float | None = None


class Measured:
    """What measures have in common unless they say otherwise."""

    __slots__ = ()
    is_cost: ClassVar[bool] = False
    """Whether less is better."""
    is_taken_once: ClassVar[bool] = False
    """Whether one round tells as much as many."""
    is_burden: ClassVar[bool] = False
    """Whether a broker has more to carry after it, so that it had better come last."""
