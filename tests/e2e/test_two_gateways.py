"""Two real routers with a real Envoy each, before the same Tritons, on one PostgreSQL."""

import json
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc

from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.load import Loader
from tests.e2e.more_gateways import another_gateway
from tests.e2e.requests import identity, tensor
from tests.postgres import Postgres

MODEL = "identity_bytes"
BROKEN_DEVICE = b"""
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        raise pb_utils.TritonModelException("CUDA error: uncorrectable ECC error encountered")
"""


class Pair(NamedTuple):
    """Two gateways and what they share."""

    a: Cluster
    b: Cluster
    postgres: Postgres
    database: str

    def transitions(self, since: int) -> list[str]:
        """What cuda-0's breaker did after that event, oldest first, without the reasons."""
        these = f"kind = 'breaker' and backend = 'cuda-0' and id > {since}"
        sql = f"select split_part(text, ':', 1) from timeline where {these} order by id"
        return self.postgres.query(self.database, sql).splitlines()

    def newest_event(self) -> int:
        return int(self.postgres.query(self.database, "select coalesce(max(id), 0) from timeline"))

    def incidents(self) -> int:
        return int(self.postgres.query(self.database, "select incidents from backend where name = 'cuda-0'"))


@pytest.fixture(scope="module")
def _pair(_cluster: Cluster, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    database = postgres.new_database()
    url = postgres.url(database, password="never-shown")
    folders = [tmp_path_factory.mktemp(name) for name in "ab"]
    for folder in folders:
        (folder / "fleet.yaml").touch(0o600)
    with (
        another_gateway(_cluster, folders[0], 1, store_url=url) as a,
        another_gateway(_cluster, folders[1], 2, store_url=url) as b,
    ):
        yield Pair(a, b, postgres, database)


@pytest.fixture
def pair(_pair: Pair, cluster: Cluster) -> Pair:
    """Both whole and well again after whatever the last test did."""
    assert cluster.is_whole()
    for backend in _pair.a.status()["backends"]:
        if backend["state"] != "Healthy":
            _pair.a.bimetal("clear", backend["name"])
        if backend["drained"]:
            _pair.a.bimetal("undrain", backend["name"])
    wait_until(lambda: all(g.is_whole() and all(g.shares("identity").values()) for g in (_pair.a, _pair.b)))
    return _pair


@contextmanager
def a_broken_device(cluster: Cluster) -> Iterator[None]:
    """The model says on cuda-0 what it would on a GPU whose memory is broken."""
    with triton_grpc.InferenceServerClient(cluster.backend("cuda-0").grpc_address) as triton:
        config = triton.get_model_config(MODEL, as_json=True)["config"]
        config["parameters"]["broken"] = {"string_value": "yes"}  # with an unchanged one Triton keeps what runs
        triton.load_model(MODEL, config=json.dumps(config), files={"file:1/model.py": BROKEN_DEVICE})
        try:
            yield
        finally:
            triton.load_model(MODEL)


def infer_until(gateway: Cluster, condition: Callable[[], bool]) -> None:
    """Send requests through that gateway; each is retried elsewhere, so that the client sees no error."""
    words = tensor(triton_grpc, "INPUT0", np.array([[b"a"]], dtype=np.object_), "BYTES")
    with triton_grpc.InferenceServerClient(gateway.grpc) as client:

        def after_a_request() -> bool:
            client.infer(MODEL, [words])
            return condition()

        wait_until(after_a_request)


def gone(gateway: Cluster) -> bool:
    return gateway.shares("identity")["cuda-0"] == 0


def back(gateway: Cluster) -> bool:
    return gateway.shares("identity")["cuda-0"] > 0


def test_a_fault_seen_through_one_gateway_isolates_at_the_other_and_a_clear_there_frees_it_here(
    pair: Pair, cluster: Cluster
) -> None:
    before = pair.newest_event()
    with a_broken_device(cluster):
        infer_until(pair.a, lambda: pair.a.breaker("cuda-0") == "Faulted")
        wait_until(lambda: gone(pair.b))
        assert pair.b.breaker("cuda-0") == "Faulted"
        assert "uncorrectable ECC" in next(b["reason"] for b in pair.b.status()["backends"] if b["name"] == "cuda-0")
        pair.b.bimetal("clear", "cuda-0")
        wait_until(lambda: back(pair.a))
    assert pair.transitions(before) == ["Healthy → Faulted", "Faulted → Healthy"]


def test_a_drain_at_one_gateway_drains_at_the_other(pair: Pair) -> None:
    pair.a.bimetal("drain", "cuda-0")
    wait_until(lambda: gone(pair.b))
    pair.b.bimetal("undrain", "cuda-0")
    wait_until(lambda: back(pair.a))


def gateway_load(gateway: Cluster) -> Loader:
    def make_call() -> Any:
        client = triton_grpc.InferenceServerClient(gateway.grpc)
        return lambda: identity(triton_grpc, client)

    return Loader(make_call, clients=4)


def more(*loads: Loader, answers: int = 200) -> None:
    """Wait for that many more good answers of each (or for an error, which the test will show)."""
    goals = [load.answers + answers for load in loads]
    wait_until(lambda: all(load.answers >= goal or load.errors for load, goal in zip(loads, goals, strict=True)))


def test_a_triton_that_dies_under_the_load_of_both_is_one_incident_for_both(pair: Pair, cluster: Cluster) -> None:
    """litellm 871: each thread had its own cool-downs."""
    before, incidents = pair.newest_event(), pair.incidents()
    with gateway_load(pair.a).running() as one, gateway_load(pair.b).running() as other:
        more(one, other)
        cluster.kill("triton-cuda-0")
        wait_until(lambda: gone(pair.a) and gone(pair.b))
        wait_until(lambda: back(pair.a) and back(pair.b))
        more(one, other)
    assert one.errors == other.errors == []
    assert pair.incidents() == incidents + 1
    assert pair.transitions(before).count("Healthy → Degraded") == 1


@pytest.mark.parametrize("how", ["stopped", "hung"])
def test_a_database_that_is_gone_costs_no_request_and_both_agree_when_it_is_back(pair: Pair, how: str) -> None:
    @contextmanager
    def stopped() -> Iterator[None]:
        pair.postgres.stop()
        try:
            yield
        finally:
            pair.postgres.start()

    with gateway_load(pair.a).running() as one, gateway_load(pair.b).running() as other:
        with stopped() if how == "stopped" else pair.postgres.hung():
            wait_until(lambda: not any(g.status()["store"]["ok"] for g in (pair.a, pair.b)))
            assert "never-shown" not in json.dumps(pair.a.status())
            with pytest.raises(urllib.error.HTTPError, match="503"):
                pair.a.get(pair.a.fleet.router.http_port, "/admin/events")
            pair.a.bimetal("drain", "cuda-0")
            wait_until(lambda: gone(pair.a))
            more(one, other)
            assert back(pair.b), "how could it know"
        wait_until(lambda: gone(pair.b))
        wait_until(lambda: pair.a.status()["store"]["ok"] and pair.b.status()["store"]["ok"])
        more(one, other)
    assert one.errors == other.errors == []


def test_the_password_of_the_store_is_in_no_log_no_answer_and_no_process_arguments(pair: Pair) -> None:
    for gateway in (pair.a, pair.b):
        shown = [
            gateway.get(gateway.fleet.router.http_port, path) for path in ("/admin/status", "/admin/events", "/metrics")
        ]
        shown += [(gateway.state_dir / f"{program}.log").read_bytes() for program in ("run", "gateway")]
        shown += [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()]
        assert b"never-shown" not in b"".join(shown)
        assert b"127.0.0.1" in shown[3], "the log of a router whose store was down names the store"
