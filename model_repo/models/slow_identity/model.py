"""OUTPUT0 is INPUT0, after DELAY_MS milliseconds."""

import threading
import time
from typing import Any

import triton_python_backend_utils as pb_utils

# Triton announces a cancellation to nobody: it has to be asked for.
CANCELLATION_POLL_S = 0.02


class TritonPythonModel:
    """Each request waits in a thread of its own, so that delays do not add up."""

    def initialize(self, args: dict[str, str]) -> None:  # noqa: ARG002 - the signature is Triton's
        self._stop = threading.Event()
        self._workers: set[threading.Thread] = set()

    def execute(self, requests: list[Any]) -> None:
        self._workers = {worker for worker in self._workers if worker.is_alive()}
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            delay_ms = pb_utils.get_input_tensor_by_name(request, "DELAY_MS")
            delay_s = 0.0 if delay_ms is None else float(delay_ms.as_numpy().max()) / 1000
            worker = threading.Thread(target=self._answer, args=(request.get_response_sender(), values, delay_s))
            worker.start()
            self._workers.add(worker)

    def finalize(self) -> None:
        self._stop.set()
        for worker in self._workers:
            worker.join()

    def _answer(self, sender: Any, values: Any, delay_s: float) -> None:
        if self._waits_in_vain(sender, delay_s):
            error = pb_utils.TritonError("model 'slow_identity': cancelled", pb_utils.TritonError.CANCELLED)
            response = pb_utils.InferenceResponse(error=error)
        else:
            response = pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", values)])
        sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _waits_in_vain(self, sender: Any, delay_s: float) -> bool:
        """Wait, and say whether the client or the server gave up first."""
        deadline = time.monotonic() + delay_s
        while (left := deadline - time.monotonic()) > 0:
            if self._stop.wait(min(left, CANCELLATION_POLL_S)) or sender.is_cancelled():
                return True
        return False
