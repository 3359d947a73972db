"""gRPC calls other than inference as rows: a sentence, the status that Triton 2.51 gives, and the call."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message
from grpc_health.v1 import health_pb2
from tritonclient.grpc import service_pb2 as pb

from tests.e2e.conformance.grpc_case import SERVICE, GrpcCase, parameters

Row = tuple[str, str, str, Message]
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
NAMELESS = ("ServerLive", "ServerReady", "RepositoryIndex", "Check")
NAMED = ("ModelReady", "ModelMetadata", "ModelConfig")


def control_cases() -> Iterator[GrpcCase]:
    """Every control method, and what no method can read."""
    for says, status, method, request in [*_server(), *_model(), *_repository()]:
        yield GrpcCase(says, status, method, (request.SerializeToString(),))
    named = pb.ModelReadyRequest(name="identity").SerializeToString()
    for method in (*NAMELESS, *NAMED):
        request = named if method in NAMED else b""
        yield GrpcCase(f"{method}, gzip", "OK", method, (request,), compression="Gzip")
        yield GrpcCase(f"{method} with bytes that are no message", "INTERNAL", method, (b"\xff\xff\xff",))
    for method in ("ServerLive", "ModelMetadata"):
        yield GrpcCase(f"{method} without a message", "INTERNAL", method, ())


def _server() -> list[Row]:
    inference = "inference.GRPCInferenceService"
    return [
        ("the server is live", "OK", "ServerLive", pb.ServerLiveRequest()),
        ("the server is ready", "OK", "ServerReady", pb.ServerReadyRequest()),
        ("the health service", "OK", "Check", health_pb2.HealthCheckRequest()),
        ("the health of the inference service", "OK", "Check", health_pb2.HealthCheckRequest(service=inference)),
        ("the health of an unknown service", "OK", "Check", health_pb2.HealthCheckRequest(service="nope")),
        ("watching health", "UNIMPLEMENTED", "Watch", health_pb2.HealthCheckRequest()),
        ("an unknown method", "UNIMPLEMENTED", f"{SERVICE}Nope", pb.ServerLiveRequest()),
        ("an unknown service", "UNIMPLEMENTED", "/inference.Nope/ServerLive", pb.ServerLiveRequest()),
        ("reflection", "UNIMPLEMENTED", REFLECTION, pb.ServerLiveRequest()),
    ]


def _model() -> list[Row]:
    def about(kind: str, name: str = "identity", version: str = "") -> Message:
        request: Message = getattr(pb, f"{kind}Request")(name=name, version=version)
        return request

    ready, metadata, config, statistics = "ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics"
    return [
        ("a ready model", "OK", ready, about(ready)),
        ("a ready version", "OK", ready, about(ready, version="1")),
        ("a ready version with a leading zero", "OK", ready, about(ready, version="01")),
        ("an unknown model is not ready", "OK", ready, about(ready, "nope")),
        ("an unknown version is not ready", "OK", ready, about(ready, version="9")),
        ("readiness of version -1", "INVALID_ARGUMENT", ready, about(ready, version="-1")),
        ("readiness of version x", "INVALID_ARGUMENT", ready, about(ready, version="x")),
        ("readiness of a version too large", "INVALID_ARGUMENT", ready, about(ready, version="9" * 20)),
        ("readiness without a name", "OK", ready, about(ready, "")),
        ("metadata", "OK", metadata, about(metadata)),
        ("metadata of a version", "OK", metadata, about(metadata, version="1")),
        ("metadata of a decoupled model", "OK", metadata, about(metadata, "repeat")),
        ("metadata of an unknown model", "NOT_FOUND", metadata, about(metadata, "nope")),
        ("metadata of version 9", "NOT_FOUND", metadata, about(metadata, version="9")),
        ("metadata of version x", "INVALID_ARGUMENT", metadata, about(metadata, version="x")),
        ("metadata without a name", "NOT_FOUND", metadata, about(metadata, "")),
        ("metadata of an odd name", "NOT_FOUND", metadata, about(metadata, "no%2F such/ü\n")),
        ("metadata of a long name", "NOT_FOUND", metadata, about(metadata, "n" * 1500)),
        ("configuration", "OK", config, about(config)),
        ("configuration of a version", "OK", config, about(config, version="1")),
        ("configuration of an unknown model", "NOT_FOUND", config, about(config, "nope")),
        ("configuration of version 9", "NOT_FOUND", config, about(config, version="9")),
        ("statistics of an unknown model", "INVALID_ARGUMENT", statistics, about(statistics, "nope")),
        ("statistics of version 9", "INVALID_ARGUMENT", statistics, about(statistics, version="9")),
        ("statistics of version x", "INVALID_ARGUMENT", statistics, about(statistics, version="x")),
    ]


def _repository() -> list[Row]:
    """What works changes the cluster, and is in `test_repository.py`."""

    def load(name: str = "nope", **fields: Any) -> Message:
        return pb.RepositoryModelLoadRequest(model_name=name, **fields)

    def unload(name: str = "nope", **fields: Any) -> Message:
        return pb.RepositoryModelUnloadRequest(model_name=name, **fields)

    def values(**given: Any) -> dict[str, Any]:
        return parameters(pb.ModelRepositoryParameter, **given)

    index, on, off = "RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"
    other = pb.RepositoryIndexRequest(repository_name="other")
    return [
        ("the repository index", "OK", index, pb.RepositoryIndexRequest()),
        ("only the ready models", "OK", index, pb.RepositoryIndexRequest(ready=True)),
        ("the index of a named repository", "UNIMPLEMENTED", index, other),
        ("loading an unknown model", "INTERNAL", on, load()),
        ("loading without a name", "INTERNAL", on, load("")),
        ("loading in a named repository", "UNIMPLEMENTED", on, load(repository_name="other")),
        ("loading with a bad config", "INTERNAL", on, load(parameters=values(config="{"))),
        ("loading with an unknown parameter", "INVALID_ARGUMENT", on, load(parameters=values(nope="x"))),
        ("unloading an unknown model", "OK", off, unload()),
        ("unloading in a named repository", "UNIMPLEMENTED", off, unload(repository_name="other")),
        ("unloading with an unknown parameter", "OK", off, unload(parameters=values(nope=True))),
    ]
