"""What the router's image promises: one gateway in front of the Tritons of every vendor."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import yaml

from bimetal.images.matrix import Row
from tests.images.docker.containers import Image, Running, Start
from tests.images.docker.levels import alarming, on_every_image_of, rows
from tests.images.docker.test_triton import POOLS, VALUES, echoed
from tests.patience import PATIENCE_S


@on_every_image_of("router")
def test_requests_through_the_gateway_reach_the_tritons_of_every_vendor(
    image: Image, start: Start, repositories: Path, tmp_path: Path, row: Row
) -> None:
    network = start.network()
    identity = {str(repositories / "cpu/identity"): {"bind": "/models/identity", "mode": "ro"}}
    tritons = [each for each in rows() if "triton" in each.levels]
    running = [(each, start(image(each), network=network, ports=[8002], volumes=identity)) for each in tritons]
    for _, triton in running:
        triton.wait_until_healthy()
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(yaml.safe_dump(fleet_of([(each, address_in(network, triton)) for each, triton in running])))
    fleet.chmod(0o644)
    router = start(
        image(row),
        network=network,
        ports=[8000, 8001],
        volumes={
            str(fleet): {"bind": "/etc/bimetal/fleet.yaml", "mode": "ro"},
            str(repositories): {"bind": "/models", "mode": "ro"},
        },
    )
    router.wait_until_healthy()
    wait_until_all_serve(router.address(8000), [triton for _, triton in running])
    for module, port in ((triton_http, 8000), (triton_grpc, 8001)):
        np.testing.assert_array_equal(echoed(module, router.address(port)), VALUES)
    # Envoy warns about being ended, so its log is read before.
    [warned] = alarming(router.log())
    assert "security.insecure is set" in warned
    assert router.stop() == 0


def address_in(network: str, running: Running) -> str:
    running.container.reload()
    address: str = running.container.attrs["NetworkSettings"]["Networks"][network]["IPAddress"]
    return address


def fleet_of(tritons: list[tuple[Row, str]]) -> dict[str, Any]:
    return {
        "version": 1,
        # The container's address is reachable, its published port on loopback only.
        "security": {"insecure": True},
        "state_dir": "/var/lib/bimetal",
        "gateway": {"host": "0.0.0.0", "http_port": 8000, "grpc_port": 8001, "admin_port": 18901},
        "router": {"host": "127.0.0.1", "http_port": 8002, "xds_port": 18900},
        "pools": {
            POOLS[row.image.vendor]: {
                "vendor": row.image.vendor,
                "provider": "CPUExecutionProvider",
                "repository": f"/models/{POOLS[row.image.vendor]}",
            }
            for row, _ in tritons
        },
        "backends": [
            {
                "name": f"{row.name}-0",
                "pool": POOLS[row.image.vendor],
                "host": address,
                "http_port": 8000,
                "grpc_port": 8001,
                "metrics_port": 8002,
                "compute": "cpu",
                "devices": [],
            }
            for row, address in tritons
        ],
    }


def wait_until_all_serve(gateway: str, tritons: list[Running]) -> None:
    """Requests through the gateway until each Triton has counted one: the router has to have probed them before."""
    client = triton_http.InferenceServerClient(gateway)
    deadline = time.monotonic() + PATIENCE_S
    while not client.is_model_ready("identity"):
        assert time.monotonic() < deadline, "the gateway has no home for identity"
        time.sleep(0.1)
    client.close()
    while not all(served(triton) for triton in tritons):
        assert time.monotonic() < deadline, f"requests by Triton: {[served(triton) for triton in tritons]}"
        echoed(triton_http, gateway)


def served(triton: Running) -> int:
    """Requests for identity that a Triton has answered, by its own metrics."""
    text = triton.get(8002, "/metrics")
    counts = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith("nv_inference_request_success{")]
    return sum(int(float(count)) for count in counts)


@on_every_image_of("router")
def test_a_router_without_a_fleet_file_says_what_to_mount(image: Image, start: Start, row: Row) -> None:
    running = start(image(row))
    assert running.container.wait()["StatusCode"] == 2
    assert running.log().startswith("error: /etc/bimetal/fleet.yaml cannot be read in this container")
