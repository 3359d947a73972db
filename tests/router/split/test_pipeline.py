"""Split models in a real cluster: what they answer, and what they do when a segment is out."""

import queue
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from tritonclient.grpc import InferenceServerException

from tests.e2e.cluster import wait_until
from tests.patience import PATIENCE_S

RANDOM = np.random.RandomState(11)
REQUESTS: Mapping[str, dict[str, Any]] = {
    "ocr_det": {"x": RANDOM.uniform(-1, 1, (2, 3, 64, 96)).astype(np.float32)},
    "file_type": {"bytes": RANDOM.randint(0, 257, (3, 2048)).astype(np.int32)},
    "ocr_rec": {"x": RANDOM.uniform(-1, 1, (1, 3, 48, 160)).astype(np.float32)},
}


def whole(file: Path, feed: Mapping[str, Any]) -> dict[str, Any]:
    """What the file gives in one piece, without any Triton."""
    session = ort.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feed)), strict=True))


def assert_same(answered: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert answered.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(answered[name], values, rtol=0, atol=1e-5)


@pytest.mark.parametrize("model", REQUESTS)
def test_a_split_model_answers_what_the_whole_model_gives(
    split_cluster: Any, gateway_client: Any, real_files: Mapping[str, Path], model: str
) -> None:
    segments = split_cluster.plans[model]["segments"]
    assert {segment["provider"] for segment in segments} == {"CUDAExecutionProvider", "MIGraphXExecutionProvider"}
    before = split_cluster.answered(model, "segments")
    answered = gateway_client.infer(f"{model}_split", REQUESTS[model])
    assert_same(answered, whole(real_files[model], REQUESTS[model]))
    assert split_cluster.answered(model, "segments") == before + 1


def test_requests_at_the_same_time_are_batched_and_each_gets_its_own_answer(
    split_cluster: Any, gateway_client: Any, real_files: Mapping[str, Path], tensors_of: Any
) -> None:
    results: queue.Queue[tuple[int, Any, Any]] = queue.Queue()
    before = split_cluster.executions("file_type_split")
    requests = [{"bytes": RANDOM.randint(0, 257, (1, 2048)).astype(np.int32)} for _ in range(24)]
    for number, request in enumerate(requests):
        gateway_client.client.async_infer(
            "file_type_split",
            tensors_of(request),
            callback=lambda result, error, number=number: results.put((number, result, error)),
        )
    for _ in requests:
        number, result, error = results.get(timeout=PATIENCE_S)
        assert error is None
        answered = {"target_label": result.as_numpy("target_label")}
        assert_same(answered, whole(real_files["file_type"], requests[number]))
    assert split_cluster.executions("file_type_split") - before < len(requests)


def test_a_deadline_is_passed_on_and_the_error_names_the_segment(gateway_client: Any) -> None:
    request = {"INPUT0": np.ones((1, 2), np.float32), "DELAY_MS": np.full((1, 1), 60_000, np.int32)}
    with pytest.raises(InferenceServerException) as error:
        gateway_client.infer("slow_split", request, timeout=200_000)
    assert "split model 'slow_split': 'slow_identity' through" in str(error.value)
    assert "DEADLINE_EXCEEDED" in str(error.value)


def test_what_a_segment_refuses_is_refused_with_the_segments_name(gateway_client: Any) -> None:
    """The pipeline takes batches of 128 here, its segment 64."""
    request = {"INPUT0": np.ones((65, 2), np.float32), "DELAY_MS": np.zeros((65, 1), np.int32)}
    with pytest.raises(InferenceServerException, match="split model 'slow_split': 'slow_identity' through") as error:
        gateway_client.infer("slow_split", request)
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_a_fault_in_a_segment_is_not_blamed_on_the_server_of_the_pipeline(
    split_cluster: Any, gateway_client: Any
) -> None:
    """The gateway retries INTERNAL and the breaker counts it: both have happened to the segment's own answer.

    PaddleOCR's detector adds maps of one size only where height is a multiple of 32; its runner says INTERNAL.
    """
    with pytest.raises(InferenceServerException, match=r"'ocr_det_split_\d' through .*INTERNAL") as error:
        gateway_client.infer("ocr_det_split", {"x": np.zeros((1, 3, 50, 64), np.float32)})
    assert error.value.status() == "StatusCode.UNKNOWN"
    assert split_cluster.answered("ocr_det", "whole") == 0


def test_the_whole_model_answers_while_a_segments_server_is_out(
    split_cluster: Any, gateway_client: Any, real_files: Mapping[str, Path]
) -> None:
    split_cluster.stop("rocm")
    try:
        for model, request in REQUESTS.items():
            before = split_cluster.answered(model, "whole")
            assert_same(gateway_client.infer(f"{model}_split", request), whole(real_files[model], request))
            assert split_cluster.answered(model, "whole") == before + 1
        assert "Falling back to the whole model 'ocr_det'" in split_cluster.log("cuda")
    finally:
        split_cluster.start("rocm")
        split_cluster.wait_ready("rocm")
    wait_until(lambda: by_segments(split_cluster, gateway_client, "file_type"))


def by_segments(split_cluster: Any, gateway_client: Any, model: str) -> bool:
    """Whether the segments answer a request now."""
    before = split_cluster.answered(model, "segments")
    gateway_client.infer(f"{model}_split", REQUESTS[model])
    return bool(split_cluster.answered(model, "segments") > before)
