"""The admin API: `/admin/…` and `/metrics`."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bimetal.circle.circle import Circle
from bimetal.control.http_forward import error_answer
from bimetal.control.metrics import CircleCollector, render
from bimetal.control.report import explain, status
from bimetal.errors import StoreError, UnknownBackendError, UnknownModelError
from bimetal.store.store import Store
from bimetal.xds.server import DiscoveryService

_MOST_EVENTS = 1000


def admin_routes(circle: Circle, store: Store, discovery: DiscoveryService) -> list[Route]:
    """The routes of the admin API."""
    collector = CircleCollector(circle, discovery)
    one_reader = asyncio.Semaphore(1)  # however many ask: a store that hangs holds one thread here

    async def get_status(_request: Request) -> Response:
        answer = status(
            circle.fleet,
            circle.state,
            breakers=circle.breakers,
            table=circle.table,
            drained=circle.drained,
            store_error=circle.store_error,
        )
        return JSONResponse(answer)

    async def get_explanation(request: Request) -> Response:
        return JSONResponse(explain(request.path_params["model"], circle.fleet, circle.table))

    async def get_events(_request: Request) -> Response:
        if circle.store_error:
            raise StoreError(circle.store_error)
        async with one_reader:
            events = await asyncio.to_thread(store.events, _MOST_EVENTS)
        return JSONResponse([{"at": e.at, "backend": e.backend, "kind": e.kind, "text": e.text} for e in events])

    def act(action: Callable[[str], None]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            action(request.path_params["backend"])
            return Response(status_code=204)

        return _with_errors(answer)

    async def metrics(_request: Request) -> Response:
        return Response(render(collector), media_type="text/plain; version=0.0.4")

    return [
        Route("/admin/status", _with_errors(get_status)),
        Route("/admin/explain/{model}", _with_errors(get_explanation)),
        Route("/admin/events", _with_errors(get_events)),
        Route("/admin/backends/{backend}/clear", act(circle.clear), methods=["POST"]),
        Route("/admin/backends/{backend}/drain", act(circle.drain), methods=["POST"]),
        Route("/admin/backends/{backend}/undrain", act(circle.undrain), methods=["POST"]),
        Route("/metrics", metrics),
    ]


def _with_errors(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def guarded(request: Request) -> Response:
        try:
            return await answer(request)
        except (UnknownBackendError, UnknownModelError) as error:
            return error_answer(404, str(error))
        except StoreError as error:
            return error_answer(503, str(error))

    return guarded
