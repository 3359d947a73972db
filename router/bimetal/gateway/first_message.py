"""Reads what routing needs from the first bytes of a gRPC request body. Pure.

The same reading as `route.lua`, for the messages that Lua cannot read: those of streams, and compressed ones.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bimetal.protobuf_wire import WireError, extent, varint

_FRAME_HEADER = 5
_MAX_PREFIX = 1 << 20
"""Bytes of the first message looked at; a model name behind more than this of other fields is not found."""
# Fields of ModelInferRequest, of its `parameters` entries, of InferParameter, and of `inputs`.
_MODEL_NAME, _PARAMETERS, _INPUTS = 1, 4, 5
_KEY, _VALUE = 1, 2
_INT64, _STRING, _UINT64 = 2, 3, 5
_SHAPE = 3


class UnreadableMessageError(Exception):
    """The first message does not hold a model name that can be read; the text says why."""


class Facts(NamedTuple):
    """What routing needs of a request.

    Attributes:
        sequence: the sequence_id as hexadecimal digits of its protobuf content; "" without one.
        batch: first dimension of the first input; None if it was not reached or there is none.
    """

    model: str
    sequence: str
    batch: int | None


@dataclass
class FirstMessage:
    """Collects the body of a request until what routing needs can be read from it.

    Args:
        encoding: the `grpc-encoding` of the request: "", "identity", "gzip" or "deflate".
    """

    encoding: str
    _raw: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> Facts | None:
        """Take in a chunk; the facts once they are known, else None.

        Raises:
            UnreadableMessageError: they will never be known.
        """
        self._raw += chunk[: _MAX_PREFIX - len(self._raw)]
        if len(self._raw) < _FRAME_HEADER:
            return None
        length = int.from_bytes(self._raw[1:_FRAME_HEADER], "big")
        body = bytes(self._raw[_FRAME_HEADER : _FRAME_HEADER + length])
        whole = len(body) == length or len(self._raw) >= _MAX_PREFIX
        if self._raw[0]:
            body = _inflate(body, self.encoding)
        facts = read_facts(body, whole)
        if facts is None and whole:
            raise UnreadableMessageError("no model_name in the first message")
        return facts


def _inflate(body: bytes, encoding: str) -> bytes:
    """What a prefix of a compressed message inflates to, at most `_MAX_PREFIX` bytes."""
    bits = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}.get(encoding)
    if bits is None:
        raise UnreadableMessageError(f"the message is compressed as {encoding!r}; expected gzip or deflate")
    try:
        return zlib.decompressobj(bits).decompress(body, _MAX_PREFIX)
    except zlib.error as error:
        raise UnreadableMessageError(f"the compressed message is damaged: {error}") from error


def read_facts(message: bytes, whole: bool) -> Facts | None:
    """The facts in a (prefix of a) ModelInferRequest, fields in any order.

    None if the prefix does not reach the model's name, or ends before the first input and more may come: parameters
    are written before inputs, so an input that was reached means that no more of them will follow.

    Raises:
        UnreadableMessageError: the bytes are not protobuf, or the name is empty or not UTF-8.
    """
    name: bytes | None = None
    sequence, batch, past_parameters = "", None, False
    for number, content in _fields(message):
        if number == _MODEL_NAME:
            name = content
        elif number == _PARAMETERS:
            sequence = _sequence(content) or sequence
        elif number == _INPUTS:
            past_parameters = True
            batch = _batch(content) if batch is None else batch
        elif number > _INPUTS:
            past_parameters = True
    if name is None or not (whole or past_parameters):
        return None
    return Facts(_text(name), sequence, batch)


def _text(raw: bytes) -> str:
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableMessageError("model_name is not UTF-8") from error
    if not name or not name.isprintable():
        raise UnreadableMessageError("model_name is empty or not printable")
    return name


def _sequence(entry: bytes) -> str:
    """The sequence_id in one entry of `parameters`; "" for another key, and for 0 and "", which mean none."""
    fields = dict(_fields(entry))
    if fields.get(_KEY) != b"sequence_id":
        return ""
    for number, content in _fields(fields.get(_VALUE, b"")):
        if number in {_INT64, _STRING, _UINT64} and content not in {b"", b"\0"}:
            return content.hex()
    return ""


def _batch(tensor: bytes) -> int | None:
    """The first dimension of one of `inputs`, whose shape may be packed or not."""
    for number, content in _fields(tensor):
        if number == _SHAPE and content:
            return varint(content, 0)[0]
    return None


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of each field that lies in `message` as a whole; the last may be cut off and is left out.

    Raises:
        UnreadableMessageError: the bytes are not protobuf.
    """
    at = 0
    while at < len(message):
        try:
            tag, first = varint(message, at)
            first, at = extent(message, tag & 7, first)
        except IndexError:
            return
        except WireError as error:
            raise UnreadableMessageError(str(error)) from error
        if at > len(message):
            return
        yield tag >> 3, message[first:at]
