"""Runs one case on an execution provider: right or wrong, where it ran, and how long it took.

Graph optimisations are off: they would fold, fuse or remove the one operator that is to be tested.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

from bimetal.verify.cases import Case, Value
from bimetal.verify.comparison import difference
from bimetal.verify.results import FailureKind
from bimetal.verify.tensor_values import from_ort, numeric, to_ort

Nodes = tuple[tuple[str, str], ...]
"""What ran: (operator, provider) of every kernel, in order."""

# PCI vendors of the devices that providers copy tensors to.
_VENDORS = {
    "CUDAExecutionProvider": 0x10DE,
    "TensorrtExecutionProvider": 0x10DE,
    "MIGraphXExecutionProvider": 0x1002,
    "ROCMExecutionProvider": 0x1002,
}
# What stands between a provider and the CPU in production, so here too.
_BEHIND = {"TensorrtExecutionProvider": ("CUDAExecutionProvider",)}
# onnxruntime's status code, and where in its own source it was raised.
_NOISE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : |Non-zero status code .*? Status Message: |\S+\.(cc|h):\d+ ")


@dataclass(frozen=True)
class Settings:
    """How cases are run; `folder` takes the profiles while they are read."""

    provider: str
    folder: Path
    repeats: int = 10
    threads: int = 1


@dataclass(frozen=True)
class Outcome:
    """What came of one case; times in seconds, None where it did not come so far."""

    failure: tuple[FailureKind, str] | None = None
    nodes: Nodes | None = None
    compile_seconds: float | None = None
    run_mean_seconds: float | None = None
    run_std_seconds: float | None = None
    transfer_seconds: float | None = None


def run_case(case: Case, timed: bool, settings: Settings) -> Outcome:
    """Creates a session, compares its first run with what must come out, then repeats it for the time."""
    started = time.perf_counter()
    try:
        session = _session(case.model, settings)
    except Exception as exc:  # noqa: BLE001 - whatever a provider raises is the result
        return Outcome((FailureKind.REFUSED, message_of(exc)))
    compiled = time.perf_counter() - started
    try:
        run = _runner(session, case)
        actual = run()
        nodes = _profiled_nodes(session)
        wrong = difference(case, actual)
        if wrong is not None:
            return Outcome((FailureKind.WRONG_OUTPUT, wrong), nodes, compiled)
        if not timed:
            return Outcome(None, nodes, compiled)
        seconds = [_seconds(run) for _ in range(settings.repeats)]
        transfer = _transfer_seconds(case, actual, settings)
    except Exception as exc:  # noqa: BLE001 - as above
        return Outcome((FailureKind.ERROR, message_of(exc)), None, compiled)
    return Outcome(None, nodes, compiled, fmean(seconds), pstdev(seconds), transfer)


def start_provider(settings: Settings) -> None:
    """Runs one addition, so that what a provider does once is in no operator's time.

    Raises:
        Exception: whatever onnxruntime raises when the provider does not work.
    """
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    result = onnx.helper.make_tensor_value_info("two", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["one", "one"], ["two"])], "start", [], [result], [one]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    session = _session(model.SerializeToString(), settings)
    session.run(None, {})
    Path(session.end_profiling()).unlink()


def message_of(error: BaseException, longest: int = 300) -> str:
    """The first line of an exception's message without onnxruntime's own noise, its name when it has none."""
    lines = str(error).splitlines()
    return (_NOISE.sub("", lines[0]) if lines else type(error).__name__)[:longest]


def _session(model: bytes, settings: Settings) -> Any:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_profiling = True
    options.profile_file_prefix = str(settings.folder / "profile")
    session = ort.InferenceSession(model, options, providers=[settings.provider, *_BEHIND.get(settings.provider, ())])
    if settings.provider not in session.get_providers():
        # onnxruntime only warns when a provider cannot start, and would test the CPU instead.
        raise RuntimeError(f"{settings.provider} did not start: the session has {session.get_providers()}")
    return session


def _runner(session: Any, case: Case) -> Callable[[], Sequence[Value]]:
    """A call that runs the session and gives numpy values; inputs are converted once."""
    feeds = dict(zip((value.name for value in session.get_inputs()), case.inputs, strict=True))
    if not all(map(numeric, (*case.inputs, *case.outputs))):
        return partial(session.run, None, feeds)
    values = {name: to_ort(feed) for name, feed in feeds.items()}
    return lambda: [from_ort(value) for value in session.run_with_ort_values(None, values)]


def _profiled_nodes(session: Any) -> Nodes:
    file = Path(session.end_profiling())
    events = json.loads(file.read_bytes())
    file.unlink()
    return tuple(
        (event["args"]["op_name"], event["args"]["provider"])
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    )


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _transfer_seconds(case: Case, actual: Sequence[Value], settings: Settings) -> float | None:
    """Mean time of copying the inputs to the device and the outputs back; None where nothing can be copied.

    That an onnxruntime build cannot place a tensor by itself says nothing about the operator.
    """
    vendor = _VENDORS.get(settings.provider)
    arrays = (*case.inputs, *actual)
    if vendor is None or not all(numeric(value) and value.dtype.kind in "fiub" for value in arrays):
        return None
    place = partial(ort.OrtValue.ortvalue_from_numpy, device_type="gpu", vendor_id=vendor)
    try:
        there = [_seconds(lambda: [place(value) for value in case.inputs]) for _ in range(settings.repeats)]
        placed = [place(value) for value in actual]
        back = [_seconds(lambda: [value.numpy() for value in placed]) for _ in range(settings.repeats)]
    except Exception:  # noqa: BLE001 - see above
        return None
    return fmean(there) + fmean(back)
