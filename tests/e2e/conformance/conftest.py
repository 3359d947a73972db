"""The three ways to one answer: a Triton itself, the gateway, and (gRPC) a proxyless client."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest

from tests.e2e.cluster import PATIENCE_S, ROOT, Cluster, wait_until
from tests.e2e.conformance.grpc_case import UNLIMITED


@pytest.fixture(scope="module")
def whole(_cluster: Cluster) -> Cluster:
    """The cluster, with every backend and model ready. Cases change nothing, so it is looked at once."""
    wait_until(_cluster.is_whole)
    return _cluster


@pytest.fixture(scope="module")
def tritons_http(whole: Cluster) -> list[str]:
    """`host:port` of every Triton. Pools render some settings differently, so any of them is a reference."""
    return [backend.http_address for backend in whole.fleet.backends]


@pytest.fixture(scope="module")
def gateway_channel(whole: Cluster) -> Iterator[grpc.Channel]:
    """A channel to the gateway."""
    with grpc.insecure_channel(whole.grpc, UNLIMITED) as channel:
        yield channel


@pytest.fixture(scope="module")
def triton_channels(whole: Cluster) -> Iterator[list[grpc.Channel]]:
    """A channel to every Triton."""
    with ExitStack() as stack:
        addresses = [backend.grpc_address for backend in whole.fleet.backends]
        yield [stack.enter_context(grpc.insecure_channel(address, UNLIMITED)) for address in addresses]


@pytest.fixture(scope="module")
def proxyless_answers(whole: Cluster) -> dict[str, Any]:
    """What a proxyless client got, by the sentence of the case."""
    whole.bimetal("client-bootstrap")
    environment = {"GRPC_XDS_BOOTSTRAP": str(whole.state_dir / "client-bootstrap.json"), "PATH": "/usr/bin:/bin"}
    command = [str(ROOT / ".venv/bin/python"), "-m", "tests.e2e.conformance.proxyless"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers
