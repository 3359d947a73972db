"""Data calls that the data plane could not place: a model that is unknown, unreadable or out of service.

What one Triton can answer is put to one Triton, byte for byte, so that the words are its own.
"""

from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2 as pb

from bimetal.control.backends import Backends
from bimetal.control.grpc_methods import Context, abort
from bimetal.gateway.first_message import UnreadableMessageError, read_facts
from bimetal.xds.tls import KEY_HEADERS

NOBODY = "no Triton of the cluster is reachable"
_OURS = ("grpc-", "x-bimetal-", "x-envoy-", "x-forwarded-", ":")
_OF_THE_CONNECTION = {"user-agent", "content-type", "te", "host", "date"}
# The gateway leaves a client's key on what the router answers; it goes no further.
_SECRET = set(KEY_HEADERS)


class Relay:
    """Handlers of ModelInfer and ModelStreamInfer; both are streams of messages on the wire."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    def handler(self, path: str) -> Any:
        """The handler of the method at `path`."""

        async def relay(messages: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
            incoming = aiter(messages)
            first = await anext(incoming, None)
            while first is not None and (why := self._backends.out_of_service(_model(first))):
                if not path.endswith("ModelStreamInfer"):
                    await abort(context, grpc.StatusCode.UNAVAILABLE, why)
                yield _error_in_band(first, why)
                first = await anext(incoming, None)
            async for answer in self._passed_on(path, first, incoming, context):
                yield answer

        return grpc.stream_stream_rpc_method_handler(relay)

    async def _passed_on(
        self, path: str, first: bytes | None, rest: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[bytes]:
        backend = self._backends.one_for(_model(first))
        if backend is None:
            await abort(context, grpc.StatusCode.UNAVAILABLE, NOBODY)
        call = self._backends.channel(backend).stream_stream(path)(
            _chain(first, rest),
            timeout=context.time_remaining(),
            metadata=[(key, value) for key, value in context.invocation_metadata() if _is_the_clients(key)],
        )
        try:
            async for answer in call:
                yield answer
        except grpc.aio.AioRpcError:
            pass  # its status is read below
        finally:
            call.cancel()
        context.set_trailing_metadata(await call.trailing_metadata())
        if await call.code() is not grpc.StatusCode.OK:
            await abort(context, await call.code(), await call.details())


async def _chain(first: bytes | None, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """All messages up to the first that is none: Triton ends the call there, and grpc.aio does not bear that."""
    if first is None:
        return
    yield first
    if _request(first) is None:
        return
    async for message in rest:
        yield message
        if _request(message) is None:
            return


def _request(message: bytes) -> Any | None:
    """The ModelInferRequest; None for bytes that are none."""
    try:
        return pb.ModelInferRequest.FromString(message)
    except DecodeError:
        return None


def _model(message: bytes | None) -> str:
    """The model that a ModelInferRequest names; "" if it names none that can be read."""
    try:
        facts = read_facts(message or b"", whole=True)
    except UnreadableMessageError:
        return ""
    return facts.model if facts else ""


def _error_in_band(message: bytes, why: str) -> bytes:
    request = _request(message)
    answer = pb.ModelInferResponse(id=request.id if request else "")
    error = pb.ModelStreamInferResponse(error_message=why, infer_response=answer)
    serialised: bytes = error.SerializeToString()
    return serialised


def _is_the_clients(key: str) -> bool:
    return not key.startswith(_OURS) and key not in _OF_THE_CONNECTION | _SECRET
