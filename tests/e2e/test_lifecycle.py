"""upgrade.yml and decommission.yml on a running cluster: who gets requests meanwhile, and where they stop."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.e2e import playbooks
from tests.e2e.cluster import Cluster, wait_until
from tests.e2e.conftest import PORT_OFFSET
from tests.e2e.playbooks import Run, requests_meanwhile

pytestmark = pytest.mark.slow  # two minutes of playbooks on a cluster

Play = Callable[..., Run]
# The order of the inventory, in which upgrade.yml goes.
BACKENDS = ["cuda-0", "rocm-0", "cpu-0"]


@pytest.fixture
def play(cluster: Cluster) -> Play:
    """Runs a playbook of the project for the cluster; extra variables by keyword."""
    return partial(playbooks.play, cluster, PORT_OFFSET)


def pids(cluster: Cluster) -> dict[str, int]:
    return {name: cluster.pid(f"triton-{name}") for name in BACKENDS}


def drained(cluster: Cluster) -> list[str]:
    return sorted(b["name"] for b in cluster.status()["backends"] if b["drained"])


def words(run: Run) -> str:
    return " ".join((run.stdout + run.stderr).split())


def test_an_upgrade_stops_at_the_first_failure_and_goes_on_where_it_stopped_without_a_lost_request(
    cluster: Cluster, play: Play, tmp_path: Path
) -> None:
    before = pids(cluster)
    # A new environment restarts each server; a request that no server can answer fails the first one.
    tuned = tmp_path / "vendor.env"
    tuned.write_text("# Made by the role tuning.\nOMP_NUM_THREADS=3\nNCCL_SOCKET_IFNAME==eth0\n")
    new = {"triton_environment_file": str(tuned), "triton_environment": {"OMP_NUM_THREADS": "2"}}
    with requests_meanwhile(cluster) as errors:
        failed = play("playbooks/upgrade.yml", upgrade_request={"model": "nobody_has_it", "inputs": []}, **new)
        assert failed.returncode != 0
        said = words(failed)
        assert 'cuda-0 was not upgraded: "Ask the server for a result" failed.' in said
        assert "Upgraded before it: none. Untouched: rocm-0, cpu-0. To go on, correct the cause" in said
        stopped = pids(cluster)
        assert [name for name in BACKENDS if stopped[name] != before[name]] == ["cuda-0"]
        assert drained(cluster) == ["cuda-0"]

        done = play("playbooks/upgrade.yml", **new)
        assert done.returncode == 0, done.stdout[-4000:]
    assert errors == []
    after = pids(cluster)
    assert after["cuda-0"] == stopped["cuda-0"]
    assert [name for name in BACKENDS if after[name] != before[name]] == BACKENDS
    served = Path(f"/proc/{cluster.triton_pid('rocm-0')}/environ").read_bytes().split(b"\0")
    assert {b"NCCL_SOCKET_IFNAME==eth0", b"OMP_NUM_THREADS=2"} <= set(served)
    assert drained(cluster) == []


def test_a_decommissioned_host_leaves_the_fleet_and_the_last_one_of_a_model_is_not_taken(
    cluster: Cluster, play: Play
) -> None:
    cluster.bimetal("drain", "cpu-0")
    wait_until(lambda: cluster.shares("qlinear_block").get("rocm-0") == 1.0)
    refused = play("playbooks/decommission.yml", decommission="rocm-0")
    assert refused.returncode != 0
    assert "Without rocm-0 nobody serves qlinear_block: expected another backend" in words(refused)
    assert drained(cluster) == ["cpu-0"]
    cluster.bimetal("undrain", "cpu-0")
    wait_until(lambda: cluster.shares("qlinear_block").get("cpu-0", 0) > 0)

    # The inventory of one machine has a size class for cuda: the router would refuse a fleet without that pool.
    refused = play("playbooks/decommission.yml", decommission="cuda-0")
    assert refused.returncode != 0
    assert "models.identity.large names pool 'cuda', which is not under pools. Correct it" in words(refused)
    assert drained(cluster) == []

    try:
        with requests_meanwhile(cluster) as errors:
            done = play("playbooks/decommission.yml", decommission="rocm-0")
            assert done.returncode == 0, done.stdout[-4000:]
        assert errors == []
        assert "rocm-0 is no member any more. Take it out of the inventory" in words(done)
        assert sorted(b["name"] for b in cluster.status()["backends"]) == ["cpu-0", "cuda-0"]
        assert "triton-rocm-0" not in cluster.supervisor("status")
    finally:
        restored = play("serve.yml")
        wait_until(cluster.is_whole)
    assert restored.returncode == 0, restored.stdout[-4000:]
    # A host that comes back is a new member: nobody has to end the drain of its last day.
    wait_until(lambda: drained(cluster) == [])
