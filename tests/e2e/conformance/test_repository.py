"""Loading and unloading through the gateway: on every Triton, and afterwards the cluster answers as one of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import tritonclient.http as triton_http

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.conformance.http_case import HttpAnswer, HttpCase, ask, infer_body, json_input

MODEL = "/v2/models/identity_bytes"
HELLO = infer_body(json_input("INPUT0", [1, 1], "BYTES", ["hello"]))
QUESTIONS = [
    HttpCase("metadata of an unloaded model", 404, "GET", MODEL),
    HttpCase("configuration of an unloaded model", 404, "GET", f"{MODEL}/config"),
    HttpCase("readiness of an unloaded model", 400, "GET", f"{MODEL}/ready"),
    HttpCase("statistics of an unloaded model", 400, "GET", f"{MODEL}/stats"),
    HttpCase("inference of an unloaded model", 404, "POST", f"{MODEL}/infer", HELLO),
    HttpCase("generate of an unloaded model", 404, "POST", f"{MODEL}/generate", b'{"INPUT0": "hello"}'),
    HttpCase("the index with an unloaded model", 200, "POST", "/v2/repository/index", b""),
    HttpCase("the ready models without an unloaded one", 200, "POST", "/v2/repository/index", b'{"ready": true}'),
    HttpCase("a server whose model was unloaded on purpose is ready", 200, "GET", "/v2/health/ready"),
]


@pytest.fixture(scope="module")
def unloaded(whole: Cluster) -> Iterator[Cluster]:
    """The cluster while `identity_bytes` is unloaded everywhere."""
    with triton_http.InferenceServerClient(whole.http) as client:
        client.unload_model("identity_bytes")
        try:
            # Triton answers before it is done: until then it calls itself not ready.
            wait_until(lambda: {_state(b.http_address) for b in whole.fleet.backends} == {"UNAVAILABLE"})
            wait_until(lambda: _state(whole.http) == "UNAVAILABLE")
            yield whole
        finally:
            client.load_model("identity_bytes")
            wait_until(whole.is_whole)


def _state(address: str) -> str:
    index = ask(address, HttpCase("the index", 200, "POST", "/v2/repository/index", b""))
    return str(next(m["state"] for m in json.loads(index.body) if m["name"] == "identity_bytes"))


@pytest.mark.parametrize("case", QUESTIONS, ids=lambda case: case.says)
def test_an_unloaded_model_is_answered_as_by_a_triton(unloaded: Cluster, case: HttpCase) -> None:
    expected = [ask(backend.http_address, case) for backend in unloaded.fleet.backends]
    assert [answer.status for answer in expected] == [case.status] * len(expected)
    assert ask(unloaded.http, case) in expected


def test_a_model_is_there_as_soon_as_its_load_is_answered(whole: Cluster) -> None:
    """TC537, T3903: load and infer reached different servers."""
    with triton_http.InferenceServerClient(whole.http) as client:
        for _ in range(2):
            client.unload_model("identity_bytes")
            assert not client.is_model_ready("identity_bytes")
            client.load_model("identity_bytes")
            assert client.is_model_ready("identity_bytes")
            for _ in range(6):
                answer = ask(whole.http, HttpCase("inference", 200, "POST", f"{MODEL}/infer", HELLO))
                assert _data(answer) == ["hello"]
    wait_until(whole.is_whole)


def test_a_load_with_a_new_config_holds_on_every_triton(whole: Cluster) -> None:
    case = HttpCase("configuration", 200, "GET", f"{MODEL}/config")
    config = {
        "backend": "python",
        "max_batch_size": 4,
        "input": [{"name": "INPUT0", "data_type": "TYPE_STRING", "dims": [-1]}],
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_STRING", "dims": [-1]}],
    }
    with triton_http.InferenceServerClient(whole.http) as client:
        client.load_model("identity_bytes", config=json.dumps(config))
        try:
            addresses = [whole.http, *(b.http_address for b in whole.fleet.backends)]
            sizes = [json.loads(ask(address, case).body)["max_batch_size"] for address in addresses]
        finally:
            client.load_model("identity_bytes")
    assert sizes == [4, 4, 4, 4]
    wait_until(whole.is_whole)


def test_a_load_that_fails_everywhere_ends_in_tritons_words(whole: Cluster, tritons_http: list[str]) -> None:
    body = json.dumps({"parameters": {"config": json.dumps({"backend": "nope"})}}).encode()
    case = HttpCase("a bad config", 400, "POST", "/v2/repository/models/nope/load", body)
    expected = [ask(address, case) for address in tritons_http]
    assert ask(whole.http, case) in expected
    assert _error(expected[0])


def _data(answer: HttpAnswer) -> Any:
    return json.loads(answer.body)["outputs"][0]["data"]


def _error(answer: HttpAnswer) -> str:
    return str(json.loads(answer.body)["error"])
