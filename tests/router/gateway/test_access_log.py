"""Access log entries, one per try, as values."""

from typing import Any

import pytest
from envoy.data.accesslog.v3.accesslog_pb2 import HTTPAccessLogEntry

from bimetal.breaker.outcome import Try
from bimetal.fleet.size_class import SizeClass
from bimetal.gateway.access_log import read_entry

BACKENDS = {("10.0.0.1", 8001): "cuda-0"}


def entry(cluster: str = "grpc/m", port: int = 8001, **trailers: str) -> Any:
    made = HTTPAccessLogEntry()
    common = made.common_properties
    common.upstream_cluster = cluster
    common.upstream_remote_address.socket_address.address = "10.0.0.1"
    common.upstream_remote_address.socket_address.port_value = port
    made.response.response_code.value = 200
    for key, value in trailers.items():
        made.response.response_trailers[key.replace("_", "-")] = value
    return made


def test_a_success_names_backend_model_and_duration() -> None:
    logged = entry(grpc_status="0")
    logged.common_properties.time_to_last_upstream_rx_byte.FromMilliseconds(12)
    assert read_entry(logged, BACKENDS) == Try("cuda-0", "m", http_status=200, grpc_status=0, message="", seconds=0.012)


def test_a_percent_encoded_message_is_read() -> None:
    found = read_entry(entry(grpc_status="13", grpc_message="out of memory%3A 2 GB"), BACKENDS)
    assert found is not None
    assert (found.grpc_status, found.message) == (13, "out of memory: 2 GB")


def test_a_status_in_the_headers_of_an_answer_without_a_message_is_read() -> None:
    logged = entry()
    logged.response.response_headers["grpc-status"] = "5"
    found = read_entry(logged, BACKENDS)
    assert found is not None
    assert found.grpc_status == 5


def test_flags_are_read_by_name() -> None:
    logged = entry()
    logged.common_properties.response_flags.upstream_connection_failure = True
    found = read_entry(logged, BACKENDS)
    assert found is not None
    assert found.flags == {"upstream_connection_failure"}


def test_a_try_that_never_ended_has_no_duration() -> None:
    found = read_entry(entry(), BACKENDS)
    assert found is not None
    assert found.seconds is None


@pytest.mark.parametrize(
    ("cluster", "size"),
    [("grpc/m", SizeClass.SMALL), ("http-large/m", SizeClass.LARGE), ("http/large", SizeClass.SMALL)],
)
def test_the_size_class_is_in_the_clusters_name(cluster: str, size: SizeClass) -> None:
    found = read_entry(entry(cluster), BACKENDS)
    assert found is not None
    assert found.size_class is size


@pytest.mark.parametrize("stranger", [entry(cluster="router-grpc"), entry(port=9), entry(cluster="grpc/"), entry("")])
def test_what_reached_no_backend_of_the_fleet_is_left_out(stranger: Any) -> None:
    assert read_entry(stranger, BACKENDS) is None


def failed(body: str, details: str = "via_upstream") -> Any:
    logged = entry("http/m")
    logged.response.response_code.value = 500
    logged.response.response_code_details = details
    logged.common_properties.metadata.filter_metadata["bimetal"]["said"] = body
    return logged


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("""{"error":"model 'm': \\"CUDA\\" out of memory\\n"}""", """model 'm': "CUDA" out of memory\n"""),
        ('data: {"error":"out of memory"}', "out of memory"),
        ('{"error":"out of mem', "out of mem"),
        ('{"error":"cut in an escape \\u00', "cut in an escape \\u00"),
        ("<html>", "<html>"),
    ],
)
def test_the_body_of_a_failed_http_request_is_its_message(body: str, message: str) -> None:
    found = read_entry(failed(body), BACKENDS)
    assert found is not None
    assert (found.http_status, found.grpc_status, found.message) == (500, None, message)


def test_what_the_gateway_says_itself_is_no_backends_message() -> None:
    found = read_entry(failed('{"error":"out of memory"}', "lua_response"), BACKENDS)
    assert found is not None
    assert found.message == ""
