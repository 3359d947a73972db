"""Triton's REST control surface for the whole cluster. What one Triton can answer is put to one Triton."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from bimetal.circle.circle import Circle
from bimetal.control import cluster, model_control
from bimetal.control.backends import ASK_TIMEOUT_S, LOAD_TIMEOUT_S, Backends, failed
from bimetal.control.http_forward import error_answer, forward, raw_path, said
from bimetal.fleet.schema import Backend

_NOBODY = "no Triton of the cluster is reachable"
_DATA = ("/infer", "/generate", "/generate_stream")
# Triton's health answers, unlike its others, call themselves text.
_TEXT = "text/plain"

# Paths as Triton's own patterns have them. They are matched as written: Triton decodes no escapes.
_MODEL = r"/v2/models/(?P<model>[^/]+)"
_VERSION = r"(?:/versions/(?P<version>[0-9]+))?"
_REFUSED = {
    r"/v2/(?:system|cuda)sharedmemory(?:/region/[^/]+)?/(?:status|register|unregister)": "shared memory",
    r"/v2(?:/models/[^/]+)?/trace/setting": "trace",
    r"/v2/logging": "log",
}

Answer = Callable[..., Awaitable[Response]]


class ClusterApi:
    """Answers for the cluster; everything else (wrong methods and unknown paths too) is put to one Triton."""

    def __init__(self, circle: Circle, backends: Backends) -> None:
        self._circle = circle
        self._backends = backends
        own: list[tuple[str, str, Answer]] = [
            ("GET", r"/v2", self._metadata),
            ("GET", r"/v2/health/live", self._live),
            ("GET", r"/v2/health/ready", self._ready),
            ("GET", r"/v2/models/stats", self._stats),
            ("GET", rf"{_MODEL}{_VERSION}/stats", self._stats),
            ("GET", rf"{_MODEL}{_VERSION}/ready", self._model_ready),
            ("POST", r"/v2/repository(?:/[^/]+)?/index", self._index),
            ("POST", r"/v2/repository/models/(?P<model>[^/]+)/(?P<action>load|unload)", self._load_or_unload),
            *((method, path, _refusal(topic)) for method in ("GET", "POST") for path, topic in _REFUSED.items()),
        ]
        self._own = [(method, re.compile(path), answer) for method, path, answer in own]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        answer, arguments = self._find(request.method, raw_path(scope["raw_path"]))
        try:
            response = await answer(request, **arguments)
        except ClientDisconnect:
            return  # nobody is there to hear an answer
        await response(scope, receive, send)

    def _find(self, method: str, path: str) -> tuple[Answer, dict[str, str]]:
        for allowed, pattern, answer in self._own:
            found = pattern.fullmatch(path)
            if found and method == allowed:
                return answer, {name: value or "" for name, value in found.groupdict().items()}
        found = re.match(_MODEL, path)
        return self._ask_home, {"model": found["model"]} if found else {}

    async def _live(self, _request: Request) -> Response:
        return _empty(200)

    async def _ready(self, _request: Request) -> Response:
        return _empty(200 if cluster.is_ready(self._circle.table, self._circle.state) else 400)

    async def _metadata(self, _request: Request) -> Response:
        metadata = cluster.server_metadata(self._circle.state)
        return JSONResponse(metadata) if metadata else error_answer(503, _NOBODY)

    async def _model_ready(self, request: Request, model: str, version: str) -> Response:
        number = cluster.version_number(version)
        if number is None:
            return await self._ask_home(request, model)
        if cluster.model_is_ready(self._circle.table, self._circle.state, model, number):
            return _empty(200)
        return error_answer(400, "Model version not ready", _TEXT)

    async def _index(self, request: Request) -> Response:
        ready_only = _ready_only(await request.body())
        if ready_only is None:
            answer = await self._ask_home(request)  # Triton has its own words for a bad body
            if answer.status_code != 200:
                return answer
        return JSONResponse(cluster.repository_index(self._circle.state, bool(ready_only)))

    async def _stats(self, request: Request, model: str = "", version: str = "") -> Response:  # noqa: ARG002  # in the path
        answers = await self._ask_all(request, self._backends.homes_of(model), ASK_TIMEOUT_S)
        good = [json.loads(bytes(a.body)) for a in answers.values() if a.status_code == 200]
        if good:
            return JSONResponse({"model_stats": cluster.sum_statistics(good)})
        return next(iter(answers.values()), error_answer(503, _NOBODY))

    async def _load_or_unload(self, request: Request, model: str, action: str) -> Response:
        """On every reachable backend whose repository has the model: everywhere, or an error that says where not."""
        backends = self._backends.homes_of(model)
        wanted = model_control.request(action, model, await request.body())
        if wanted is None:
            answers = await self._ask_all(request, backends, LOAD_TIMEOUT_S)
        else:
            answered = await self._backends.ask_all(backends, wanted, LOAD_TIMEOUT_S)
            answers = {name: _control_answer(a) for name, a in answered.items()}
        bad = {name: said(a) for name, a in answers.items() if a.status_code != 200}
        if bad and len(bad) < len(answers):
            return error_answer(503, failed(bad, len(answers)))
        if not bad:
            await self._backends.seen(model, action == "load", backends)
        return next(iter(answers.values()), error_answer(503, _NOBODY))

    async def _ask_home(self, request: Request, model: str = "") -> Response:
        """Put the request to one Triton that has the model; UNAVAILABLE for data of one that is out of service."""
        if request.url.path.endswith(_DATA):
            why = self._backends.out_of_service(model)
            if why:
                return error_answer(503, why)
        backend = self._backends.one_for(model)
        return await self._ask(request, backend, ASK_TIMEOUT_S) if backend else error_answer(503, _NOBODY)

    async def _ask_all(self, request: Request, backends: list[Backend], timeout_s: float) -> dict[str, Response]:
        await request.body()  # read once; `forward` finds it again for every backend
        answers = await asyncio.gather(*(self._ask(request, backend, timeout_s) for backend in backends))
        return dict(zip((b.name for b in backends), answers, strict=True))

    async def _ask(self, request: Request, backend: Backend, timeout_s: float) -> Response:
        return await forward(request, backend, self._backends.http, timeout_s)


def _refusal(topic: str) -> Any:
    async def refuse(_request: Request) -> Response:
        return error_answer(501, cluster.NOT_FOR_A_CLUSTER[topic])

    return refuse


def _ready_only(body: bytes) -> bool | None:
    """What an index request asks for; None if it is not understood."""
    try:
        wanted = json.loads(body or b"{}")
    except ValueError:
        return None
    ready = wanted.get("ready", False) if isinstance(wanted, dict) else None
    return ready if isinstance(ready, bool) else None


def _control_answer(answer: Any) -> Response:
    """Of a load or an unload, as Triton's HTTP service says it."""
    if isinstance(answer, grpc.aio.AioRpcError):
        return error_answer(model_control.http_status(answer), answer.details() or "")
    return Response(status_code=200, media_type="application/json")


def _empty(status: int) -> Response:
    return Response(status_code=status, headers={"content-type": _TEXT})
