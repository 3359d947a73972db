"""A load or an unload that came over HTTP, as the gRPC request that every Triton gets.

Over HTTP a Triton does it on the thread that serves other connections, too: those that share it get no answer until
the model is there, health checks and requests for other models among them (server 8635 and 8958; on 2.51 all of 16 idle
connections were seen to wait). Over gRPC nobody waits.
"""

import base64
import json
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as pb

_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 503,
}


def request(action: str, model: str, body: bytes) -> Any:
    """The RepositoryModelLoad or -UnloadRequest of an HTTP body; None for a body that Triton's own words fit best.

    Args:
        action: load or unload.
        model: as the path has it, a character for each byte.
    """
    try:
        name = model.encode("latin-1").decode()
        parameters = _parameters(body)
        if action == "unload":
            found = {key: pb.ModelRepositoryParameter(bool_param=value) for key, value in parameters.items()}
            return pb.RepositoryModelUnloadRequest(model_name=name, parameters=found)
        found = {key: _load_parameter(key, value) for key, value in parameters.items()}
        return pb.RepositoryModelLoadRequest(model_name=name, parameters=found)
    except (ValueError, TypeError):
        return None


def http_status(error: grpc.aio.AioRpcError) -> int:
    """What Triton's HTTP service answers where its gRPC service ends with this error."""
    return _STATUS.get(error.code(), 500)


def _parameters(body: bytes) -> dict[str, Any]:
    document = json.loads(body) if body else {}
    parameters = document.get("parameters", {}) if isinstance(document, dict) else None
    if not isinstance(parameters, dict):
        raise TypeError("parameters are no object")
    return parameters


def _load_parameter(name: str, value: Any) -> pb.ModelRepositoryParameter:
    if name == "config":
        return pb.ModelRepositoryParameter(string_param=value)
    if name.startswith("file:"):
        return pb.ModelRepositoryParameter(bytes_param=base64.b64decode(value, validate=True))
    raise ValueError(name)
