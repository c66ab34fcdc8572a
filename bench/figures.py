"""The input and the result of one run of a measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


class MeasureFailed(RuntimeError):
    """A run has no result, or one that is not reliable; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Duration and size of one run."""

    seconds: float
    warm_up_seconds: float
    records: int


@dataclass(frozen=True, slots=True)
class Figure:
    """Result of one run: the value, in the measure's unit, and latencies if they are known."""

    value: float
    processor_us: float | None = None
    """Processor time of one request, offset, record or assignment, of all threads."""
    p50_ms: float | None = None
    p99_ms: float | None = None


class Measured:
    """The defaults of all measures."""

    __slots__ = ()
    is_cost: ClassVar[bool] = False
    """True if a lower value is better."""
    is_taken_once: ClassVar[bool] = False
    """True if one round is enough."""
    is_burden: ClassVar[bool] = False
    """True if it leaves load on the broker, so that it should run last."""
