"""Triton's own load generator runs against the gateway as against a Triton, and its requests are spread."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.perf_analyzer import NoPerfAnalyzerError, environment, program
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow  # fetches perf_analyzer, and a root with the C library that it wants

REQUESTS = 200
IDENTITY = "-m identity --shape INPUT0:8"
SEQUENCES = "-m sequence_sum --sequence-length 5"
RUNS = {
    "HTTP": f"-i http {IDENTITY}",
    "HTTP, JSON tensors": f"-i http --input-tensor-format json --output-tensor-format json {IDENTITY}",
    "HTTP, sequences": f"-i http {SEQUENCES}",
    "gRPC": f"-i grpc {IDENTITY}",
    "gRPC, asynchronous": f"-i grpc --async {IDENTITY}",
    "gRPC, gzip": f"-i grpc --grpc-compression-algorithm gzip {IDENTITY}",
    "gRPC, sequences": f"-i grpc {SEQUENCES}",
    "gRPC streams": f"-i grpc --streaming {IDENTITY}",
    "gRPC streams, sequences": f"-i grpc --streaming {SEQUENCES}",
}


@pytest.fixture(scope="module")
def perf_analyzer() -> Path:
    """The program; without it these tests are left out, but not in CI."""
    try:
        return program()
    except NoPerfAnalyzerError as error:
        if "CI" in os.environ:
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS)
def test_perf_analyzer_measures_the_gateway_as_it_would_a_triton(
    cluster: Cluster, perf_analyzer: Path, options: str
) -> None:
    words = options.split()
    model, address = words[words.index("-m") + 1], cluster.http if "http" in words else cluster.grpc
    before = cluster.served(model)
    bounded = ["--request-count", str(REQUESTS), "--concurrency-range", "4", "-u", address]
    done = subprocess.run(
        [perf_analyzer, *words, *bounded],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_S,  # past the gateway's own deadline of 300 s: a request that is lost gets an error first
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"Client:\s+Request count: {REQUESTS}\b", done.stdout), done.stdout
    # Triton answers first and counts afterwards.
    wait_until(lambda: sum(cluster.served_since(before, model).values()) >= REQUESTS)
    taken = cluster.served_since(before, model)
    assert sum(count > 0 for count in taken.values()) > 1, taken
