"""The HTTP surface as rows: a sentence, the status that Triton 2.51 gives, and the request."""

import gzip
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from tests.e2e.conformance.http_case import HttpCase, infer_body, json_input

IDENTITY = "/v2/models/identity"
INFER = f"{IDENTITY}/infer"
WORDS = "/v2/models/identity_bytes"
REPEAT = "/v2/models/repeat"
ROW = json_input("INPUT0", [1, 3], "FP32", [1, 2.5, -3])
BODY = infer_body(ROW)
FLOATS = struct.pack("<3f", 1, 2.5, -3)
BINARY_HEADER = infer_body(
    {"name": "INPUT0", "shape": [1, 3], "datatype": "FP32", "parameters": {"binary_data_size": len(FLOATS)}}
)
BINARY_OUTPUT = {"name": "OUTPUT0", "parameters": {"binary_data": True}}


def control_cases() -> Iterator[HttpCase]:
    """Everything but inference."""
    rows: list[tuple[str, int, str, str]] = [
        ("the server is live", 200, "GET", "/v2/health/live"),
        ("the server is ready", 200, "GET", "/v2/health/ready"),
        ("a query string is ignored", 200, "GET", "/v2/health/ready?verbose=1"),
        ("a model's metadata", 200, "GET", IDENTITY),
        ("metadata of one version", 200, "GET", f"{IDENTITY}/versions/1"),
        ("metadata of an unknown model", 404, "GET", "/v2/models/nope"),
        ("metadata of an unknown version", 404, "GET", f"{IDENTITY}/versions/9"),
        ("metadata of a version that is no number", 404, "GET", f"{IDENTITY}/versions/x"),
        ("metadata of a decoupled model", 200, "GET", REPEAT),
        ("a model's configuration", 200, "GET", f"{IDENTITY}/config"),
        ("configuration of one version", 200, "GET", f"{IDENTITY}/versions/1/config"),
        ("configuration of an unknown model", 404, "GET", "/v2/models/nope/config"),
        ("configuration of an unknown version", 404, "GET", f"{IDENTITY}/versions/9/config"),
        ("a ready model", 200, "GET", f"{IDENTITY}/ready"),
        ("a ready version", 200, "GET", f"{IDENTITY}/versions/1/ready"),
        ("an unknown model is not ready", 400, "GET", "/v2/models/nope/ready"),
        ("an unknown version is not ready", 400, "GET", f"{IDENTITY}/versions/9/ready"),
        ("a version that is no number is not ready", 404, "GET", f"{IDENTITY}/versions/x/ready"),
        ("statistics of an unknown model", 400, "GET", "/v2/models/nope/stats"),
        ("statistics of an unknown version", 400, "GET", f"{IDENTITY}/versions/9/stats"),
        ("statistics of a version that is no number", 404, "GET", f"{IDENTITY}/versions/x/stats"),
        ("a model name with a space", 404, "GET", "/v2/models/no%20such"),
        ("a model name with an escaped slash", 404, "GET", "/v2/models/no%2Fsuch"),
        ("a model name beyond ASCII", 404, "GET", "/v2/models/n%C3%B6"),
        ("a model name with a percent sign", 404, "GET", "/v2/models/no%25such"),
        ("an escaped letter in the name of a known model", 404, "GET", "/v2/models/%69dentity"),
        ("a long model name", 404, "GET", f"/v2/models/{'n' * 2000}"),
        ("HEAD of the statistics", 405, "HEAD", "/v2/models/stats"),
        ("an unknown path", 404, "GET", "/v2/nope"),
        ("the root", 404, "GET", "/"),
        ("a trailing slash", 404, "GET", "/v2/"),
        ("a doubled slash", 404, "GET", "//v2"),
        ("dots in a path", 404, "GET", "/v2/models/../health/live"),
        ("an unknown action of a model", 404, "GET", f"{IDENTITY}/nope"),
        ("a path below a model's action", 404, "GET", f"{IDENTITY}/config/x"),
        ("an unknown version word", 404, "GET", f"{IDENTITY}/version/1"),
        ("metrics are not on this port", 404, "GET", "/metrics"),
        ("POST to the server's metadata", 405, "POST", "/v2"),
        ("POST to a health question", 405, "POST", "/v2/health/live"),
        ("POST to a model's metadata", 405, "POST", IDENTITY),
        ("POST to a model's readiness", 405, "POST", f"{IDENTITY}/ready"),
        ("POST to a model's statistics", 405, "POST", f"{IDENTITY}/stats"),
        ("GET of inference", 405, "GET", INFER),
        ("GET of generate", 405, "GET", f"{IDENTITY}/generate"),
        ("GET of the repository index", 405, "GET", "/v2/repository/index"),
        ("GET of a load", 405, "GET", "/v2/repository/models/identity/load"),
        ("HEAD of the server's metadata", 405, "HEAD", "/v2"),
        ("HEAD of a health question", 405, "HEAD", "/v2/health/ready"),
        ("HEAD of a ready model", 405, "HEAD", f"{IDENTITY}/ready"),
        ("PUT to inference", 405, "PUT", INFER),
        ("DELETE of a model", 405, "DELETE", IDENTITY),
        ("OPTIONS of the server", 405, "OPTIONS", "/v2"),
        ("PATCH of the repository index", 405, "PATCH", "/v2/repository/index"),
        ("a method that HTTP does not know", 405, "BREW", "/v2"),
    ]
    for says, status, method, path in rows:
        yield HttpCase(says, status, method, path, b"" if method in {"POST", "PUT", "PATCH"} else None)


def repository_cases() -> Iterator[HttpCase]:
    """The repository's index and what goes wrong at loading; loads that work are in `test_repository.py`."""
    index = "/v2/repository/index"
    yield HttpCase("the repository index", 200, "POST", index, b"")
    yield HttpCase("the repository index for an empty object", 200, "POST", index, b"{}")
    yield HttpCase("only the ready models", 200, "POST", index, b'{"ready": true}')
    yield HttpCase("all models, asked for in so many words", 200, "POST", index, b'{"ready": false}')
    yield HttpCase("an index request that is not JSON", 500, "POST", index, b"{ready")
    yield HttpCase("an index request that is a list", 200, "POST", index, b"[]")
    yield HttpCase("an index request whose ready is a string", 500, "POST", index, b'{"ready": "yes"}')
    yield HttpCase("an index request whose ready is a number", 500, "POST", index, b'{"ready": 1}')
    yield HttpCase("the index of a named repository", 200, "POST", "/v2/repository/other/index", b"")
    models = "/v2/repository/models"
    yield HttpCase("loading an unknown model", 500, "POST", f"{models}/nope/load", b"")
    yield HttpCase("loading with a body that is not JSON", 500, "POST", f"{models}/identity/load", b"{")
    yield HttpCase("loading with an unknown parameter", 500, "POST", f"{models}/nope/load", _parameters(nope=1))
    yield HttpCase("loading with a bad config", 500, "POST", f"{models}/nope/load", _parameters(config="{"))
    yield HttpCase("unloading an unknown model", 200, "POST", f"{models}/nope/unload", b"")
    yield HttpCase("unloading with a body that is not JSON", 200, "POST", f"{models}/nope/unload", b"{")
    yield HttpCase("loading in a named repository", 501, "POST", "/v2/repository/other/models/nope/load", b"")
    yield HttpCase("an unknown repository action", 404, "POST", f"{models}/nope/reload", b"")


def _parameters(**values: Any) -> bytes:
    return json.dumps({"parameters": values}).encode()


def infer_cases() -> Iterator[HttpCase]:
    """Inference that works."""

    def ok(says: str, body: bytes | tuple[bytes, ...], path: str = INFER, **headers: str) -> HttpCase:
        return HttpCase(says, 200, "POST", path, body, {k.replace("_", "-"): v for k, v in headers.items()})

    yield ok("plain JSON", BODY)
    yield ok("a version in the path", BODY, f"{IDENTITY}/versions/1/infer")
    yield ok("a query string after the path", BODY, f"{INFER}?a=b")
    yield ok("a request id", infer_body(ROW, id="r-1"))
    yield ok("a content type that is not JSON", BODY, content_type="application/x-www-form-urlencoded")
    yield ok("BYTES in JSON", infer_body(json_input("INPUT0", [1, 3], "BYTES", ["a", "ü", ""])), f"{WORDS}/infer")
    yield ok("a nested list as data", infer_body(json_input("INPUT0", [2, 1], "FP32", [[1], [2]])))
    yield ok("a zero-size tensor", infer_body(json_input("INPUT0", [1, 0], "FP32", [])))
    yield ok("an optional input left out", BODY, "/v2/models/slow_identity/infer")
    yield ok("an output asked for by name", infer_body(ROW, outputs=[{"name": "OUTPUT0"}]))
    yield ok("no output at all asked for", infer_body(ROW, outputs=[]))
    yield ok("a binary output", infer_body(ROW, outputs=[BINARY_OUTPUT]))
    yield ok("all outputs binary", infer_body(ROW, parameters={"binary_data_output": True}))
    yield ok("classification", infer_body(ROW, outputs=[_classes(2)]))
    yield ok("classification in binary", infer_body(ROW, outputs=[_classes(2, binary_data=True)]))
    yield ok("a classification of 0", infer_body(ROW, outputs=[_classes(0)]))
    yield ok("more classes than there are elements", infer_body(ROW, outputs=[_classes(9)]))
    yield ok("parameters of one's own", infer_body(ROW, parameters={"a": 1, "b": "x", "c": True, "d": 1.5}))
    yield ok("a priority of 0", infer_body(ROW, parameters={"priority": 0}))
    yield ok("a priority without priority levels", infer_body(ROW, parameters={"priority": 3}))
    yield ok("a generous timeout", infer_body(ROW, parameters={"timeout": 60_000_000}))
    yield ok("a sequence id of 0", infer_body(ROW, parameters={"sequence_id": 0}))
    binary = BINARY_HEADER + FLOATS
    yield ok("a binary input", binary, inference_header_content_length=str(len(BINARY_HEADER)))
    yield ok("a raw tensor without a JSON header", FLOATS, inference_header_content_length="0")
    yield ok("a raw empty tensor", b"", inference_header_content_length="0")
    yield ok("no body at all: a raw tensor without elements", b"")
    yield ok("an empty chunked upload", ())
    yield ok("a gzip request that is not gzip: Triton reads no body", BODY, content_encoding="gzip")
    yield ok("a gzip request", gzip.compress(BODY), content_encoding="gzip")
    yield ok("a deflate request", zlib.compress(BODY), content_encoding="deflate")
    yield ok(
        "a gzip request with a binary input",
        gzip.compress(binary),
        content_encoding="gzip",
        inference_header_content_length=str(len(BINARY_HEADER)),
    )
    yield ok("a gzip answer", BODY, accept_encoding="gzip")
    yield ok("a deflate answer", BODY, accept_encoding="deflate")
    yield ok("a choice of answer encodings", BODY, accept_encoding="deflate;q=0.5, gzip")
    yield ok("an answer encoding that Triton does not know", BODY, accept_encoding="br")
    yield ok("a gzip answer with a binary output", infer_body(ROW, outputs=[BINARY_OUTPUT]), accept_encoding="gzip")
    yield ok("gzip both ways", gzip.compress(BODY), content_encoding="gzip", accept_encoding="gzip")
    yield ok("a chunked upload", (BODY[:10], BODY[10:]))
    yield ok("a chunked binary upload", (binary,), inference_header_content_length=str(len(BINARY_HEADER)))
    yield ok("a chunked gzip upload", (gzip.compress(BODY),), content_encoding="gzip")
    yield ok("load metrics that were asked for", BODY, endpoint_load_metrics_format="text")
    yield ok("headers that nobody knows", BODY, x_tenant="a", x_bimetal_route="unary/repeat")
    yield ok("an expectation of 100-continue", BODY, expect="100-continue")


def _classes(count: int, **more: Any) -> dict[str, Any]:
    return {"name": "OUTPUT0", "parameters": {"classification": count, **more}}


def infer_error_cases() -> Iterator[HttpCase]:
    """Inference that fails, by whose fault it may be."""

    def bad(says: str, status: int, body: bytes | tuple[bytes, ...], path: str = INFER, **headers: str) -> HttpCase:
        return HttpCase(says, status, "POST", path, body, {k.replace("_", "-"): v for k, v in headers.items()})

    yield bad("an unknown model", 404, BODY, "/v2/models/nope/infer")
    yield bad("an escaped letter in the name of the model", 404, BODY, "/v2/models/%69dentity/infer")
    yield bad("an unknown version", 404, BODY, f"{IDENTITY}/versions/9/infer")
    yield bad("a version that is no number", 404, BODY, f"{IDENTITY}/versions/x/infer")
    yield bad("a version of -1", 404, BODY, f"{IDENTITY}/versions/-1/infer")
    yield bad("a body that is not JSON", 500, b"{")
    yield bad("JSON with something after it", 500, BODY + b"x")
    yield bad("a JSON list", 500, b"[]")
    yield bad("no inputs", 500, b"{}")
    yield bad("an empty list of inputs", 400, infer_body())
    yield bad("a wrong datatype", 400, infer_body(json_input("INPUT0", [1, 1], "INT32", [1])))
    yield bad("an unknown datatype", 400, infer_body(json_input("INPUT0", [1, 1], "FP99", [1])))
    yield bad("a shape of the wrong rank", 400, infer_body(json_input("INPUT0", [3], "FP32", [1, 2, 3])))
    yield bad("a shape that does not match the data", 500, infer_body(json_input("INPUT0", [1, 4], "FP32", [1])))
    yield bad("a negative dimension", 500, infer_body(json_input("INPUT0", [1, -1], "FP32", [1])))
    yield bad("a batch that is too large", 400, infer_body(json_input("INPUT0", [65, 0], "FP32", [])))
    yield bad("a shape that is no list", 500, infer_body({**ROW, "shape": 3}))
    yield bad("a shape whose size overflows", 400, infer_body(json_input("INPUT0", [2**40, 2**40], "FP32", [1])))
    yield bad("an unknown input", 400, infer_body({**ROW, "name": "NOPE"}))
    yield bad("an input given twice", 400, infer_body(ROW, ROW))
    yield bad("an input without a name", 500, infer_body({k: v for k, v in ROW.items() if k != "name"}))
    yield bad("an input without data", 400, infer_body({k: v for k, v in ROW.items() if k != "data"}))
    yield bad("strings where numbers belong", 500, infer_body(json_input("INPUT0", [1, 1], "FP32", ["one"])))
    yield bad("an unknown output", 400, infer_body(ROW, outputs=[{"name": "NOPE"}]))
    yield bad(
        "a classification that is no number",
        500,
        infer_body(ROW, outputs=[_classes(1) | {"parameters": {"classification": "x"}}]),
    )
    yield bad("a parameter that is a list", 400, infer_body(ROW, parameters={"a": [1]}))
    yield bad(
        "a parameter with a reserved name", 400, infer_body(ROW, parameters={"triton_enable_empty_final_response": 1})
    )
    yield bad("a priority below 0", 500, infer_body(ROW, parameters={"priority": -1}))
    yield bad("a timeout that is a string", 500, infer_body(ROW, parameters={"timeout": "soon"}))
    yield bad("a shared-memory region that nobody registered", 404, infer_body(_in_region()))
    yield bad("a decoupled model over unary", 501, _repeat_body([1, 2]), f"{REPEAT}/infer")
    yield bad("uneven inputs of a decoupled model over unary", 501, _uneven_repeat(), f"{REPEAT}/infer")
    yield bad("a header length that is no number", 400, BODY, inference_header_content_length="x")
    yield bad("a header length beyond the body", 400, BODY, inference_header_content_length="99999")
    yield bad("a negative header length", 400, BODY, inference_header_content_length="-1")
    yield bad(
        "a binary tensor that is too short",
        400,
        BINARY_HEADER + FLOATS[:4],
        inference_header_content_length=str(len(BINARY_HEADER)),
    )
    yield bad(
        "raw BYTES for a shape of two dimensions", 400, b"a", f"{WORDS}/infer", inference_header_content_length="0"
    )
    yield bad("a raw tensor of a size that fits no element", 400, b"abc", inference_header_content_length="0")
    yield bad(
        "a raw tensor for a model with two inputs", 501, FLOATS, f"{REPEAT}/infer", inference_header_content_length="0"
    )
    yield bad("a truncated gzip request", 500, gzip.compress(BODY)[:-12], content_encoding="gzip")
    yield bad("a request encoding that Triton does not know", 501, BODY, content_encoding="br")
    yield bad("a version in the place of an action", 404, BODY, f"{IDENTITY}/versions/infer")
    yield bad("a path below inference", 404, BODY, f"{INFER}/x")
    yield bad("a trailing slash after inference", 404, BODY, f"{INFER}/")
    yield bad("capitals in the action", 404, BODY, f"{IDENTITY}/INFER")


def _in_region() -> dict[str, Any]:
    return {
        "name": "INPUT0",
        "shape": [1, 3],
        "datatype": "FP32",
        "parameters": {"shared_memory_region": "nope", "shared_memory_byte_size": 12},
    }


def _repeat_body(values: list[int]) -> bytes:
    size = [len(values)]
    return infer_body(json_input("IN", size, "INT32", values), json_input("DELAY", size, "UINT32", [0] * len(values)))


def _uneven_repeat() -> bytes:
    return infer_body(json_input("IN", [1], "INT32", [1]), json_input("DELAY", [2], "UINT32", [0, 0]))


def generate_cases() -> Iterator[HttpCase]:
    """The generate extension: one JSON object in, one or many out."""
    one, stream = f"{WORDS}/generate", f"{WORDS}/generate_stream"
    text = b'{"INPUT0": "hello"}'
    yield HttpCase("generate", 200, "POST", one, text)
    yield HttpCase("generate of one version", 200, "POST", f"{WORDS}/versions/1/generate", text)
    yield HttpCase("generate with an id", 200, "POST", one, b'{"INPUT0": "hello", "id": "g-1"}')
    yield HttpCase("generate with parameters", 200, "POST", one, b'{"INPUT0": "x", "parameters": {"temperature": 0.5}}')
    yield HttpCase("generate with unknown fields", 200, "POST", one, b'{"INPUT0": "x", "temperature": 0}')
    yield HttpCase("generate, chunked", 200, "POST", one, (text[:4], text[4:]))
    yield HttpCase("generate, gzip request", 400, "POST", one, gzip.compress(text), {"Content-Encoding": "gzip"})
    yield HttpCase("generate, gzip answer asked for", 200, "POST", one, text, {"Accept-Encoding": "gzip"})
    yield HttpCase("a stream of one answer", 200, "POST", stream, text)
    yield HttpCase("a stream of many answers", 200, "POST", f"{REPEAT}/generate_stream", _repeat_fields([4, 2, 0]))
    yield HttpCase("a stream of no answers", 200, "POST", f"{REPEAT}/generate_stream", _repeat_fields([]))
    yield HttpCase(
        "a stream with an error in it", 400, "POST", f"{REPEAT}/generate_stream", b'{"IN": [1], "DELAY": [0, 0]}'
    )
    yield HttpCase("generate of a model that answers once", 200, "POST", f"{REPEAT}/generate", _repeat_fields([7]))
    yield HttpCase("generate of a model that answers often", 200, "POST", f"{REPEAT}/generate", _repeat_fields([1, 2]))
    yield HttpCase("generate of an unknown model", 404, "POST", "/v2/models/nope/generate", text)
    yield HttpCase("a stream of an unknown model", 404, "POST", "/v2/models/nope/generate_stream", text)
    yield HttpCase("a stream of an unknown version", 404, "POST", f"{WORDS}/versions/9/generate_stream", text)
    yield HttpCase("generate without the input", 400, "POST", one, b"{}")
    yield HttpCase("generate with a body that is not JSON", 500, "POST", one, b"{")
    yield HttpCase("generate with an empty body", 500, "POST", one, b"")
    yield HttpCase("a stream with an empty body", 500, "POST", stream, b"")
    yield HttpCase("generate with a number for a string", 500, "POST", one, b'{"INPUT0": 1}')


def _repeat_fields(values: list[int]) -> bytes:
    return json.dumps({"IN": values, "DELAY": [0] * len(values)}).encode()
