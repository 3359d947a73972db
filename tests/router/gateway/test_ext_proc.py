"""Streams and compressed calls: what Envoy is told, chunk by chunk."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from envoy.service.ext_proc.v3.external_processor_pb2 import HttpBody, ProcessingRequest, ProcessingResponse
from tritonclient.grpc import service_pb2 as pb

from bimetal.fleet.settings import ModelSettings
from bimetal.gateway.ext_proc import RouteNamer
from bimetal.xds.names import INFER_PATH, ROUTE_HEADER, STREAM_PATH

MODELS = {"sized": ModelSettings(large_from=16, large={"cuda": 0.5})}


def frame(name: str, batch: int = 1, sequence: int = 0) -> bytes:
    request = pb.ModelInferRequest(model_name=name, id="1")
    request.inputs.add(name="x", shape=[batch, 4])
    if sequence:
        request.parameters["sequence_id"].int64_param = sequence
    message = request.SerializeToString()
    return b"\0" + len(message).to_bytes(4, "big") + bytes(message)


def headers(path: str, **more: str) -> ProcessingRequest:
    request = ProcessingRequest()
    for key, value in {":path": path, **more}.items():
        header = request.request_headers.headers.headers.add()
        header.key, header.raw_value = key.replace("_", "-"), value.encode()
    return request


def body(data: bytes, end: bool = False) -> ProcessingRequest:
    return ProcessingRequest(request_body=HttpBody(body=data, end_of_stream=end))


def converse(*requests: ProcessingRequest) -> list[ProcessingResponse]:
    async def source() -> AsyncIterator[ProcessingRequest]:
        for request in requests:
            yield request

    async def main() -> list[ProcessingResponse]:
        return [response async for response in RouteNamer(MODELS).Process(source(), None)]

    return asyncio.run(main())


def told(responses: list[ProcessingResponse]) -> list[str | bytes]:
    """The conversation in short: the route (or "no route"), then the chunks."""
    short: list[str | bytes] = []
    for response in responses:
        if response.HasField("request_headers"):
            common = response.request_headers.response
            options = common.header_mutation.set_headers
            assert common.clear_route_cache == bool(options)
            named = {o.header.key: o.header.raw_value.decode() for o in options}
            short.append(named.pop(ROUTE_HEADER, "no route"))
            short += [f"sequence {value}" for value in named.values()]
        elif response.HasField("request_body"):
            short.append(response.request_body.response.body_mutation.streamed_response.body)
        else:
            short.append("trailers")
    return short


def test_the_route_is_told_before_the_first_chunk_is_handed_back() -> None:
    assert told(converse(headers(STREAM_PATH), body(frame("m")))) == ["stream/m", frame("m")]


def test_a_name_cut_in_two_is_waited_for_and_no_byte_is_lost() -> None:
    data = frame("model")
    answers = told(converse(headers(STREAM_PATH), body(data[:9]), body(data[9:], end=True)))
    assert answers == ["stream/model", data[:9], data[9:]]


def test_later_messages_pass_as_they_come() -> None:
    answers = told(converse(headers(STREAM_PATH), body(frame("m")), body(b"next"), body(b"", end=True)))
    assert answers == ["stream/m", frame("m"), b"next", b""]


def test_a_unary_call_takes_the_unary_route() -> None:
    assert told(converse(headers(INFER_PATH, grpc_encoding="identity"), body(frame("m"), end=True)))[0] == "unary/m"


def test_a_sequence_is_named_beside_the_route() -> None:
    assert told(converse(headers(STREAM_PATH), body(frame("m", sequence=5))))[:2] == ["stream/m", "sequence 05"]


@pytest.mark.parametrize(("batch", "kind"), [(15, "unary"), (16, "large"), (64, "large")])
def test_a_large_compressed_call_takes_the_large_route(batch: int, kind: str) -> None:
    assert told(converse(headers(INFER_PATH), body(frame("sized", batch), end=True)))[0] == f"{kind}/sized"


def test_a_stream_has_no_size_class() -> None:
    assert told(converse(headers(STREAM_PATH), body(frame("sized", 64))))[0] == "stream/sized"


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0\0", b"rubbish that is no frame"])
def test_what_cannot_be_read_goes_on_unnamed_and_unchanged(data: bytes) -> None:
    assert told(converse(headers(STREAM_PATH), body(data, end=True))) == ["no route", data]


def test_the_end_of_the_stream_is_passed_on() -> None:
    last = converse(headers(STREAM_PATH), body(frame("m"), end=True))[-1]
    assert last.request_body.response.body_mutation.streamed_response.end_of_stream


def test_trailers_before_any_name_release_what_was_held() -> None:
    trailers = ProcessingRequest()
    trailers.request_trailers.SetInParent()
    assert told(converse(headers(STREAM_PATH), body(b"\0\0"), trailers)) == ["no route", b"\0\0", "trailers"]
