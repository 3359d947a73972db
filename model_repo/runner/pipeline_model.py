"""A model that was cut: calls its segments in order through the gateway, and the whole model when one is out.

Triton copies nothing but this file and pipeline.json into the interpreter's sight, so it imports only what that
has: numpy, tritonclient and Triton's own module. Segments live on other servers, hence no BLS.
"""

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

# What the gateway says when no server has the model, or none of those that have it is well.
OUTAGES = ("StatusCode.UNAVAILABLE", "StatusCode.NOT_FOUND")
LATE = "StatusCode.DEADLINE_EXCEEDED"
# Triton's error code for each status of gRPC, by name: Triton's module has the codes only once this one is imported.
# All else is UNKNOWN: INTERNAL would be retried, and blamed on the server of the pipeline, which is well.
ERRORS = {
    "StatusCode.INVALID_ARGUMENT": "INVALID_ARG",
    "StatusCode.CANCELLED": "CANCELLED",
    LATE: "CANCELLED",  # Triton has no code for it
    **dict.fromkeys(OUTAGES, "UNAVAILABLE"),
}

Arrays = dict[str, Any]


class CallError(Exception):
    """A called model did not answer; ``status`` is gRPC's."""

    def __init__(self, message: str, status: str | None) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_outage(self) -> bool:
        return self.status in OUTAGES


class TritonPythonModel:
    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        plan = json.loads((Path(args["model_repository"]) / args["model_version"] / "pipeline.json").read_text())
        self._name = config["name"]
        self._batches = config["max_batch_size"] > 0
        self._inputs = [declared["name"] for declared in config["input"]]
        self._outputs = [declared["name"] for declared in config["output"]]
        self._segments = plan["segments"]
        self._whole = plan["whole"]
        self._gateway = parameters["gateway"]
        self._client = triton_grpc.InferenceServerClient(self._gateway)
        self._retry_after_s = float(parameters["retry_after_s"])
        self._whole_until = 0.0
        self._family = pb_utils.MetricFamily(
            name="bimetal_split_requests_total",
            description="Requests to split models, by what answered: its segments or the whole model",
            kind=pb_utils.MetricFamily.COUNTER,
        )
        self._answered = {
            path: self._family.Metric(labels={"model": self._name, "path": path}) for path in ("segments", "whole")
        }

    def finalize(self) -> None:
        self._answered.clear()  # Triton wants a family's metrics gone before the family
        self._client.close()

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """One response per request, in order; what fails for one request is that request's error alone."""
        now = time.monotonic()
        feeds = [self._feed(request) for request in requests]
        deadlines = [now + request.timeout() / 1e6 if request.timeout() else None for request in requests]
        responses: list[Any] = [None] * len(requests)
        for group in self._groups(feeds):
            answers = self._answer([feeds[index] for index in group], [deadlines[index] for index in group])
            for index, response in zip(group, answers, strict=True):
                responses[index] = response
        return responses

    def _feed(self, request: Any) -> Arrays:
        return {name: pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in self._inputs}

    def _groups(self, feeds: Sequence[Arrays]) -> list[list[int]]:
        """The requests' indices, grouped by inputs that differ in nothing but the batch dimension."""
        groups = defaultdict(list)
        for index, feed in enumerate(feeds):
            shapes = tuple(values.shape[1:] for values in feed.values())
            groups[shapes if self._batches else index].append(index)
        return list(groups.values())

    def _answer(self, feeds: list[Arrays], deadlines: list[float | None]) -> list[Any]:
        """Together within the tightest deadline; one by one where that fails: it may be one request's fault."""
        if len(feeds) > 1:
            stacked = {name: np.concatenate([feed[name] for feed in feeds]) for name in self._inputs}
            tightest = min((deadline for deadline in deadlines if deadline is not None), default=None)
            try:
                outputs, path = self._run(stacked, tightest)
                apart = self._apart(outputs, [len(next(iter(feed.values()))) for feed in feeds])
                return [self._response(part, path) for part in apart]
            except (CallError, ValueError):
                pass
        return [self._answer_alone(feed, deadline) for feed, deadline in zip(feeds, deadlines, strict=True)]

    def _answer_alone(self, feed: Arrays, deadline: float | None) -> Any:
        try:
            return self._response(*self._run(feed, deadline))
        except CallError as error:
            code = getattr(pb_utils.TritonError, ERRORS.get(error.status or "", "UNKNOWN"))
            return pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(str(error), code))

    def _apart(self, outputs: Arrays, sizes: list[int]) -> list[Arrays]:
        """The outputs of each request. Raises ValueError if one has another first dimension than the batch."""
        if any(values.ndim == 0 or len(values) != sum(sizes) for values in outputs.values()):
            raise ValueError("an output has another first dimension than the batch")
        ends = np.cumsum(sizes)[:-1]
        parts = zip(*(np.split(outputs[name], ends) for name in self._outputs), strict=True)
        return [dict(zip(self._outputs, part, strict=True)) for part in parts]

    def _response(self, outputs: Arrays, path: str) -> Any:
        self._answered[path].increment(1)
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, outputs[name]) for name in self._outputs])

    def _run(self, feed: Arrays, deadline: float | None) -> tuple[Arrays, str]:
        """The outputs and what gave them: the segments, or the whole model for a while once one was out."""
        if self._whole is not None and time.monotonic() < self._whole_until:
            return self._run_whole(feed, deadline), "whole"
        try:
            return self._run_segments(feed, deadline), "segments"
        except CallError as error:
            if not error.is_outage or self._whole is None:
                raise
            self._whole_until = time.monotonic() + self._retry_after_s
            pb_utils.Logger.log_warn(
                f"{error}. Falling back to the whole model {self._whole!r} for {self._retry_after_s:g} s."
            )
            return self._run_whole(feed, deadline), "whole"

    def _run_segments(self, feed: Arrays, deadline: float | None) -> Arrays:
        values = dict(feed)
        for segment in self._segments:
            sent = {name: values[name] for name in segment["inputs"]}
            values |= self._call(segment["model"], sent, segment["outputs"], deadline)
        return {name: values[name] for name in self._outputs}

    def _run_whole(self, feed: Arrays, deadline: float | None) -> Arrays:
        try:
            return self._call(self._whole, feed, self._outputs, deadline)
        except CallError as error:
            if error.is_outage:
                self._whole_until = 0.0  # the segments may be back
            raise

    def _call(self, model: str, inputs: Arrays, outputs: Sequence[str], deadline: float | None) -> Arrays:
        """One model through the gateway, within what is left of the deadline."""
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise CallError(f"split model {self._name!r}: its deadline passed before {model!r} was called", LATE)
        try:
            result = self._client.infer(
                model,
                [tensor(name, values) for name, values in inputs.items()],
                outputs=[triton_grpc.InferRequestedOutput(name) for name in outputs],
                timeout=None if left is None else max(1, int(left * 1e6)),
                client_timeout=left,
            )
        except InferenceServerException as error:
            raise CallError(
                f"split model {self._name!r}: {model!r} through {self._gateway} failed "
                f"({error.status()}): {error.message()}",
                error.status(),
            ) from error
        return {name: result.as_numpy(name) for name in outputs}


def tensor(name: str, values: Any) -> Any:
    sent = np.atleast_1d(values)  # Triton has no scalars; the runner makes one of it again
    made = triton_grpc.InferInput(name, list(sent.shape), np_to_triton_dtype(sent.dtype))
    made.set_data_from_numpy(sent)
    return made
