"""Triton's REST control surface for the whole cluster. What one Triton can answer is put to one Triton."""

import asyncio
import json
from typing import Any

import aiohttp
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from router.circle import Circle
from router.control import cluster
from router.control.backends import Backends, failed
from router.fleet import Backend

_TIMEOUT = aiohttp.ClientTimeout(total=60)
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length"}
_DATA = {"infer", "generate", "generate_stream"}
_NOBODY = "no Triton of the cluster is reachable"


class ClusterApi:
    """The routes under `/v2`."""

    def __init__(self, circle: Circle, backends: Backends) -> None:
        self._circle = circle
        self._backends = backends

    def routes(self) -> list[Route]:
        """Answers for the cluster, then everything else (wrong methods and unknown paths too) for one Triton."""
        own = [
            ("/v2", self._metadata, "GET"),
            ("/v2/health/live", self._live, "GET"),
            ("/v2/health/ready", self._ready, "GET"),
            ("/v2/models/stats", self._stats, "GET"),
            ("/v2/models/{model}/stats", self._stats, "GET"),
            ("/v2/models/{model}/versions/{version}/stats", self._stats, "GET"),
            ("/v2/models/{model}/ready", self._model_ready, "GET"),
            ("/v2/models/{model}/versions/{version}/ready", self._model_ready, "GET"),
            ("/v2/repository/index", self._index, "POST"),
            ("/v2/repository/models/{model}/load", self._fan_out, "POST"),
            ("/v2/repository/models/{model}/unload", self._fan_out, "POST"),
        ]
        refused = [
            ("/v2/systemsharedmemory/{rest:path}", "shared memory"),
            ("/v2/cudasharedmemory/{rest:path}", "shared memory"),
            ("/v2/trace/setting", "trace"),
            ("/v2/models/{model}/trace/setting", "trace"),
            ("/v2/logging", "log"),
        ]
        return [
            *(Route(path, answer, methods=[method]) for path, answer, method in own),
            *(Route(path, _refusal(topic), methods=["GET", "POST"]) for path, topic in refused),
            Route("/v2/models/{model}/{rest:path}", self._ask_home, methods=_ANY),
            Route("/v2/models/{model}", self._ask_home, methods=_ANY),
            Route("/{rest:path}", self._ask_home, methods=_ANY),
        ]

    async def _live(self, _request: Request) -> Response:
        return _empty(200)

    async def _ready(self, _request: Request) -> Response:
        return _empty(200 if cluster.is_ready(self._circle.table) else 400)

    async def _metadata(self, _request: Request) -> Response:
        metadata = cluster.server_metadata(self._circle.state)
        return JSONResponse(metadata) if metadata else error_answer(503, _NOBODY)

    async def _model_ready(self, request: Request) -> Response:
        model, version = request.path_params["model"], request.path_params.get("version", "")
        if cluster.model_is_ready(self._circle.table, self._circle.state, model, version):
            return _empty(200)
        return error_answer(400, "Model version not ready")

    async def _index(self, request: Request) -> Response:
        body = await request.body()
        try:
            wanted = json.loads(body or b"{}")
            ready_only = bool(wanted.get("ready", False))
        except (ValueError, AttributeError):
            return await self._ask_home(request)  # Triton has its own words for a bad body
        return JSONResponse(cluster.repository_index(self._circle.state, ready_only))

    async def _stats(self, request: Request) -> Response:
        answers = await self._ask_all(request, self._backends.homes_of(request.path_params.get("model", "")))
        good = [json.loads(bytes(a.body)) for _, a in answers if a.status_code == 200]
        if good:
            return JSONResponse({"model_stats": cluster.sum_statistics(good)})
        return answers[0][1] if answers else error_answer(503, _NOBODY)

    async def _fan_out(self, request: Request) -> Response:
        answers = await self._ask_all(request, self._backends.reachable())
        bad = {b.name: _said(a) for b, a in answers if a.status_code != 200}
        if not answers:
            return error_answer(503, _NOBODY)
        if bad and len(bad) < len(answers):
            return error_answer(503, failed(bad, len(answers)))
        return answers[0][1]

    async def _ask_home(self, request: Request) -> Response:
        """Put the request to one Triton that has the model; UNAVAILABLE for data of one that is out of service."""
        model = request.path_params.get("model", "")
        if request.url.path.rsplit("/", 1)[-1] in _DATA:
            why = self._backends.out_of_service(model)
            if why:
                return error_answer(503, why)
        backend = self._backends.one_for(model)
        return await self._ask(request, backend) if backend else error_answer(503, _NOBODY)

    async def _ask_all(self, request: Request, backends: list[Backend]) -> list[tuple[Backend, Response]]:
        await request.body()  # read once; `_ask` finds it again for every backend
        return list(zip(backends, await asyncio.gather(*(self._ask(request, b) for b in backends)), strict=True))

    async def _ask(self, request: Request, backend: Backend) -> Response:
        headers = [(k, v) for k, v in request.headers.items() if k not in _HOP_BY_HOP]
        try:
            async with self._backends.http.request(
                request.method,
                f"http://{backend.http_address}{request.url.path}",
                params=request.url.query,
                headers=headers,
                data=await request.body(),
                timeout=_TIMEOUT,
            ) as answer:
                kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
                return Response(await answer.read(), answer.status, kept)
        except (aiohttp.ClientError, TimeoutError) as error:
            return error_answer(503, f"backend {backend.name} did not answer: {error}")


_ANY = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]


def error_answer(status: int, text: str) -> Response:
    """An error in Triton's shape: tritonclient reads `["error"]`."""
    return JSONResponse({"error": text}, status)


def _refusal(topic: str) -> Any:
    async def refuse(_request: Request) -> Response:
        return error_answer(501, cluster.NOT_FOR_A_CLUSTER[topic])

    return refuse


def _said(answer: Response) -> str:
    try:
        return str(json.loads(bytes(answer.body))["error"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"


def _empty(status: int) -> Response:
    return Response(status_code=status, media_type="text/plain")
