"""`bimetal run`: puts the circle together, serves it, and takes it down in order."""

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import grpc
import structlog
import uvicorn
from envoy.service.accesslog.v3 import als_pb2_grpc
from envoy.service.discovery.v3 import ads_pb2_grpc
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc
from starlette.applications import Starlette
from starlette.routing import Mount

from bimetal.circle.circle import Circle
from bimetal.control.admin import admin_routes
from bimetal.control.backends import Backends
from bimetal.control.grpc_service import ClusterService
from bimetal.control.http_service import ClusterApi
from bimetal.errors import BimetalError
from bimetal.fleet.schema import Fleet, join_host_port
from bimetal.gateway.access_log import AccessLogService
from bimetal.gateway.ext_proc import RouteNamer
from bimetal.probes.gpu_metrics import GpuMetricsProbe
from bimetal.probes.triton import TritonProbe
from bimetal.security.dialing import Dialer, server_credentials
from bimetal.security.grpc_guard import GrpcGuard
from bimetal.security.http_guard import HttpGuard
from bimetal.security.secrets import Secrets
from bimetal.store.store import Store
from bimetal.xds import envoy, proxyless
from bimetal.xds.server import DataPlane, DiscoveryService
from bimetal.xds.snapshot import Snapshot

log = structlog.get_logger(__name__)


class Service:
    """The router as one process."""

    def __init__(self, fleet: Fleet, http: aiohttp.ClientSession) -> None:
        self._fleet = fleet
        fleet.state_dir.mkdir(parents=True, exist_ok=True)
        self._store = Store(fleet.database_url)
        self._discovery = DiscoveryService(self._snapshot)
        self._circle = Circle(fleet, self._store, self._discovery.publish, self._look_again, time.time)
        dialer = Dialer(fleet.security.internal)
        self._probes = {
            b.name: TritonProbe(b, fleet.probes, self._circle.observed, http, dialer) for b in fleet.backends
        }
        self._gpu_probes = [
            GpuMetricsProbe(b, fleet.probes, self._circle.felt, http, time.time)
            for b in fleet.backends
            if b.gpu_metrics_url
        ]
        self._backends = Backends(self._circle, http, dialer)
        self._secrets = Secrets.of(fleet.security)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set. Raises BimetalError if a port cannot be had."""
        async with self._grpc_server(), self._http_server(), asyncio.TaskGroup() as tasks:
            probes = [*(p.run() for p in self._probes.values()), *(p.run() for p in self._gpu_probes)]
            parts = [self._circle.run(), *probes]
            running = [tasks.create_task(part) for part in parts]
            await stop.wait()
            log.info("stopping")
            for task in running:
                task.cancel()
        await self._backends.close()
        self._store.close()

    def _snapshot(self, plane: DataPlane) -> Snapshot:
        build = envoy.snapshot if plane is DataPlane.ENVOY else proxyless.snapshot
        return build(self._circle.table, self._fleet)

    def _look_again(self, backend: str) -> None:
        self._probes[backend].wake()

    @asynccontextmanager
    async def _grpc_server(self) -> AsyncIterator[None]:
        limits = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
        ]
        security, host = self._fleet.security, self._fleet.router.host
        guard = GrpcGuard(self._secrets, host if security.internal else None)
        server = grpc.aio.server(options=limits, interceptors=[guard])
        ads_pb2_grpc.add_AggregatedDiscoveryServiceServicer_to_server(self._discovery, server)
        log_service = AccessLogService(self._fleet, self._circle.tried)
        als_pb2_grpc.add_AccessLogServiceServicer_to_server(log_service, server)
        external_processor_pb2_grpc.add_ExternalProcessorServicer_to_server(RouteNamer(self._fleet.models), server)
        # Last: it also answers for the methods that nobody has.
        server.add_generic_rpc_handlers([ClusterService(self._circle, self._backends).methods()])
        address = join_host_port(host, self._fleet.router.xds_port)
        try:
            if security.internal:
                server.add_secure_port(address, server_credentials(security.internal))
            else:
                server.add_insecure_port(address)
        except RuntimeError as error:
            raise _port_taken(address) from error
        await server.start()
        try:
            yield
        finally:
            await server.stop(grace=0.5)

    @asynccontextmanager
    async def _http_server(self) -> AsyncIterator[None]:
        routes = [
            *admin_routes(self._circle, self._store, self._discovery),
            Mount("/", ClusterApi(self._circle, self._backends)),
        ]
        app = HttpGuard(Starlette(routes=routes), self._secrets, self._fleet.security.open_metrics)
        tls = self._fleet.security.internal
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            date_header=False,
            ssl_certfile=tls.certificate if tls else None,
            ssl_keyfile=tls.private_key if tls else None,
        )
        address = (self._fleet.router.host, self._fleet.router.http_port)
        try:
            bound = socket.create_server(address)
        except OSError as error:
            raise _port_taken(join_host_port(*address)) from error
        server = _HttpServer(config)
        serving = asyncio.create_task(server.serve([bound]))
        try:
            yield
        finally:
            server.should_exit = True
            await serving


class _HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: `run_service` alone owns the signals of the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _port_taken(address: str) -> BimetalError:
    return BimetalError(
        f"the router cannot listen on {address}: the port is taken or may not be used.",
        "Stop what holds it, or change the fleet file's `router` section.",
    )


async def run_service(fleet: Fleet) -> None:
    """Run the router until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with aiohttp.ClientSession(auto_decompress=False) as http:
        await Service(fleet, http).run(stop)
