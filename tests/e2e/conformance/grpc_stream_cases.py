"""ModelStreamInfer as rows: a sentence, the status that Triton 2.51 gives, and the messages."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message
from tritonclient.grpc import service_pb2 as pb

from tests.e2e.conformance.grpc_case import GrpcCase, infer_request, parameters, tensor
from tests.e2e.conformance.grpc_infer_cases import identity, repeat, slow, words

# Asks Triton to end the stream with the status of an error that a model gave.
AS_STATUS = (("triton_grpc_error", "true"),)


def stream_cases() -> Iterator[GrpcCase]:
    """Streams, good and bad."""
    nope, wrong = identity(model_name="nope", id="u"), identity(tensor("NOPE", "FP32", [1, 3]), id="1")
    one, two, three = (identity(id=str(number)) for number in (1, 2, 3))
    final = parameters(pb.InferParameter, triton_enable_empty_final_response=True)
    yield _case("one request", "OK", one)
    yield _case("requests in order", "OK", one, two, three)
    yield _case("gzip", "OK", one, compression="Gzip")
    yield _case("closed without a request", "OK")
    yield _case("many answers", "OK", repeat([4, 2, 0, 1]), target="repeat")
    yield _case("many answers and a final mark", "OK", repeat([4, 2], parameters=final), target="repeat")
    yield _case("no answers", "OK", repeat([]), target="repeat")
    yield _case("no answers but a final mark", "OK", repeat([], parameters=final), target="repeat")
    yield _case("two models in one stream", "OK", one, words(b"a"))
    yield _case("an unknown model", "OK", nope)
    yield _case("an unknown model, then a known one", "OK", nope, two)
    yield _case("a known model, then an unknown one", "OK", one, nope)
    yield _case("an unknown version", "OK", identity(model_version="9"))
    yield _case("a wrong input, then a good one", "OK", wrong, two)
    yield _case("an error of the model itself", "OK", _uneven(), target="repeat")
    yield _case("no model name", "OK", identity(model_name=""))
    yield _case("bytes that are no message", "OK", b"\xff\xff\xff")
    yield _case("an unknown model, errors asked for as status", "OK", nope, metadata=AS_STATUS)
    yield _case("a wrong input, errors asked for as status", "OK", wrong, metadata=AS_STATUS)
    yield _case("a good request, errors asked for as status", "OK", one, metadata=AS_STATUS)
    yield _case("the model's error as status", "INVALID_ARGUMENT", _uneven(), target="repeat", metadata=AS_STATUS)
    yield _case("a deadline that passes", "DEADLINE_EXCEEDED", slow(5000), target="slow_identity", deadline_s=0.3)


def _case(says: str, status: str, *messages: Message | bytes, **more: Any) -> GrpcCase:
    bodies = tuple(m if isinstance(m, bytes) else m.SerializeToString() for m in messages)
    return GrpcCase(f"stream: {says}", status, "ModelStreamInfer", bodies, **more)


def _uneven() -> Message:
    """`repeat` refuses a DELAY that is not as long as IN."""
    inputs = (tensor("IN", "INT32", [1]), tensor("DELAY", "UINT32", [2]))
    return infer_request("repeat", *inputs, raw=[bytes(4), bytes(8)])
