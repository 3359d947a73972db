"""What is too much is told no, clearly, and nothing breaks."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.more_gateways import another_gateway
from tests.e2e.requests import ROWS, identity, tensor
from tests.patience import PATIENCE_S

CROWD = 1000


def test_a_request_above_the_limit_is_refused_with_the_limit(
    cluster: Cluster, grpc_client: Any, http_client: Any
) -> None:
    """dali_backend 241: over the limit of a message; a clear error, no trip, no retry."""
    limit = cluster.fleet.gateway.max_request_bytes
    large = np.zeros((1, limit // 4 + 1), np.float32)
    for module, client, status in (
        (triton_grpc, grpc_client, "StatusCode.RESOURCE_EXHAUSTED"),
        (triton_http, http_client, "413"),
    ):
        with pytest.raises(InferenceServerException, match=f"larger than {limit} bytes") as caught:
            identity(module, client, large)
        assert caught.value.status() == status
    assert {b["state"] for b in cluster.status()["backends"]} == {"Healthy"}
    np.testing.assert_array_equal(identity(triton_grpc, grpc_client), ROWS)


def test_a_crowd_of_clients_is_served_or_told_no_and_takes_little_memory(cluster: Cluster) -> None:
    """PS 448: 1,000 connections restarted the server."""
    body = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [1]}]})
    url = f"http://{cluster.http}/v2/models/identity/infer"
    gateway = cluster.pid("gateway")

    async def one(session: aiohttp.ClientSession) -> tuple[int, dict[str, Any]]:
        async with session.post(url, data=body) as answer:
            return answer.status, await answer.json(content_type=None)

    async def crowd() -> tuple[list[tuple[int, dict[str, Any]]], int]:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            asking, peak = asyncio.gather(*(one(session) for _ in range(CROWD))), 0
            while not asking.done():
                peak = max(peak, await asyncio.to_thread(heap_bytes, cluster))
                await asyncio.sleep(0.02)
            return await asking, peak

    before = heap_bytes(cluster)
    answers, peak = asyncio.run(crowd())
    served = [a for status, a in answers if status == 200]
    refused = [(status, a) for status, a in answers if status != 200]
    assert len(served) >= CROWD // 2
    assert all(status == 503 and a["error"] for status, a in refused)
    assert peak - before < CROWD * 2**17
    assert cluster.pid("gateway") == gateway
    assert cluster.is_whole()


def test_a_gateway_that_holds_too_much_says_so_until_it_holds_less(cluster: Cluster, tmp_path: Path) -> None:
    """PS 448: memory is bounded, and who comes too late is told no, in words."""
    limit = 2**27
    refusal = f"the gateway holds close to {limit} bytes, its max_memory_bytes: try again later"
    large = [
        tensor(triton_grpc, "INPUT0", np.zeros((1, 2**20), np.float32)),
        tensor(triton_grpc, "DELAY_MS", np.full((1, 1), 60_000, np.int32), "INT32"),
    ]
    with (
        another_gateway(cluster, tmp_path, gateway={"max_memory_bytes": limit}) as second,
        triton_grpc.InferenceServerClient(second.grpc) as client,
        triton_http.InferenceServerClient(second.http) as other,
    ):

        def refused() -> bool:
            try:
                identity(triton_http, other)
            except InferenceServerException as error:
                return (error.status(), error.message()) == ("503", refusal)
            return False

        held = []
        while not refused():
            held.append(client.async_infer("slow_identity", large, lambda *_: None))
            active = len(held)
            wait_until(lambda active=active: in_flight(second) >= active or refused())  # type: ignore[misc]  # mypy infers no lambda with a default
            assert active < 64, "64 requests of 4 MiB fit into 128 MiB"
        with pytest.raises(InferenceServerException, match=refusal) as caught:
            identity(triton_grpc, client)
        assert caught.value.status() == "StatusCode.UNAVAILABLE"
        for call in held:
            call.cancel()
        wait_until(lambda: not refused())
        assert {b["state"] for b in second.status()["backends"]} == {"Healthy"}


def in_flight(cluster: Cluster) -> int:
    """Requests for `slow_identity` that the gateway has with any Triton."""
    return cluster.envoy_stat("cluster.grpc/slow_identity.upstream_rq_active")


def heap_bytes(cluster: Cluster) -> int:
    """What the gateway holds now."""
    return int(json.loads(cluster.get(cluster.fleet.gateway.admin_port, "/memory"))["allocated"])
