"""What a Triton says of itself opens its breaker, over whatever road it says it; what clients do does not."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.extra_model import RAISES, in_every_repository, load
from tests.e2e.more_gateways import another_gateway, backend_documents
from tests.e2e.requests import tensor
from tests.patience import PATIENCE_S

Road = Callable[[Cluster, str], str]
"""Sends a text to the model, which raises it; gives back what the client is told."""
MODEL = "raises"
OUT_OF_MEMORY = "CUDA error: out of memory"
HARDWARE = "CUDA error: uncorrectable ECC error encountered"
BROKEN = "CUDA error: an illegal memory access was encountered"
REFUSED = "has no healthy backend"
COOLDOWN_S = 1.0


@pytest.fixture(scope="module")
def lonely(_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A gateway with one backend, whose breaker cools down in a second, and a model that raises what it is told to."""
    wait_until(_cluster.is_whole)
    folder = tmp_path_factory.mktemp("lonely")
    with in_every_repository(_cluster, MODEL, RAISES):
        load(_cluster, MODEL)
        with another_gateway(
            _cluster,
            folder,
            backends=backend_documents(_cluster, "cpu-0"),
            breaker={"isolate_after": 2, "transient_cooldown_s": COOLDOWN_S},
        ) as second:
            yield second


@pytest.fixture
def healthy(lonely: Cluster) -> Cluster:
    wait_until(lonely.feedback_is_in)
    lonely.clear("cpu-0")
    wait_until(lambda: goes_through_the_gateway(lonely, "http", over_http))
    wait_until(lambda: goes_through_the_gateway(lonely, "grpc", over_grpc))
    return lonely


def post(cluster: Cluster, path: str, body: bytes) -> tuple[int, str]:
    """Status and text of an answer of the gateway."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"http://{cluster.http}{path}", body), timeout=PATIENCE_S
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def over_http(cluster: Cluster, text: str) -> str:
    given = {"name": "TEXT", "shape": [1, 1], "datatype": "BYTES", "data": [text]}
    return post(cluster, f"/v2/models/{MODEL}/infer", json.dumps({"inputs": [given]}).encode())[1]


def over_generate(cluster: Cluster, text: str) -> str:
    return post(cluster, f"/v2/models/{MODEL}/generate", json.dumps({"TEXT": text}).encode())[1]


def over_generate_stream(cluster: Cluster, text: str) -> str:
    return post(cluster, f"/v2/models/{MODEL}/generate_stream", json.dumps({"TEXT": text}).encode())[1]


def over_grpc(cluster: Cluster, text: str) -> str:
    words = tensor(triton_grpc, "TEXT", np.array([[text.encode()]], np.object_), "BYTES")
    with triton_grpc.InferenceServerClient(cluster.grpc) as client:
        try:
            return str(client.infer(MODEL, [words]).as_numpy("TEXT"))
        except InferenceServerException as error:
            return str(error.message())


ROADS = pytest.mark.parametrize("road", [over_grpc, over_http, over_generate, over_generate_stream])


@ROADS
def test_out_of_memory_isolates_for_long_over_every_road(healthy: Cluster, road: Road) -> None:
    wait_until(lambda: REFUSED in road(healthy, OUT_OF_MEMORY))
    backend = backend_status(healthy)
    assert (backend["state"], backend["tier"]) == ("Isolated", "persistent")
    assert OUT_OF_MEMORY in backend["reason"]


@ROADS
def test_an_ecc_error_faults_at_once_over_every_road(healthy: Cluster, road: Road) -> None:
    road(healthy, HARDWARE)
    wait_until(lambda: healthy.breaker("cpu-0") == "Faulted")
    assert HARDWARE in backend_status(healthy)["reason"]
    wait_until(lambda: REFUSED in road(healthy, ""))


@ROADS
def test_what_a_model_raises_about_a_request_is_nobodys_fault(healthy: Cluster, road: Road) -> None:
    """SMG 25811: client errors opened the breaker, and the whole fleet was out."""
    for _ in range(10):
        assert "ValueError: no such word" in road(healthy, "ValueError: no such word")
    assert_nothing_was_counted(healthy)


@pytest.mark.parametrize("action", ["infer", "generate", "generate_stream"])
def test_no_client_can_word_an_error_that_opens_a_breaker(healthy: Cluster, action: str) -> None:
    """Triton answers 500 to a body that is not JSON, and repeats in a 400 what the client wrote."""
    for words in (HARDWARE, OUT_OF_MEMORY, f'{{"error":"Failed to process the request(s) for model \'{HARDWARE}'):
        said = json.dumps(words)
        for body in (
            f"{{{said}",
            said,
            f'{{"inputs": {said}}}',
            f'{{"inputs": [{{"name": {said}, "shape": [1, 1], "datatype": "BYTES", "data": ["a"]}}]}}',
            f'{{"parameters": {{{said}: null}}}}',
            f"{{{said}: {said}}}",
            f'{{"TEXT": {{{said}: 1}}}}',
        ):
            status, _ = post(healthy, f"/v2/models/{MODEL}/{action}", body.encode())
            assert status >= 400
    assert_nothing_was_counted(healthy)


def test_a_backend_that_heals_is_back_after_its_cool_down_and_one_that_does_not_is_not(healthy: Cluster) -> None:
    """SMG 31206: half-open for ever. Here the clock alone ends an isolation, and the next failures begin another."""
    for _ in range(2):
        wait_until(lambda: REFUSED in over_http(healthy, BROKEN))
        assert healthy.breaker("cpu-0") == "Isolated"
        wait_until(lambda: healthy.breaker("cpu-0") == "Healthy")
    wait_until(lambda: '"outputs"' in over_http(healthy, ""))
    assert healthy.breaker("cpu-0") == "Healthy"


def test_the_events_of_a_stream_are_not_held_back(cluster: Cluster) -> None:
    body = json.dumps({"IN": [1, 2], "DELAY": [0, 60_000]}).encode()
    url = f"http://{cluster.http}/v2/models/repeat/generate_stream"
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=PATIENCE_S) as answer:
        assert json.loads(answer.readline().removeprefix(b"data: "))["OUT"] == 1


def goes_through_the_gateway(cluster: Cluster, protocol: str, road: Road) -> bool:
    """Whether a request is placed by the gateway: until it has the table, the router answers."""
    name = f"cluster.{protocol}/{MODEL}.upstream_rq_total"
    before = cluster.envoy_stat(name)
    road(cluster, "")
    return cluster.envoy_stat(name) > before


def backend_status(cluster: Cluster) -> dict[str, Any]:
    (backend,) = cluster.status()["backends"]
    found: dict[str, Any] = backend
    return found


def assert_nothing_was_counted(cluster: Cluster) -> None:
    wait_until(cluster.feedback_is_in)
    assert backend_status(cluster)["state"] == "Healthy"
