"""A stateful model: the running sum of each sequence. Triton keeps the requests of a sequence in order."""

from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Keeps one sum per sequence that is alive."""

    def initialize(self, args: dict[str, str]) -> None:  # noqa: ARG002 - the signature is Triton's
        self._sums: dict[int, Any] = {}

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Any) -> Any:
        value = pb_utils.get_input_tensor_by_name(request, "VALUE").as_numpy()
        starts = pb_utils.get_input_tensor_by_name(request, "START").as_numpy().any()
        sequence = int(pb_utils.get_input_tensor_by_name(request, "CORRID").as_numpy().flat[0])
        total = value if starts else self._sums.get(sequence, 0) + value
        if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
            self._sums.pop(sequence, None)
        else:
            self._sums[sequence] = total
        return pb_utils.InferenceResponse([pb_utils.Tensor("SUM", np.asarray(total, dtype=np.int32))])
