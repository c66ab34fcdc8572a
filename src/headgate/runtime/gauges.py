"""Gauges and counters for Prometheus, from rows of values."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric


def gauge(
    name: str, text: str, rows: Iterable[tuple[tuple[str, ...], float]], labels: tuple[str, ...] = ()
) -> Metric:
    """Make a gauge with one value for each row of label values."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def counter(
    name: str, text: str, rows: Iterable[tuple[tuple[str, ...], float]], labels: tuple[str, ...]
) -> Metric:
    """Make a counter with one value for each row of label values."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family
