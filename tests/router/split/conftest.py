"""Split models on two real Tritons, called through the real router and its gateway."""

import json
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.utils import np_to_triton_dtype
from typer import Typer
from typer.testing import CliRunner

from bimetal.cli.split import split
from bimetal.model_repo.build import build
from bimetal.model_repo.sources import Source, WheelSource, load_sources
from bimetal.model_repo.weights import obtain
from bimetal.split.repository import PIPELINE
from tests.e2e.cluster import wait_until
from tests.model_repo.conftest import _backends, _environment, _free_ports, _is_ready
from tests.patience import PATIENCE_S

SOURCES = load_sources()
RETRY_AFTER_S = 0.5


@dataclass(frozen=True)
class RealModel:
    """A model from a wheel, with how it is cut."""

    source: Source | None
    segments: int
    max_batch_size: int


REAL_MODELS: Mapping[str, RealModel] = {
    "ocr_det": RealModel(SOURCES["ocr_det"].source, segments=3, max_batch_size=8),
    "file_type": RealModel(SOURCES["file_type"].source, segments=2, max_batch_size=16),
    "ocr_rec": RealModel(
        WheelSource(
            wheel="rapidocr-onnxruntime==1.4.4",
            member="rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
            sha256="48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        ),
        segments=2,
        max_batch_size=0,
    ),
}


@pytest.fixture(scope="session")
def real_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The ONNX files of the real models, by name."""
    folder = tmp_path_factory.mktemp("models")
    files = {}
    for name, model in REAL_MODELS.items():
        assert model.source is not None
        files[name] = folder / f"{name}.onnx"
        files[name].write_bytes(obtain(model.source))
    return files


def run_split(file: Path, out: Path, *options: str) -> dict[str, Any]:
    """What `bimetal model split FILE --out OUT --json` prints."""
    app = Typer()
    app.command()(split)
    result = CliRunner().invoke(app, [str(file), "--out", str(out), "--json", *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@dataclass
class SplitCluster:
    """Two Tritons (pools cuda and rocm, both on the CPU), the router and its gateway."""

    folder: Path
    plans: Mapping[str, dict[str, Any]]
    ports: Mapping[str, tuple[int, int, int]]
    gateway_port: int
    router_port: int
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, pool: str) -> None:
        """Starts the Triton of a pool."""
        http_port, grpc_port, metrics_port = self.ports[pool]
        home = Path(sysconfig.get_path("purelib")) / "pytriton" / "tritonserver"
        command = [str(home / "bin" / "tritonserver"), f"--model-repository={self.folder / pool}"]
        command += [f"--backend-directory={self.folder / 'state' / 'backends'}"]
        command += [f"--{service}-address=127.0.0.1" for service in ("http", "grpc", "metrics")]
        command += [f"--http-port={http_port}", f"--grpc-port={grpc_port}", f"--metrics-port={metrics_port}"]
        self._run(pool, command)

    def wait_ready(self, pool: str) -> None:
        wait_until(lambda: self._alive(pool) and _is_ready(self.ports[pool][0]))

    def stop(self, pool: str) -> None:
        self.processes[pool].terminate()
        self.processes[pool].wait(timeout=PATIENCE_S)

    def start_router(self) -> None:
        bimetal = [sys.executable, "-c", "from bimetal.cli.main import main; main()"]
        fleet = ["--fleet", str(self.folder / "fleet.yaml")]
        self._run("router", [*bimetal, "run", *fleet])
        wait_until(lambda: self._alive("router") and _is_ready(self.router_port))
        self._run("gateway", [*bimetal, "gateway", *fleet])
        for pool in self.ports:
            self.wait_ready(pool)
        models = [name for plan in self.plans.values() for name in plan["names"]]
        wait_until(lambda: self._alive("gateway") and all(self.serves(name) for name in models))

    def serves(self, model: str) -> bool:
        """Whether the gateway has a ready server for the model."""
        with closing(triton_grpc.InferenceServerClient(f"127.0.0.1:{self.gateway_port}")) as client:
            try:
                return bool(client.is_model_ready(model))
            except triton_grpc.InferenceServerException:
                return False

    def answered(self, model: str, path: str) -> int:
        """The pipeline's own counter: requests to `model` that `path` (segments, whole) answered."""
        url = f"http://127.0.0.1:{self.ports['cuda'][2]}/metrics"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            lines = answer.read().decode().splitlines()
        wanted = f'bimetal_split_requests_total{{model="{model}_split",path="{path}"}} '
        return sum(int(float(line.removeprefix(wanted))) for line in lines if line.startswith(wanted))

    def executions(self, model: str) -> int:
        """How often Triton ran the model on cuda, whatever the size of the batch."""
        with closing(triton_grpc.InferenceServerClient(f"127.0.0.1:{self.ports['cuda'][1]}")) as client:
            (found,) = client.get_inference_statistics(model, as_json=True)["model_stats"]
        return int(found["execution_count"])

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _alive(self, name: str) -> bool:
        assert self.processes[name].poll() is None, f"{name} has ended; its log ends with:\n{self.log(name)[-4000:]}"
        return True

    def _run(self, name: str, command: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, env=_environment(), stdout=log, stderr=subprocess.STDOUT)


@pytest.fixture(scope="session")
def split_cluster(tmp_path_factory: pytest.TempPathFactory, real_files: Mapping[str, Path]) -> Iterator[SplitCluster]:
    folder = tmp_path_factory.mktemp("split")
    ports = _free_ports(11)
    gateway_port, router_port = ports[6], ports[8]
    plans = {name: _write_split(name, file, folder, gateway_port) for name, file in real_files.items()}
    build(SOURCES, ["slow_identity"], {"cuda": "cpu"}, out=folder)
    _write_slow_pipeline(folder / "cuda" / "slow_split", gateway_port)
    _backends(Path(sysconfig.get_path("purelib")) / "pytriton" / "tritonserver", folder / "state")
    cluster = SplitCluster(
        folder,
        plans,
        {"cuda": (ports[0], ports[1], ports[2]), "rocm": (ports[3], ports[4], ports[5])},
        gateway_port,
        router_port,
    )
    (folder / "fleet.yaml").write_text(json.dumps(_fleet(folder, cluster, ports[6:])))
    try:
        cluster.start("cuda")
        cluster.start("rocm")
        cluster.start_router()  # waits for what both Tritons serve
        yield cluster
    finally:
        for process in cluster.processes.values():
            process.terminate()
        for process in cluster.processes.values():
            process.wait(timeout=PATIENCE_S)


def _write_split(name: str, file: Path, folder: Path, gateway_port: int) -> dict[str, Any]:
    """Cuts a model and puts what the two pools get into one repository each.

    The whole model and the pipeline stay on cuda alone, so that stopping rocm takes segments away and
    nothing else.
    """
    model = REAL_MODELS[name]
    options = ["--force", str(model.segments), "--compute", "cpu", "--gateway", f"127.0.0.1:{gateway_port}"]
    options += ["--max-batch-size", str(model.max_batch_size), "--retry-after-s", str(RETRY_AFTER_S)]
    plan = run_split(file, folder / "written" / name, *options)
    for written in map(Path, plan["written"]):
        if written.parent.name == "cuda" or written.name not in {name, f"{name}_split"}:
            shutil.copytree(written, folder / written.parent.name / written.name)
    return plan | {"names": sorted({Path(written).name for written in plan["written"]})}


def _write_slow_pipeline(folder: Path, gateway_port: int) -> None:
    """A pipeline of one segment, slow_identity, which can outlast any deadline."""
    (folder / "1").mkdir(parents=True)
    shutil.copyfile(PIPELINE, folder / "1" / "model.py")
    segment = {"model": "slow_identity", "inputs": ["INPUT0", "DELAY_MS"], "outputs": ["OUTPUT0"]}
    (folder / "1" / "pipeline.json").write_text(json.dumps({"whole": None, "segments": [segment]}))
    (folder / "config.pbtxt").write_text(
        f"""
        backend: "python"
        max_batch_size: 128
        input [ {{ name: "INPUT0", data_type: TYPE_FP32, dims: [-1] }},
                {{ name: "DELAY_MS", data_type: TYPE_INT32, dims: [1] }} ]
        output [ {{ name: "OUTPUT0", data_type: TYPE_FP32, dims: [-1] }} ]
        instance_group [ {{ kind: KIND_CPU }} ]
        parameters {{ key: "gateway", value: {{ string_value: "127.0.0.1:{gateway_port}" }} }}
        parameters {{ key: "retry_after_s", value: {{ string_value: "1" }} }}
        """
    )


def _fleet(folder: Path, cluster: SplitCluster, ports: list[int]) -> dict[str, Any]:
    gateway_port, gateway_http, router_port, xds_port, admin_port = ports
    pools = {
        "cuda": {"vendor": "nvidia", "provider": "CUDAExecutionProvider"},
        "rocm": {"vendor": "amd", "provider": "MIGraphXExecutionProvider"},
    }
    return {
        "version": 1,
        "state_dir": str(folder / "state"),
        "gateway": {"http_port": gateway_http, "grpc_port": gateway_port, "admin_port": admin_port},
        "router": {"http_port": router_port, "xds_port": xds_port},
        # What a test breaks on purpose must not keep a server from the next test.
        "breaker": {"degrade_after": 50, "isolate_after": 100, "transient_cooldown_s": 0.1, "recover_after": 1},
        "pools": {name: pool | {"repository": str(folder / name)} for name, pool in pools.items()},
        "backends": [
            {
                "name": pool,
                "pool": pool,
                "host": "127.0.0.1",
                "http_port": http_port,
                "grpc_port": grpc_port,
                "metrics_port": metrics_port,
                "compute": "cpu",
            }
            for pool, (http_port, grpc_port, metrics_port) in cluster.ports.items()
        ],
    }


class GatewayClient:
    """A stock client of the gateway that takes and gives NumPy arrays."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def infer(self, model: str, arrays: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        result = self.client.infer(model, tensors(arrays), **options)
        return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}


def tensors(arrays: Mapping[str, Any]) -> list[Any]:
    made = []
    for name, values in arrays.items():
        tensor = triton_grpc.InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype))
        tensor.set_data_from_numpy(values)
        made.append(tensor)
    return made


@pytest.fixture
def gateway_client(split_cluster: SplitCluster) -> Iterator[GatewayClient]:
    with closing(triton_grpc.InferenceServerClient(f"127.0.0.1:{split_cluster.gateway_port}")) as client:
        yield GatewayClient(client)


@pytest.fixture
def tensors_of() -> Callable[[Mapping[str, Any]], list[Any]]:
    """Arrays as the inputs that a gRPC client takes."""
    return tensors
