"""The one runner of every ONNX model: a Triton Python backend model around an ONNX Runtime session.

Triton copies nothing but this file into the interpreter's sight, so it imports only what that has:
numpy, onnxruntime and Triton's own module.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import triton_python_backend_utils as pb_utils
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

CPU_PROVIDER = "CPUExecutionProvider"

# ONNX Runtime's exceptions have no base class of their own. These are the ones that a run can raise.
RUN_ERRORS = (
    ort_errors.EPFail,
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
)

Feed = dict[str, Any]


class RequestError(Exception):
    """One request failed; ``code`` is Triton's."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class TritonPythonModel:
    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        self._name = config["name"]
        self._batches = config["max_batch_size"] > 0
        self._inputs = config["input"]
        self._outputs = config["output"]
        self._session = ort.InferenceSession(
            str(Path(args["model_repository"]) / args["model_version"] / "model.onnx"),
            sess_options=session_options(int(parameters["intra_op_threads"])),
            providers=providers(parameters, args["model_instance_device_id"]),
        )
        self._run_options = ort.RunOptions()
        self._run_options.log_severity_level = 4  # fatal: a request's error is in its response already
        self._scalars = {value.name for value in self._session.get_inputs() if value.shape == []}
        log_provider(self._name, parameters, self._session.get_providers()[0])

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response per request, in order; what fails for one request is that request's error alone."""
        responses: list[Any] = [None] * len(requests)
        feeds: dict[int, Feed] = {}
        for index, request in enumerate(requests):
            try:
                feeds[index] = self._feed(request)
            except RequestError as error:
                responses[index] = failure(error)
        for group in stackable(feeds) if self._batches else [[index] for index in feeds]:
            for index, response in zip(group, self._answer([feeds[index] for index in group]), strict=True):
                responses[index] = response
        return responses

    def _feed(self, request: Any) -> Feed:
        feed = {}
        for declared in self._inputs:
            tensor = pb_utils.get_input_tensor_by_name(request, declared["name"])
            if tensor is not None:
                values = self._decoded(declared, tensor.as_numpy())
                # Triton declares a scalar as dims [1]: it refuses to reshape one to nothing.
                feed[declared["name"]] = values.reshape(()) if declared["name"] in self._scalars else values
            elif not declared.get("optional"):
                raise RequestError(
                    f"model {self._name!r}: input {declared['name']!r} is missing; "
                    f"expected {declared['data_type']} with dims {declared['dims']}",
                    pb_utils.TritonError.INVALID_ARG,
                )
        return feed

    def _decoded(self, declared: Mapping[str, Any], values: Any) -> Any:
        """ONNX strings are text where Triton's BYTES are bytes."""
        if declared["data_type"] != "TYPE_STRING":
            return values
        try:
            texts = [value.decode("utf-8") for value in values.flat]
        except UnicodeDecodeError as error:
            raise RequestError(
                f"model {self._name!r}: input {declared['name']!r}: expected UTF-8 text: {error}",
                pb_utils.TritonError.INVALID_ARG,
            ) from error
        return np.array(texts, dtype=object).reshape(values.shape)

    def _answer(self, feeds: list[Feed]) -> list[Any]:
        if len(feeds) > 1 and (outputs := self._run_stacked(feeds)) is not None:
            return [self._response(values) for values in outputs]
        return [self._answer_alone(feed) for feed in feeds]

    def _answer_alone(self, feed: Feed) -> Any:
        try:
            return self._response(self._run(feed))
        except RequestError as error:
            return failure(error)

    def _run_stacked(self, feeds: list[Feed]) -> list[list[Any]] | None:
        """The outputs of each request from one run of them all, or None if they have to be run one by one:
        the run failed, which may be the fault of one request, or an output has another first dimension
        than the batch."""
        batch_sizes = [len(next(iter(feed.values()))) for feed in feeds]
        try:
            outputs = self._run({name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]})
        except RequestError:
            return None
        if any(values.ndim == 0 or len(values) != sum(batch_sizes) for values in outputs):
            return None
        ends = np.cumsum(batch_sizes)[:-1]
        return [list(parts) for parts in zip(*(np.split(values, ends) for values in outputs), strict=True)]

    def _run(self, feed: Feed) -> list[Any]:
        try:
            names = [declared["name"] for declared in self._outputs]
            outputs: list[Any] = self._session.run(names, feed, self._run_options)
        except (*RUN_ERRORS, ValueError) as error:
            invalid = isinstance(error, (ort_errors.InvalidArgument, ValueError))
            code = pb_utils.TritonError.INVALID_ARG if invalid else pb_utils.TritonError.INTERNAL
            raise RequestError(f"model {self._name!r} with inputs {described(feed)}: {error}", code) from error
        return outputs

    def _response(self, outputs: list[Any]) -> Any:
        tensors = []
        for declared, values in zip(self._outputs, outputs, strict=True):
            encoded = values
            if declared["data_type"] == "TYPE_STRING":
                encoded = np.array([text.encode() for text in values.flat], dtype=object).reshape(values.shape)
            tensors.append(pb_utils.Tensor(declared["name"], encoded))
        return pb_utils.InferenceResponse(tensors)


def providers(parameters: Mapping[str, str], device_id: str) -> list[Any]:
    """ONNX Runtime's provider list: the pool's if it may compute there and is installed, then the CPU."""
    wanted = parameters["provider"]
    if parameters["compute"] == "gpu" and wanted in ort.get_available_providers():
        return [(wanted, {"device_id": device_id}), CPU_PROVIDER]
    return [CPU_PROVIDER]


def log_provider(model: str, parameters: Mapping[str, str], got: str) -> None:
    """Say who computes. A GPU pool that fell back to the CPU is a fault; one rendered for the CPU is not."""
    message = f"model {model!r}: asked for {parameters['provider']} (compute: {parameters['compute']}), got {got}"
    if parameters["compute"] == "gpu" and got != parameters["provider"]:
        pb_utils.Logger.log_warn(f"{message}; this onnxruntime has {', '.join(ort.get_available_providers())}")
    else:
        pb_utils.Logger.log_info(message)


def session_options(intra_op_threads: int) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = intra_op_threads
    options.inter_op_num_threads = 1
    # Idle threads that spin take the cores from the other models of the machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors: warnings are about how the model was exported
    return options


def stackable(feeds: Mapping[int, Feed]) -> list[list[int]]:
    """The requests' indices, grouped by inputs that differ in nothing but the batch dimension."""
    groups = defaultdict(list)
    for index, feed in feeds.items():
        groups[tuple((name, values.shape[1:]) for name, values in feed.items())].append(index)
    return list(groups.values())


def described(feed: Feed) -> str:
    return ", ".join(f"{name} {values.dtype}{list(values.shape)}" for name, values in feed.items())


def failure(error: RequestError) -> Any:
    return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(str(error), error.code))
