"""Triton's gRPC control surface for the whole cluster. What one Triton can answer is put to one Triton."""

from typing import Any, NoReturn

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict
from grpc_health.v1 import health_pb2
from tritonclient.grpc import service_pb2 as pb

from bimetal.circle.circle import Circle
from bimetal.control import cluster
from bimetal.control.backends import ASK_TIMEOUT_S, LOAD_TIMEOUT_S, Backends, failed
from bimetal.control.grpc_methods import Answer, Context, Methods, abort, unary
from bimetal.control.grpc_relay import NOBODY, Relay

_SERVICE = "/inference.GRPCInferenceService"
_REFUSED = {
    "SystemSharedMemoryStatus": "shared memory",
    "SystemSharedMemoryRegister": "shared memory",
    "SystemSharedMemoryUnregister": "shared memory",
    "CudaSharedMemoryStatus": "shared memory",
    "CudaSharedMemoryRegister": "shared memory",
    "CudaSharedMemoryUnregister": "shared memory",
    "TraceSetting": "trace",
    "LogSettings": "log",
}


class ClusterService:
    """Answers what no single Triton can answer for all."""

    def __init__(self, circle: Circle, backends: Backends) -> None:
        self._circle = circle
        self._backends = backends

    def methods(self) -> Methods:
        """Every method that a Triton has. Triton's health service has no Watch and knows no service by name."""
        answers: dict[str, Answer] = {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ServerMetadata": self._server_metadata,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._ask_home,
            "ModelConfig": self._ask_home,
            "ModelStatistics": self._model_statistics,
            "RepositoryIndex": self._repository_index,
            "RepositoryModelLoad": self._load_or_unload,
            "RepositoryModelUnload": self._load_or_unload,
            **{name: _refusal(topic) for name, topic in _REFUSED.items()},
        }
        relay = Relay(self._backends)
        return Methods(
            {
                **{f"{_SERVICE}/{name}": unary(getattr(pb, f"{name}Request"), a) for name, a in answers.items()},
                **{path: relay.handler(path) for path in (f"{_SERVICE}/ModelInfer", f"{_SERVICE}/ModelStreamInfer")},
                "/grpc.health.v1.Health/Check": unary(health_pb2.HealthCheckRequest, self._health),
            }
        )

    async def _server_live(self, _request: Any, _context: Context) -> Any:
        return pb.ServerLiveResponse(live=True)

    async def _server_ready(self, _request: Any, _context: Context) -> Any:
        return pb.ServerReadyResponse(ready=cluster.is_ready(self._circle.table, self._circle.state))

    async def _health(self, _request: Any, _context: Context) -> Any:
        ready = cluster.is_ready(self._circle.table, self._circle.state)
        said = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
        return health_pb2.HealthCheckResponse(status=said)

    async def _server_metadata(self, _request: Any, context: Context) -> Any:
        metadata = cluster.server_metadata(self._circle.state)
        if not metadata:
            await abort(context, grpc.StatusCode.UNAVAILABLE, NOBODY)
        return pb.ServerMetadataResponse(**metadata)

    async def _model_ready(self, request: Any, context: Context) -> Any:
        version = cluster.version_number(request.version)
        if version is None:
            return await self._ask_home(request, context)
        table, state = self._circle.table, self._circle.state
        return pb.ModelReadyResponse(ready=cluster.model_is_ready(table, state, request.name, version))

    async def _model_statistics(self, request: Any, context: Context) -> Any:
        """The sums over all backends that have the model."""
        homes = self._backends.homes_of(request.name)
        answers = await self._backends.ask_all(homes, request, _within(context, ASK_TIMEOUT_S))
        good = [a for a in answers.values() if not isinstance(a, grpc.aio.AioRpcError)]
        if not good:
            await _relay(context, *answers.values())
        merged = cluster.sum_statistics(MessageToDict(a, preserving_proto_field_name=True) for a in good)
        return ParseDict({"model_stats": merged}, pb.ModelStatisticsResponse())

    async def _repository_index(self, request: Any, context: Context) -> Any:
        """The union of all repositories."""
        if request.repository_name:
            return await self._ask_home(request, context)
        models = cluster.repository_index(self._circle.state, request.ready)
        return ParseDict({"models": models}, pb.RepositoryIndexResponse())

    async def _load_or_unload(self, request: Any, context: Context) -> Any:
        """On every reachable backend whose repository has the model: everywhere, or an error that says where not."""
        model, ready = request.model_name, isinstance(request, pb.RepositoryModelLoadRequest)
        backends = self._backends.homes_of(model)
        answers = await self._backends.ask_all(backends, request, _within(context, LOAD_TIMEOUT_S))
        errors = {name: a for name, a in answers.items() if isinstance(a, grpc.aio.AioRpcError)}
        if len(errors) == len(answers):
            await _relay(context, *errors.values())
        if errors:
            said = {name: error.details() or error.code().name for name, error in errors.items()}
            await abort(context, grpc.StatusCode.UNAVAILABLE, failed(said, len(answers)))
        await self._backends.seen(model, ready, backends)
        return next(iter(answers.values()))

    async def _ask_home(self, request: Any, context: Context) -> Any:
        """Of the backend with the largest share."""
        backend = self._backends.one_for(getattr(request, "name", ""))
        if backend is None:
            await abort(context, grpc.StatusCode.UNAVAILABLE, NOBODY)
        try:
            return await self._backends.ask(backend, request, _within(context, ASK_TIMEOUT_S))
        except grpc.aio.AioRpcError as error:
            await _relay(context, error)


def _within(context: Context, timeout_s: float) -> float:
    """Seconds: as long as our client waits, and no longer than `timeout_s`."""
    left = context.time_remaining()
    return timeout_s if left is None else min(left, timeout_s)


def _refusal(topic: str) -> Answer:
    async def refuse(_request: Any, context: Context) -> NoReturn:
        await abort(context, grpc.StatusCode.UNIMPLEMENTED, cluster.NOT_FOR_A_CLUSTER[topic])

    return refuse


async def _relay(context: Context, *errors: grpc.aio.AioRpcError) -> NoReturn:
    """End the call as the first Triton ended it."""
    if not errors:
        await abort(context, grpc.StatusCode.UNAVAILABLE, NOBODY)
    await abort(context, errors[0].code(), errors[0].details() or "")
