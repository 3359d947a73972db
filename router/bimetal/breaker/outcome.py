"""What one try at one backend means for its breaker. Pure.

The breaker listens to *where* an error arose and what it says, never to a status code alone: a client's mistakes must
not take a server out, and Triton answers 500 to a body that is not JSON. What it says then repeats nothing of the body.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from bimetal.breaker.breaker import Tier
from bimetal.fleet.size_class import SizeClass


class Effect(StrEnum):
    """What a try says about the backend."""

    SUCCESS = "success"
    FAILURE = "failure"
    LOST = "lost"
    """The connection was refused or broke: a failure, and a reason to probe at once."""
    MOVED = "moved"
    """The backend says that it does not have, or no longer has, the model: neutral, and a reason to probe at once."""
    NEUTRAL = "neutral"


@dataclass(frozen=True)
class Try:
    """One request as one backend saw it; a retried request is several.

    Attributes:
        backend: name in the fleet file.
        flags: names of the Envoy response flags that are set.
        grpc_status: gRPC status code; None for plain HTTP or when no status came.
        message: the gRPC status message, or the error of a failed HTTP request; "" without one.
        seconds: from the first byte of the request to the end of the answer; None if it did not end.
    """

    backend: str
    model: str
    size_class: SizeClass = SizeClass.SMALL
    flags: frozenset[str] = frozenset()
    http_status: int = 0
    grpc_status: int | None = None
    message: str = ""
    seconds: float | None = None


@dataclass(frozen=True)
class Outcome:
    """The meaning of a try; `tier` and `reason` belong to failures."""

    effect: Effect
    tier: Tier | None = None
    reason: str = ""


class Origin(StrEnum):
    """Where a failed try failed."""

    CLIENT = "client"
    """It went away, or its own deadline passed."""
    GATEWAY = "gateway"
    """It ran into one of the gateway's limits."""
    CONNECTION = "connection"
    """Between gateway and backend."""
    BACKEND = "backend"
    """The backend said so."""


_CLIENTS = {
    "downstream_connection_termination",
    "downstream_remote_reset",
    "downstream_protocol_error",
    "duration_timeout",
    "upstream_max_stream_duration_reached",
}
_OURS = {"upstream_overflow", "local_reset"}
_TOO_LATE = "upstream_request_timeout"
_CONNECTION = {
    "upstream_connection_failure": "connection refused or timed out",
    "upstream_connection_termination": "connection closed during the request",
    "upstream_remote_reset": "request reset by the server",
    "upstream_protocol_error": "answer is not HTTP",
}
_CANCELLED, _DEADLINE, _NOT_FOUND, _EXHAUSTED, _INTERNAL, _UNAVAILABLE = 1, 4, 5, 8, 13, 14

# NVIDIA: XID 48, 62, 64, 74, 79, 95, 119, 120 and the CUDA error names; AMD: RAS and the HIP error names.
_HARDWARE = re.compile(
    r"uncorrectable|ECC error|ECCNotCorrectable|ECCUncorrectable|GPU is lost|fallen off the bus"
    r"|\bXID\b\D{0,20}\b(48|62|64|74|79|95|119|120)\b",
    re.IGNORECASE,
)
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemory|MemoryAllocation|failed to allocate|ALLOC_FAILED|bad_alloc", re.IGNORECASE
)
_BUSY = re.compile(r"exceeds maximum queue size|request timeout expired", re.IGNORECASE)
# The server itself, its stub or its device. Any other INTERNAL may be about the request: Triton's Python backend says
# INTERNAL for whatever a model raises, and onnxruntime reports some bad shapes as a plain failure.
_SERVER = re.compile(
    r"stub process|not healthy|\b(CUDA|HIP|CUDNN|CUBLAS|CUFFT|MIOPEN|ROCBLAS|HIPBLAS|MIGRAPHX|NCCL|RCCL|TensorRT)\b"
    r"|cudaError|hipError|\bXID\b|illegal memory access|launch failure|device-side|driver",
    re.IGNORECASE,
)


def classify(attempt: Try) -> Outcome:
    """What `attempt` means for the breaker of its backend."""
    for flag, reason in _CONNECTION.items():
        if flag in attempt.flags:
            return Outcome(Effect.LOST, Tier.TRANSIENT, reason)
    if _TOO_LATE in attempt.flags:
        return Outcome(Effect.FAILURE, Tier.TRANSIENT, "no answer within the gateway's request_timeout_s")
    if attempt.flags & (_CLIENTS | _OURS):
        return Outcome(Effect.NEUTRAL)
    if attempt.grpc_status is not None:
        return _by_grpc_status(attempt.grpc_status, attempt.message)
    return _by_http_status(attempt.http_status, attempt.message)


def origin(attempt: Try) -> Origin:
    """Where a failed try failed, by Envoy's response flags; the backend where no flag tells."""
    if attempt.flags & _CONNECTION.keys():
        return Origin.CONNECTION
    if attempt.flags & (_OURS | {_TOO_LATE}):
        return Origin.GATEWAY
    return Origin.CLIENT if attempt.flags & _CLIENTS else Origin.BACKEND


def _by_grpc_status(status: int, message: str) -> Outcome:
    # Only these codes come from the server's own state. Others repeat what the client sent, and a client could write
    # "ECC error" into a tensor's name.
    if status in {_INTERNAL, _UNAVAILABLE, _EXHAUSTED}:
        return _by_message(status, message)
    if status in {_CANCELLED, _DEADLINE}:
        return Outcome(Effect.NEUTRAL)
    if status == _NOT_FOUND:
        return Outcome(Effect.MOVED)
    return Outcome(Effect.SUCCESS)


def _by_message(status: int, message: str) -> Outcome:
    said = message[:300]
    if _HARDWARE.search(message):
        return Outcome(Effect.FAILURE, Tier.HARDWARE, said)
    if _OUT_OF_MEMORY.search(message):
        return Outcome(Effect.FAILURE, Tier.PERSISTENT, said)
    if _BUSY.search(message):
        return Outcome(Effect.NEUTRAL)
    if status == _UNAVAILABLE:
        return Outcome(Effect.MOVED)
    if status == _INTERNAL and _SERVER.search(message):
        return Outcome(Effect.FAILURE, Tier.TRANSIENT, said)
    return Outcome(Effect.NEUTRAL)


def _by_http_status(status: int, message: str) -> Outcome:
    """Plain HTTP. Without a message a failure says too little to count for or against anybody."""
    if message:
        return _by_message(_INTERNAL, message)
    if status in {404, 503}:
        return Outcome(Effect.MOVED)
    if status in {0, 400} or status >= 500:
        return Outcome(Effect.NEUTRAL)
    return Outcome(Effect.SUCCESS)
