"""fleet.yaml as the router role renders it from an inventory of real hosts."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bimetal.fleet.file import load_fleet
from bimetal.fleet.schema import Fleet

STORE = "postgresql+psycopg://bimetal@db.example.org/bimetal?sslmode=verify-full&sslrootcert=/etc/bimetal/ca.crt"


@pytest.fixture(scope="module")
def fleet(
    ansible_playbook: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> Fleet:
    state_dir: Path = tmp_path_factory.mktemp("fleet")
    result = ansible_playbook(
        "tests/roles/playbooks/render.yml",
        "--inventory=ansible/inventories/example",
        '--extra-vars={"router_fleet_sections": {"breaker": {"isolate_after": 5}}}',
        '--extra-vars={"router_gateway_options": {"workers": 4}}',
        f"--extra-vars=router_store_url={STORE}",
        bimetal_state_dir=state_dir,
    )
    assert result.returncode == 0, result.stdout
    return load_fleet(state_dir / "fleet.yaml")


def test_every_triton_of_the_inventory_is_a_backend_of_its_pool(fleet: Fleet) -> None:
    assert {backend.name: (backend.pool, backend.grpc_address) for backend in fleet.backends} == {
        "cuda-a100-0": ("cuda", "192.0.2.10:8001"),
        "cuda-a100-1": ("cuda", "192.0.2.11:8001"),
        "rocm-mi300x-0": ("rocm", "192.0.2.20:8001"),
        "cpu-0": ("cpu", "192.0.2.30:8001"),
    }


def test_a_pool_has_the_vendor_the_provider_and_the_repository_of_its_hosts(fleet: Fleet) -> None:
    rocm = fleet.pools["rocm"]
    assert (rocm.vendor, rocm.provider, rocm.repository) == (
        "amd",
        "MIGraphXExecutionProvider",
        Path("/srv/bimetal/model_repo/rocm"),
    )


def test_devices_and_what_really_computes_come_from_the_inventory(fleet: Fleet) -> None:
    assert fleet.backend("cuda-a100-0").bandwidth_gbs == 2039
    assert fleet.backend("cpu-0").compute == "cpu"


def test_the_router_learns_where_the_temperatures_of_gpu_hosts_are(fleet: Fleet) -> None:
    assert fleet.backend("rocm-mi300x-0").gpu_metrics_url == "http://192.0.2.20:9100/metrics"
    assert fleet.backend("cpu-0").gpu_metrics_url is None


def test_the_gateway_binds_its_hosts_address_and_the_router_loopback(fleet: Fleet) -> None:
    assert (fleet.gateway.host, fleet.gateway.http_port) == ("192.0.2.1", 8000)
    assert fleet.router.host == "127.0.0.1"


def test_the_store_that_several_gateways_share_reaches_the_router(fleet: Fleet) -> None:
    assert fleet.database_url == STORE


def test_extra_sections_and_gateway_options_reach_the_router(fleet: Fleet) -> None:
    assert fleet.breaker.isolate_after == 5
    assert fleet.gateway.workers == 4


def test_the_security_section_reaches_the_router_as_it_stands_in_the_inventory(fleet: Fleet) -> None:
    assert fleet.security.gateway.api_keys == Path("/etc/bimetal/api-keys")
    assert fleet.security.admin_token == Path("/etc/bimetal/admin-token")
