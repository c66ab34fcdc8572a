"""The server's counters, and their export to Prometheus.

Counting in the path of a request is plain integer arithmetic. The Prometheus objects are made at a scrape.
Gauges of other parts (groups, offsets, log bytes) are read at the scrape, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headgate.server.error_counts import ErrorCounts

LATENCY_BOUNDS_SECONDS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.5,
    1,
    5,
    30,
)


_WAIT_FOR_MEMBERS = (11, 14)
"""JoinGroup and SyncGroup: they are answered when the rebalance is complete."""


@dataclass(slots=True)
class Histogram:
    """Durations in seconds, counted by bucket; the last bucket counts those above every bound."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_SECONDS) + 1))
    total_seconds: float = 0.0

    def observe(self, seconds: float, count: int = 1) -> None:
        """Count `count` durations of `seconds` each."""
        self.counts[bisect_left(LATENCY_BOUNDS_SECONDS, seconds)] += count
        self.total_seconds += seconds * count

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative counts by upper bound, as Prometheus expects them."""
        cumulative = 0
        rows: list[tuple[str, float]] = []
        for bound, count in zip([*map(str, LATENCY_BOUNDS_SECONDS), "+Inf"], self.counts, strict=True):
            cumulative += count
            rows.append((bound, cumulative))
        return rows


class Metrics(Collector):
    """The server's counters, a Prometheus collector of metrics named `headgate_...`."""

    def __init__(self, api_names: Mapping[int, str]) -> None:
        self._api_names = api_names
        self._requests = {key: Histogram() for key in api_names}
        self._waited = {key: Histogram() for key in api_names}
        self._errors = ErrorCounts()
        self._syncs = Histogram()
        self._gauges: list[Callable[[], Iterable[Metric | None]]] = []
        self.connections_opened = 0
        self.connections_refused = 0
        self.connections_rejected = 0

    def observe_request(self, api_key: int, seconds: float) -> None:
        """Count one answered request and the seconds from its frame to its response."""
        self._requests[api_key].observe(seconds)

    def observe_waited(self, api_key: int, seconds: float) -> None:
        """Count one answered request that waited on purpose, as for records to fetch."""
        self._waited[api_key].observe(seconds)

    def count_errors(self, api_key: int, response: object) -> None:
        """Count the error codes in a response."""
        self._errors.count(api_key, response)

    def observe_requests(self, api_key: int, seconds: float, count: int) -> None:
        """Count `count` requests that were answered together, each after `seconds`."""
        self._requests[api_key].observe(seconds, count)

    def observe_sync(self, seconds: float) -> None:
        """Count one round of syncs."""
        self._syncs.observe(seconds)

    def add_gauges(self, read: Callable[[], Iterable[Metric | None]]) -> None:
        """Read more metrics from `read` at every scrape. It yields None where a slice may end."""
        self._gauges.append(read)

    def collect(self) -> Iterator[Metric]:
        """Return all metrics at once. Call it on the loop's thread."""
        for metric in self.steps():
            if metric is not None:
                yield metric

    def steps(self) -> Iterator[Metric | None]:
        """Yield all metrics in small steps, and None where a slice may end."""
        latency = HistogramMetricFamily(
            "headgate_request_seconds",
            "From a request's frame to its response. Requests that waited on purpose are apart: fetches for "
            "records, JoinGroup and SyncGroup for other members.",
            labels=["api", "waited"],
        )
        for key in self._requests:
            for waited, histogram in (("false", self._requests[key]), ("true", self._waited[key])):
                if any(histogram.counts):
                    labels = [self._api_names[key], "true" if key in _WAIT_FOR_MEMBERS else waited]
                    latency.add_metric(labels, histogram.buckets(), histogram.total_seconds)
        yield latency
        errors = CounterMetricFamily(
            "headgate_response_errors", "Error codes in responses.", labels=["api", "error"]
        )
        for (key, error), count in self._errors.by_api_and_code():
            errors.add_metric([self._api_names[key], error], count)
        yield errors
        sync = HistogramMetricFamily("headgate_sync_seconds", "Rounds of syncs of the logs to disk.")
        sync.add_metric([], self._syncs.buckets(), self._syncs.total_seconds)
        yield sync
        yield CounterMetricFamily(
            "headgate_connections_opened", "Connections accepted.", value=self.connections_opened
        )
        yield CounterMetricFamily(
            "headgate_connections_refused",
            "Connections closed for what was sent over them.",
            value=self.connections_refused,
        )
        yield CounterMetricFamily(
            "headgate_connections_rejected",
            "Connections closed because of max.connections.per.ip, or for lack of file descriptors.",
            value=self.connections_rejected,
        )
        for read in self._gauges:
            yield from read()
