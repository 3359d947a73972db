"""The built images as containers: their own self-test, the project's models, and the gateway in front."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import yaml

from images import check, sbom
from images.engine import Engine
from images.matrix import load

ALL = ["cpu:bookworm", "cuda:11.8-debian", "rocm:5.7-debian", "router:bookworm"]
POOLS = {"cpu": "cpu:bookworm", "cuda": "cuda:11.8-debian", "rocm": "rocm:5.7-debian"}
# onnxruntime 1.18.1, the last one for CUDA 11, ends at opset 21; RotaryEmbedding is of opset 23.
NOT_SERVED = {"cuda": {"rope_attention"}}
ALARM = re.compile(r"^[WE]\d{4} |\[(warning|error|critical)\]|Traceback|level=(warning|error|critical)")
KNOWN = re.compile(
    # What Triton says where no NVIDIA driver is, whatever it was started with.
    r"CudaDriverHelper has not been initialized|pinned system memory"
    # Envoy, about an API that the router uses on purpose (router/xds/listeners.py).
    r"|allow_custom_methods' is marked as work-in-progress"
)
READY_WITHIN_S = 60
VALUES = np.array([[1.0, 2.0, 3.0]], dtype=np.float32)

Start = Callable[..., Any]
Image = Callable[[str], str]


def alarming(log: str) -> list[str]:
    return [line for line in log.splitlines() if ALARM.search(line) and not KNOWN.search(line)]


def echoed(module: Any, address: str) -> Any:
    """What the model `identity` answers at an address."""
    tensor = module.InferInput("INPUT0", list(VALUES.shape), "FP32")
    tensor.set_data_from_numpy(VALUES)
    client = module.InferenceServerClient(address)
    try:
        return client.infer("identity", [tensor]).as_numpy("OUTPUT0")
    finally:
        client.close()


@pytest.mark.parametrize("name", ALL)
def test_an_image_passes_its_self_test_without_network_or_rights(engine: Engine, image: Image, name: str) -> None:
    kind = load().images[name.partition(":")[0]].kind
    output = check.self_test(engine, image(name), kind)
    assert "device: no device: CPU" in output or "by the driver" in output or "by HIP" in output
    assert output.rstrip().endswith("every check passed")


@pytest.mark.parametrize("pool", POOLS)
def test_a_pools_image_serves_the_projects_models(image: Image, start: Start, repositories: Path, pool: str) -> None:
    models = {path.name: {"bind": f"/models/{path.name}", "mode": "ro"} for path in (repositories / pool).iterdir()}
    served = models.keys() - NOT_SERVED.get(pool, set())
    volumes = {str(repositories / pool / name): models[name] for name in served}
    running = start(image(POOLS[pool]), ports=[8000, 8001], volumes=volumes)
    running.wait_until_healthy()
    http = triton_http.InferenceServerClient(running.address(8000))
    states = {model["name"]: model["state"] for model in http.get_model_repository_index()}
    http.close()
    assert states == dict.fromkeys(served, "READY")
    for module, port in ((triton_http, 8000), (triton_grpc, 8001)):
        np.testing.assert_array_equal(echoed(module, running.address(port)), VALUES)
    assert running.stop() == 0
    assert alarming(running.log()) == []


def test_the_router_image_routes_to_the_cpu_image(
    image: Image, network: Any, start: Start, repositories: Path, tmp_path: Path
) -> None:
    triton = start(
        image("cpu:bookworm"),
        network=network.name,
        volumes={str(repositories / "cpu"): {"bind": "/models", "mode": "ro"}},
    )
    triton.wait_until_healthy()
    triton.container.reload()
    address = triton.container.attrs["NetworkSettings"]["Networks"][network.name]["IPAddress"]
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(yaml.safe_dump(fleet_of(address)))
    fleet.chmod(0o644)
    router = start(
        image("router:bookworm"),
        network=network.name,
        ports=[8000, 8001],
        volumes={
            str(fleet): {"bind": "/etc/bimetal/fleet.yaml", "mode": "ro"},
            str(repositories): {"bind": "/models", "mode": "ro"},
        },
    )
    router.wait_until_healthy()
    wait_until_ready(router.address(8000))
    for module, port in ((triton_http, 8000), (triton_grpc, 8001)):
        np.testing.assert_array_equal(echoed(module, router.address(port)), VALUES)
    # Envoy warns about being ended, so its log is read before.
    [warned] = alarming(router.log())
    assert "security.insecure is set" in warned
    assert router.stop() == 0


def fleet_of(triton: str) -> dict[str, Any]:
    return {
        "version": 1,
        # The container's address is reachable, its published port on loopback only.
        "security": {"insecure": True},
        "state_dir": "/var/lib/bimetal",
        "gateway": {"host": "0.0.0.0", "http_port": 8000, "grpc_port": 8001, "admin_port": 18901},
        "router": {"host": "127.0.0.1", "http_port": 8002, "xds_port": 18900},
        "pools": {"cpu": {"vendor": "cpu", "provider": "CPUExecutionProvider", "repository": "/models/cpu"}},
        "backends": [
            {
                "name": "cpu-0",
                "pool": "cpu",
                "host": triton,
                "http_port": 8000,
                "grpc_port": 8001,
                "metrics_port": 8002,
                "compute": "cpu",
                "devices": [],
            }
        ],
    }


def wait_until_ready(address: str) -> None:
    """The router has to have probed the backend before the gateway has somewhere to send to."""
    client = triton_http.InferenceServerClient(address)
    deadline = time.monotonic() + READY_WITHIN_S
    while not client.is_model_ready("identity"):
        assert time.monotonic() < deadline, "the gateway has no home for identity"
        time.sleep(0.1)
    client.close()


def test_a_container_without_a_model_repository_says_what_to_mount(image: Image, start: Start) -> None:
    running = start(image("cpu:bookworm"), environment={"BIMETAL_MODEL_REPOSITORY": "/nowhere"})
    assert running.container.wait()["StatusCode"] == 2
    assert running.log().startswith("error: /nowhere is no directory in this container, expected the model repository.")
    assert running.log().count("\n") == 1


def test_a_router_without_a_fleet_file_says_what_to_mount(image: Image, start: Start) -> None:
    running = start(image("router:bookworm"))
    assert running.container.wait()["StatusCode"] == 2
    assert running.log().startswith("error: /etc/bimetal/fleet.yaml cannot be read in this container")


@pytest.mark.parametrize("name", ALL)
def test_an_image_lists_what_it_has_installed(engine: Engine, image: Image, name: str) -> None:
    pytest.importorskip("cyclonedx", reason="the extra 'images' is not installed")
    found = sbom.contents(engine, image(name))
    names = {(package.kind, package.name) for package in found.packages}
    assert {("deb", "libc6"), ("pypi", "numpy")} <= names
    assert sbom.count(sbom.document("bimetal/x", "1", found)) == len(found.packages)
