"""What Envoy and proxyless clients are told about certificates and keys."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from envoy.config.cluster.v3.cluster_pb2 import Cluster
from envoy.config.endpoint.v3.endpoint_pb2 import ClusterLoadAssignment
from envoy.config.route.v3.route_components_pb2 import Route
from envoy.config.route.v3.route_pb2 import RouteConfiguration
from envoy.extensions.transport_sockets.tls.v3.tls_pb2 import UpstreamTlsContext
from envoy.service.discovery.v3.discovery_pb2 import DiscoveryResponse
from google.protobuf.json_format import ParseDict

from bimetal.errors import BimetalError
from bimetal.fleet.schema import Fleet
from bimetal.fleet.security import InternalTls
from bimetal.gateway.bootstrap import client_bootstrap, envoy_bootstrap
from bimetal.gateway.secret_files import write_secret_files
from bimetal.policy.table import RoutingTable, decide
from bimetal.state.fleet_state import FleetState
from bimetal.xds import envoy, proxyless
from bimetal.xds.snapshot import CLUSTER, ENDPOINTS, ROUTES

KEYS = ["key-one-0123456789", "key-two-0123456789"]
TLS = {"rocm-0": {"tls": True}}
FleetOf = Callable[..., Fleet]


@pytest.fixture
def table(fleet_of: FleetOf, state_of: Callable[..., FleetState]) -> RoutingTable:
    """One model on two backends."""
    return decide(fleet_of("cuda-0", "rocm-0"), state_of(cuda_0="m", rocm_0="m"), {}, {})


@pytest.fixture
def security(tmp_path: Path) -> dict[str, Any]:
    """A whole section; of its files only that of the keys exists."""
    keys = tmp_path / "api-keys"
    keys.touch(0o600)
    keys.write_text("\n".join(KEYS))
    pair = {"certificate": "/etc/c.crt", "private_key": "/etc/c.key"}
    return {"gateway": {**pair, "api_keys": str(keys)}, "internal": {**pair, "ca": "/etc/ca.crt"}}


def test_without_a_security_section_nothing_is_said_of_tls_or_keys(fleet_of: FleetOf, table: RoutingTable) -> None:
    fleet = fleet_of("cuda-0", "rocm-0")
    told = [m.value for r in envoy.snapshot(table, fleet).values() for m in r.by_name.values()]
    assert not any(b"tls" in value or b"api_key" in value for value in told)
    assert "tls" not in json.dumps(envoy_bootstrap(fleet))


@pytest.mark.parametrize("keys", [True, False])
def test_a_route_to_a_triton_drops_the_headers_of_a_key_if_there_are_keys(
    fleet_of: FleetOf, table: RoutingTable, security: dict[str, Any], keys: bool
) -> None:
    fleet = fleet_of("cuda-0", "rocm-0", security=security if keys else {})
    dropped = [list(route.request_headers_to_remove) for route in _model_routes(envoy.snapshot(table, fleet))]
    assert len(dropped) == 4
    assert all(headers == (["x-api-key", "authorization"] if keys else []) for headers in dropped)


def _model_routes(snapshot: Any) -> Iterator[Route]:
    """The routes to a model, unary and stream, of both listeners."""
    for packed in snapshot[ROUTES].by_name.values():
        configuration = RouteConfiguration()
        packed.Unpack(configuration)
        for on_match in configuration.virtual_hosts[0].matcher.matcher_tree.exact_match_map.map.values():
            route = Route()
            on_match.action.typed_config.Unpack(route)
            yield route


def test_envoy_speaks_tls_to_the_grpc_ports_that_ask_for_it_only(
    fleet_of: FleetOf, table: RoutingTable, security: dict[str, Any]
) -> None:
    snapshot = envoy.snapshot(table, fleet_of("cuda-0", "rocm-0", extras=TLS, security=security))
    assert _tls_endpoints(snapshot, "grpc/m") == {20001: "", 20011: "rocm-0"}
    assert _tls_endpoints(snapshot, "http/m") == {20000: "", 20010: ""}
    assert [len(_cluster(snapshot, f"{p}/m").transport_socket_matches) for p in ("grpc", "http")] == [1, 0]
    context = UpstreamTlsContext()
    _cluster(snapshot, "grpc/m").transport_socket_matches[0].transport_socket.typed_config.Unpack(context)
    assert (context.auto_host_sni, context.auto_sni_san_validation) == (True, True)


def _tls_endpoints(snapshot: Any, cluster: str) -> dict[int, str]:
    """Port → whom the certificate must be made out to; "" for plain text."""
    assignment = ClusterLoadAssignment()
    snapshot[ENDPOINTS].by_name[cluster].Unpack(assignment)
    found = {}
    for endpoint in (e for locality in assignment.endpoints for e in locality.lb_endpoints):
        marked = "envoy.transport_socket_match" in endpoint.metadata.filter_metadata
        found[endpoint.endpoint.address.socket_address.port_value] = endpoint.endpoint.hostname if marked else ""
    return found


def _cluster(snapshot: Any, name: str) -> Cluster:
    cluster = Cluster()
    snapshot[CLUSTER].by_name[name].Unpack(cluster)
    return cluster


def test_a_proxyless_client_gets_the_tls_backends_of_a_mixed_fleet_and_their_names(
    fleet_of: FleetOf, table: RoutingTable, security: dict[str, Any]
) -> None:
    snapshot = proxyless.snapshot(table, fleet_of("cuda-0", "rocm-0", extras=TLS, security=security))
    context = UpstreamTlsContext()
    _cluster(snapshot, "grpc/m").transport_socket.typed_config.Unpack(context)
    names = context.common_tls_context.validation_context.match_subject_alt_names
    assert [name.exact for name in names] == ["rocm-0"]
    assert set(_tls_endpoints(snapshot, "grpc/m")) == {20011}


def test_a_proxyless_client_of_a_plain_fleet_gets_all_backends_in_plain_text(
    fleet_of: FleetOf, table: RoutingTable
) -> None:
    snapshot = proxyless.snapshot(table, fleet_of("cuda-0", "rocm-0"))
    assert not _cluster(snapshot, "grpc/m").HasField("transport_socket")
    assert set(_tls_endpoints(snapshot, "grpc/m")) == {20001, 20011}


def test_the_keys_are_in_one_file_for_its_owner_alone_and_nowhere_else(
    fleet_of: FleetOf, table: RoutingTable, security: dict[str, Any], tmp_path: Path
) -> None:
    fleet = fleet_of("cuda-0", "rocm-0", security=security)
    write_secret_files(fleet)
    assert _keys_in(_resource(tmp_path / "envoy-api_key_auth.json").value) == KEYS
    assert (tmp_path / "envoy-api_key_auth.json").stat().st_mode & 0o777 == 0o600
    told = [m.value for r in envoy.snapshot(table, fleet).values() for m in r.by_name.values()]
    others = [f.read_bytes() for f in tmp_path.glob("envoy-*-*.json") if "api_key" not in f.name]
    assert len(others) == 3
    assert [_keys_in(text) for text in (*told, *others, json.dumps(envoy_bootstrap(fleet)).encode())] == [[]] * (
        len(told) + 4
    )


@pytest.mark.parametrize("open_health", [True, False])
def test_health_endpoints_are_open_if_that_is_wished_in_their_exact_spelling(
    fleet_of: FleetOf, security: dict[str, Any], tmp_path: Path, open_health: bool
) -> None:
    security["gateway"]["open_health"] = open_health
    write_secret_files(fleet_of("cuda-0", security=security))
    file = tmp_path / "envoy-api_key_auth.json"
    config = json.loads(file.read_text())["resources"][0]["typed_config"]
    assert _keys_in(_resource(file).value) == KEYS
    tree = config.get("xds_matcher", {}).get("matcher_tree", {"exact_match_map": {"map": {}}})
    assert ("/v2/health/ready" in tree["exact_match_map"]["map"]) is open_health
    assert "prefix_match_map" not in tree


def _resource(file: Path) -> Any:
    """The one resource of a file, as Envoy parses it."""
    response = ParseDict(json.loads(file.read_text()), DiscoveryResponse())
    (found,) = response.resources
    return found


def _keys_in(text: bytes) -> list[str]:
    return [key for key in KEYS if key.encode() in text]


def test_a_clients_bootstrap_names_its_own_certificate_for_router_and_tritons(
    fleet_of: FleetOf, security: dict[str, Any]
) -> None:
    identity = InternalTls(ca=Path("/c/ca.crt"), certificate=Path("/c/me.crt"), private_key=Path("/c/me.key"))
    bootstrap = client_bootstrap(fleet_of("cuda-0", security=security), identity)
    (credentials,) = bootstrap["xds_servers"][0]["channel_creds"]
    assert (credentials["type"], credentials["config"]["certificate_file"]) == ("tls", "/c/me.crt")
    assert bootstrap["certificate_providers"]["bimetal"]["config"]["private_key_file"] == "/c/me.key"


def test_a_client_without_a_certificate_is_told_how_to_name_one(fleet_of: FleetOf, security: dict[str, Any]) -> None:
    with pytest.raises(BimetalError, match="--certificate CHAIN --private-key KEY"):
        client_bootstrap(fleet_of("cuda-0", security=security))


def test_on_a_plain_fleet_a_client_needs_no_certificate(fleet_of: FleetOf) -> None:
    bootstrap = client_bootstrap(fleet_of("cuda-0"))
    assert bootstrap["xds_servers"][0]["channel_creds"] == [{"type": "insecure"}]
    assert "certificate_providers" not in bootstrap
