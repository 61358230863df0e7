"""Metrics of a service for Prometheus: how much, how fast, how well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from undrift.events import EventKind
from undrift.run.service.recent import KEPT_ROUNDS
from undrift.run.service.service import Service

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)


GAUGES = {
    "healthy": "1, or 0 while something failed; /health has the sentence.",
    "rounds": "Labels learned so far.",
    "waiting": "Rows that wait for their label.",
    "entries": "Entries of the journal so far.",
    "keys": "Keys that have a model.",
    "loaded": "Models of keys in memory.",
    "half_life": "Memory length below which half of the weight lies, in rounds; absent: it never forgets.",
    "rmse": f"Root mean square error of the last {KEPT_ROUNDS} rounds.",
    "mae": f"Mean absolute error of the last {KEPT_ROUNDS} rounds.",
    "log_loss": f"Log-loss of the last {KEPT_ROUNDS} rounds.",
    "accuracy": f"Part of the last {KEPT_ROUNDS} rounds in which the likelier label came.",
    "average_precision": f"Average precision of the positive label over the last {KEPT_ROUNDS} rounds; of several "
    "classes, its mean over those that came.",
    "coverage": f"Part of the last {KEPT_ROUNDS} labels inside their interval.",
}
"""Numbers of `Service.facts` that are shown, where there are any."""


class ServiceMetrics(Collector):
    """Counters of what was asked, and gauges read from the service when someone looks."""

    def __init__(self, service: Service) -> None:
        self._service, self._registry = service, CollectorRegistry()
        self.refused = Counter("undrift_refused_requests", "Requests refused with a sentence.", registry=self._registry)
        self._seconds = Histogram(
            "undrift_request_seconds", "Seconds in the service.", ["what"], buckets=_SECONDS, registry=self._registry
        )
        self._events = Gauge("undrift_events", "Changes told so far.", ["kind"], registry=self._registry)
        self._registry.register(self)

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        """Measure how long a request takes in the service."""
        began = perf_counter()
        yield
        self._seconds.labels(what).observe(perf_counter() - began)

    def _count_events(self) -> None:
        """Set the gauges of events, which the service counts by itself."""
        for kind in EventKind:
            self._events.labels(str(kind)).set(self._service.event_counts[kind])

    def collect(self) -> Iterator[Metric]:
        """Yield a gauge for each number that there is: before the first round, an error is absent and not 0."""
        facts = {**self._service.facts(), "healthy": float(self._service.failure is None)}
        for name, text in GAUGES.items():
            if facts.get(name) is not None:
                yield GaugeMetricFamily(f"undrift_{name}", text, value=facts[name])

    def describe(self) -> Iterator[Metric]:
        """Name nothing in advance: what there is depends on the model."""
        return iter(())

    def text(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        self._count_events()
        return generate_latest(self._registry)
