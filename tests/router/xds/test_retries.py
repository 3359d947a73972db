"""What the gateway asks twice, and what never."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from envoy.config.route.v3.route_components_pb2 import Route
from envoy.config.route.v3.route_pb2 import RouteConfiguration

from bimetal.fleet.schema import Fleet
from bimetal.policy.table import decide
from bimetal.state.fleet_state import FleetState
from bimetal.state.observation import Observation, ServedModel
from bimetal.xds import envoy
from bimetal.xds.snapshot import ROUTES

FleetOf = Callable[..., Fleet]
StateOf = Callable[..., FleetState]
NOTHING_COMPUTED = {"connect-failure", "refused-stream", "reset-before-request"}


@pytest.fixture
def model_routes(fleet_of: FleetOf, state_of: StateOf) -> dict[tuple[str, str], Any]:
    """(protocol, kind/model) → route, of a stateless model `m` and a stateful model `s`."""
    models = {
        "m": ServedModel("m", ("1",)),
        "s": ServedModel("s", ("1",), config={"sequence_batching": {}}),
    }
    fleet = fleet_of("cuda-0", "rocm-0")
    table = decide(fleet, state_of(*(Observation(b.name, models=models) for b in fleet.backends)), {}, {})
    return {(protocol, name): route for protocol, name, route in _routes(envoy.snapshot(table, fleet))}


def _routes(snapshot: Any) -> Iterator[tuple[str, str, Any]]:
    for packed in snapshot[ROUTES].by_name.values():
        configuration = RouteConfiguration()
        packed.Unpack(configuration)
        tree = configuration.virtual_hosts[0].matcher.matcher_tree
        for name, on_match in tree.exact_match_map.map.items():
            route = Route()
            on_match.action.typed_config.Unpack(route)
            yield configuration.name, name, route.route


def test_a_size_a_deadline_or_a_bad_request_is_never_asked_again(model_routes: dict[tuple[str, str], Any]) -> None:
    """dali_backend 241: too large for a message. T6920, T7512: a deadline that has passed."""
    for (protocol, name), route in model_routes.items():
        retried = set(route.retry_policy.retry_on.split(","))
        assert not retried & {"resource-exhausted", "deadline-exceeded", "cancelled", "5xx", "gateway-error"}, name
        if protocol == "http":
            assert set(route.retry_policy.retriable_status_codes) <= {404, 503}, name
        assert not route.retry_policy.HasField("per_try_timeout"), name


def test_a_live_sequence_is_asked_again_only_where_nothing_was_sent(model_routes: dict[tuple[str, str], Any]) -> None:
    for (_, name), route in model_routes.items():
        if name.endswith("/s"):
            assert set(route.retry_policy.retry_on.split(",")) <= NOTHING_COMPUTED


def test_a_request_has_our_time_out_and_a_stream_has_none(model_routes: dict[tuple[str, str], Any]) -> None:
    for (_, name), route in model_routes.items():
        assert route.timeout.ToSeconds() == (0 if name.startswith("stream/") else 300)
        # Envoy would go by this alone.
        assert not route.HasField("max_stream_duration")
