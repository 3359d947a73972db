"""Things die under load, and no client sees it."""

import hashlib
import os
import signal
import textwrap
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.load import Loader
from tests.e2e.requests import identity
from tests.patience import PATIENCE_S

CLIENTS = 8
# Until its standard input ends.
PROXYLESS_LOAD = """
    import sys, threading, numpy, tritonclient.grpc as triton
    from concurrent.futures import ThreadPoolExecutor

    client = triton.InferenceServerClient("xds:///identity")
    given = triton.InferInput("INPUT0", [1, 1], "FP32")
    given.set_data_from_numpy(numpy.zeros((1, 1), numpy.float32))
    told = threading.Event()

    def send():
        while not told.is_set():
            client.infer("identity", [given])

    for _ in range(100):
        client.infer("identity", [given])
    with ThreadPoolExecutor(4) as pool:
        senders = [pool.submit(send) for _ in range(4)]
        print("begun", flush=True)
        sys.stdin.read()
        told.set()
        for sender in senders:
            sender.result()
    print("ended")
"""


def gateway_load(cluster: Cluster, protocol: str) -> Loader:
    def make_call() -> Any:
        if protocol == "grpc":
            grpc_client = triton_grpc.InferenceServerClient(cluster.grpc)
            return lambda: identity(triton_grpc, grpc_client)
        http_client = triton_http.InferenceServerClient(cluster.http)
        return lambda: identity(triton_http, http_client)

    return Loader(make_call, CLIENTS)


def shared_memory_regions(cluster: Cluster, backend: str) -> set[str]:
    of_cluster = hashlib.sha256(str(cluster.state_dir).encode()).hexdigest()[:8]
    return {region.name for region in Path("/dev/shm").glob(f"triton-{backend}-{of_cluster}-*")}


def more(load: Loader, answers: int = 200) -> None:
    """Wait for that many more good answers (or for an error, which the test will show)."""
    goal = load.answers + answers
    wait_until(lambda: load.answers >= goal or bool(load.errors))


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_killed_triton_costs_no_client_an_error(cluster: Cluster, protocol: str) -> None:
    """Dynamo PR1424: failures until a lease expired. Down at the first connect error here."""
    with gateway_load(cluster, protocol).running() as load:
        more(load)
        cluster.kill("triton-cpu-0")
        wait_until(lambda: cluster.shares("identity")["cpu-0"] == 0)
        more(load)
    assert load.errors == []
    # One death is one incident, however many requests it broke.
    assert cluster.breaker("cpu-0") in {"Healthy", "Degraded"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_a_triton_that_ends_costs_a_proxyless_client_no_error(cluster: Cluster, number: int) -> None:
    """T6939: a draining Triton says NOT_FOUND, which grpcio cannot retry; so a router has to know before it drains."""
    with cluster.proxyless("-c", textwrap.dedent(PROXYLESS_LOAD)) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "begun\n"
        os.kill(cluster.pid("triton-cpu-0"), number)
        wait_until(lambda: cluster.shares("identity")["cpu-0"] == 0)
        wait_until(lambda: cluster.shares("identity")["cpu-0"] > 0)
        rest, errors = client.communicate(timeout=PATIENCE_S)
    assert (client.returncode, rest) == (0, "ended\n"), errors


def test_a_killed_triton_comes_back_into_the_table_by_itself(cluster: Cluster) -> None:
    """litellm 30192: never recovered."""
    before = shared_memory_regions(cluster, "rocm-0")
    cluster.kill("triton-rocm-0")
    wait_until(lambda: cluster.shares("identity")["rocm-0"] == 0)
    wait_until(lambda: cluster.shares("identity")["rocm-0"] > 0)
    # What the killed one had is gone: a server that dies again and again does not fill the memory.
    after = shared_memory_regions(cluster, "rocm-0")
    assert len(after) == len(before)
    assert not before & after


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_triton_that_is_stopped_costs_no_client_an_error(cluster: Cluster, protocol: str) -> None:
    """T6939, T6230: a draining Triton says NOT_FOUND, and scaling down gave clients 404."""
    with gateway_load(cluster, protocol).running() as load:
        more(load)
        cluster.supervisor("stop", "triton-cpu-0")
        try:
            wait_until(lambda: cluster.shares("identity")["cpu-0"] == 0)
            more(load)
        finally:
            cluster.supervisor("start", "triton-cpu-0")
    assert load.errors == []
    assert cluster.breaker("cpu-0") in {"Healthy", "Degraded"}


def test_a_drained_backend_gets_nothing_until_it_is_undrained(cluster: Cluster) -> None:
    cluster.bimetal("drain", "rocm-0")
    try:
        wait_until(lambda: cluster.shares("identity")["rocm-0"] == 0)
        assert next(b["drained"] for b in cluster.status()["backends"] if b["name"] == "rocm-0")
    finally:
        cluster.bimetal("undrain", "rocm-0")
    wait_until(lambda: cluster.shares("identity")["rocm-0"] > 0)


def test_the_router_dies_and_requests_go_on(cluster: Cluster) -> None:
    with gateway_load(cluster, "grpc").running() as load:
        more(load)
        cluster.supervisor("stop", "router")
        try:
            more(load)
        finally:
            cluster.supervisor("start", "router")
        wait_until(cluster.is_whole)
        more(load)
    assert load.errors == []


def test_a_router_that_comes_back_moves_nothing(cluster: Cluster) -> None:
    wait_until(lambda: cluster.has_equal_shares("identity"))
    shares = {m["name"]: m["shares"] for m in cluster.status()["models"]}
    versions = ["cluster_manager.cds.version", "listener_manager.lds.version", "http.grpc.rds.grpc.version"]
    before = [cluster.envoy_stat(name) for name in versions]
    removed = cluster.envoy_stat("cluster.grpc/identity.membership_change")
    cluster.supervisor("restart", "router")
    wait_until(cluster.is_whole)
    wait_until(lambda: cluster.envoy_stat("control_plane.connected_state") == 1)
    assert {m["name"]: m["shares"] for m in cluster.status()["models"]} == shares
    assert [cluster.envoy_stat(name) for name in versions] == before
    assert cluster.envoy_stat("cluster.grpc/identity.membership_change") == removed


def test_a_hung_triton_is_taken_out_and_taken_back(cluster: Cluster) -> None:
    """litellm 30192, PS 749: SIGSTOP and SIGCONT."""
    pid = cluster.triton_pid("cuda-0")
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: cluster.shares("identity")["cuda-0"] == 0)
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: cluster.shares("identity")["cuda-0"] > 0)
