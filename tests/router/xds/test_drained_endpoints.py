"""What the data planes are told about a drained backend."""

from collections.abc import Callable
from typing import Any

from envoy.config.core.v3.health_check_pb2 import HealthStatus
from envoy.config.endpoint.v3.endpoint_pb2 import ClusterLoadAssignment

from bimetal.fleet.schema import Fleet
from bimetal.policy.table import decide
from bimetal.state.fleet_state import FleetState
from bimetal.xds import envoy, proxyless
from bimetal.xds.snapshot import ENDPOINTS

FleetOf = Callable[..., Fleet]
StateOf = Callable[..., FleetState]


def health_by_port(snapshot: Any, cluster: str) -> dict[int, str]:
    assignment = ClusterLoadAssignment()
    snapshot[ENDPOINTS].by_name[cluster].Unpack(assignment)
    return {
        endpoint.endpoint.address.socket_address.port_value: HealthStatus.Name(endpoint.health_status)
        for locality in assignment.endpoints
        for endpoint in locality.lb_endpoints
    }


def test_envoy_keeps_a_drained_backend_in_sight_as_draining(fleet_of: FleetOf, state_of: StateOf) -> None:
    fleet = fleet_of("cuda-0", "rocm-0")
    table = decide(fleet, state_of(cuda_0="m", rocm_0="m"), {}, {}, {"cuda-0"})
    found = envoy.snapshot(table, fleet)
    assert health_by_port(found, "grpc/m") == {20001: "DRAINING", 20011: "UNKNOWN"}
    assert health_by_port(found, "http/m") == {20000: "DRAINING", 20010: "UNKNOWN"}


def test_a_drained_backend_that_is_gone_leaves_the_table_as_any_other(fleet_of: FleetOf, state_of: StateOf) -> None:
    fleet = fleet_of("cuda-0", "rocm-0")
    table = decide(fleet, state_of(rocm_0="m"), {}, {}, {"cuda-0"})
    assert health_by_port(envoy.snapshot(table, fleet), "grpc/m") == {20011: "UNKNOWN"}


def test_proxyless_clients_are_not_told_of_a_drained_backend(fleet_of: FleetOf, state_of: StateOf) -> None:
    fleet = fleet_of("cuda-0", "rocm-0")
    table = decide(fleet, state_of(cuda_0="m", rocm_0="m"), {}, {}, {"cuda-0"})
    assert health_by_port(proxyless.snapshot(table, fleet), "grpc/m") == {20011: "UNKNOWN"}
