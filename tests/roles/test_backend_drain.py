"""The module that drains a backend: what it reads from Envoy and the router. tests/e2e/test_drain.py has real ones."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.bimetal.cluster.plugins.modules import backend_drain as module

ADDRESSES = ["192.0.2.10:8000", "192.0.2.10:8001"]


def cluster(*hosts: tuple[str, int, str, str]) -> dict[str, Any]:
    """A part of `/clusters?format=json` as Envoy 1.40 prints it: address, port, rq_active ("" for none), EDS health."""
    return {
        "name": "grpc/m",
        "host_statuses": [
            {
                "address": {"socket_address": {"address": address, "port_value": port}},
                # proto3 JSON leaves zeros out.
                "stats": [{"name": "rq_active", "type": "GAUGE"} | ({"value": active} if active else {})],
                "health_status": {"eds_health_status": health},
            }
            for address, port, active, health in hosts
        ],
    }


def test_requests_are_counted_over_all_models_and_both_protocols() -> None:
    grpc = cluster(("192.0.2.10", 8001, "2", "DRAINING"), ("192.0.2.11", 8001, "9", "HEALTHY"))
    http = cluster(("192.0.2.10", 8000, "1", "DRAINING"), ("192.0.2.10", 9999, "7", "HEALTHY"))
    # A cluster that has no endpoint yet, and Envoy's own clusters, have no hosts.
    assert module.in_flight({"cluster_statuses": [grpc, http, {"name": "x"}]}, ADDRESSES) == 3


def test_an_idle_backend_has_none_and_one_that_envoy_still_uses_is_not_known() -> None:
    idle = cluster(("192.0.2.10", 8001, "", "DRAINING"))
    used = cluster(("192.0.2.10", 8001, "", "HEALTHY"))
    assert module.in_flight({"cluster_statuses": [idle]}, ADDRESSES) == 0
    assert module.in_flight({"cluster_statuses": [idle, used]}, ADDRESSES) is None
    assert module.in_flight({}, ADDRESSES) == 0


def test_models_that_only_this_backend_serves_are_named() -> None:
    models = [
        {"name": "both", "shares": {"a": 0.5, "b": 0.5}},
        {"name": "here", "shares": {"a": 1.0, "b": 0.0}},
        {"name": "there", "shares": {"a": 0.0, "b": 1.0}},
    ]
    assert module.only_here({"models": models}, "a") == ["here"]


def test_without_a_router_a_drain_is_said_to_be_none_and_leaves_no_mark(
    free_port: Callable[[], int], project: Path, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    arguments = {
        "backend": "cuda-0",
        "state": "drained",
        "addresses": ADDRESSES,
        "router_url": url,
        "envoy_url": url,
        "marks_dir": str(tmp_path / "drains"),
    }

    def run(**more: object) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "plugins/modules/backend_drain.py"],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments | more}),
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    answer = run()
    assert (answer["changed"], answer["drained"]) == (False, False)
    assert f"cuda-0 is not drained: the router at {url} does not answer" in str(answer["warnings"])
    assert not (tmp_path / "drains").exists()
    assert run(required=True)["failed"]
