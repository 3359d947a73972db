"""Live sequences stay on the backend that holds their state, over every road that a request can take."""

import json
import os
import queue
import signal
import textwrap
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.requests import tensor
from tests.patience import PATIENCE_S

LENGTH = 6
Send = Callable[[int | str, int, bool, bool], int]
"""(sequence, value, start, end) → running sum."""


def sender(module: Any, client: Any, **options: Any) -> Send:
    def send(sequence: int | str, value: int, start: bool, end: bool) -> int:
        given = tensor(module, "VALUE", np.array([[value]], np.int32), "INT32")
        answer = client.infer(
            "sequence_sum", [given], sequence_id=sequence, sequence_start=start, sequence_end=end, **options
        )
        return int(answer.as_numpy("SUM")[0, 0])

    return send


def run_interleaved(send: Send, sequences: list[int | str]) -> dict[int | str, list[int]]:
    """The sums of sequences whose requests take turns."""
    sums: dict[int | str, list[int]] = {s: [] for s in sequences}
    for step in range(1, LENGTH + 1):
        for sequence in sequences:
            sums[sequence].append(send(sequence, step, step == 1, step == LENGTH))
    return sums


RIGHT = [1, 3, 6, 10, 15, 21]


@pytest.mark.parametrize("options", [{}, {"compression_algorithm": "gzip"}], ids=["plain", "gzip"])
def test_unary_grpc(grpc_client: Any, options: dict[str, str]) -> None:
    """T3103, T3577, T3160: a sequence split between servers."""
    sums = run_interleaved(sender(triton_grpc, grpc_client, **options), list(range(1001, 1013)))
    assert all(found == RIGHT for found in sums.values()), sums


@pytest.mark.parametrize("options", [{}, {"request_compression_algorithm": "gzip"}], ids=["plain", "gzip"])
def test_http(http_client: Any, options: dict[str, str]) -> None:
    sums = run_interleaved(sender(triton_http, http_client, **options), list(range(2001, 2013)))
    assert all(found == RIGHT for found in sums.values()), sums


def test_one_sequence_over_http_and_grpc_in_turn(http_client: Any, grpc_client: Any) -> None:
    roads = [sender(triton_http, http_client), sender(triton_grpc, grpc_client)]
    for sequence in range(3001, 3009):
        sums = [roads[step % 2](sequence, step, step == 1, step == LENGTH) for step in range(1, LENGTH + 1)]
        assert sums == RIGHT


def test_the_sequences_of_a_model_are_spread_over_its_backends(cluster: Cluster, grpc_client: Any) -> None:
    before = cluster.served("sequence_sum")
    run_interleaved(sender(triton_grpc, grpc_client), list(range(4001, 4025)))
    taken = cluster.served_since(before, "sequence_sum")
    assert sum(taken.values()) == 24 * LENGTH
    assert all(taken.values()), taken


def test_a_stream_carries_a_sequence(grpc_client: Any) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    for sequence in range(5001, 5007):
        grpc_client.start_stream(lambda result, error: answers.put((result, error)))
        for step in range(1, LENGTH + 1):
            grpc_client.async_stream_infer(
                "sequence_sum",
                [tensor(triton_grpc, "VALUE", np.array([[step]], np.int32), "INT32")],
                sequence_id=sequence,
                sequence_start=step == 1,
                sequence_end=step == LENGTH,
            )
        sums = []
        for _ in range(LENGTH):
            result, error = answers.get(timeout=PATIENCE_S)
            assert error is None
            sums.append(int(result.as_numpy("SUM")[0, 0]))
        grpc_client.stop_stream()
        assert sums == RIGHT


PROXYLESS = """
    import numpy, tritonclient.grpc as triton
    client = triton.InferenceServerClient("xds:///sequence_sum")
    for sequence in range(6001, 6013):
        total = 0
        for step in range(1, 7):
            given = triton.InferInput("VALUE", [1, 1], "INT32")
            given.set_data_from_numpy(numpy.array([[step]], numpy.int32))
            answer = client.infer("sequence_sum", [given], sequence_id=sequence, sequence_start=step == 1,
                                  sequence_end=step == 6)
            total += step
            assert int(answer.as_numpy("SUM")[0, 0]) == total
"""


def test_a_proxyless_client_stays_on_one_backend_with_its_sequences(cluster: Cluster) -> None:
    cluster.run_proxyless("-c", textwrap.dedent(PROXYLESS))


def home_of(cluster: Cluster, send: Send, sequence: int) -> str:
    """Starts a sequence, and says which backend has it."""
    before = cluster.served("sequence_sum")
    send(sequence, 1, True, False)
    # Triton answers first and counts afterwards.
    wait_until(lambda: any(cluster.served_since(before, "sequence_sum").values()))
    return next(name for name, count in cluster.served_since(before, "sequence_sum").items() if count)


def test_the_death_of_its_backend_is_surfaced_to_a_sequence_and_not_retried(cluster: Cluster, grpc_client: Any) -> None:
    """T3103: start on A, kill A."""
    send = sender(triton_grpc, grpc_client)
    home = home_of(cluster, send, 7001)
    cluster.kill(f"triton-{home}")
    wait_until(lambda: cluster.shares("sequence_sum")[home] == 0)
    with pytest.raises(InferenceServerException, match="sequence"):
        send(7001, 2, False, False)


def starts_elsewhere(client: Any, sequence: int) -> bool:
    """Whether the sequence could be started: the gateway may hear a moment after the router that its home is out."""
    try:
        return sender(triton_grpc, client, client_timeout=1)(sequence, 5, True, False) == 5
    except InferenceServerException as error:
        if error.status() != "StatusCode.DEADLINE_EXCEEDED":
            raise
        return False


def test_a_sequence_starts_again_elsewhere_while_its_backend_is_out(cluster: Cluster, grpc_client: Any) -> None:
    """Dynamo PR11646: affinity pinned a dead server. Liveness beats it."""
    send = sender(triton_grpc, grpc_client)
    home = home_of(cluster, send, 7002)
    os.kill(pid := cluster.triton_pid(home), signal.SIGSTOP)
    try:
        wait_until(lambda: cluster.shares("sequence_sum")[home] == 0)
        wait_until(lambda: starts_elsewhere(grpc_client, 7002))
        assert [send(7002, value, False, value == 7) for value in (6, 7)] == [11, 18]
    finally:
        os.kill(pid, signal.SIGCONT)


def test_plain_json_names_a_sequence_in_its_parameters(cluster: Cluster) -> None:
    sums = []
    for step in range(1, LENGTH + 1):
        body = {
            "inputs": [{"name": "VALUE", "shape": [1, 1], "datatype": "INT32", "data": [step]}],
            "parameters": {"sequence_id": "a word", "sequence_start": step == 1, "sequence_end": step == LENGTH},
        }
        url = f"http://{cluster.http}/v2/models/sequence_sum/infer"
        request = urllib.request.Request(url, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            sums.append(json.load(answer)["outputs"][0]["data"][0])
    assert sums == RIGHT
