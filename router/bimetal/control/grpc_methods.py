"""gRPC methods as Triton's server has them: damaged messages and unknown methods end in Triton's words."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import quote

import grpc
from google.protobuf.message import DecodeError

Context = Any
Answer = Callable[[Any, Context], Awaitable[Any]]

_MOST_QUOTED = 6144
"""Bytes of a status text as it is sent."""
_UNQUOTED = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


class Methods(grpc.GenericRpcHandler):  # type: ignore[misc]  # untyped
    """The methods of a server by path. Register it last: it also answers for every path that nobody has."""

    def __init__(self, by_path: Mapping[str, Any]) -> None:
        self._by_path = by_path

    def service(self, handler_call_details: Any) -> Any:
        """The handler of one call."""
        return self._by_path.get(handler_call_details.method, _UNKNOWN)


def unary(request_type: Any, answer: Answer) -> Any:
    """A method of one request and one answer.

    The message is parsed here: grpc would say UNKNOWN to damaged bytes, and nothing at all to a call without a message.
    """

    async def handle(messages: AsyncIterator[bytes], context: Context) -> bytes:
        async for message in messages:
            try:
                request = request_type.FromString(message)
            except DecodeError:
                break
            serialised: bytes = (await answer(request, context)).SerializeToString()
            return serialised
        await abort(context, grpc.StatusCode.INTERNAL, "Unable to parse request")

    return grpc.stream_unary_rpc_method_handler(handle)


async def abort(context: Context, code: grpc.StatusCode, text: str) -> NoReturn:
    """End the call with a status, whose text is cut to what a client takes."""
    await context.abort(code, bounded(text))
    raise AssertionError("abort raises")


def bounded(text: str) -> str:
    """`text`, or its beginning if it would not fit into the 8 KiB of trailing metadata that gRPC clients take.

    model_analyzer 472: a client that gets more loses the status as well.
    """
    if len(quote(text, safe=_UNQUOTED)) <= _MOST_QUOTED:
        return text
    return f"{text.encode()[: _MOST_QUOTED // 3].decode(errors='ignore')}…"


async def _unknown(_messages: AsyncIterator[bytes], context: Context) -> bytes:
    await abort(context, grpc.StatusCode.UNIMPLEMENTED, "")


_UNKNOWN = grpc.stream_unary_rpc_method_handler(_unknown)
