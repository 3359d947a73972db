"""Envoy's external processor for streams and compressed calls: name the route, then let the bytes pass.

Only requests come by here, never responses. The answer to the headers is held back until the first message has told
the model; then Envoy chooses the route anew and every body chunk is handed back as it came.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
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

from bimetal.fleet.settings import ModelSettings
from bimetal.gateway.first_message import Facts, FirstMessage, UnreadableMessageError
from bimetal.xds.names import INFER_PATH, ROUTE_HEADER, SEQUENCE_HEADER


class RouteNamer(external_processor_pb2_grpc.ExternalProcessorServicer):  # type: ignore[misc]  # generated, untyped
    """Sets the route header of requests whose model only their first message tells."""

    def __init__(self, models: Mapping[str, ModelSettings]) -> None:
        self._models = models

    async def Process(  # noqa: N802  # the name is the protocol's
        self, requests: AsyncIterator[ProcessingRequest], _context: Any
    ) -> AsyncIterator[ProcessingResponse]:
        """One request's conversation: headers, body chunks, trailers."""
        conversation = _Conversation(self._models)
        async for request in requests:
            for response in conversation.hear(request):
                yield response


class _Conversation:
    """Holds the body back until the route is known, then echoes."""

    def __init__(self, models: Mapping[str, ModelSettings]) -> None:
        self._models = models
        self._unary = False
        self._first = FirstMessage("")
        self._held: list[HttpBody] | None = []

    def hear(self, request: ProcessingRequest) -> Iterator[ProcessingResponse]:
        if request.HasField("request_headers"):
            self._begin(request.request_headers)
        elif request.HasField("request_body"):
            yield from self._body(request.request_body)
        elif request.HasField("request_trailers"):
            yield from self._release(None)
            yield ProcessingResponse(request_trailers=TrailersResponse())

    def _begin(self, headers: HttpHeaders) -> None:
        values = {h.key: h.raw_value.decode("latin-1") or h.value for h in headers.headers.headers}
        self._unary = values.get(":path") == INFER_PATH
        self._first = FirstMessage(values.get("grpc-encoding", ""))

    def _body(self, body: HttpBody) -> Iterator[ProcessingResponse]:
        if self._held is None:
            yield _echo(body)
            return
        self._held.append(body)
        try:
            facts = self._first.feed(body.body)
        except UnreadableMessageError:
            yield from self._release(None)  # unnamed, it goes to the router, which answers as Triton would
            return
        if facts is not None or body.end_of_stream:
            yield from self._release(facts)

    def _release(self, facts: Facts | None) -> Iterator[ProcessingResponse]:
        """The answer to the headers and all that was held; nothing if that has been done."""
        if self._held is None:
            return
        held, self._held = self._held, None
        yield _headers(self._named(facts) if facts else {})
        yield from map(_echo, held)

    def _named(self, facts: Facts) -> dict[str, str]:
        settings = self._models.get(facts.model)
        kind = "unary" if self._unary else "stream"
        if self._unary and settings and facts.batch is not None and facts.batch >= settings.large_from:
            kind = "large"
        named = {ROUTE_HEADER: f"{kind}/{facts.model}"}
        return {**named, SEQUENCE_HEADER: facts.sequence} if facts.sequence else named


def _headers(named: Mapping[str, str]) -> ProcessingResponse:
    common = CommonResponse(clear_route_cache=bool(named))
    common.header_mutation.set_headers.extend(
        HeaderValueOption(header=HeaderValue(key=key, raw_value=value.encode())) for key, value in named.items()
    )
    return ProcessingResponse(request_headers=HeadersResponse(response=common))


def _echo(chunk: HttpBody) -> ProcessingResponse:
    response = ProcessingResponse()
    streamed = response.request_body.response.body_mutation.streamed_response
    streamed.body, streamed.end_of_stream = chunk.body, chunk.end_of_stream
    return response
