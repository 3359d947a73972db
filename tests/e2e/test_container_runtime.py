"""The same cluster with every service in a container: brought up and down as a user does, on ports of its own."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from bimetal.fleet.file import load_fleet
from tests.e2e.cluster import ROOT, Cluster, wait_until
from tests.e2e.conftest import PORT_OFFSET
from tests.e2e.playbooks import play, requests_meanwhile
from tests.e2e.requests import ROWS, identity
from tests.e2e.test_failover import gateway_load, more
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow  # the images must be there

# Beside the cluster of the other tests.
OFFSET = PORT_OFFSET + 400
LOCK = ROOT / ".cache/images/images.lock.json"
DEMANDED = "BIMETAL_TEST_CONTAINERS"
NEXT = "make images ONLY=cpu && make images ONLY=router, with OFFLINE_BASE=1 where no registry is in reach"


def docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return done.stdout.strip()


def missing() -> str | None:
    """Why the cluster cannot be brought up here; None when it can."""
    try:
        docker("version")
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no Docker engine answers: {error}"
    if not LOCK.exists():
        return f"{LOCK} is not there: {NEXT}"
    entries = json.loads(LOCK.read_text())["images"]
    for name in ("cpu", "router"):
        [entry] = [entry for key, entry in entries.items() if key.startswith(f"{name}:")] or [None]
        if entry is None:
            return f"{LOCK.name} has no {name}: {NEXT}"
        if not docker("images", "--quiet", f"{entry['repository']}:{entry['tag']}"):
            return f"the engine has no {entry['repository']}:{entry['tag']}: {NEXT}"
    return None


class ContainerCluster(Cluster):
    """A cluster whose programs are containers of one label."""

    def containers(self) -> dict[str, str]:
        """Id by program, of those that run."""
        label = f"label=org.bimetal.cluster={self.state_dir}"
        lines = docker("ps", "--filter", label, "--format", "{{.Names}} {{.ID}}").splitlines()
        found = (line.split() for line in lines)
        return {name.rpartition("-")[0]: identifier for name, identifier in found}

    def kill_inside(self, program: str) -> None:
        """SIGKILL the container's own process, as the kernel's OOM killer would."""
        os.kill(int(docker("inspect", "--format", "{{.State.Pid}}", self.containers()[program])), signal.SIGKILL)


def make(target: str, state_dir: Path) -> str:
    words = ["make", target, f"STATE_DIR={state_dir}", f"PORT_OFFSET={OFFSET}", "RUNTIME=container"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{' '.join(words)} failed:\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerCluster]:
    if reason := missing():
        if os.environ.get(DEMANDED):
            pytest.fail(f"{DEMANDED} is set, and {reason}")
        pytest.skip(reason)
    state_dir = tmp_path_factory.mktemp("containers")
    try:
        make("up", state_dir)
        yield ContainerCluster(state_dir, load_fleet(state_dir / "fleet.yaml"))
    finally:
        make("down", state_dir)
    left = docker("ps", "--all", "--quiet", "--filter", f"label=org.bimetal.cluster={state_dir}")
    assert left == "", "containers outlived `make down`"


@pytest.fixture
def whole(containers: ContainerCluster) -> ContainerCluster:
    """The cluster, whole again after the last test."""
    wait_until(containers.is_whole)
    return containers


def test_every_service_is_a_container_and_answers_http_and_grpc_clients_through_the_gateway(
    whole: ContainerCluster,
) -> None:
    assert set(whole.containers()) == {"triton-cuda-0", "triton-rocm-0", "triton-cpu-0", "router", "gateway"}
    with triton_grpc.InferenceServerClient(whole.grpc) as grpc_client:
        np.testing.assert_array_equal(identity(triton_grpc, grpc_client), ROWS)
    with triton_http.InferenceServerClient(whole.http) as http_client:
        np.testing.assert_array_equal(identity(triton_http, http_client), ROWS)


def test_the_images_own_health_checks_pass(whole: ContainerCluster) -> None:
    def healthy() -> bool:
        states = docker("inspect", "--format", "{{.State.Health.Status}}", *whole.containers().values())
        return set(states.split()) == {"healthy"}

    wait_until(healthy)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_killed_triton_costs_no_client_an_error_and_comes_back(whole: ContainerCluster, protocol: str) -> None:
    with gateway_load(whole, protocol).running() as load:
        more(load)
        before = whole.containers()["triton-cpu-0"]
        whole.kill_inside("triton-cpu-0")
        wait_until(lambda: whole.shares("identity")["cpu-0"] == 0)
        more(load)
    assert load.errors == []
    wait_until(lambda: whole.containers().get("triton-cpu-0", before) != before)
    wait_until(lambda: whole.shares("identity")["cpu-0"] > 0)


def test_a_client_of_the_engine_that_is_killed_leaves_no_second_container(whole: ContainerCluster) -> None:
    before = whole.containers()["triton-rocm-0"]
    whole.kill("triton-rocm-0")
    wait_until(lambda: whole.containers().get("triton-rocm-0", before) != before)
    wait_until(whole.is_whole)
    assert len(whole.containers()) == 5


def test_a_second_up_changes_nothing(whole: ContainerCluster) -> None:
    before = whole.containers()
    recap = make("up", whole.state_dir).partition("PLAY RECAP")[2]
    assert recap.count("changed=0") == 4, recap
    assert whole.containers() == before


def test_a_changed_configuration_restarts_one_drained_server_after_the_other_without_an_error(
    whole: ContainerCluster,
) -> None:
    """T6230; and nvidia-docker 1730: a restart is drained."""
    before = whole.containers()
    own = {
        "bimetal_state_dir": str(whole.state_dir),
        "bimetal_port_offset": OFFSET,
        "bimetal_runtime": "container",
        "triton_environment": {"OMP_NUM_THREADS": "1"},
    }
    command = [str(ROOT / ".venv/bin/ansible-playbook"), "ansible/serve.yml", "--extra-vars", json.dumps(own)]
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        # The load has a bound of its own: it begins when there is something to see.
        wait_until(lambda: run.poll() is not None or any(b["drained"] for b in whole.status()["backends"]))
        with gateway_load(whole, "grpc").running() as load:
            output, _ = run.communicate(timeout=600)
    assert run.returncode == 0, output[-6000:]
    assert load.errors == []
    after = whole.containers()
    assert {name for name in before if after[name] != before[name]} == {
        "triton-cuda-0",
        "triton-rocm-0",
        "triton-cpu-0",
    }
    assert not any(backend["drained"] for backend in whole.status()["backends"])


def test_an_upgrade_restarts_one_container_after_the_other_and_loses_no_request(whole: ContainerCluster) -> None:
    before = whole.containers()
    new = {"bimetal_runtime": "container", "triton_environment": {"OMP_NUM_THREADS": "2"}}
    with requests_meanwhile(whole) as errors:
        done = play(whole, OFFSET, "playbooks/upgrade.yml", **new)
    assert done.returncode == 0, done.stdout[-4000:]
    assert errors == []
    after = whole.containers()
    tritons = [f"triton-{backend.name}" for backend in whole.fleet.backends]
    assert all(after[name] != before[name] for name in tritons)
    assert "OMP_NUM_THREADS=2" in docker("inspect", "--format", "{{json .Config.Env}}", after["triton-rocm-0"])


def test_a_decommissioned_host_has_no_container_any_more(whole: ContainerCluster) -> None:
    with requests_meanwhile(whole) as errors:
        done = play(whole, OFFSET, "playbooks/decommission.yml", bimetal_runtime="container", decommission="rocm-0")
    assert done.returncode == 0, done.stdout[-4000:]
    assert errors == []
    assert "triton-rocm-0" not in whole.containers()
    assert sorted(b["name"] for b in whole.status()["backends"]) == ["cpu-0", "cuda-0"]
