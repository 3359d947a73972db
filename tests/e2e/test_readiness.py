"""A model that loads, or was unloaded, says nothing about the others."""

import threading
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.extra_model import WAITS_AT_ITS_START, in_every_repository, load, open_gates
from tests.e2e.requests import ROWS, identity

MODEL = "slow_start"


def test_a_slow_load_takes_no_other_model_out(cluster: Cluster, grpc_client: Any, http_client: Any) -> None:
    """T7014: a server calls itself not ready during any load."""
    with (
        triton_http.InferenceServerClient(cluster.backend("cuda-0").http_address) as direct,
        in_every_repository(cluster, MODEL, WAITS_AT_ITS_START),
    ):
        loading = threading.Thread(target=load, args=(cluster, MODEL))
        loading.start()
        try:
            wait_until(lambda: not direct.is_server_ready())
            wait_until(lambda: MODEL in {m["name"] for m in cluster.status()["models"]})
            assert not http_client.is_model_ready(MODEL)
            assert http_client.is_model_ready("identity")
            assert all(share > 0 for share in cluster.shares("identity").values())
            for _ in range(6):
                np.testing.assert_array_equal(identity(triton_grpc, grpc_client), ROWS)
            assert not direct.is_server_ready()
        finally:
            open_gates(cluster, MODEL)
            loading.join()
        wait_until(lambda: bool(http_client.is_model_ready(MODEL)))
    wait_until(lambda: MODEL not in {m["name"] for m in cluster.status()["models"]})


def test_a_model_is_not_ready_once_its_unload_was_answered(http_client: Any, grpc_client: Any) -> None:
    """T7588: ready after unload."""
    grpc_client.unload_model("identity_bytes")
    try:
        assert not http_client.is_model_ready("identity_bytes")
        assert not grpc_client.is_model_ready("identity_bytes")
        assert "identity_bytes" not in {
            m["name"] for m in http_client.get_model_repository_index() if m.get("state") == "READY"
        }
    finally:
        grpc_client.load_model("identity_bytes")
    assert http_client.is_model_ready("identity_bytes")
