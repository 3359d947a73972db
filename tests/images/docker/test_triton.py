"""What every image with a Triton promises: the project's models, two protocols, an orderly end."""

from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from bimetal.images.matrix import Row
from tests.images.docker.containers import Image, Start
from tests.images.docker.levels import alarming, on_every_image_of

POOLS = {"nvidia": "cuda", "amd": "rocm", "cpu": "cpu"}
# onnxruntime 1.18.1, the last one for CUDA 11, ends at opset 21; RotaryEmbedding is of opset 23.
NOT_SERVED = {"cuda:11.8-debian": {"rope_attention"}}
VALUES = np.array([[1.0, 2.0, 3.0]], dtype=np.float32)


def echoed(module: Any, address: str) -> Any:
    """What the model `identity` answers at an address."""
    tensor = module.InferInput("INPUT0", list(VALUES.shape), "FP32")
    tensor.set_data_from_numpy(VALUES)
    client = module.InferenceServerClient(address)
    try:
        return client.infer("identity", [tensor]).as_numpy("OUTPUT0")
    finally:
        client.close()


@on_every_image_of("triton")
def test_an_image_serves_the_projects_models(image: Image, start: Start, repositories: Path, row: Row) -> None:
    models = repositories / POOLS[row.image.vendor]
    served = {path.name for path in models.iterdir()} - NOT_SERVED.get(str(row), set())
    volumes = {str(models / name): {"bind": f"/models/{name}", "mode": "ro"} for name in served}
    running = start(image(row), ports=[8000, 8001], volumes=volumes)
    running.wait_until_healthy()
    http = triton_http.InferenceServerClient(running.address(8000))
    states = {model["name"]: model["state"] for model in http.get_model_repository_index()}
    http.close()
    assert states == dict.fromkeys(served, "READY")
    for module, port in ((triton_http, 8000), (triton_grpc, 8001)):
        np.testing.assert_array_equal(echoed(module, running.address(port)), VALUES)
    assert running.stop() == 0
    assert alarming(running.log()) == []


@on_every_image_of("triton")
def test_a_container_without_a_model_repository_says_what_to_mount(image: Image, start: Start, row: Row) -> None:
    running = start(image(row), environment={"BIMETAL_MODEL_REPOSITORY": "/nowhere"})
    assert running.container.wait()["StatusCode"] == 2
    assert running.log().startswith("error: /nowhere is no directory in this container, expected the model repository.")
    assert running.log().count("\n") == 1
