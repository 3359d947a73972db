"""The three ways to one answer: a Triton itself, the gateway, and (gRPC) a proxyless client."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest

from tests.e2e.cluster import Cluster, wait_until
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
    answers: dict[str, Any] = json.loads(whole.run_proxyless("-m", "tests.e2e.conformance.proxyless"))
    return answers
