"""The models that are Python, with only Triton's own module a fake; test_triton.py has them in a real one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bimetal.model_repo.sources import MODELS_DIR
from tests.patience import PATIENCE_S

LONG_MS = 5 * PATIENCE_S * 1000  # what is not cancelled does not end while a test waits

Load = Callable[..., Any]
Request = Callable[..., Any]


@pytest.fixture
def request_repeat(fake_pb_utils: Any) -> Request:
    def make(elements: list[int], delays_ms: list[int]) -> Any:
        inputs = {"IN": np.array(elements, dtype=np.int32), "DELAY": np.array(delays_ms, dtype=np.uint32)}
        return fake_pb_utils.Request(**inputs)

    return make


@pytest.fixture
def request_slow(fake_pb_utils: Any) -> Request:
    def make(*delays_ms: int) -> Any:
        inputs = {"INPUT0": np.ones((len(delays_ms), 2), dtype=np.float32)}
        return fake_pb_utils.Request(**inputs, DELAY_MS=np.array(delays_ms, dtype=np.int32)[:, None])

    return make


def next_sent(request: Any) -> tuple[Any, bool]:
    sent: tuple[Any, bool] = request.sender.sent.get(timeout=PATIENCE_S)
    return sent


def test_repeat_sends_a_response_per_element_and_then_nothing_but_the_final_flag(
    load_model: Load, request_repeat: Request
) -> None:
    request = request_repeat([5, 6], [0, 1])
    load_model(MODELS_DIR / "repeat" / "model.py").execute([request])
    for index, element in enumerate([5, 6]):
        response, final = next_sent(request)
        assert (response.tensors["OUT"].tolist(), response.tensors["IDX"].tolist()) == ([element], [index])
        assert not final
    assert next_sent(request) == (None, True)


def test_repeat_ends_its_stream_when_the_client_has_cancelled(load_model: Load, request_repeat: Request) -> None:
    request = request_repeat([5, 6], [0, 0])
    request.sender.cancelled.set()
    load_model(MODELS_DIR / "repeat" / "model.py").execute([request])
    assert next_sent(request) == (None, True)


def test_a_slow_request_that_is_cancelled_ends_in_an_error(load_model: Load, request_slow: Request) -> None:
    request = request_slow(1, LONG_MS)
    load_model(MODELS_DIR / "slow_identity" / "model.py").execute([request])
    request.sender.cancelled.set()
    response, final = next_sent(request)
    assert final
    assert response.error.code == "cancelled"


def test_unloading_repeat_ends_its_streams(load_model: Load, request_repeat: Request) -> None:
    request = request_repeat([5], [LONG_MS])
    model = load_model(MODELS_DIR / "repeat" / "model.py")
    model.execute([request])
    model.finalize()
    assert next_sent(request) == (None, True)


def test_unloading_slow_identity_ends_what_it_has_in_flight(load_model: Load, request_slow: Request) -> None:
    request = request_slow(LONG_MS)
    model = load_model(MODELS_DIR / "slow_identity" / "model.py")
    model.execute([request])
    model.finalize()
    response, final = next_sent(request)
    assert final
    assert response.error.code == "cancelled"
