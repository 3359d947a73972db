"""The model's name from the first bytes of a body, however they are cut, ordered or compressed."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from router.gateway.first_message import FirstMessage, UnreadableMessageError, model_name


def frame(message: bytes, compressed: bool = False) -> bytes:
    return bytes([compressed]) + len(message).to_bytes(4, "big") + message


def request(name: str = "m", **fields: object) -> bytes:
    encoded: bytes = pb.ModelInferRequest(model_name=name, **fields).SerializeToString()
    return encoded


def read(data: bytes, chunk: int, encoding: str = "") -> tuple[str | None, int]:
    """The name, and how many bytes had to be fed."""
    first = FirstMessage(encoding)
    for at in range(0, len(data), chunk):
        name = first.feed(data[at : at + chunk])
        if name is not None:
            return name, at + chunk
    return None, len(data)


@given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=300), st.integers(1, 400))
def test_any_printable_name_is_read_from_any_chunks(name: str, chunk: int) -> None:
    assert read(frame(request(name, id="1")), chunk)[0] == name


def test_the_name_is_known_before_the_tensors_have_come() -> None:
    data = frame(request("m", raw_input_contents=[b"x" * 10**6]))
    assert read(data, 16) == ("m", 16)


def test_fields_may_come_in_any_order() -> None:
    """Protobuf promises no field order."""
    tail = pb.ModelInferRequest(id="7", raw_input_contents=[b"y" * 5000]).SerializeToString()
    assert read(frame(tail + request("late")), 1000)[0] == "late"


@pytest.mark.parametrize(
    ("encoding", "squeeze"), [("gzip", gzip.compress), ("deflate", zlib.compress)], ids=["gzip", "deflate"]
)
def test_a_compressed_message_is_inflated_as_far_as_needed(encoding: str, squeeze: object) -> None:
    compressed = squeeze(request("m", raw_input_contents=[bytes(10**5)]))  # type: ignore[operator]
    assert read(frame(compressed, compressed=True), 64, encoding)[0] == "m"


def test_a_zip_bomb_costs_no_more_than_the_prefix() -> None:
    bomb = gzip.compress(pb.ModelInferRequest(raw_input_contents=[bytes(2**27)]).SerializeToString())
    with pytest.raises(UnreadableMessageError):
        read(frame(bomb, compressed=True), 2**20, "gzip")


@pytest.mark.parametrize(
    ("data", "encoding", "why"),
    [
        (frame(request("")), "", "no model_name"),
        (frame(b""), "", "no model_name"),
        (frame(request("a\nb")), "", "not printable"),
        (frame(b"\x0a\x02\xff\xfe"), "", "UTF-8"),
        (frame(b"\x0f\x01"), "", "wire type 7"),
        (frame(b"\xff" * 12), "", "varint"),
        (frame(request(), compressed=True), "gzip", "damaged"),
        (frame(request(), compressed=True), "snappy", "snappy"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, encoding: str, why: str) -> None:
    with pytest.raises(UnreadableMessageError, match=why):
        read(data, 64, encoding)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        name = model_name(data)
    except UnreadableMessageError:
        return
    assert name is None or name.isprintable()
