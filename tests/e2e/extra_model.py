"""Models that only a test needs: added to the repository of every Triton of the cluster, and taken away again."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import tritonclient.http as triton_http

from tests.e2e.cluster import Cluster, wait_until

RAISES = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        texts = [pb_utils.get_input_tensor_by_name(r, "TEXT").as_numpy().flat[0].decode() for r in requests]
        if any(texts):
            raise RuntimeError(next(filter(None, texts)))
        return [pb_utils.InferenceResponse([pb_utils.get_input_tensor_by_name(r, "TEXT")]) for r in requests]
"""
"""Raises its input TEXT as an error, unless that is empty."""


WAITS = """
import time
from pathlib import Path

import triton_python_backend_utils as pb_utils

GATE = Path(__file__).parents[1] / "open"


def pass_the_gate():
    while not GATE.exists():
        time.sleep(0.02)


class TritonPythonModel:
    def {method}(self, *arguments):
        pass_the_gate()
        {then}
"""
"""Waits, at its start or with each request, until `open_gates` was called."""
WAITS_AT_ITS_START = WAITS.format(method="initialize", then="")
WAITS_WITH_EACH_REQUEST = WAITS.format(
    method="execute",
    then="""return [
            pb_utils.InferenceResponse([pb_utils.get_input_tensor_by_name(r, "TEXT")]) for r in arguments[0]
        ]""",
)


@contextmanager
def in_every_repository(cluster: Cluster, name: str, source: str, config: str = "") -> Iterator[None]:
    """The Python model `name`, with BYTES [1, 1] TEXT in and out, where it can be loaded from; unloaded at the end.

    Args:
        config: what its config.pbtxt says beside that.
    """
    folders = _folders(cluster, name)
    with ExitStack() as stack:
        for folder in folders:
            stack.callback(shutil.rmtree, folder)
            (folder / "1").mkdir(parents=True)
            (folder / "1/model.py").write_text(source)
            (folder / "config.pbtxt").write_text(_CONFIG % name + config)
        stack.callback(_unload, cluster, name)
        stack.callback(open_gates, cluster, name)
        yield


def _folders(cluster: Cluster, name: str) -> set[Path]:
    return {Path(pool.repository, name) for pool in cluster.fleet.pools.values()}


def open_gates(cluster: Cluster, name: str) -> None:
    """Let a model that waits go on, everywhere."""
    for folder in _folders(cluster, name):
        (folder / "open").touch()


_CONFIG = """
name: "%s"
backend: "python"
max_batch_size: 1
input [{ name: "TEXT", data_type: TYPE_STRING, dims: [1] }]
output [{ name: "TEXT", data_type: TYPE_STRING, dims: [1] }]
instance_group [{ count: 1, kind: KIND_CPU }]
"""


def load(cluster: Cluster, name: str) -> None:
    """Load the model through the gateway. Over HTTP, which a Triton would do on a thread that others share."""
    with triton_http.InferenceServerClient(cluster.http, network_timeout=120) as client:
        client.load_model(name)


def _unload(cluster: Cluster, name: str) -> None:
    for backend in cluster.fleet.backends:
        with triton_http.InferenceServerClient(backend.http_address) as client:
            client.unload_model(name)
            wait_until(lambda client=client: not client.is_model_ready(name))  # type: ignore[misc]  # mypy infers no lambda with a default
