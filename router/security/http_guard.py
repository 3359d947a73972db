"""What a request to the router's HTTP port must bring: nothing, an API key, or the admin token."""

import posixpath
from enum import Enum
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from router.security.secrets import Secrets

_BEARER = b"bearer "
_KEY_HEADERS = (b"x-api-key", b"authorization")


class Access(Enum):
    """Who may make a request."""

    ANYBODY = "nothing"
    CLIENT = "an API key"
    ADMIN = "the admin token"


def access_to(path: str, open_metrics: bool) -> Access:
    """What a path needs.

    Loading and unloading of models is administration. The path is read as the most generous reader would: what this
    port does not know is handed to a Triton, by a client that resolves `..` and escapes on its own.
    """
    path = _resolved(path)
    if path in {"/v2/health/live", "/v2/health/ready"}:
        return Access.ANYBODY
    if path == "/metrics":
        return Access.ANYBODY if open_metrics else Access.ADMIN
    loads = path.startswith("/v2/repository/") and path != "/v2/repository/index"
    return Access.ADMIN if loads or path.startswith("/admin") else Access.CLIENT


def _resolved(path: str) -> str:
    while path != (plain := unquote(path)):
        path = plain
    return "/" + posixpath.normpath(path).lstrip("/")


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
        if token[: len(_BEARER)].lower() == _BEARER:
            token = token[len(_BEARER) :]
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
