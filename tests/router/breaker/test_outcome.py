"""What a try means: by where the error arose and what it says."""

from typing import Any

import pytest

from bimetal.breaker.breaker import Tier
from bimetal.breaker.outcome import Effect, Outcome, Try, classify


def outcome(*flags: str, **fields: Any) -> Outcome:
    return classify(Try("cuda-0", "m", flags=frozenset(flags), **fields))


@pytest.mark.parametrize(
    "flag", ["upstream_connection_failure", "upstream_connection_termination", "upstream_remote_reset"]
)
def test_a_broken_connection_is_a_loss(flag: str) -> None:
    assert outcome(flag).effect is Effect.LOST


def test_our_own_deadline_is_a_failure() -> None:
    assert outcome("upstream_request_timeout").effect is Effect.FAILURE


@pytest.mark.parametrize(
    "flag", ["downstream_connection_termination", "downstream_remote_reset", "duration_timeout", "upstream_overflow"]
)
def test_what_the_client_or_the_gateway_ended_counts_against_nobody(flag: str) -> None:
    assert outcome(flag, grpc_status=14, message="out of memory").effect is Effect.NEUTRAL


@pytest.mark.parametrize("status", [0, 2, 3, 6, 12])
def test_a_clients_mistake_is_a_success(status: int) -> None:
    """SMG 25811: client errors opened the breaker, and the whole fleet was out."""
    assert outcome(grpc_status=status, message="bad shape").effect is Effect.SUCCESS


@pytest.mark.parametrize("text", ["uncorrectable ECC error", "CUDA out of memory", "GPU is lost"])
@pytest.mark.parametrize("status", [3, 5, 12])
def test_words_that_a_client_can_put_into_an_error_trip_nothing(status: int, text: str) -> None:
    message = f"unexpected inference input '{text}' for model 'm'"
    assert outcome(grpc_status=status, message=message).effect in {Effect.SUCCESS, Effect.MOVED}


@pytest.mark.parametrize("text", ["Exceeds maximum queue size", "Request timeout expired"])
def test_a_full_queue_is_neutral(text: str) -> None:
    """SMG PR39464: queue-full opened the breaker."""
    assert outcome(grpc_status=14, message=text).effect is Effect.NEUTRAL


@pytest.mark.parametrize("status", [1, 4])
def test_cancelled_and_the_clients_deadline_are_neutral(status: int) -> None:
    assert outcome(grpc_status=status).effect is Effect.NEUTRAL


def test_not_found_from_a_home_of_the_model_means_it_has_moved() -> None:
    """T6939, T6230: a draining Triton says NOT_FOUND."""
    assert outcome(grpc_status=5, message="'m' has no available versions").effect is Effect.MOVED
    assert outcome(http_status=404).effect is Effect.MOVED


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: out of memory",
        "HIP out of memory. Tried to allocate 2 GiB",
        "hipErrorOutOfMemory",
        "CUDA failure 2: cudaErrorMemoryAllocation",
        "CUBLAS_STATUS_ALLOC_FAILED",
        "std::bad_alloc",
    ],
)
def test_out_of_memory_is_persistent(text: str) -> None:
    assert outcome(grpc_status=13, message=text) == Outcome(Effect.FAILURE, Tier.PERSISTENT, text)


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: uncorrectable ECC error encountered",
        "cudaErrorECCUncorrectable",
        "hipErrorECCNotCorrectable",
        "Unable to determine the device handle: GPU is lost",
        "NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus",
        "RAS: uncorrectable hardware error",
    ],
)
def test_broken_hardware_is_hardware(text: str) -> None:
    assert outcome(grpc_status=13, message=text).tier is Tier.HARDWARE


@pytest.mark.parametrize("xid", [13, 31, 43, 45])
def test_an_xid_that_an_application_can_cause_is_not_hardware(xid: int) -> None:
    assert outcome(grpc_status=13, message=f"Xid: {xid}").tier is Tier.TRANSIENT


@pytest.mark.parametrize(
    "text",
    [
        "Failed to process the request(s) for model instance 'm_0', message: ValueError: no such word",
        "model 'ocr_det' with inputs x float32[1, 3, 33, 32]: [ONNXRuntimeError] : 1 : FAIL : non concat axis",
        "",
    ],
)
def test_an_internal_error_that_may_be_about_the_request_is_neutral(text: str) -> None:
    """SMG 25811 again: one client with a bad shape would have isolated every backend in turn."""
    assert outcome(grpc_status=13, message=text).effect is Effect.NEUTRAL


@pytest.mark.parametrize(
    "text",
    [
        "[ONNXRuntimeError] : 1 : FAIL : CUDNN failure 8: CUDNN_STATUS_EXECUTION_FAILED",
        "MIOPEN failure 7: miopenStatusUnknownError",
        "HIP error: an illegal memory access was encountered",
        "CUDA failure 700: an illegal memory access was encountered",
    ],
)
def test_an_internal_error_of_the_device_is_a_failure(text: str) -> None:
    assert outcome(grpc_status=13, message=text) == Outcome(Effect.FAILURE, Tier.TRANSIENT, text)


def test_a_dead_stub_is_a_failure() -> None:
    text = "Stub process 'm_0_0' is not healthy."
    assert outcome(grpc_status=13, message=text) == Outcome(Effect.FAILURE, Tier.TRANSIENT, text)


def test_http_500_without_words_trips_nothing() -> None:
    assert outcome(http_status=500).effect is Effect.NEUTRAL


@pytest.mark.parametrize(
    "text",
    [
        "failed to parse the request JSON buffer: Missing a name for object member. at 1",
        "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'",
        "attempt to access JSON non-array as array",
    ],
)
def test_json_that_triton_cannot_read_trips_nothing(text: str) -> None:
    """Triton answers 500 to a body that is not JSON."""
    assert outcome(http_status=500, message=text).effect is Effect.NEUTRAL


@pytest.mark.parametrize("status", [500, 400])
def test_a_failure_over_http_is_judged_by_its_words_as_over_grpc(status: int) -> None:
    """`generate` says 400 to what a model raises."""
    text = "Failed to process the request(s) for model 'm_0', message: RuntimeError: CUDA error: out of memory"
    assert outcome(http_status=status, message=text) == Outcome(Effect.FAILURE, Tier.PERSISTENT, text)


def test_http_400_says_nothing_about_the_backend() -> None:
    """A client's mistake, or (of `generate`) whatever a model raises."""
    assert outcome(http_status=400).effect is Effect.NEUTRAL


@pytest.mark.parametrize("status", [200, 413])
def test_other_http_answers_below_500_are_successes(status: int) -> None:
    assert outcome(http_status=status).effect is Effect.SUCCESS


def test_a_message_that_is_too_large_is_nobodys_fault() -> None:
    """dali_backend 241: over 2 GB, the most that protobuf can say."""
    text = "Received message larger than max (2147483661 vs. 2147483647)"
    assert outcome(grpc_status=8, message=text).effect is Effect.NEUTRAL


def test_a_long_message_is_bounded() -> None:
    """model_analyzer 472: a long error text broke the client."""
    assert len(outcome(grpc_status=13, message="CUDA error " + "x" * 10**6).reason) <= 300
