"""Control requests through the gateway: the cluster answers as one server."""

from typing import Any

import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.e2e.cluster import Cluster
from tests.e2e.requests import identity


def test_the_cluster_is_live_and_ready_over_both_protocols(grpc_client: Any, http_client: Any) -> None:
    for client in (grpc_client, http_client):
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("identity")
        assert client.is_model_ready("identity", "1")
        assert not client.is_model_ready("identity", "9")
        assert not client.is_model_ready("nope")


@pytest.mark.parametrize("call", ["get_model_metadata", "get_model_config"])
def test_a_models_description_is_what_its_triton_says(cluster: Cluster, grpc_client: Any, call: str) -> None:
    with triton_grpc.InferenceServerClient(f"127.0.0.1:{cluster.backend('cuda-0').grpc_port}") as direct:
        expected = getattr(direct, call)("identity_bytes", as_json=True)
    found = getattr(grpc_client, call)("identity_bytes", as_json=True)
    # Which Triton answered shows only in what its pool renders: `provider`.
    for answer in (expected, found):
        answer.get("config", {}).pop("parameters", None)
        answer.get("config", {}).pop("dynamic_batching", None)
    assert found == expected


def test_the_index_lists_each_model_once(grpc_client: Any, http_client: Any) -> None:
    over_grpc = [(m.name, m.version, m.state) for m in grpc_client.get_model_repository_index().models]
    over_http = [(m["name"], m["version"], m["state"]) for m in http_client.get_model_repository_index()]
    assert over_grpc == over_http
    assert over_grpc.count(("identity", "1", "READY")) == 1


def test_statistics_are_the_sum_of_all_backends(grpc_client: Any, http_client: Any) -> None:
    def count() -> tuple[int, int]:
        over_grpc = grpc_client.get_inference_statistics("identity", as_json=True)["model_stats"][0]
        over_http = http_client.get_inference_statistics("identity")["model_stats"][0]
        # Protobuf's JSON leaves a zero out.
        in_grpc = int(over_grpc["inference_stats"]["success"].get("count", 0))
        return in_grpc, over_http["inference_stats"]["success"]["count"]

    before = count()
    for _ in range(12):
        identity(triton_grpc, grpc_client)
    assert count() == (before[0] + 12, before[1] + 12)


def test_server_metadata_leaves_out_what_a_cluster_cannot_keep(grpc_client: Any, http_client: Any) -> None:
    over_grpc = grpc_client.get_server_metadata(as_json=True)
    assert over_grpc == http_client.get_server_metadata()
    assert over_grpc["version"] == "2.51.0"
    assert "binary_tensor_data" in over_grpc["extensions"]
    assert not {"system_shared_memory", "cuda_shared_memory"} & set(over_grpc["extensions"])


def test_shared_memory_is_refused_with_what_to_do_instead(grpc_client: Any, http_client: Any) -> None:
    """T6112, T7396: a region that was registered on one server is missing on another."""
    with pytest.raises(InferenceServerException, match="send the tensors in the request") as over_grpc:
        grpc_client.register_system_shared_memory("r", "/r", 64)
    with pytest.raises(InferenceServerException, match="send the tensors in the request") as over_http:
        http_client.register_system_shared_memory("r", "/r", 64)
    assert (over_grpc.value.status(), over_http.value.status()) == ("StatusCode.UNIMPLEMENTED", "501")


def test_wrong_methods_and_unknown_paths_get_tritons_own_words(cluster: Cluster) -> None:
    with (
        triton_http.InferenceServerClient(f"127.0.0.1:{cluster.backend('cuda-0').http_port}") as direct,
        triton_http.InferenceServerClient(cluster.http) as gateway,
    ):
        for method, path in [("get", "v2/nope"), ("get", "v2/models/identity/infer"), ("post", "v2")]:
            answers = []
            for client in (direct, gateway):
                ask = client._get if method == "get" else client._post
                arguments = {} if method == "get" else {"request_body": b"{}"}
                answer = ask(request_uri=path, headers=None, query_params=None, **arguments)
                answers.append((answer.status_code, answer.read()))
            assert answers[0] == answers[1], path


def test_a_long_error_text_of_a_bad_load_arrives_with_its_status(cluster: Cluster, grpc_client: Any) -> None:
    """model_analyzer 472: a long error text broke the client, which then had no status either."""
    with (
        triton_grpc.InferenceServerClient(cluster.backend("cuda-0").grpc_address) as direct,
        pytest.raises(InferenceServerException, match="metadata size exceeds"),
    ):
        direct.load_model("n" * 20_000)
    with pytest.raises(InferenceServerException, match="failed to load 'nnnnn") as caught:
        grpc_client.load_model("n" * 20_000)
    assert caught.value.status() == "StatusCode.INTERNAL"
    assert 1000 < len(caught.value.message()) < 8192
