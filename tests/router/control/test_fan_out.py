"""Loading a model on every backend that has it: everywhere, or an error that says where not."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp
import grpc
import pytest
from starlette.types import Message
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from bimetal.control.backends import Backends, failed
from bimetal.control.grpc_service import ClusterService
from bimetal.control.http_service import ClusterApi
from bimetal.fleet.schema import Fleet
from bimetal.policy.table import decide
from bimetal.security.dialing import Dialer
from bimetal.state.fleet_state import FleetState
from tests.patience import PATIENCE_S

Run = Callable[[Coroutine[Any, Any, Any]], Any]
LOAD = "/v2/repository/models/m/load"


class Triton(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]  # generated, untyped
    """Loads models, unless it has a reason not to."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.loaded: list[str] = []

    async def RepositoryModelLoad(self, request: Any, context: Any) -> Any:  # noqa: N802  # the protocol's name
        if self.reason:
            await context.abort(grpc.StatusCode.INTERNAL, self.reason)
        self.loaded.append(request.model_name)
        return pb.RepositoryModelLoadResponse()


@asynccontextmanager
async def serving(triton: Triton) -> AsyncIterator[dict[str, int]]:
    """The ports of a Triton. It has no HTTP service: a load there would hold up other requests (server 8958)."""
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(triton, server)
    grpc_port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield {"grpc_port": grpc_port}
    finally:
        await server.stop(grace=None)


@asynccontextmanager
async def cluster_of(
    fleet_of: Callable[..., Fleet], state_of: Callable[..., FleetState], tritons: dict[str, Triton], homes: list[str]
) -> AsyncIterator[tuple[Any, Backends]]:
    """Circle and backends of a cluster in which `homes` have the model `m`."""
    async with AsyncExitStack() as stack:
        ports = {name: await stack.enter_async_context(serving(triton)) for name, triton in tritons.items()}
        fleet = fleet_of(*tritons, extras=ports)
        state = state_of(**{name.replace("-", "_"): "m" if name in homes else "other" for name in tritons})
        circle: Any = SimpleNamespace(fleet=fleet, state=state, table=decide(fleet, state, {}, {}))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        backends = Backends(circle, http, Dialer())
        stack.push_async_callback(backends.close)
        yield circle, backends


async def load_over_grpc(circle: Any, backends: Backends) -> tuple[str, str]:
    """Status and text of a load of `m`."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([ClusterService(circle, backends).methods()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            await stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="m"), timeout=PATIENCE_S)
    except grpc.aio.AioRpcError as error:
        return error.code().name, error.details() or ""
    finally:
        await server.stop(grace=None)
    return "OK", ""


async def load_over_http(circle: Any, backends: Backends) -> tuple[str, str]:
    """Status, in gRPC's words, and body of a load of `m`."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": LOAD,
        "raw_path": LOAD.encode(),
        "query_string": b"",
        "headers": [],
    }
    await ClusterApi(circle, backends)(scope, receive, send)
    return {200: "OK", 500: "INTERNAL", 503: "UNAVAILABLE"}[sent[0]["status"]], sent[1]["body"].decode()


Load = Callable[[dict[str, Triton], list[str]], tuple[str, str]]
"""(Tritons by name, those that have the model) → status and text of loading it."""


@pytest.fixture(params=[load_over_grpc, load_over_http], ids=["grpc", "http"])
def load(
    request: pytest.FixtureRequest, run_async: Run, fleet_of: Callable[..., Fleet], state_of: Callable[..., FleetState]
) -> Load:
    """Loads `m`."""

    async def try_it(tritons: dict[str, Triton], homes: list[str]) -> Any:
        async with cluster_of(fleet_of, state_of, tritons, homes) as (circle, backends):
            return await request.param(circle, backends)

    return lambda tritons, homes: run_async(try_it(tritons, homes))


@pytest.mark.parametrize(
    ("reasons", "status", "words"),
    [
        (("", ""), "OK", ""),
        (("no", "no"), "INTERNAL", "no"),
        (("", "bad file"), "UNAVAILABLE", "failed on 1 of 2 backends: rocm-0: bad file"),
    ],
)
def test_a_load_succeeds_everywhere_or_says_where_it_did_not(
    load: Load, reasons: tuple[str, str], status: str, words: str
) -> None:
    tritons = dict(zip(("cuda-0", "rocm-0"), map(Triton, reasons), strict=True))
    found, text = load(tritons, list(tritons))
    assert found == status
    assert words in text
    assert [t.loaded for t in tritons.values()] == [[] if reason else ["m"] for reason in reasons]


def test_only_backends_that_have_the_model_are_asked(load: Load) -> None:
    tritons = {"cuda-0": Triton(""), "rocm-0": Triton("no such model here")}
    assert load(tritons, ["cuda-0"])[0] == "OK"
    assert tritons["cuda-0"].loaded == ["m"]


def test_what_failed_is_told_briefly() -> None:
    """model_analyzer 472: a long error text broke the client."""
    told = failed({f"cuda-{i}": "x" * 100_000 for i in range(8)}, 8)
    assert told.startswith("failed on 8 of 8 backends: cuda-0: xxx")
    assert len(told) < 4096
