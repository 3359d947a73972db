"""Fakes (named so) for the units, and a real Triton for what only that can tell."""

import http.client
import importlib.util
import os
import queue
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import types
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bimetal.model_repo.build import build
from bimetal.model_repo.sources import load_sources
from tests.patience import PATIENCE_S


class FakeTensor:
    def __init__(self, name: str, values: Any) -> None:
        self._name = name
        self._values = values

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Any:
        return self._values


class FakeTritonError:
    INVALID_ARG, INTERNAL, CANCELLED = "invalid argument", "internal", "cancelled"

    def __init__(self, message: str, code: str) -> None:
        self.message = message
        self.code = code


class FakeInferenceResponse:
    """Either tensors by name, or an error."""

    def __init__(self, output_tensors: Sequence[FakeTensor] = (), error: FakeTritonError | None = None) -> None:
        self.tensors = {tensor.name(): tensor.as_numpy() for tensor in output_tensors}
        self.error = error


class FakeResponseSender:
    """``sent`` holds (response or None, is it the last)."""

    def __init__(self) -> None:
        self.sent: queue.Queue[tuple[FakeInferenceResponse | None, bool]] = queue.Queue()
        self.cancelled = threading.Event()

    def send(self, response: FakeInferenceResponse | None = None, flags: int = 0) -> None:
        self.sent.put((response, flags == FakePbUtils.TRITONSERVER_RESPONSE_COMPLETE_FINAL))

    def is_cancelled(self) -> bool:
        return self.cancelled.is_set()


class FakeRequest(dict[str, Any]):
    """Arrays by input name."""

    def __init__(self, **inputs: Any) -> None:
        super().__init__(inputs)
        self.sender = FakeResponseSender()

    def get_response_sender(self) -> FakeResponseSender:
        return self.sender


class FakePbUtils(types.ModuleType):
    """What the stub offers as ``triton_python_backend_utils``, as far as the models use it.

    ``log`` holds (level, message).
    """

    TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
    Request = FakeRequest

    Tensor = FakeTensor
    TritonError = FakeTritonError
    InferenceResponse = FakeInferenceResponse

    def __init__(self) -> None:
        super().__init__("triton_python_backend_utils")
        log: list[tuple[str, str]] = []
        self.log = log

        class Logger:
            @staticmethod
            def log_info(message: str) -> None:
                log.append(("info", message))

            @staticmethod
            def log_warn(message: str) -> None:
                log.append(("warning", message))

        self.Logger = Logger

    @staticmethod
    def get_input_tensor_by_name(request: Mapping[str, Any], name: str) -> FakeTensor | None:
        return FakeTensor(name, request[name]) if name in request else None


@pytest.fixture
def fake_pb_utils(monkeypatch: pytest.MonkeyPatch) -> FakePbUtils:
    fake = FakePbUtils()
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    return fake


@pytest.fixture
def load_model(fake_pb_utils: FakePbUtils) -> Iterator[Callable[..., Any]]:
    """Imports a model.py as Triton's stub does, and initialises it with ``arguments``; finalised at the end."""
    del fake_pb_utils  # only has to be there when the model imports it
    loaded = []

    def load(path: Path, **arguments: str) -> Any:
        spec = importlib.util.spec_from_file_location("model_under_test", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        model = module.TritonPythonModel()
        model.initialize(arguments)
        loaded.append(model)
        return model

    yield load
    for model in loaded:
        if hasattr(model, "finalize"):
            model.finalize()


@pytest.fixture
def fake_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes the folder that pip, really run, takes for its only index; call it to add a fake wheel.

    Returns the wheel's path. ``fake-weights==1.0`` holds ``members`` and the metadata that pip reads.
    """
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))

    def add(members: Mapping[str, bytes]) -> Path:
        wheel = index / "fake_weights-1.0-py3-none-any.whl"
        info = "fake_weights-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: fake-weights\nVersion: 1.0\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
            for name, content in members.items():
                archive.writestr(name, content)
        return wheel

    return add


@dataclass(frozen=True)
class Triton:
    """A running server over a repository rendered for pool ``cuda`` with ``compute: cpu``."""

    http_port: int
    grpc_port: int
    metrics_port: int
    log: Path


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    folder = tmp_path_factory.mktemp("triton")
    sources = load_sources()
    build(sources, sources, {"cuda": "cpu"}, out=folder)
    http_port, grpc_port, metrics_port = _free_ports(3)
    server = Triton(http_port, grpc_port, metrics_port, log=folder / "triton.log")
    home = Path(sysconfig.get_path("purelib")) / "pytriton" / "tritonserver"
    command = [
        str(home / "bin" / "tritonserver"),
        f"--model-repository={folder / 'cuda'}",
        f"--backend-directory={_backends(home, folder)}",
        *(f"--{service}-address=127.0.0.1" for service in ("http", "grpc", "metrics")),
        f"--http-port={server.http_port}",
        f"--grpc-port={server.grpc_port}",
        f"--metrics-port={server.metrics_port}",
    ]
    with server.log.open("wb") as log:
        process = subprocess.Popen(command, env=_environment(), stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_until_ready(process, server)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)


def _backends(home: Path, folder: Path) -> Path:
    """Triton's Python backend with the stub of this Python beside it, as Triton looks for it."""
    python = folder / "backends" / "python"
    shutil.copytree(home / "backends" / "python", python)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    stub = shutil.copy(home / "python_backend_stubs" / version / "triton_python_backend_stub", python)
    Path(stub).chmod(0o755)
    return python.parent


def _environment() -> dict[str, str]:
    """The stub finds its libraries by LD_LIBRARY_PATH, and its packages by the python3 first on PATH."""
    libraries = (Path(sysconfig.get_path("purelib")) / "nvidia_pytriton.libs", sysconfig.get_config_var("LIBDIR"))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["LD_LIBRARY_PATH"] = ":".join(map(str, libraries))
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return environment


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]


def _wait_until_ready(process: subprocess.Popen[bytes], server: Triton) -> None:
    interval_s = 0.1
    for _ in range(int(PATIENCE_S / interval_s)):
        if _is_ready(server.http_port):
            return
        try:
            process.wait(timeout=interval_s)
        except subprocess.TimeoutExpired:
            continue
        break
    pytest.fail(f"Triton did not become ready; its log ends with:\n{server.log.read_text()[-4000:]}")


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@pytest.fixture
def random() -> np.random.RandomState:
    return np.random.RandomState(20)
