"""The reason to exist: models go to who runs them well, and everything says why."""

import json
import subprocess
import urllib.error
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from bimetal.cli.tables import FACTORS
from tests.e2e.cluster import Cluster
from tests.e2e.requests import identity, tensor


def test_rope_never_reaches_the_pool_that_is_bad_at_it(cluster: Cluster, grpc_client: Any) -> None:
    """The incident: round robin sent RoPE models to nodes that were bad at them."""
    hidden = np.zeros((1, 4, 64), np.float32)
    positions = np.arange(4, dtype=np.int64).reshape(1, 4)
    inputs = [tensor(triton_grpc, "hidden_states", hidden), tensor(triton_grpc, "position_ids", positions, "INT64")]
    before = cluster.served("rope_attention")
    for _ in range(40):
        grpc_client.infer("rope_attention", inputs)
    taken = cluster.served_since(before, "rope_attention")
    assert taken["rocm-0"] == 0
    assert taken["cuda-0"] + taken["cpu-0"] == 40


def test_a_quantised_model_goes_where_its_integer_operators_run(cluster: Cluster, grpc_client: Any) -> None:
    image = np.zeros((1, 3, 32, 32), np.float32)
    before = cluster.served("qlinear_block")
    for _ in range(20):
        grpc_client.infer("qlinear_block", [tensor(triton_grpc, "image", image)])
    taken = cluster.served_since(before, "qlinear_block")
    assert taken["cuda-0"] == 0
    assert sum(taken.values()) == 20


def test_status_json_has_every_backend_and_shares_that_sum_to_one(cluster: Cluster) -> None:
    status = json.loads(cluster.bimetal("status", "--json"))
    assert {b["name"]: (b["pool"], b["vendor"], b["state"], b["ready"]) for b in status["backends"]} == {
        "cuda-0": ("cuda", "nvidia", "Healthy", True),
        "rocm-0": ("rocm", "amd", "Healthy", True),
        "cpu-0": ("cpu", "cpu", "Healthy", True),
    }
    models = {m["name"]: m["shares"] for m in status["models"]}
    assert {"ocr_det", "vad_lstm", "file_type", "rope_attention", "qlinear_block", "identity", "repeat"} <= set(models)
    assert all(sum(shares.values()) == pytest.approx(1, abs=0.001) for shares in models.values())


def test_status_says_that_emulated_pools_compute_on_the_cpu(cluster: Cluster) -> None:
    assert "cpu (emulated)" in cluster.bimetal("status")


def test_explain_names_the_operator_its_opset_and_the_provider(cluster: Cluster) -> None:
    explanation = json.loads(cluster.bimetal("explain", "rope_attention", "--json"))
    backends = {b["name"]: b for b in explanation["backends"]}
    rocm = " ".join(backends["rocm-0"]["reasons"])
    for words in ("RotaryEmbedding", "opset 23", "MIGraphXExecutionProvider"):
        assert words in rocm
    assert backends["rocm-0"]["share"] == 0.0
    assert backends["cuda-0"]["score"] > backends["rocm-0"]["score"]
    assert set(backends["cuda-0"]["factors"]) == set(FACTORS)


def test_explain_of_an_unknown_model_is_one_clear_line(cluster: Cluster) -> None:
    with pytest.raises(subprocess.CalledProcessError, match="returned non-zero exit status 1") as caught:
        cluster.bimetal("explain", "nope")
    assert "no backend has reported a model named 'nope'" in caught.value.stderr


def test_metrics_are_on_the_port_where_a_triton_has_them(cluster: Cluster) -> None:
    text = cluster.get(cluster.fleet.router.http_port, "/metrics").decode()
    assert 'bimetal_share{backend="rocm-0",model="rope_attention"} 0.0' in text
    assert 'bimetal_breaker_state{backend="cuda-0",state="Healthy"} 1.0' in text
    assert 'bimetal_data_planes{kind="envoy"} 1.0' in text


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("batch", [31, 32])
def test_the_batch_dimension_picks_the_size_class(
    cluster: Cluster, grpc_client: Any, http_client: Any, protocol: str, batch: int
) -> None:
    """The local inventory says that batches of 32 of `identity` lean away from the cuda pool."""
    client, module = (grpc_client, triton_grpc) if protocol == "grpc" else (http_client, triton_http)
    counters = [f"cluster.{protocol}{size}/identity.upstream_rq_total" for size in ("", "-large")]
    before = [cluster.envoy_stat(name) for name in counters]
    for _ in range(10):
        identity(module, client, np.zeros((batch, 2), np.float32))
    taken = [cluster.envoy_stat(name) - count for name, count in zip(counters, before, strict=True)]
    assert taken == ([0, 10] if batch >= 32 else [10, 0])


@pytest.mark.parametrize("path", ["/admin/status", "/metrics", "/admin/backends/cuda-0/drain", "/v2/../admin/status"])
def test_the_admin_api_is_not_on_the_gateways_port(cluster: Cluster, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        cluster.get(cluster.fleet.gateway.http_port, path)
    with caught.value as refusal:
        assert refusal.code == 404
