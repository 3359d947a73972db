"""One gRPC call that is made to a Triton, through the gateway and proxyless, and what is compared of the answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from tritonclient.grpc import service_pb2 as pb

from tests.patience import PATIENCE_S

SERVICE = "/inference.GRPCInferenceService/"
HEALTH = "/grpc.health.v1.Health/"
STREAMING = {"ModelStreamInfer", "Watch"}
UNLIMITED = [("grpc.max_receive_message_length", -1)]


@dataclass(frozen=True)
class GrpcCase:
    """A call, and the status that Triton 2.51 was seen to give: it shows that the case asks what it says.

    Attributes:
        requests: serialised messages; more than one only for a stream.
        target: the model that a proxyless client would name in `xds:///MODEL`.
    """

    says: str
    status: str
    method: str
    requests: tuple[bytes, ...]
    target: str = "identity"
    metadata: tuple[tuple[str, str], ...] = ()
    compression: str = "NoCompression"
    deadline_s: float = PATIENCE_S

    @property
    def path(self) -> str:
        """The HTTP/2 path of the method; `method` may be a whole path itself."""
        if self.method.startswith("/"):
            return self.method
        return (HEALTH if self.method in {"Check", "Watch"} else SERVICE) + self.method


@dataclass(frozen=True)
class GrpcAnswer:
    """What is compared: the status with its text, trailing metadata, and every message as JSON."""

    status: str
    details: str
    trailers: tuple[tuple[str, str], ...]
    messages: tuple[Any, ...]


def ask(channel: grpc.Channel, case: GrpcCase) -> GrpcAnswer:
    """Make the call on `channel` and read all of its answer."""
    # One multi-callable for every kind of method: on the wire a unary call is a stream of one message.
    method = channel.stream_stream(case.path, response_deserializer=_reader(case))
    call = method(
        iter(case.requests),
        timeout=case.deadline_s,
        metadata=case.metadata,
        compression=getattr(grpc.Compression, case.compression),
    )
    messages = tuple(_received(call))
    trailers = tuple(sorted((key, str(value)) for key, value in call.trailing_metadata() or () if key != "date"))
    # Whoever notices a deadline first, client, gateway or Triton, words it.
    details = "" if call.code() is grpc.StatusCode.DEADLINE_EXCEEDED else call.details()
    return GrpcAnswer(call.code().name, details, trailers, messages)


def _received(call: Any) -> Iterator[Any]:
    try:
        for message in call:
            yield MessageToDict(message, preserving_proto_field_name=True)
    except grpc.RpcError:
        return  # its status is read from the call


def _reader(case: GrpcCase) -> Any:
    name = case.path.rsplit("/", 1)[-1]
    if case.path.startswith(HEALTH):
        return health_pb2.HealthCheckResponse.FromString
    return getattr(pb, f"{name}Response", pb.ServerLiveResponse).FromString


def infer_request(model: str, *inputs: Message, raw: Sequence[bytes] = (), **fields: Any) -> pb.ModelInferRequest:
    """A ModelInferRequest with its tensors in `raw_input_contents`."""
    return pb.ModelInferRequest(model_name=model, inputs=inputs, raw_input_contents=raw, **fields)


def tensor(name: str, datatype: str, shape: Sequence[int], **fields: Any) -> Any:
    """One input of a ModelInferRequest, without its data."""
    return pb.ModelInferRequest.InferInputTensor(name=name, datatype=datatype, shape=shape, **fields)


def parameters(kind: Any, **values: Any) -> dict[str, Any]:
    """Parameters of a request or a tensor, as messages of type `kind`."""
    fields = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}
    return {name: kind(**{fields[type(value)]: value}) for name, value in values.items()}
