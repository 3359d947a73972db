"""Reads `model_name` from the first bytes of a gRPC request body. Pure.

The same reading as `route.lua`, for the messages that Lua cannot read: those of streams, and compressed ones.
"""

import zlib
from dataclasses import dataclass, field

_FRAME_HEADER = 5
_MAX_PREFIX = 1 << 20
"""Bytes of the first message looked at; a model name behind more than this of other fields is not found."""


class UnreadableMessageError(Exception):
    """The first message does not hold a model name that can be read; the text says why."""


@dataclass
class FirstMessage:
    """Collects the body of a request until the model's name can be read from it.

    Args:
        encoding: the `grpc-encoding` of the request: "", "identity", "gzip" or "deflate".
    """

    encoding: str
    _raw: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> str | None:
        """Take in a chunk; the model's name once it is known, else None.

        Raises:
            UnreadableMessageError: it will never be known.
        """
        self._raw += chunk[: _MAX_PREFIX - len(self._raw)]
        if len(self._raw) < _FRAME_HEADER:
            return None
        length = int.from_bytes(self._raw[1:_FRAME_HEADER], "big")
        body = bytes(self._raw[_FRAME_HEADER : _FRAME_HEADER + length])
        whole = len(body) == length
        if self._raw[0]:
            body = _inflate(body, self.encoding)
        name = model_name(body)
        if name is None and (whole or len(self._raw) >= _MAX_PREFIX):
            raise UnreadableMessageError("no model_name in the first message")
        return name


def _inflate(body: bytes, encoding: str) -> bytes:
    """What a prefix of a compressed message inflates to, at most `_MAX_PREFIX` bytes."""
    bits = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}.get(encoding)
    if bits is None:
        raise UnreadableMessageError(f"the message is compressed as {encoding!r}; expected gzip or deflate")
    try:
        return zlib.decompressobj(bits).decompress(body, _MAX_PREFIX)
    except zlib.error as error:
        raise UnreadableMessageError(f"the compressed message is damaged: {error}") from error


def model_name(message: bytes) -> str | None:
    """Field 1 of a (prefix of a) ModelInferRequest, fields in any order; None if the prefix does not reach it.

    Raises:
        UnreadableMessageError: the bytes are not protobuf, or the name is empty or not UTF-8.
    """
    at = 0
    try:
        while at < len(message):
            tag, at = _varint(message, at)
            if tag & 7 == 2:
                length, at = _varint(message, at)
                if tag == 10:
                    return _name(message[at : at + length], length)
                at += length
            else:
                at = _skip(message, at, tag & 7)
    except IndexError:
        return None
    return None


def _name(raw: bytes, length: int) -> str | None:
    if len(raw) < length:
        return None
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableMessageError("model_name is not UTF-8") from error
    if not name or not name.isprintable():
        raise UnreadableMessageError("model_name is empty or not printable")
    return name


def _skip(message: bytes, at: int, wire: int) -> int:
    if wire == 0:
        return _varint(message, at)[1]
    if wire in {1, 5}:
        return at + (8 if wire == 1 else 4)
    raise UnreadableMessageError(f"wire type {wire} is not protobuf's")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Value and next position. Raises IndexError where the prefix ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise UnreadableMessageError("a varint is longer than 64 bits")
