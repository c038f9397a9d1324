"""What the service tells Prometheus: numbers by route and status, and nothing of what was in a request."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_METHODS = frozenset({"GET", "PUT", "POST", "DELETE"})
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class Metrics:
    """Counters of one service, apart from any other in the process."""

    def __init__(self, audit_lines: Callable[[], float], body_bytes: Callable[[], float]) -> None:
        """Begin at zero; the two functions tell what waits."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "shoal_agency_requests", "Requests answered.", ["method", "route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "shoal_agency_request_seconds",
            "Time until the answer began.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._under_way = Gauge("shoal_agency_requests_under_way", "Requests under way.", registry=self._registry)
        waiting = Gauge("shoal_agency_audit_lines_waiting", "Lines of the audit log not yet written.", registry=None)
        waiting.set_function(audit_lines)
        held = Gauge("shoal_agency_body_bytes", "Bytes of bodies in memory.", registry=None)
        held.set_function(body_bytes)
        self._registry.register(waiting)
        self._registry.register(held)
        self._kept: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def begin(self) -> None:
        """A request came."""
        self._under_way.inc()

    def end(self, method: str, route: str, status: int, seconds: float) -> None:
        """It was answered; routes are templates, so their number is bounded."""
        self._under_way.dec()
        known = method if method in _METHODS else "other"
        key = (known, route, status)
        found = self._kept.get(key)
        if found is None:
            found = self._requests.labels(known, route, str(status)), self._seconds.labels(known, route)
            self._kept[key] = found
        found[0].inc()
        found[1].observe(seconds)

    def text(self) -> bytes:
        """Return all numbers in Prometheus' form."""
        return generate_latest(self._registry)
