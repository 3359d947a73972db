"""Every rendered model in a real Triton, by the stock clients."""

import queue
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from bimetal.model_repo.sources import load_sources
from bimetal.model_repo.weights import obtain
from tests.patience import PATIENCE_S

SOURCES = load_sources()
Arrays = dict[str, Any]
Infer = Callable[[str, Arrays], Arrays]

RANDOM = np.random.RandomState(5)
INPUTS: Mapping[str, Arrays] = {
    "file_type": {"bytes": RANDOM.randint(0, 257, (3, 2048)).astype(np.int32)},
    "identity": {"INPUT0": RANDOM.uniform(-1, 1, (2, 5)).astype(np.float32)},
    "identity_bytes": {"INPUT0": np.array([[b"plain", "é".encode(), b"\xff\x00", b""]], dtype=object)},
    "ocr_det": {"x": RANDOM.uniform(-1, 1, (2, 3, 64, 96)).astype(np.float32)},
    "qlinear_block": {"image": RANDOM.uniform(-1, 1, (2, 3, 32, 32)).astype(np.float32)},
    "rope_attention": {
        "hidden_states": RANDOM.uniform(-1, 1, (2, 6, 64)).astype(np.float32),
        "position_ids": np.stack([np.arange(6), np.arange(300, 306)]),
    },
    "slow_identity": {
        "INPUT0": RANDOM.uniform(-1, 1, (2, 5)).astype(np.float32),
        "DELAY_MS": np.array([[1], [2]], dtype=np.int32),
    },
    "vad_lstm": {
        "input": RANDOM.uniform(-1, 1, (2, 576)).astype(np.float32),
        "state": RANDOM.uniform(-1, 1, (2, 2, 128)).astype(np.float32),
        "sr": np.array([16_000]),
    },
}


def tensors(client: Any, arrays: Arrays) -> list[Any]:
    made = []
    for name, values in arrays.items():
        tensor = client.InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype))
        tensor.set_data_from_numpy(values)
        made.append(tensor)
    return made


def arrays_of(model: str, result: Any) -> Arrays:
    return {tensor.name: result.as_numpy(tensor.name) for tensor in SOURCES[model].outputs}


@pytest.fixture
def grpc_client(triton: Any) -> Iterator[Any]:
    with closing(triton_grpc.InferenceServerClient(f"127.0.0.1:{triton.grpc_port}")) as client:
        yield client


@pytest.fixture(params=["http", "grpc"])
def infer(request: pytest.FixtureRequest, triton: Any) -> Iterator[Infer]:
    module = triton_http if request.param == "http" else triton_grpc
    port = triton.http_port if request.param == "http" else triton.grpc_port
    with closing(module.InferenceServerClient(f"127.0.0.1:{port}")) as client:
        yield lambda model, inputs: arrays_of(model, client.infer(model, tensors(module, inputs)))


def expected(model: str, inputs: Arrays) -> Arrays:
    """What the ONNX file gives without Triton; of an identity, its input."""
    source = SOURCES[model].source
    if source is None:
        return {"OUTPUT0": inputs["INPUT0"]}
    session = ort.InferenceSession(obtain(source), providers=["CPUExecutionProvider"])
    scalars = {value.name for value in session.get_inputs() if value.shape == []}
    feed = {name: values.reshape(()) if name in scalars else values for name, values in inputs.items()}
    names = [tensor.name for tensor in SOURCES[model].outputs]
    return dict(zip(names, session.run(names, feed), strict=True))


def test_there_is_a_request_for_every_model_that_answers_once() -> None:
    plain = {name for name, source in SOURCES.items() if not source.decoupled and not source.sequence}
    assert set(INPUTS) == plain


def test_a_stateful_model_keeps_the_sums_of_its_sequences_apart(grpc_client: Any) -> None:
    def send(sequence: int, value: int, *, start: bool = False, end: bool = False) -> int:
        given = tensors(triton_grpc, {"VALUE": np.array([[value]], np.int32)})
        options = {"sequence_id": sequence, "sequence_start": start, "sequence_end": end}
        return int(grpc_client.infer("sequence_sum", given, **options).as_numpy("SUM")[0, 0])

    assert [send(1, 5, start=True), send(2, 100, start=True)] == [5, 100]
    assert [send(1, 6), send(2, 200, end=True), send(1, 7, end=True)] == [11, 300, 18]
    assert send(2, 1, start=True, end=True) == 1


@pytest.mark.parametrize("model", INPUTS)
def test_a_model_answers_what_its_onnx_file_gives(infer: Infer, model: str) -> None:
    answered = infer(model, INPUTS[model])
    for name, values in expected(model, INPUTS[model]).items():
        if values.dtype == object:
            assert answered[name].tolist() == values.tolist()
        else:
            np.testing.assert_allclose(answered[name], values, rtol=1e-4, atol=1e-5)


def test_slow_identity_answers_without_a_delay_too(infer: Infer) -> None:
    answered = infer("slow_identity", {"INPUT0": np.ones((1, 2), dtype=np.float32)})
    assert answered["OUTPUT0"].tolist() == [[1, 1]]


def test_identity_refuses_a_vector_without_its_batch_dimension_as_its_description_says(infer: Infer) -> None:
    with pytest.raises(InferenceServerException, match="unexpected shape for input 'INPUT0' for model 'identity'"):
        infer("identity", {"INPUT0": np.ones(3, dtype=np.float32)})


def test_an_impossible_input_is_an_error_that_names_model_and_inputs(infer: Infer) -> None:
    inputs = INPUTS["rope_attention"] | {"position_ids": np.full((2, 6), 512)}
    with pytest.raises(InferenceServerException) as error:
        infer("rope_attention", inputs)
    assert "model 'rope_attention' with inputs hidden_states float32[2, 6, 64], position_ids" in str(error.value)
    assert error.value.status() in {"400", "StatusCode.INVALID_ARGUMENT"}


def test_requests_at_the_same_time_are_batched_and_each_gets_its_own_answer(grpc_client: Any) -> None:
    results: queue.Queue[tuple[int, Any, Any]] = queue.Queue()
    images = [np.full((1, 3, 32, 32), number / 40, dtype=np.float32) for number in range(40)]
    for number, image in enumerate(images):
        grpc_client.async_infer(
            "qlinear_block",
            tensors(triton_grpc, {"image": image}),
            callback=lambda result, error, number=number: results.put((number, result, error)),
        )
    for _ in images:
        number, result, error = results.get(timeout=PATIENCE_S)
        assert error is None
        answer = expected("qlinear_block", {"image": images[number]})["features"]
        np.testing.assert_allclose(result.as_numpy("features"), answer)
    (statistics,) = grpc_client.get_inference_statistics("qlinear_block", as_json=True)["model_stats"]
    assert int(statistics["execution_count"]) < int(statistics["inference_count"])


def test_a_slow_request_holds_no_other_up_and_can_be_cancelled(grpc_client: Any) -> None:
    ended: queue.Queue[Any] = queue.Queue()
    a_minute = INPUTS["slow_identity"] | {"DELAY_MS": np.full((2, 1), 60_000, dtype=np.int32)}
    pending = grpc_client.async_infer(
        "slow_identity", tensors(triton_grpc, a_minute), callback=lambda result, error: ended.put((result, error))
    )
    quick = grpc_client.infer("slow_identity", tensors(triton_grpc, INPUTS["slow_identity"]))
    assert quick.as_numpy("OUTPUT0").shape == (2, 5)
    assert ended.empty()
    pending.cancel()
    result, error = ended.get(timeout=PATIENCE_S)
    assert result is None
    assert error.status() == "StatusCode.CANCELLED"


class Stream:
    """The responses to one request after the other on one gRPC stream."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._responses: queue.Queue[tuple[Any, Any]] = queue.Queue()
        client.start_stream(callback=lambda result, error: self._responses.put((result, error)))

    def repeat(self, elements: list[int], delays_ms: list[int]) -> list[tuple[int, int]]:
        """(OUT, IDX) of each response until the final flag; raises the error that a response carries."""
        inputs = {"IN": np.array(elements, dtype=np.int32), "DELAY": np.array(delays_ms, dtype=np.uint32)}
        self._client.async_stream_infer("repeat", tensors(triton_grpc, inputs), enable_empty_final_response=True)
        pairs: list[tuple[int, int]] = []
        while True:
            result, error = self._responses.get(timeout=PATIENCE_S)
            if error is not None:
                raise error
            if result.get_response().parameters["triton_final_response"].bool_param:
                return pairs
            pairs.append((int(result.as_numpy("OUT")[0]), int(result.as_numpy("IDX")[0])))


@pytest.fixture
def stream(grpc_client: Any) -> Iterator[Stream]:
    yield Stream(grpc_client)
    grpc_client.stop_stream()


def test_repeat_streams_a_response_per_element_and_then_the_final_flag(stream: Stream) -> None:
    assert stream.repeat([7, -5, 7], [1, 0, 2]) == [(7, 0), (-5, 1), (7, 2)]
    assert stream.repeat([], []) == []


def test_repeat_names_a_wrong_number_of_delays(stream: Stream) -> None:
    with pytest.raises(InferenceServerException, match=r"input DELAY has shape \[1\]; expected that of IN, \[2\]"):
        stream.repeat([1, 2], [0])
    assert stream.repeat([3], [0]) == [(3, 0)]


def test_the_log_says_that_the_cuda_pool_computes_on_the_cpu_here(triton: Any) -> None:
    wanted = "asked for CUDAExecutionProvider (compute: cpu), got CPUExecutionProvider"
    models = {line.split("model '")[1].split("'")[0] for line in triton.log.read_text().splitlines() if wanted in line}
    assert models == {name for name, source in SOURCES.items() if source.kind == "onnx"}
