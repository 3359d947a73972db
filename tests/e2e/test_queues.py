"""Full queues are nobody's fault, and old news of them are forgotten."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc

from tests.e2e.answers import Answers
from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.extra_model import WAITS_WITH_EACH_REQUEST, in_every_repository, load, open_gates
from tests.e2e.more_gateways import another_gateway, backend_documents
from tests.e2e.relay import relay_to
from tests.e2e.requests import tensor

MODEL = "waits"
QUEUE = 2


def short_queue(size: int) -> str:
    return f"dynamic_batching {{ default_queue_policy {{ max_queue_size: {size} }} }}"


def word() -> Any:
    return tensor(triton_grpc, "TEXT", np.array([[b"a"]], np.object_), "BYTES")


def test_a_full_queue_is_told_to_the_client_and_held_against_nobody(cluster: Cluster, tmp_path: Path) -> None:
    """SMG PR39464: queue-full opened the breaker. One request is served, two wait, and the other five are told no."""
    answers, clients = Answers(), 8
    with in_every_repository(cluster, MODEL, WAITS_WITH_EACH_REQUEST, short_queue(QUEUE)):
        load(cluster, MODEL)
        backends = backend_documents(cluster, "cpu-0")
        with (
            another_gateway(cluster, tmp_path, backends=backends) as second,
            triton_grpc.InferenceServerClient(second.grpc) as client,
        ):
            for _ in range(clients):
                client.async_infer(MODEL, [word()], answers.take)
            for _ in range(clients - QUEUE - 1):
                _, error = answers.next()
                assert "xceeds maximum queue size" in error.message()
            open_gates(cluster, MODEL)
            for _ in range(QUEUE + 1):
                result, _ = answers.next()
                assert result.as_numpy("TEXT").tolist() == [[b"a"]]
            wait_until(second.feedback_is_in)
            assert second.breaker("cpu-0") == "Healthy"


def test_a_load_that_is_no_longer_reported_is_unknown_not_the_last_one(cluster: Cluster, tmp_path: Path) -> None:
    """llm-d: herds from stale telemetry. Triton's metrics stop, and its long queue no longer counts."""
    backends = backend_documents(cluster, "cuda-0", "cpu-0")
    metrics = backends[1]["metrics_port"]
    with (
        in_every_repository(cluster, MODEL, WAITS_WITH_EACH_REQUEST, short_queue(1000)),
        relay_to("127.0.0.1", metrics) as relay,
    ):
        load(cluster, MODEL)
        backends[1]["metrics_port"] = relay.port
        with (
            another_gateway(cluster, tmp_path, backends=backends) as second,
            triton_grpc.InferenceServerClient(cluster.backend("cpu-0").grpc_address) as client,
        ):
            calls = [client.async_infer(MODEL, [word()], lambda *_: None) for _ in range(100)]
            wait_until(lambda: load_factor(second) < 0.5)
            relay.flows.clear()
            wait_until(lambda: load_factor(second) == 1.0)
            assert second.shares("identity")["cpu-0"] == pytest.approx(0.5, abs=0.001)
            for call in calls:
                call.cancel()


def load_factor(cluster: Cluster) -> float:
    """What the load of `cpu-0` makes of its weight."""
    explained = json.loads(cluster.get(cluster.fleet.router.http_port, "/admin/explain/identity"))
    factors = next(b["factors"] for b in explained["backends"] if b["name"] == "cpu-0")
    found: float = factors["load"]
    return found
