"""tritonclient's own example programs, in our words, with the gateway in the place of a Triton."""

import asyncio
import json
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.e2e.answers import Answers
from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.requests import ROWS, identity, tensor
from tests.patience import PATIENCE_S

WORDS = np.array([["a", "ü", ""]], np.object_)
LONG_MS = 5 * PATIENCE_S * 1000  # what is not cancelled does not end while a test waits


def slow_inputs(module: Any) -> list[Any]:
    """An inference that lasts longer than a test waits, unless it is cancelled."""
    delay = np.array([[LONG_MS]], np.int32)
    return [tensor(module, "INPUT0", np.zeros((1, 1), np.float32)), tensor(module, "DELAY_MS", delay, "INT32")]


def repeat_inputs(values: list[int]) -> list[Any]:
    """What the decoupled model answers with one response per value."""
    given, delays = np.array(values, np.int32), np.zeros(len(values), np.uint32)
    return [tensor(triton_grpc, "IN", given, "INT32"), tensor(triton_grpc, "DELAY", delays, "UINT32")]


@pytest.fixture(params=["grpc", "http"])
def either(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """tritonclient's module and a client of the gateway, for both protocols."""
    module = triton_grpc if request.param == "grpc" else triton_http
    return module, request.getfixturevalue(f"{request.param}_client")


def test_health_and_metadata(either: tuple[Any, Any]) -> None:
    module, client = either
    as_json = {"as_json": True} if module is triton_grpc else {}
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("identity")
    assert client.get_server_metadata(**as_json)["version"] == "2.51.0"
    assert client.get_model_metadata("identity", **as_json)["name"] == "identity"
    config = client.get_model_config("identity", **as_json)
    assert config.get("config", config)["max_batch_size"] == 64
    with pytest.raises(InferenceServerException, match="Request for unknown model: 'nope' is not found"):
        client.get_model_metadata("nope")


def test_simple_infer(either: tuple[Any, Any]) -> None:
    module, client = either
    answer = client.infer(
        "identity", [tensor(module, "INPUT0", ROWS)], outputs=[module.InferRequestedOutput("OUTPUT0")], request_id="1"
    )
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), ROWS)
    assert answer.as_numpy("NOPE") is None


@pytest.mark.parametrize("given_binary", [True, False])
@pytest.mark.parametrize("wanted_binary", [True, False])
def test_http_with_and_without_binary_data(http_client: Any, given_binary: bool, wanted_binary: bool) -> None:
    given = tensor(triton_http, "INPUT0", ROWS, binary_data=given_binary)
    wanted = triton_http.InferRequestedOutput("OUTPUT0", binary_data=wanted_binary)
    answer = http_client.infer("identity", [given], outputs=[wanted])
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), ROWS)


def test_string_infer(either: tuple[Any, Any]) -> None:
    module, client = either
    answer = client.infer("identity_bytes", [tensor(module, "INPUT0", WORDS, "BYTES")])
    assert [word.decode() for word in answer.as_numpy("OUTPUT0")[0]] == WORDS[0].tolist()


def test_infer_objects_are_used_again(either: tuple[Any, Any]) -> None:
    module, client = either
    given, wanted = tensor(module, "INPUT0", ROWS), module.InferRequestedOutput("OUTPUT0")
    for values in (ROWS, ROWS + 1):
        given.set_data_from_numpy(values)
        answer = client.infer("identity", [given], outputs=[wanted])
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), values)


def test_explicit_contents_through_a_bare_stub(cluster: Cluster) -> None:
    contents = service_pb2.InferTensorContents(fp32_contents=[1, 2])
    given = service_pb2.ModelInferRequest.InferInputTensor(
        name="INPUT0", datatype="FP32", shape=[1, 2], contents=contents
    )
    request = service_pb2.ModelInferRequest(model_name="identity", inputs=[given])
    with grpc.insecure_channel(cluster.grpc) as channel:
        answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=PATIENCE_S)
    assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [1, 2]


def test_grpc_async_infer_with_a_callback(grpc_client: Any) -> None:
    answers = Answers()
    for _ in range(8):
        given = [tensor(triton_grpc, "INPUT0", ROWS)]
        grpc_client.async_infer("identity", given, answers.take)
    for _ in range(8):
        result, error = answers.next()
        assert error is None
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), ROWS)


def test_http_async_infer(cluster: Cluster) -> None:
    with triton_http.InferenceServerClient(cluster.http, concurrency=4) as client:
        pending = [client.async_infer("identity", [tensor(triton_http, "INPUT0", ROWS)]) for _ in range(8)]
        for one in pending:
            np.testing.assert_array_equal(one.get_result().as_numpy("OUTPUT0"), ROWS)


def test_asyncio_clients(cluster: Cluster) -> None:
    async def ask() -> list[Any]:
        async with (
            triton_grpc_aio.InferenceServerClient(cluster.grpc) as over_grpc,
            triton_http_aio.InferenceServerClient(cluster.http) as over_http,
        ):
            answers = await asyncio.gather(
                *(over_grpc.infer("identity", [tensor(triton_grpc, "INPUT0", ROWS)]) for _ in range(4)),
                *(over_http.infer("identity", [tensor(triton_http, "INPUT0", ROWS)]) for _ in range(4)),
            )
        return [answer.as_numpy("OUTPUT0") for answer in answers]

    for rows in asyncio.run(ask()):
        np.testing.assert_array_equal(rows, ROWS)


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
def test_compression(grpc_client: Any, http_client: Any, compression: str) -> None:
    """T5185, PR2933: compressed bodies were mislabelled on the way."""
    both_ways: dict[str, Any] = {
        "request_compression_algorithm": compression,
        "response_compression_algorithm": compression,
    }
    np.testing.assert_array_equal(identity(triton_http, http_client, **both_ways), ROWS)
    np.testing.assert_array_equal(identity(triton_grpc, grpc_client, compression_algorithm=compression), ROWS)


def test_classification(either: tuple[Any, Any]) -> None:
    module, client = either
    wanted = module.InferRequestedOutput("OUTPUT0", class_count=2)
    answer = client.infer("identity", [tensor(module, "INPUT0", ROWS)], outputs=[wanted])
    best = [[str(label, "utf-8").split(":") for label in row] for row in answer.as_numpy("OUTPUT0")]
    assert [[int(index) for _, index in row] for row in best] == [[2, 1], [2, 1]]


def test_two_sequences_on_one_stream(grpc_client: Any) -> None:
    answers = Answers()
    grpc_client.start_stream(answers.take)
    for step, value in enumerate((11, 7, 5)):
        for sequence, sign in ((9001, 1), (9002, -1)):
            grpc_client.async_stream_infer(
                "sequence_sum",
                [tensor(triton_grpc, "VALUE", np.array([[sign * value]], np.int32), "INT32")],
                request_id=f"{sequence}",
                sequence_id=sequence,
                sequence_start=step == 0,
                sequence_end=step == 2,
            )
    sums: dict[str, list[int]] = {"9001": [], "9002": []}
    for _ in range(6):
        result, error = answers.next()
        assert error is None
        sums[result.get_response().id].append(int(result.as_numpy("SUM")[0, 0]))
    grpc_client.stop_stream()
    assert sums == {"9001": [11, 18, 23], "9002": [-11, -18, -23]}


def test_a_decoupled_model_with_a_final_response(grpc_client: Any) -> None:
    answers = Answers()
    grpc_client.start_stream(answers.take)
    grpc_client.async_stream_infer("repeat", repeat_inputs([4, 2]), enable_empty_final_response=True)
    got, is_final = [], False
    while not is_final:
        result, error = answers.next()
        assert error is None
        is_final = result.get_response().parameters["triton_final_response"].bool_param
        if result.as_numpy("OUT") is not None:
            got.append(int(result.as_numpy("OUT")[0]))
    grpc_client.stop_stream()
    assert got == [4, 2]


def test_model_control(either: tuple[Any, Any]) -> None:
    _, client = either
    client.unload_model("identity_bytes")
    try:
        assert not client.is_model_ready("identity_bytes")
        with pytest.raises(InferenceServerException, match="has no available versions"):
            client.get_model_metadata("identity_bytes")
    finally:
        client.load_model("identity_bytes")
    assert client.is_model_ready("identity_bytes")
    with pytest.raises(InferenceServerException, match="failed to load 'nope', failed to poll from model repository"):
        client.load_model("nope")


def test_a_cancelled_request_stops_at_its_triton(cluster: Cluster, grpc_client: Any) -> None:
    """T7077: the client is gone, the work goes on."""
    answers = Answers()
    call = grpc_client.async_infer("slow_identity", slow_inputs(triton_grpc), answers.take)
    wait_until(lambda: in_flight(cluster) == 1)
    call.cancel()
    _, error = answers.next()
    assert error.status() == "StatusCode.CANCELLED"
    wait_until(lambda: in_flight(cluster) == 0)


def test_a_cancelled_stream_stops_at_its_triton(cluster: Cluster, grpc_client: Any) -> None:
    answers = Answers()
    grpc_client.start_stream(answers.take)
    grpc_client.async_stream_infer("slow_identity", slow_inputs(triton_grpc))
    wait_until(lambda: in_flight(cluster) == 1)
    grpc_client.stop_stream(cancel_requests=True)
    _, error = answers.next()
    assert error.status() == "StatusCode.CANCELLED"
    wait_until(lambda: in_flight(cluster) == 0)


def test_a_client_timeout(cluster: Cluster, grpc_client: Any) -> None:
    """T6920, T7512: a request that had timed out still ran."""
    with pytest.raises(InferenceServerException) as caught:
        grpc_client.infer("slow_identity", slow_inputs(triton_grpc), client_timeout=0.2)
    assert caught.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    wait_until(lambda: in_flight(cluster) == 0)


def test_keepalive_options_and_channel_arguments(cluster: Cluster) -> None:
    keepalive = triton_grpc.KeepAliveOptions(
        keepalive_time_ms=1000, keepalive_timeout_ms=20_000, keepalive_permit_without_calls=True
    )
    with triton_grpc.InferenceServerClient(cluster.grpc, keepalive_options=keepalive) as client:
        np.testing.assert_array_equal(identity(triton_grpc, client), ROWS)
    arguments = [("grpc.lb_policy_name", "pick_first"), ("grpc.keepalive_time_ms", 1000)]
    with triton_grpc.InferenceServerClient(cluster.grpc, channel_args=arguments) as client:
        np.testing.assert_array_equal(identity(triton_grpc, client), ROWS)


def test_headers_and_request_parameters(either: tuple[Any, Any]) -> None:
    module, client = either
    given = [tensor(module, "INPUT0", ROWS)]
    answer = client.infer("identity", given, headers={"x-tenant": "a"}, parameters={"note": "mine"}, priority=1)
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), ROWS)


def test_generate_and_its_stream(http_client: Any) -> None:
    whole = http_client._post("v2/models/identity_bytes/generate", json.dumps({"INPUT0": "hello"}), None, None)
    assert json.loads(whole.read())["OUTPUT0"] == "hello"
    body = json.dumps({"IN": [3, 1], "DELAY": [0, 0]})
    stream = http_client._post("v2/models/repeat/generate_stream", body, None, None)
    events = [json.loads(line.removeprefix("data: ")) for line in stream.read().decode().splitlines() if line]
    assert [event["OUT"] for event in events] == [3, 1]


def in_flight(cluster: Cluster) -> int:
    """Requests for `slow_identity` that the gateway has with any Triton."""
    return cluster.envoy_stat("cluster.grpc/slow_identity.upstream_rq_active")
