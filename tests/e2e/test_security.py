"""Keys, tokens and certificates on a cluster of real processes: the right ones pass, everything else is refused."""

import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from envoy.service.accesslog.v3 import als_pb2, als_pb2_grpc
from envoy.service.discovery.v3 import ads_pb2_grpc
from envoy.service.discovery.v3.discovery_pb2 import DiscoveryRequest
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from bimetal.xds.snapshot import LISTENER
from tests.e2e.cluster import wait_until
from tests.e2e.requests import ROWS, identity, tensor
from tests.e2e.secure_cluster import (
    API_KEY,
    OTHER_KEY,
    TOKEN,
    Authority,
    Identity,
    SecureCluster,
    arguments_of,
    infer_body,
    mode_of,
    secure_cluster,
)
from tests.patience import PATIENCE_S

INFER = "/v2/models/identity/infer"
BODY = infer_body([[1, 2]])


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    with secure_cluster(tmp_path_factory.mktemp("secured")) as cluster:
        yield cluster


@pytest.fixture
def client(secured: SecureCluster) -> Iterator[Any]:
    """A stock gRPC client that trusts the gateway's certificate."""
    with triton_grpc.InferenceServerClient(
        f"127.0.0.1:{secured.ports['grpc']}", ssl=True, root_certificates=str(secured.authority.file)
    ) as client:
        yield client


@pytest.mark.parametrize("headers", [{"x_api_key": API_KEY}, {"authorization": f"Bearer {OTHER_KEY}"}])
def test_http_with_a_key_is_served(secured: SecureCluster, headers: dict[str, str]) -> None:
    status, body = secured.ask("http", INFER, BODY, **headers)
    assert (status, json.loads(body)["outputs"][0]["data"]) == (200, [1.0, 2.0])


@pytest.mark.parametrize("headers", [{"x-api-key": API_KEY}, {"authorization": f"Bearer {API_KEY}"}])
def test_grpc_with_a_key_is_served(client: Any, headers: dict[str, str]) -> None:
    np.testing.assert_array_equal(identity(triton_grpc, client, headers=headers), ROWS)


@pytest.mark.parametrize("path", [INFER, "/v2", "/v2/health/ready", "/v2/repository/index", "/admin/status"])
@pytest.mark.parametrize("headers", [{}, {"x_api_key": "wrong-key-0123456789"}, {"authorization": f"Basic {API_KEY}"}])
def test_http_without_a_right_key_is_refused_in_tritons_shape(
    secured: SecureCluster, path: str, headers: dict[str, str]
) -> None:
    status, body = secured.ask("http", path, BODY if path == INFER else None, **headers)
    assert status == 401
    assert json.loads(body)["error"].startswith("no valid API key: expected one in the header 'x-api-key: KEY'")


@pytest.mark.parametrize("headers", [{}, {"x-api-key": "wrong-key-0123456789"}])
def test_grpc_without_a_right_key_is_unauthenticated(client: Any, headers: dict[str, str]) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: identity(triton_grpc, client, headers=headers),
        lambda: client.is_server_live(headers),
    ]
    for call in calls:
        with pytest.raises(InferenceServerException) as caught:
            call()
        assert caught.value.status() == "StatusCode.UNAUTHENTICATED"
        assert caught.value.message().startswith("no valid API key: expected one in the header 'x-api-key: KEY'")


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_key_does_not_reach_the_triton_and_other_headers_do(
    secured: SecureCluster, client: Any, protocol: str
) -> None:
    headers = {"x-api-key": API_KEY, "authorization": f"Bearer {TOKEN}", "x-kept": "yes"}
    if protocol == "grpc":
        answer = client.infer("headers", [tensor(triton_grpc, "INPUT0", ROWS)], headers=headers)
        seen = answer.as_numpy("SEEN")[0].decode()
    else:
        _, body = secured.ask("http", "/v2/models/headers/infer", BODY, **headers)
        seen = json.loads(body)["outputs"][0]["data"][0]
    assert "yes" in seen
    assert API_KEY not in seen
    assert TOKEN not in seen


@pytest.mark.parametrize("port", ["http", "router_http"])
def test_plain_text_is_refused_over_http(secured: SecureCluster, port: str) -> None:
    with pytest.raises(OSError, match=r"."):
        secured.ask(port, "/v2/health/live", scheme="http", x_api_key=API_KEY)


@pytest.mark.parametrize("port", ["grpc", "xds", "triton_grpc"])
def test_plain_text_is_refused_over_grpc(secured: SecureCluster, port: str) -> None:
    with (
        triton_grpc.InferenceServerClient(f"127.0.0.1:{secured.ports[port]}") as plain,
        pytest.raises(InferenceServerException) as caught,
    ):
        plain.is_server_live({"x-api-key": API_KEY}, client_timeout=PATIENCE_S)
    assert caught.value.status() == "StatusCode.UNAVAILABLE"


def _internal_channel(secured: SecureCluster, identity: Identity | None, port: str = "xds") -> grpc.Channel:
    pair = (identity.private_key.read_bytes(), identity.certificate.read_bytes()) if identity else (None, None)
    credentials = grpc.ssl_channel_credentials(secured.authority.file.read_bytes(), *pair)
    return grpc.secure_channel(f"127.0.0.1:{secured.ports[port]}", credentials)


def _subscribe(channel: grpc.Channel) -> Any:
    request = DiscoveryRequest(type_url=LISTENER)
    request.node.user_agent_name = "envoy"
    answers = ads_pb2_grpc.AggregatedDiscoveryServiceStub(channel).StreamAggregatedResources(
        iter([request]), timeout=PATIENCE_S
    )
    return next(answers)


@pytest.mark.parametrize("whose", ["nobody's", "another authority's"])
def test_xds_refuses_a_client_without_a_certificate_of_the_authority(
    secured: SecureCluster, tmp_path: Path, whose: str
) -> None:
    identity = None if whose == "nobody's" else Authority(tmp_path, "stranger").issue("client", "127.0.0.1")
    with _internal_channel(secured, identity) as channel, pytest.raises(grpc.RpcError) as caught:
        _subscribe(channel)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_what_xds_tells_a_client_that_calls_itself_envoy_holds_no_secret(secured: SecureCluster) -> None:
    with _internal_channel(secured, secured.client) as channel:
        told = _subscribe(channel).SerializeToString()
    assert b"api_key_auth" in told
    assert _secrets_in(told) == []


def test_a_proxyless_clients_certificate_subscribes_and_does_nothing_else(secured: SecureCluster) -> None:
    with _internal_channel(secured, secured.client) as channel:
        calls: list[Callable[[], Any]] = [
            lambda: service_pb2_grpc.GRPCInferenceServiceStub(channel).ServerLive(service_pb2.ServerLiveRequest()),
            lambda: als_pb2_grpc.AccessLogServiceStub(channel).StreamAccessLogs(
                iter([als_pb2.StreamAccessLogsMessage()])
            ),
        ]
        for call in calls:
            with pytest.raises(grpc.RpcError) as caught:
                call()
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert "only the gateway may call this" in caught.value.details()


PROXYLESS = """
import sys, grpc, numpy, tritonclient.grpc as triton
fallback = grpc.ssl_channel_credentials()
client = triton.InferenceServerClient("xds:///identity", creds=grpc.xds_channel_credentials(fallback))
rows = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
given = triton.InferInput("INPUT0", [2, 3], "FP32")
given.set_data_from_numpy(rows)
assert (client.infer("identity", [given], client_timeout=120).as_numpy("OUTPUT0") == rows).all()
"""


def _proxyless(secured: SecureCluster, identity: Identity) -> subprocess.CompletedProcess[str]:
    files = ["--certificate", str(identity.certificate), "--private-key", str(identity.private_key)]
    export = secured.bimetal("client-bootstrap", *files)
    variable, bootstrap = export.stdout.strip().removeprefix("export ").split("=", 1)
    environment = {variable: bootstrap, "PATH": "/usr/bin"}
    command = [sys.executable, "-c", PROXYLESS]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_proxyless_client_with_a_certificate_goes_straight_to_the_triton_over_tls(secured: SecureCluster) -> None:
    before = _inferences(secured)
    done = _proxyless(secured, secured.client)
    assert done.returncode == 0, done.stderr[-3000:]
    assert _inferences(secured) == before + 1


def _inferences(secured: SecureCluster) -> int:
    _, body = secured.ask("triton_http", "/v2/models/identity/stats", scheme="http")
    return int(json.loads(body)["model_stats"][0]["inference_stats"]["success"]["count"])


def test_the_bootstrap_of_a_proxyless_client_needs_the_clients_own_certificate(secured: SecureCluster) -> None:
    done = secured.bimetal("client-bootstrap")
    assert done.returncode == 1
    assert "--certificate CHAIN --private-key KEY" in done.stderr


def test_the_command_line_brings_the_token_by_itself(secured: SecureCluster) -> None:
    status = json.loads(secured.bimetal("status", "--json").stdout)
    assert [(b["name"], b["ready"]) for b in status["backends"]] == [("cpu-0", True)]


@pytest.mark.parametrize(
    "path", ["/admin/status", "/admin/backends/cpu-0/clear", "/v2/repository/models/identity/load"]
)
@pytest.mark.parametrize(
    "headers", [{}, {"x_api_key": API_KEY}, {"authorization": "Bearer wrong"}, {"authorization": f"Bearer {API_KEY}"}]
)
def test_the_router_asks_for_the_admin_token(secured: SecureCluster, path: str, headers: dict[str, str]) -> None:
    status, body = secured.ask("router_http", path, None if path == "/admin/status" else b"", **headers)
    assert status == 401
    assert json.loads(body)["error"].startswith("this needs the admin token")


def test_the_router_asks_for_an_api_key_where_it_hands_requests_on(secured: SecureCluster) -> None:
    """The port would otherwise be a way around the gateway."""
    assert secured.ask("router_http", INFER, BODY)[0] == 401
    assert secured.ask("router_http", INFER, BODY, x_api_key=API_KEY)[0] == 200
    assert secured.ask("router_http", "/metrics")[0] == 200
    assert secured.ask("router_http", "/v2/health/live")[0] == 200


def test_through_the_gateway_loading_a_model_needs_key_and_token(secured: SecureCluster, client: Any) -> None:
    load = "/v2/repository/models/headers/load"
    assert secured.ask("http", load, b"", x_api_key=API_KEY)[0] == 401
    assert secured.ask("http", load, b"", authorization=f"Bearer {TOKEN}")[0] == 401
    assert secured.ask("http", load, b"", x_api_key=API_KEY, authorization=f"Bearer {TOKEN}")[0] == 200
    with pytest.raises(InferenceServerException) as caught:
        client.load_model("headers", headers={"x-api-key": API_KEY})
    assert caught.value.status() == "StatusCode.UNAUTHENTICATED"
    client.load_model("headers", headers={"x-api-key": API_KEY, "authorization": f"Bearer {TOKEN}"})


def test_envoys_configuration_dump_shows_no_key(secured: SecureCluster) -> None:
    _, dump = secured.ask("admin", "/config_dump?include_eds", scheme="http")
    assert b"[redacted]" in dump
    assert _secrets_in(dump) == []


def test_no_secret_is_in_logs_status_explanations_metrics_or_arguments(secured: SecureCluster) -> None:
    for program, process in secured.processes.items():
        assert _secrets_in(secured.log(program).read_bytes()) == [], program
        assert _secrets_in(arguments_of(process.pid).encode()) == [], program
    for command in (["status"], ["status", "--json"], ["explain", "identity", "--json"]):
        assert _secrets_in(secured.bimetal(*command).stdout.encode()) == [], command
    assert _secrets_in(secured.ask("router_http", "/metrics")[1]) == []


def test_the_only_file_of_the_state_that_holds_keys_is_its_owners_alone(secured: SecureCluster) -> None:
    holding = [f for f in secured.state_dir.rglob("*") if f.is_file() and _secrets_in(f.read_bytes())]
    assert [(f.name, mode_of(f)) for f in holding] == [("envoy-api_key_auth.json", 0o600)]


def _secrets_in(text: bytes) -> list[str]:
    return [secret for secret in (API_KEY, OTHER_KEY, TOKEN) if secret.encode() in text]


def test_a_renewed_gateway_certificate_is_taken_over_without_a_restart(secured: SecureCluster) -> None:
    new = secured.authority.issue("renewed", "127.0.0.1")
    new.private_key.rename(secured.folder / "gateway.key")
    new.certificate.rename(secured.folder / "gateway.crt")
    renewed = (secured.folder / "gateway.crt").read_text().strip()
    wait_until(lambda: _served(secured) == renewed)
    assert secured.ask("http", INFER, BODY, x_api_key=API_KEY)[0] == 200


def _served(secured: SecureCluster) -> str:
    return ssl.get_server_certificate(("127.0.0.1", secured.ports["http"])).strip()


def test_changed_keys_and_open_health_are_in_force_once_the_router_was_restarted(secured: SecureCluster) -> None:
    keys, fleet = secured.folder / "api-keys", secured.fleet_file
    before = keys.read_text(), fleet.read_text()
    keys.write_text(f"{API_KEY}\n")
    fleet.write_text(before[1].replace("  gateway:\n    api_keys", "  gateway:\n    open_health: true\n    api_keys"))
    try:
        _restart_router(secured)
        wait_until(lambda: secured.ask("http", INFER, BODY, x_api_key=OTHER_KEY)[0] == 401)
        wait_until(lambda: secured.ask("http", "/v2/health/ready")[0] == 200)
        assert secured.ask("http", "/v2/health/../models/identity/infer", BODY)[0] == 401
        assert secured.ask("http", "/v2/models/identity/ready")[0] == 401
        assert secured.ask("http", INFER, BODY, x_api_key=API_KEY)[0] == 200
    finally:
        keys.write_text(before[0])
        fleet.write_text(before[1])


def _restart_router(secured: SecureCluster) -> None:
    router = secured.processes["router"]
    router.terminate()
    router.wait(timeout=PATIENCE_S)
    secured.start_router()
    wait_until(secured.is_ready)
