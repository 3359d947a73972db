"""What is too much is told no, clearly, and nothing breaks."""

import asyncio
import json
from typing import Any

import aiohttp
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.e2e.cluster import PATIENCE_S, Cluster
from tests.e2e.requests import ROWS, identity

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


def test_a_crowd_of_clients_is_served_or_told_no(cluster: Cluster) -> None:
    """PS 448: 1,000 connections restarted the server."""
    body = json.dumps({"inputs": [{"name": "INPUT0", "shape": [1, 1], "datatype": "FP32", "data": [1]}]})
    url = f"http://{cluster.http}/v2/models/identity/infer"

    async def one(session: aiohttp.ClientSession) -> tuple[int, dict[str, Any]]:
        async with session.post(url, data=body) as answer:
            return answer.status, await answer.json(content_type=None)

    async def crowd() -> list[tuple[int, dict[str, Any]]]:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            return await asyncio.gather(*(one(session) for _ in range(CROWD)))

    answers = asyncio.run(crowd())
    served = [a for status, a in answers if status == 200]
    refused = [(status, a) for status, a in answers if status != 200]
    assert len(served) >= CROWD // 2
    assert all(status == 503 and a["error"] for status, a in refused)
    assert cluster.is_whole()
