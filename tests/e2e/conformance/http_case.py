"""One HTTP request that is put to a Triton and to the gateway, and what is compared of the two answers."""

import gzip
import http.client
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.patience import PATIENCE_S

COMPARED_HEADERS = ("content-type", "content-encoding", "inference-header-content-length", "endpoint-load-metrics")
"""The headers by which a client reads an answer; the others (date, length, order, case) say nothing about it."""


@dataclass(frozen=True)
class HttpCase:
    """A request, and the status that Triton 2.51 was seen to give: it shows that the case asks what it says.

    Attributes:
        body: one piece, or several that are sent with chunked transfer encoding.
    """

    says: str
    status: int
    method: str
    path: str
    body: bytes | tuple[bytes, ...] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HttpAnswer:
    """What is compared: the body of a compressed answer is compared inflated, of a JSON answer as text."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def ask(address: str, case: HttpCase, patience_s: float = PATIENCE_S) -> HttpAnswer:
    """Send the request of `case` to `host:port` on a connection of its own. Raises TimeoutError."""
    connection = http.client.HTTPConnection(address, timeout=patience_s)
    try:
        connection.putrequest(case.method, case.path, skip_accept_encoding=True)
        for name, value in _headers(case):
            connection.putheader(name, value)
        chunked = isinstance(case.body, tuple)
        body: Any = iter(case.body) if isinstance(case.body, tuple) else case.body
        connection.endheaders(body, encode_chunked=chunked)
        answer = connection.getresponse()
        kept = tuple((name, answer.headers[name]) for name in COMPARED_HEADERS if name in answer.headers)
        return HttpAnswer(answer.status, kept, _inflated(answer.read(), answer.getheader("content-encoding")))
    finally:
        connection.close()


def _headers(case: HttpCase) -> Sequence[tuple[str, str]]:
    if isinstance(case.body, tuple):
        return [*case.headers.items(), ("Transfer-Encoding", "chunked")]
    if case.body is None:
        return list(case.headers.items())
    return [*case.headers.items(), ("Content-Length", str(len(case.body)))]


def _inflated(body: bytes, encoding: str | None) -> bytes:
    if encoding == "gzip":
        return gzip.decompress(body)
    return zlib.decompress(body) if encoding == "deflate" else body


def infer_body(*inputs: Mapping[str, Any], **fields: Any) -> bytes:
    """The JSON of an inference request."""
    return json.dumps({"inputs": inputs, **fields}).encode()


def json_input(name: str, shape: Sequence[int], datatype: str, data: Sequence[Any], **fields: Any) -> dict[str, Any]:
    """One input with its data in JSON."""
    return {"name": name, "shape": list(shape), "datatype": datatype, "data": list(data), **fields}
