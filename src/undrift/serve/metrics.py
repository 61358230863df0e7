"""Metrics of a service for Prometheus: how much, how fast, how well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from undrift.events import EventKind
from undrift.serve.service import Service

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)


class ServiceMetrics:
    """Counters of what was asked, and gauges read from the service when someone looks."""

    def __init__(self, service: Service) -> None:
        self._service, self._registry = service, CollectorRegistry()
        self.refused = Counter("undrift_refused_requests", "Requests refused with a sentence.", registry=self._registry)
        self._seconds = Histogram(
            "undrift_request_seconds", "Seconds in the service.", ["what"], buckets=_SECONDS, registry=self._registry
        )
        self._events = Gauge("undrift_events", "Changes told so far.", ["kind"], registry=self._registry)
        self._gauges = {
            name: Gauge(f"undrift_{name}", text, registry=self._registry)
            for name, text in {
                "rounds": "Labels learned so far.",
                "waiting": "Rows that wait for their label.",
                "entries": "Entries of the journal so far.",
                "keys": "Keys that have a model; 1 where there are no keys.",
                "loaded": "Models in memory.",
                "half_life": "Memory length below which half of the weight lies, in rounds; 0: it never forgets.",
                "rmse": "Root mean square error of the last rounds.",
                "mae": "Mean absolute error of the last rounds.",
                "log_loss": "Log-loss of the last rounds.",
                "accuracy": "Part of the last rounds in which the likelier label came.",
                "coverage": "Part of the last labels inside their interval.",
            }.items()
        }

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

    def text(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        self._count_events()
        facts = {"keys": 1, "loaded": 1, **self._service.facts()}
        for name, gauge in self._gauges.items():
            if name in facts:
                gauge.set(facts[name] or 0.0)
        return generate_latest(self._registry)
