"""One HTTP request put to one Triton as it came, and Triton's answer handed back as it is."""

import json

import aiohttp
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from yarl import URL

from bimetal.fleet.schema import Backend

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length", "expect"}
_NOT_OURS_TO_ADD = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


async def forward(request: Request, backend: Backend, http: aiohttp.ClientSession, timeout_s: float) -> Response:
    """Triton's answer; 503 in Triton's shape if there is none within `timeout_s`."""
    # Triton allows GET and POST, and says the same to every other method. But it answers HEAD with a body, which breaks
    # the connection for the next request, and some methods of nobody's making not at all.
    method = request.method if request.method in {"GET", "POST"} else "OPTIONS"
    try:
        async with http.request(
            method,
            URL(f"http://{backend.http_address}{_target(request)}", encoded=True),
            headers=[(k, v) for k, v in request.headers.items() if k not in _HOP_BY_HOP],
            skip_auto_headers=_NOT_OURS_TO_ADD,
            data=await request.body(),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        ) as answer:
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
            return Response(await answer.read(), answer.status, kept)
    except ValueError:  # aiohttp's word on a header with a control character
        return error_answer(400, "Bad Request")
    except (aiohttp.ClientError, TimeoutError) as error:
        return error_answer(503, f"backend {backend.name} did not answer: {error or type(error).__name__}")


def _target(request: Request) -> str:
    query = request.scope["query_string"].decode("latin-1")
    return raw_path(request.scope["raw_path"]) + (f"?{query}" if query else "")


def raw_path(path: bytes) -> str:
    """The path as the client wrote it: Triton decodes no escapes, so `%2F` in a name is no slash."""
    return path.decode("latin-1")


def error_answer(status: int, text: str, media_type: str = "application/json") -> Response:
    """An error in Triton's shape: tritonclient reads `["error"]`."""
    answer = JSONResponse({"error": text}, status)
    answer.headers["content-type"] = media_type
    return answer


def said(answer: Response) -> str:
    """The words of an error answer."""
    try:
        return str(json.loads(bytes(answer.body))["error"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"
