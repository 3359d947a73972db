"""The model's name from the first bytes of a body, however they are cut, ordered or compressed."""

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from bimetal.gateway.first_message import Facts, FirstMessage, UnreadableMessageError, read_facts


def frame(message: bytes, compressed: bool = False) -> bytes:
    return bytes([compressed]) + len(message).to_bytes(4, "big") + message


def request(name: str = "m", **fields: object) -> bytes:
    encoded: bytes = pb.ModelInferRequest(model_name=name, **fields).SerializeToString()
    return encoded


def read(data: bytes, chunk: int, encoding: str = "") -> tuple[str | None, int]:
    """The name, and how many bytes had to be fed."""
    first = FirstMessage(encoding)
    for at in range(0, len(data), chunk):
        facts = first.feed(data[at : at + chunk])
        if facts is not None:
            return facts.model, at + chunk
    return None, len(data)


@given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=300), st.integers(1, 400))
def test_any_printable_name_is_read_from_any_chunks(name: str, chunk: int) -> None:
    assert read(frame(request(name, id="1")), chunk)[0] == name


def test_the_name_is_known_before_the_tensors_have_come() -> None:
    tensor = pb.ModelInferRequest.InferInputTensor(name="a", shape=[1])
    data = frame(request("m", inputs=[tensor], raw_input_contents=[b"x" * 10**6]))
    assert read(data, 32) == ("m", 32)


def test_fields_may_come_in_any_order() -> None:
    """Protobuf promises no field order."""
    tail = pb.ModelInferRequest(id="7", raw_input_contents=[b"y" * 5000]).SerializeToString()
    assert read(frame(tail + request("late")), 1000)[0] == "late"


@pytest.mark.parametrize(
    ("encoding", "squeeze"), [("gzip", gzip.compress), ("deflate", zlib.compress)], ids=["gzip", "deflate"]
)
def test_a_compressed_message_is_inflated_as_far_as_needed(encoding: str, squeeze: Callable[[bytes], bytes]) -> None:
    compressed = squeeze(request("m", raw_input_contents=[bytes(10**5)]))
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
        facts = read_facts(data, whole=True)
    except UnreadableMessageError:
        return
    assert facts is None or facts.model.isprintable()


def facts_of(message: pb.ModelInferRequest) -> Facts:
    found = FirstMessage("").feed(frame(message.SerializeToString()))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("value", "sequence"),
    [
        ({"int64_param": 5}, "05"),
        ({"int64_param": 300}, "ac02"),
        ({"uint64_param": 5}, "05"),
        ({"string_param": "ab"}, "6162"),
        ({"int64_param": 0}, ""),
        ({"string_param": ""}, ""),
    ],
)
def test_the_sequence_is_read_and_zero_and_empty_mean_none(value: dict[str, object], sequence: str) -> None:
    parameters = {"priority": pb.InferParameter(int64_param=9), "sequence_id": pb.InferParameter(**value)}
    message = pb.ModelInferRequest(model_name="m", parameters=parameters)
    assert facts_of(message).sequence == sequence


@pytest.mark.parametrize("shape", [[1], [32, 4], [70000, 2]])
def test_the_batch_is_the_first_dimension_of_the_first_input(shape: list[int]) -> None:
    inputs = [pb.ModelInferRequest.InferInputTensor(name=n, shape=s) for n, s in (("a", shape), ("b", [999]))]
    message = pb.ModelInferRequest(model_name="m", inputs=inputs)
    assert facts_of(message).batch == shape[0]


def test_a_sequence_behind_the_cut_is_waited_for() -> None:
    message = pb.ModelInferRequest(model_name="m", id="x" * 50, raw_input_contents=[b"y" * 500])
    message.parameters["sequence_id"].int64_param = 7
    data = frame(message.SerializeToString())
    first = FirstMessage("")
    assert first.feed(data[:30]) is None
    facts = first.feed(data[30:])
    assert facts is not None
    assert (facts.model, facts.sequence) == ("m", "07")
