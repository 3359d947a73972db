"""Envoy's external processor for streams and compressed calls: name the route, then let the bytes pass.

Only requests come by here, never responses. The answer to the headers is held back until the first message has told
the model; then Envoy chooses the route anew and every body chunk is handed back as it came.
"""

from collections.abc import AsyncIterator
from typing import Any

from envoy.config.core.v3.base_pb2 import HeaderValue, HeaderValueOption
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    CommonResponse,
    HeadersResponse,
    HttpBody,
    HttpHeaders,
    ProcessingRequest,
    ProcessingResponse,
    TrailersResponse,
)

from router.gateway.first_message import FirstMessage, UnreadableMessageError
from router.xds.names import INFER_PATH, ROUTE_HEADER


class RouteNamer(external_processor_pb2_grpc.ExternalProcessorServicer):  # type: ignore[misc]  # generated, untyped
    """Sets the route header of requests whose model only their first message tells."""

    async def Process(  # noqa: N802  # the name is the protocol's
        self, requests: AsyncIterator[ProcessingRequest], _context: Any
    ) -> AsyncIterator[ProcessingResponse]:
        """One request's conversation: headers, body chunks, trailers."""
        kind, first = "stream", FirstMessage("")
        held: list[HttpBody] | None = []
        async for request in requests:
            if request.HasField("request_headers"):
                kind, first = _about(request.request_headers)
            elif request.HasField("request_body"):
                body = request.request_body
                if held is None:
                    yield _echo(body)
                    continue
                held.append(body)
                route = _route(kind, first, body)
                if route is not None or body.end_of_stream:
                    yield _headers(route)
                    for chunk in held:
                        yield _echo(chunk)
                    held = None
            elif request.HasField("request_trailers"):
                if held is not None:
                    yield _headers("")
                    for chunk in held:
                        yield _echo(chunk)
                    held = None
                yield ProcessingResponse(request_trailers=TrailersResponse())


def _about(headers: HttpHeaders) -> tuple[str, FirstMessage]:
    values = {h.key: h.raw_value.decode("latin-1") or h.value for h in headers.headers.headers}
    kind = "unary" if values.get(":path") == INFER_PATH else "stream"
    return kind, FirstMessage(values.get("grpc-encoding", ""))


def _route(kind: str, first: FirstMessage, body: HttpBody) -> str | None:
    """The route that the chunk reveals; "" if none ever will (the router answers then); None to wait for more."""
    try:
        model = first.feed(body.body)
    except UnreadableMessageError:
        return ""
    return None if model is None else f"{kind}/{model}"


def _headers(route: str | None) -> ProcessingResponse:
    common = CommonResponse()
    if route:
        common.header_mutation.set_headers.append(
            HeaderValueOption(header=HeaderValue(key=ROUTE_HEADER, raw_value=route.encode()))
        )
        common.clear_route_cache = True
    return ProcessingResponse(request_headers=HeadersResponse(response=common))


def _echo(chunk: HttpBody) -> ProcessingResponse:
    response = ProcessingResponse()
    streamed = response.request_body.response.body_mutation.streamed_response
    streamed.body, streamed.end_of_stream = chunk.body, chunk.end_of_stream
    return response
