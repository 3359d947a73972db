"""A decoupled model: as many responses as IN has elements, then the final flag."""

import threading
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Each request is answered by a thread of its own, so that a slow one holds no other up."""

    def initialize(self, args: dict[str, str]) -> None:  # noqa: ARG002 - the signature is Triton's
        self._stop = threading.Event()
        self._workers: set[threading.Thread] = set()

    def execute(self, requests: list[Any]) -> None:
        self._workers = {worker for worker in self._workers if worker.is_alive()}
        for request in requests:
            elements = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            delays_ms = pb_utils.get_input_tensor_by_name(request, "DELAY").as_numpy()
            worker = threading.Thread(target=self._stream, args=(request.get_response_sender(), elements, delays_ms))
            worker.start()
            self._workers.add(worker)

    def finalize(self) -> None:
        self._stop.set()
        for worker in self._workers:
            worker.join()

    def _stream(self, sender: Any, elements: Any, delays_ms: Any) -> None:
        if elements.shape != delays_ms.shape:
            message = (
                f"model 'repeat': input DELAY has shape {list(delays_ms.shape)}; "
                f"expected that of IN, {list(elements.shape)}: one delay per element"
            )
            error = pb_utils.TritonError(message, pb_utils.TritonError.INVALID_ARG)
            sender.send(pb_utils.InferenceResponse(error=error), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return
        for index, (element, delay_ms) in enumerate(zip(elements, delays_ms, strict=True)):
            if self._stop.wait(delay_ms / 1000) or sender.is_cancelled():
                break
            out = pb_utils.Tensor("OUT", np.array([element], dtype=np.int32))
            idx = pb_utils.Tensor("IDX", np.array([index], dtype=np.uint32))
            sender.send(pb_utils.InferenceResponse([out, idx]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
