"""What a request to the router's HTTP port must bring."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from bimetal.security.http_guard import Access, HttpGuard, access_to
from bimetal.security.secrets import Secrets

TOKEN, KEY = "token-0123456789abc", "key-one-0123456789"
RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.mark.parametrize(
    ("path", "access"),
    [
        ("/v2/health/live", Access.ANYBODY),
        ("/v2/health/ready", Access.ANYBODY),
        ("/metrics", Access.ANYBODY),
        ("/v2", Access.CLIENT),
        ("/v2/models/identity/infer", Access.CLIENT),
        ("/v2/models/repository/infer", Access.CLIENT),
        ("/v2/repository/index", Access.CLIENT),
        ("/anything", Access.CLIENT),
        ("/admin/status", Access.ADMIN),
        ("/admin/backends/cuda-0/clear", Access.ADMIN),
        ("/v2/repository/models/m/load", Access.ADMIN),
        ("/v2/repository/models/m/unload", Access.ADMIN),
    ],
)
def test_loading_and_the_admin_api_are_administration(path: str, access: Access) -> None:
    assert access_to(path, open_metrics=True) is access


def test_metrics_may_be_closed() -> None:
    assert access_to("/metrics", open_metrics=False) is Access.ADMIN


@pytest.mark.parametrize(
    "path",
    [
        "//v2/repository/models/m/load",
        "/v2/models/../repository/models/m/load",
        "/v2/models/%2e%2e/repository/models/m/load",
        "/v2/models/%252e%252e/repository/models/m/load",
        "/v2/%72epository/models/m/load",
        "/v2/health/../repository/models/m/load",
        "/v2/repository/models/../../health/live",
        "/v2/repository/models/%2e%2e%2f%2e%2e%2fhealth/load",
        "/./admin/status",
    ],
)
def test_another_spelling_is_no_way_around_the_token(path: str) -> None:
    assert access_to(path, open_metrics=True) is Access.ADMIN


@pytest.mark.parametrize(
    "path", ["/v2/health/../models/m/infer", "/v2/models/m/%2e%2e/%2e%2e/health/live", "/metrics/"]
)
def test_what_is_open_is_open_in_its_exact_spelling_only(path: str) -> None:
    assert access_to(path, open_metrics=True) is not Access.ANYBODY


class _App:
    """Remembers the headers of what came through."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] | None = None

    async def __call__(self, scope: Any, _receive: Any, _send: Any) -> None:
        self.headers = scope["headers"]


def _ask(
    run_async: RunAsync, secrets: Secrets, path: str, headers: list[tuple[bytes, bytes]]
) -> tuple[int | None, list[tuple[bytes, bytes]] | None]:
    """The status of the refusal, if there was one, and the headers that came through."""
    app, sent = _App(), []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("the guard reads no body")

    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    run_async(HttpGuard(app, secrets, open_metrics=True)(scope, receive, send))
    return (sent[0]["status"] if sent else None), app.headers


BOTH = Secrets(TOKEN, [KEY])
BEARER_TOKEN, BEARER_KEY = (
    (b"authorization", b"Bearer " + TOKEN.encode()),
    (b"authorization", b"bearer " + KEY.encode()),
)
API_KEY = (b"x-api-key", KEY.encode())


@pytest.mark.parametrize(
    ("path", "header", "passes"),
    [
        ("/v2", API_KEY, True),
        ("/v2", BEARER_KEY, True),
        ("/v2", BEARER_TOKEN, True),
        ("/v2", (b"x-api-key", b"wrong"), False),
        ("/v2", (b"x-api-key", b"\xff"), False),
        ("/v2", (b"other", KEY.encode()), False),
        ("/admin/status", BEARER_TOKEN, True),
        ("/admin/status", (b"authorization", TOKEN.encode()), True),
        ("/admin/status", API_KEY, False),
        ("/admin/status", BEARER_KEY, False),
        ("/admin/status", (b"x-api-key", TOKEN.encode()), False),
    ],
)
def test_the_right_secret_passes_and_no_other(
    run_async: RunAsync, path: str, header: tuple[bytes, bytes], passes: bool
) -> None:
    status, came_through = _ask(run_async, BOTH, path, [header])
    assert (status, came_through is not None) == ((None, True) if passes else (401, False))


def test_secrets_go_no_further_and_other_headers_do(run_async: RunAsync) -> None:
    _, came_through = _ask(run_async, BOTH, "/v2", [API_KEY, BEARER_TOKEN, (b"x-kept", b"yes")])
    assert came_through == [(b"x-kept", b"yes")]


@pytest.mark.parametrize("path", ["/admin/status", "/v2", "/v2/repository/models/m/load"])
def test_without_secrets_everything_passes_as_it_came(run_async: RunAsync, path: str) -> None:
    authorization = (b"authorization", b"the client's own")
    assert _ask(run_async, Secrets(), path, [authorization]) == (None, [authorization])
