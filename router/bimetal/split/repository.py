"""Writes a split model as Triton repositories, one per pool: segments, the whole model, the pipeline."""

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import onnx
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInput, ModelInstanceGroup, ModelOutput, ModelParameter

from bimetal.model_repo.build import RUNNER
from bimetal.model_repo.pools import POOLS, Compute
from bimetal.operators.graph import Tensor
from bimetal.operators.onnx.file import external_tensors
from bimetal.split.cut_model import CutModel
from bimetal.split.errors import SplitError
from bimetal.split.extract import extract, write_model
from bimetal.split.plan import SplitPlan
from bimetal.split.wire import can_serve, triton_dims, triton_type

PIPELINE = RUNNER.parent / "pipeline_model.py"
_POOL_OF = {pool.provider: pool.name for pool in POOLS.values()}


@dataclass(frozen=True)
class Serving:
    """How the written models are served.

    Attributes:
        name: of the whole model; the pipeline is `<name>_split`, its segments `<name>_split_0` and on.
        gateway: `host:port` of the gateway's gRPC, which the pipeline calls.
        compute: what the pools' machines compute on.
        max_batch_size: requests that the pipeline may put into one batch; 0: it does not batch.
        retry_after_s: how long the whole model answers once a segment was out.
    """

    name: str
    gateway: str = "127.0.0.1:8001"
    compute: Compute = "gpu"
    max_batch_size: int = 0
    retry_after_s: float = 5.0

    @property
    def pipeline(self) -> str:
        """Name of the model that calls the segments."""
        return f"{self.name}_split"

    def segment(self, index: int) -> str:
        """Name under which a segment, counted from 0, is served."""
        return f"{self.pipeline}_{index}"


def write_split(model: CutModel, plan: SplitPlan, serving: Serving, out: Path) -> list[Path]:
    """Writes `out/<pool>/<model>/` for each model and gives these folders.

    The whole model goes to every pool that can run it. So does the pipeline, which needs no device:
    it outlives any one pool.

    Raises:
        SplitError: `out` holds something, a target has no pool, a tensor cannot be served, or a
            segment is refused by ONNX's checker. `out` is then as it was.
    """
    _check(model, plan, serving, out)
    try:
        return [
            *_write_segments(model, plan, serving, out),
            *_write_wholes(model, plan, serving, out),
            *_write_pipelines(model, plan, serving, out),
        ]
    except SplitError:
        shutil.rmtree(out)
        raise


def _check(model: CutModel, plan: SplitPlan, serving: Serving, out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SplitError(f"{out} is there already; expected a new or an empty folder.", "Choose another with --out.")
    homeless = [whole.provider for whole in plan.wholes if whole.provider not in _POOL_OF]
    if homeless:
        raise SplitError(
            f"no pool has the provider {', '.join(homeless)}; expected some of {', '.join(_POOL_OF)}.",
            "Correct --targets.",
        )
    for tensor in (*model.inputs, *model.outputs):
        if not can_serve(tensor):
            raise SplitError(
                f"{model.file}: tensor {tensor.name!r} has type {tensor.type}, shape {tensor.shape}; "
                "expected a type that Triton serves and a known number of dimensions.",
                "Export the model with such inputs and outputs.",
            )
        if serving.max_batch_size and (len(tensor.shape or ()) < 2 or 0 not in tensor.dynamic_axes):
            raise SplitError(
                f"{model.file}: tensor {tensor.name!r} has shape {tensor.shape}; with --max-batch-size every input "
                "and output needs an open first dimension, the batch, and another one.",
                "Leave --max-batch-size out.",
            )


def _write_segments(model: CutModel, plan: SplitPlan, serving: Serving, out: Path) -> Iterable[Path]:
    tensors = model.tensors
    for index, segment in enumerate(plan.segments):
        name = serving.segment(index)
        folder = out / _POOL_OF[segment.provider] / name
        write_model(extract(model, segment, name), model.file.parent, folder / "1" / "model.onnx")
        inputs, outputs = ([tensors[tensor] for tensor in names] for names in (segment.inputs, segment.outputs))
        _write_runner(folder, _onnx_config(name, segment.provider, serving, inputs, outputs))
        yield folder


def _write_wholes(model: CutModel, plan: SplitPlan, serving: Serving, out: Path) -> Iterable[Path]:
    for whole in plan.wholes:
        if isfinite(whole.seconds):
            folder = out / _POOL_OF[whole.provider] / serving.name
            _copy_model(model.file, folder / "1" / "model.onnx")
            _write_runner(folder, _onnx_config(serving.name, whole.provider, serving, model.inputs, model.outputs))
            yield folder


def _copy_model(file: Path, target: Path) -> None:
    """The file as it is, with its external data where it looks for it."""
    target.parent.mkdir(parents=True)
    shutil.copyfile(file, target)
    for tensor in external_tensors(onnx.load(file, load_external_data=False)):
        location = next(entry.value for entry in tensor.external_data if entry.key == "location")
        if not (target.parent / location).exists():
            (target.parent / location).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.parent / location, target.parent / location)


def _write_pipelines(model: CutModel, plan: SplitPlan, serving: Serving, out: Path) -> Iterable[Path]:
    runs_whole = any(isfinite(whole.seconds) for whole in plan.wholes)
    steps = {
        "whole": serving.name if runs_whole else None,
        "segments": [
            {"model": serving.segment(index), "inputs": segment.inputs, "outputs": segment.outputs}
            for index, segment in enumerate(plan.segments)
        ],
    }
    for whole in plan.wholes:
        folder = out / _POOL_OF[whole.provider] / serving.pipeline
        (folder / "1").mkdir(parents=True)
        (folder / "1" / "pipeline.json").write_text(json.dumps(steps, indent=2))
        shutil.copyfile(PIPELINE, folder / "1" / "model.py")
        (folder / "config.pbtxt").write_text(text_format.MessageToString(_pipeline_config(model, plan, serving)))
        yield folder


def _write_runner(folder: Path, config: ModelConfig) -> None:
    shutil.copyfile(RUNNER, folder / "1" / "model.py")
    (folder / "config.pbtxt").write_text(text_format.MessageToString(config))


def _onnx_config(
    name: str, provider: str, serving: Serving, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> ModelConfig:
    """What the runner of every ONNX model reads. Triton batches nothing here: the pipeline did."""
    compute: Compute = "cpu" if provider == POOLS["cpu"].provider else serving.compute
    kind = ModelInstanceGroup.KIND_GPU if compute == "gpu" else ModelInstanceGroup.KIND_CPU
    threads = "1" if compute == "cpu" else "0"  # as model_repo.render has it
    return ModelConfig(
        name=name,
        backend="python",
        input=_declared(ModelInput, inputs),
        output=_declared(ModelOutput, outputs),
        instance_group=[ModelInstanceGroup(count=1, kind=kind)],
        parameters=_parameters(provider=provider, compute=compute, intra_op_threads=threads),
    )


def _pipeline_config(model: CutModel, plan: SplitPlan, serving: Serving) -> ModelConfig:
    """As many instances as segments: each segment can then be busy with a batch of its own."""
    config = ModelConfig(
        name=serving.pipeline,
        backend="python",
        max_batch_size=serving.max_batch_size,
        input=_declared(ModelInput, model.inputs, batched=serving.max_batch_size > 0),
        output=_declared(ModelOutput, model.outputs, batched=serving.max_batch_size > 0),
        instance_group=[ModelInstanceGroup(count=len(plan.segments), kind=ModelInstanceGroup.KIND_CPU)],
        parameters=_parameters(gateway=serving.gateway, retry_after_s=f"{serving.retry_after_s:g}"),
    )
    if serving.max_batch_size > 1:
        config.dynamic_batching.SetInParent()
    return config


def _declared(kind: Any, tensors: Iterable[Tensor], *, batched: bool = False) -> list[Any]:
    """A ModelInput or ModelOutput for each tensor; `batched` leaves the first dimension out."""
    return [
        kind(name=tensor.name, data_type=f"TYPE_{triton_type(tensor)}", dims=triton_dims(tensor)[batched:])
        for tensor in tensors
    ]


def _parameters(**values: str) -> dict[str, ModelParameter]:
    return {key: ModelParameter(string_value=value) for key, value in values.items()}
