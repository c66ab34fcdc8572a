"""Metrics of the process: version, start time, memory, processor time, open files."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import Metric

from headgate import __version__
from headgate.compiled import is_compiled
from headgate.runtime.gauges import gauge

_PROCESS = ProcessCollector(registry=None)


def process_gauges() -> Iterator[Metric]:
    """Yield the metrics. Those of the process have the names that Prometheus gives them everywhere."""
    labels = (__version__, platform.python_version(), str(is_compiled()).lower())
    yield gauge(
        "headgate_build_info",
        "1, with the version, that of Python, and whether modules are compiled.",
        [(labels, 1)],
        ("version", "python", "compiled"),
    )
    yield from _PROCESS.collect()
