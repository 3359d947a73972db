"""ModelInfer as rows: a sentence, the status that Triton 2.51 gives, and the message."""

import struct
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message
from tritonclient.grpc import service_pb2 as pb

from tests.e2e.conformance.grpc_case import GrpcCase, infer_request, parameters, tensor

FLOATS = struct.pack("<3f", 1, 2.5, -3)
INPUT = tensor("INPUT0", "FP32", [1, 3])
TYPED = tensor("INPUT0", "FP32", [1, 3], contents=pb.InferTensorContents(fp32_contents=[1, 2, 3]))


def infer_cases() -> Iterator[GrpcCase]:
    """Unary inference, good and bad."""
    for says, message in [*_good_tensors(), *_good_options()]:
        yield _case(says, "OK", message)
    for says, status, message in [*_bad_names(), *_bad_tensors(), *_bad_options()]:
        yield _case(says, status, message)
    unknown = (("x-tenant", "a"), ("x-bimetal-route", "unary/repeat"))
    yield _case("gzip", "OK", identity(), compression="Gzip")
    yield _case("deflate", "OK", identity(), compression="Deflate")
    yield _case("metadata that nobody knows", "OK", identity(), metadata=unknown)
    yield _case("an unknown model, gzip", "NOT_FOUND", identity(model_name="nope"), compression="Gzip")
    yield _case("a decoupled model", "UNIMPLEMENTED", repeat([1]), target="repeat")
    yield _case("a deadline that passes", "DEADLINE_EXCEEDED", slow(5000), target="slow_identity", deadline_s=0.3)


def _case(says: str, status: str, message: Message | bytes, **more: Any) -> GrpcCase:
    body = message if isinstance(message, bytes) else message.SerializeToString()
    return GrpcCase(says, status, "ModelInfer", (body,), **more)


def identity(given: Any = INPUT, *, raw: bytes = FLOATS, **fields: Any) -> Any:
    """A request for the model `identity`."""
    return infer_request(fields.pop("model_name", "identity"), given, raw=[raw], **fields)


def words(*given: bytes) -> Any:
    """A request for the model `identity_bytes`."""
    raw = b"".join(struct.pack("<I", len(word)) + word for word in given)
    return infer_request("identity_bytes", tensor("INPUT0", "BYTES", [1, len(given)]), raw=[raw])


def repeat(values: list[int], **fields: Any) -> Any:
    """A request for the decoupled model `repeat`: one answer per value."""
    inputs = (tensor("IN", "INT32", [len(values)]), tensor("DELAY", "UINT32", [len(values)]))
    raw = [struct.pack(f"<{len(values)}i", *values), bytes(4 * len(values))]
    return infer_request("repeat", *inputs, raw=raw, **fields)


def slow(delay_ms: int) -> Any:
    """A request that `slow_identity` answers after a while."""
    inputs = (INPUT, tensor("DELAY_MS", "INT32", [1, 1]))
    return infer_request("slow_identity", *inputs, raw=[FLOATS, struct.pack("<i", delay_ms)])


def output(name: str, **values: Any) -> Any:
    """A requested output."""
    requested = pb.ModelInferRequest.InferRequestedOutputTensor
    return requested(name=name, parameters=parameters(pb.InferParameter, **values))


def with_parameters(**values: Any) -> Any:
    """A request for the model `identity` with parameters."""
    return identity(parameters=parameters(pb.InferParameter, **values))


def _good_tensors() -> list[tuple[str, Message | bytes]]:
    reversed_fields = b"".join(_only(identity(), field.name) for field, _ in reversed(identity().ListFields()))
    return [
        ("raw tensors", identity()),
        ("typed tensors", infer_request("identity", TYPED)),
        ("a zero-size tensor", identity(tensor("INPUT0", "FP32", [1, 0]), raw=b"")),
        ("BYTES", words(b"a", b"")),
        ("an optional input left out", identity(model_name="slow_identity")),
        ("fields in an odd order: protobuf promises none", reversed_fields),
        ("the name given twice: the last counts", _field(1, b"nope") + identity().SerializeToString()),
        ("an unknown field", _field(99, b"x") + identity().SerializeToString()),
    ]


def _good_options() -> list[tuple[str, Message]]:
    return [
        ("a version", identity(model_version="1")),
        ("a request id", identity(id="r-1")),
        ("an output by name", identity(outputs=[output("OUTPUT0")])),
        ("classification", identity(outputs=[output("OUTPUT0", classification=2)])),
        ("parameters of one's own", with_parameters(a=1, b="x", c=True, d=1.5)),
        ("a priority", with_parameters(priority=1)),
        ("a generous timeout", with_parameters(timeout=60_000_000)),
        ("a sequence id of 0", with_parameters(sequence_id=0)),
        ("an empty sequence id", with_parameters(sequence_id="")),
    ]


def _bad_names() -> list[tuple[str, str, Message | bytes]]:
    return [
        ("an unknown model", "NOT_FOUND", identity(model_name="nope")),
        ("an unknown version", "NOT_FOUND", identity(model_version="9")),
        ("a version that is no number", "INVALID_ARGUMENT", identity(model_version="x")),
        ("no model name", "NOT_FOUND", identity(model_name="")),
        ("an odd model name", "NOT_FOUND", identity(model_name="no such/ü")),
        ("a model name with a line feed", "NOT_FOUND", identity(model_name="no\nsuch")),
        ("a long model name", "NOT_FOUND", identity(model_name="n" * 1500)),
        ("a model name that is not UTF-8", "INTERNAL", _field(1, b"\xff\xfe")),
        ("an empty message", "NOT_FOUND", b""),
        ("bytes that are no message", "INTERNAL", b"\xff\xff\xff\xff"),
        ("a truncated message", "INTERNAL", identity().SerializeToString()[:-3]),
    ]


def _bad_tensors() -> list[tuple[str, str, Message]]:
    invalid = "INVALID_ARGUMENT"
    region = parameters(pb.InferParameter, shared_memory_region="nope", shared_memory_byte_size=12)
    shared = infer_request("identity", tensor("INPUT0", "FP32", [1, 3], parameters=region))
    return [
        ("no inputs", invalid, infer_request("identity")),
        ("a wrong datatype", invalid, identity(tensor("INPUT0", "INT32", [1, 3]))),
        ("an unknown datatype", invalid, identity(tensor("INPUT0", "FP99", [1, 3]))),
        ("a wrong rank", invalid, identity(tensor("INPUT0", "FP32", [3]))),
        ("a shape that does not match", invalid, identity(tensor("INPUT0", "FP32", [1, 4]))),
        ("a negative dimension", invalid, identity(tensor("INPUT0", "FP32", [1, -1]))),
        ("a batch that is too large", invalid, identity(tensor("INPUT0", "FP32", [65, 0]), raw=b"")),
        ("an unknown input", invalid, identity(tensor("NOPE", "FP32", [1, 3]))),
        ("fewer raw tensors than inputs", invalid, infer_request("identity", INPUT, INPUT, raw=[FLOATS])),
        ("raw and typed tensors at once", invalid, identity(TYPED)),
        ("a region that nobody registered", "NOT_FOUND", shared),
    ]


def _bad_options() -> list[tuple[str, str, Message]]:
    return [
        ("an unknown output", "INVALID_ARGUMENT", identity(outputs=[output("NOPE")])),
        ("a priority that is a string", "INVALID_ARGUMENT", with_parameters(priority="x")),
        ("a timeout that is a string", "INVALID_ARGUMENT", with_parameters(timeout="x")),
    ]


def _only(request: Any, field: str) -> bytes:
    """One field of a message, serialised."""
    part = type(request)()
    part.MergeFrom(request)
    for other, _ in request.ListFields():
        if other.name != field:
            part.ClearField(other.name)
    serialised: bytes = part.SerializeToString()
    return serialised


def _field(number: int, value: bytes) -> bytes:
    """One length-delimited protobuf field; `value` is shorter than 128 bytes."""
    tag = number << 3 | 2
    varint = bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
    return varint + bytes([len(value)]) + value
