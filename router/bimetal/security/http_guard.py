"""What a request to the router's HTTP port must bring: nothing, an API key, or the admin token."""

import posixpath
from collections.abc import Iterator
from enum import Enum
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bimetal.security.secrets import Secrets, bearer

_KEY_HEADERS = (b"x-api-key", b"authorization")


class Access(Enum):
    """Who may make a request."""

    ANYBODY = "nothing"
    CLIENT = "an API key"
    ADMIN = "the admin token"


def access_to(path: str, open_metrics: bool) -> Access:
    """What a path needs.

    Loading and unloading of models is administration. Open is only what is spelt exactly so; but a path needs the token
    if any reader could take it for administration: what this port does not know is handed to a Triton, by a client that
    resolves `..` and escapes on its own.
    """
    if path in {"/v2/health/live", "/v2/health/ready"} or (path == "/metrics" and open_metrics):
        return Access.ANYBODY
    return Access.ADMIN if any(map(_is_administration, _readings(path))) else Access.CLIENT


def _is_administration(path: str) -> bool:
    loads = path.startswith("/v2/repository/") and path != "/v2/repository/index"
    return loads or path.startswith("/admin") or path == "/metrics"


def _readings(path: str) -> Iterator[str]:
    """The path as it stands, and as it reads when escapes and dots are resolved, once or again and again."""
    previous = None
    while path != previous:
        yield path
        yield "/" + posixpath.normpath(path).lstrip("/")
        previous, path = path, unquote(path)


class HttpGuard:
    """ASGI middleware in front of the router's HTTP service. What authenticates goes no further than here."""

    def __init__(self, app: ASGIApp, secrets: Secrets, open_metrics: bool) -> None:
        self._app = app
        self._secrets = secrets
        self._open_metrics = open_metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401 in Triton's shape."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        needed = access_to(scope["path"], self._open_metrics)
        if self._grants(needed, Headers(scope=scope)):
            await self._app(self._without_keys(scope), receive, send)
        else:
            await _refusal(needed)(scope, receive, send)

    def _grants(self, needed: Access, headers: Headers) -> bool:
        key, token = (headers.get(name.decode(), "").encode("latin-1") for name in _KEY_HEADERS)
        token = bearer(token)
        if needed is Access.ADMIN and self._secrets.guards_admin:
            return self._secrets.is_admin(token)
        if needed is Access.CLIENT and self._secrets.guards_requests:
            return self._secrets.is_api_key(key) or self._secrets.is_api_key(token) or self._secrets.is_admin(token)
        return True

    def _without_keys(self, scope: Scope) -> Scope:
        if not (self._secrets.guards_admin or self._secrets.guards_requests):
            return scope
        return {**scope, "headers": [(name, value) for name, value in scope["headers"] if name not in _KEY_HEADERS]}


def _refusal(needed: Access) -> JSONResponse:
    how = "'authorization: Bearer TOKEN'" + (" or 'x-api-key: KEY'" if needed is Access.CLIENT else "")
    text = f"this needs {needed.value}: expected it in the header {how}"
    return JSONResponse({"error": text}, 401, {"www-authenticate": "Bearer"})
