"""The router's own metrics, in Prometheus' text format, read from the circle at each scrape."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bimetal.breaker.breaker import NEW, State
from bimetal.circle.circle import Circle
from bimetal.xds.server import DiscoveryService


class CircleCollector(Collector):
    """Turns the circle's state into metrics; holds no counters of its own."""

    def __init__(self, circle: Circle, discovery: DiscoveryService) -> None:
        self._circle = circle
        self._discovery = discovery

    def collect(self) -> Iterator[Metric]:
        """All families, read from the circle at each scrape."""
        yield self._reachable()
        yield self._breakers()
        yield self._shares()
        planes = GaugeMetricFamily("bimetal_data_planes", "Connected data planes", labels=["kind"])
        for plane, count in self._discovery.connected().items():
            planes.add_metric([plane.value], count)
        yield planes
        yield GaugeMetricFamily(
            "bimetal_xds_rejections", "Updates that a data plane rejected", value=self._discovery.rejections
        )
        yield self._tries()
        yield CounterMetricFamily(
            "bimetal_access_log_entries", "Entries of the gateways' access logs", value=self._circle.tally.entries
        )
        yield GaugeMetricFamily("bimetal_store_up", "1 if the last write succeeded", value=self._store_up())

    def _reachable(self) -> Metric:
        family = GaugeMetricFamily("bimetal_backend_reachable", "1 if the last probe was answered", labels=["backend"])
        for name, observation in self._circle.state.observations.items():
            family.add_metric([name], float(observation.reachable))
        return family

    def _breakers(self) -> Metric:
        family = GaugeMetricFamily("bimetal_breaker_state", "1 for the current state", labels=["backend", "state"])
        for backend in self._circle.fleet.backends:
            now = self._circle.breakers.get(backend.name, NEW).state
            for state in State:
                family.add_metric([backend.name, state.value], float(state is now))
        return family

    def _shares(self) -> Metric:
        family = GaugeMetricFamily("bimetal_share", "Share of a model's traffic, 0..1", labels=["model", "backend"])
        for route in self._circle.table.routes.values():
            for backend, share in route.shares.items():
                family.add_metric([route.model, backend], share)
        return family

    def _tries(self) -> Metric:
        family = CounterMetricFamily(
            "bimetal_tries", "Tries by what they meant for the breaker of their backend", labels=["backend", "effect"]
        )
        for (backend, effect), count in self._circle.tally.counts.items():
            family.add_metric([backend, effect.value], count)
        return family

    def _store_up(self) -> float:
        return float(self._circle.store_error is None)


def render(collector: CircleCollector) -> bytes:
    """A scrape in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)
