"""The four ways to a Triton: direct, proxyless, gateway, plain Envoy."""

import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2

from bimetal.errors import BimetalError
from bimetal.xds.names import INFER_PATH

CLIENTS = 16
_REQUESTS_A_ROUND = 300
_SECONDS_A_ROUND = 3


def median_latency_us(*urls: str) -> Callable[[], float]:
    """Measures one request at a time, to each address in turn: the median of a round, in microseconds."""
    clients: list[Any] = [triton.InferenceServerClient(url) for url in urls]
    given = triton.InferInput("INPUT0", [1, 4], "FP32")
    given.set_data_from_numpy(np.zeros((1, 4), np.float32))

    def measure() -> float:
        taken = []
        for number in range(_REQUESTS_A_ROUND):
            client = clients[number % len(clients)]
            start = time.perf_counter()
            client.infer("identity", [given])
            taken.append(time.perf_counter() - start)
        return statistics.median(taken) * 1e6

    measure()  # connections, and xDS, are made on the first request
    return measure


def require_h2load() -> None:
    """Raises BimetalError without the program that makes the load."""
    if shutil.which("h2load") is None:
        raise BimetalError("h2load is missing; it makes the load.", "Install it: apt-get install nghttp2-client")


def throughput(port: int, body: Path) -> Callable[[], float]:
    """Measures 16 clients with one request each at a time, in requests/s. Raises BimetalError."""
    command = [
        "h2load", "--clients", str(CLIENTS), "--max-concurrent-streams", "1", "--duration", str(_SECONDS_A_ROUND),
        "--warm-up-time", "1", "--header", "content-type: application/grpc", "--header", "te: trailers",
        "--data", str(body), f"http://127.0.0.1:{port}{INFER_PATH}",
    ]  # fmt: skip

    def measure() -> float:
        said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
        rate = re.search(r"finished in [\d.]+s, ([\d.]+) req/s", said)
        if rate is None or "0 3xx, 0 4xx, 0 5xx" not in said:
            raise BimetalError(f"h2load against port {port} did not get only good answers:\n{said}")
        return float(rate[1])

    return measure


def write_request(path: Path) -> Path:
    """One ModelInferRequest for the identity model as a gRPC frame in a file."""
    request = service_pb2.ModelInferRequest(model_name="identity")
    given = request.inputs.add()
    given.name, given.datatype = "INPUT0", "FP32"
    given.shape.extend([1, 4])
    request.raw_input_contents.append(bytes(16))
    message = request.SerializeToString()
    path.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)
    return path
