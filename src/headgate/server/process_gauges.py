"""Metrics of the process: version, start time, memory, processor time, open files, space on its disk."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import Metric

from headgate.log.filesystem import space_of
from headgate.runtime.gauges import gauge

_PROCESS = ProcessCollector(registry=None)


@dataclass(frozen=True, slots=True)
class Build:
    """The version of Headgate that runs."""

    version: str
    is_compiled: bool
    """Whether its modules are compiled."""


def process_gauges(build: Build, data_dir: Path) -> Callable[[], Iterator[Metric]]:
    """Return what yields the metrics. Those of the process have the names that Prometheus gives them."""

    def read() -> Iterator[Metric]:
        labels = (build.version, platform.python_version(), str(build.is_compiled).lower())
        yield gauge(
            "headgate_build_info",
            "1, with the version, that of Python, and whether modules are compiled.",
            [(labels, 1)],
            ("version", "python", "compiled"),
        )
        total, free = space_of(data_dir)
        if total > 0:
            yield gauge(
                "headgate_disk_bytes", "Size of the file system of the data directory.", [((), total)]
            )
            yield gauge(
                "headgate_disk_free_bytes",
                "Bytes of this file system that the server can still write.",
                [((), free)],
            )
        yield from _PROCESS.collect()

    return read
