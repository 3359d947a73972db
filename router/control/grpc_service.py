"""GRPCInferenceService for the whole cluster: control answers, and honest errors for data requests without a place."""

from collections.abc import AsyncIterator
from typing import Any, NoReturn

import grpc
from google.protobuf.json_format import MessageToDict, ParseDict
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from router.circle import Circle
from router.control import cluster
from router.control.backends import Backends, failed

Context = Any


class ClusterService(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]  # generated, untyped
    """Answers what no single Triton can answer for all.

    Data requests arrive here only if their model is unknown, unreadable or out of service.
    """

    def __init__(self, circle: Circle, backends: Backends) -> None:
        self._circle = circle
        self._backends = backends

    async def ServerLive(self, _request: Any, _context: Context) -> Any:  # noqa: N802  # the protocol's names
        """The router lives, and so the cluster does."""
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(self, _request: Any, _context: Context) -> Any:  # noqa: N802
        """Every known model has an able backend."""
        return pb.ServerReadyResponse(ready=cluster.is_ready(self._circle.table))

    async def ServerMetadata(self, _request: Any, context: Context) -> Any:  # noqa: N802
        """One server's name and version, everybody's extensions."""
        metadata = cluster.server_metadata(self._circle.state)
        if not metadata:
            await _abort(context, grpc.StatusCode.UNAVAILABLE, "no Triton of the cluster is reachable")
        return pb.ServerMetadataResponse(**metadata)

    async def ModelReady(self, request: Any, _context: Context) -> Any:  # noqa: N802
        """An able backend has it ready."""
        table, state = self._circle.table, self._circle.state
        return pb.ModelReadyResponse(ready=cluster.model_is_ready(table, state, request.name, request.version))

    async def ModelMetadata(self, request: Any, context: Context) -> Any:  # noqa: N802
        """Of the backend with the largest share."""
        return await self._forward("ModelMetadata", request, request.name, context)

    async def ModelConfig(self, request: Any, context: Context) -> Any:  # noqa: N802
        """Of the backend with the largest share."""
        return await self._forward("ModelConfig", request, request.name, context)

    async def ModelStatistics(self, request: Any, context: Context) -> Any:  # noqa: N802
        """The sums over all backends that have the model."""
        answers: list[Any] = []
        error: grpc.aio.AioRpcError | None = None
        for backend in self._backends.homes_of(request.name):
            stub = service_pb2_grpc.GRPCInferenceServiceStub(self._backends.channel(backend))
            try:
                answers.append(await stub.ModelStatistics(request, timeout=context.time_remaining()))
            except grpc.aio.AioRpcError as failure:
                error = failure
        if not answers:
            await _relay(context, error)
        merged = cluster.sum_statistics(MessageToDict(a, preserving_proto_field_name=True) for a in answers)
        return ParseDict({"model_stats": merged}, pb.ModelStatisticsResponse())

    async def RepositoryIndex(self, request: Any, _context: Context) -> Any:  # noqa: N802
        """The union of all repositories."""
        return ParseDict(
            {"models": cluster.repository_index(self._circle.state, request.ready)}, pb.RepositoryIndexResponse()
        )

    async def RepositoryModelLoad(self, request: Any, context: Context) -> Any:  # noqa: N802
        """On every reachable backend."""
        return await self._fan_out("RepositoryModelLoad", request, context)

    async def RepositoryModelUnload(self, request: Any, context: Context) -> Any:  # noqa: N802
        """On every reachable backend."""
        return await self._fan_out("RepositoryModelUnload", request, context)

    async def ModelInfer(self, request: Any, context: Context) -> Any:  # noqa: N802
        """Triton's own error for a model it does not know; UNAVAILABLE for one that is out of service."""
        why = self._backends.out_of_service(request.model_name)
        if why:
            await _abort(context, grpc.StatusCode.UNAVAILABLE, why)
        return await self._forward("ModelInfer", request, request.model_name, context)

    async def ModelStreamInfer(  # noqa: N802
        self, requests: AsyncIterator[Any], _context: Context
    ) -> AsyncIterator[Any]:
        """Answers in-band, as Triton does, and keeps the stream open."""
        async for request in requests:
            model = request.model_name
            why = self._backends.out_of_service(model) or f"Request for unknown model: '{model}' is not found"
            yield pb.ModelStreamInferResponse(
                error_message=why, infer_response=pb.ModelInferResponse(model_name=model, id=request.id)
            )

    async def _forward(self, method: str, request: Any, model: str, context: Context) -> Any:
        backend = self._backends.one_for(model)
        if backend is None:
            await _abort(context, grpc.StatusCode.UNAVAILABLE, "no Triton of the cluster is reachable")
        stub = service_pb2_grpc.GRPCInferenceServiceStub(self._backends.channel(backend))
        try:
            return await getattr(stub, method)(request, timeout=context.time_remaining())
        except grpc.aio.AioRpcError as error:
            await _relay(context, error)

    async def _fan_out(self, method: str, request: Any, context: Context) -> Any:
        answers: list[Any] = []
        failures: dict[str, str] = {}
        backends = self._backends.reachable()
        for backend in backends:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(self._backends.channel(backend))
            try:
                answers.append(await getattr(stub, method)(request, timeout=context.time_remaining()))
            except grpc.aio.AioRpcError as error:
                failures[backend.name] = error.details() or error.code().name
                last = error
        if failures and not answers:
            await _relay(context, last)
        if failures or not answers:
            await _abort(context, grpc.StatusCode.UNAVAILABLE, failed(failures, len(backends)))
        return answers[0]


def _refusal(topic: str) -> Any:
    async def refuse(_self: ClusterService, _request: Any, context: Context) -> NoReturn:
        await _abort(context, grpc.StatusCode.UNIMPLEMENTED, cluster.NOT_FOR_A_CLUSTER[topic])

    return refuse


for _method, _topic in {
    "SystemSharedMemoryStatus": "shared memory",
    "SystemSharedMemoryRegister": "shared memory",
    "SystemSharedMemoryUnregister": "shared memory",
    "CudaSharedMemoryStatus": "shared memory",
    "CudaSharedMemoryRegister": "shared memory",
    "CudaSharedMemoryUnregister": "shared memory",
    "TraceSetting": "trace",
    "LogSettings": "log",
}.items():
    setattr(ClusterService, _method, _refusal(_topic))


async def _relay(context: Context, error: grpc.aio.AioRpcError | None) -> NoReturn:
    """End the call as a Triton ended it."""
    if error is None:
        await _abort(context, grpc.StatusCode.UNAVAILABLE, "no Triton of the cluster is reachable")
    await _abort(context, error.code(), error.details() or "")


async def _abort(context: Context, code: grpc.StatusCode, text: str) -> NoReturn:
    await context.abort(code, text)
    raise AssertionError("abort raises")
